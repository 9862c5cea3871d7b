"""The tools of an Agent: what `agentTools` names, found, named and put in order.

Gathered once a run of the node. Knows no loop and no model. Source: spec agents.md 2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from Middleware.common.errors import ConfigError
from Middleware.services.run_trace import json_text
from Middleware.utilities.text_utils import estimate_json_tokens, estimate_tokens
from Middleware.workflows.agents.agent_tool import AgentTool, ToolFailed, ToolTimedOut
from Middleware.workflows.agents.entries import (
    LONGEST_NAME,
    Entry,
    FetchEntry,
    McpEntry,
    MemoryEntry,
    ScriptEntry,
    WorkflowEntry,
    fitting_name,
    name_faults,
    object_schema,
    read_entry,
)
from Middleware.workflows.agents.mcp_lists import list_servers
from Middleware.workflows.agents.tool_kinds import (
    fetch_tool,
    mcp_tool,
    memory_tool,
    script_tool,
    workflow_tool,
)
from Middleware.workflows.models.execution_context import ExecutionContext

__all__ = ["AgentTool", "ToolFailed", "ToolTimedOut", "client_choice", "gather_tools"]

MOST_TOOLS = 128
"""OpenAI refuses a longer list."""
MANY_TOOLS = 30
MANY_TOKENS = 6000


def gather_tools(context: ExecutionContext, *, asks_servers: bool = True) -> list[AgentTool]:
    """The tools of the node, in the order of `agentTools`, then the client's own where `allowTools` is on.

    Raises ConfigError for an entry that leads nowhere, for two tools of one name, for a name that does not
    fit, and, where `onToolError` is `raise`, when no tool is left; RequestCancelled.
    """
    listed = [_read(index, value) for index, value in enumerate(context.value("agentTools") or ())]
    for index, fault in name_faults(context.config):
        raise ConfigError(f"'agentTools' {index + 1}: {fault}")
    named = [entry.server for entry in listed if isinstance(entry, McpEntry)]
    servers = list_servers(context, named) if asks_servers else {}
    found: list[AgentTool] = []
    for entry in listed:
        found += _tools_of(context, entry, servers)
    tools = _within_limits(context, [*(own := _with_own_names(found)), *_client_tools(context, own)])
    if not tools and asks_servers and context.value("onToolError") == "raise":
        raise ConfigError("none of the tools in 'agentTools' can be used now")
    return tools


def client_choice(context: ExecutionContext) -> Any:
    """The client's `tool_choice`, where it demands a call and its tools are offered; else None. It goes with
    the first step alone."""
    choice = context.tool_choice if context.value("allowTools") and context.tools else None
    return choice if choice == "required" or isinstance(choice, dict) else None


def _read(index: int, value: Any) -> Entry:
    try:
        return read_entry(value)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"'agentTools' {index + 1} must be {error}") from None


def _tools_of(
    context: ExecutionContext, entry: Entry, servers: dict[str, list[dict[str, Any]]]
) -> list[AgentTool]:
    if isinstance(entry, McpEntry):
        offered = sorted(servers.get(entry.server, ()), key=lambda tool: str(tool["name"]))
        return [mcp_tool(context, entry.server, tool) for tool in offered if entry.takes(str(tool["name"]))]
    if isinstance(entry, WorkflowEntry):
        return [workflow_tool(context, entry)]
    if isinstance(entry, FetchEntry):
        return [fetch_tool(context, entry)]
    if isinstance(entry, ScriptEntry):
        return [script_tool(context, entry)]
    assert isinstance(entry, MemoryEntry)
    return [memory_tool(context, entry)] if context.store is not None else []


def _with_own_names(tools: Iterable[AgentTool]) -> list[AgentTool]:
    """Each tool once, and no two of one name: tools of servers give way, `<server>__<tool>`."""
    once = list({(tool.server, tool.place) if tool.server else (tool.name,): tool for tool in tools}.values())
    fitting = [replace(tool, name=fitting_name(tool.name)) if tool.server else tool for tool in once]
    count = Counter(tool.name for tool in fitting)
    taken = {tool.name for tool in fitting if not tool.server or count[tool.name] == 1}
    named: list[AgentTool] = []
    for tool in fitting:
        if tool.server and count[tool.name] > 1:
            tool = replace(tool, name=_free_name(fitting_name(f"{tool.server}__{tool.name}"), taken))
            taken.add(tool.name)
        named.append(tool)
    return named


def _free_name(name: str, taken: set[str]) -> str:
    free, number = name, 1
    while free in taken:
        number += 1
        free = f"{name[: LONGEST_NAME - len(str(number)) - 1]}_{number}"
    return free


def _client_tools(context: ExecutionContext, own: Sequence[AgentTool]) -> list[AgentTool]:
    if not context.value("allowTools") or context.tool_choice == "none":
        return []
    taken = {tool.name for tool in own}
    found: list[AgentTool] = []
    for offered in context.tools or ():
        said = offered.get("function")
        function = said if isinstance(said, dict) else {}
        name = function.get("name")
        if not isinstance(name, str) or not name:
            continue
        if name in taken:
            context.warn(f"the client's tool {name!r} is left out, because a tool of the node has its name")
            continue
        taken.add(name)
        told = str(function.get("description") or "")
        found.append(AgentTool(name, told, object_schema(function.get("parameters")), "client"))
    return found


def _within_limits(context: ExecutionContext, tools: list[AgentTool]) -> list[AgentTool]:
    if len(tools) > MOST_TOOLS:
        context.warn(f"{len(tools)} tools are too many for a model: the first {MOST_TOOLS} are offered")
        tools = tools[:MOST_TOOLS]
    tokens = sum(
        estimate_tokens(t.description) + estimate_json_tokens(json_text(t.parameters)) for t in tools
    )
    if (len(tools) > MANY_TOOLS or tokens > MANY_TOKENS) and context.snapshot.is_new(
        f"{context.place}: many tools"
    ):
        context.warn(
            f"the {len(tools)} tools take about {tokens} tokens of each prompt, and small models lose "
            "their way among so many: name fewer, for example with a pattern"
        )
    return tools
