"""The `model` field: which user and workflow, or which endpoint, it picks, and which names are on offer.

Source: spec frontend-api.md 5, operate.md 4.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import Any

from Middleware.common.asker import current_asker
from Middleware.common.errors import ClientRequestError, ConfigError, NotFound
from Middleware.common.instance_global_variables import launch_facts
from Middleware.common.request_context import RAW, target_name
from Middleware.config.endpoints import load_endpoint
from Middleware.config.loader import ConfigSnapshot, default_snapshot
from Middleware.config.offered_names import exposed_endpoints, is_exposed, load_aliases
from Middleware.config.users import UserSettings, for_plain_model, load_user, pointer_user
from Middleware.config.workflows import LATEST_TAG, chat_names, picked_folder

logger = logging.getLogger(__name__)

LATEST = f":{LATEST_TAG}"
NOBODY_TO_ASK = "this key may ask none of the users here"


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """Who answers a request. `workflow`: the shared workflow folder that was picked, None: the user's routing
    decides. `endpoint`: it answers without a workflow; empty: a workflow does. `alias`: the name as the
    client sent it, where it is an alias. `fell_back`: nobody has the name that was asked, and the user's
    default answers in its place.
    """

    user: str
    workflow: str | None = None
    endpoint: str = ""
    alias: str = ""
    fell_back: bool = field(default=False, compare=False)

    @property
    def name(self) -> str:
        """The model name of answers and lists."""
        return self.alias or target_name(self.user, self.workflow, self.endpoint)

    def settings(self, snapshot: ConfigSnapshot) -> UserSettings:
        """Those of the user, as they hold for this choice. Raises ConfigError."""
        user = load_user(snapshot, self.user)
        return for_plain_model(user) if self.endpoint else user


# --------------------------------------------------------------------------
# Whom a request may ask.


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


def askable_users(snapshot: ConfigSnapshot) -> tuple[str, ...]:
    """The users that a request may ask, in order: of those that are served the ones that its key opens.

    The one place where they can be fewer: choices, aliases, lists and facts all go by it. Decided by the
    names alone: no file of a user is read. Source: keys.md 2.
    """
    users = launch_facts().users or (single_user(snapshot),)
    asker = current_asker()
    if asker is None or asker.entry is None:
        return users
    return tuple(user for user in users if asker.entry.may_ask(user))


# --------------------------------------------------------------------------
# A name -> who answers.


def parse_model_field(value: Any, snapshot: ConfigSnapshot | None = None) -> tuple[str | None, str | None]:
    """(user, workflow folder) that a model name picks, each None when it picks none."""
    if not isinstance(value, str) or not value:
        return None, None
    return _picked(value.removesuffix(LATEST), snapshot or default_snapshot())


def _picked(name: str, snapshot: ConfigSnapshot) -> tuple[str | None, str | None]:
    left, colon, right = name.partition(":")
    if is_multi_user():
        users = askable_users(snapshot)
        if colon and left in users:
            return left, right if _has_workflow(snapshot, left, right) else None
        return (name, None) if name in users else (None, None)
    user = single_user(snapshot)
    if user not in askable_users(snapshot):
        return None, None
    if colon and _has_workflow(snapshot, user, right):
        return None, right
    return None, name if _has_workflow(snapshot, user, name) else None


def _has_workflow(snapshot: ConfigSnapshot, user: str, name: str) -> bool:
    """Whether the user's shared folder holds a folder of this name. A broken user file has none."""
    try:
        return picked_folder(snapshot, load_user(snapshot, user), name) is not None
    except ConfigError:
        return False


def find_choice(value: Any, snapshot: ConfigSnapshot) -> ModelChoice | None:
    """Who a name asks for; None: it is no name, or neither one of ours nor an alias.

    Raises NotFound for the name of an endpoint that is not exposed.
    """
    name = value.removesuffix(LATEST) if isinstance(value, str) else ""
    if not name.strip():
        return None
    own = _own_choice(name, snapshot)
    if own is not None:
        return own
    folded = name.casefold()
    for alias in load_aliases(snapshot):
        if alias.fits(folded) and (target := _target(alias.target, snapshot)):
            return replace(target, alias=value)
    return None


def is_alias(name: str, snapshot: ConfigSnapshot) -> bool:
    """Whether the name fits an alias, listed or not."""
    try:
        choice = find_choice(name, snapshot)
    except NotFound:
        return False
    return choice is not None and bool(choice.alias)


def _own_choice(name: str, snapshot: ConfigSnapshot) -> ModelChoice | None:
    """The choice of a name that is one of ours."""
    users = askable_users(snapshot)
    left, _, right = name.partition(":")
    if right.startswith(RAW) and left in users:
        choice = _raw_choice(left, right.removeprefix(RAW), snapshot)
        if choice is None:
            raise unknown_model(snapshot)
        return choice
    user, workflow = _picked(name, snapshot)
    if user is None and workflow is None:
        return ModelChoice(name) if name in users else None
    fell_back = bool(right) and workflow is None
    return ModelChoice(user or single_user(snapshot), workflow, fell_back=fell_back)


