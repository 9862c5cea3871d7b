"""A call that may be put to several endpoints: what each of their handlers gets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from Middleware.llmapis.call.call_arguments import CallArguments
from Middleware.utilities.text_utils import estimate_tokens

PICTURE = [{"role": "user", "content": ["x"], "images": ["AAAA"]}]


def test_the_handler_may_change_its_messages():
    """They are its own, and so is what stands in them."""
    call = CallArguments(PICTURE, llm_takes_images=True)
    given = call.of_endpoint(None, is_backup=False).conversation
    given[0]["content"].append("y")
    assert PICTURE == [{"role": "user", "content": ["x"], "images": ["AAAA"]}]


@pytest.mark.parametrize("wanted", [True, False], ids=["wanted", "not-wanted"])
def test_images(wanted):
    """They go along only where the node wants them, those of a loop's turns too."""
    call = CallArguments(PICTURE, llm_takes_images=wanted, turns=PICTURE)
    given = call.of_endpoint(None, is_backup=False)
    assert [("images" in message) for message in given.messages()] == [wanted, wanted]


def test_a_backup_gets_the_call_in_its_own_shape():
    """And the first endpoint as it was asked; all but the prompt is the same."""

    def rebuild(call, service):
        return replace(call, conversation=None, prompt=service, rebuild=None)

    call = CallArguments(conversation=[], tools=[{}], request_id="r", rebuild=rebuild)
    assert call.of_endpoint("B", is_backup=False) == call
    assert call.of_endpoint("B", is_backup=True) == CallArguments(prompt="B", tools=[{}], request_id="r")


@pytest.mark.parametrize(
    ("own", "current", "id_of_call"),
    [(None, "r", "r"), ("mine", "r", "mine"), (None, None, None)],
    ids=["of-the-request", "says-whose-it-is", "outside-of-a-request"],
)
def test_whose_call_it_is(own, current, id_of_call):
    """Cancelling that request ends it."""
    call = CallArguments(request_id=own).of_request(current)
    assert (call.request_id, call.of_endpoint(None, is_backup=False).request_id) == (id_of_call, id_of_call)


@pytest.mark.parametrize(
    ("call", "texts"),
    [
        (CallArguments(), []),
        (CallArguments(system_prompt="Be kind."), ["Be kind."]),
        (CallArguments(prompt="Say hello."), ["Say hello."]),
        (CallArguments(system_prompt="Be kind. ", prompt="Say hello."), ["Be kind. Say hello."]),
        (CallArguments([{"role": "user", "content": "one two"}] * 2), ["one two", "one two"]),
    ],
    ids=["nothing", "a-system-prompt", "a-prompt", "both", "messages"],
)
def test_the_tokens_of_a_prompt(call, texts):
    """Those of what is asked, and of nothing else."""
    assert call.prompt_tokens() == sum(map(estimate_tokens, texts))
