"""Bytes of a backend's stream to standard dicts: the vectors of the spec, and every ending."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import ClassVar

import pytest

from Middleware.common.errors import BackendError
from Middleware.common.request_context import RequestContext, enter_request
from Middleware.config.endpoints import EndpointConfig
from Middleware.llmapis.call import stream_reader
from Middleware.llmapis.call.stream_reader import SHOWN
from Middleware.llmapis.handlers import impl
from Middleware.llmapis.handlers.backends import BACKENDS
from Middleware.llmapis.handlers.base.base_llm_api_handler import HandlerSettings

_ = impl
OPENAI, OLLAMA, KOBOLD = "openAIChatCompletion", "ollamaApiChat", "koboldCppGenerate"
VECTORS = Path(__file__).parents[2] / "conformance" / "backend_streams.jsonl"


def new_reader(kind=OPENAI, content_type="", **endpoint):
    config = EndpointConfig("E", {"endpoint": "http://h", **endpoint}, "t", {"type": kind})
    return BACKENDS[kind](HandlerSettings(config, stream=True)).new_stream(content_type)


def dicts(reader, *reads):
    """What comes out, as the stream loop asks for it."""
    out = []
    for data in reads:
        out += reader.feed(data.encode() if isinstance(data, str) else data)
        if reader.ended:
            break
    return out + reader.finish()


def vectors():
    for line in VECTORS.read_text().splitlines():
        case = json.loads(line)
        for number, one in enumerate(case.get("cases", [case])):
            yield pytest.param(one, id=f"{case['id']}.{number}")


def tokens(*texts):
    return [{"token": text, "finish_reason": None} for text in texts]


def is_a_piece_of_text(chunk):
    return chunk.keys() <= {"token", "finish_reason", "model"} and chunk["finish_reason"] is None


STOP = {"token": "", "finish_reason": "stop"}


class TestVectors:
    def outcome(self, case, reads):
        try:
            return dicts(new_reader(case["type"], **case.get("endpoint", {})), *reads)
        except BackendError as error:
            return error.kind

    @pytest.mark.parametrize("case", list(vectors()))
    def test_the_spec(self, case):
        """Each stream example of the spec."""
        out = self.outcome(case, [read.encode("latin-1") for read in case["reads"]])
        if "joined" in case:
            assert "".join(chunk["token"] for chunk in out) == case["joined"]["token"]
            assert "".join(chunk.get("thinking", "") for chunk in out) == case["joined"]["thinking"]
            assert out[-1]["finish_reason"] == case["finish_reason"]
        else:
            assert out == case.get("dicts", case.get("raises"))

    @pytest.mark.parametrize("case", list(vectors()))
    def test_what_says_nothing_but_text(self, case):
        """Batches are that until one of them says more."""
        reader = new_reader(case["type"], **case.get("endpoint", {}))
        reads = iter([*case["reads"], None])
        try:
            while not reader.ended and (read := next(reads)) is not None:
                seen = reader.feed(read.encode("latin-1"))
                assert not reader.only_text or all(is_a_piece_of_text(chunk) for chunk in seen)
            seen = reader.finish()
            assert not seen or not reader.only_text
        except BackendError:
            assert not reader.output

    @pytest.mark.parametrize("case", [v for v in vectors() if "joined" not in v.values[0]])
    def test_any_cut_gives_the_same(self, case):
        """The bytes cut at every position."""
        body = "".join(case["reads"]).encode("latin-1")
        expected = case.get("dicts", case.get("raises"))
        for at in range(1, len(body)):
            assert self.outcome(case, [body[:at], body[at:]]) == expected, at


class TestWhatIsGiven:
    def test_pieces_of_text_are_known_as_that(self):
        """A reader says so until the stream ends: nobody needs to look at each of them."""
        reader = new_reader()
        event = 'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}\n\n'
        assert reader.feed(2 * event.encode()) == tokens("a", "a")
        assert reader.only_text
        assert reader.finish()
        assert not reader.only_text

    def test_a_handler_may_put_the_models_name_into_its_dicts(self, rig, monkeypatch):
        """The first one counts, and is told once."""
        monkeypatch.setattr(
            BACKENDS[OPENAI],
            "_map_event",
            lambda handler, event, data, state: {
                "token": data["t"],
                "finish_reason": None,
                "model": data["m"],
            },
        )
        events = "".join(
            f"data: {json.dumps(each)}\n\n" for each in ({"t": "a", "m": "one"}, {"t": "b", "m": "two"})
        )
        out = new_reader().feed(events.encode())
        assert out == [{"token": "a", "finish_reason": None, "model": "one"}, *tokens("b")]

    def test_the_models_name_goes_with_the_first_output(self, rig):
        """Once, and not before."""
        event = 'data: {"model":"m","choices":[{"delta":{"content":%s}}]}\n\n'
        out = dicts(new_reader(), event % '""', event % '"a"', event % '"b"', rig.DONE)
        assert out == [{"token": "a", "finish_reason": None, "model": "m"}, *tokens("b"), STOP]

    def test_content_behind_the_finish_reason_is_not_lost(self, rig):
        """The finishing dict stays the last one."""
        out = dicts(new_reader(), rig.token("a", finish_reason="length"), rig.token("b"), rig.DONE)
        assert out == [*tokens("a", "b"), {"token": "", "finish_reason": "length"}]

    def test_nothing_behind_the_end_mark_counts(self, rig):
        """Also in the same read."""
        assert dicts(new_reader(), rig.token("a") + rig.DONE + rig.token("b")) == [*tokens("a"), STOP]

    def test_an_end_mark_alone_is_a_stream(self, rig):
        """So such a body is not looked at once more, as a whole answer."""
        reader = new_reader()
        reader.feed(rig.DONE.encode())
        assert reader.readable

    def test_the_end_mark_after_tool_calls(self, rig):
        """Without a reason of the backend's own."""
        call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": {"x": 1}}}
        out = dicts(
            new_reader(),
            "data: " + json.dumps({"choices": [{"delta": {"tool_calls": [call]}}]}) + "\n\n",
            rig.DONE,
        )
        assert out[0]["tool_calls"] == [
            {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
        ]
        assert out[1:] == [{"token": "", "finish_reason": "tool_calls"}]

    def test_a_split_finish_keeps_what_was_held(self, rig):
        """Half a mark at the very end is text."""
        out = dicts(
            new_reader(reasoningParser="think"),
            rig.token("a<thi"),
            rig.token("", finish_reason="stop"),
            rig.DONE,
        )
        assert out == [*tokens("a"), {"token": "<thi", "finish_reason": "stop"}]

    def test_finishing_waits_only_for_the_usage(self, rig):
        """The reader says when silence may end the stream."""
        reader = new_reader()
        assert reader.feed(rig.token("a", finish_reason="stop").encode()) == []
        assert (reader.finishing, reader.ended) == (True, False)
        assert reader.finish() == [{"token": "a", "finish_reason": "stop"}]
        assert reader.finish() == []


def part(arguments="", index=0, **more):
    """An event with a fragment of a call; the first one of a call has `id` and `name`."""
    name = {"name": more.pop("name")} if "name" in more else {}
    call = {"index": index, **more, "function": {**name, "arguments": arguments}}
    return "data: " + json.dumps({"choices": [{"delta": {"tool_calls": [call]}}]}) + "\n\n"


CLAUDE = "claudeMessages"


def claude(stop_reason, *pieces):
    """Claude's events of one call, to the end."""
    delta = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    use = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    events = [
        {"type": "content_block_start", "index": 0, "content_block": use},
        *({"type": "content_block_delta", "index": 0, "delta": one} for one in delta),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": stop_reason}},
        {"type": "message_stop"},
    ]
    return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]


