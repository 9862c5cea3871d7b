"""Each call to a model is held against those that its server was sent before (prompt-reuse.md 3.2)."""

from __future__ import annotations

import pytest

from Middleware.common.errors import BackendError
from Middleware.llmapis.call.call_arguments import CallArguments
from Middleware.llmapis.embedding_service import EmbeddingService
from Middleware.llmapis.llm_api import LlmApiService
from Middleware.services.held_prompts import PromptPlace

CARD = {"role": "system", "content": "c" * 1000}
FIRST = [CARD, {"role": "user", "content": "Hello"}]
SECOND = [*FIRST, {"role": "assistant", "content": "Hi"}, {"role": "user", "content": "More"}]


@pytest.fixture
def ask(serve, rig, configs, node):
    """`ask(messages, reply=an answer, trace=node, **arguments)` -> the trace of that call."""
    replies = []

    def script(peer):
        while peer.request():
            peer.send(replies.pop(0))

    server = serve(script)
    answer = {"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}

    def run(messages=None, *answers, trace=node, api_type="Open-AI-API", stream=False, **arguments):
        replies.extend(answers or [rig.json_answer(answer)])
        configs.endpoint("E", server.url, api_type, modelNameToSendToAPI="big")
        service = LlmApiService("E", None, 100, stream, **configs.given())
        service.whole_answer(CallArguments(conversation=messages, trace=trace, **arguments))
        return node.node.last_model_call

    configs.preset("OpenAiCompatibleApis", "none")
    return run


def facts(call):
    return call.compared, call.prompt_chars, call.shared_chars, call.leaves


def test_the_first_is_compared_with_nothing(ask):
    """Its length is known all the same."""
    assert facts(ask(FIRST)) == (False, 1005, 0, None)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_turn_that_goes_on_shares_what_was_sent_before(ask, stream):
    """However the answer is asked for."""
    ask(FIRST)
    assert facts(ask(SECOND, stream=stream)) == (True, 1011, 1005, PromptPlace(3, 0, "assistant"))


def test_it_is_noted_where_nobody_observes(ask):
    """A choice among servers needs it always."""
    ask(FIRST)
    ask(SECOND, trace=None)
    assert ask(SECOND).shared_chars == 1011


def test_other_tools_are_another_prompt(ask):
    """They are read before all messages."""
    ask(FIRST, tools=[{"type": "function", "function": {"name": "look"}}])
    assert ask(FIRST).shared_chars == 0


def test_a_second_try_is_the_same_call(ask, rig):
    """What it shares with its first try was not read before."""
    ask(FIRST)
    web_page = rig.head(content_type="text/html", content_length="2") + b"no"
    good = rig.json_answer({"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]})
    call = ask(SECOND, web_page, good)
    assert (call.tries, call.shared_chars) == (2, 1005)


def test_a_call_that_fails_was_sent_too(ask, rig):
    """The server may hold what it read."""
    with pytest.raises(BackendError):
        ask(FIRST, rig.json_answer({"error": "gone"}, "404 X"))
    assert ask(SECOND).shared_chars == 1005


def test_a_flat_prompt_is_compared(ask, rig):
    """Completions backends get one text."""
    good = rig.json_answer({"choices": [{"text": "Hi", "finish_reason": "stop"}]})
    sent = {"api_type": "OpenAI-Compatible-Completions", "system_prompt": "s" * 600}
    ask(None, good, prompt="Hello", **sent)
    call = ask(None, good, prompt="Bye", **sent)
    assert facts(call) == (True, 603, 600, PromptPlace(2, 0, "prompt"))


def test_embeddings_are_no_prompts(serve, rig, configs, node):
    """Nothing of them is held."""

    def script(peer):
        while peer.request():
            peer.send(rig.json_answer({"data": [{"index": 0, "embedding": [1.0]}]}))

    configs.endpoint("E", serve(script).url, "OpenAI-Embeddings")
    EmbeddingService("E", **configs.given(), trace=node).get_embeddings(["a text"])
    assert facts(node.node.calls[-1]) == (False, 0, 0, None)
