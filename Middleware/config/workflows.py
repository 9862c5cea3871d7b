"""Finds a workflow file: user folder, shared folder, sub-folder override, and the fallbacks for children.

Also the other files that name workflows: routing, and the settings objects in the user's workflow folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from Middleware.common.errors import ConfigError, ConfigMissing
from Middleware.config import paths
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.named_files import lost_folder
from Middleware.config.users import UserSettings
from Middleware.config.validation import errors_of, missing_nodes, nearest_file


@dataclass(frozen=True, slots=True)
class WorkflowFile:
    """One workflow as its file says. `folder`: below `Workflows/`; `file`: below the config root; all
    read-only.

    `name`: as it was asked for. `variables`: every top-level key of the object form except `nodes`.
    """

    name: str
    folder: str
    file: str
    nodes: tuple[Mapping[str, Any], ...] = field(repr=False)
    variables: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}), repr=False)


@dataclass(frozen=True, slots=True)
class Category:
    """One entry of a routing file."""

    name: str
    description: str
    workflow: str


def folders_to_try(user: UserSettings, folder: str | None, calling_folder: str | None) -> tuple[str, ...]:
    """Workflow folders in the order of the lookup. Source: workflows.md 8.3 and 16.9.

    An override stands alone. A child without one is looked for in the user's folder, in that of its caller,
    then in `_common`.
    """
    if folder:
        return (folder.rstrip("/"),)
    own = paths.workflow_folder(user)
    if calling_folder is None:
        return (own,)
    return tuple(dict.fromkeys((own, calling_folder, paths.COMMON_FOLDER)))


def load_workflow(
    snapshot: ConfigSnapshot,
    user: UserSettings,
    name: str,
    *,
    folder: str | None = None,
    calling_folder: str | None = None,
) -> WorkflowFile:
    """The workflow `name`. `folder`: an override; `calling_folder`: that of the workflow whose node names
    it.

    Raises ConfigMissing (all paths that were tried), ConfigError (the file's faults, or a path that leaves
    the tree).
    """
    tried, file = _looked_up(snapshot, user, name, folders_to_try(user, folder, calling_folder))
    if file is None:
        near = nearest_file(
            name.rpartition("/")[2], [n for path in tried for n in snapshot.files(_parent(path))]
        )
        gone = "" if near else lost_folder(snapshot, _parent(tried[0]))
        hint = f' (did you mean "{near}"?)' if near else f": {gone}" if gone else ""
        raise ConfigMissing(f'no workflow "{name}"{hint}; tried {", ".join(tried)}')
    return snapshot.derive(file, name, lambda document: workflow_of(name, file, document))


def child_file(
    snapshot: ConfigSnapshot, user: UserSettings, name: str, *, folder: str | None, calling_folder: str
) -> str | None:
    """The file of a workflow that a node names, whatever is in it; None: the name leads nowhere."""
    try:
        return _looked_up(snapshot, user, name, folders_to_try(user, folder, calling_folder))[1]
    except ConfigError:
        return None


def _looked_up(
    snapshot: ConfigSnapshot, user: UserSettings, name: str, folders: tuple[str, ...]
) -> tuple[list[str], str | None]:
    """(the files that were tried, the one that is there). Raises ConfigError."""
    tried = [paths.workflow_file(each, name) for each in folders]
    return tried, snapshot.first(tried)


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def workflow_of(name: str, file: str, document: Any) -> WorkflowFile:
    """A workflow from its file's value: a list of nodes, or an object with `nodes` and variables.

    Raises ConfigError for an object without `nodes`: that is something else.
    """
    if error := errors_of(missing_nodes(document, file)):
        raise error
    depth = name.strip("/").count("/") + 1
    folder = "/".join(file.split("/")[1:-depth])
    if isinstance(document, Mapping):
        variables = {key: value for key, value in document.items() if key != "nodes"}
        return WorkflowFile(
            name, folder, file, tuple(document.get("nodes") or ()), MappingProxyType(variables)
        )
    return WorkflowFile(name, folder, file, tuple(document))


def workflow_exists(
    snapshot: ConfigSnapshot, user: UserSettings, name: str, *, folder: str | None = None
) -> bool:
    """Whether the workflow's file is there (whatever is in it)."""
    tried = [paths.workflow_file(each, name) for each in folders_to_try(user, folder, None)]
    return snapshot.first(tried) is not None


def shared_root(snapshot: ConfigSnapshot, user: UserSettings) -> str:
    """The user's shared folder as it is spelled on disk. Raises ConfigError when two differ in case only."""
    folder = paths.shared_folder(user)
    return snapshot.find(folder) or folder


def shared_names(snapshot: ConfigSnapshot, user: UserSettings) -> list[str]:
    """The sub-folders of the user's shared folder that are listed as models, sorted. Raises ConfigError."""
    return [name for name in snapshot.folders(shared_root(snapshot, user)) if not name.startswith("_")]


def picked_folder(snapshot: ConfigSnapshot, user: UserSettings, picked: str) -> str | None:
    """The workflow folder that a name from the model field picks; None: no such workflow. Source:
    workflows.md 1.3.
    """
    if not paths.is_flat_name(picked) or picked not in snapshot.folders(shared_root(snapshot, user)):
        return None
    return f"{shared_root(snapshot, user)}/{picked}".removeprefix(f"{paths.WORKFLOWS}/")


def load_routing(snapshot: ConfigSnapshot, name: str) -> tuple[Category, ...]:
    """The categories of a routing file, in its order. Raises ConfigMissing, ConfigError."""
    wanted = paths.routing_file(name)
    file = snapshot.find(wanted)
    if file is None:
        near = nearest_file(name, snapshot.files("Routing"))
        hint = f' (did you mean "{near}"?)' if near else ""
        raise ConfigMissing(f'no routing file "{name}"{hint}; tried {wanted}')
    return snapshot.derive(
        file,
        "categories",
        lambda document: tuple(
            Category(key, value["description"], value["workflow"])
            for key, value in document.items()
            if isinstance(value, Mapping)
        ),
    )


def load_settings(snapshot: ConfigSnapshot, user: UserSettings, name: str) -> Mapping[str, Any]:
    """A settings object that the user file names (`discussionIdMemoryFileWorkflowSettings`, ...), read-only.

    Always from the user's own workflow folder. Raises ConfigMissing, ConfigError.
    """
    wanted = paths.workflow_file(paths.workflow_folder(user), name)
    file = snapshot.find(wanted)
    if file is None:
        raise ConfigMissing(f'no settings file "{name}"; tried {wanted}')
    settings: Mapping[str, Any] = snapshot.read(file)
    return MappingProxyType(dict(settings)) if isinstance(settings, Mapping) else MappingProxyType({})


def is_workflow(snapshot: ConfigSnapshot, file: str) -> bool:
    """Whether a file holds a workflow: a list, or an object with `nodes`."""
    try:
        document, error = snapshot.inspect(file)
    except ConfigMissing:  # a link that leads nowhere, or deleted since its folder was listed
        return False
    return error is None and (
        isinstance(document, list) or (isinstance(document, Mapping) and "nodes" in document)
    )


def list_workflow_files(snapshot: ConfigSnapshot, folder: str = "Workflows") -> Iterator[str]:
    """All files below Workflows/ that hold workflows: lists, and objects with `nodes`."""
    for name in snapshot.files(folder):
        if is_workflow(snapshot, f"{folder}/{name}.json"):
            yield f"{folder}/{name}.json"
    for name in snapshot.folders(folder):
        yield from list_workflow_files(snapshot, f"{folder}/{name}")