class TestCalls:
    """A client is never told that a call is finished whose arguments are not whole."""

    BEGUN = part('{"path": "a.t', id="c", name="f")
    EMPTY = part(id="c", name="f")

    @pytest.mark.parametrize(
        ("reads", "kind"),
        [
            ([BEGUN], "connection_lost"),
            ([EMPTY], "connection_lost"),
            ([BEGUN, "data: [DONE]\n\n"], "protocol_error"),
            ([part("[1]", id="c", name="f"), "data: [DONE]\n\n"], "protocol_error"),
            ([part('{"a": 1,}', id="c", name="f"), "data: [DONE]\n\n"], "protocol_error"),
            (
                [part("{}", id="a", name="f"), part("{", 1, id="b", name="g"), "data: [DONE]\n\n"],
                "protocol_error",
            ),
        ],
        ids=["cut", "cut-before-arguments", "end-mark", "no-object", "comma", "the-second-of-two"],
    )
    def test_arguments_that_are_not_whole_are_an_error(self, reads, kind):
        """The end of the body, or the model's slip."""
        reader = new_reader()
        last = dicts(reader, *reads)[-1]
        assert (last["finish_reason"], last["error"]["kind"]) == ("error", kind)
        assert reader.bad_call

    def test_the_error_of_a_cut_call_says_all(self, caplog):
        """No warning of a missing end mark beside it."""
        dicts(new_reader(), self.BEGUN)
        assert caplog.text == ""

    @pytest.mark.parametrize("reason", ["tool_calls", "stop"])
    def test_whatever_reason_the_backend_gives(self, rig, reason):
        """`tool_calls` would have an agent run it."""
        out = dicts(new_reader(), self.BEGUN, rig.token("", finish_reason=reason), rig.DONE)
        assert out[-1]["error"]["kind"] == "protocol_error"
        assert "f" in out[-1]["error"]["message"] and "a.t" not in out[-1]["error"]["message"]

    @pytest.mark.parametrize("reason", ["length", "content_filter"])
    @pytest.mark.parametrize("begun", [BEGUN, EMPTY], ids=["inside", "before"])
    def test_a_reason_that_cuts_says_all(self, rig, reason, begun):
        """Agents ask again when they read it; nothing is put in the place of what is missing."""
        reader = new_reader()
        out = dicts(reader, begun, rig.token("", finish_reason=reason), rig.DONE)
        assert out[1:] == [{"token": "", "finish_reason": reason}]
        assert not reader.bad_call

    def test_a_call_without_arguments_has_an_empty_object(self, rig):
        """Clients read the text as JSON."""
        out = dicts(new_reader(), self.EMPTY, rig.token("", finish_reason="tool_calls"), rig.DONE)
        assert out[-1] == {
            "token": "",
            "finish_reason": "tool_calls",
            "tool_calls": [{"index": 0, "function": {"arguments": "{}"}}],
        }

    @pytest.mark.parametrize(
        ("stop_reason", "pieces", "ending"),
        [
            ("max_tokens", ['{"path": "a.t'], "length"),
            ("max_tokens", [], "length"),
            ("max_tokens", ["{}"], "length"),
            ("tool_use", ['{"path": "a.t'], "error"),
            ("refusal", ['{"path'], "content_filter"),
        ],
    )
    def test_claude(self, stop_reason, pieces, ending):
        """Its block is stopped, whether or not its input is whole: the reason counts."""
        out = dicts(new_reader(CLAUDE), *claude(stop_reason, *pieces))
        calls = [call for chunk in out for call in chunk.get("tool_calls", ())]
        assert out[-1]["finish_reason"] == ending
        assert "".join(call["function"]["arguments"] for call in calls) == "".join(pieces)

    def test_claude_without_arguments(self):
        """No piece of input is an empty one."""
        out = dicts(new_reader(CLAUDE), *claude("tool_use"))
        assert out[-1]["tool_calls"] == [{"index": 0, "function": {"arguments": "{}"}}]

    def test_ollamas_limit_behind_a_whole_call(self):
        """The call is whole, the answer is not."""
        call = {"function": {"name": "f", "arguments": {"x": 1}}}
        out = dicts(
            new_reader(OLLAMA),
            json.dumps({"message": {"role": "assistant", "content": "", "tool_calls": [call]}}) + "\n",
            json.dumps({"message": {"content": ""}, "done": True, "done_reason": "length"}) + "\n",
        )
        assert out[-1]["finish_reason"] == "length"


