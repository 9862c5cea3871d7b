"""OpenAI chat: URL, payload, and every shape of a chunk."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from Middleware.common.errors import BackendError
from Middleware.common.request_context import RequestContext, enter_request
from Middleware.llmapis.call.call_arguments import CallArguments
from Middleware.llmapis.handlers.impl.openai_api_handler import reported_usage

TYPE = "openAIChatCompletion"
TOOL = {"type": "function", "function": {"name": "f"}}


@pytest.fixture
def handler(make_handler):
    return make_handler(TYPE)


@pytest.fixture
def payload(make_handler):
    """`payload(conversation, endpoint=..., **arguments)`."""

    def build(conversation, endpoint=None, samplers=None, stream=True, **arguments):
        made = make_handler(TYPE, endpoint=endpoint, samplers=samplers or {}, stream=stream)
        return made._prepare_payload(conversation, None, None, **arguments)

    return build


@pytest.fixture
def said(handler, read_stream):
    """The dicts of a stream of chunks, with an end mark."""

    def say(*chunks):
        events = [f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks]
        return read_stream(handler, [*events, b"data: [DONE]\n\n"])

    return say


def choice(delta, reason=None, **more):
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": reason, **more}]}


class TestUrl:
    @pytest.mark.parametrize(
        ("base", "url"),
        [
            ("http://h:1", "http://h:1/v1/chat/completions"),
            ("http://h:1/", "http://h:1/v1/chat/completions"),
            ("http://h:1/v1", "http://h:1/v1/chat/completions"),
            ("http://h:1/v1/", "http://h:1/v1/chat/completions"),
            ("https://h/api/v1", "https://h/api/v1/chat/completions"),
            ("https://h/openai/v1/chat/completions", "https://h/openai/v1/chat/completions"),
            ("https://h/v1beta/openai/chat/completions/", "https://h/v1beta/openai/chat/completions"),
            ("https://h/d/chat/completions?api-version=1", "https://h/d/chat/completions?api-version=1"),
        ],
    )
    def test_nothing_is_doubled(self, make_handler, base, url):
        """A base may end in the version, or in all of the path."""
        assert make_handler(TYPE, endpoint={"endpoint": base})._get_api_endpoint_url() == url

    def test_the_old_type_is_the_same_backend(self, make_handler, handler):
        """Files of older versions still run."""
        old = make_handler("x", api_type={"type": "openAIApiChatImageSpecific"})
        assert type(old) is type(handler)


class TestHeaders:
    def test_key(self, make_handler):
        """As a bearer token."""
        headers = make_handler(TYPE, endpoint={"apiKey": "k"}).request_headers()
        assert headers["Authorization"] == "Bearer k"
        assert headers["Accept"] == "text/event-stream"

    def test_no_key_no_header(self, handler):
        """Some servers refuse an empty token."""
        assert "Authorization" not in handler.request_headers()

    def test_key_and_headers_from_the_environment(self, make_handler, monkeypatch):
        """Secrets need not stand in files."""
        monkeypatch.setenv("HR_KEY", "secret")
        endpoint = {"apiKeyEnv": "HR_KEY", "extraHeaders": {"X-Title": "t", "X-Token": "a ${ENV:HR_KEY}"}}
        headers = make_handler(TYPE, endpoint=endpoint).request_headers()
        assert headers["Authorization"] == "Bearer secret"
        assert (headers["X-Title"], headers["X-Token"]) == ("t", "a secret")


class TestPayload:
    def test_a_preset_may_replace_everything(self, payload):
        """Later keys win."""
        assert payload([], samplers={"model": "p", "messages": [1]})["model"] == "p"

    @pytest.mark.parametrize(("flag", "there"), [(False, True), (True, False)])
    def test_the_model_can_be_left_out(self, payload, flag, there):
        """For servers with one model."""
        assert ("model" in payload([], endpoint={"dontIncludeModel": flag})) is there

    def test_tools_and_choice_are_unchanged(self, payload):
        """Sent behind the samplers."""
        body = payload([], samplers={"a": 1}, tools=[TOOL], tool_choice="auto")
        assert list(body)[-2:] == ["tools", "tool_choice"]
        assert (body["tools"], body["tool_choice"]) == ([TOOL], "auto")

    @pytest.mark.parametrize("allowed", [True, False])
    def test_parallel_calls(self, make_handler, allowed):
        """Said beside tools only: the API refuses it without."""
        call = CallArguments([], tools=[TOOL], parallel_tool_calls=allowed)
        handler = make_handler(TYPE)
        assert handler._payload(call)["parallel_tool_calls"] is allowed
        assert "parallel_tool_calls" not in handler._payload(replace(call, tools=None))

    def test_no_tools(self, payload):
        """Neither key."""
        assert not {"tools", "tool_choice"} & set(payload([], tools=[], tool_choice=None))

    def test_tool_turns_pass_and_empty_calls_go(self, payload):
        """Null content is an empty text."""
        call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        turns = [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "ok"},
            {"role": "assistant", "content": "done", "tool_calls": []},
        ]
        assert payload(turns)["messages"] == [
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "ok"},
            {"role": "assistant", "content": "done"},
        ]

    def test_images_become_parts(self, payload):
        """Behind the text."""
        message = {"role": "user", "content": "Q", "images": ["https://h/a"]}
        image = {"type": "image_url", "image_url": {"url": "https://h/a"}}
        assert payload([message])["messages"][0]["content"] == [{"type": "text", "text": "Q"}, image]

    @pytest.mark.parametrize(
        ("endpoint", "stream", "options"),
        [
            ({"requestStreamUsage": True}, True, {"include_usage": True}),
            ({"requestStreamUsage": True}, False, None),
            ({}, True, {"include_usage": True}),
            ({"requestStreamUsage": False}, True, None),
        ],
    )
    def test_usage_is_asked_for_on_request(self, payload, endpoint, stream, options):
        """The endpoint says so, or its API type as a default; some servers refuse the field."""
        assert payload([], endpoint=endpoint, stream=stream).get("stream_options") == options

    def test_a_preset_may_ask_for_usage_in_its_own_way(self, payload):
        """It is not overwritten."""
        own = {"stream_options": {"include_usage": False}}
        assert (
            payload([], endpoint={"requestStreamUsage": True}, samplers=own)["stream_options"]
            == own["stream_options"]
        )


class TestAbort:
    @pytest.mark.parametrize("base", ["http://h:1", "http://h:1/v1/", "http://h:1/v1/chat/completions"])
    def test_text_generation_webui_is_told_to_stop(self, make_handler, base):
        """It goes on generating otherwise."""
        handler = make_handler("Text-Generation-WebUI", endpoint={"endpoint": base})
        assert handler.abort_request() == ("http://h:1/v1/internal/stop-generation", {})

    def test_others_stop_when_the_connection_closes(self, handler):
        """No further call."""
        assert handler.abort_request() is None


class TestStream:
    def test_refusal(self, said):
        """Reaches the user as text, marked."""
        first, last = said(choice({"refusal": "I cannot"}), choice({}, "stop"))
        assert first == {"token": "I cannot", "finish_reason": None, "refusal": True}
        assert last["finish_reason"] == "stop"

    def test_text_and_calls_in_one_chunk(self, said):
        """One dict with both."""
        call = {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        assert said(choice({"content": "a", "tool_calls": [call]}))[0] == {
            "token": "a",
            "finish_reason": None,
            "tool_calls": [call],
        }

    def test_the_old_single_call(self, said, joined):
        """`function_call` counts as a tool call."""
        facts = joined(
            said(
                choice({"function_call": {"name": "f", "arguments": "{"}}),
                choice({"function_call": {"arguments": "}"}}),
                choice({}, "function_call"),
            )
        )
        assert [(call["name"], call["arguments"]) for call in facts["calls"]] == [("f", {})]
        assert facts["finish_reason"] == "tool_calls"

    def test_the_mark_behind_thoughts_in_the_content(self, said, joined):
        """Google's route: it comes without the flag, after whatever text, perhaps in pieces or beside a call."""
        thought = choice({"content": "<thought>t", "extra_content": {"google": {"thought": True}}})
        call = {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}
        texts = [choice({"content": text}) for text in ("A", "B", "</tho", "ught>C", "D")]
        beside = choice({"content": "</thought>", "tool_calls": [call]}, "tool_calls")
        answer = joined(said(*texts[:2], thought, *texts[2:], thought, beside))
        assert (answer["text"], answer["thinking"]) == ("ABCD", "tt")
        assert [made["name"] for made in answer["calls"]] == ["f"]

    @pytest.mark.parametrize("reason", [None, "stop"])
    def test_half_a_mark_at_the_end_is_text(self, said, joined, reason):
        """Nothing of the answer is lost, whatever ends it."""
        thought = choice({"content": "t", "extra_content": {"google": {"thought": True}}})
        answer = joined(said(thought, choice({"content": "</th"}, reason)))
        assert (answer["text"], answer["thinking"]) == ("</th", "t")

    def test_only_the_first_choice_is_read(self, said):
        """Nobody asked for more."""
        chunk = choice({"content": "a"})
        chunk["choices"].append({"index": 1, "delta": {"content": "b"}})
        assert said(chunk)[0]["token"] == "a"

    def test_a_native_reason_beside_the_reason(self, said):
        """OpenRouter sends both."""
        (last,) = said(choice({"content": "a"}, "stop", native_finish_reason="eos"))
        assert (last["finish_reason"], last["native_finish_reason"]) == ("stop", "eos")
        (same,) = said(choice({"content": "a"}, "stop", native_finish_reason="stop"))
        assert "native_finish_reason" not in same

    def test_model_once(self, said):
        """With the first thing said."""
        chunks = [{"model": "m", **choice({"content": text})} for text in "ab"]
        assert [chunk.get("model") for chunk in said(*chunks)] == ["m", None, None]

    @pytest.mark.parametrize(
        "preamble",
        [
            {"choices": [], "prompt_filter_results": []},
            {"choices": None},
            {"id": "x"},
            choice({"role": "assistant", "content": None}),
            choice({"role": "assistant", "content": ""}),
            choice(None),
            {"choices": [{"index": 0}]},
            {"error": None, "choices": []},
        ],
        ids=str,
    )
    def test_chunks_that_say_nothing(self, said, preamble):
        """Preambles of all kinds."""
        assert said(preamble, choice({"content": "a"}))[0] == {"token": "a", "finish_reason": None}

    @pytest.mark.parametrize("name", ["usage", "timings"])
    def test_numbers_beside_a_piece_of_text(self, said, name):
        """Of a server that counts as it goes: the last ones stay, also when the end brings none."""
        numbers = {"usage": {"prompt_tokens": 35, "completion_tokens": 7}, "timings": TIMINGS}[name]
        first, *_, last = said({**choice({"content": "a"}), name: numbers}, choice({}, "stop"))
        assert (first["token"], last["usage"]["total_tokens"]) == ("a", 42)

    @pytest.mark.parametrize("usage", ["beside", "null", "absent", "in-the-finish"])
    def test_usage_wherever_it_stands(self, said, usage):
        """In the finishing dict, once."""
        counts = {"prompt_tokens": 4, "completion_tokens": 2, "total_tokens": 6}
        finish = choice({}, "stop")
        extra = {"beside": {"choices": []}, "null": {"choices": None}, "absent": {}}.get(usage)
        chunks = [finish, {**extra, "usage": counts}] if extra is not None else [{**finish, "usage": counts}]
        assert said(choice({"content": "a"}), *chunks)[-1]["usage"] == counts

    def test_reasoning_in_the_text_is_left_there(self, said):
        """The endpoint's cleaning rules decide."""
        assert said(choice({"content": "<think>a</think>b"}))[0]["token"] == "<think>a</think>b"

    @pytest.mark.parametrize(
        "error",
        [
            {"error": {"message": "down", "code": 502}},
            {"object": "error", "message": "down"},
            {"error": {"message": "down"}, **choice({"content": ""}, "error")},
        ],
        ids=["openai", "old-vllm", "openrouter"],
    )
    def test_errors_in_band(self, said, error):
        """After output an error dict, before it an exception."""
        last = said(choice({"content": "a"}), error)[-1]
        assert (last["finish_reason"], last["error"]["message"]) == ("error", "down")
        with pytest.raises(BackendError, match="down"):
            said(error)

    def test_a_reason_that_is_an_error(self, said):
        """Without any error object."""
        assert said(choice({"content": "a"}), choice({}, "error"))[-1]["error"]["kind"] == "stream_error"

    def test_one_event_is_one_dict(self, handler):
        """The stateless face."""
        data = json.dumps(choice({"content": "a"}))
        assert handler._process_stream_data(data) == {"token": "a", "finish_reason": None}
        assert handler._process_stream_data("{}") == {"token": "", "finish_reason": None}
        assert handler._process_stream_data("[DONE]") is None


