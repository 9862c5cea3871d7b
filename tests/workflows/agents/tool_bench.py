"""An Agent on the bench: its tools are gathered in a context whose engine records what it was asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from Middleware.common.request_context import ClientQuestion, RequestContext, enter_request
from Middleware.config.loader import ConfigTree
from Middleware.config.users import UserSettings
from Middleware.config.workflows import WorkflowFile
from Middleware.services.discussion_store import DiscussionStore
from Middleware.workflows.agents.agent_tool import AgentTool
from Middleware.workflows.agents.tools import gather_tools
from Middleware.workflows.handlers.node_types import node_handler
from Middleware.workflows.models.execution_context import ExecutionContext
from tests.workflows.handlers.conftest import FakeContext, FakeEngine


class ToolBench:
    """`tools(*entries)` gathers; `files`: of the config tree. What the node is told lies in `engine`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.engine = folder, FakeEngine()
        self.user = UserSettings("ana")
        self.facts: dict[str, Any] = {}
        self.asked: dict[str, Any] = {}
        self.has_discussion = False

    def write(self, file: str, text: str) -> Path:
        path = self.folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        return path

    def context(self, *entries: Any, **fields: Any) -> ExecutionContext:
        store = DiscussionStore(self.folder / "discussions", "d") if self.has_discussion else None
        snapshot = ConfigTree(self.folder).snapshot()
        context = FakeContext(
            engine=self.engine,
            request=RequestContext("r1", "ana", "openaichatcompletion", snapshot=snapshot),
            user=self.user,
            snapshot=snapshot,
            workflow_file=WorkflowFile("Main", "ana", "Workflows/ana/Main.json", (), {}),
            workflow_id="w1",
            question=ClientQuestion([{"role": "user", "content": "hi"}], **self.asked),
            node_number=1,
            config={"type": "Agent", "agentTools": list(entries), **fields},
            messages=[{"role": "user", "content": "hi"}],
            keys=node_handler("Agent").ALL_KEYS,
            store=store,
        )
        return replace(context, **self.facts)

    def tools(self, *entries: Any, **fields: Any) -> list[AgentTool]:
        context = self.context(*entries, **fields)
        with enter_request(context.request):
            return gather_tools(context)

    def tool(self, entry: Any, **fields: Any) -> AgentTool:
        (tool,) = self.tools(entry, **fields)
        return tool
