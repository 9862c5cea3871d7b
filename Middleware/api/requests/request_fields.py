"""The fields of a request body that are not messages: stream flag, tools, options of the answer. Pure.

Sampling fields are accepted in any type and never used: presets and workflows decide. Source: frontend-api.md
8.
"""

from __future__ import annotations

import json
import logging
import re
import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from Middleware.common.errors import ClientRequestError, ConfigError, NotFound
from Middleware.common.instance_global_variables import launch_facts
from Middleware.common.request_context import WISH_NAMES, ClientQuestion, Wish
from Middleware.common.types import JsonObject, Messages
from Middleware.config.loader import ConfigSnapshot, default_snapshot
from Middleware.config.users import load_user, pointer_user
from Middleware.config.validation import describe_value
from Middleware.config.workflows import (
    LATEST_TAG,
    ToolOffer,
    WorkflowTool,
    chat_names,
    picked_folder,
    tool_offer,
)
from Middleware.services.answers import compact_json
from Middleware.utilities.model_json import NoNumber, strict_loads
from Middleware.utilities.text_utils import estimate_json_tokens, estimate_message_tokens, sentence_of

logger = logging.getLogger(__name__)

DEEPEST = 200
"""Levels of lists and objects in a body; no client sends a tenth of it."""

_WORDS = {"true": True, "false": False}
_HOLDERS = (dict, list)


def json_body(data: bytes) -> JsonObject:
    """The body as an object, whatever its content type says. Raises ClientRequestError."""
    if not data.strip():
        raise ClientRequestError("the body is empty; send a JSON object")
    try:
        body = strict_loads(data)
    except (ValueError, RecursionError) as error:
        raise ClientRequestError(f"the body is not JSON: {_short(error)}") from error
    if not isinstance(body, dict):
        raise ClientRequestError("the body must be a JSON object")
    if _is_too_deep(body):
        raise ClientRequestError(f"the body is nested more than {DEEPEST} levels deep")
    return body


def _is_too_deep(body: JsonObject) -> bool:
    """Whoever copies or writes a value recursively is safe behind this."""
    level: list[Any] = [body]
    for _ in range(DEEPEST):
        level = [
            value
            for holder in level
            for value in (holder.values() if isinstance(holder, dict) else holder)
            if isinstance(value, _HOLDERS)
        ]
        if not level:
            return False
    return True


