"""Facts, numbers and tool calls of an answer (frontend-api.md 10)."""

from __future__ import annotations

import logging

import pytest

from Middleware.common.request_context import RequestContext, enter_request
from Middleware.services import answers
from Middleware.services.answers import (
    AnswerCollector,
    AnswerFacts,
    AnswerState,
    Pace,
    ToolCallCollector,
    cache_numbers,
    client_finish_reason,
    compact_json,
    full_usage,
    ollama_calls,
    ollama_done_reason,
    openai_usage_object,
    step_line,
    steps_of,
    usage_numbers,
    whole_openai_calls,
)


def chunk(token="", finish=None, **more):
    return {"token": token, "finish_reason": finish, **more}


class TestCollector:
    def test_what_comes_up_to_the_finish_counts(self):
        """Ticks, text, thoughts and numbers; nothing behind the finish chunk."""
        collector = AnswerCollector()
        assert not collector.add([])
        assert not collector.add([chunk("He", thinking="hm")])
        assert collector.add([chunk("y"), chunk("", "length", usage={"prompt_tokens": 3}), chunk("lost")])
        answer = collector.answer()
        assert (answer.text, answer.thinking, answer.finish_reason) == ("Hey", "hm", "length")
        assert answer.usage == {"prompt_tokens": 3}

    def test_calls_are_collected_too(self):
        """From all chunks, joined."""
        collector = AnswerCollector()
        collector.add(
            [chunk(tool_calls=[{"index": 0, "id": "c", "function": {"name": "t", "arguments": "{"}}])]
        )
        collector.add(
            [chunk(tool_calls=[{"index": 0, "function": {"arguments": "}"}}]), chunk("", "tool_calls")]
        )
        answer = collector.answer()
        call = {"id": "c", "type": "function", "function": {"name": "t", "arguments": "{}"}}
        assert (answer.text, answer.tool_calls, answer.finish_reason) == ("", [call], "tool_calls")

    def test_its_pace_is_that_of_batches_with_something_in_them(self, monkeypatch):
        """A tick says nothing."""
        collector = AnswerCollector()
        for now, batch in ((1.0, []), (2.0, [chunk("a")]), (3.0, []), (4.0, [chunk("b")]), (5.0, [])):
            monkeypatch.setattr(answers.time, "monotonic", lambda now=now: now)
            collector.add(batch)
        pace = collector.answer().pace
        assert (pace.first, pace.last) == (2.0, 4.0)

    @pytest.mark.parametrize("last", [None, False, True], ids=["unsaid", "no", "yes"])
    def test_its_state_knows_whether_it_is_the_last_of_the_run(self, last):
        """The finish chunk says whether nodes still run behind the answer."""
        state = AnswerState()
        AnswerCollector(state).add([chunk("", "stop", **({} if last is None else {"last": last}))])
        assert (state.sent, state.is_last) == (True, bool(last))

    def test_a_run_without_a_finish_is_a_stop(self):
        """An answer always has a reason that clients know."""
        assert AnswerCollector().answer().finish_reason == "stop"