COMPLETIONS = "openAIV1Completion"


class TestFinishWords:
    """Some backends tell of a failure in the finish reason alone."""

    @pytest.mark.parametrize(
        "native", ["network_error", "error", "NETWORK_ERROR", "function_call_filter: MALFORMED_FUNCTION_CALL"]
    )
    def test_a_failure_without_output(self, rig, native):
        """OpenRouter beside `stop`; it is raised, so that a backup can take over."""
        with pytest.raises(BackendError) as caught:
            dicts(new_reader(), rig.token("", finish_reason="stop", native_finish_reason=native), rig.DONE)
        assert (caught.value.kind, caught.value.status) == ("stream_error", 200)
        assert f"finish reason '{native}'" in str(caught.value)

    def test_as_the_only_word(self, rig):
        """Servers that have no other field for it."""
        with pytest.raises(BackendError, match="network_error"):
            dicts(new_reader(), rig.token("", finish_reason="network_error"), rig.DONE)

    def test_after_output_the_answer_stands(self, rig):
        """The text is what the user wants."""
        out = dicts(new_reader(), rig.token("a"), rig.token("", finish_reason="network_error"), rig.DONE)
        assert out[-1] == {"token": "", "finish_reason": "stop", "native_finish_reason": "network_error"}

    def test_the_word_error_is_always_one(self):
        """Of every dialect, after output too."""
        event = 'data: {"choices":[{"text":"%s","finish_reason":%s}]}\n\n'
        out = dicts(new_reader(COMPLETIONS), event % ("a", "null"), event % ("", '"error"'))
        assert (out[0]["token"], out[-1]["error"]["kind"]) == ("a", "stream_error")


