"""The entries of `agentTools`, as values, and what of them is wrong before anybody is asked. Pure.

Server, workflow and script come from the file alone: nothing in an entry is filled. Source: spec agents.md 2.
"""

from __future__ import annotations

import fnmatch
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, TypeAlias

from Middleware.common.types import NodeConfig
from Middleware.config.keys import Shape
from Middleware.config.validation import is_unsound

TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
LONGEST_NAME = 64
MCP_PREFIX = "mcp:"
FETCH_NAME = "fetch_page"
MEMORY_NAME = "search_memory"

NAME_ALLOWED = "letters, digits, _ and -, at most 64"
ENTRY_ALLOWED = (
    '"mcp:SERVER", "mcp:SERVER/PATTERN", or an object with one of `workflow`, `fetch`, `python`, `memory`'
)
_TEXT: Shape = {"type": "string", "minLength": 1}
_COMMON: Shape = {
    "name": {"type": "string"},
    "description": {"type": "string"},
    "parameters": {},
    "timeout": {"type": "number", "exclusiveMinimum": 0},
}
_OBJECT: Shape = {
    "type": "object",
    "properties": {
        **_COMMON,
        "workflow": _TEXT,
        "inputs": {"type": "array", "items": {"type": "string"}},
        "workflowUserFolderOverride": {"type": "string"},
        "fetch": {
            "type": "object",
            "properties": {
                "allowedHosts": {"type": "array", "minItems": 1, "items": _TEXT},
                "maxTokens": {"type": "integer", "minimum": 1},
            },
            "additionalProperties": False,
        },
        "python": _TEXT,
        "memory": {"enum": ["vector"]},
    },
    "additionalProperties": False,
}
KINDS = ("workflow", "fetch", "python", "memory")
AGENT_TOOLS: Shape = {
    "type": "array",
    "items": {
        "x-allowed": ENTRY_ALLOWED,
        "type": ["string", "object"],
        "if": {"type": "object"},
        "then": {
            **_OBJECT,
            "oneOf": [{"required": [kind]} for kind in KINDS],
            "x-allowed": ENTRY_ALLOWED,
        },
        "else": {"type": "string", "pattern": r"^mcp:[^/]+(/.+)?$", "x-allowed": ENTRY_ALLOWED},
    },
}
"""JSON Schema of `agentTools`."""


@dataclass(frozen=True, slots=True)
class McpEntry:
    """Tools of a server. `pattern`: what their names fit (`*`, `?`)."""

    server: str
    pattern: str = "*"

    def takes(self, tool: str) -> bool:
        return fnmatch.fnmatchcase(tool, _without_classes(self.pattern))


@dataclass(frozen=True, slots=True)
class WorkflowEntry:
    """A workflow as a tool. `inputs`: the parameters that become `agent1Input`, `agent2Input`, ..."""

    workflow: str
    name: str
    description: str
    parameters: dict[str, Any] = field(repr=False)
    inputs: tuple[str, ...]
    folder: str | None = None
    timeout_s: float | None = None

    def inputs_of(self, arguments: Mapping[str, Any]) -> list[Any]:
        """The argument values in the order of `inputs`; a missing one is its schema's `default`, else ""."""
        known = self.parameters["properties"]
        return [
            arguments[name] if name in arguments else _default_of(known.get(name)) for name in self.inputs
        ]


@dataclass(frozen=True, slots=True)
class FetchEntry:
    """Reads a page. `allowed_hosts`: None: any public address. `max_tokens`: None: as other results."""

    name: str = FETCH_NAME
    allowed_hosts: tuple[str, ...] | None = None
    max_tokens: int | None = None
    description: str = ""
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True)
class ScriptEntry:
    """`Invoke` of a script."""

    path: str
    name: str
    description: str
    parameters: dict[str, Any] = field(repr=False)
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True)
class MemoryEntry:
    """Searches the memories of the discussion."""

    name: str = MEMORY_NAME
    description: str = ""


Entry: TypeAlias = McpEntry | WorkflowEntry | FetchEntry | ScriptEntry | MemoryEntry


