"""The names that exist for a user, for the completion of the editor: endpoints, presets, workflows and so on.

Reads names of files alone, but for endpoints, whose preset type says where presets lie. Source: spec
console.md 9.5.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from Middleware.api.console.view_contract import ApiRoute, Ask, ViewRefused
from Middleware.common.errors import ConfigError
from Middleware.config import paths
from Middleware.config.endpoints import endpoint_names, load_endpoint
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.users import UserSettings, load_user
from Middleware.config.workflows import folders_to_try

_ANY = "any"
"""Stands for a name, where only the folders of it are wanted."""


def names(ask: Ask) -> Mapping[str, list[str]]:
    """GET `names?user=&path=`: `{"endpoints","presets","workflows","structured_outputs",...}`, each sorted.

    `user`: one that is served, else the first. `path`: the file that names them. Raises Refused, ConfigError.
    """
    words = ask.words("user", "path")
    served = ask.hub.served_users()
    user = words["user"] or (served[0] if served else "")
    if user not in served:
        raise ViewRefused(404, "no such user is served here")
    snapshot = ask.hub.snapshot()
    return names_for(snapshot, load_user(snapshot, user), words["path"])


def names_for(snapshot: ConfigSnapshot, user: UserSettings, path: str) -> Mapping[str, list[str]]:
    """What can be named in a file of this user, each list sorted and without repeats."""
    endpoints = endpoint_names(snapshot, paths.endpoint_folder(user))
    return {
        "endpoints": endpoints,
        "presets": _files(snapshot, _preset_folders(snapshot, user, endpoints)),
        "workflows": _files(snapshot, _workflow_folders(user, path)),
        "structured_outputs": _files(snapshot, map(_parent, paths.structured_output_files(user, _ANY))),
        "prompt_templates": snapshot.files("PromptTemplates"),
        "mcp_servers": snapshot.files("MCPServers"),
        "api_types": snapshot.files("ApiTypes"),
        "variables": sorted(user.user_wide_workflow_variables),
    }


def _workflow_folders(user: UserSettings, path: str) -> Iterable[str]:
    """Where a node of the file `path` finds its children."""
    folder = _parent(path.removeprefix(f"{paths.WORKFLOWS}/"))
    return (f"{paths.WORKFLOWS}/{each}" for each in folders_to_try(user, None, folder) if each)


def _preset_folders(snapshot: ConfigSnapshot, user: UserSettings, endpoints: Iterable[str]) -> Iterable[str]:
    """Those of the preset types of the user's endpoints; an endpoint that cannot be read has none."""
    kinds: dict[str, None] = {}
    for name in endpoints:
        try:
            kinds[load_endpoint(snapshot, user, name).preset_type] = None
        except ConfigError:
            continue
    return (_parent(file) for kind in kinds for file in paths.preset_files(user, kind, _ANY))


def _files(snapshot: ConfigSnapshot, folders: Iterable[str]) -> list[str]:
    return sorted({name for folder in folders if _stays(folder) for name in snapshot.files(folder)})


def _stays(folder: str) -> bool:
    """Whether a folder lies in the tree: the path of a question may say anything."""
    return all(paths.is_flat_name(part) for part in folder.split("/"))


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


NAME_ROUTES = (ApiRoute("GET", "names", "look", names),)
