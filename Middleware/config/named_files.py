"""Files that a name leads to: found among the places where they may lie, and read.

A name that leads nowhere is a ConfigMissing with the paths that were tried and the nearest name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from Middleware.common.errors import ConfigMissing
from Middleware.config import paths
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.users import UserSettings
from Middleware.config.validation import nearest_file


def _missing(what: str, name: str, tried: Sequence[str], known: Sequence[str]) -> ConfigMissing:
    """`no endpoint "smal-model" in Endpoints/lan (did you mean "small-model"?); tried ...`."""
    near = nearest_file(name, known)
    hint = f' (did you mean "{near}"?)' if near else ""
    folder = tried[0].rpartition("/")[0]
    return ConfigMissing(f'no {what} "{name}" in {folder}{hint}; tried {", ".join(tried)}')


def lost_folder(snapshot: ConfigSnapshot, folder: str) -> str:
    """`there is no folder Endpoints/lna (did you mean "lan"?)`; "" when it is there, or one of all trees."""
    if "/" not in folder or snapshot.find(folder):
        return ""
    above, _, name = folder.rpartition("/")
    near = nearest_file(name, snapshot.folders(above))
    return f"there is no folder {folder}" + (f' (did you mean "{near}"?)' if near else "")


def find_first(snapshot: ConfigSnapshot, what: str, name: str, tried: Sequence[str]) -> str:
    """The first path that exists. Raises ConfigMissing."""
    file = snapshot.first(tried)
    if file is None:
        folders = [path.rpartition("/")[0] for path in tried]
        gone = lost_folder(snapshot, folders[-1])
        if gone:
            raise ConfigMissing(f'no {what} "{name}": {gone}; tried {", ".join(tried)}')
        known = {n.removesuffix(paths.EXAMPLE): None for folder in folders for n in snapshot.files(folder)}
        raise _missing(what, name, tried, list(known))
    return file


def load_prompt_template(snapshot: ConfigSnapshot, name: str | None) -> Mapping[str, str]:
    """The object of a prompt template; no name: an empty one (all marks are empty). Raises ConfigMissing."""
    if not name:
        return MappingProxyType({})
    document = snapshot.read(
        find_first(snapshot, "prompt template", name, (paths.prompt_template_file(name),))
    )
    return MappingProxyType(document)


def load_structured_schema(snapshot: ConfigSnapshot, user: UserSettings, name: str) -> dict[str, Any]:
    """The JSON Schema that `structuredOutputFile` names: a non-empty object. Raises ConfigMissing,
    ConfigError.
    """
    tried = paths.structured_output_files(user, name)
    schema: dict[str, Any] = snapshot.read(find_first(snapshot, "structured output schema", name, tried))
    return schema


def load_mcp_server(snapshot: ConfigSnapshot, name: str) -> Mapping[str, Any]:
    """The object of `MCPServers/<name>.json`, `${ENV:NAME}` not replaced yet. Raises ConfigMissing,
    ConfigError.
    """
    server: Mapping[str, Any] = snapshot.read(
        find_first(snapshot, "MCP server", name, (paths.mcp_server_file(name),))
    )
    return server