def _short(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at line {error.lineno}, column {error.colno}"
    if isinstance(error, UnicodeDecodeError):
        return f"it is not {error.encoding.upper()} text"
    if isinstance(error, NoNumber):
        return str(error)
    return (
        "it is nested too deeply"
        if isinstance(error, RecursionError)
        else "it contains a number that is too long"
    )


def wants_stream(body: JsonObject, default: bool) -> bool:
    """`stream`: booleans, `"true"`/`"false"` in any case, 0 and 1; anything else is the route's default."""
    value = body.get("stream")
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _WORDS.get(value.strip().lower(), default)
    return bool(value) if value in (0, 1) and isinstance(value, int | float) else default


def wants_usage(body: JsonObject) -> bool:
    """`stream_options.include_usage`."""
    options = body.get("stream_options")
    return isinstance(options, dict) and options.get("include_usage") is True


def suppresses_reasoning(body: JsonObject) -> bool:
    """`think: false` or `reasoning_effort: "none"`."""
    return body.get("think") is False or body.get("reasoning_effort") == "none"


def tools_of(body: JsonObject) -> tuple[list[JsonObject] | None, Any]:
    """(tools, tool choice); legacy `functions`, `function_call` are translated when `tools` is absent."""
    tools, choice = _objects(body.get("tools")), body.get("tool_choice")
    if tools is None and (functions := _objects(body.get("functions"))):
        tools = [{"type": "function", "function": function} for function in functions]
        choice = body.get("function_call")
        if isinstance(choice, dict):
            choice = {"type": "function", "function": choice}
    return tools, choice if isinstance(choice, str | dict) and choice else None


def _objects(value: Any) -> list[JsonObject] | None:
    """The objects of a list; None when there are none."""
    return ([item for item in value if isinstance(item, dict)] if isinstance(value, list) else []) or None


# --------------------------------------------------------------------------
# The fields of a body of which every one is known: a field too much, or of another type, is refused.
# Pure.


_TYPE_WORDS: dict[type, str] = {
    str: "a string",
    bool: "true or false",
    int: "a whole number",
    list: "a list",
    dict: "an object",
    types.NoneType: "null",
}


def typed_fields(body: JsonObject, kinds: Mapping[str, Any]) -> dict[str, Any]:
    """The value of each name of `kinds`, whose values are types: `str`, `str | None`, `list`...

    What may be null may also be absent: it is None then. Raises ClientRequestError.
    """
    for name in body:
        if name not in kinds:
            allowed = ", ".join(kinds) or "none"
            raise ClientRequestError(
                f"{describe_value(name)} is not a field of this body, allowed: {allowed}"
            )
    return {name: _fit(name, body, _types(kind)) for name, kind in kinds.items()}


def _types(kind: Any) -> tuple[type, ...]:
    return kind.__args__ if isinstance(kind, types.UnionType) else (kind,)


def _fit(name: str, body: JsonObject, kinds: tuple[type, ...]) -> Any:
    value = body.get(name)
    if value is None and types.NoneType in kinds:
        return None
    if type(value) not in kinds:
        what = describe_value(value) if name in body else "nothing"
        allowed = " or ".join(_TYPE_WORDS[kind] for kind in kinds)
        raise ClientRequestError(f"{name}: found {what}, allowed: {allowed}", param=name)
    return value


# --------------------------------------------------------------------------
# What a client asks of the model itself: sampling fields, limits, formats. Read, never checked. Pure.


_NO_LIMIT = (-1, -2)
"""What clients of local servers send as `max_tokens` when they want none."""

WishFields = Mapping[str, tuple[str, ...]]
"""Name of a wish -> the client's fields for it, `options.num_predict` for a field of a field. The first that
says something counts. Names beside `WISH_NAMES`: what no node can take, told in the log."""


def read_wishes(body: JsonObject, fields: WishFields) -> Mapping[str, Wish]:
    """The wishes of a body, read-only, in the order of `fields`."""
    found: dict[str, Wish] = {}
    for name, places in fields.items():
        for place in places:
            value = _at(body, place) if "." in place else body.get(place)
            if value is not None and _says_something(name, value):
                found[name] = Wish(value, place)
                break
    return MappingProxyType(found)


def _at(body: JsonObject, place: str) -> Any:
    value: Any = body
    for key in place.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _says_something(name: str, value: Any) -> bool:
    if value in ("", [], {}):
        return False
    if name == "response_format":
        return bool(value != {"type": "text"})
    if name == "max_tokens":
        return value not in _NO_LIMIT
    if name in WISH_NAMES:
        return True
    return bool(value) and not (name in ("n", "best_of") and value == 1)


# --------------------------------------------------------------------------
# How many tokens a question has, for the routes that only count and for streams that tell it first. Pure.


PER_MESSAGE = 8
PER_IMAGE = 1600


def count_tokens(messages: Messages, tools: Iterable[JsonObject] | None = None) -> int:
    """The estimate of internal messages (a brace in their texts counts more) and of the tools beside them."""
    total = sum(_of_message(message) for message in messages)
    listed = list(tools or ())
    return total + (estimate_json_tokens(compact_json(listed)) if listed else 0)


def _of_message(message: Any) -> int:
    total = (
        estimate_message_tokens(message["content"])
        + PER_MESSAGE
        + PER_IMAGE * len(message.get("images") or ())
    )
    if calls := message.get("tool_calls"):
        total += estimate_json_tokens(compact_json(calls))
    return int(total)


# --------------------------------------------------------------------------
# The `model` field: which user and workflow it picks, and which ids are on offer.


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


# --------------------------------------------------------------------------
# The tools that are offered, over all users, and a call of one: its arguments checked and made a
# question.


_OTHER = re.compile(r"[^A-Za-z0-9_.-]")


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """`name`: as clients know it; `user`: whose workflow runs."""

    name: str
    user: str
    tool: WorkflowTool


def offered_tools(snapshot: ConfigSnapshot, *, tell: bool = False) -> dict[str, OfferedTool]:
    """Name -> tool, in order: users as configured, folders sorted. `tell`: what is left out is logged."""
    offered: dict[str, OfferedTool] = {}
    for user in launch_facts().users or (single_user(snapshot),):
        try:
            offer = tool_offer(snapshot, load_user(snapshot, user))
        except ConfigError as error:
            if tell:
                logger.warning("the tools of user %s cannot be listed: %s", user, error)
            continue
        if tell:
            _tell(offer)
        for tool in offer.tools:
            name = f"{_OTHER.sub('_', user)}.{tool.name}" if is_multi_user() else tool.name
            if name not in offered:
                offered[name] = OfferedTool(name, user, tool)
            elif tell:
                logger.warning("a second tool named %s, of user %s, is left out", name, user)
    return offered


def _tell(offer: ToolOffer) -> None:
    for fault in (*offer.faulty, *offer.unfit):
        logger.warning("%s", fault)


def describe_tool(offered: OfferedTool) -> JsonObject:
    """Its entry in the list of tools."""
    tool = offered.tool
    return {
        "name": offered.name,
        **({"title": tool.title} if tool.title else {}),
        "description": tool.description,
        "inputSchema": {
            "type": "object",
            "properties": {one.name: dict(one.schema) for one in tool.inputs},
            "required": [one.name for one in tool.inputs if one.required],
            "additionalProperties": False,
        },
    }


def arguments_fault(tool: WorkflowTool, arguments: Any) -> str | None:
    """What is wrong with the arguments of a call, for the model that made it; None: nothing."""
    if not isinstance(arguments, Mapping):
        return "'arguments' must be an object"
    known = [one.name for one in tool.inputs]
    for name in arguments:
        if name not in known:
            return f"the tool has no input {sentence_of(repr(name))}; it has: {', '.join(known) or 'none'}"
    for one in tool.inputs:
        if one.name not in arguments:
            if one.required:
                return f"{one.name!r} is missing"
        elif why := one.fault(arguments[one.name]):
            return why
    return None


def question_of(tool: WorkflowTool, arguments: Mapping[str, Any]) -> ClientQuestion:
    """Good arguments -> one user message, and the inputs of the workflow by place."""
    texts = {one.name: _text(arguments.get(one.name, one.schema.get("default", ""))) for one in tool.inputs}
    message = tool.message
    if texts:
        places = "|".join(re.escape(name) for name in texts)
        message = re.sub(rf"\{{({places})\}}", lambda place: texts[place[1]], message)
    return ClientQuestion([{"role": "user", "content": message}], inputs=tuple(texts.values()))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else compact_json(value)
