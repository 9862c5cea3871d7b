"""Agents through the real server: the vectors of agents.md 10 on each kind of backend, served by each server."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from tests.e2e.agent_backend import AgentBackend, Step
from tests.e2e.conftest import GunicornOfTheHouse, Server, write_tree
from tests.e2e.fake_backend import sse_objects

PATH = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
READ = {"workflow": "Read", "name": "read_file", "description": "Reads a file", "parameters": PATH}
COUNT = {"workflow": "Count", "name": "count", "description": "Counts", "parameters": NUMBER}
BROKEN = {"workflow": "Broken", "name": "break_it", "description": "Breaks", "parameters": PATH}
AGENT = {
    "type": "Agent",
    "endpointName": "Model",
    "lastMessagesToSendInsteadOfPrompt": 20,
    "agentTools": [READ, COUNT, BROKEN],
}
ANSWER_NOW = "\n\nAnswer now with what you know; no more tools can be used."
NATIVE = {"openai": "Open-AI-API", "llama": "LlamaCppServer", "claude": "Claude", "ollama": "OllamaApiChat"}
JSON = {"json": "Open-AI-API", "kobold": "KoboldCpp"}
THINKS = {"removeThinking": True, "startThinkTag": "<think>", "endThinkTag": "</think>"}
marks = itertools.count()


def user_of(api: str, url: str, **node: Any) -> dict[str, Any]:
    joined = {"type": "StringConcatenator", "strings": ["text of ", "{agent1Input}"], "delimiter": ""}
    return {
        "endpoints": {"Model": {"endpoint": url, "apiTypeConfigFileName": api, **THINKS}},
        "workflows": {
            "Chat": [{**AGENT, **node}],
            "Two": [{**AGENT, **node, "maxSteps": 2}],
            "One": [{**AGENT, **node, "maxToolCalls": 1}],
            "Read": [joined],
            "Count": [joined],
            "Broken": [{"type": "Standard", "endpointName": "nowhere", "prompt": "x"}],
        },
        "user": {"allowSharedWorkflows": True},
    }


@pytest.fixture(scope="module")
def backend_of_agents():
    fake = AgentBackend()
    yield fake
    fake.close()


@pytest.fixture(scope="module", params=[Server, GunicornOfTheHouse], ids=["waitress", "gevent"])
def server(request, backend_of_agents, tmp_path_factory):
    public = tmp_path_factory.mktemp("public")
    url = backend_of_agents.url
    users: dict[str, Any] = {name: user_of(api, url) for name, api in NATIVE.items()}
    users |= {name: user_of(api, url, toolCalling="json") for name, api in JSON.items()}
    for name, flow in (("two", "Two"), ("one", "One")):
        for kind, api in NATIVE.items():
            users[f"{kind}-{name}"] = user_of(api, url)
            users[f"{kind}-{name}"]["user"] = {"customWorkflow": flow}
    write_tree(public, users, url)
    made = request.param(public, users, ("--concurrency", "0"))
    yield made
    made.stop()


class Talk:
    """One question to one user, whole or streamed."""

    def __init__(self, server: Any, backend: AgentBackend, *, stream: bool) -> None:
        self.server, self.backend, self.stream = server, backend, stream
        self.mark = f"mark-{next(marks)}-x"

    def ask(self, user: str, *steps: Step) -> str:
        """The text of the answer; nothing of a call of ours reaches the client."""
        self.backend.script(self.mark, *steps)
        body = {"model": user, "messages": [{"role": "user", "content": self.mark}], "stream": self.stream}
        status, data = self.server.post("/v1/chat/completions", body)
        assert status == 200, data
        assert b"tool_calls" not in data.replace(b'"finish_reason": "tool_calls"', b"")
        if not self.stream:
            choice = json.loads(data)["choices"][0]
            assert choice["finish_reason"] in ("stop", "length")
            return str(choice["message"]["content"])
        return "".join(unit["choices"][0]["delta"].get("content") or "" for unit in sse_objects(data))

    @property
    def asked(self) -> Any:
        return self.backend.asked(self.mark)


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def talk(request, server, backend_of_agents):
    return Talk(server, backend_of_agents, stream=request.param)


@pytest.mark.parametrize("user", NATIVE)
class TestNative:
    def test_one_round(self, talk, user):
        """A call, its result, the answer; the first prompt stands at the front of the second."""
        text = talk.ask(user, Step("Looking.", [("read_file", {"path": "a.txt"})]), Step("It says alpha."))
        assert text == "Looking.\n\nIt says alpha."
        first, second = talk.asked
        assert second.turns[: len(first.turns)] == first.turns
        assert second.results == ["text of a.txt"]
        assert (first.body["tools"], first.choice) == (second.body["tools"], None)

    def test_each_steps_thoughts_go(self, talk, user):
        """And the model's own turn keeps them."""
        reads = Step("<think>a</think>Looking.", [("read_file", {"path": "a.txt"})])
        text = talk.ask(user, reads, Step("<think>b</think>It says alpha."))
        assert text == "Looking.\n\nIt says alpha."
        assert "<think>a</think>Looking." in json.dumps(talk.asked[1].body)

    def test_results_in_the_order_of_the_calls(self, talk, user):
        """Two calls of one step."""
        talk.ask(user, Step(calls=[("read_file", {"path": "a"}), ("read_file", {"path": "b"})]), Step("both"))
        assert talk.asked[1].results == ["text of a", "text of b"]

    def test_max_steps(self, talk, user):
        """Two steps and a last call, with the tools and the choice `none`; Ollama gets neither."""
        steps = [Step("t", [("read_file", {"path": str(number)})]) for number in range(3)]
        assert talk.ask(f"{user}-two", *steps) == "t\n\nt\n\nt"
        _, _, last = talk.asked
        assert last.results == ["text of 0", f"text of 1{ANSWER_NOW}"]
        assert ("tools" in last.body, last.choice) == ((False, None) if user == "ollama" else (True, "none"))

    def test_a_last_call_without_text(self, talk, user):
        """Once more without tools, where the API can."""
        reads = [Step(calls=[("read_file", {"path": str(number)})]) for number in range(3)]
        assert talk.ask(f"{user}-two", *reads, Step("at last")) == "at last"
        last = talk.asked[3]
        assert ("tools" in last.body) is (user == "claude")

    def test_max_tool_calls(self, talk, user):
        """One real one, the other told, two model calls."""
        both = Step(calls=[("read_file", {"path": "a"}), ("read_file", {"path": "b"})])
        assert talk.ask(f"{user}-one", both, Step("so")) == "so"
        told = "error: not called: the limit of 1 tool calls is reached"
        assert [one.results for one in talk.asked] == [[], ["text of a", f"{told}{ANSWER_NOW}"]]

    def test_the_same_call_three_times(self, talk, user):
        """Two real ones."""
        same = Step(calls=[("read_file", {"path": "a"})])
        talk.ask(user, same, same, same, Step("fine"))
        repeat = "error: this call was made twice with the same result: text of a"
        assert talk.asked[3].results == ["text of a", "text of a", repeat]

    @pytest.mark.parametrize(
        ("name", "arguments", "told"),
        [
            ("rm", {"path": "a"}, 'error: there is no tool "rm"; tools: read_file, count, break_it'),
            ("read_file", {"path": 5}, 'error: arguments of read_file: "path" must be a string'),
            ("read_file", {}, 'error: arguments of read_file: "path" is missing'),
            ("count", {"n": "5"}, "text of 5"),
            ("break_it", {"path": "a"}, "error: "),
        ],
        ids=["unknown", "type", "missing", "lenient", "fails"],
    )
    def test_what_is_told(self, talk, user, name, arguments, told):
        """In the sentences of 3.5."""
        assert talk.ask(user, Step(calls=[(name, arguments)]), Step("sorry")) == "sorry"
        assert talk.asked[1].results[0].startswith(told)