class TestBodiesThatAreNoStream:
    WHOLE: ClassVar = {"choices": [{"message": {"content": "hi"}, "finish_reason": "length"}], "model": "m"}

    @pytest.mark.parametrize("text", [json.dumps(WHOLE), "\ufeff " + json.dumps(WHOLE, indent=2)])
    def test_a_server_that_ignores_stream(self, text):
        """Its whole answer is one dict."""
        out = dicts(new_reader(content_type="application/json"), *text.encode().partition(b":"))
        assert out == [{"token": "hi", "finish_reason": "length", "model": "m"}]

    def test_the_same_with_tool_calls(self):
        """As deltas, with an index."""
        call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        whole = {"choices": [{"message": {"content": None, "tool_calls": [call]}}]}
        out = dicts(new_reader(content_type="application/json"), json.dumps(whole))
        assert out == [{"token": "", "tool_calls": [{"index": 0, **call}], "finish_reason": "tool_calls"}]

    def test_ollama_without_streaming(self):
        """One line, or spread over lines."""
        whole = {"message": {"content": "hi"}, "done": True, "done_reason": "stop"}
        for text in (json.dumps(whole), json.dumps(whole, indent=1)):
            assert dicts(new_reader(OLLAMA, "application/json"), text) == [
                {"token": "hi", "finish_reason": "stop"}
            ]

    def test_lines_called_json_still_stream(self):
        """Some proxies rename the type of NDJSON."""
        reader = new_reader(OLLAMA, "application/json")
        assert reader.feed(b'{"message":{"role":"assistant","content":"a"},"done":false}\n') == tokens("a")

    @pytest.mark.parametrize("lead", ["", " \n"])
    def test_events_called_json_still_stream(self, rig, lead):
        """The first byte tells."""
        reader = new_reader(content_type="application/json")
        reader.feed(lead.encode())
        assert reader.feed(rig.token("a").encode()) == tokens("a")

    @pytest.mark.parametrize("cut", [1, 2, 3])
    def test_a_byte_order_mark_before_them_may_be_cut(self, rig, cut):
        """What was kept of it goes in front."""
        reader = new_reader(content_type="application/json")
        mark = b"\xef\xbb\xbf"
        reader.feed(mark[:cut])
        assert reader.feed(mark[cut:] + rig.token("a").encode()) == tokens("a")

    def test_bare_lines_called_json_for_an_sse_backend(self):
        """Many objects are no whole answer."""
        text = '{"choices":[{"delta":{"content":"a"}}]}\n{"choices":[{"delta":{"content":"b"}}]}\n'
        out = dicts(new_reader(content_type="application/json"), text)
        assert out == [*tokens("a", "b"), {**STOP, "truncated": True}]

    @pytest.mark.parametrize(
        "body", ["<html>no</html>" + " " * 2000, "<html>no</html>"], ids=["long", "short"]
    )
    def test_a_web_page_is_no_answer(self, body):
        """Its beginning is in the message."""
        with pytest.raises(BackendError, match="web page: <html>no</html>") as caught:
            dicts(new_reader(content_type="text/html"), body)
        assert caught.value.kind == "protocol_error"

    def test_so_much_of_a_page_is_waited_for(self):
        """Four times what the message shows of it, as a page may begin with blank lines."""
        reader = new_reader(content_type="text/html")
        assert reader.feed(b" " * 3 * SHOWN) == reader.feed(b"x" * SHOWN) == []
        with pytest.raises(BackendError, match=f"web page: {'x' * SHOWN}$"):
            reader.feed(b"x")

    @pytest.mark.parametrize(
        ("body", "kind"),
        [
            ('{"error":{"message":"m"}}', "stream_error"),
            ('{"x":1}', "protocol_error"),
            ("[1]", "protocol_error"),
            ("nope", "protocol_error"),
        ],
    )
    def test_other_json(self, body, kind):
        """An error is one, and so is what is not understood."""
        with pytest.raises(BackendError) as caught:
            dicts(new_reader(content_type="application/json"), body)
        assert caught.value.kind == kind

    def test_a_body_without_end(self, monkeypatch):
        """Not kept without a bound."""
        monkeypatch.setattr(stream_reader, "MAX_LINE_BYTES", 100)
        with pytest.raises(BackendError, match="longer than 100 bytes"):
            dicts(new_reader(content_type="application/json"), "{" + " " * 200)


