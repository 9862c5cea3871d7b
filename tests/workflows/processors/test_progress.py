"""Which nodes a run says start, and when (more-fronts.md 8)."""

from __future__ import annotations

from typing import Any

import pytest

from Middleware.common.request_context import ClientQuestion
from Middleware.services.answers import step_line, steps_of
from Middleware.workflows.managers.categorization import open_answer_run


def say(content: str, **fields: Any) -> dict[str, Any]:
    return {"type": "StaticResponse", "content": content, **fields}


def ask(**fields: Any) -> dict[str, Any]:
    return {"type": "Standard", "endpointName": "chat", **fields}


CHILD = {"type": "CustomWorkflow", "workflowName": "Child"}
GROUP = {"parallelGroup": "g", "prompt": "x"}

SITUATIONS = [
    ("titles", [say("a", title="Recall"), ask(agentName="Ana"), {"endpointName": "chat"}],
     ["[1/3] Recall", "[2/3] Ana", "[3/3] Standard"]),
    ("a-title-is-one-line", [say("a", title=" Re\ncall  it ")], ["[1/1] Re call it"]),
    ("nodes-after-the-answer", [say("a"), ask(returnToUser=True), say("b")],
     ["[1/2] StaticResponse", "[2/2] Standard"]),
    ("an-answering-child", [say("a"), CHILD],
     ["[1/2] StaticResponse", "[2/2] CustomWorkflow", "  [1/2] Look", "  [2/2] Tell"]),
    ("an-internal-child", [CHILD, say("a")], ["[1/2] CustomWorkflow", "[2/2] StaticResponse"]),
    ("a-group-is-told-together", [ask(**GROUP), ask(**GROUP), say("a")],
     ["[1/3] Standard + [2/3] Standard", "[3/3] StaticResponse"]),
    ("a-node-that-fails", [ask(endpointName="no", onNodeError="continue"), say("a")],
     ["[1/2] Standard", "[2/2] StaticResponse"]),
]  # fmt: skip


@pytest.fixture
def told(house):
    """The lines of each batch of progress, in order; all of them come before the first output."""

    def asked(*, progress: str = "reasoning", stream: bool = True) -> list[str]:
        house.request["progress"] = progress
        house.user["customWorkflow"] = "Main"
        house.workflow("Child", ask(title="Look", prompt="x"), ask(title="Tell"))
        question = ClientQuestion([{"role": "user", "content": "hi"}], stream)
        batches = [batch for batch in open_answer_run(house.manager(), question) if batch]
        steps = [steps_of(batch) for batch in batches]
        first = next(index for index, found in enumerate(steps) if not found)
        assert not any(steps[first:])
        assert all(len(found) == len(batch) for found, batch in zip(steps, batches[:first], strict=False))
        return [" + ".join("  " * s["depth"] + step_line(s) for s in found) for found in steps[:first]]

    return asked


@pytest.mark.parametrize(("nodes", "lines"), [s[1:] for s in SITUATIONS], ids=[s[0] for s in SITUATIONS])
def test_situation(house, told, nodes, lines):
    """From the first node to the one that answers, as each starts."""
    house.workflow("Main", *nodes)
    assert told() == lines


def test_only_when_the_request_wants_it(house, told):
    """Others pay nothing."""
    house.workflow("Main", say("a"), CHILD)
    assert told(progress="off") == []


def test_the_categorisation_is_not_told(house, told):
    """Only the workflow that answers, at depth 0."""
    house.user |= {"customWorkflowOverride": False, "routingConfig": "r", "categorizationWorkflow": "Cat"}
    house.write("Routing/r", {name: {"description": name, "workflow": "Main"} for name in ("CODE", "CHAT")})
    house.workflow("Cat", say("CODE", title="Pick"))
    house.workflow("Main", say("a", title="Write"))
    assert told() == ["[1/1] Write"]


def test_a_node_starts_when_it_is_told(house):
    """Its model has not been asked yet."""
    house.request["progress"] = "reasoning"
    house.workflow("Main", ask(prompt="x"), ask())
    batches = house.open(stream=True)
    calls = [len(house.model.calls) for batch in batches if steps_of(batch)]
    assert calls == [0, 1]


def test_it_is_no_beginning_of_an_answer(house, failure):
    """A child that has told its nodes and said nothing may still be replaced by `errorText`."""
    house.request["progress"] = "status"
    house.model.replies = [failure()]
    house.workflow("Child", say("x"), ask())
    answer = house.ask({**CHILD, "onNodeError": "continue", "errorText": "sorry"}, stream=True)
    assert (answer.text, answer.thinking) == ("sorry", "")
    assert answer.usage == {"prompt_tokens": 0, "completion_tokens": 1, "total_tokens": 1}
