"""Where thoughts go."""

from __future__ import annotations

import pytest

from Middleware.workflows.streaming.response_handler import ThoughtRoute


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


@pytest.mark.parametrize(
    ("mode", "expected"), [("drop", []), ("inline", ["<think>\nlate"]), ("field", ["late"])]
)
def test_a_thought_behind_a_text(mode, expected):
    """Inline it opens a further tag."""
    route, out = ThoughtRoute(mode, {}), []
    route.think("early", [])
    route.before_text()

    route.think("late", out)

    assert [chunk.get("thinking") or chunk["token"] for chunk in out] == expected


def test_a_tag_that_was_closed_is_not_closed_again():
    route = ThoughtRoute("inline", {})
    route.think("a", [])

    assert (route.before_text(), route.before_text()) == ("\n</think>\n\n", "")


@pytest.mark.parametrize(("mode", "kept"), [("drop", False), ("field", False), ("inline", True)])
def test_order_with_the_text_matters_only_inline(mode, kept):
    assert ThoughtRoute(mode, {}).keeps_order is kept
