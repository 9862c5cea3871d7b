"""`Agent`: a model that uses tools until it can answer. Source: spec agents.md 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from Middleware.common.types import NodeConfig
from Middleware.workflows.agents.loop import AgentLoop
from Middleware.workflows.agents.settings import AUTO, JSON, NATIVE, THINKING
from Middleware.workflows.handlers.base.base_workflow_node_handler import WorkflowNodeHandler
from Middleware.workflows.handlers.node_types import NODES
from Middleware.workflows.models.execution_context import (
    AgentSteps,
    ExecutionContext,
    LlmCall,
    NodeResult,
    NodeStream,
)
from Middleware.workflows.models.node_keys import (
    ANY,
    INTEGER,
    LIMIT,
    MODEL_NODES,
    NEEDED_TEXT,
    Keys,
    NodeKey,
    one_of,
    read_whole,
)


def _whole_number(most: int, **facts: Any) -> NodeKey:
    """The kind of key that holds a whole number from 1 to `most`, or a text with a placeholder."""

    def read(value: Any) -> int | None:
        number = read_whole(value)
        if number is not None and not 1 <= number <= most:
            raise ValueError(f"a whole number from 1 to {most}, not {value!r}")
        return number

    allowed = f"a whole number from 1 to {most}, or a text with a {{placeholder}}"
    return LIMIT.but(should={**LIMIT.should, "maximum": most, "x-allowed": allowed}, read=read, **facts)


def _read_seconds(value: Any) -> float | None:
    """Raises ValueError for what is no time."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not 0 < value < float("inf"):
        raise ValueError(f"a number of seconds above 0, not {value!r}")
    return float(value)


_SECONDS = INTEGER.but(
    should={
        "type": ["integer", "number", "string"],
        "pattern": r"^\s*\d+(\.\d+)?\s*$|\{",
        "exclusiveMinimum": 0,
        "x-allowed": "a number above 0, or a text with a {placeholder}",
    },
    read=_read_seconds,
)


def _entry_name(entry: Any) -> str:
    """An entry of `agentTools` in a word."""
    if not isinstance(entry, dict):
        return str(entry)
    kinds = ("name", "workflow", "python")
    return str(next((entry[kind] for kind in kinds if entry.get(kind)), next(iter(entry), "")))


@NODES.register("Agent")
class AgentNode(WorkflowNodeHandler):
    """Asks its endpoint, makes the calls of tools that the model asks for, and asks again until it answers.
    The output is the text of all steps."""

    KEYS: ClassVar[Keys] = {
        "endpointName": MODEL_NODES["endpointName"].but(must=NEEDED_TEXT.must, required=True),
        "agentTools": ANY(
            "The tools that the model can use: names of MCP servers (`mcp:files`, `mcp:files/read_*`), and "
            "objects for workflows, web pages, Python scripts and memories.",
            must={"type": "array"},
            empty=(),
        ),
        "maxSteps": _whole_number(100)(
            "How many times the model can be asked while it may use tools. After that it must answer. "
            "Default: {default}.",
            default=8,
        ),
        "maxToolCalls": _whole_number(1000)(
            "How many calls of tools are made in all. After that the model must answer. Default: {default}.",
            default=32,
        ),
        "maxParallelToolCalls": _whole_number(16)(
            "How many calls of one step run at the same time. Default: {default}.", default=4
        ),
        "toolTimeout": _SECONDS(
            "How many seconds one call can take. An entry of `agentTools` can have a `timeout` of its own. "
            "Default: {default}.",
            default=30.0,
        ),
        "maxToolResultTokens": LIMIT(
            "The largest result that the model gets, in tokens. The middle of a longer one is left out. "
            "Default: {default}.",
            default=2000,
        ),
        "onToolError": one_of("tell", "raise")(
            "With `tell`, the model reads that a call failed. With `raise`, a failed call fails the node. "
            "Default: {default}.",
            default="tell",
        ),
        "toolCalling": one_of(AUTO, NATIVE, JSON)(
            "How the model calls tools. `native`: by its API. `json`: by JSON in its text, for models that "
            "can't do that. `auto`: natively where the endpoint can. Default: {default}.",
            default=AUTO,
        ),
        "stepText": one_of("answer", THINKING)(
            "Where text goes that the model writes beside its calls: into the `answer`, or to its thoughts "
            "(`thinking`). Default: {default}.",
            default="answer",
        ),
        "totalTimeout": _SECONDS(
            "How many seconds the whole node can take before the model must answer. A model call is never "
            "cut off. Default: no limit."
        ),
        "maxResponseSizeInTokens": MODEL_NODES["maxResponseSizeInTokens"].but(default=2048),
    }
    CALLS_MODEL = True

    def takes_pictures(self, config: NodeConfig) -> bool:
        return bool(config.get("acceptImages"))

    def _call(self, context: ExecutionContext) -> LlmCall:
        return LlmCall(
            llm_takes_images=self.takes_pictures(context.config),
            max_images=context.value("maxImagesToSend"),
            for_agent=True,
        )

    def dry_notes(self, context: ExecutionContext) -> list[str]:
        context.dispatch(self._call(context))  # shows the prompt of the first step
        offered = ", ".join(map(_entry_name, context.value("agentTools"))) or "none of its own"
        return [f"would offer its model these tools, and call those that it asks for: {offered}"]

    def handle(self, context: ExecutionContext) -> NodeResult:
        loop = AgentLoop(context, self._call(context))
        tool_calls: Callable[[], str] = loop.tool_calls
        steps = AgentSteps(context.value("stepText") == THINKING, tool_calls)
        return NodeStream(loop.batches(), steps=steps)
