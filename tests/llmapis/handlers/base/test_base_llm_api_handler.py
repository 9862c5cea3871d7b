"""What every backend has in common, apart from the network."""

from __future__ import annotations

from typing import ClassVar

import pytest

from Middleware.common.errors import BackendError
from Middleware.config.endpoints import EndpointConfig
from Middleware.llmapis.call.call_arguments import CallArguments
from Middleware.llmapis.handlers import impl
from Middleware.llmapis.handlers.backends import BACKENDS, backend
from Middleware.llmapis.handlers.base.base_llm_api_handler import HandlerSettings, LlmApiHandler

_ = impl
API_TYPE = {
    "streamPropertyName": "stream",
    "truncateLengthPropertyName": "ctx",
    "maxNewTokensPropertyName": "max",
}


def handler(kind="openAIChatCompletion", endpoint=None, **settings):
    config = EndpointConfig(
        "E", {"endpoint": "http://h", **(endpoint or {})}, "t", {"type": kind, **API_TYPE}
    )
    return BACKENDS[kind](HandlerSettings(config, **settings))


class TestGenerationFields:
    def test_structural_fields_and_nulls(self):
        """Set last, then nulls are left out."""
        made = handler(
            endpoint={"maxContextTokenSize": 10}, samplers={"a": None, "max": None}, max_tokens=5, stream=True
        )
        assert made._generation_fields() == {"stream": True, "ctx": 10}

    def test_no_window(self):
        """Then a value of the preset stays."""
        assert handler(samplers={"ctx": 7}, max_tokens=5)._generation_fields() == {
            "ctx": 7,
            "stream": False,
            "max": 5,
        }

    @pytest.mark.parametrize(
        ("kind", "field", "given", "sent"),
        [
            ("claudeMessages", "stop_sequences", "END", ["END"]),
            ("claudeMessages", "stop_sequences", ["END", "\n"], ["END"]),
            ("koboldCppGenerate", "stop_sequence", "END", ["END"]),
            ("koboldCppGenerate", "stop_sequence", ["\n", ""], ["\n"]),
            ("ollamaApiChat", "stop", "END", ["END"]),
            ("ollamaApiGenerate", "stop", ["", "END"], ["END"]),
            ("openAIChatCompletion", "stop", "END", "END"),
        ],
    )
    def test_stop_texts(self, kind, field, given, sent):
        """As a list where the API takes nothing else, without those that it refuses."""
        assert handler(kind, samplers={field: given})._generation_fields()[field] == sent


@pytest.mark.parametrize("source", ["data:image/png;base64,AAAA", "https://h/a.png", "/tmp/a.png"])
def test_a_backend_that_says_nothing_of_images_refuses_none(source):
    """Each of the house's says something."""
    assert LlmApiHandler.can_show(handler(), source) is True


class TestHeaders:
    @pytest.mark.parametrize(
        ("kind", "stream", "accept", "coding"),
        [
            ("openAIChatCompletion", True, "text/event-stream", "identity"),
            ("ollamaApiChat", True, "application/x-ndjson", "identity"),
            ("ollamaApiChat", False, "application/json", "gzip, deflate"),
        ],
    )
    def test_accept(self, kind, stream, accept, coding):
        """What will be read; a stream is not asked for in compressed form."""
        headers = handler(kind, stream=stream).request_headers()
        assert (headers["Accept"], headers["Accept-Encoding"]) == (accept, coding)

    def test_no_key_no_header(self):
        """Never `Bearer ` with nothing behind it."""
        assert "Authorization" not in handler().request_headers()

    def test_extra_headers_replace_in_any_case(self):
        """One header of a name."""
        headers = handler(api_key="k", headers={"AUTHORIZATION": "Basic x"}).request_headers()
        assert [value for name, value in headers.items() if name.lower() == "authorization"] == ["Basic x"]

    def test_no_message_shows_what_a_header_says(self):
        """A gateway that repeats the key that it got."""
        headers = {"api-key": "az-secret", "X-Auth": "Token tk-secret", "X-Title": "house"}
        reader = handler(api_key="sk-secret", headers=headers).new_stream()
        words = "sk-secret az-secret tk-secret house"
        with pytest.raises(BackendError) as caught:
            reader.feed(b'data: {"error": {"message": "' + words.encode() + b'"}}\n\n')
        assert caught.value.message == "*** *** *** house"
        assert "secret" not in str(caught.value.native)


class TestOneEvent:
    EVENTS: ClassVar = [
        ('{"choices":[{"delta":{"content":"a"}}]}', {"token": "a", "finish_reason": None}),
        (
            '{"choices":[{"delta":{"content":"a"},"finish_reason":"length"}]}',
            {"token": "a", "finish_reason": "length"},
        ),
        ("{}", {"token": "", "finish_reason": None}),
        ('{"choices":[]}', None),
        ("[DONE]", None),
        ("nope", None),
        ("[1]", None),
    ]

    @pytest.mark.parametrize(("data", "chunk"), EVENTS)
    def test_the_stateless_face(self, data, chunk):
        """One event's text to one standard dict."""
        assert handler()._process_stream_data(data) == chunk

    def test_an_error(self):
        """Is a dict too."""
        chunk = handler(api_key="sk-1234")._process_stream_data('{"error":"no sk-1234"}')
        assert chunk["finish_reason"] == "error"
        assert chunk["error"]["message"] == "no ***"


