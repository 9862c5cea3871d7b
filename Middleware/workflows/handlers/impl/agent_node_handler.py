"""`Agent`: a model that uses tools until it can answer. Source: spec agents.md 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from Middleware.common.types import NodeConfig
from Middleware.llmapis.call.call_arguments import CallArguments
from Middleware.workflows.agents.entries import (
    AGENT_TOOLS,
    FetchEntry,
    McpEntry,
    MemoryEntry,
    ScriptEntry,
    WorkflowEntry,
    name_faults,
    read_entries,
    schema_faults,
)
from Middleware.workflows.agents.loop import AgentLoop, first_step
from Middleware.workflows.agents.settings import AUTO, JSON, NATIVE, THINKING
from Middleware.workflows.handlers.base.base_workflow_node_handler import (
    MACHINE,
    PAGES,
    ChildName,
)
from Middleware.workflows.handlers.base.model_node_handler import ModelNodeHandler
from Middleware.workflows.handlers.node_types import NODES
from Middleware.workflows.models.execution_context import (
    AgentSteps,
    ExecutionContext,
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
from Middleware.workflows.tools.dynamic_module_loader import script_place_faults


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
    fraction=True,
)


@NODES.register("Agent")
class AgentNode(ModelNodeHandler):
    """Asks its endpoint, makes the calls of tools that the model asks for, and asks again until it answers.
    The output is the text of all steps."""

    PALETTE = "model"

    KEYS: ClassVar[Keys] = {
        "endpointName": MODEL_NODES["endpointName"].but(must=NEEDED_TEXT.must, required=True),
        "agentTools": ANY(
            "The tools that the model can use: names of MCP servers (`mcp:files`, `mcp:files/read_*`), and "
            "objects for workflows, web pages, Python scripts and memories.",
            must=AGENT_TOOLS,
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
            form="text",
        ),
        "totalTimeout": _SECONDS(
            "How many seconds the whole node can take before the model must answer. A model call is never "
            "cut off. Default: no limit."
        ),
        "maxResponseSizeInTokens": MODEL_NODES["maxResponseSizeInTokens"].but(default=2048),
    }

    def children(self, config: NodeConfig) -> list[ChildName]:
        return [
            ChildName(
                f"/agentTools/{index}/workflow",
                entry.workflow,
                entry.folder,
                len(entry.inputs),
                entry.name,
                is_tool=True,
            )
            for index, entry in read_entries(config)
            if isinstance(entry, WorkflowEntry)
        ]

    def servers(self, config: NodeConfig) -> list[tuple[str, object]]:
        return [
            (f"/agentTools/{index}", entry.server)
            for index, entry in read_entries(config)
            if isinstance(entry, McpEntry)
        ]

    def powers(self, config: NodeConfig) -> frozenset[str]:
        own = {FetchEntry: PAGES, ScriptEntry: MACHINE, MemoryEntry: MACHINE}
        return frozenset(own[type(entry)] for _, entry in read_entries(config) if type(entry) in own)

    def guides_model(self, config: NodeConfig) -> bool:
        return True

    def config_errors(self, config: NodeConfig) -> list[tuple[str, str]]:
        """Names of tools that clash or do not fit; a node without any tool."""
        if not config.get("agentTools") and not config.get("allowTools"):
            return [("agentTools", "name at least one tool, or set `allowTools`")]
        return [(f"agentTools/{index}", why) for index, why in name_faults(config)]

    def config_warnings(self, config: NodeConfig) -> list[tuple[str, str]]:
        """Schemas that are none; a field of Standard that it does not take."""
        found = [(f"agentTools/{index}", why) for index, why in schema_faults(config)]
        if config.get("structuredOutputFile"):
            found.append(("structuredOutputFile", "is not used by this node: servers refuse it beside tools"))
        return found

    def outside_faults(
        self, config: NodeConfig, known: Callable[[object], str | None]
    ) -> list[tuple[str, str, str]]:
        """Scripts that are not there, or cannot work."""
        return [
            (f"agentTools/{index}/python", level, why)
            for index, entry in read_entries(config)
            if isinstance(entry, ScriptEntry)
            for level, why in script_place_faults(entry.path)
        ]

    def writes(self, config: NodeConfig) -> str:
        tools = [entry for _, entry in read_entries(config) if isinstance(entry, McpEntry | ScriptEntry)]
        return "its model can call tools that change something" if tools else ""

    def dry_notes(self, context: ExecutionContext) -> list[str]:
        notes = []
        for _, entry in read_entries(context.config):
            if isinstance(entry, McpEntry):
                notes.append(f"would ask the MCP server {entry.server!r} for its tools ({entry.pattern})")
            elif isinstance(entry, WorkflowEntry):
                notes.append(f"its model may run the workflow {entry.workflow!r} as {entry.name}")
            else:
                notes.append(f"its model may call {entry.name}")
        return notes

    def first_call(self, context: ExecutionContext) -> CallArguments | None:
        return first_step(context, self.own_call(context))

    def handle(self, context: ExecutionContext) -> NodeResult:
        loop = AgentLoop(context, self.own_call(context))
        tool_calls: Callable[[], str] = loop.tool_calls
        steps = AgentSteps(context.value("stepText") == THINKING, tool_calls)
        return NodeStream(loop.batches(), steps=steps)
