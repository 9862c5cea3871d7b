"""The client's parameters in runs: who takes them, who is refused, what the log says (more-fronts.md 13)."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from Middleware.common.errors import BackendError, ClientRequestError
from Middleware.common.request_context import Wish
from Middleware.services.answers import AnswerCollector

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
TOOL = {"type": "function", "function": {"name": "look"}}
FORMAT = {"type": "json_schema", "json_schema": {"schema": SCHEMA}}
MANAGER = "Middleware.workflows.managers.workflow_manager"


def ask(*names: str, **fields: Any) -> dict[str, Any]:
    return {"type": "Standard", "endpointName": "chat", "clientParameters": list(names), **fields}


def wishes(**values: Any) -> dict[str, Wish]:
    return {name: Wish(value, name) for name, value in values.items()}


@pytest.fixture
def chat(house):
    """An API type with its own names of samplers, and a place for schemas."""
    house.write(
        "ApiTypes/Chat",
        {
            "type": "scriptedChat",
            "presetType": "any",
            "samplerFieldMap": {"temperature": "temp", "stop": "stop_sequence", "repeat_penalty": "rep_pen"},
            "structuredOutput": {"field": "format", "style": "raw"},
        },
    )
    house.write("Presets/any/mine", {"temp": 0.2, "top_x": 5})
    return house


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
class TestTaken:
    @pytest.mark.parametrize(("given", "limit"), [(50, 50), (4000, 400)])
    def test_the_limit(self, chat, stream, given, limit):
        """Never above the node's own."""
        chat.ask(ask("max_tokens"), stream=stream, wishes=wishes(max_tokens=given))
        assert chat.model.settings[0].max_tokens == limit

    def test_samplers_are_laid_over_the_preset(self, chat, stream):
        """In the backend's spelling; what is not listed does not reach it."""
        node = ask("temperature", "repetition_penalty", preset="mine")
        asked = wishes(temperature=0.9, repetition_penalty=1.1, stop="END")
        chat.ask(node, stream=stream, wishes=asked)
        assert chat.model.settings[0].samplers == {"temp": 0.9, "top_x": 5, "rep_pen": 1.1}

    def test_a_backend_without_the_sampler(self, chat, stream, caplog):
        """It is told; the answer comes."""
        assert chat.ask(ask("min_p"), stream=stream, wishes=wishes(min_p=0.1)).text == "hello"
        assert (
            "clientParameters: 'min_p' was dropped, because this API type does not support it" in caplog.text
        )

    def test_the_backup_gets_them_too(self, chat, stream):
        """With its own names."""
        chat.write(
            "ApiTypes/Other", {"type": "scriptedChat", "presetType": "any", "samplerFieldMap": {"stop": "s"}}
        )
        chat.endpoint("spare", apiTypeConfigFileName="Other")
        chat.endpoint("chat", backupEndpointName="spare")
        chat.model.replies = [BackendError("chat", "overloaded", "busy"), "hello"]
        chat.ask(ask("stop", "max_tokens"), stream=stream, wishes=wishes(stop="END", max_tokens=9))
        first, second = chat.model.settings
        assert (first.samplers, second.samplers) == ({"stop_sequence": ["END"]}, {"s": ["END"]})
        assert second.max_tokens == 9

    def test_each_node_says_it_for_itself(self, chat, stream):
        """Nodes before the answer, and those of a child."""
        chat.workflow("Child", ask("max_tokens"), ask())
        call = {"type": "CustomWorkflow", "workflowName": "Child", "clientParameters": ["stop"]}
        chat.ask(ask("stop"), call, stream=stream, wishes=wishes(stop="END", max_tokens=9))
        told = [(s.samplers, s.max_tokens) for s in chat.model.settings]
        assert told == [({"stop_sequence": ["END"]}, 400), ({}, 9), ({}, 400)]

    def test_a_schema(self, chat, stream):
        """As if it were the node's own file; the file wins."""
        chat.write("StructuredOutputs/mine", {"type": "object", "title": "mine"})
        nodes = [ask("response_format", structuredOutputFile="mine"), ask(), ask("response_format")]
        chat.ask(*nodes, stream=stream, wishes=wishes(response_format=FORMAT))
        mine = {"type": "object", "title": "mine"}
        assert [call.schema for call in chat.model.calls] == [mine, None, SCHEMA]

    def test_a_schema_for_a_flat_backend(self, chat, stream, caplog):
        """It cannot take one; that is told."""
        node = ask("response_format", endpointName="flat")
        chat.ask(node, stream=stream, wishes=wishes(response_format=FORMAT))
        assert chat.model.calls[0].schema is None
        assert "the answer format of the client is ignored" in caplog.text

    def test_a_call_that_the_client_demands_comes_first(self, chat, stream):
        """Then the answer is that call, not a text."""
        choice = {"type": "function", "function": {"name": "look"}}
        chat.ask(
            ask("response_format", allowTools=True),
            stream=stream,
            tools=[TOOL],
            tool_choice=choice,
            wishes=wishes(response_format=FORMAT),
        )
        assert chat.model.calls[0].schema not in (None, SCHEMA)

    @pytest.mark.parametrize(("tools", "sent"), [([TOOL], False), (None, None)], ids=["tools", "none"])
    def test_parallel_calls(self, chat, stream, tools, sent):
        """Said beside tools only: servers refuse it without."""
        node = ask("parallel_tool_calls", allowTools=True)
        chat.ask(node, stream=stream, tools=tools, wishes=wishes(parallel_tool_calls=False))
        assert chat.model.calls[0].parallel_tool_calls is sent


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
class TestRefused:
    def test_before_any_node_runs(self, house, stream):
        """Nothing is asked of a model for a request that must fail."""
        with pytest.raises(ClientRequestError, match="max_tokens must be a number"):
            house.ask(ask(), ask("max_tokens"), stream=stream, wishes=wishes(max_tokens="x"))
        assert house.model.calls == []

    @pytest.mark.parametrize("internal", [False, True], ids=["answering", "internal"])
    def test_in_a_child(self, house, stream, internal):
        """The client is at fault, so no `errorText` stands in."""
        house.workflow("Child", ask("max_tokens"))
        call = {
            "type": "CustomWorkflow",
            "workflowName": "Child",
            "onNodeError": "continue",
            "errorText": "e",
        }
        nodes = [call, ask()] if internal else [call]
        with pytest.raises(ClientRequestError, match="max_tokens must be a number"):
            house.ask(*nodes, stream=stream, wishes=wishes(max_tokens="x"))
        assert house.model.calls == []

    def test_not_where_no_node_takes_it(self, house, stream, caplog):
        """Answered; one line in the log."""
        with caplog.at_level(logging.INFO, MANAGER):
            answer = house.ask(ask(), stream=stream, wishes=wishes(max_tokens="x"))
        assert answer.text == "hello"
        assert caplog.messages == ["request r1: the client's max_tokens are not used (clientParameters)"]


