"""Messages of a chat body -> internal messages. Pure; knows neither HTTP nor workflows.

Anything that a client may send is understood or refused with a ClientRequestError that names the field.
Source: spec frontend-api.md 7, 8.1, 8.3 and 8.5.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from typing import Any

from Middleware.common.errors import ClientRequestError
from Middleware.common.types import JsonObject, Message, Messages
from Middleware.config.users import UserSettings
from Middleware.services.answers import compact_json

logger = logging.getLogger(__name__)

_ROLES = {"developer": "system", "function": "tool"}
_TYPE_NAME = re.compile(r"[\w .:-]{1,60}")
_PREFIXES = {"user": "User: ", "assistant": "Assistant: "}


def check_messages(messages: Any, *, calls_alone: bool = True) -> list[JsonObject]:
    """The body's `messages`, checked: a list of objects with a text role, each with content.

    `calls_alone`: tool calls may stand without it.
    """
    if messages is None:
        raise ClientRequestError("'messages' is required", param="messages")
    if not isinstance(messages, list):
        raise ClientRequestError("'messages' must be a list of objects", param="messages")
    for number, message in enumerate(messages):
        if not (isinstance(message, dict) and "content" in message and isinstance(message.get("role"), str)):
            _check_message(message, f"messages[{number}]", calls_alone)
    return messages


def _check_message(message: Any, where: str, calls_alone: bool) -> None:
    if not isinstance(message, dict):
        raise ClientRequestError(f"{where} must be an object", param=where)
    if "role" not in message:
        raise ClientRequestError(f"{where} has no 'role'", param=f"{where}.role")
    if not isinstance(message["role"], str):
        raise ClientRequestError(f"{where}.role must be a string", param=f"{where}.role")
    if "content" not in message and not (calls_alone and "tool_calls" in message):
        lacks = "neither 'content' nor 'tool_calls'" if calls_alone else "no 'content'"
        raise ClientRequestError(f"{where} has {lacks}", param=f"{where}.content")


def internal_messages(messages: list[JsonObject], user: UserSettings) -> Messages:
    """Checked messages -> internal ones, with the speaker prefixes that the user's settings ask for."""
    dropped: set[str] = set()
    made = [internal_message(message, dropped) for message in messages]
    if dropped:
        logger.warning("content parts of these types were dropped: %s", type_names(dropped))
    return with_speakers(made, user)


def with_speakers(messages: Messages, user: UserSettings) -> Messages:
    """Speaker prefixes and the missing assistant turn (8.5). The list is changed and returned."""
    prefixed = user.chat_complete_add_user_assistant
    if prefixed:
        for message in messages:
            message["content"] = _PREFIXES.get(message["role"], "") + message["content"]
    wanted = user.chat_completion_add_missing_assistant_generator
    if wanted and messages and messages[-1]["role"] != "assistant":
        messages.append({"role": "assistant", "content": "Assistant:" if prefixed else ""})
    return messages


def internal_message(message: JsonObject, dropped: set[str]) -> Message:
    """One checked message -> the internal one. Types of parts that have no place are added to `dropped`."""
    role = message["role"].strip().lower()
    role, content = _ROLES.get(role, role), message.get("content")
    if len(message) == 2 and isinstance(content, str):  # role and text: nearly all of a long conversation
        return {"role": role, "content": content}
    text, images = flatten_content(content, dropped)
    made: Message = {"role": role, "content": text}
    if images := images + texts_of(message.get("images")):
        made["images"] = images
    calls = message.get("tool_calls")
    if isinstance(calls, list) and (calls := [call for call in calls if isinstance(call, dict)]):
        made["tool_calls"] = calls
    if isinstance(message.get("tool_call_id"), str):
        made["tool_call_id"] = message["tool_call_id"]
    name = message.get("name") or message.get("tool_name")
    if isinstance(name, str) and name:
        made["name"] = name
    return made


def type_names(types: Iterable[str]) -> list[str]:
    """Types of a body as a log line may name them: what is no name may hold a conversation, or a megabyte."""
    return sorted({kind if _TYPE_NAME.fullmatch(kind) else "(no name)" for kind in types})


def texts_of(value: Any) -> list[str]:
    """The texts of a list; none for anything else."""
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def text_of(value: Any) -> str:
    """A text as it is, null as empty, anything else as its JSON text."""
    if isinstance(value, str):
        return value
    return "" if value is None else compact_json(value)


def flatten_content(content: Any, dropped: set[str]) -> tuple[str, list[str]]:
    """(text, images) of a message's content. Types of parts that have no place are added to `dropped`."""
    if not isinstance(content, list):
        return text_of(content), []
    texts: list[str] = []
    images: list[str] = []
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else None
        if isinstance(part, str):
            texts.append(part)
        elif kind in ("text", "input_text", "output_text", "summary_text", "refusal"):
            texts.append(text_of(part.get("refusal" if kind == "refusal" else "text")))
        elif kind in ("image_url", "input_image", "image"):
            if image := image_of(part):
                images.append(image)
            elif part.get("file_id"):
                dropped.add(f"{kind} by file_id")
        else:
            dropped.add(str(kind))
    return "\n".join(texts), images


def image_of(part: JsonObject) -> str:
    """URL, data URI or base64 of an image part; empty when it holds none."""
    if part["type"] != "image":
        place = part.get("image_url")
        url = place.get("url") if isinstance(place, dict) else place
        return url if isinstance(url, str) else ""
    source = part.get("source")
    if not isinstance(source, dict):
        return ""
    if source.get("type") == "url":
        return source["url"] if isinstance(source.get("url"), str) else ""
    data = source.get("data")
    if source.get("type") != "base64" or not isinstance(data, str) or not data:
        return ""
    return f"data:{source.get('media_type') or 'image/png'};base64,{data}"


