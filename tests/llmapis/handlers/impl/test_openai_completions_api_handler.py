"""OpenAI text completions."""

from __future__ import annotations

import json

import pytest

TYPE = "openAIV1Completion"


@pytest.fixture
def handler(make_handler):
    return make_handler(TYPE)


class TestPayload:
    def test_order(self, make_handler):
        """Prompt, samplers, model; a preset may replace the prompt."""
        handler = make_handler(TYPE, endpoint={"modelNameToSendToAPI": "m"}, samplers={"top_p": 1})
        assert list(handler._prepare_payload(None, "S ", "P").items()) == [
            ("prompt", "S P"),
            ("top_p", 1),
            ("stream", True),
            ("max_tokens", 100),
            ("model", "m"),
        ]

    def test_tools_schema_and_images_are_ignored(self, handler):
        """It knows none of them."""
        conversation = [{"role": "user", "content": "", "images": ["QUJD"]}]
        body = handler._prepare_payload(
            conversation, "", "P", tools=[{"a": 1}], tool_choice="auto", schema={"type": "object"}
        )
        assert set(body) == {"prompt", "stream", "max_tokens", "model"}

    def test_the_model_can_be_left_out(self, make_handler):
        """The flag counts here too."""
        handler = make_handler(TYPE, endpoint={"dontIncludeModel": True})
        assert "model" not in handler._prepare_payload(None, None, "P")

    def test_usage_is_asked_for_on_request(self, make_handler):
        """In streams."""
        handler = make_handler(TYPE, endpoint={"requestStreamUsage": True})
        assert handler._prepare_payload(None, None, "P")["stream_options"] == {"include_usage": True}

    @pytest.mark.parametrize("base", ["http://h", "http://h/v1", "http://h/v1/completions"])
    def test_url(self, make_handler, base):
        """Nothing is doubled."""
        url = make_handler(TYPE, endpoint={"endpoint": base})._get_api_endpoint_url()
        assert url == "http://h/v1/completions"


class TestAnswers:
    def said(self, handler, read_stream, *chunks):
        events = [f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks]
        return read_stream(handler, [*events, b"data: [DONE]\n\n"])

    def test_stream(self, handler, read_stream):
        """Text, reason, usage."""
        chunks = self.said(
            handler,
            read_stream,
            {"id": "x", "model": "m"},
            {"choices": [{"text": "a", "finish_reason": None}]},
            {"choices": [{"text": None, "finish_reason": "null"}]},
            {"choices": [{"text": "b", "finish_reason": "length"}], "usage": {"prompt_tokens": 1}},
            {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}},
        )
        assert chunks == [
            {"token": "a", "finish_reason": None, "model": "m"},
            {
                "token": "b",
                "finish_reason": "length",
                "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
            },
        ]

    def test_a_chunk_without_choices_is_no_dict(self, handler):
        """It is skipped."""
        assert handler._process_stream_data('{"id": "x"}') is None

    @pytest.mark.parametrize(("text", "answer"), [("a", "a"), (None, "")])
    def test_whole(self, handler, text, answer):
        """Null is an empty text."""
        got = handler.read_whole({"choices": [{"text": text, "finish_reason": "stop"}], "model": "m"})
        assert (got, got.finish_reason, got.model) == (answer, "stop", "m")
