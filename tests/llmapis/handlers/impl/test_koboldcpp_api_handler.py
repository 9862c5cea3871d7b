"""KoboldCpp: paths, payload, images, begin tokens, abort call, events."""

from __future__ import annotations

import logging

import pytest

from Middleware.llmapis.handlers.impl.koboldcpp_api_handler import _tell_of_begin_token

TYPE = "koboldCppGenerate"


@pytest.fixture
def handler(make_handler):
    return make_handler(TYPE)


class TestRequest:
    @pytest.mark.parametrize(
        ("stream", "path"), [(True, "/api/extra/generate/stream"), (False, "/api/v1/generate")]
    )
    def test_url(self, make_handler, stream, path):
        """One for streams, one for whole answers."""
        assert make_handler(TYPE, stream=stream)._get_api_endpoint_url() == f"http://h:1{path}"

    def test_no_model_no_tools_no_schema(self, handler):
        """It has one model and no such fields."""
        body = handler._prepare_payload(None, "", "P", tools=[{}], tool_choice="auto", schema={"a": 1})
        assert body == {"prompt": "P", "stream": True, "max_length": 100}

    def test_images_of_user_messages(self, make_handler):
        """The preset's own are dropped, what is no base64 is skipped."""
        handler = make_handler(TYPE, samplers={"images": ["OLD="]})
        conversation = [
            {"role": "user", "content": "", "images": ["data:image/png;base64,AAAA", "https://h/a"]},
            {"role": "assistant", "content": "", "images": ["CCCC"]},
            {"role": "user", "content": "", "images": ["BBBB"]},
            {"role": "user", "content": "", "images": None},
        ]
        assert handler._prepare_payload(conversation, "", "P")["images"] == ["AAAA", "BBBB"]
        assert "images" not in handler._prepare_payload(None, "", "P")

    @pytest.mark.parametrize(
        "token", ["<s>", "<bos>", "<BOS_TOKEN>", "<|begin_of_text|>", "<｜begin▁of▁sentence｜>"]
    )
    @pytest.mark.parametrize("strict", [True, False])
    def test_a_strict_prompt_has_no_begin_token(self, make_handler, token, strict):
        """The server adds its own."""
        handler = make_handler(TYPE, endpoint={"strictPromptTemplate": strict})
        body = handler._prepare_payload(None, f"{token}S", "P\n")
        assert body["prompt"] == ("SP\n" if strict else f"{token}SP")

    def test_a_doubled_begin_token_is_told_once(self, handler, caplog):
        """For each endpoint."""
        _tell_of_begin_token.cache_clear()
        with caplog.at_level(logging.DEBUG):
            handler._prepare_payload(None, "<s>", "P")
            handler._prepare_payload(None, "<s>", "P")
        assert caplog.text.count("strictPromptTemplate") == 1

    @pytest.mark.parametrize(("samplers", "body"), [({}, {}), ({"genkey": "K1"}, {"genkey": "K1"})])
    def test_abort(self, make_handler, samplers, body):
        """With the key of the request, if the preset gives one."""
        assert make_handler(TYPE, samplers=samplers).abort_request() == ("http://h:1/api/extra/abort", body)


class TestAnswers:
    def test_the_text_null_is_no_reason(self, handler, read_stream):
        """Version 1.76; a short answer comes in one piece."""
        reads = [
            b'event: message\ndata: {"token": "a", "finish_reason": "null"}\n\n',
            b"event: message\n",
            b'data: {"token": "b", "finish_reason": "stop"}\n\n',
        ]
        assert read_stream(handler, reads) == [
            {"token": "a", "finish_reason": None},
            {"token": "b", "finish_reason": "stop"},
        ]

    def test_an_old_server_gives_no_reason_at_all(self, handler, read_stream):
        """Closing is a good end."""
        assert read_stream(handler, [b'event: message\ndata: {"token": "a"}\n\n']) == [
            {"token": "a", "finish_reason": None},
            {"token": "", "finish_reason": "stop"},
        ]

    @pytest.mark.parametrize(("text", "answer"), [("a", "a"), (None, "")])
    def test_whole(self, handler, text, answer):
        """With counts where the server gives them."""
        result = {"text": text, "finish_reason": "length", "prompt_tokens": 2, "completion_tokens": 1}
        got = handler.read_whole({"results": [result]})
        assert (got, got.finish_reason) == (answer, "length")
        assert got.usage == {"prompt_tokens": 2, "completion_tokens": 1, "total_tokens": 3}