def _raw_choice(user: str, endpoint: str, snapshot: ConfigSnapshot) -> ModelChoice | None:
    """None: the endpoint is not exposed. A broken user file exposes none."""
    try:
        exposed = is_exposed(snapshot, load_user(snapshot, user), endpoint)
    except ConfigError:
        return None
    return ModelChoice(user, endpoint=endpoint) if exposed else None


def _target(name: str, snapshot: ConfigSnapshot) -> ModelChoice | None:
    """Who an alias stands for; None: nobody whom the request may ask. An alias is no target."""
    user, _, right = name.partition(":")
    if user not in askable_users(snapshot):
        return None
    if right.startswith(RAW):
        return _raw_choice(user, right.removeprefix(RAW), snapshot)
    if right and not _has_workflow(snapshot, user, right):
        return None
    return ModelChoice(user, right or None)


def choose(value: Any, snapshot: ConfigSnapshot) -> ModelChoice:
    """Who answers a request with this model name.

    Without a name the only user that can be asked does. Raises NotFound when there are users and the name is
    none of theirs, when it names an endpoint that is not exposed, or when nobody can be asked;
    ClientRequestError when there is no name and several can be asked.
    """
    choice = find_choice(value, snapshot)
    if choice is not None:
        return choice
    users = askable_users(snapshot)
    is_named = isinstance(value, str) and bool(value.strip())
    if len(users) == 1 and not (is_named and is_multi_user()):
        return ModelChoice(users[0], fell_back=is_named)
    raise unknown_model(snapshot) if is_named or not users else _missing_model(snapshot)


def choose_by_address(name: str, snapshot: ConfigSnapshot) -> ModelChoice:
    """Who answers at the address `/as/<name>`. Raises NotFound for a name that nobody has, with one user,
    too.
    """
    choice = find_choice(name, snapshot)
    if choice is None:
        raise unknown_model(snapshot)
    return choice


def unknown_model(snapshot: ConfigSnapshot) -> NotFound:
    return NotFound(_who_can_be_asked(snapshot), param="model", code="model_not_found")


def _missing_model(snapshot: ConfigSnapshot) -> ClientRequestError:
    return ClientRequestError(_who_can_be_asked(snapshot), param="model")


def _who_can_be_asked(snapshot: ConfigSnapshot) -> str:
    users = ", ".join(askable_users(snapshot))
    if not users:
        return NOBODY_TO_ASK
    return f"model must name a configured user, as 'user' or 'user:workflow'; users: {users}"


# --------------------------------------------------------------------------
# What is on offer. `address`: the name that the request's address has, "": none; then it alone counts.


def advertised_context_length(snapshot: ConfigSnapshot, address: str = "") -> int:
    """How many tokens the model of the address takes; else the single user, or the first of several.

    Raises ConfigError, NotFound.
    """
    if address:
        return context_length_of(choose_by_address(address, snapshot), snapshot)
    users = askable_users(snapshot)
    if not users:
        return UserSettings(name="").advertised_context_length
    return load_user(snapshot, users[0]).advertised_context_length


def context_length_of(choice: ModelChoice, snapshot: ConfigSnapshot) -> int:
    """How many tokens a model takes: as the user's settings say; an endpoint's own window, where it states
    one. Raises ConfigError.
    """
    user = load_user(snapshot, choice.user)
    own = load_endpoint(snapshot, user, choice.endpoint).max_context_token_size if choice.endpoint else None
    return int(own) if own is not None else user.advertised_context_length


def first_advertised_id(snapshot: ConfigSnapshot, address: str = "") -> str:
    """The first of the lists; empty: nobody can be asked. Raises NotFound for an address that nobody has."""
    return next(iter(advertised_ids(snapshot, address)), "")


def advertised_ids(snapshot: ConfigSnapshot, address: str = "") -> list[str]:
    """The ids of the model lists, in order: each user (the user's own routing), then its workflows, its
    endpoints, and the aliases that stand for any of these. Raises NotFound for an address that nobody has.
    """
    if address:
        return [choose_by_address(address, snapshot).name.removesuffix(LATEST)]
    aliases = _listed_aliases(snapshot)
    ids: list[str] = []
    for user in askable_users(snapshot):
        ids.append(user)
        ids += _names_below(snapshot, user)
        ids += [choice.alias for choice in aliases if choice.user == user]
    return ids


def _names_below(snapshot: ConfigSnapshot, user: str) -> list[str]:
    try:
        settings = load_user(snapshot, user)
        workflows = chat_names(snapshot, settings) if settings.allow_shared_workflows else []
        endpoints = exposed_endpoints(snapshot, settings)
    except ConfigError as error:
        logger.warning("the workflows of user %s cannot be listed: %s", user, error)
        return []
    return [
        *(target_name(user, name) for name in workflows),
        *(target_name(user, endpoint=name) for name in endpoints),
    ]


def _listed_aliases(snapshot: ConfigSnapshot) -> list[ModelChoice]:
    """The choices of the names in the file that a client can send as they are, each once."""
    found: dict[str, ModelChoice] = {}
    for alias in load_aliases(snapshot):
        if alias.is_pattern or alias.folded in found:
            continue
        try:
            choice = find_choice(alias.name, snapshot)
        except NotFound:
            continue
        if choice is not None and choice.alias:
            found[alias.folded] = choice
    return list(found.values())
