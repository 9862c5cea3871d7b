"""Finish words, token counts and tool-call deltas are the same for every backend."""

from __future__ import annotations

import re

import pytest

from Middleware.common.request_context import RequestContext, enter_request
from Middleware.llmapis.dialects.event_mapping import (
    ToolCallDeltas,
    arguments_object,
    arguments_text,
    finish_fields,
    openai_usage,
    standard_finish,
    usage_of,
    whole_arguments,
    whole_tool_calls,
)
from Middleware.utilities.sensitive_logging_utils import REDACTED


class TestFinish:
    @pytest.mark.parametrize(
        ("word", "reason"),
        [
            *[(word, word) for word in ("stop", "length", "tool_calls", "content_filter", "error")],
            *[(word, None) for word in (None, "", "null", "None", " NULL ", 7)],
            ("function_call", "tool_calls"),
            ("tool_use", "tool_calls"),
            ("max_tokens", "length"),
            ("MAX_TOKENS", "length"),
            ("model_length", "length"),
            ("model_context_window_exceeded", "length"),
            ("refusal", "content_filter"),
            ("safety", "content_filter"),
            ("SAFETY", "content_filter"),
            ("PROHIBITED_CONTENT", "content_filter"),
            ("content_filter: PROHIBITED_CONTENT", "content_filter"),
            ("max_tokens : why", "length"),
            ("sensitive", "content_filter"),
            ("function_call_filter: MALFORMED_FUNCTION_CALL", "stop"),
            ("end_turn", "stop"),
            ("stop_sequence", "stop"),
            ("pause_turn", "stop"),
            ("eos_token", "stop"),
        ],
    )
    def test_words(self, word, reason):
        """Anything that ends an answer is one of five words."""
        assert standard_finish(word) == reason

    def test_the_backends_own_word_is_kept_when_it_differs(self):
        """In `native_finish_reason`."""
        assert finish_fields("end_turn") == {"finish_reason": "stop", "native_finish_reason": "end_turn"}
        assert finish_fields("stop") == {"finish_reason": "stop"}
        assert finish_fields("null") == {"finish_reason": None}


