"""What the nodes of a pack name that a walk of the configuration doesn't follow: scripts and the MCP servers
of scripts; and how names in a file become others. Pure, but for `script_of`, which asks where a script is.

Source: spec workbench.md 17.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from Middleware.common.types import NodeConfig
from Middleware.config.validation import json_pointer
from Middleware.workflows.checks.workflow_check import node_places
from Middleware.workflows.checks.workflow_graph import known_text
from Middleware.workflows.handlers.node_types import known_type, node_handler
from Middleware.workflows.tools.dynamic_module_loader import locate

SCRIPT_FOLDER = "workflow_python_scripts"
"""Below the Public root. A script that lies elsewhere belongs to one machine."""
_PLACE = f"Public/{SCRIPT_FOLDER}"
SCRIPT_TYPE, CURL_TYPE, FETCH_TYPE = "PythonModule", "CurlCommand", "WebFetch"
_SCRIPT_KEY = "module_path"
_TOOLS, _TOOL_SCRIPT, _TOOL_SERVER = "agentTools", "python", "mcp:"
NAME_KEYS = ("preset", "presetName", "workflowName", "structuredOutputFile", _SCRIPT_KEY)
"""Keys whose texts name a file; a walk knows of endpoints."""
_FOLDER_KEY = "workflowUserFolderOverride"
_BETWEEN = re.compile(r"[,;\s]+")
"""What stands between names that a script is handed."""


# --------------------------------------------------------------------------
# Scripts.


def scripts_named(config: NodeConfig) -> Iterator[tuple[str, object]]:
    """Each place of a node that names a script: JSON pointer below the node, and what is written there."""
    if known_type(config.get("type")) == SCRIPT_TYPE:
        yield f"/{_SCRIPT_KEY}", config.get(_SCRIPT_KEY)
    for number, tool in _tools(config):
        if isinstance(tool, Mapping) and _TOOL_SCRIPT in tool:
            yield f"/{_TOOLS}/{number}/{_TOOL_SCRIPT}", tool[_TOOL_SCRIPT]


def _tools(config: NodeConfig) -> Iterator[tuple[int, object]]:
    tools = config.get(_TOOLS)
    yield from enumerate(tools if isinstance(tools, list) else ())


def script_of(name: str) -> tuple[Path, str] | None:
    """A script's file, and its name below the folder of scripts; None: it lies elsewhere.

    Raises FileNotFoundError for one that isn't there.
    """
    path = locate(name)[0]
    parts = path.parts
    if SCRIPT_FOLDER not in parts[:-1]:
        return None
    at = len(parts) - 1 - parts[::-1].index(SCRIPT_FOLDER)
    return path, "/".join(parts[at + 1 :])


def script_below(name: str) -> str | None:
    """The name below the folder of scripts of one that a pack names; None: it names another place."""
    return name.removeprefix(f"{_PLACE}/") if name.startswith(f"{_PLACE}/") else None


def script_name(below: str) -> str:
    """How a workflow names a script of the folder."""
    return f"{_PLACE}/{below}"


def imported_scripts(text: bytes) -> list[str]:
    """The names below the folder of scripts of what a script imports from there; none if it has no syntax."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    found: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    modules = [name.removeprefix("Public.").split(".") for name in found]
    return ["/".join(parts[1:]) + ".py" for parts in modules if parts[0] == SCRIPT_FOLDER and parts[1:]]


# --------------------------------------------------------------------------
# MCP servers.


