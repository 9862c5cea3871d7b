"""Ollama generate: raw prompt, options, images, lines."""

from __future__ import annotations

import json

import pytest

TYPE = "ollamaApiGenerate"


@pytest.fixture
def handler(make_handler):
    return make_handler(TYPE)


class TestPayload:
    def test_raw(self, make_handler):
        """Ollama's own template is off; `think` stands at the top."""
        handler = make_handler(TYPE, samplers={"think": False, "top_k": 1}, stream=False)
        assert handler._prepare_payload(None, "S", "P ") == {
            "model": "",
            "prompt": "SP",
            "stream": False,
            "raw": True,
            "options": {"top_k": 1, "num_predict": 100},
            "think": False,
        }

    def test_images_and_completion_text(self, make_handler):
        """Both are sent."""
        endpoint = {"addTextToStartOfCompletion": True, "textToAddToStartOfCompletion": " {"}
        conversation = [{"role": "user", "content": "", "images": ["data:image/png;base64,QUJD"]}]
        body = make_handler(TYPE, endpoint=endpoint)._prepare_payload(conversation, None, "P\n")
        assert (body["prompt"], body["images"]) == ("P {", ["QUJD"])

    def test_url(self, handler):
        """Its own path."""
        assert handler._get_api_endpoint_url() == "http://h:1/api/generate"


class TestAnswers:
    def test_stream(self, handler, read_stream):
        """Thinking, text, reason, counts."""
        lines = [
            {"model": "m", "response": "", "thinking": "t", "done": False},
            {"response": "a", "done": False},
            {"response": "", "done": True, "done_reason": "length", "prompt_eval_count": 1, "eval_count": 2},
        ]
        assert read_stream(handler, [json.dumps(line).encode() + b"\n" for line in lines]) == [
            {"token": "", "finish_reason": None, "thinking": "t", "model": "m"},
            {"token": "a", "finish_reason": None},
            {
                "token": "",
                "finish_reason": "length",
                "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
            },
        ]

    def test_whole(self, handler):
        """The same facts."""
        answer = handler.read_whole({"response": "a", "thinking": "t", "done_reason": "load", "model": "m"})
        assert (answer, answer.thinking, answer.native_finish_reason) == ("a", "t", "load")
