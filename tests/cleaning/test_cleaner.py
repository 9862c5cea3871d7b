"""The engine as a whole: its inputs, its findings, its cost."""

from __future__ import annotations

import time

import pytest

from Middleware.cleaning import ResponseCleaner, strip_inline_xml_tags

THINK = {"removeThinking": True, "startThinkTag": "<think>", "endThinkTag": "</think>"}


def whole(cleaner, text):
    return cleaner.feed(text) + cleaner.finish()


class TestInputs:
    def test_none_is_an_empty_text(self):
        """A backend that says null says nothing, before and after all is decided."""
        cleaner = ResponseCleaner({}, {})

        assert [cleaner.feed(text) for text in (None, "a", None, "")] == ["", "a", "", ""]

    def test_missing_objects_are_empty_ones(self):
        assert whole(ResponseCleaner(None, None), " a") == "a"

    @pytest.mark.parametrize(
        "endpoint",
        [
            {"removeThinking": True, "startThinkTag": None, "endThinkTag": 7},
            {**THINK, "openingTagGracePeriod": "soon", "whenEndThinkTagMissing": 1},
            {**THINK, "thinkTagNames": [" ", 3]},
            {"stripInlineXmlTags": "yes"},
            {
                "removeCustomTextFromResponseStartEndpointWide": True,
                "responseStartTextToRemoveEndpointWide": 5,
            },
            {"reasoningOutput": "loud"},
            {"unknown": object()},
        ],
        ids=["tags", "numbers", "names", "xml", "prefixes", "reasoning", "unknown"],
    )
    def test_a_wrong_value_is_as_if_it_were_not_there(self, endpoint):
        """The check at load reports it; the engine never raises."""
        assert whole(ResponseCleaner(endpoint, {}), "a b") == "a b"

    def test_the_dicts_are_not_changed(self):
        endpoint, node = dict(THINK), {"responseStartTextToRemove": ["a"]}

        whole(ResponseCleaner(endpoint, node), "<think>a</think>b")

        assert (endpoint, node) == (THINK, {"responseStartTextToRemove": ["a"]})


class TestEnd:
    def test_finish_gives_the_rest_once(self):
        cleaner = ResponseCleaner(THINK, {})

        assert [cleaner.feed("a<thi"), cleaner.finish(), cleaner.finish(), cleaner.feed("b")] == [
            "a",
            "<thi",
            "",
            "b",
        ]

    @pytest.mark.parametrize(("may_be_empty", "expected"), [(False, "Roland: "), (True, "")])
    def test_a_tool_call_needs_no_speaker(self, may_be_empty, expected):
        """In a group chat an empty answer becomes the prompt, a tool call without text does not."""
        cleaner = ResponseCleaner(THINK, {}, generation_prompt="Roland:")

        assert cleaner.feed("<think>x</think>\n") + cleaner.finish(may_be_empty=may_be_empty) == expected

    def test_text_beside_a_tool_call_is_an_answer(self):
        cleaner = ResponseCleaner({}, {}, generation_prompt="Roland:")

        assert cleaner.feed("Hi") + cleaner.finish(may_be_empty=True) == "Roland: Hi"


class TestPassingThrough:
    def test_begins_when_the_last_rule_is_decided(self):
        cleaner = ResponseCleaner(THINK, {"addDiscussionIdTimestampsForLLM": True})

        seen = [(cleaner.feed(chunk), cleaner.passes_through) for chunk in ("<think>x</think>", "[Se", "a")]

        assert seen == [("", False), ("", False), ("[Sea", True)]

    @pytest.mark.parametrize(
        "endpoint", [{"trimBeginningAndEndLineBreaks": True}, {"stripInlineXmlTags": True}]
    )
    def test_never_begins_while_a_rule_looks_at_every_chunk(self, endpoint):
        cleaner = ResponseCleaner(endpoint, {})

        cleaner.feed("a" * 500)

        assert not cleaner.passes_through


class TestWarnings:
    @pytest.mark.parametrize(
        ("endpoint", "names"),
        [
            ({"removeThinking": True}, "startThinkTag and endThinkTag"),
            ({"removeThinking": True, "endThinkTag": "x"}, "startThinkTag"),
            ({"removeThinking": True, "expectOnlyClosingThinkTag": True}, "endThinkTag"),
        ],
    )
    def test_a_needed_tag_is_empty(self, endpoint, names):
        """One warning, there from the start, and nothing is removed."""
        cleaner = ResponseCleaner(endpoint, {})

        assert whole(cleaner, "<think>a</think>b") == "<think>a</think>b"
        assert cleaner.warnings == [f"removeThinking is on but {names} is empty, so no thinking is removed"]
        assert cleaner.configuration_warnings == tuple(cleaner.warnings)

    def test_dropped_text_is_counted(self):
        cleaner = ResponseCleaner({**THINK, "expectOnlyClosingThinkTag": True}, {})

        assert whole(cleaner, "twelve chars") == ""
        assert [w for w in cleaner.warnings if "12 characters were dropped" in w] == cleaner.warnings != []
        assert cleaner.configuration_warnings == ()

    @pytest.mark.parametrize("text", ["", "plain", "<think>a</think>b"])
    def test_nothing_to_say(self, text):
        cleaner = ResponseCleaner(THINK, {})
        whole(cleaner, text)
        assert cleaner.warnings == []


