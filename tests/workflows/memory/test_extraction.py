"""Memories out of replies. Source: spec memory.md 7.5, 18.2 (8)."""

from __future__ import annotations

import json

import pytest

from Middleware.workflows.memory.extraction import extract

FACT = {"title": "Debt", "summary": "Theo owes.", "entities": ["Theo"], "key_phrases": ["debt"]}
TEXT = json.dumps(FACT)


class TestFinding:
    """Where the JSON stands."""

    @pytest.mark.parametrize(
        "reply",
        [
            TEXT,
            f"[{TEXT}]",
            f"Here you are:\n```json\n{TEXT}\n```\nDone {{really}}.",
            f"```\n[{TEXT}]\n```",
            f"```text\nno\n```\n```JSON\n{TEXT}\n```",
            f"I found {{one}} thing [1]: {TEXT} and no more.",
            f"[not json] {TEXT}",
            f"[] or rather {TEXT}",
        ],
        ids=range(8),
    )
    def test_one_fact_is_found(self, reply):
        """In a fence, bare, or in the middle of a text."""
        assert extract(reply).memories == [FACT]

    @pytest.mark.parametrize(
        "reply",
        [f"[{TEXT}, {TEXT}]", f"{TEXT}\n{TEXT}", f"{TEXT},{TEXT}; [1]", f"{TEXT} {TEXT} {{"],
        ids=range(4),
    )
    def test_several_facts_are_found(self, reply):
        """An array, or objects in a row."""
        assert extract(reply).memories == [FACT, FACT]

    @pytest.mark.parametrize("reply", ["[]", " ```json\n[]\n``` "])
    def test_an_empty_array_means_that_nothing_is_worth_keeping(self, reply):
        assert extract(reply).nothing_to_keep

    @pytest.mark.parametrize("reply", ["", "no facts", "{broken", "see [] there", "[1, 2]", "[[[{"], ids=repr)
    def test_a_reply_without_json_says_nothing(self, reply):
        """That is a failure, not an empty answer."""
        found = extract(reply)
        assert (found.memories, found.rejected, found.nothing_to_keep) == ([], [], False)

    @pytest.mark.parametrize(
        "reply", ["[" * 100_000, '{"a": "' * 20_000, '{"a":' * 50_000], ids=["a", "b", "c"]
    )
    def test_a_reply_of_nothing_but_brackets_ends(self, reply):
        assert not extract(reply).found


class TestMending:
    """What is accepted, and what is not."""

    def test_extra_keys_are_kept(self):
        fact = {**FACT, "topics": ["coast"], "sentiment": 0.5}
        assert extract(json.dumps(fact)).memories == [fact]

    @pytest.mark.parametrize(
        ("change", "result"),
        [
            ({"entities": "Theo"}, {"entities": ["Theo"]}),
            ({"entities": None, "key_phrases": ""}, {"entities": [], "key_phrases": []}),
            ({"entities": 7}, {"entities": ["7"]}),
            ({"key_phrases": [1, {"a": 1}, None, True, "b"]}, {"key_phrases": ["1", "b"]}),
            ({"title": None}, {"title": "Theo owes."}),
            ({"title": 5}, {"title": "5"}),
            ({"title": " ", "summary": "a b c d e f g h i j"}, {"title": "a b c d e f g h"}),
            ({"summary": 12.5}, {"summary": "12.5"}),
            ({"summary": "half \ud83d"}, {"summary": "half ?"}),
        ],
        ids=str,
    )
    def test_values_are_mended(self, change, result):
        (memory,) = extract(json.dumps({**FACT, **change})).memories
        assert {key: memory[key] for key in result} == result

    def test_missing_lists_are_empty(self):
        assert extract('{"summary": "s", "title": "t"}').memories == [
            {"summary": "s", "title": "t", "entities": [], "key_phrases": []}
        ]

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            ({"summary": "  "}, "`summary` is blank or missing"),
            ({"summary": None}, "`summary` is blank or missing"),
            ({"summary": ["s"]}, "`summary` is no text"),
            ({"summary": True}, "`summary` is no text"),
            ({"title": {}}, "`title` is no text"),
        ],
        ids=str,
    )
    def test_what_cannot_be_mended_is_rejected_with_the_reason(self, change, reason):
        """The others of the reply are kept."""
        found = extract(json.dumps([{**FACT, **change}, FACT]))
        assert found.memories == [FACT]
        assert found.rejected == [f"object 1: {reason}"]
