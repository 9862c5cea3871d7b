"""The two OfflineResearcherApi nodes: a question to a local research service. They call no model themselves.

Source: spec tools.md 7.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from Middleware.common.errors import ConfigError
from Middleware.workflows.handlers.base import outside_fields as fields
from Middleware.workflows.handlers.base.base_workflow_node_handler import FLAG, Schema, WorkflowNodeHandler
from Middleware.workflows.handlers.node_types import NODES
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.tools.offline_researcher import research


class _ResearcherNode(WorkflowNodeHandler):
    """One question to the service that the user's settings name."""

    FIELDS: ClassVar[Mapping[str, str]] = {
        "promptToSearch": "The question. Takes variables.",
        "maxIterations": "How many rounds of research to do. Default: the service decides.",
        "timeoutSeconds": "How many seconds to wait for the answer. Default: 240, or 600 for deep research.",
        "includeSources": "Adds the sources to the answer.",
    }
    SCHEMA: ClassVar[Schema] = {
        "properties": {
            "promptToSearch": {"type": ["string", "number", "boolean", "array", "object"]},
            "maxIterations": {"type": "integer"},
            "timeoutSeconds": fields.POSITIVE,
        },
        "required": ["promptToSearch"],
    }
    ADVICE: ClassVar[Schema] = {"properties": {"includeSources": FLAG}}
    MODE: ClassVar[str]
    TIMEOUT_S: ClassVar[float]

    def handle(self, context: ExecutionContext) -> str:
        config = context.config
        prompt, rounds = config.get("promptToSearch"), config.get("maxIterations")
        if prompt is None:
            raise ConfigError(f"a {config.get('type')} needs a 'promptToSearch'")
        question: dict[str, Any] = {"query": fields.filled_text(prompt, context.fill), "mode": self.MODE}
        if rounds is not None:
            question["max_iterations"] = rounds
        return research(
            context.user,
            question,
            timeout_s=fields.seconds(config, "timeoutSeconds", self.TIMEOUT_S) or self.TIMEOUT_S,
            include_sources=bool(config.get("includeSources")),
            request_id=context.request_id,
            caller=fields.place(context),
            trace=context.trace,
        )

    def dry_notes(self, context: ExecutionContext) -> list[str]:
        return ["would ask the offline researcher"] if context.user.use_offline_researcher_api else []


@NODES.register("OfflineResearcherApiQuickSearch")
class OfflineResearcherApiQuickSearchNode(_ResearcherNode):
    """Asks a local research service for a quick answer."""

    MODE = "quick"
    TIMEOUT_S = 240.0


@NODES.register("OfflineResearcherApiDeepResearch")
class OfflineResearcherApiDeepResearchNode(_ResearcherNode):
    """Asks a local research service for a thorough answer, which takes minutes."""

    MODE = "deep"
    TIMEOUT_S = 600.0