class TestUsage:
    @pytest.mark.parametrize(
        ("counts", "usage"),
        [
            ((4, 2, 7), {"prompt_tokens": 4, "completion_tokens": 2, "total_tokens": 7}),
            ((4, 2), {"prompt_tokens": 4, "completion_tokens": 2, "total_tokens": 6}),
            ((None, 2), {"completion_tokens": 2}),
            ((2**60, 2, -1), {"completion_tokens": 2}),
            ((4.0, None), {"prompt_tokens": 4}),
            ((4, -1, 7), {"prompt_tokens": 4, "total_tokens": 7}),
            ((0, 0), {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}),
        ],
    )
    def test_counts(self, counts, usage):
        """The total of both is filled in; what was not told is not 0."""
        assert usage_of(*counts) == usage

    @pytest.mark.parametrize("counts", [(None, None), ("4", "2"), (True, False)])
    def test_no_counts(self, counts):
        """Nothing is invented."""
        assert usage_of(*counts) is None

    def test_details_of_openai(self):
        """Reasoning and cache counts are lifted."""
        usage = {
            "prompt_tokens": 4,
            "completion_tokens": 2,
            "completion_tokens_details": {"reasoning_tokens": 1},
            "prompt_tokens_details": {"cached_tokens": 3},
        }
        assert openai_usage(usage) == {
            "prompt_tokens": 4,
            "completion_tokens": 2,
            "total_tokens": 6,
            "reasoning_tokens": 1,
            "cached_tokens": 3,
        }

    @pytest.mark.parametrize("usage", [None, [], {}, {"prompt_tokens": None}])
    def test_unusable(self, usage):
        """Null in most chunks."""
        assert openai_usage(usage) is None

    @pytest.mark.parametrize(
        ("prompt", "completion"), [("input_tokens", "output_tokens"), ("prompt_tokens", "output_tokens")]
    )
    def test_other_spellings(self, prompt, completion):
        """Of Responses, and of servers that mix the two."""
        usage = {prompt: 4, completion: 2, f"{prompt}_details": {"cached_tokens": 3, "cache_write_tokens": 1}}
        assert openai_usage(usage) == {
            "prompt_tokens": 4,
            "completion_tokens": 2,
            "total_tokens": 6,
            "cached_tokens": 3,
            "cache_write_tokens": 1,
        }

    def test_one_count_alone(self):
        """Is read under its usual name."""
        assert openai_usage({"completion_tokens": 2})["completion_tokens"] == 2
        alone = {"completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 3}}
        assert openai_usage(alone)["cached_tokens"] == 3

    @pytest.mark.parametrize(
        ("more", "held"),
        [
            ({}, 64),
            ({"prompt_tokens_details": {"cached_tokens": 60}}, 60),
            ({"prompt_tokens_details": {}}, 64),
        ],
        ids=["deepseeks-word", "both", "empty-details"],
    )
    def test_deepseeks_word_for_what_it_held(self, more, held):
        """OpenAI's comes first."""
        usage = {"prompt_tokens": 100, "completion_tokens": 2, "prompt_cache_hit_tokens": 64, **more}
        assert openai_usage(usage)["cached_tokens"] == held

    def test_details_that_are_null(self):
        """Some servers send the blocks empty."""
        assert "cached_tokens" not in openai_usage({"prompt_tokens": 1, "prompt_tokens_details": None})


class TestArguments:
    @pytest.mark.parametrize(
        ("value", "text"), [(None, ""), ("{", "{"), ({"a": "é"}, '{"a": "é"}'), ([1], "[1]")]
    )
    def test_as_text(self, value, text):
        """A text stays, an object is encoded."""
        assert arguments_text(value) == text

    @pytest.mark.parametrize(("value", "made"), [({"a": 1}, {"a": 1}), ('{"a": 1}', {"a": 1})])
    def test_as_object(self, value, made):
        """For backends that want objects."""
        assert arguments_object(value) == made

    @pytest.mark.parametrize("value", ["", " ", None])
    def test_blank_ones_are_an_empty_object(self, value, caplog):
        """A tool that takes nothing; nobody is warned."""
        assert arguments_object(value) == {}
        assert whole_arguments(value) == "{}"
        assert caplog.text == ""

    @pytest.mark.parametrize(
        "value", ["{", "[1]", "3", "[" * 100_000, '{"a": NaN}', '{"a": 1e999}', '{"a": 1,}']
    )
    def test_what_is_no_object_is_a_value_of_one(self, value, caplog):
        """Nothing that the model said is lost; a warning says what is sent."""
        assert arguments_object(value) == {"value": value}
        assert "not a JSON object" in caplog.text

    def test_private_ones_are_not_told(self, caplog):
        """They are the conversation's."""
        with enter_request(RequestContext("r1", "ana", "openaichatcompletion", privacy=True)):
            assert arguments_object("SECRET") == {"value": "SECRET"}
        assert f'{{"value": ...}}: {REDACTED}' in caplog.text
        assert "SECRET" not in caplog.text


def call(arguments=None, *, name=None, **more):
    function = {}
    if name is not None:
        function["name"] = name
    if arguments is not None:
        function["arguments"] = arguments
    return {**more, "function": function}


class TestDeltas:
    def added(self, *chunks):
        deltas = ToolCallDeltas()
        return [delta for chunk in chunks for delta in deltas.add(chunk)]

    def test_a_regular_stream_passes_unchanged(self):
        """First fragment with id, type and name; later ones with arguments alone."""
        first = {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": ""}}
        second = {"index": 0, "function": {"arguments": "{}"}}
        assert self.added([first], [second]) == [first, second]

    def test_a_missing_index_id_and_type_are_filled_in(self):
        """Every call can be told apart."""
        (delta,) = self.added([call("{}", name="f")])
        assert delta["index"] == 0
        assert delta["type"] == "function"
        assert re.fullmatch("call_[0-9a-f]{24}", delta["id"])

    def test_another_id_under_the_same_index_is_another_call(self):
        """Proxies that give every call the index 0."""
        deltas = self.added(
            [call("", name="f", index=0, id="a")],
            [call("1", index=0)],
            [call("", name="g", index=0, id="b")],
            [call("2", index=0)],
        )
        assert [delta["index"] for delta in deltas] == [0, 0, 1, 1]
        assert [delta.get("id") for delta in deltas] == ["a", None, "b", None]

    def test_another_name_behind_arguments_is_another_call(self):
        """The same proxies, where no ids are given."""
        deltas = self.added(
            [call("{}", name="f", index=0)], [call("{", name="g", index=0)], [call("}", index=0)]
        )
        assert [delta["index"] for delta in deltas] == [0, 1, 1]

    @pytest.mark.parametrize("given", ['{"c": 1}', {"c": 1}, ' {"c": 1}'], ids=str)
    @pytest.mark.parametrize("no_id", [{}, {"id": ""}, {"id": None}], ids=str)
    def test_the_same_name_and_another_object_behind_a_whole_one_are_another_call(self, given, no_id):
        """Google's route, which gives every call the index 0 and no id."""
        deltas = self.added(*[[call(given, name="f", index=0, **no_id)]] * 3)
        assert [delta["index"] for delta in deltas] == [0, 1, 2]
        assert [delta["function"]["name"] for delta in deltas] == ["f", "f", "f"]
        assert len({delta["id"] for delta in deltas}) == 3

    def test_the_same_name_and_an_object_in_pieces_are_another_call(self):
        """What follows the name says so."""
        pieces = ["", '{"c"', ": 1}"]
        deltas = self.added(
            *[[call(piece, index=0, **({} if piece else {"name": "f"}))] for piece in pieces * 2]
        )
        assert [delta["index"] for delta in deltas] == [0, 0, 0, 0, 1, 1]
        assert [delta["function"].get("name") for delta in deltas] == ["f", None, None, None, "f", None]

    @pytest.mark.parametrize(
        "pieces",
        [
            ['{"c": "}', '{"', "}"],
            ['{"c": [{}', ", ", "{}", "]}"],
            ["{}", "", " ", ""],
            ["", "", "{}"],
        ],
        ids=str,
    )
    def test_the_same_name_in_every_fragment_is_one_call(self, pieces):
        """An object that is not whole goes on, and nothing begins none."""
        deltas = self.added(*[[call(piece, name="f", index=0)] for piece in pieces])
        assert {delta["index"] for delta in deltas} == {0}

    def test_a_name_in_pieces_is_one_call(self):
        """No arguments have come yet."""
        deltas = self.added([call("", name="get_", index=0)], [call("{}", name="get_weather", index=0)])
        assert [delta["index"] for delta in deltas] == [0, 0]

    def test_an_id_that_comes_late_is_no_other_call(self):
        """The id that was made for the first fragment stays."""
        deltas = self.added(
            [call("{", name="f", index=0)], [call("}", index=0, id="a")], [call("", index=0, id="a")]
        )
        assert [delta["index"] for delta in deltas] == [0, 0, 0]
        assert ["id" in delta for delta in deltas] == [True, False, False]

    @pytest.mark.parametrize(
        ("index", "taken"), [(0, 0), (1000, 1000), (1001, 0), (-1, 0), (10**30, 0), ("7", 7), ("10000", 0)]
    )
    def test_an_index_without_measure_is_not_taken_over(self, index, taken):
        """Clients make a list of so many calls; its fragments find together all the same."""
        deltas = self.added([call("{", name="f", index=index)], [call("}", index=index)])
        assert [delta["index"] for delta in deltas] == [taken, taken]

    @pytest.mark.parametrize("indexes", [("0", "1"), (0.0, 1.0)], ids=str)
    def test_indexes_that_are_no_integers(self, indexes):
        """Texts and fractions tell calls apart all the same."""
        zero, one = indexes
        deltas = self.added(
            [call("", name="f", index=zero, id="a"), call("", name="g", index=one, id="b")],
            [call("0", index=zero), call("1", index=one)],
        )
        assert [delta["index"] for delta in deltas] == [0, 1, 0, 1]

    def test_an_id_that_came_before_goes_on_with_its_call(self):
        """Fragments that all carry their id, under one index."""
        deltas = self.added(
            [call("", name="f", index=0, id="a")],
            [call("", name="g", index=0, id="b")],
            [call("1", index=0, id="a")],
        )
        assert [delta["index"] for delta in deltas] == [0, 1, 0]

    def test_without_an_index_a_name_begins_a_call(self):
        """And a fragment without one goes on with the last."""
        deltas = self.added([call("", name="f")], [call("1")], [call("", name="g")], [call("2")])
        assert [delta["index"] for delta in deltas] == [0, 0, 1, 1]

    def test_the_index_of_the_backend_is_kept_when_free(self):
        """Calls that come out of order."""
        assert [d["index"] for d in self.added([call("", index=1, id="b"), call("", index=0, id="a")])] == [
            1,
            0,
        ]

    def test_id_type_and_name_stand_in_the_first_fragment_only(self):
        """Clients that append names would double them."""
        fragment = call("{", name="f", index=0, id="a", type="function")
        assert self.added([fragment], [fragment])[1] == {"index": 0, "function": {"arguments": "{"}}

    def test_an_object_is_sent_as_text(self):
        """Arguments are text in every delta."""
        assert self.added([call({"x": 1}, name="f", id="a")])[0]["function"]["arguments"] == '{"x": 1}'

    def test_further_keys_pass(self):
        """Gemini's thought signatures come back with the call."""
        assert self.added([call("", name="f", id="a", extra_content={"s": 1})])[0]["extra_content"] == {
            "s": 1
        }

    @pytest.mark.parametrize("calls", [None, [], {}, ["x"], [None]])
    def test_what_is_no_call_is_nothing(self, calls):
        """`tool_calls: []` on text deltas."""
        assert self.added(calls) == []

    def test_a_call_without_a_function_still_begins(self):
        """The id is what counts."""
        assert self.added([{"index": 0, "id": "a", "function": None}])[0]["function"] == {"arguments": ""}

    def test_a_fragment_may_say_nothing(self):
        """Its call goes on."""
        first = call("", name="f", index=0, id="a")
        assert self.added([first], [{"index": 0}])[1] == {"index": 0, "function": {}}


def test_whole_calls_have_no_index_but_id_type_and_name():
    """As in `message.tool_calls`."""
    calls = whole_tool_calls(
        [{"id": "a", "function": {"arguments": {"x": 1}}}, "junk", {"id": "a", "index": 0}]
    )
    assert calls == [
        {"id": "a", "type": "function", "function": {"name": "", "arguments": '{"x": 1}'}},
        {"id": "a", "type": "function", "function": {"name": "", "arguments": ""}},
    ]