class TestPayload:
    @pytest.mark.parametrize("kind", ["openAIChatCompletion", "claudeMessages", "koboldCppGenerate"])
    def test_the_arguments_one_by_one(self, kind):
        """`_prepare_payload` says the same as a call that is one value."""
        said, tools = [{"role": "user", "content": "x"}], [{"type": "function", "function": {"name": "f"}}]
        call = CallArguments(said, "S", "P", tools, "auto", {"type": "object"})
        told = handler(kind)._prepare_payload(
            said, "S", "P", tools=tools, tool_choice="auto", schema={"type": "object"}
        )
        assert told == handler(kind)._payload(call)


class TestWholeBodies:
    @pytest.mark.parametrize("suppress_retries", [True, False])
    def test_not_understood(self, suppress_retries):
        """An error in the backend's words, with and without a backup; never an empty success."""
        with pytest.raises(BackendError, match="quota used up") as caught:
            handler(suppress_retries=suppress_retries).read_whole({"message": "quota used up"})
        assert caught.value.kind == "protocol_error"

    def test_reasoning_in_a_tool_call_answer(self):
        """Split as in a text."""
        call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        for content, expected in (
            ("<think>hm</think>a", {"content": "a", "thinking": "hm"}),
            ("a", {"content": "a"}),
        ):
            body = {"choices": [{"message": {"content": content, "tool_calls": [call]}}]}
            answer = handler(endpoint={"reasoningParser": "think"}).read_whole(body)
            assert {key: answer[key] for key in answer if key in ("content", "thinking")} == expected

    @pytest.mark.parametrize(
        ("choice", "kind"),
        [
            ({"message": {"content": ""}, "native_finish_reason": "network_error"}, "stream_error"),
            ({"message": {"content": "a"}, "finish_reason": "error"}, "stream_error"),
            (
                {"message": {"tool_calls": [{"function": {"name": "f", "arguments": '{"a": 1,}'}}]}},
                "protocol_error",
            ),
        ],
        ids=["nothing-but-a-failure", "error", "a-call-that-is-not-whole"],
    )
    def test_a_failure_in_the_right_form(self, choice, kind):
        """As the same answer in a stream."""
        with pytest.raises(BackendError) as caught:
            handler().read_whole({"choices": [choice]})
        assert caught.value.kind == kind

    def test_a_call_that_the_limit_cut_is_left_out(self):
        """What is left is text, and the reason says the rest."""
        call = {"id": "c", "function": {"name": "f", "arguments": '{"a": '}}
        choice = {"message": {"content": "Well.", "tool_calls": [call]}, "finish_reason": "length"}
        answer = handler().read_whole({"choices": [choice]})
        assert (answer, answer.finish_reason) == ("Well.", "length")

    def test_claudes_last_block_may_be_cut(self):
        """Its input is an object all the same; calls before it are whole."""
        use = {"type": "tool_use", "name": "f", "input": {"a": 1}}
        body = {"content": [{**use, "id": "1"}, {**use, "id": "2"}], "stop_reason": "max_tokens"}
        answer = handler("claudeMessages").read_whole(body)
        assert [call["id"] for call in answer["tool_calls"]] == ["1"]
        assert answer["finish_reason"] == "length"


class TestTable:
    def test_shapes(self):
        """Chat types take messages, flat ones do not."""
        shapes = (backend("ollamaApiChat").takes_messages, backend("ollamaApiGenerate").takes_messages)
        assert shapes == (True, False)

    def test_an_unknown_type_is_answered_with_the_known_ones(self):
        """Case counts."""
        with pytest.raises(ValueError, match=r"Unsupported LLM type: OllamaApiChat\. Known: .*ollamaApiChat"):
            backend("OllamaApiChat")


def test_one_dict_at_a_time(serve, rig):
    """`handle_streaming` opens the backend at the first `next` and closes it with the generator."""
    server = serve(
        lambda peer: (
            peer.request(),
            peer.send(rig.SSE_HEAD, rig.chunked(rig.token("a"), rig.token("b"), end=False)),
            peer.closed(),
        )
    )
    config = EndpointConfig("E", {"endpoint": server.url}, "t", {"type": "openAIChatCompletion", **API_TYPE})
    made = BACKENDS["openAIChatCompletion"](HandlerSettings(config, stream=True))
    chunks = made.handle_streaming(CallArguments(conversation=[{"role": "user", "content": "x"}]))
    assert server.requests == []
    assert next(chunks)["token"] == "a"
    chunks.close()


class TestClosing:
    """Whoever reads a stream closes it. It is held here, so that no garbage collector does."""

    @pytest.fixture
    def left(self, monkeypatch):
        """`left(*batches)`: a backend whose stream brings these, and the list of its streams that were closed."""
        held, closed = [], []

        def made(*batches):
            def stream(handler, call):
                def pulled():
                    try:
                        for batch in batches:
                            if isinstance(batch, Exception):
                                raise batch
                            yield batch
                    finally:
                        closed.append(True)

                held.append(pulled())
                return held[-1]

            backend = handler(stream=True, suppress_retries=True)
            monkeypatch.setattr(type(backend), "stream_batches", stream)
            return backend, closed

        return made

    def test_a_reader_that_leaves(self, left):
        """In the middle."""
        backend, closed = left(
            [{"token": "a", "finish_reason": None}], [{"token": "b", "finish_reason": None}]
        )
        chunks = backend.handle_streaming(CallArguments())
        assert next(chunks)["token"] == "a" and closed == []
        chunks.close()
        assert closed == [True]

    def test_an_answer_that_fails_in_the_middle(self, left):
        """While it is put together."""
        error = {"token": "", "finish_reason": "error", "error": {"message": "no", "kind": "stream_error"}}
        backend, closed = left([error], [{"token": "b", "finish_reason": None}])
        with pytest.raises(BackendError):
            backend.handle_joined(CallArguments())
        assert closed == [True]
