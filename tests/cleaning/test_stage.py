"""The chain, the table of rules, and how values are read from JSON objects."""

from __future__ import annotations

import pytest

from Middleware.cleaning import stage
from Middleware.cleaning.stage import FLAG, RULES, TEXT, Chain, reasoning_output, rule, text_of, texts_of


class Doubler:
    """Holds the first text until the second comes, then doubles everything; done after `life` texts."""

    def __init__(self, life=99):
        self.held, self.life, self.done, self.seen = "", life, False, []

    def feed(self, text):
        self.seen.append(text)
        if not text:
            return ""
        out, self.held = (self.held + text) * 2 if self.held else "", text if not self.held else ""
        self.life -= 1
        self.done = self.life <= 0 and not self.held
        return out

    def finish(self):
        return self.held.upper()


class TestChain:
    def test_each_stage_sees_what_the_one_before_released(self):
        first, second = Doubler(), Doubler()
        chain = Chain([first, second])

        assert [chain.feed("a"), chain.feed("b"), chain.finish()] == ["", "", "ABAB"]
        assert second.seen == ["abab", ""]

    def test_a_stage_that_is_done_is_dropped(self):
        chain = Chain([Doubler(life=2)])

        assert [chain.feed("a"), chain.feed("b"), chain.feed("c")] == ["", "abab", "c"]
        assert chain.stages == ()

    def test_the_end_passes_through_all_stages(self):
        chain = Chain([Doubler(), Doubler()])
        chain.feed("a")

        assert chain.finish() == "A"
        assert chain.feed("b") == "b"

    def test_an_empty_chain_passes_on(self):
        chain = Chain([])
        assert chain.feed("a") + chain.finish() == "a"


class TestRule:
    def test_two_rules_with_one_order_refuse_to_load(self):
        with pytest.raises(ValueError, match="'thinking_literal' and 'newcomer' have one order: 100"):

            @rule(order=100)
            def newcomer(inputs):
                return None

    def test_a_rule_stands_in_the_table(self, monkeypatch):
        monkeypatch.delitem(RULES, 999, raising=False)

        @rule(order=999)
        def newcomer(inputs):
            return None

        assert RULES.pop(999) is newcomer

    def test_its_docstring_says_what_a_key_means_that_has_no_words(self, monkeypatch):
        """The first paragraph of it, in one line."""
        monkeypatch.setattr(stage, "RULES", dict(RULES))

        @rule(order=999, node={"beLoud": FLAG, "howLoud": TEXT("In words.")})
        def newcomer(inputs):
            """Makes the answer
            loud.

            Not too loud.
            """

        assert newcomer.keys["node"]["beLoud"].description == "Makes the answer loud."
        assert newcomer.keys["node"]["howLoud"].description == "In words."

    def test_without_one_nothing_is_said(self, monkeypatch):
        monkeypatch.setattr(stage, "RULES", dict(RULES))

        @rule(order=999, node={"beLoud": FLAG})
        def newcomer(inputs):
            return None

        assert newcomer.keys["node"]["beLoud"].description == ""

    def test_two_rules_that_state_a_key_differently_refuse_to_load(self, monkeypatch):
        """Which would be a question of who is asked first."""
        monkeypatch.setattr(stage, "RULES", dict(RULES))
        said = "'thinking_literal' and 'newcomer' state the endpoint key 'removeThinking' differently"
        with pytest.raises(ValueError, match=said):

            @rule(order=999, endpoint={"removeThinking": TEXT})
            def newcomer(inputs):
                return None

        assert 999 not in stage.RULES


@pytest.mark.parametrize(
    ("value", "plain", "stripped"),
    [
        ("a", ["a"], ["a"]),
        (["a", "", " b ", 3, None, "  "], ["a", " b ", "  "], ["a", "b"]),
        (("a",), ["a"], ["a"]),
        ("", [], []),
        (None, [], []),
        ({"a": 1}, [], []),
    ],
)
def test_texts_of(value, plain, stripped):
    """A bare text is a list of one; what is no text or empty is left out."""
    assert texts_of({"key": value}, "key") == plain
    assert texts_of({"key": value}, "key", stripped=True) == stripped


@pytest.mark.parametrize(("config", "expected"), [({"key": "a"}, "a"), ({"key": None}, ""), ({}, "")])
def test_text_of(config, expected):
    assert text_of(config, "key") == expected


def test_reasoning_output_is_drop_unless_somebody_says_otherwise():
    assert reasoning_output({}, {}) == "drop"
