"""Where thoughts go."""

from __future__ import annotations

import pytest

from Middleware.workflows.streaming.thought_route import ThoughtRoute


def sent(mode, endpoint, *thoughts):
    route, out = ThoughtRoute(mode, endpoint), []
    for thought in thoughts:
        route.think(thought, out)
    return [(chunk["token"], chunk.get("thinking")) for chunk in out], route.before_text()


@pytest.mark.parametrize(
    ("mode", "endpoint", "chunks", "closing"),
    [
        ("drop", {}, [], ""),
        ("field", {}, [("", "a"), ("", "b")], ""),
        ("inline", {}, [("<think>\na", None), ("b", None)], "\n</think>\n\n"),
        ("inline", {"startThinkTag": "[", "endThinkTag": "]"}, [("[a", None), ("b", None)], "]"),
        (
            "inline",
            {"startThinkTag": "", "endThinkTag": None},
            [("<think>\na", None), ("b", None)],
            "\n</think>\n\n",
        ),
    ],
)
def test_thoughts_one_after_another(mode, endpoint, chunks, closing):
    assert sent(mode, endpoint, "a", "", "b") == (chunks, closing)


def test_no_thought_opens_no_tag():
    assert sent("inline", {}) == ([], "")


@pytest.mark.parametrize(("mode", "expected"), [("inline", []), ("field", ["late"])])
def test_a_thought_after_the_text_has_begun(mode, expected):
    """Inline thoughts stand before the answer or nowhere."""
    route, out = ThoughtRoute(mode, {}), []

    route.before_text()
    route.think("late", out)

    assert [chunk["thinking"] for chunk in out] == expected


def test_order_matters_only_inline_and_before_the_text():
    inline, field = ThoughtRoute("inline", {}), ThoughtRoute("field", {})

    before = inline.waits_for_text
    inline.before_text()

    assert (before, inline.waits_for_text, field.waits_for_text) == (True, False, False)