class TestToolCalls:
    def test_fragments_are_joined_by_index(self):
        """A name overwrites, text is appended, an object replaces."""
        calls = ToolCallCollector()
        calls.add([{"index": 0, "id": "a", "function": {"name": "t", "arguments": '{"p":'}}])
        calls.add([{"index": 1, "id": "b", "function": {"name": "u", "arguments": {"q": 1}}}])
        calls.add([{"index": 0, "function": {"arguments": "2}"}}, "nonsense", {"function": None}])
        made = calls.complete()
        assert [call["function"] for call in made[:2]] == [
            {"name": "t", "arguments": '{"p":2}'},
            {"name": "u", "arguments": '{"q":1}'},
        ]
        assert [call["id"] for call in made[:2]] == ["a", "b"]

    def test_fragments_without_an_index_are_calls_of_their_own(self):
        """Also beside one that has an index of that number."""
        calls = ToolCallCollector()
        assert not calls
        calls.add([{"function": {"name": name, "arguments": "{}"}} for name in "ab"])
        calls.add([{"index": 1, "function": {"name": "c"}}, {"function": {}}])
        assert calls
        assert [call["function"]["name"] for call in calls.complete()] == ["a", "b", "c", ""]

    def test_ollama_calls_are_numbered(self):
        """Unless they are; one without a name has an empty one."""
        given = [
            {"function": {"name": "a"}},
            {"id": "x", "function": {"index": 7}},
            {"id": "", "function": {"name": "c"}},
        ]
        assert ollama_calls(given) == [
            {"function": {"index": 0, "name": "a", "arguments": {}}},
            {"id": "x", "function": {"index": 7, "name": "", "arguments": {}}},
            {"function": {"index": 2, "name": "c", "arguments": {}}},
        ]

    def test_a_missing_id_is_made(self):
        """`call_` and 24 hex digits."""
        [call] = whole_openai_calls([{"index": 4, "function": {"name": "t"}}])
        assert call["id"].startswith("call_") and len(call["id"]) == 29
        assert call["function"] == {"name": "t", "arguments": "{}"}
        assert "index" not in call

    def test_openai_shape_is_idempotent(self):
        """Shaping twice changes nothing."""
        once = whole_openai_calls([{"id": "x", "function": {"name": "t", "arguments": {"a": 1}}}, 7])
        assert whole_openai_calls(once) == once

    @pytest.mark.parametrize(
        ("arguments", "expected", "warns"),
        [
            ('{"a": 1}', {"a": 1}, False),
            ({"a": 1}, {"a": 1}, False),
            ("", {}, False),
            (None, {}, False),
            ("{oops", None, True),
            ("[1]", None, True),
            ('{"a": NaN}', None, True),
            ('{"a": -1e999}', None, True),
        ],
        ids=["text", "object", "empty", "none", "broken", "list", "nan", "large"],
    )
    def test_ollama_arguments_are_objects(self, arguments, expected, warns, caplog):
        """A call with others is left out, with a warning: nobody asked for it with `{}`."""
        with caplog.at_level(logging.WARNING):
            calls = ollama_calls([{"id": "c", "function": {"name": "t", "arguments": arguments}}, "skipped"])
        assert [call["function"]["arguments"] for call in calls] == ([] if expected is None else [expected])
        assert bool(caplog.records) is warns

    @pytest.mark.parametrize(
        ("reason", "arguments", "left"),
        [
            ("length", '{"a": 1', []),
            ("length", "", []),
            ("content_filter", "[1", []),
            ("length", '{"a": 1}', ['{"a": 1}']),
            ("tool_calls", "", ["{}"]),
            (None, '{"a": 1', ['{"a": 1']),
        ],
    )
    def test_a_call_that_was_cut_is_left_out(self, reason, arguments, left):
        """The reason of the end says so; empty arguments of any other are `{}`."""
        calls = ToolCallCollector()
        calls.add([{"index": 0, "id": "c", "function": {"name": "t", "arguments": arguments}}])
        assert [call["function"]["arguments"] for call in calls.complete(reason)] == left

    def test_ollama_shape_is_idempotent(self):
        """Also without an id, and for a call that holds nothing."""
        once = ollama_calls([{"function": {"name": "t", "arguments": {}}}, {"function": 3}])
        assert ollama_calls(once) == once


class TestReasons:
    @pytest.mark.parametrize(
        ("given", "has_calls", "expected"),
        [
            ("stop", False, "stop"),
            ("length", False, "length"),
            ("content_filter", False, "content_filter"),
            ("tool_calls", False, "stop"),
            ("eos_token", False, "stop"),
            (None, False, "stop"),
            ("stop", True, "tool_calls"),
            ("length", True, "length"),
            ("content_filter", True, "content_filter"),
        ],
    )
    def test_clients_see_four_reasons(self, given, has_calls, expected):
        """Tool calls that were sent decide; a word that clients do not know is a stop."""
        assert client_finish_reason(given, has_calls) == expected

    def test_ollama_knows_two(self):
        """A token limit, and everything else."""
        assert [ollama_done_reason(r) for r in ("length", "stop", "tool_calls")] == ["length", "stop", "stop"]


