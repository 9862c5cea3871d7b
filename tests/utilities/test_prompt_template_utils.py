"""Messages as one flat text."""

from __future__ import annotations

import pytest

from Middleware.utilities.prompt_template_utils import (
    affixes,
    arguments_text,
    call_function,
    call_name,
    format_messages,
    open_assistant_turn,
    strip_marks,
    system_turn,
    user_turn,
    with_tool_text,
)

TEMPLATE = {
    "promptTemplateUserPrefix": "<u>",
    "promptTemplateUserSuffix": "</u>",
    "promptTemplateAssistantPrefix": "<a>",
    "promptTemplateAssistantSuffix": "</a>",
    "promptTemplateSystemPrefix": "<s>",
    "promptTemplateSystemSuffix": "</s>",
    "promptTemplateSystemmesPrefix": "<n>",
    "promptTemplateEndToken": "<e>",
}


def message(role, content, **more):
    return {"role": role, "content": content, **more}


@pytest.mark.parametrize(
    ("role", "result"),
    [("user", ("<u>", "</u>")), ("systemMes", ("<n>", "")), ("tool", ("", ""))],
)
def test_affixes(role, result):
    """First letter upper, the rest lower case; absent keys are empty."""
    assert affixes(TEMPLATE, role) == result


@pytest.mark.parametrize(
    ("messages", "text"),
    [
        pytest.param([message("user", "1"), message("assistant", "2"), message("user", "3")], "<u>1</u><a>2</a><u>3</u>", id="closed"),
        pytest.param([message("user", "1"), message("assistant", "2")], "<u>1</u><a>2", id="open"),
        pytest.param([message("tool", "1")], "1", id="a-role-without-affixes"),
        pytest.param([], "", id="nothing"),
    ],
)  # fmt: skip
def test_format_messages(messages, text):
    """Without separator; a last assistant turn is left open."""
    assert format_messages(messages, TEMPLATE) == text


@pytest.mark.parametrize(
    ("result", "text"),
    [
        pytest.param(user_turn("x", TEMPLATE), "<u>x</u>", id="user"),
        pytest.param(system_turn("x", TEMPLATE), "<s>x</s>", id="system"),
        pytest.param(system_turn("", TEMPLATE), "<s></s>", id="empty-system"),
        pytest.param(system_turn("", TEMPLATE, strict=True), "", id="empty-system-strict"),
        pytest.param(system_turn("x", TEMPLATE, strict=True), "<s>x</s>", id="system-strict"),
        pytest.param(open_assistant_turn(TEMPLATE), "<a><e>", id="generation-prompt"),
        pytest.param(open_assistant_turn({}), "", id="no-template"),
    ],
)
def test_turns(result, text):
    """Single turns."""
    assert result == text


def test_strip_marks():
    """All four, also inside the content."""
    assert strip_marks("[Beg_Sys]a[Beg_User]b[Beg_Assistant]c[Beg_SysMes]d[Beg_X]") == "abcd[Beg_X]"
    assert strip_marks("plain") == "plain"


class TestToolText:
    """backends.md 14.3."""

    def test_calls_and_results(self):
        """The result is named by its call; the originals do not change."""
        call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": '{"x": 1}'}}
        messages = [
            message("assistant", "wait", tool_calls=[call, {"function": {"arguments": {"y": "é"}}}]),
            message("tool", "sun", tool_call_id="c"),
            message("tool", "r", name="other"),
            message("tool", "r"),
            message("user", "u"),
        ]
        shown = [m["content"] for m in with_tool_text(messages)]
        assert shown == [
            'wait\n[Tool Call: look] {"x": 1}\n[Tool Call: unknown] {"y": "é"}',
            "[Tool Result: look] sun",
            "[Tool Result: other] r",
            "[Tool Result: unknown_tool] r",
            "u",
        ]
        assert messages[0]["content"] == "wait"

    def test_a_call_without_text(self):
        """Stands alone; nothing is appended for missing arguments."""
        (shown,) = with_tool_text(
            [message("assistant", "", tool_calls=[{"id": "", "function": {"name": "f"}}])]
        )
        assert shown["content"] == "[Tool Call: f]"

    def test_a_call_without_function(self):
        """Malformed calls have empty parts."""
        assert (call_function({"function": 5}), call_name({}), arguments_text({})) == ({}, "unknown", "")
