"""What Open WebUI asks for itself (frontend-api.md 16)."""

from __future__ import annotations

import pytest

from Middleware.api.requests.chat_messages import TOOL_SENTENCE, is_tool_selection, task_of
from Middleware.config.users import UserSettings

ON = UserSettings("mira", intercept_open_web_ui_tool_requests=True)
EMOJI = (
    "Your task is to reflect the speaker's likely facial expression through a fitting emoji. Interpret ...\n\n"
    "Message: ```hi```"
)
"""The one task that Open WebUI words in another form; what follows the first sentence is the admin's."""
TASK = "### Task:\nGenerate a title.\n<chat_history>\nUSER: hi\n</chat_history>"


def said(role, content):
    return [{"role": "user", "content": "x"}, {"role": role, "content": content}]


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        (said("system", f"Tools. {TOOL_SENTENCE}!"), True),
        (said("System", [{"type": "text", "text": TOOL_SENTENCE}]), True),
        (said("user", TOOL_SENTENCE), False),
        (said("system", TOOL_SENTENCE.lower()), False),
        (said("system", TOOL_SENTENCE[:40]), False),
        (said("system", None), False),
        ("nonsense", False),
        ([3, {"role": 5}, {}], False),
    ],
    ids=["text", "list", "user", "case", "part", "null", "no-list", "odd"],
)
def test_tool_selection(messages, expected):
    """The whole sentence in a system message, case counting."""
    assert is_tool_selection(messages, ON) is expected
    assert not is_tool_selection(messages, UserSettings("mira"))


@pytest.mark.parametrize(
    ("messages", "header", "stream", "expected"),
    [
        (said("user", TASK), "", False, "title"),
        (said("user", TASK), "", True, None),
        (said("user", TASK), "title_generation", True, "title_generation"),
        (said("user", "hi"), " ", False, None),
        (said("user", "### Task: no history"), "", False, None),
        (said("assistant", TASK), "", False, None),
        (None, "", False, None),
        (said("user", EMOJI), "", False, "emoji"),
        (said("user", EMOJI), "", True, None),
        (said("user", f"He said: {EMOJI}"), "", False, None),
        (said("system", EMOJI), "", False, None),
    ],
    ids=[
        "task",
        "streamed",
        "header",
        "blank-header",
        "no-history",
        "not-the-user",
        "no-messages",
        "emoji",
        "emoji-streamed",
        "emoji-quoted",
        "emoji-not-the-user",
    ],
)
def test_background_tasks(messages, header, stream, expected):
    """By header, or by the shape of a non-streaming request's last user message."""
    assert task_of(messages, header, stream) == expected


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Generate a concise title with an emoji.", "title"),
        ("Generate 1-3 broad tags for the main themes, and more specific ones.", "tags"),
        ("Suggest 3-5 relevant follow-up questions.", "follow-ups"),
        ('Predict useful messages of the user.\n{ "follow_ups": ["...", "..."] }', "follow-ups"),
        ("Are search queries needed? Give up to three of them.", "query"),
        ("You are an autocompletion system. Go on with the text.", "autocompletion"),
        ("Reflect the speaker's face with one emoji.", "emoji"),
        ("Write a poem.", "unknown"),
    ],
)
def test_kinds_of_tasks(text, kind):
    """What the text asks for; what the quoted chat says does not count."""
    task = f"### Task:\n{text}\n<chat_history>\nUSER: a title, tags, an emoji: autocomplete my query\n</chat_history>"
    assert task_of(said("user", task), "", False) == kind