NUMBERS = [
    ({"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 99}, (5, 2, 7)),
    ({"prompt_tokens": 5}, (5, 3, 8)),
    (None, (0, 3, 3)),
    ({"prompt_tokens": True, "completion_tokens": "2"}, (0, 3, 3)),
]
IDS = ["reported", "half", "none", "odd"]


class TestNumbers:
    @pytest.mark.parametrize(("usage", "expected"), NUMBERS, ids=IDS)
    def test_a_backends_numbers_are_filled_up(self, usage, expected):
        """With estimates of the prompt, when one was sent, and of what was said; facts beside them stay."""
        given = usage and {**usage, "total_tokens": None, "prompt_duration_ns": 9}
        full = full_usage(given, lambda: "Hello world", lambda: 40)
        prompt = expected[0] or 40
        assert full["total_tokens"] == prompt + expected[1]
        assert (full["prompt_tokens"], full["completion_tokens"]) == (prompt, expected[1])
        assert full.get("prompt_duration_ns") == (9 if usage else None)

    def test_no_model_has_no_prompt(self):
        assert full_usage(None, lambda: "", None)["prompt_tokens"] == 0

    @pytest.mark.parametrize(("usage", "expected"), NUMBERS, ids=IDS)
    def test_usage_is_never_absent(self, usage, expected):
        """Reported numbers first, an estimate of the text for the rest."""
        assert tuple(usage_numbers(usage, "Hello world").values()) == expected

    def test_durations_are_at_least_one(self):
        """Clients divide by them; the first output may not have come."""
        metrics = Pace().metrics(AnswerFacts("r", "m"), usage_numbers(None, ""))
        assert all(metrics[name] >= 1 for name in metrics if name.endswith("duration"))

    def test_an_answer_in_one_piece_took_all_the_time(self):
        """Clients compute tokens a second: 1 ns for a whole text would be nonsense."""
        pace = Pace(first=12.0, last=12.0)
        metrics = pace.metrics(AnswerFacts("r", "m", arrived=9.0, started=10.0), usage_numbers(None, "x"))
        assert metrics["eval_duration"] == 2_000_000_000

    def test_the_backends_own_times_are_the_true_ones(self):
        """Streamed or whole."""
        told = {"prompt_duration_ns": 5, "completion_duration_ns": 7}
        metrics = Pace(first=12.0, last=13.0).metrics(AnswerFacts("r", "m"), usage_numbers(told, "x"), told)
        assert (metrics["prompt_eval_duration"], metrics["eval_duration"]) == (5, 7)

    def test_what_was_held_stands_behind_the_count_of_the_prompt(self):
        """Where it is known; the six are told all the same."""
        told = {"prompt_tokens": 9, "cached_tokens": 0}
        metrics = Pace().metrics(AnswerFacts("r", "m"), usage_numbers(told, "x"), told)
        assert list(metrics)[2:4] == ["prompt_eval_count", "prompt_eval_cached_count"]
        assert metrics["prompt_eval_cached_count"] == 0 and len(metrics) == 7

    @pytest.mark.parametrize(
        ("usage", "cache"),
        [
            (None, {}),
            ({"prompt_tokens": 9}, {}),
            ({"cached_tokens": 0}, {"cached_tokens": 0}),
            ({"cached_tokens": 5, "cache_write_tokens": 2}, {"cached_tokens": 5, "cache_write_tokens": 2}),
            ({"cached_tokens": None, "cache_write_tokens": "2"}, {}),
        ],
    )
    def test_what_is_known_of_the_cache(self, usage, cache):
        """Unknown is not 0."""
        assert cache_numbers(usage) == cache
        told = openai_usage_object(usage, "")
        assert told.get("prompt_tokens_details", {}) == cache
        assert ("prompt_tokens_details" in told) == bool(cache)

    def test_an_answer_without_a_model_has_no_numbers(self):
        """All six are 0."""
        metrics = Pace().metrics(AnswerFacts("r", "m", unmeasured=True), usage_numbers(None, "x"))
        assert set(metrics.values()) == {0} and len(metrics) == 6

    def test_output_is_marked(self, monkeypatch):
        """The first mark stays, the last moves."""
        pace = Pace()
        for now in (10.0, 11.5, 14.0):
            monkeypatch.setattr(answers.time, "monotonic", lambda now=now: now)
            pace.mark()
        assert (pace.first, pace.last) == (10.0, 14.0)
        metrics = pace.metrics(AnswerFacts("r", "m", arrived=7.0, started=9.0), usage_numbers(None, "x"))
        assert [value / 1e9 for name, value in metrics.items() if name.endswith("duration")] == [7, 2, 1, 4]


def test_the_nodes_that_begin_are_told_in_a_line():
    """Those of a batch, in order; a batch of text tells of none."""
    step = {"number": 2, "of": 5, "title": "Recall", "depth": 1}
    assert steps_of([chunk("a"), chunk(progress=step), chunk(progress={**step, "number": 3})]) == [
        step,
        {**step, "number": 3},
    ]
    assert steps_of([chunk("a")]) == []
    assert step_line(step) == "[2/5] Recall"


def test_json_for_clients_is_short():
    """No blanks, letters as they are, keys in their order."""
    assert compact_json({"b": [1, "ü"], "a": None}) == '{"b":[1,"ü"],"a":null}'


@pytest.mark.parametrize(
    ("workflow_usage", "beside"),
    [
        (None, {}),
        (lambda: None, {}),
        (lambda: {"prompt_tokens": 3}, {"workflow_usage": {"prompt_tokens": 3}}),
    ],
    ids=["not-asked-for", "no-model-was-asked", "asked-for"],
)
def test_the_numbers_of_all_models_stand_beside_the_answers_own(workflow_usage, beside):
    assert AnswerFacts("r", "m", workflow_usage=workflow_usage).usage_beside() == beside


class TestCurrentFacts:
    def test_inside_a_request(self):
        """Its id and model name."""
        with enter_request(RequestContext("r", "mira", "openaichatcompletion", workflow_folder="novel")):
            facts = AnswerFacts.current()
        assert (facts.request_id, facts.model) == ("r", "mira:novel")

    def test_outside_a_request(self):
        """An id is made, the model has no name."""
        facts = AnswerFacts.current()
        assert facts.request_id and facts.model == ""
