"""What a server counted of a prompt is kept for the level `measured`. Source: spec prompt-reuse.md 1."""

from __future__ import annotations

import pytest

from Middleware.llmapis.call.call_arguments import CallArguments
from Middleware.llmapis.llm_api import LlmApiService
from Middleware.services.token_ratios import forget_ratios, level_factor

PROMPT = [{"role": "user", "content": "word " * 800}]
"""1,265 tokens by our estimate."""
TOOL = {"type": "function", "function": {"name": "f"}}


@pytest.fixture
def measured(serve, rig, configs):
    """`measured(**call)` -> the factor after five calls that the server counts as 800 tokens."""
    usage = {"prompt_tokens": 800, "completion_tokens": 1, "total_tokens": 801}
    answer = {"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}], "usage": usage}

    def script(peer):
        while peer.request():
            peer.send(rig.json_answer(answer))

    server = serve(script)
    configs.preset("OpenAiCompatibleApis", "none")

    def run(level="measured", stream=False, conversation=PROMPT, **call):
        forget_ratios()
        fields = {"wilmerContextEstimationLevel": level, "modelNameToSendToAPI": "big"}
        configs.endpoint("E", server.url, "Open-AI-API", **fields)
        service = LlmApiService("E", None, 100, stream, **configs.given())
        for _ in range(5):
            service.whole_answer(CallArguments(conversation=conversation, **call))
        return level_factor(service.endpoint)

    yield run
    forget_ratios()


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_the_servers_count_decides(measured, stream):
    """1,265 and 8 for the message, by 800: 1.59, and a little careful."""
    assert measured(stream=stream) == 1.5


def test_another_level_stays_as_it_is(measured):
    """Nothing is estimated for it."""
    assert measured("balanced") == 1.25


@pytest.mark.parametrize(
    "call",
    [
        {"tools": [TOOL]},
        {"conversation": [{**PROMPT[0], "images": ["data:image/png;base64,AA=="]}], "llm_takes_images": True},
    ],
    ids=["tools", "pictures"],
)
def test_what_is_not_estimated_alike_says_nothing(measured, call):
    """A prompt with tools or pictures."""
    assert measured(**call) == 1.0


def test_pictures_that_stay_here_do_not_count(measured):
    """They are not sent to a node that takes none."""
    pictures = [{**PROMPT[0], "images": ["data:image/png;base64,AA=="]}]

    assert measured(conversation=pictures) == 1.5
