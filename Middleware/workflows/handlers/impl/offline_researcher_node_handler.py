"""The two OfflineResearcherApi nodes: a question to a local research service. They call no model themselves.

Source: spec tools.md 7.
"""

from __future__ import annotations

from typing import Any, ClassVar

from Middleware.common.types import NodeConfig
from Middleware.workflows.handlers.base import outside_fields as fields
from Middleware.workflows.handlers.base.base_workflow_node_handler import WorkflowNodeHandler
from Middleware.workflows.handlers.node_types import NODES
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.node_keys import ANY, FLAG, QUESTION, Keys, as_it_is
from Middleware.workflows.tools.offline_researcher import research

QUICK_S, DEEP_S = 240, 600
_TIMEOUT = fields.SECONDS(
    f"How many seconds to wait for the answer. Default: {QUICK_S}, or {DEEP_S} for deep research.",
    default=QUICK_S,
)


class _ResearcherNode(WorkflowNodeHandler):
    """One question to the service that the user's settings name."""

    KEYS: ClassVar[Keys] = {
        "promptToSearch": ANY("The question. Takes variables.", must=QUESTION, required=True, form="text"),
        "maxIterations": ANY(
            "How many rounds of research to do. Default: the service decides.",
            must={"type": "integer"},
            read=as_it_is,
        ),
        "timeoutSeconds": _TIMEOUT,
        "includeSources": FLAG("Adds the sources to the answer."),
    }
    MODE: ClassVar[str]

    def handle(self, context: ExecutionContext) -> str:
        prompt, rounds = context.value("promptToSearch"), context.value("maxIterations")
        question: dict[str, Any] = {"query": fields.filled_text(prompt, context.fill), "mode": self.MODE}
        if rounds is not None:
            question["max_iterations"] = rounds
        return research(
            context.user,
            question,
            timeout_s=context.value("timeoutSeconds"),
            include_sources=context.value("includeSources"),
            request_id=context.request_id,
            caller=context.place,
            trace=context.trace,
        )

    def writes(self, config: NodeConfig) -> str:
        return "asks the offline researcher to do research"

    def dry_notes(self, context: ExecutionContext) -> list[str]:
        return ["would ask the offline researcher"] if context.user.use_offline_researcher_api else []


@NODES.register("OfflineResearcherApiQuickSearch")
class OfflineResearcherApiQuickSearchNode(_ResearcherNode):
    """Asks a local research service for a quick answer."""

    PALETTE = "tools"

    MODE = "quick"


@NODES.register("OfflineResearcherApiDeepResearch")
class OfflineResearcherApiDeepResearchNode(_ResearcherNode):
    """Asks a local research service for a thorough answer, which takes minutes."""

    PALETTE = "tools"

    KEYS: ClassVar[Keys] = {**_ResearcherNode.KEYS, "timeoutSeconds": _TIMEOUT.but(default=DEEP_S)}
    MODE = "deep"