class TestThoughts:
    def test_arrive_while_the_block_is_open(self):
        """With `reasoningOutput` a thought can be taken before its block closes."""
        cleaner = ResponseCleaner({**THINK, "reasoningOutput": "field"}, {})

        taken = [
            (cleaner.feed(chunk), cleaner.take_thoughts()) for chunk in ("<think>a", "b</th", "ink>c", "d")
        ]

        assert taken == [("", "a"), ("", "b"), ("c", ""), ("d", "")]

    def test_are_not_offered_when_they_are_dropped(self):
        cleaner = ResponseCleaner(THINK, {})

        assert whole(cleaner, "<think>a</think>b") == "b"
        assert (cleaner.take_thoughts(), cleaner.completed_thoughts) == ("", ["a"])

    @pytest.mark.parametrize(
        ("endpoint", "node", "expected"),
        [
            ({}, {}, "drop"),
            ({"reasoningOutput": "field"}, {}, "field"),
            ({"reasoningOutput": "field"}, {"reasoningOutput": "drop"}, "drop"),
            ({"reasoningOutput": "drop"}, {"reasoningOutput": "inline"}, "inline"),
            ({"reasoningOutput": "field"}, {"reasoningOutput": "loud"}, "field"),
        ],
    )
    def test_the_node_decides_before_the_endpoint(self, endpoint, node, expected):
        assert ResponseCleaner(endpoint, node).reasoning == expected

    @pytest.mark.parametrize(
        ("endpoint", "pieces", "seen"),
        [
            (THINK, ["<think>", "a", "</think>b"], [True, True, True, True]),
            ({**THINK, "thinkTagNames": ["think"]}, ["a ", "<THINK >", "</think>b"], [False, True, True, True]),
            (THINK, ["a", "b"], [False, False, False]),
            (THINK, ["<think>", "a"], [True, True, False]),
            ({**THINK, "whenEndThinkTagMissing": "discard"}, ["<thi", "nk>", "a"], [False, True, True, True]),
            ({**THINK, "reasoningOutput": "field"}, ["<think>a"], [True, True]),
            ({**THINK, "expectOnlyClosingThinkTag": True}, ["a", "</think>b"], [True, True, True]),
            ({**THINK, "expectOnlyClosingThinkTag": True}, [], [False]),
            (
                {**THINK, "expectOnlyClosingThinkTag": True, "whenEndThinkTagMissing": "keep"},
                ["a"],
                [True, False],
            ),
        ],
        ids=[
            "closed", "named", "none", "kept", "discarded", "routed", "closing-only", "nothing-came", "closing-only-kept"
        ],
    )  # fmt: skip
    def test_whether_a_thought_has_begun(self, endpoint, pieces, seen):
        """From its tag on, also before it ends; in the end only what was taken out of the text."""
        cleaner = ResponseCleaner(endpoint, {})

        states = [cleaner.feed(piece) is not None and cleaner.has_thought for piece in pieces]
        cleaner.finish()

        assert [*states, cleaner.has_thought] == seen

    @pytest.mark.parametrize("routed", ["field", "inline"])
    def test_an_unclosed_block_that_went_out_is_not_repeated(self, routed):
        """`keep` counts as `discard`, and the warning says so."""
        endpoint = {**THINK, "whenEndThinkTagMissing": "keep", "reasoningOutput": routed}
        cleaner = ResponseCleaner(endpoint, {})

        assert whole(cleaner, "a<think>b</thi") == "a"
        assert cleaner.take_thoughts() == cleaner.unclosed_thought == "b</thi"
        assert cleaner.completed_thoughts == []
        assert "whenEndThinkTagMissing counts as discard" in cleaner.warnings[0]

    @pytest.mark.parametrize(
        "tags", [THINK, {"removeThinking": True, "thinkTagNames": ["think"]}], ids=["literal", "names"]
    )
    def test_can_be_had_in_the_order_of_the_text(self, tags):
        """What came before a thought comes out before it, also when one chunk brings both."""
        cleaner = ResponseCleaner({**tags, "reasoningOutput": "inline"}, {})

        events = [
            event
            for pair in cleaner.feed_in_order("a<think>b</think>c")
            for event in zip("?=", pair, strict=True)
        ]

        assert [(kind, part) for kind, part in events if part] == [("=", "a"), ("?", "b"), ("=", "c")]


@pytest.mark.parametrize(("text", "pairs"), [("", []), ("a", [("", "a")]), ("a>", [("", "a>")])])
def test_in_order_nothing_comes_of_nothing(text, pairs):
    """Not even behind a sign at which the text is cut."""
    assert list(ResponseCleaner(THINK, {}).feed_in_order(text)) == pairs


def test_the_face_hands_on_inline_xml():
    assert strip_inline_xml_tags("a<b/>c") == "a c"


class TestCost:
    """Generous limits: they catch work that grows with the text, not a slow machine."""

    @pytest.mark.parametrize(
        "unit", ["<a>", "<a ", "</a><a ", "<a></a>", "<", "<a/>", "<a /", "<think>", " ", "</a"]
    )
    @pytest.mark.parametrize(("size", "cut"), [(10**6, 10**6), (10**5, 7)], ids=["a megabyte", "pieces"])
    def test_is_linear(self, unit, size, cut):
        text = (unit * (size // len(unit) + 1))[:size]
        cleaner = ResponseCleaner(
            {**THINK, "stripInlineXmlTags": True, "trimBeginningAndEndLineBreaks": True}, {}
        )

        started = time.process_time()
        for start in range(0, len(text), cut):
            cleaner.feed(text[start : start + cut])
        cleaner.finish()

        assert time.process_time() - started < 5

    def test_a_long_thought_costs_the_same_at_its_end(self):
        cleaner = ResponseCleaner(THINK, {})
        cleaner.feed("<think>")

        def cost(pieces):
            started = time.process_time()
            for _ in range(pieces):
                cleaner.feed("abcd")
            return time.process_time() - started

        first = min(cost(20_000) for _ in range(3))
        for _ in range(8):
            cost(20_000)
        assert min(cost(20_000) for _ in range(3)) < 4 * first