# --------------------------------------------------------------------------
# Which requests Open WebUI makes for itself: tool selection, and titles, tags and the like. Pure.


TOOL_SENTENCE = (
    "Your task is to choose and return the correct tool(s) "
    "from the list of available tools based on the query"
)
TOOL_ANSWER = '{"tool_calls": []}'
TASK_HEADER = "X-OpenWebUI-Task"
TASK_FIELD = "HTTP_" + TASK_HEADER.upper().replace("-", "_")
"""The same as WSGI spells it."""
TASK_START, TASK_HISTORY = "### Task:", "<chat_history>"
"""What the text of a background task begins with, and what it holds."""
EMOJI_START = "Your task is to reflect the speaker's likely facial expression through a fitting emoji."
"""What the text of the one task begins with that has another form. Source: Open WebUI's own template."""
TASK_MARKS = ((TASK_START, "chat_history"), ("likely facial expression through a fitting emoji",))
"""For each form, words that are in its JSON however that is written: no quotes, no `<`."""

_KINDS = (  # by what the text asks for, and by the key of the JSON that it wants
    ("autocompletion", re.compile("autocomplet", re.I)),
    ("follow-ups", re.compile('"follow_ups"|follow[- ]?up', re.I)),
    ("query", re.compile(r'"queries"|\bquer(?:y|ies)\b', re.I)),
    ("tags", re.compile(r'"tags"|\btags\b', re.I)),
    ("title", re.compile(r'"title"|\btitle\b', re.I)),
    ("emoji", re.compile("emoji", re.I)),
)


def is_tool_selection(messages: Any, user: UserSettings) -> bool:
    """Open WebUI's own tool picker asks, and the user wants it answered without a workflow."""
    if not user.intercept_open_web_ui_tool_requests:
        return False
    listed = messages if isinstance(messages, list) else ()
    return any(TOOL_SENTENCE in text for role, text in _texts(listed) if role == "system")


def task_of(messages: Any, header: str, stream: bool) -> str | None:
    """The kind of a background task (`title`, `tags`, ..., else `unknown`), None for an ordinary request.

    `header`: value of `TASK_HEADER`, or nothing; what it says is the kind.
    """
    if kind := header.strip():
        return kind
    if stream:
        return None
    newest_first = reversed(messages) if isinstance(messages, list) else ()
    last = next((text for role, text in _texts(newest_first) if role == "user"), "")
    last = last.lstrip()
    if last.startswith(EMOJI_START):
        return "emoji"
    if not last.startswith(TASK_START) or TASK_HISTORY not in last:
        return None
    asked = last.partition(TASK_HISTORY)[0]
    return next((kind for kind, words in _KINDS if words.search(asked)), "unknown")


def newest_text(body: JsonObject) -> str:
    """What the user wrote last, in a body of any protocol; empty where none is found."""
    said = next((body[key] for key in ("messages", "input", "prompt") if key in body), None)
    if isinstance(said, str):
        return said
    newest_first = reversed(said) if isinstance(said, list) else ()
    return next((text for role, text in _texts(newest_first) if role == "user"), "")


def _texts(messages: Iterable[Any]) -> Iterator[tuple[str, str]]:
    """(role, text) of each message."""
    for message in messages:
        if isinstance(message, dict) and isinstance(message.get("role"), str):
            yield message["role"].strip().lower(), flatten_content(message.get("content"), set())[0]


# --------------------------------------------------------------------------
# Prompts of the two text routes -> internal messages, by their `[Beg_<word>]` tags. Pure.


_TAG = re.compile(r"\[Beg_(\w+)\]")
_TAG_ROLES = {"Sys": "system", "SysMes": "systemMes", "User": "user", "Assistant": "assistant"}


def has_tags(prompt: str) -> bool:
    return _TAG.search(prompt) is not None


def tagged_messages(prompt: str) -> Messages:
    """One message a tag, contents stripped. Text before the first tag and tags of other words are dropped."""
    messages: Messages = []
    tags = list(_TAG.finditer(prompt))
    system_seen = False
    for tag, following in zip(tags, [*tags[1:], None], strict=True):
        role = _TAG_ROLES.get(tag[1])
        if role is None:
            continue
        if role == "system":
            role = "systemMes" if system_seen else "system"
            system_seen = True
        content = prompt[tag.end() : following.start() if following else len(prompt)].strip()
        messages.append({"role": role, "content": content})
    return messages


def completion_messages(prompt: Any) -> Messages:
    """`prompt` of `/v1/completions`: a text, or a list of one text. Without tags it is one user message."""
    if isinstance(prompt, list):
        if len(prompt) != 1 or not isinstance(prompt[0], str):
            raise ClientRequestError(
                "'prompt' must be one string; several prompts and token ids are not supported", param="prompt"
            )
        prompt = prompt[0]
    text = text_of(prompt)
    return tagged_messages(text) if has_tags(text) else [{"role": "user", "content": text}]


def generate_messages(system: str, prompt: str, images: list[str]) -> Messages:
    """`system`, `prompt` and `images` of `/api/generate`. The images go to the last user message."""
    whole = system + prompt
    if has_tags(whole):
        messages = tagged_messages(whole)
        if system.strip() and not has_tags(system):
            messages.insert(0, {"role": "system", "content": system.strip()})
    else:
        messages = [{"role": "user", "content": whole}] if whole else []
    if images:
        last = next((m for m in reversed(messages) if m["role"] == "user"), None)
        if last is None:
            last = {"role": "user", "content": ""}
            messages.append(last)
        last["images"] = images
    return messages