class TestFaults:
    def test_bad_events_are_skipped_with_a_warning(self, rig, caplog):
        """One warning a stream, with at most 200 characters of the first."""
        out = dicts(
            new_reader(),
            "data: {oops" + "x" * 500 + "\n\n",
            rig.token("a"),
            "data: 7}\n\n",
            "data: \n\n",
            rig.DONE,
        )
        assert out == [*tokens("a"), STOP]
        assert [len(record.args[1]) for record in caplog.records] == [200]

    @pytest.mark.parametrize("sign", ["null", "7", '"wait"', "[]", " null "])
    def test_json_that_is_no_object_is_a_sign_of_life(self, rig, caplog, sign):
        """However many come, before and in the answer; nobody is warned."""
        signs = f"data: {sign}\n\n" * 50
        assert dicts(new_reader(), signs, rig.token("a"), signs, rig.DONE) == [*tokens("a"), STOP]
        assert caplog.records == []

    def test_signs_of_life_alone_are_no_answer(self, rig):
        """A body of nothing else is an error."""
        with pytest.raises(BackendError) as caught:
            dicts(new_reader(), "data: null\n\n" * 30)
        assert caught.value.kind == "protocol_error"

    def test_a_private_request_shows_nothing(self, rig, caplog):
        """Only that something was skipped."""
        with enter_request(RequestContext("r", "u", "openai", privacy=True)):
            dicts(new_reader(), "data: secret\n\n", rig.DONE)
        assert "skipped an event that cannot be read: [Redacted]" in caplog.text
        assert "secret" not in caplog.text

    def test_too_many_in_a_row(self, rig):
        """More than 20: this is not the backend that the config says."""
        with pytest.raises(BackendError) as caught:
            dicts(new_reader(), "data: x\n\n" * 21, rig.DONE)
        assert caught.value.kind == "protocol_error"

    def test_too_many_after_output(self, rig):
        """Then it is the last dict."""
        out = dicts(new_reader(), rig.token("a") + "data: x\n\n" * 21, rig.DONE)
        assert [out[0]["token"], out[1]["error"]["kind"]] == ["a", "protocol_error"]

    def test_as_many_between_two_good_ones(self, rig):
        """Twenty are skipped each time: the row begins again."""
        bad = "data: x\n\n" * 20
        assert dicts(new_reader(), bad, rig.token("a"), bad, rig.token("b"), bad, rig.DONE) == [
            *tokens("a", "b"),
            STOP,
        ]

    @pytest.mark.parametrize("body", ['{"message":"quota used up"}', '{"detail":"quota used up"}'])
    def test_a_failure_without_error_after_output(self, rig, body):
        """An answer without a finish reason that a complaint came into has failed, in the backend's words."""
        out = dicts(new_reader(), rig.token("a"), f"data: {body}\n\n", rig.DONE)
        assert (out[-1]["finish_reason"], "quota used up" in out[-1]["error"]["message"]) == ("error", True)

    def test_an_object_without_words_after_output(self, rig):
        """A foreign sign of life leaves the answer good."""
        assert dicts(new_reader(), rig.token("a"), 'data: {"type":"ping"}\n\n', rig.DONE) == [
            *tokens("a"),
            STOP,
        ]

    def test_an_event_of_an_unexpected_shape(self, rig, caplog):
        """Counts as a bad one."""
        assert dicts(new_reader(), 'data: {"choices":[3]}\n\n' * 2, rig.token("a"), rig.DONE) == [
            *tokens("a"),
            STOP,
        ]
        [warning] = caplog.messages
        assert warning.endswith('skipped an event that cannot be read: {"choices":[3]}')

    @pytest.mark.parametrize(
        ("kind", "body", "said"),
        [
            (OPENAI, "", "the stream contained nothing"),
            (OPENAI, "data: x\n\n" * 2, "the stream contained 2 events that cannot be read"),
            (KOBOLD, "", "the stream contained nothing"),
            (
                OPENAI,
                'data: {"choices":[{"delta":{"role":"assistant"}}]}\n\n',
                "the stream ended without any output",
            ),
            (
                OPENAI,
                'data: {"note":"quota used up"}\n\n',
                f'the answer is not what a backend of the type {OPENAI} sends: {{"note": "quota used up"}}',
            ),
        ],
        ids=["empty", "only-bad", "kobold-empty", "no-output", "something-else"],
    )
    def test_nothing_useful(self, kind, body, said):
        """So that failover works; it says what came instead."""
        with pytest.raises(BackendError) as caught:
            dicts(new_reader(kind), body)
        assert (caught.value.kind, caught.value.message) == ("protocol_error", said)

    def test_something_else_before_the_end_mark_is_no_empty_answer(self, rig):
        with pytest.raises(BackendError, match="quota used up"):
            dicts(new_reader(), 'data: {"note":"quota used up"}\n\n', rig.DONE)

    def test_an_endless_line(self, rig, monkeypatch):
        """Before output it is raised, after output told."""
        for first, at_end in (("", False), (rig.token("a"), True)):
            reader = new_reader()
            reader._decoder._lines._limit = 10
            if at_end:
                assert dicts(reader, first, "data: " + "x" * 50)[-1]["error"]["kind"] == "protocol_error"
            else:
                with pytest.raises(BackendError, match="longer than 10 bytes"):
                    dicts(reader, "data: " + "x" * 50)

    IN_BAND: ClassVar = [
        ("error-event", 'event: error\ndata: {"message":"m"}\n\n', "stream_error", "m"),
        ("error-event-text", "event: error\ndata: gone\n\n", "stream_error", "gone"),
        ("error-line", 'error: {"error":{"message":"m"}}\n\n', "stream_error", "m"),
        ("old-vllm", 'data: {"object":"error","message":"m"}\n\n', "stream_error", "m"),
        ("rate-limit", 'data: {"error":{"type":"rate_limit_error","message":"m"}}\n\n', "rate_limited", "m"),
        ("overflow", 'data: {"error":{"message":"maximum context length"}}\n\n', "context_overflow", "maximum context length"),
        ("finish-reason", 'data: {"choices":[{"delta":{},"finish_reason":"error"}]}\n\n', "stream_error", "the backend ended the answer with an error"),
    ]  # fmt: skip

    @pytest.mark.parametrize(
        ("body", "kind", "message"), [c[1:] for c in IN_BAND], ids=[c[0] for c in IN_BAND]
    )
    def test_errors_in_band(self, rig, body, kind, message):
        """Raised before output; the last dict after it."""
        with pytest.raises(BackendError) as caught:
            dicts(new_reader(), body)
        assert (caught.value.kind, caught.value.message) == (kind, message)
        out = dicts(new_reader(), rig.token("a"), body, rig.token("b"))
        assert out[-1]["finish_reason"] == "error"
        assert (out[-1]["error"]["kind"], len(out)) == (kind, 2)

    def test_an_error_behind_the_finish_reason_is_too_late(self, rig):
        """The answer is whole."""
        out = dicts(new_reader(), rig.token("a", finish_reason="stop"), 'data: {"error":"x"}\n\n', rig.DONE)
        assert out == [{"token": "a", "finish_reason": "stop"}]

    def test_error_null_is_no_error(self, rig):
        """Some servers always send the key."""
        event = 'data: {"error":null,"choices":[{"delta":{"content":"a"}}]}\n\n'
        assert dicts(new_reader(), event, rig.DONE) == [*tokens("a"), STOP]

    def test_the_key_is_hidden(self):
        """Also in a stream."""
        config = EndpointConfig("E", {"endpoint": "http://h"}, "t", {"type": OPENAI})
        reader = BACKENDS[OPENAI](HandlerSettings(config, api_key="sk-12345")).new_stream()
        with pytest.raises(BackendError, match=r"bad key \*\*\*"):
            reader.feed(b'data: {"error":"bad key sk-12345"}\n\n')


