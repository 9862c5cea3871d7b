"""Memories out of replies. Source: spec memory.md 7.5, 18.2 (8, 20, 21)."""

from __future__ import annotations

import json

import pytest

from Middleware.workflows.memory.extraction import extract

FACT = {"title": "Debt", "summary": "Theo owes.", "entities": ["Theo"], "key_phrases": ["debt"]}
OTHER = {"title": "Fear", "summary": "Mara waits.", "entities": ["Mara"], "key_phrases": []}
TEXT, OTHER_TEXT = json.dumps(FACT), json.dumps(OTHER)


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
        [
            f"[{TEXT}, {OTHER_TEXT}]",
            f"{TEXT}\n{OTHER_TEXT}",
            f"{TEXT},{OTHER_TEXT}; [1]",
            f"{TEXT} {OTHER_TEXT} {{",
        ],
        ids=range(4),
    )
    def test_several_facts_are_found(self, reply):
        """An array, or objects in a row."""
        assert extract(reply).memories == [FACT, OTHER]

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
            ({"summary": "  "}, "`summary` is empty or missing"),
            ({"summary": None}, "`summary` is empty or missing"),
            ({"summary": ["s"]}, "`summary` is not a string"),
            ({"summary": True}, "`summary` is not a string"),
            ({"title": {}}, "`title` is not a string"),
        ],
        ids=str,
    )
    def test_what_cannot_be_mended_is_rejected_with_the_reason(self, change, reason):
        """The others of the reply are kept."""
        found = extract(json.dumps([{**FACT, **change}, FACT]))
        assert found.memories == [FACT]
        assert found.rejected == [f"object 1: {reason}"]


SLIPS = [
    ("comma-before-a-bracket", '[{"title": "T", "summary": "Ida keeps bees.", "entities": ["Ida",],},]'),
    ("raw-line-end", '[{"summary": "Ida keeps\nbees."}]'),
    ("raw-tab", '{"summary": "Ida keeps\tbees."}'),
    ("markdown-escapes", r'[{"summary": "Ida\_keeps \*bees\*\#."}]'),
    ("escape-of-an-apostrophe", r"""[{"summary": "Ida\'s bees."}]"""),
    ("one-key-holds-the-list", '{"facts": [{"summary": "Ida keeps bees."}]}'),
    ("as-python-prints", """[{'title': 'Bees', 'summary': "Ida's bees.", 'known': True, 'by': None}]"""),
    ("texts-alone", '["Ida keeps bees."]'),
    ("one-key-holds-texts", '{"memories": ["Ida keeps bees."]}'),
    ("texts-in-a-fence", 'Here:\n```json\n["Ida keeps bees."]\n```'),
    *(
        (key, f'[{{"title": "T", "{key}": "Ida keeps bees."}}]')
        for key in ("fact", "memory", "content", "text")
    ),
    ("cut-in-the-second", '[{"summary": "Ida\nkeeps bees."}, {"summary": "Bob'),
]


class TestSlips:
    """A reply that JSON's own reader refuses is read as it is meant."""

    @pytest.mark.parametrize("reply", [slip[1] for slip in SLIPS], ids=[slip[0] for slip in SLIPS])
    def test_the_memory_is_found(self, reply):
        (memory,) = extract(reply).memories
        assert " ".join(memory["summary"].replace("_", " ").replace("*", "").split())[:5] in (
            "Ida k",
            "Ida's",
        )

    def test_the_texts_are_as_they_are_meant(self):
        reply = r"""[{'summary': 'a\_b\nc "d" \u00fc C:\dir', 'tags': ['x\'s'],}]"""
        (memory,) = extract(reply).memories
        assert (memory["summary"], memory["key_phrases"]) == ('a_b\nc "d" ü C:\\dir', ["x's"])

    @pytest.mark.parametrize("key", ["keywords", "tags"])
    def test_other_words_for_key_phrases(self, key):
        reply = json.dumps([{"summary": "Ida keeps bees.", key: ["bees"]}])
        assert extract(reply).memories[0]["key_phrases"] == ["bees"]

    def test_the_key_that_was_asked_for_comes_first(self):
        reply = json.dumps({"summary": "s", "text": "t", "key_phrases": ["k"], "tags": ["x"]})
        (memory,) = extract(reply).memories
        assert (memory["summary"], memory["key_phrases"]) == ("s", ["k"])

    def test_a_slip_in_one_object_costs_no_other(self):
        """The reader that allows nothing would find the second alone."""
        reply = '[{"summary": "Ida\nkeeps bees."}, {"summary": "Bob sails."}]'
        assert [memory["summary"] for memory in extract(reply).memories] == ["Ida\nkeeps bees.", "Bob sails."]

    @pytest.mark.parametrize(
        "reply",
        [
            '[{"title": "Bees", "entities": ["Ida", "Ghent"], "summary": "Ida keeps',
            '{"entities": ["Ida"]}',
            '[["Ida"], "cut',
            "['a', 5]",
            "[" * 5000,
            '{"a":' * 5000,
        ],
        ids=[
            "cut-behind-entities",
            "entities-alone",
            "inside-a-broken-list",
            "a-number",
            "brackets",
            "braces",
        ],
    )
    def test_what_is_only_a_part_is_no_memory(self, reply):
        assert extract(reply).memories == []

    @pytest.mark.parametrize("reply", ['{"memories": []}', "{'facts': []}"])
    def test_an_empty_list_inside_an_object_means_that_nothing_is_worth_keeping(self, reply):
        assert extract(reply).nothing_to_keep


@pytest.mark.parametrize("again", ["Theo owes.", "theo  OWES. ", "Theo\nowes."])
def test_a_fact_that_a_reply_says_twice_is_one(again):
    """The first is kept, whatever stands beside it."""
    reply = json.dumps([FACT, {**FACT, "title": "Again", "summary": again}, OTHER])
    assert extract(reply).memories == [FACT, OTHER]
