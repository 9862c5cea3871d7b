"""The `model` field: which user and workflow it picks, and which ids are on offer.

Reads the config tree through a snapshot; decides nothing about the engine. Source: spec frontend-api.md 5.
"""

from __future__ import annotations

import logging
from typing import Any

from Middleware.common.errors import ClientRequestError, ConfigError, NotFound
from Middleware.common.instance_global_variables import launch_facts
from Middleware.config.loader import ConfigSnapshot, default_snapshot
from Middleware.config.users import load_user, pointer_user
from Middleware.config.workflows import LATEST_TAG, chat_names, picked_folder

logger = logging.getLogger(__name__)

LATEST = f":{LATEST_TAG}"


def is_multi_user() -> bool:
    return len(launch_facts().users) > 1


def single_user(snapshot: ConfigSnapshot) -> str:
    """The user of single-user mode, or the pointer's."""
    users = launch_facts().users
    return users[0] if users else pointer_user(snapshot)


def served_users() -> list[str]:
    """The configured users, or the pointer's; none when that cannot be read."""
    users = launch_facts().users
    if users:
        return list(users)
    try:
        return [pointer_user(default_snapshot())]
    except ConfigError as error:
        logger.error("%s", error)
        return []


def parse_model_field(value: Any, snapshot: ConfigSnapshot | None = None) -> tuple[str | None, str | None]:
    """(user, workflow folder) that a model name picks, each None when it picks none."""
    if not isinstance(value, str) or not value:
        return None, None
    snapshot = snapshot or default_snapshot()
    value = value.removesuffix(LATEST)
    users = launch_facts().users
    left, colon, right = value.partition(":")
    if is_multi_user():
        if colon and left in users:
            return left, right if _has_workflow(snapshot, left, right) else None
        return (value, None) if value in users else (None, None)
    user = single_user(snapshot)
    if colon and _has_workflow(snapshot, user, right):
        return None, right
    return None, value if _has_workflow(snapshot, user, value) else None


def _has_workflow(snapshot: ConfigSnapshot, user: str, name: str) -> bool:
    """Whether the user's shared folder holds a folder of this name. A broken user file has none."""
    try:
        return picked_folder(snapshot, load_user(snapshot, user), name) is not None
    except ConfigError:
        return False


def choose(value: Any, snapshot: ConfigSnapshot) -> tuple[str, str | None]:
    """(user, workflow folder) for a request.

    Raises NotFound when there are users and the name is none of theirs, ClientRequestError when there is no
    name.
    """
    user, workflow = parse_model_field(value, snapshot)
    if user is None and is_multi_user():
        users = ", ".join(launch_facts().users)
        is_named = isinstance(value, str) and value.strip()
        raise (NotFound if is_named else ClientRequestError)(
            f"model must name a configured user, as 'user' or 'user:workflow'; users: {users}",
            param="model",
            code="model_not_found" if is_named else None,
        )
    return user or single_user(snapshot), workflow


def advertised_context_length(snapshot: ConfigSnapshot) -> int:
    """How many tokens the single user, or the first of several, takes. Raises ConfigError."""
    return load_user(snapshot, single_user(snapshot)).advertised_context_length


def advertised_ids(snapshot: ConfigSnapshot) -> list[str]:
    """The ids of the model lists, in order: each user (the user's own routing), then its workflows."""
    users = launch_facts().users or (single_user(snapshot),)
    ids: list[str] = []
    for user in users:
        ids.append(user)
        ids += [f"{user}:{name}" for name in _shared_workflows(snapshot, user)]
    return ids


def _shared_workflows(snapshot: ConfigSnapshot, user: str) -> list[str]:
    try:
        settings = load_user(snapshot, user)
        return chat_names(snapshot, settings) if settings.allow_shared_workflows else []
    except ConfigError as error:
        logger.warning("the workflows of user %s cannot be listed: %s", user, error)
        return []
