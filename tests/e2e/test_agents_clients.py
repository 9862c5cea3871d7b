"""The official packages `openai` and `anthropic` with a tool of their own beside an agent's. agents.md 11, row 5."""

from __future__ import annotations

import itertools
import json
from typing import Any

import anthropic
import openai
import pytest

from tests.e2e.agent_backend import AgentBackend, Step
from tests.e2e.conftest import Server as RealServer
from tests.e2e.conftest import write_tree

pytestmark = pytest.mark.e2e

PATH = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
READ = {"workflow": "Read", "name": "read_file", "description": "Reads a file", "parameters": PATH}
AGENT = {
    "type": "Agent",
    "endpointName": "Model",
    "lastMessagesToSendInsteadOfPrompt": 20,
    "agentTools": [READ],
    "allowTools": True,
}
JOINED = {"type": "StringConcatenator", "strings": ["text of ", "{agent1Input}"], "delimiter": ""}
ASK = {"type": "object", "properties": {"question": {"type": "string"}}}
STEPS = (
    Step("Looking.", [("read_file", {"path": "a.txt"})]),
    Step("One question.", [("ask_user", {"question": "Which?"})]),
    Step("All of it."),
)
marks = itertools.count()


@pytest.fixture(scope="module")
def backend_of_agents():
    fake = AgentBackend()
    yield fake
    fake.close()


@pytest.fixture(scope="module")
def server(backend_of_agents, tmp_path_factory):
    public = tmp_path_factory.mktemp("public")
    users = {
        name: {
            "workflows": {"Chat": [AGENT], "Read": [JOINED]},
            "endpoints": {"Model": {"apiTypeConfigFileName": api}},
        }
        for name, api in (("ann", "Open-AI-API"), ("cloe", "Claude"))
    }
    write_tree(public, users, backend_of_agents.url)
    made = RealServer(public, users, ("--concurrency", "0"))
    yield made
    made.stop()


@pytest.fixture
def mark(backend_of_agents):
    made = f"mark-{next(marks)}-x"
    backend_of_agents.script(made, *STEPS)
    return made


def check_second_request(backend: AgentBackend, mark: str) -> None:
    """It knows the result of the server's tool, and its prompt begins with the whole one before it."""
    _, second, third = backend.asked(mark)
    assert third.results == ["text of a.txt", "the first"]
    assert third.turns[: len(second.turns)] == second.turns


@pytest.mark.parametrize("user", ["ann", "cloe"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
class TestRoundTrip:
    def test_openai(self, server, backend_of_agents, mark, user, stream):
        """The server's tool, the client's, its result, the answer."""
        tool = {"type": "function", "function": {"name": "ask_user", "description": "d", "parameters": ASK}}
        messages: list[Any] = [{"role": "user", "content": mark}]
        with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
            message, reason = self.openai_turn(client, user, messages, tool, stream)
            assert (message["content"], reason) == ("Looking.\n\nOne question.", "tool_calls")
            [call] = message["tool_calls"]
            assert (call["function"]["name"], json.loads(call["function"]["arguments"])) == (
                "ask_user",
                {"question": "Which?"},
            )
            messages += [message, {"role": "tool", "tool_call_id": call["id"], "content": "the first"}]
            message, reason = self.openai_turn(client, user, messages, tool, stream)
        assert (message["content"], reason) == ("All of it.", "stop")
        check_second_request(backend_of_agents, mark)

    @staticmethod
    def openai_turn(
        client: openai.OpenAI, user: str, messages: list[Any], tool: Any, stream: bool
    ) -> tuple[dict[str, Any], str]:
        asked: dict[str, Any] = {"model": user, "messages": messages, "tools": [tool]}
        if not stream:
            choice = client.chat.completions.create(**asked).choices[0]
            return choice.message.model_dump(exclude_none=True), choice.finish_reason
        text, reason, calls = "", "", {}
        for chunk in client.chat.completions.create(**asked, stream=True):
            choice = chunk.choices[0]
            text += choice.delta.content or ""
            reason = choice.finish_reason or reason
            for part in choice.delta.tool_calls or ():
                function = {"name": "", "arguments": ""}
                call = calls.setdefault(part.index, {"id": part.id, "type": "function", "function": function})
                call["function"]["name"] += part.function.name or ""
                call["function"]["arguments"] += part.function.arguments or ""
        message: dict[str, Any] = {"role": "assistant", "content": text}
        return ({**message, "tool_calls": list(calls.values())} if calls else message), reason

    def test_anthropic(self, server, backend_of_agents, mark, user, stream):
        """The same with blocks."""
        tool: Any = {"name": "ask_user", "description": "d", "input_schema": ASK}
        messages: list[Any] = [{"role": "user", "content": mark}]
        with anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0) as client:
            answer = self.anthropic_turn(client, user, messages, tool, stream)
            text, use = answer.content
            assert (text.text, answer.stop_reason) == ("Looking.\n\nOne question.", "tool_use")
            assert (use.name, use.input) == ("ask_user", {"question": "Which?"})
            result = {"type": "tool_result", "tool_use_id": use.id, "content": "the first"}
            blocks = [block.model_dump(exclude_none=True) for block in answer.content]
            messages += [{"role": "assistant", "content": blocks}, {"role": "user", "content": [result]}]
            answer = self.anthropic_turn(client, user, messages, tool, stream)
        assert ([block.text for block in answer.content], answer.stop_reason) == (["All of it."], "end_turn")
        check_second_request(backend_of_agents, mark)

    @staticmethod
    def anthropic_turn(
        client: anthropic.Anthropic, user: str, messages: list[Any], tool: Any, stream: bool
    ) -> Any:
        asked: dict[str, Any] = {"model": user, "messages": messages, "tools": [tool], "max_tokens": 500}
        if not stream:
            return client.messages.create(**asked)
        with client.messages.stream(**asked) as events:
            return events.get_final_message()
