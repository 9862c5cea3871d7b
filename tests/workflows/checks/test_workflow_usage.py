"""The sum over all calls of a request, told by situations (more-fronts.md 9)."""

from __future__ import annotations

from typing import Any

import pytest

from Middleware.common.errors import BackendError
from Middleware.common.request_context import ClientQuestion
from Middleware.llmapis.llm_text import LlmText
from Middleware.services.cancellation_service import cancellation_service
from Middleware.workflows.managers.categorization import open_answer_run


def text(content: str, prompt: int, completion: int) -> LlmText:
    return LlmText(content, usage={"prompt_tokens": prompt, "completion_tokens": completion})


def say(content: str, **fields: Any) -> dict[str, Any]:
    return {"type": "StaticResponse", "content": content, **fields}


def ask(**fields: Any) -> dict[str, Any]:
    return {"type": "Standard", "endpointName": "chat", **fields}


CHILD = {"type": "CustomWorkflow", "workflowName": "Child"}
MEMBER = {"parallelGroup": "g", "prompt": "x"}
FAILED = BackendError("chat", "overloaded", "no answer today")

SITUATIONS = [
    ("one-call", [ask()], [text("a", 7, 3)], (7, 3, 1)),
    ("every-node", [ask(), ask()], [text("a", 100, 20), text("b", 7, 3)], (107, 23, 2)),
    ("a-node-nobody-uses", [ask(), say("x")], [text("a", 100, 20)], (100, 20, 1)),
    ("an-answering-child", [ask(), CHILD], [text("a", 1, 2), text("b", 10, 20)], (11, 22, 2)),
    ("an-internal-child", [CHILD, ask()], [text("a", 1, 2), text("b", 10, 20)], (11, 22, 2)),
    ("a-group", [ask(**MEMBER), ask(**MEMBER), say("x")], [text("a", 5, 6)], (10, 12, 2)),
    ("after-the-answer", [ask(returnToUser=True), ask()], [text("a", 7, 3), text("b", 99, 99)], (7, 3, 1)),
    (
        "an-attempt-that-failed",
        [ask(onNodeError="continue"), ask()],
        [FAILED, text("b", 7, 3)],
        (7, 3, 1),
    ),
    ("no-model", [say("x")], [], None),
]


@pytest.fixture
def sum_of(house):
    """The numbers of an answer, once it has been used up."""

    def asked(stream: bool, *, say: str = "hi") -> dict[str, int] | None:
        manager = house.manager()
        question = ClientQuestion([{"role": "user", "content": say}], stream)
        for _ in open_answer_run(manager, question):
            continue
        return manager.request.usage.numbers()

    return asked


def numbers(prompt: int, completion: int, calls: int) -> dict[str, int]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "calls": calls}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
class TestSums:
    @pytest.mark.parametrize(
        ("nodes", "replies", "expected"), [s[1:] for s in SITUATIONS], ids=[s[0] for s in SITUATIONS]
    )
    def test_situation(self, house, sum_of, nodes, replies, expected, stream):
        """The same streamed and whole."""
        house.user["customWorkflow"] = "Main"
        house.workflow("Child", ask())
        house.workflow("Main", *nodes)
        house.model.replies = replies
        assert sum_of(stream) == (expected and numbers(*expected))

    def test_the_categorisation_counts(self, house, sum_of, stream):
        """It is part of what the answer cost, each attempt of it."""
        house.user |= {
            "customWorkflowOverride": False,
            "routingConfig": "r",
            "categorizationWorkflow": "Cat",
            "maxCategorizationAttempts": 2,
        }
        house.write(
            "Routing/r",
            {name: {"description": name, "workflow": "Main"} for name in ("CODE", "CHAT")},
        )
        house.workflow("Cat", ask())
        house.workflow("Main", ask())
        house.model.replies = [text("what?", 1, 1), text("CODE", 2, 1), text("a", 10, 10)]
        assert sum_of(stream) == numbers(13, 12, 3)

    def test_estimates_stand_in(self, house, sum_of, stream):
        """For backends that report nothing."""
        house.user["customWorkflow"] = "Main"
        house.workflow("Main", ask(prompt="hello world"), ask(prompt="hello world"))
        assert sum_of(stream) == numbers(6, 2, 2)

    def test_a_reply_that_was_asked_for_again(self, house, stream):
        """A demanded call that did not come at once took two calls."""
        block = {"field": "response_format", "style": "raw"}
        house.write("ApiTypes/Chat", {"type": "scriptedChat", "presetType": "any", "structuredOutput": block})
        tool = {"type": "function", "function": {"name": "tide", "parameters": {"type": "object"}}}
        choice = {"type": "function", "function": {"name": "tide"}}
        house.workflow("Main", ask(allowTools=True))
        house.model.replies = [text("no", 5, 1), text("still no", 6, 2)]
        manager = house.manager()
        question = ClientQuestion([{"role": "user", "content": "x"}], stream, [tool], choice)
        for _ in manager.open_run("Main", question):
            continue
        expected = numbers(11, 3, len(house.model.calls))
        assert manager.request.usage.numbers() == expected and expected["calls"] == 2


def test_a_call_that_was_cancelled_gave_no_answer(house, sum_of):
    """What it has said so far is not counted."""

    def cancelled(_: Any) -> str:
        cancellation_service.request_cancellation("r1")
        return ""

    house.workflow("Main", ask(), ask())
    house.model.replies = [text("a", 7, 3), cancelled]
    manager = house.manager()
    batches = manager.open_run("Main", ClientQuestion([{"role": "user", "content": "x"}], False))
    with pytest.raises(Exception, match="cancel"):
        list(batches)
    assert manager.request.usage.numbers() == numbers(7, 3, 1)
