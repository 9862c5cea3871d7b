"""Which tools an agent calls, told to clients that want to see it: agents.md 5, more-fronts.md 8."""

from __future__ import annotations

from typing import Any

import pytest

from Middleware.common.request_context import ClientQuestion
from Middleware.services.answers import step_line, steps_of
from tests.workflows.agents.conftest import Bench, asks, call

SAY = {"type": "StaticResponse", "content": "a"}


@pytest.fixture
def told(house):
    """The lines in their order, and the texts between them."""
    bench = Bench(house, stream=True)

    def asked(*nodes: Any, progress: str = "status", stream: bool = True, text: str = "") -> list[str]:
        house.request["progress"] = progress
        reply = asks(call(path="a"), call("count", "c2", n=1), call(call_id="c3", path="b"), text=text)
        house.model.replies = [reply, asks(call(call_id="c4", path="c")), "ok"]
        agent = {**bench.node, "title": "Librarian"}
        house.workflow("Main", *(agent if node is None else node for node in nodes))
        question = ClientQuestion([{"role": "user", "content": "hi"}], stream)
        lines = []
        for batch in house.manager().open_run("Main", question):
            lines += [step_line(step) for step in steps_of(batch)]
            lines += [chunk["token"] for chunk in batch if chunk["token"]]
        return lines

    return asked


def test_the_tools_of_a_step_once_each(told):
    """When its calls are known, before they run."""
    assert told(None) == [
        "[1/1] Librarian",
        "[1/1] Librarian: read_file, count",
        "[1/1] Librarian: read_file",
        "ok",
    ]


def test_a_node_that_does_not_answer(told):
    """Its number is its own."""
    assert told(None, SAY)[1] == "[1/2] Librarian: read_file, count"


@pytest.mark.parametrize(("progress", "count"), [("status", 3), ("reasoning", 1)])
def test_behind_the_first_text(told, progress, count):
    """As a status; a thought would stand behind the text."""
    lines = told(None, progress=progress, text="Looking.")
    assert sum(line.startswith("[1/1]") for line in lines) == count


def test_nobody_wants_it(told):
    """Neither a request that is not streamed, nor one without the setting; nor a node after the answer."""
    assert told(None, progress="off") == ["ok"]
    assert told(None, stream=False)[1:] == ["ok"]
    assert told({**SAY, "returnToUser": True}, None) == ["[1/1] StaticResponse", "a"]