class TestTheLine:
    def test_one_a_request(self, house, caplog):
        """It names what no node took, child or not, and not its values."""
        house.workflow("Child", ask("stop"))
        house.workflow("Main", ask("seed"), {"type": "CustomWorkflow", "workflowName": "Child"})
        asked = wishes(response_format="secret", stop="END", max_tokens=5, seed=1, n=2)
        with caplog.at_level(logging.INFO, MANAGER):
            house.ask(wishes=asked)
        [line] = [message for message in caplog.messages if "are not used" in message]
        assert (
            line == "request r1: the client's response_format, max_tokens, n are not used (clientParameters)"
        )

    @pytest.mark.parametrize("asked", [{}, wishes(seed=5)], ids=["no-wish", "taken"])
    def test_none_without_need(self, house, caplog, asked):
        with caplog.at_level(logging.INFO, MANAGER):
            house.ask(ask("seed"), wishes=asked)
        assert "are not used" not in caplog.text

    def test_nodes_after_the_answer_count(self, house, caplog):
        """The line comes when all have run."""
        house.workflow("Main", ask(returnToUser=True), ask("seed"))
        with caplog.at_level(logging.INFO, MANAGER):
            collector = AnswerCollector()
            for batch in house.open(wishes=wishes(seed=5)):
                collector.state.sent or collector.add(batch)
        assert "are not used" not in caplog.text
