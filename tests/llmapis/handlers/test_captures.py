"""What real programs sent decodes to what they said: as it arrived, and however it is cut.

`captures_expected.json` holds the facts of each capture, read from its bytes by eye and by `README.md` there.
"""

from __future__ import annotations

import json
import random
from itertools import pairwise
from pathlib import Path

import pytest

from Middleware.common.errors import BackendError

CAPTURES = Path(__file__).resolve().parents[2] / "fixtures" / "captures"
EXPECTED = json.loads((Path(__file__).parent / "captures_expected.json").read_text())
INDEX = {
    f"{file.parent.name}/{name}": record
    for file in sorted(CAPTURES.glob("*/index.json"))
    for name, record in json.loads(file.read_text()).items()
}
STREAMS = [name for name, facts in EXPECTED.items() if facts["stream"]]
WHOLES = [name for name, facts in EXPECTED.items() if not facts["stream"]]
PAIRS = [
    ("llamacpp/chat", "llamacpp/chat_stream_usage"),
    ("llamacpp/think", "llamacpp/think_stream"),
    ("llamacpp/think_format_none", "llamacpp/think_format_none_stream"),
    ("llamacpp/completions", "llamacpp/completions_stream"),
    ("llamacpp/anthropic_messages", "llamacpp/anthropic_messages_stream"),
    ("ollama/chat", "ollama/chat_stream"),
    ("ollama/generate", "ollama/generate_stream"),
    ("ollama/think_on", "ollama/think_on_stream"),
    ("ollama/tool_call", "ollama/tool_call_stream"),
    ("ollama/v1_chat", "ollama/v1_chat_stream"),
    ("ollama/v1_think", "ollama/v1_think_stream"),
    ("ollama/v1_tool_call", "ollama/v1_tool_call_stream"),
    ("ollama/v1_messages", "ollama/v1_messages_stream"),
]


def body(name):
    return (CAPTURES / f"{name}.txt").read_bytes()


def facts_of(chunks):
    """A stream's facts in the shape of the expectations."""
    calls = {}
    for chunk in chunks:
        for delta in chunk.get("tool_calls", ()):
            call = calls.setdefault(delta["index"], {"name": "", "arguments": ""})
            call["name"] += delta["function"].get("name", "")
            call["arguments"] += delta["function"].get("arguments", "")
    last = chunks[-1]
    facts = {
        "text": "".join(chunk["token"] for chunk in chunks),
        "thinking": "".join(chunk.get("thinking", "") for chunk in chunks),
        "calls": list(calls.values()),
        "finish_reason": last["finish_reason"],
        "usage": last.get("usage"),
        "model": next((chunk["model"] for chunk in chunks if "model" in chunk), None),
    }
    if "error" in last:
        facts["error"] = last["error"]["message"]
    if "truncated" in last:
        facts["truncated"] = True
    return facts


@pytest.mark.parametrize("name", STREAMS)
class TestStreams:
    @pytest.fixture
    def decoded(self, name, make_handler, read_stream):
        def decode(edges):
            data = body(name)
            headers = dict(INDEX[name]["headers"])
            content_type = headers.get("Content-Type", "").partition(";")[0]
            reads = [data[start:end] for start, end in pairwise(edges)]
            facts = facts_of(read_stream(make_handler(EXPECTED[name]["type"]), reads, content_type))
            return {"type": EXPECTED[name]["type"], "stream": True, **facts}

        return decode

    def test_as_it_arrived(self, name, decoded):
        """In the pieces of the recording."""
        edges = [0]
        for size in INDEX[name]["piece_sizes"]:
            edges.append(edges[-1] + size)
        assert decoded(edges) == EXPECTED[name]

    @pytest.mark.parametrize("size", [1, 13, 10**9])
    def test_in_pieces_of(self, name, size, decoded):
        """Byte by byte, in odd pieces, all at once."""
        length = len(body(name))
        assert decoded([*range(0, length, size), length]) == EXPECTED[name]

    @pytest.mark.parametrize("seed", range(5))
    def test_cut_at_random(self, name, seed, decoded):
        """A read may end anywhere."""
        length = len(body(name))
        dice = random.Random(seed)
        cuts = sorted(dice.randrange(length + 1) for _ in range(dice.randrange(1, 12)))
        assert decoded([0, *cuts, length]) == EXPECTED[name]


@pytest.mark.parametrize("name", WHOLES)
def test_whole(name, make_handler, whole):
    """One body, the same facts."""
    expected = EXPECTED[name]
    answer = make_handler(expected["type"], stream=False).read_whole(json.loads(body(name)))
    told = answer if isinstance(answer, dict) else vars(answer)
    facts = {
        "text": answer["content"] if isinstance(answer, dict) else str(answer),
        "thinking": told.get("thinking", ""),
        "calls": [call["function"] for call in answer["tool_calls"]] if isinstance(answer, dict) else [],
        "finish_reason": told["finish_reason"],
        "usage": told.get("usage"),
        "model": told.get("model"),
    }
    assert {"type": expected["type"], "stream": False, **facts} == expected


@pytest.mark.parametrize(("whole_name", "stream_name"), PAIRS)
def test_streamed_or_whole_is_the_same_answer(whole_name, stream_name):
    """The same question, asked in both ways."""
    keys = ("text", "thinking", "calls", "finish_reason", "model")
    first, second = EXPECTED[whole_name], EXPECTED[stream_name]
    assert {key: first[key] for key in keys} == {key: second[key] for key in keys}


def test_a_body_that_is_no_answer_is_an_error(make_handler):
    """KoboldCpp's answer to a wrong type."""
    with pytest.raises(BackendError, match="not what a backend of the type koboldCppGenerate sends"):
        make_handler("koboldCppGenerate").read_whole(json.loads(body("koboldcpp/generate_wrong_type")))


def test_every_generation_capture_is_expected():
    """A new recording must be looked at."""
    generations = {"/v1/chat/completions", "/v1/completions", "/v1/messages", "/api/chat", "/api/generate"}
    generations |= {"/api/v1/generate", "/api/extra/generate/stream"}
    good = {
        name
        for name, record in INDEX.items()
        if record["status"].split()[1] == "200" and record["request"]["path"] in generations
    }
    assert good - {"koboldcpp/generate_wrong_type"} == set(EXPECTED)
