"""What a backend says of the prompt that it still held, whole and streamed (prompt-reuse.md 3.1)."""

from __future__ import annotations

import json

import pytest

from tests.cache_answers import CACHE_ANSWERS

NAMES = sorted(CACHE_ANSWERS)


@pytest.mark.parametrize("name", NAMES)
class TestRecordedAnswers:
    def test_whole(self, name, make_handler):
        """Counts where they are told; what is not told is not 0."""
        answer = CACHE_ANSWERS[name]
        told = make_handler(answer.type, stream=False).read_whole(json.loads(answer.whole))
        assert told.usage == answer.usage_of(stream=False)

    @pytest.mark.parametrize("size", [1, 7, 100_000])
    def test_streamed(self, name, size, make_handler, read_stream):
        """The same, however the stream is cut."""
        answer = CACHE_ANSWERS[name]
        reads = [answer.stream[at : at + size] for at in range(0, len(answer.stream), size)]
        assert read_stream(make_handler(answer.type), reads)[-1].get("usage") == answer.usage_of(stream=True)


@pytest.mark.parametrize("held", [-1, 1e400, "850", True, [850]], ids=str)
def test_odd_counts_are_unknown(held, make_handler):
    """What cannot be a number of tokens is none."""
    usage = {"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": held}}
    body = {"choices": [{"message": {"content": "Hi"}}], "usage": usage}
    assert "cached_tokens" not in make_handler("openAIChatCompletion").read_whole(body).usage
