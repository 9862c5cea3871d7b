"""Which requests Open WebUI makes for itself: tool selection, and titles, tags and the like. Pure.

Works on bodies that nobody has checked yet: what has another shape is no such request. Source:
frontend-api.md 16.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from Middleware.api.requests.chat_messages import flatten_content
from Middleware.config.users import UserSettings

TOOL_SENTENCE = (
    "Your task is to choose and return the correct tool(s) "
    "from the list of available tools based on the query"
)
TOOL_ANSWER = '{"tool_calls": []}'
TASK_HEADER = "X-OpenWebUI-Task"
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


def _texts(messages: Iterable[Any]) -> Iterator[tuple[str, str]]:
    """(role, text) of each message."""
    for message in messages:
        if isinstance(message, dict) and isinstance(message.get("role"), str):
            yield message["role"].strip().lower(), flatten_content(message.get("content"), set())[0]
