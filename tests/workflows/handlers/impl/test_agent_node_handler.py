"""Agent: its own fields. The loop is told in tests/workflows/agents/test_loop.py."""

from __future__ import annotations

from typing import Any

import pytest

from Middleware.common.errors import WorkflowError
from Middleware.common.request_context import Wish
from Middleware.workflows.handlers.node_types import NODES, node_schema


@pytest.fixture
def agent(house):
    """An agent without tools that answers at once."""
    house.model.replies = ["Done."]

    def ask(**fields: Any) -> str:
        node = {"type": "Agent", "endpointName": "chat", "agentTools": [], **fields}
        text: str = house.ask(node).text
        return text

    return ask


def test_the_limit_of_an_answer_is_larger_than_elsewhere(agent, house):
    """A small one cuts thoughts and arguments."""
    agent()
    agent(maxResponseSizeInTokens=300)
    assert [settings.max_tokens for settings in house.model.settings] == [2048, 300]


def test_numbers_may_be_texts(agent):
    """With placeholders, as those of other nodes; a time may be a fraction."""
    assert agent(maxSteps="{agent1Input}", toolTimeout="0.5", totalTimeout="60") == "Done."


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("maxSteps", 0, "a whole number from 1 to 100, not 0"),
        ("maxToolCalls", 1001, "a whole number from 1 to 1000, not 1001"),
        ("maxParallelToolCalls", 17, "a whole number from 1 to 16, not 17"),
        ("totalTimeout", -1.0, "a number of seconds above 0"),
    ],
)
def test_a_number_that_cannot_be(agent, field, value, told):
    """Is an error, not another number."""
    with pytest.raises(WorkflowError, match=told):
        agent(**{field: value})


@pytest.mark.parametrize("number", ["0", "101"])
def test_nor_one_that_only_the_run_knows(house, number):
    node = {"type": "Agent", "endpointName": "chat", "agentTools": [], "maxSteps": "{agent1Output}"}
    with pytest.raises(WorkflowError, match=f"a whole number from 1 to 100, not {number}"):
        house.ask({"type": "StaticResponse", "content": number}, node)


def test_it_needs_an_endpoint():
    """The schema refuses a node without one."""
    must, _ = node_schema("Agent")
    assert "endpointName" in must["allOf"][1]["required"]


def test_what_it_takes_over_of_standard():
    """The fields of models, with pictures."""
    assert NODES["Agent"].ALL_KEYS["systemPrompt"] is NODES["Standard"].ALL_KEYS["systemPrompt"]
    assert NODES["Agent"]().takes_pictures({"acceptImages": True})


def test_a_format_that_the_client_wants_is_left_out(house, agent, caplog):
    """Backends refuse it beside tools."""
    house.model.replies = ["Done."]
    node = {
        "type": "Agent",
        "endpointName": "chat",
        "agentTools": [],
        "clientParameters": ["response_format"],
    }
    house.ask(node, wishes={"response_format": Wish({"type": "json_object"}, "response_format")})
    assert house.model.calls[0].schema is None
    assert "answer format of the client is ignored" in caplog.text