def servers_named(
    config: NodeConfig, variables: Mapping[str, Any], known: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Each place of a node that names one of the `known` MCP servers: pointer below the node, the server as
    it is known.

    A script is handed names in its arguments: a text that is one, or several with commas between.
    """
    in_any_case = {name.casefold(): name for name in known}
    key = node_handler(config.get("type")).MCP_SERVER_FIELD
    named = known_text(config.get(key), variables) if key else None
    if named and (server := in_any_case.get(named.casefold())):
        yield f"/{key}", server
    for number, tool in _tools(config):
        if isinstance(tool, str) and tool.startswith(_TOOL_SERVER):
            named = tool.removeprefix(_TOOL_SERVER).partition("/")[0]
            if server := in_any_case.get(named.casefold()):
                yield f"/{_TOOLS}/{number}", server
    if known_type(config.get("type")) == SCRIPT_TYPE:
        for argument in ("args", "kwargs"):
            for pointer, text in _texts(config.get(argument), f"/{argument}"):
                for word in _BETWEEN.split(known_text(text, variables) or ""):
                    if word in known:
                        yield pointer, word


def _texts(value: Any, pointer: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield pointer, value
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _texts(item, pointer + json_pointer([str(name)]))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, f"{pointer}/{index}")


# --------------------------------------------------------------------------
# Other names.


def names_made_in_a_run(file: str, document: Any, variables: Mapping[str, Any]) -> Iterator[str]:
    """The places of names that only a run knows: a pack can't follow them."""
    own = {**variables, **(document if isinstance(document, Mapping) else {})}
    for place in node_places(file, document):
        for key in NAME_KEYS:
            written = place.config.get(key)
            if isinstance(written, str) and "{" in written and known_text(written, own) is None:
                yield f"{file}, node {place.number}, {key}: {written}"


@dataclass(frozen=True, slots=True)
class Renames:
    """Old name -> new name of MCP servers, scripts (below their folder) and folders of workflows."""

    servers: Mapping[str, str] = field(default_factory=dict)
    scripts: Mapping[str, str] = field(default_factory=dict)
    folders: Mapping[str, str] = field(default_factory=dict)

    def folder(self, named: str) -> str | None:
        """The new name of a folder below `Workflows/`, in whatever case it is named; None: it keeps its
        own.
        """
        top, slash, below = named.strip("/").partition("/")
        in_any_case = {old.casefold(): new for old, new in self.folders.items()}
        new = self.folders.get(top) or in_any_case.get(top.casefold())
        return new and new + slash + below


def edits_of(file: str, document: Any, variables: Mapping[str, Any], renames: Renames) -> dict[str, str]:
    """JSON pointer -> new text, of each place in a file below `Workflows/` that names what is renamed.

    `variables`: the user's, for all workflows.
    """
    own = {**variables, **(document if isinstance(document, Mapping) else {})}
    edits: dict[str, str] = {}
    for place in node_places(file, document):
        edits |= _edits_of_node(place.pointer, place.config, own, renames)
    return edits


def _edits_of_node(
    pointer: str, config: NodeConfig, variables: Mapping[str, Any], renames: Renames
) -> Iterator[tuple[str, str]]:
    for below, written in scripts_named(config):
        script = script_below(known_text(written, variables) or "") or ""
        if script in renames.scripts:
            yield pointer + below, script_name(renames.scripts[script])
    texts = dict(_texts(config, "")) if renames.servers else {}
    for below, server in servers_named(config, variables, renames.servers):
        known = known_text(texts[below], variables) or texts[below]
        texts[below] = _with_name(known, server, renames.servers[server])
        yield pointer + below, texts[below]
    tools = ((f"/{_TOOLS}/{number}", tool) for number, tool in _tools(config))
    for below, holder in (("", config), *tools):
        folder = known_text(holder.get(_FOLDER_KEY), variables) if isinstance(holder, Mapping) else None
        if folder and (new := renames.folder(folder)):
            yield f"{pointer}{below}/{_FOLDER_KEY}", new


def _with_name(written: str, old: str, new: str) -> str:
    """A text that names a server, with another in its place."""
    case = re.NOFLAG if old in written else re.IGNORECASE
    return re.sub(rf"(?<![\w.-]){re.escape(old)}(?![\w.-])", lambda _: new, written, flags=case)
