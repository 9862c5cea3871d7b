"""An agent with a scripted model, and tools that are workflows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from Middleware.llmapis.dialects.loop_turns import refusing_thoughts
from Middleware.services.answers import WholeAnswer
from Middleware.workflows.agents.loop import without_tools, writing_calls
from Middleware.workflows.agents.mcp_lists import dead_servers
from tests.workflows.agents.tool_bench import ToolBench

PATH = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
READ = {"workflow": "Read", "name": "read_file", "description": "Reads a file", "parameters": PATH}
COUNT = {
    "workflow": "Count",
    "name": "count",
    "description": "Counts",
    "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
}
FORGOTTEN_AT_LAST = (without_tools, writing_calls, refusing_thoughts)


def call(name: str = "read_file", call_id: str = "c1", **arguments: Any) -> dict[str, Any]:
    """A call of a tool as a backend gives it."""
    return raw_call(name, json.dumps(arguments), call_id)


def raw_call(name: str, arguments: str, call_id: str = "c1") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def asks(*calls: dict[str, Any], text: str = "", **facts: Any) -> dict[str, Any]:
    """A reply of the model that calls tools."""
    return {"content": text, "tool_calls": list(calls), "finish_reason": "tool_calls", **facts}


class Bench:
    """A house with an agent. `ask` gives the answer; `sent` the turns behind the prompt of each call."""

    def __init__(self, house: Any, *, stream: bool) -> None:
        self.house, self.stream, self.model = house, stream, house.model
        self.node: dict[str, Any] = {"type": "Agent", "endpointName": "chat", "agentTools": [READ, COUNT]}
        house.workflow("Read", self.tool("text of {agent1Input}"))
        house.workflow("Count", self.tool("counted {agent1Input}"))

    @staticmethod
    def tool(text: str) -> dict[str, Any]:
        return {"type": "StringConcatenator", "strings": [text], "delimiter": ""}

    def ask(self, *replies: Any, say: Any = "hi", after: Any = (), **fields: Any) -> WholeAnswer:
        """`after`: nodes behind the agent. `fields`: of the agent."""
        tools = fields.pop("tools", None)
        choice = fields.pop("tool_choice", None)
        self.model.replies = list(replies)
        self.model.calls.clear()
        answer: WholeAnswer = self.house.ask(
            {**self.node, **fields}, *after, stream=self.stream, say=say, tools=tools, tool_choice=choice
        )
        return answer

    @property
    def sent(self) -> list[list[dict[str, Any]]]:
        return [list(asked.turns or ()) for asked in self.model.calls]

    def results(self, step: int = -1) -> list[str]:
        """The results in the turns of a call."""
        return [turn["content"] for turn in self.sent[step] if turn["role"] == "tool"]


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def bench(request, house):
    yield Bench(house, stream=request.param)
    for marked in FORGOTTEN_AT_LAST:
        marked.forget_all()


@pytest.fixture
def tool_bench(tmp_path: Path) -> ToolBench:
    dead_servers.clear()
    return ToolBench(tmp_path)