THOUGHTS = [("openai", "reasoning_content"), ("llama", "reasoning_content"), ("ollama", "thinking")]


@pytest.mark.parametrize(("user", "field"), THOUGHTS)
def test_thoughts_go_back(talk, user, field):
    """In the field they came in; once one turn has it, all have it."""
    thinks = Step(thinking="r", calls=[("read_file", {"path": "a"})])
    talk.ask(user, thinks, Step(calls=[("read_file", {"path": "b"})]), Step("ok"))
    turns = [turn for turn in talk.asked[2].turns if turn["role"] == "assistant"]
    assert [turn[field] for turn in turns] == ["r", ""]


@pytest.mark.parametrize("user", ["openai", "llama"])
class TestOpenAiDialect:
    @pytest.mark.parametrize(
        ("finish", "told"),
        [
            ("", 'error: arguments of read_file: no JSON object: {"path": "a'),
            ("length", "error: the call was cut off"),
        ],
    )
    def test_broken_arguments(self, talk, user, finish, told):
        """The turn stays readable for the server."""
        broken = Step(calls=[("read_file", '{"path": "a')], finish=finish)
        assert talk.ask(user, broken, Step("again")) == "again"
        assert talk.asked[1].results[0].startswith(told)
        [turn] = [turn for turn in talk.asked[1].turns if turn["role"] == "assistant"]
        assert turn["tool_calls"][0]["function"]["arguments"] == "{}"


@pytest.mark.parametrize("user", JSON)
class TestJson:
    def test_a_round(self, talk, user):
        """The answer gets a prompt of its own."""
        calls = Step('{"tool": "read_file", "arguments": {"path": "k"}}')
        assert talk.ask(user, calls, Step('{"tool": null}'), Step("It is k.")) == "It is k."
        first, second, last = [json.dumps(one.body) for one in talk.asked]
        assert "Reads a file" in first and "Result of read_file:" in second
        assert "Result of read_file:" in last and "Reads a file" not in last

    def test_text_before_the_call_and_an_answer_at_once(self, talk, user):
        """Both stream as they are."""
        calls = Step('Looking. {"tool": "read_file", "arguments": {"path": "k"}}')
        assert talk.ask(user, calls, Step("It is k.")) == "Looking.\n\nIt is k."
