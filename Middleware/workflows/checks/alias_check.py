"""What `ModelAliases.json` names: targets that nobody has, lines that no name of a client reaches.

Reads files and runs nothing. Source: spec operate.md 4.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from Middleware.common.errors import ConfigError
from Middleware.common.request_context import RAW
from Middleware.config import paths
from Middleware.config.endpoints import endpoint_names, ensure_generates, load_endpoint
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.offered_names import Alias, load_aliases
from Middleware.config.users import UserSettings, load_user, user_names
from Middleware.config.validation import (
    ERROR,
    WARNING,
    Finding,
    json_pointer,
    nearest,
    nearest_file,
)
from Middleware.config.workflows import LATEST_TAG, picked_folder, shared_names

_LATEST = f":{LATEST_TAG}"


def alias_findings(snapshot: ConfigSnapshot, users: Collection[str] | None = None) -> Iterator[Finding]:
    """An error for each target that no user file or folder has, a warning for each line that never counts.

    `users`: the names that are served; lines of others are left out, as they count elsewhere. None: all.
    """
    known = user_names(snapshot)
    above: list[Alias] = []
    for alias in load_aliases(snapshot):
        owner = alias.target.partition(":")[0]
        if users is not None and owner not in users and _is_among(owner, known):
            continue
        pointer = json_pointer([alias.name])
        if why := _lost_target(snapshot, alias.target):
            yield Finding(paths.ALIASES_FILE, pointer, ERROR, why)
        elif why := _never_reached(snapshot, alias, above):
            yield Finding(paths.ALIASES_FILE, pointer, WARNING, why)
        above.append(alias)


def _lost_target(snapshot: ConfigSnapshot, target: str) -> str:
    """Why nobody can answer for a target; "": somebody can."""
    name, _, right = target.partition(":")
    known = user_names(snapshot)
    if not _is_among(name, known):
        return f"there is no user {name!r}{_hint(nearest_file(name, known))}"
    try:
        user = load_user(snapshot, name)
    except ConfigError:  # told at that file
        return ""
    if right.startswith(RAW):
        return _lost_endpoint(snapshot, user, right.removeprefix(RAW))
    return _lost_workflow(snapshot, user, right) if right else ""


def _lost_workflow(snapshot: ConfigSnapshot, user: UserSettings, name: str) -> str:
    try:
        if picked_folder(snapshot, user, name) is not None:
            return ""
        near = nearest(name, shared_names(snapshot, user))
    except ConfigError as error:
        return error.message
    return f"there is no folder {name!r} in {user.shared_folder}{_hint(near)}"


def _lost_endpoint(snapshot: ConfigSnapshot, user: UserSettings, name: str) -> str:
    exposed = user.expose_endpoints
    names = endpoint_names(snapshot, paths.endpoint_folder(user)) if exposed is True else exposed or ()
    if name not in names:
        hint = _hint(nearest(name, list(names)))
        return f"user {user.name!r} does not expose an endpoint {name!r} (`exposeEndpoints`){hint}"
    return _cannot_answer(snapshot, user, name)


def _cannot_answer(snapshot: ConfigSnapshot, user: UserSettings, name: str) -> str:
    """Why an endpoint is no plain model; "": it is one, or its own file has faults that are told there."""
    try:
        ensure_generates(load_endpoint(snapshot, user, name))
    except ConfigError as error:
        own = next(filter(snapshot.exists, paths.endpoint_files(user, name)), "")
        return error.message if error.file == own or not own else ""
    return ""


def _never_reached(snapshot: ConfigSnapshot, alias: Alias, above: list[Alias]) -> str:
    if not alias.name.strip():
        return "never counts, because an empty name fits no line"
    if alias.name.endswith(_LATEST):
        return f"never counts, because names are compared without {_LATEST!r}"
    if not alias.is_pattern and _is_among(alias.name, user_names(snapshot)):
        return "is also the name of a user, and users come before aliases"
    owner = alias.target.partition(":")[0]
    for one in above:
        if one.target.partition(":")[0] == owner and one.fits(alias.folded):
            return f'never counts, because "{one.name}" above it fits the same names'
    return ""


def _is_among(user: str, known: Collection[str]) -> bool:
    """Whether there is a file of this user; its name has no capitals."""
    return user.lower() in (name.lower() for name in known)


def _hint(near: str | None) -> str:
    return f" (did you mean {near!r}?)" if near else ""