class TestWhole:
    def test_text(self, handler, whole):
        """With all that came beside it."""
        message = {"content": "a", "reasoning": "r"}
        answer = handler.read_whole(
            {
                "model": "m",
                "choices": [{"message": message, "finish_reason": "length", "native_finish_reason": "max"}],
                "usage": {"prompt_tokens": 1, "completion_tokens": 2},
            }
        )
        assert whole(answer) == {
            "text": "a",
            "thinking": "r",
            "calls": [],
            "finish_reason": "length",
            "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
        }
        assert (answer.model, answer.native_finish_reason) == ("m", "max")

    @pytest.mark.parametrize(
        ("message", "text", "refused"),
        [({"content": None}, "", False), ({"content": None, "refusal": "no"}, "no", True)],
    )
    def test_null_and_refusal(self, handler, message, text, refused):
        """Null is an empty text."""
        answer = handler.read_whole({"choices": [{"message": message}]})
        assert (answer, answer.refusal) == (text, refused)

    def test_calls(self, handler):
        """Make a dict, with the choice's own reason."""
        calls = [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
        message = {"content": None, "tool_calls": calls}
        assert handler.read_whole({"choices": [{"message": message}]}) == {
            "content": "",
            "tool_calls": calls,
            "finish_reason": "tool_calls",
        }

    def test_reasoning_parser(self, make_handler):
        """Splits whole answers as it splits streams."""
        handler = make_handler(TYPE, endpoint={"reasoningParser": "think"})
        answer = handler.read_whole({"choices": [{"message": {"content": "<think>a</think>b"}}]})
        assert (answer, answer.thinking) == ("b", "a")

    @pytest.mark.parametrize("body", [{}, {"choices": None}, {"choices": [{}]}, {"choices": "x"}])
    def test_what_is_no_answer(self, handler, body):
        """Is an error, never an empty success."""
        with pytest.raises(BackendError) as raised:
            handler.read_whole(body)
        assert raised.value.kind == "protocol_error"

    @pytest.mark.parametrize(
        "body", [{"choices": []}, {"choices": [{"message": {"content": None}, "finish_reason": "stop"}]}]
    )
    def test_an_empty_answer(self, handler, body):
        """Has the right form and no text: it stays one."""
        answer = handler.read_whole(body)
        assert (answer, answer.finish_reason) == ("", "stop")


TIMINGS = {"cache_n": 30, "prompt_n": 5, "prompt_ms": 20.5, "predicted_n": 7, "predicted_ms": 350.0}
COUNTED = {
    "prompt_tokens": 35,
    "completion_tokens": 7,
    "total_tokens": 42,
    "cached_tokens": 30,
    "prompt_duration_ns": 20_500_000,
    "completion_duration_ns": 350_000_000,
}


class TestReportedUsage:
    def test_timings_count_as_usage(self):
        """llama.cpp tells its numbers there, whoever asked."""
        assert reported_usage({"timings": TIMINGS}) == COUNTED

    def test_usage_comes_first(self):
        """The times are kept beside it."""
        usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
        told = reported_usage({"usage": usage, "timings": {"predicted_ms": 1}})
        assert told == {**usage, "completion_duration_ns": 1_000_000}

    def test_what_was_held_stands_beside_a_usage_that_does_not_say(self):
        """As servers sent it before the usage had details."""
        usage = {"prompt_tokens": 35, "completion_tokens": 7, "total_tokens": 42}
        assert reported_usage({"usage": usage, "timings": TIMINGS}) == COUNTED

    def test_timings_of_a_server_that_does_not_say_what_it_held(self):
        """Older ones: nothing is known of it."""
        assert "cached_tokens" not in (reported_usage({"timings": {"prompt_n": 5, "predicted_n": 7}}) or {})

    @pytest.mark.parametrize("data", [{}, {"timings": 7}, {"timings": {"prompt_ms": 4}}, {"usage": None}])
    def test_nothing_is_told(self, data):
        """No numbers are made up."""
        assert reported_usage(data) is None

    def test_in_a_stream_and_whole(self, handler, read_stream):
        """The last chunk and the body have them."""
        choice = {"delta": {"content": "a"}, "finish_reason": "stop"}
        last = {"choices": [choice], "timings": TIMINGS}
        events = [f"data: {json.dumps(last)}\n\n".encode(), b"data: [DONE]\n\n"]
        assert read_stream(handler, events)[-1]["usage"] == COUNTED
        body = {"choices": [{"message": {"content": "a"}}], "timings": TIMINGS}
        assert handler.read_whole(body).usage == COUNTED

    def test_the_client_asks_for_usage(self, make_handler):
        """Where nothing says whether the server knows the field."""
        handler = make_handler("mlx-lm")
        assert "stream_options" not in handler._prepare_payload([], None, None)
        with enter_request(RequestContext("r", "u", "openai", include_usage=True)):
            assert handler._prepare_payload([], None, None)["stream_options"] == {"include_usage": True}

    def test_a_server_that_refuses_it_is_asked_without(self, handler):
        """Only when its words name it."""
        payload = handler._prepare_payload([], None, None)
        amended = handler._amend_payload(payload, "Extra inputs: stream_options")
        assert "stream_options" not in amended
        assert handler._amend_payload(payload, "bad temperature") is None
        assert handler._amend_payload({"messages": []}, "stream_options") is None


@pytest.mark.parametrize(
    ("source", "shown"), [("https://h/a.png", True), ("file:///a.png", False), ("nonsense", False)]
)
def test_what_can_be_shown(handler, source, shown):
    """The server fetches addresses itself."""
    assert handler.can_show(source) is shown