def read_entry(value: Any) -> Entry:
    """The entry that a value of the list is. Raises ValueError with what is allowed."""
    if isinstance(value, str):
        return _mcp_entry(value)
    kinds = [kind for kind in KINDS if isinstance(value, Mapping) and value.get(kind) is not None]
    if len(kinds) != 1:
        raise ValueError(ENTRY_ALLOWED)
    kind, said = kinds[0], value[kinds[0]]
    timeout, told = value.get("timeout"), str(value.get("description") or "")
    if kind == "fetch":
        return _fetch_entry(value, said)
    if kind == "memory":
        if said != "vector":
            raise ValueError('`"memory": "vector"`')
        return MemoryEntry(_name_of(value, MEMORY_NAME), told)
    if not isinstance(said, str) or not said:
        raise ValueError(f"`{kind}` with a name")
    name, parameters = _name_of(value, PurePosixPath(said).stem), object_schema(value.get("parameters"))
    if kind == "python":
        return ScriptEntry(said, name, told, parameters, timeout)
    inputs = value.get("inputs")
    order = tuple(parameters["properties"] if inputs is None else inputs)
    folder = value.get("workflowUserFolderOverride") or None
    return WorkflowEntry(said, name, told, parameters, order, folder, timeout)


def read_entries(config: NodeConfig) -> list[tuple[int, Entry]]:
    """The entries of a node that can be read, each with its place in the list; for checks."""
    listed = config.get("agentTools")
    found: list[tuple[int, Entry]] = []
    for index, value in enumerate(listed if isinstance(listed, list) else ()):
        try:
            found.append((index, read_entry(value)))
        except (ValueError, TypeError):
            continue
    return found


def name_faults(config: NodeConfig) -> Iterator[tuple[int, str]]:
    """(index of the entry, what is wrong with the name of its tool): it is taken, or does not fit."""
    named = [(index, entry.name) for index, entry in read_entries(config) if not isinstance(entry, McpEntry)]
    count = Counter(name for _, name in named)
    seen: set[str] = set()
    for index, name in named:
        if not TOOL_NAME.fullmatch(name):
            yield index, f"the name of a tool, {name!r}, has other signs than {NAME_ALLOWED}: set `name`"
        elif count[name] > 1 and name in seen:
            yield index, f"two tools are named {name!r}: set another `name`"
        seen.add(name)


def schema_faults(config: NodeConfig) -> Iterator[tuple[int, str]]:
    """(index of the entry, what can hardly be meant with its parameters)."""
    for index, entry in read_entries(config):
        if not isinstance(entry, WorkflowEntry | ScriptEntry):
            continue
        said = config["agentTools"][index].get("parameters", {})
        is_object = isinstance(said, Mapping) and said.get("type", "object") == "object"
        if not is_object or is_unsound(entry.parameters):
            yield index, f"`parameters` of {entry.name!r} is no JSON Schema of an object"
        elif isinstance(entry, WorkflowEntry):
            strangers = [name for name in entry.inputs if name not in entry.parameters["properties"]]
            if strangers:
                yield index, f"`inputs` of {entry.name!r} names {strangers[0]!r}, which is no parameter"


def object_schema(schema: Any) -> dict[str, Any]:
    """A schema of parameters as models are told it: one that is no object counts as an empty one."""
    known = dict(schema) if isinstance(schema, Mapping) else {"type": "object"}
    if not isinstance(known.get("properties"), Mapping):
        known["properties"] = {}
    return known


def fitting_name(name: str) -> str:
    """A name of a tool as a model may be told it."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:LONGEST_NAME] or "_"


def _mcp_entry(text: str) -> McpEntry:
    server, slash, pattern = text.removeprefix(MCP_PREFIX).partition("/")
    if not text.startswith(MCP_PREFIX) or not server or (slash and not pattern):
        raise ValueError(ENTRY_ALLOWED)
    return McpEntry(server, pattern or "*")


def _fetch_entry(value: Mapping[str, Any], said: Any) -> FetchEntry:
    if not isinstance(said, Mapping):
        raise ValueError('`"fetch": {...}`')
    hosts = said.get("allowedHosts")
    if hosts is not None and not (
        isinstance(hosts, list) and hosts and all(isinstance(h, str) for h in hosts)
    ):
        raise ValueError("`allowedHosts` with at least one host name")
    return FetchEntry(
        _name_of(value, FETCH_NAME),
        None if hosts is None else tuple(host.strip().lower() for host in hosts),
        said.get("maxTokens"),
        str(value.get("description") or ""),
        value.get("timeout"),
    )


def _name_of(value: Mapping[str, Any], default: str) -> str:
    return str(value.get("name") or default)


def _default_of(schema: Any) -> Any:
    return schema.get("default", "") if isinstance(schema, Mapping) else ""


def _without_classes(pattern: str) -> str:
    """Only `*` and `?` mean something."""
    return pattern.replace("[", "[[]")