class TestBroken:
    LOST = BackendError("E", "connection_lost", "gone")

    def test_before_output(self):
        """The failure goes on."""
        with pytest.raises(BackendError):
            new_reader().connection_failed(self.LOST)

    @pytest.mark.parametrize(
        ("more", "last"),
        [
            ({}, {"token": "", "finish_reason": "error", "error": {"kind": "connection_lost", "message": "gone", "status": None, "native": None}}),
            ({"finish_reason": "stop"}, {"token": "a", "finish_reason": "stop"}),
        ],
        ids=["in-the-answer", "after-the-reason"],
    )  # fmt: skip
    def test_after_output(self, rig, more, last):
        """An error dict, unless the answer was whole already."""
        reader = new_reader()
        reader.feed(rig.token("a", **more).encode())
        assert reader.connection_failed(self.LOST) == [last]
        assert reader.connection_failed(self.LOST) == []


def test_kobold_ends_by_closing(caplog):
    """Its dialect has no end mark: a plain end is a good one."""
    with caplog.at_level(logging.WARNING):
        out = dicts(new_reader(KOBOLD), 'event: message\ndata: {"token":"a","finish_reason":"null"}\n\n')
    assert out == [*tokens("a"), STOP]
    assert caplog.records == []


WHOLE = [
    ("openAIChatCompletion", {"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}]}),
    ("claudeMessages", {"content": [{"type": "text", "text": "a"}], "stop_reason": "end_turn"}),
    ("koboldCppGenerate", {"results": [{"text": "a"}]}),
]


@pytest.mark.parametrize("form", ["{}", "{}\n", "data: {}\n\n", "data: {}\n\ndata: [DONE]\n\n"], ids=repr)
@pytest.mark.parametrize(("backend", "body"), WHOLE, ids=[name for name, _ in WHOLE])
def test_a_whole_answer_that_no_header_announces(backend, body, form, make_handler, read_stream):
    """Servers that ignore `stream` and name no content type."""
    chunks = read_stream(make_handler(backend), [form.replace("{}", json.dumps(body)).encode()])
    assert [(chunk["token"], chunk["finish_reason"]) for chunk in chunks] == [("a", "stop")]


def test_one_event_that_ends_an_empty_answer(make_handler, read_stream):
    """It is no whole answer, and stays empty."""
    event = {"choices": [{"delta": {}, "finish_reason": "stop"}]}
    chunks = read_stream(make_handler("openAIChatCompletion"), [f"data: {json.dumps(event)}\n\n".encode()])
    assert chunks == [{"token": "", "finish_reason": "stop"}]
