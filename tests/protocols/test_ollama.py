"""Streams of the Ollama protocol, and its errors (frontend-api.md 11.4, 12.1)."""

from __future__ import annotations

import pytest

from Middleware.protocols.registry import PROTOCOLS, WIRE_FORMATS, ErrorReply
from Middleware.services import answers
from tests.protocols.streams import CALL, REST, STEPS, SUM, chunk, framer, payloads


class TestOllama:
    def test_chat(self):
        """Objects with `done: false`, then one with the reason and the six numbers."""
        stream = framer("ollamaapichat")
        first, done = payloads(stream.units([chunk("Hello.")]) + stream.units([chunk("", "length")]))
        assert first["message"] == {"role": "assistant", "content": "Hello."}
        assert (first["done"], first["request_id"]) == (False, "R")
        assert done["message"] == {"role": "assistant", "content": ""}
        assert (done["done"], done["done_reason"], done["eval_count"]) == (True, "length", 1)
        assert stream.end() == []

    def test_generate(self):
        """The same with `response`."""
        first, done = payloads(framer("ollamagenerate").units([chunk("Once"), chunk("", "stop")]))
        assert (first["response"], done["response"], done["done"]) == ("Once", "", True)

    @pytest.mark.parametrize("api_type", ["ollamaapichat", "ollamagenerate"])
    @pytest.mark.parametrize("usage", [SUM, None], ids=["a-model", "no-model"])
    def test_the_workflows_numbers_stand_on_the_last_object(self, api_type, usage):
        """Of a stream, beside the answer's own."""
        first, done = payloads(
            framer(api_type, workflow_usage=lambda: usage).units([chunk("a"), chunk("", "stop")])
        )
        assert done.get("workflow_usage") == usage and "workflow_usage" not in first

    def test_how_long_it_took(self, monkeypatch):
        """From batch to batch, whatever is in them."""
        stream = framer("ollamaapichat", arrived=7.0, started=9.0)
        for now, batch in [(10.0, [chunk(thinking="t")]), (12.0, [chunk("a")]), (14.0, [chunk("", "stop")])]:
            monkeypatch.setattr(answers.time, "monotonic", lambda now=now: now)
            units = stream.units(batch)
        [done] = payloads(units)
        assert [value / 1e9 for name, value in done.items() if name.endswith("duration")] == [7, 2, 1, 4]

    def test_tool_calls_are_sent_complete_before_the_end(self):
        """On an object of their own; the reason is a stop."""
        stream = framer("ollamaapichat")
        assert stream.units([chunk(tool_calls=[CALL])]) == []
        call, done = payloads(stream.units([chunk(tool_calls=[REST]), chunk("", "tool_calls")]))
        assert (call["done"], call["message"]["content"]) == (False, "")
        assert call["message"]["tool_calls"] == [
            {"id": "call_7", "function": {"index": 0, "name": "tide", "arguments": {"port": "Brest"}}}
        ]
        assert done["done_reason"] == "stop"

    def test_generate_sends_no_tool_calls(self):
        """It has no messages."""
        assert len(framer("ollamagenerate").units([chunk(tool_calls=[CALL]), chunk("", "stop")])) == 1

    @pytest.mark.parametrize("api_type", ["ollamaapichat", "ollamagenerate"])
    def test_reasoning(self, api_type):
        """A field beside an empty text."""
        [unit] = payloads(framer(api_type).units([chunk(thinking="hm")]))
        place = unit["message"] if api_type == "ollamaapichat" else unit
        assert place["thinking"] == "hm"
        assert place["content" if api_type == "ollamaapichat" else "response"] == "" and not unit["done"]

    @pytest.mark.parametrize("api_type", ["ollamaapichat", "ollamagenerate"])
    def test_a_sign_of_life_has_an_empty_text(self, api_type):
        [unit] = payloads([framer(api_type).heartbeat()])
        place = unit["message"] if api_type == "ollamaapichat" else unit
        assert place["content" if api_type == "ollamaapichat" else "response"] == "" and not unit["done"]

    @pytest.mark.parametrize("api_type", ["ollamaapichat", "ollamagenerate"])
    def test_progress(self, api_type):
        """Where thoughts stand; there is no place for a status (more-fronts.md 8)."""
        [unit] = payloads(framer(api_type, progress="reasoning").progress_units(STEPS))
        place = unit["message"] if api_type == "ollamaapichat" else unit
        assert place["thinking"] == "[1/2] Recall\n  [1/3] Search\n" and not unit["done"]
        assert framer(api_type, progress="status").progress_units(STEPS) == []
        assert WIRE_FORMATS[api_type].shows_progress == ("reasoning",)

    def test_an_error_ends_the_stream(self):
        """One line with a text, no `done` object."""
        assert framer("ollamagenerate").error(ErrorReply(502, "M")) == ['{"error":"M"}\n']

    def test_an_error_is_a_text(self):
        """Its clients cannot read an object."""
        [ollama] = [protocol for protocol in PROTOCOLS if protocol.name == "ollama"]
        assert ollama.error_body(ErrorReply(400, "M", "p")) == {"error": "M"}
