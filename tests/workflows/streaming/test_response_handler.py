"""An answer on its way to the client: text, thoughts, tool calls, its end; streamed and whole alike."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from Middleware.common.request_context import RequestContext, enter_request
from Middleware.common.types import TextBatch
from Middleware.llmapis.llm_text import LlmText
from Middleware.protocols.registry import WIRE_FORMATS
from Middleware.workflows.streaming.response_handler import (
    StreamingResponseHandler,
    whole_batch,
    whole_chunk,
)

THINK = {"removeThinking": True, "startThinkTag": "<think>", "endThinkTag": "</think>"}
INLINE = {**THINK, "reasoningOutput": "inline"}
NAMED_INLINE = {**INLINE, "thinkTagNames": ["think"]}
ROUTED_INLINE = [
    INLINE,
    NAMED_INLINE,
    {**NAMED_INLINE, "stripInlineXmlTags": True},
    {**NAMED_INLINE, "stripInlineXmlTags": {"tags": "*", "collapseWhitespace": False}},
    {**NAMED_INLINE, "trimBeginningAndEndLineBreaks": True},
]
FIELD = {**THINK, "reasoningOutput": "field"}
REQUEST = RequestContext("r-1", "anna", "openaichatcompletion")
CALL = {"index": 0, "id": "c1", "type": "function", "function": {"name": "Find_It", "arguments": "{}"}}


def text(token):
    return {"token": token, "finish_reason": None}


def thought(thinking, token=""):
    return {"token": token, "finish_reason": None, "thinking": thinking}


def call(*calls, token=""):
    return {"token": token, "finish_reason": None, "tool_calls": list(calls)}


def end(reason="stop", **facts):
    return {"token": "", "finish_reason": reason, **facts}


def said(batches):
    """All text that went out."""
    return "".join(part for batch in batches for part in batch if isinstance(part, str))


def short(chunk):
    """A chunk as one small value: a text, `("thinking", t)`, `("calls", n)`, `("end", reason)`."""
    if chunk["finish_reason"] is not None:
        return ("end", chunk["finish_reason"])
    if "thinking" in chunk:
        return ("thinking", chunk["thinking"])
    if "tool_calls" in chunk:
        return ("calls", len(chunk["tool_calls"]))
    return chunk["token"]


def cleaned(handler, *batches):
    """What comes out for each batch, in short."""
    return [[short(chunk) for chunk in batch] for batch in handler.clean(iter(batches))]


class TestText:
    def test_the_text_of_a_batch_is_one_chunk(self):
        handler = StreamingResponseHandler({}, {})

        assert cleaned(handler, [text(" a"), text("b"), text("")], [text("c")], [end()]) == [
            ["ab"],
            ["c"],
            [("end", "stop")],
        ]
        assert handler.full_response_text == "abc"

    def test_a_tick_passes_through(self):
        assert cleaned(StreamingResponseHandler({}, {}), [], [text("a")], []) == [
            [],
            ["a"],
            [],
            [("end", "stop")],
        ]

    def test_what_is_held_is_delivered_before_the_end(self):
        handler = StreamingResponseHandler(THINK, {})

        assert cleaned(handler, [text("a<th")], [end()]) == [["a"], ["<th", ("end", "stop")]]

    def test_a_batch_may_bring_the_whole_answer(self):
        assert cleaned(
            StreamingResponseHandler(THINK, {}), [text("<think>x</think>a"), text("b"), end()]
        ) == [["ab", ("end", "stop")]]

    @pytest.mark.parametrize(("is_set", "told"), [(True, "hi"), (False, "Assistant:hi")])
    def test_a_user_that_is_handed_in_counts(self, is_set, told):
        """Then no request is asked whose it is."""
        flags = ("chatCompleteAddUserAssistant", "chatCompletionAddMissingAssistantGenerator")
        handler = StreamingResponseHandler({}, {}, user_config=dict.fromkeys(flags, is_set))
        assert cleaned(handler, [text("Assistant:hi"), end()]) == [[told, ("end", "stop")]]

    def test_group_chat(self):
        assert cleaned(StreamingResponseHandler({}, {}, "Bo:"), [text("Hi"), end()]) == [
            ["Bo: Hi", ("end", "stop")]
        ]

    def test_the_upstream_is_closed(self):
        closed = []

        def upstream():
            try:
                yield [text("a")]
                yield [text("b")]
            finally:
                closed.append(True)

        held = upstream()  # so that no garbage collector closes it
        stream = StreamingResponseHandler({}, {}).clean(held)
        next(stream)
        stream.close()

        assert closed == [True]

    def test_a_batch_of_text_alone(self):
        """Is cleaned as its pieces are."""
        handler = StreamingResponseHandler(THINK, {})
        batch = TextBatch([text("<thi"), text("nk>a</think>b"), text("c")], "<think>a</think>bc")
        assert cleaned(handler, batch, [end()]) == [["bc"], [("end", "stop")]]
        assert handler.thoughts == ["a"]

    def test_text_behind_the_end(self):
        """Is not said, whatever kind of batch brings it."""
        handler = StreamingResponseHandler({}, {})
        assert cleaned(handler, [text("a"), end()], TextBatch([text("b")], "b"))[1:] == [[]]


class TestEnd:
    def finish(self, *chunks, **node):
        handler = StreamingResponseHandler({}, node)
        return [batch for batch in handler.clean(iter([list(chunks)]))][-1][-1], handler

    @pytest.mark.parametrize(
        ("reason", "expected", "native"),
        [
            ("stop", "stop", None),
            ("length", "length", None),
            ("content_filter", "content_filter", None),
            ("eos_token", "stop", "eos_token"),
        ],
    )
    def test_the_reason_is_one_that_clients_know(self, reason, expected, native):
        chunk, handler = self.finish(text("a"), end(reason))

        assert (chunk["finish_reason"], chunk.get("native_finish_reason")) == (expected, native)
        assert handler.finish_reason == expected

    def test_the_backends_own_word_is_kept(self):
        assert self.finish(end("stop", native_finish_reason="eos"))[0]["native_finish_reason"] == "eos"

    def test_facts_of_any_chunk_stand_in_the_finish_chunk(self):
        usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
        chunk, handler = self.finish(
            {**text("a"), "model": "m", "refusal": True}, {**text(""), "usage": usage}, end()
        )

        assert chunk == {"token": "", "finish_reason": "stop", "model": "m", "refusal": True, "usage": usage}
        assert handler.usage == usage

    def test_a_stream_that_just_stops_ends_too(self):
        assert cleaned(StreamingResponseHandler({}, {}), [text("a")]) == [["a"], [("end", "stop")]]
        assert cleaned(StreamingResponseHandler({}, {})) == [[("end", "stop")]]

    def test_nothing_but_ticks_after_the_end(self):
        handler = StreamingResponseHandler({}, {})
        late = {**text(""), "usage": {"total_tokens": 3}}

        assert cleaned(handler, [end()], [text("late"), late], []) == [[("end", "stop")], [], []]
        assert handler.usage == {"total_tokens": 3}
        assert handler.full_response_text == ""

    def test_an_error_comes_after_what_was_there(self):
        error = {"kind": "connection_lost", "message": "m", "status": None, "native": None}
        handler = StreamingResponseHandler(THINK, {})
        broken = {"token": "b<", "finish_reason": "error", "error": error}

        batches = list(
            handler.clean(iter([[text("a"), text("<th")], [broken, text("late")], [text("later")]]))
        )

        assert batches == [
            [text("a")],
            [text("<thb"), text("<"), {**broken, "token": ""}],
            [],
        ]
        assert handler.finish_reason == "error"

    def test_an_error_is_no_answer_of_a_speaker(self):
        handler = StreamingResponseHandler({}, {}, "Bo:")
        assert cleaned(handler, [{**end("error"), "error": {"message": "m"}}]) == [[("end", "error")]]


class TestToolCalls:
    def test_a_call_decides_nothing(self):
        """Decided text goes before it, undecided text stays held, cleaning goes on behind it."""
        handler = StreamingResponseHandler(THINK, {})

        out = cleaned(handler, [text("a<th"), call(CALL)], [text("ink>x</think>b")], [end()])

        assert out == [["a", ("calls", 1)], ["b"], [("end", "tool_calls")]]

    def test_a_chunk_with_both_gives_its_text_first(self):
        assert cleaned(StreamingResponseHandler({}, {}), [call(CALL, token="a"), end("stop")]) == [
            ["a", ("calls", 1), ("end", "tool_calls")]
        ]

    def test_an_empty_list_is_ordinary_text(self):
        assert cleaned(StreamingResponseHandler({}, {}), [call(token="a"), end("tool_calls")]) == [
            ["a", ("end", "stop")]
        ]

    @pytest.mark.parametrize(("lowers", "name"), [(True, "find_it"), (False, "Find_It")])
    def test_names_in_lower_case(self, lowers, name):
        handler = StreamingResponseHandler({}, {"lowercaseToolCallFunctionNames": lowers})
        more = {"index": 0, "function": {"arguments": "A"}}

        first, second = next(handler.clean(iter([[call(CALL), call(more, {"index": 1})]])))

        assert first["tool_calls"][0]["function"] == {"name": name, "arguments": "{}"}
        assert second["tool_calls"] == [more, {"index": 1}]
        assert CALL["function"]["name"] == "Find_It"

    @pytest.mark.parametrize("said", ["", "\n", "<think>x</think>"])
    def test_a_call_without_text_stays_without_a_speaker(self, said):
        handler = StreamingResponseHandler(THINK, {}, "Bo:")
        assert cleaned(handler, [text(said), call(CALL), end()]) == [[("calls", 1), ("end", "tool_calls")]]

    def test_text_beside_a_call_is_an_answer(self):
        handler = StreamingResponseHandler({}, {}, "Bo:")
        assert cleaned(handler, [text("Hi"), call(CALL), end()]) == [
            [("calls", 1), "Bo: Hi", ("end", "tool_calls")]
        ]


class TestThoughts:
    STREAM = ([thought("p")], [text("<think>q")], [text("r</th")], [text("ink>s")], [text("t"), end()])

    @pytest.mark.parametrize(
        ("mode", "expected"),
        [
            ("drop", [[], [], [], ["s"], ["t", ("end", "stop")]]),
            (
                "field",
                [
                    [("thinking", "p")],
                    [("thinking", "q")],
                    [("thinking", "r")],
                    ["s"],
                    ["t", ("end", "stop")],
                ],
            ),
            ("inline", [["<think>p"], ["q"], ["r"], ["</think>s"], ["t", ("end", "stop")]]),
        ],
    )
    def test_go_where_the_endpoint_says_as_they_arrive(self, mode, expected):
        handler = StreamingResponseHandler({**THINK, "reasoningOutput": mode}, {})

        assert cleaned(handler, *self.STREAM) == expected
        assert (handler.full_response_text, handler.thoughts) == ("st", ["p", "qr"])

    def test_the_node_decides_before_the_endpoint(self):
        assert cleaned(StreamingResponseHandler(FIELD, {"reasoningOutput": "drop"}), [thought("p")])[0] == []

    def test_a_request_may_want_none(self):
        with enter_request(replace(REQUEST, suppress_reasoning=True)):
            handler = StreamingResponseHandler(FIELD, {"reasoningOutput": "inline"})
        assert cleaned(handler, [thought("p", "a")])[0] == ["a"]

    def test_a_chunk_with_both_gives_its_thought_first(self):
        assert cleaned(StreamingResponseHandler(FIELD, {}), [text("a"), thought("p", "b")])[0] == [
            "a",
            ("thinking", "p"),
            "b",
        ]

    def test_inline_closes_its_tag_at_the_end(self):
        handler = StreamingResponseHandler({"reasoningOutput": "inline"}, {})
        assert cleaned(handler, [thought("p"), call(CALL), thought("q"), end()]) == [
            ["<think>\np", ("calls", 1), "q", "\n</think>\n\n", ("end", "tool_calls")]
        ]

    @pytest.mark.parametrize(
        "batches", [["a<think>x</think>b"], list("a<think>x</think>b")], ids=["whole", "characters"]
    )
    def test_inline_thoughts_behind_text_stand_where_they_came(self, batches):
        handler = StreamingResponseHandler(INLINE, {})

        out = cleaned(handler, *[[text(token)] for token in batches])

        assert (
            "".join(part for batch in out for part in batch if isinstance(part, str)) == "a<think>x</think>b"
        )
        assert (handler.full_response_text, handler.thoughts) == ("ab", ["x"])

    def test_inline_thoughts_beside_text_open_a_block_each_time(self):
        handler = StreamingResponseHandler({"reasoningOutput": "inline"}, {})

        out = cleaned(handler, [thought("p"), text("a")], [thought("q")], [text("b"), thought("r"), end()])

        assert out == [
            ["<think>\np", "\n</think>\n\na"],
            ["<think>\nq"],
            ["\n</think>\n\nb", "<think>\nr", "\n</think>\n\n", ("end", "stop")],
        ]
        assert (handler.full_response_text, handler.thoughts) == ("ab", ["p", "q", "r"])

    @given(
        st.lists(
            st.sampled_from([*"ab <>\n:`", "<think>", "</think>", "<b>", "</b>", "<b/>", "Sure!"]),
            max_size=12,
        ),
        st.lists(st.integers(0, 60), max_size=6),
        st.sampled_from(ROUTED_INLINE),
    )
    def test_inline_is_the_same_however_the_text_is_cut(self, morsels, places, endpoint):
        whole = "".join(morsels)
        edges = [0, *sorted(place % (len(whole) + 1) for place in places), len(whole)]
        node = {"removeCustomTextFromResponseStart": True, "responseStartTextToRemove": "Sure!"}

        at_once = cleaned(StreamingResponseHandler(endpoint, node), [text(whole), end()])
        in_pieces = cleaned(
            StreamingResponseHandler(endpoint, node),
            *[[text(whole[a:b])] for a, b in pairwise(edges)],
            [end()],
        )

        assert said(in_pieces) == said(at_once)

    def test_inline_text_that_is_still_held_has_not_begun(self):
        node = {"removeCustomTextFromResponseStart": True, "responseStartTextToRemove": "Sure!"}
        handler = StreamingResponseHandler(INLINE, node)

        assert cleaned(handler, [text("Su<think>x</think>re! a")])[0] == ["<think>x", "</think>a"]

    def test_an_unclosed_block_that_went_out_counts_as_a_thought(self):
        handler = StreamingResponseHandler(FIELD, {})

        assert cleaned(handler, [text("<think>a</thi")]) == [
            [("thinking", "a")],
            [("thinking", "</thi"), ("end", "stop")],
        ]
        assert (handler.full_response_text, handler.thoughts) == ("", ["a</thi"])


class TestLogging:
    NODE = {"endpointName": "Big"}  # noqa: RUF012

    @pytest.mark.parametrize(
        ("batch", "rule"),
        [([text("<think>a</think>")], "removeThinking"), ([thought("a")], "reasoning in a field of its own")],
    )
    def test_an_answer_that_was_all_thought(self, caplog, batch, rule):
        cleaned(StreamingResponseHandler(THINK, self.NODE), batch)
        assert (
            f"endpoint 'Big': the answer is empty after cleaning, because all of it was thinking (rule: {rule})"
            in caplog.text
        )

    def test_a_tool_call_needs_no_text(self, caplog):
        cleaned(StreamingResponseHandler(THINK, self.NODE), [thought("a"), call(CALL)])
        assert "empty" not in caplog.text

    @pytest.mark.parametrize(("privacy", "logged"), [(False, True), (True, False)])
    def test_thoughts_are_for_debugging_and_never_private_ones(self, caplog, privacy, logged):
        caplog.set_level(logging.DEBUG)
        with enter_request(replace(REQUEST, privacy=privacy)):
            handler = StreamingResponseHandler(THINK, self.NODE)

        cleaned(handler, [text("<think>SECRET</think>a")])

        assert ("SECRET" in caplog.text) is logged

    def test_long_thoughts_are_shortened_in_the_log(self, caplog):
        """100 characters at each end."""
        caplog.set_level(logging.DEBUG)
        cleaned(StreamingResponseHandler(THINK, self.NODE), [text(f"<think>{'a' * 600}{'b' * 600}</think>c")])
        assert f"'{'a' * 100}...{'b' * 100}'" in caplog.text


class TestFraming:
    @pytest.mark.parametrize("api_type", sorted(WIRE_FORMATS))
    def test_every_protocol_ends_with_the_answer(self, api_type):
        """What comes behind the finish goes to nobody, in no protocol."""
        with enter_request(replace(REQUEST, api_type=api_type)):
            stream = StreamingResponseHandler(THINK, {}, request_id="r-9").process_stream(
                iter([text("<think>plan</think>Hel"), text("lo"), end("length"), text("late")])
            )
        sent = "".join(stream)
        assert "Hel" in sent and "lo" in sent and "plan" not in sent and "late" not in sent

    @pytest.mark.parametrize(
        "api_type", ["openaichatcompletion", "openaicompletion", "ollamaapichat", "ollamagenerate"]
    )
    def test_units_of_the_requests_protocol(self, api_type):
        with enter_request(replace(REQUEST, api_type=api_type)):
            stream = StreamingResponseHandler(THINK, {}, request_id="r-9").process_stream(
                iter([text("<think>x</think>Hel"), text("lo"), end("length"), text("late")])
            )
        units = list(stream)

        texts = [json.loads(unit.removeprefix("data: ")) for unit in units if "[DONE]" not in unit]
        assert "late" not in "".join(units)
        assert "length" in units[-1 if api_type.startswith("ollama") else -2]
        assert (units[-1] == "data: [DONE]\n\n") is api_type.startswith("openai")
        assert "".join(_text_of(unit) for unit in texts) == "Hello"

    def test_a_failure_ends_the_stream_with_its_own_unit(self):
        with enter_request(REQUEST):
            handler = StreamingResponseHandler({}, {})
            units = list(
                handler.process_stream([text("a"), {**end("error"), "error": {"message": "broken"}}])
            )

        assert json.loads(units[-2].removeprefix("data: "))["error"]["message"] == "broken"
        assert units[-1] == "data: [DONE]\n\n"

    def test_without_a_protocol_nothing_can_be_framed(self):
        """Said before the first chunk is read."""
        with pytest.raises(ValueError, match="API type 'openai' has no stream"):
            StreamingResponseHandler({}, {}).process_stream(iter([]))

    def test_the_chunks_are_closed(self):
        closed = []

        def chunks():
            try:
                yield text("a")
                yield text("b")
            finally:
                closed.append(True)

        held = chunks()  # so that no garbage collector closes it
        with enter_request(REQUEST):
            stream = StreamingResponseHandler({}, {}).process_stream(held)
        next(stream)
        stream.close()

        assert closed == [True]


def _text_of(unit):
    if "choices" in unit:
        return unit["choices"][0].get("text") or unit["choices"][0].get("delta", {}).get("content") or ""
    return unit.get("response") or unit.get("message", {}).get("content") or ""


class TestWholeChunk:
    def test_a_text(self):
        assert whole_chunk("a") == {"token": "a", "finish_reason": "stop"}

    def test_a_text_that_knows_more(self):
        usage = {"total_tokens": 1}
        said = LlmText("a", finish_reason="length", thinking="p", usage=usage, model="m")
        assert whole_chunk(said) == {
            "token": "a",
            "finish_reason": "length",
            "thinking": "p",
            "usage": usage,
            "model": "m",
        }

    @pytest.mark.parametrize(
        ("endpoint", "expected"),
        [
            ({"reasoningOutput": "inline"}, ("A <think>\nt\n</think>\n\n<think>s</think>B", "")),
            (NAMED_INLINE, ("A <think>ts</think>B", "")),
            ({**FIELD, "thinkTagNames": ["think"]}, ("A B", "ts")),
            ({**THINK, "thinkTagNames": ["think"]}, ("A B", "")),
        ],
        ids=["inline", "inline-and-removed", "field", "drop"],
    )
    def test_thoughts_in_their_order(self, endpoint, expected):
        """As in a stream; those that a rule removes, between those that came beside the text."""
        pieces = [("", "A "), ("t", "<think>s</think>B")]
        said = LlmText("A <think>s</think>B", thinking="t", pieces=pieces, finish_reason="length")

        whole = StreamingResponseHandler(endpoint, {}).clean_batch(whole_batch(said))
        stream = [text("A "), thought("t"), text("<think>s</think>"), text("B"), end("length")]
        streamed = StreamingResponseHandler(endpoint, {}).clean_batch(stream)

        for batch in (whole, streamed):
            told = "".join(chunk["token"] for chunk in batch), "".join(c.get("thinking", "") for c in batch)
            assert (told, batch[-1]["finish_reason"]) == (expected, "length")

    @pytest.mark.parametrize(
        ("content", "expected"), [("", ""), (None, ""), (" a", "Bo: a")], ids=["empty", "null", "text"]
    )
    def test_a_tool_call(self, content, expected):
        """Its calls get their place; without text it stays so, in a group chat too."""
        result = {"content": content, "tool_calls": [{"id": "c1", "function": {"name": "F"}}]}
        handler = StreamingResponseHandler({}, {"lowercaseToolCallFunctionNames": True}, "Bo:")
        batches = list(handler.clean(iter([[whole_chunk(result)]])))

        assert handler.full_response_text == expected
        assert [chunk["tool_calls"] for chunk in batches[0] if "tool_calls" in chunk] == [
            [{"index": 0, "id": "c1", "function": {"name": "f"}}]
        ]
        assert handler.finish_reason == "tool_calls"


MORSELS = st.sampled_from(["<think>", "</think>", "<th", " ", "a", "Bo", ":", "Sure!", "\n", "x" * 14])
ENDPOINTS = st.sampled_from(
    [{}, THINK, FIELD, INLINE, {**INLINE, "thinkTagNames": ["think"]}, {**INLINE, "stripInlineXmlTags": True}]
)
NODE = {"removeCustomTextFromResponseStart": True, "responseStartTextToRemove": ["Sure!"]}


@settings(max_examples=150)
@given(
    ENDPOINTS,
    st.lists(MORSELS, max_size=10).map("".join),
    st.lists(st.integers(0, 99), max_size=6),
    st.booleans(),
)
def test_stream_and_whole_agree(endpoint, answer, places, groups):
    """What the client is sent, text and thoughts, does not depend on how the answer came."""

    def told(batches):
        handler = StreamingResponseHandler(endpoint, NODE, "Bo:" if groups else None)
        chunks = [chunk for batch in handler.clean(iter(batches)) for chunk in batch]
        sent = (
            "".join(chunk["token"] for chunk in chunks),
            "".join(chunk.get("thinking", "") for chunk in chunks),
        )
        return sent, handler.full_response_text, handler.thoughts

    edges = sorted(place % (len(answer) + 1) for place in [*places, 0])
    pieces = [[text(answer[a:b])] for a, b in pairwise([*edges, len(answer)])]

    assert (
        told([[text(answer), end()]])
        == told([*pieces, [end()]])
        == told([[text(letter) for letter in answer]])
    )
