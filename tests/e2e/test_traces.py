"""Runs of real servers as a collector of traces gets them: one trace each, whatever became of the run."""

from __future__ import annotations

import http.client
import itertools
import json

import pytest

from tests.e2e.agent_backend import AgentBackend, Step
from tests.e2e.answers import ROUTES
from tests.e2e.conftest import NODE, Gunicorn, GunicornOfTheHouse, Server, write_tree
from tests.e2e.fake_backend import Reply
from tests.otlp_collector import QUICK, Collector, tree_of
from tests.patience import PATIENCE_S, wait_until

pytestmark = pytest.mark.e2e

MEMBER = {"type": "Standard", "endpointName": "Model", "parallelGroup": "both"}
SAID = "{chat_user_prompt_last_one}"
NESTED = {
    "Chat": [
        {**MEMBER, "title": "Left", "prompt": f"left {SAID}"},
        {**MEMBER, "title": "Right", "prompt": f"right {SAID}"},
        {"type": "CustomWorkflow", "title": "Ask", "workflowName": "Child"},
        {**NODE, "returnToUser": True},
        {"type": "Standard", "title": "After", "endpointName": "Model", "prompt": f"after {SAID}"},
    ],
    "Child": [{"type": "Standard", "title": "Inner", "endpointName": "Model", "prompt": f"inner {SAID}"}],
}
CANDIDATES = {
    "type": "Candidates",
    "title": "Pick",
    "endpointName": "Model",
    "choose": "all",
    "candidates": 2,
}
READ = {
    "workflow": "Read",
    "name": "read_file",
    "description": "Reads a file",
    "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
}
AGENT = {
    "type": "Agent",
    "title": "Work",
    "endpointName": "Tools",
    "lastMessagesToSendInsteadOfPrompt": 20,
    "agentTools": [READ],
}
JOINED = {"type": "StringConcatenator", "title": "Join", "strings": ["text of ", "{agent1Input}"]}
marks = itertools.count(1)


def users(agents):
    return {
        "ann": {"workflows": NESTED},
        "bob": {"user": {"redactLogOutput": True}},
        "eve": {"workflows": {"Chat": [CANDIDATES]}},
        "ivy": {
            "endpoints": {"Tools": {"endpoint": agents}},
            "workflows": {"Chat": [AGENT], "Read": [JOINED]},
        },
        "kit": {
            "endpoints": {"Model": {"apiTypeConfigFileName": "OllamaApiChat"}},
            "presets": {"OllamaApiChat/kit/Warm": {"temperature": 0.5, "top_k": 40, "stop": ["never"]}},
            "workflows": {"Chat": [{**NODE, "preset": "Warm"}]},
        },
        "ray": {"workflows": {"Chat": [{**NODE, "readAhead": "end"}]}},
    }


class TwoForked(Gunicorn):
    """Two workers that are forked from a process that has loaded everything."""

    workers = 2
    options = ("--preload",)


class House:
    """A server, its collector and its backends."""

    def __init__(self, kind, folder, backend, collector, agents):
        everybody = users(agents.url)
        write_tree(folder, everybody, backend.url)
        self.backend, self.collector, self.agents = backend, collector, agents
        self.server = kind(folder, everybody, ("--concurrency", "0"))

    def ask(self, user, say, *, stream=False, route="openai-chat", status=200):
        way = ROUTES[route]
        told, body = self.server.post(way.path, way.ask(user, say, stream=stream))
        assert told == status, body

    def trace(self, mark, count):
        """The spans of the trace in whose texts the mark is, or of that parent, once there are so many."""

        def found():
            for spans in self.collector.traces().values():
                if len(spans) >= count and any(mark in str(vars(span)) for span in spans):
                    return spans
            return None

        return wait_until(found, said=lambda: f"{mark}: {self.collector.spans!r}")


def a_mark():
    return f"mark{next(marks)}x"


@pytest.fixture(scope="module")
def collector():
    made = Collector()
    yield made
    made.close()


@pytest.fixture(scope="module")
def agents():
    fake = AgentBackend()
    yield fake
    fake.close()


@pytest.fixture(
    scope="module", params=[Server, GunicornOfTheHouse, TwoForked], ids=["waitress", "gevent", "forked"]
)
def house(request, backend, collector, agents, tmp_path_factory):
    with pytest.MonkeyPatch.context() as environ:
        for name, value in QUICK.items():
            environ.setenv(name, value)
        environ.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        environ.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
        made = House(request.param, tmp_path_factory.mktemp("public"), backend, collector, agents)
    yield made
    made.server.stop()


class TestTrees:
    @pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
    @pytest.mark.parametrize("route", ["openai-chat", "ollama-chat"])
    def test_a_group_a_nested_workflow_and_a_node_after_the_answer(self, house, route, stream):
        """Each node hangs where it ran, each call at its node."""
        house.ask("ann", mark := a_mark(), route=route, stream=stream)
        name, nodes = tree_of(house.trace(mark, 12))
        assert name == "invoke_workflow ann/Chat"
        call = ("chat fake", [])
        assert sorted(nodes[:2]) == [("Left", [call]), ("Right", [call])]
        assert nodes[2:] == [
            ("Ask", [("Inner", [call])]),
            ("Answer", [call]),
            ("After", [call]),
        ]

    def test_children_lie_within_their_parents(self, house):
        """By the clock; and the group's members overlap or touch."""
        house.ask("ann", mark := a_mark())
        spans = {span.id: span for span in house.trace(mark, 12)}
        below = [(spans[span.parent], span) for span in spans.values() if span.parent in spans]
        assert len(below) == 11
        assert all(above.begun <= one.begun <= one.ended <= above.ended for above, one in below)

    def test_candidates(self, house):
        """Each is a call of a model."""
        house.ask("eve", mark := a_mark())
        name, [(node, calls)] = tree_of(house.trace(mark, 4))
        assert (name, node, calls) == ("invoke_workflow eve/Chat", "Pick", [("chat fake", [])] * 2)

    def test_an_agent(self, house):
        """Its steps are calls of a model, its tools are `execute_tool`; the workflow of one is a nested node."""
        mark = a_mark()
        house.agents.script(
            mark, Step("Looking.", [("read_file", {"path": "a.txt"})]), Step("It says alpha.")
        )
        house.ask("ivy", mark)
        spans = house.trace(mark, 6)
        name, [(node, below)] = tree_of(spans)
        assert (name, node) == ("invoke_workflow ivy/Chat", "Work")
        assert sorted(below) == [
            ("Join", []),
            ("chat fake", []),
            ("chat fake", []),
            ("execute_tool read_file", []),
        ]
        [tool] = [span for span in spans if span.name.startswith("execute_tool")]
        assert tool.attributes["gen_ai.tool.call.result"] == "text of a.txt"

    def test_what_is_read_ahead(self, house):
        """Is a call of its node, which may end behind the answer."""
        house.ask("ray", mark := a_mark())
        spans = house.trace(mark, 4)
        assert tree_of(spans) == (
            "invoke_workflow ray/Chat",
            [("Answer", [("chat fake", []), ("chat fake", [])])],
        )
        kinds = [span.attributes.get("headrace.call.kind") for span in spans if span.kind == "CLIENT"]
        assert sorted(map(str, kinds)) == ["None", "prefill"]

    def test_a_kept_connection(self, house):
        """Requests on one connection are traces of their own."""
        kept = [a_mark() for _ in range(4)]
        connection = http.client.HTTPConnection("127.0.0.1", house.server.port, timeout=PATIENCE_S)
        for mark in kept:
            body = ROUTES["openai-chat"].ask("eve", mark, stream=True)
            connection.request(
                "POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"}
            )
            connection.getresponse().read()
        connection.close()
        assert len({house.trace(mark, 4)[0].trace for mark in kept}) == 4


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_what_was_asked_and_who_answered(house, stream):
    """Samplers that are numbers, the model's own name, tokens, and the conversation."""
    house.ask("kit", f"[DiscussionId]trip3[/DiscussionId]{(mark := a_mark())}", stream=stream)
    request, _, call = house.trace(mark, 3)
    assert request.attributes["gen_ai.conversation.id"] == "trip3"
    told = {name.removeprefix("gen_ai."): value for name, value in call.attributes.items()}
    assert (told["provider.name"], told["request.model"], told["response.model"]) == (
        "ollama",
        "fake",
        "fake",
    )
    assert (told["request.temperature"], told["request.top_k"], told["request.stream"]) == (0.5, 40, stream)
    assert told["usage.input_tokens"] > 0
    assert not [name for name in told if "stop" in name]


class TestEnds:
    def test_a_backend_that_fails(self, house):
        """The call, its node and the request are errors of the same kind."""
        house.backend.on(mark := a_mark(), Reply(status=401))
        house.ask("ray", mark, status=502)
        spans = house.trace(mark, 3)
        told = [(span.name.split()[0], span.status, span.attributes["error.type"]) for span in spans]
        assert told == [
            ("invoke_workflow", "ERROR", "auth"),
            ("Answer", "ERROR", "auth"),
            ("chat", "ERROR", "auth"),
        ]

    def test_a_client_that_hangs_up(self, house):
        """Is no error; the trace says who ended it."""
        house.backend.on(mark := a_mark(), Reply(["one "], hangs=True))
        connection, answer = house.server.open_stream(
            "/v1/chat/completions", {"model": "bob", "messages": [{"role": "user", "content": mark}]}
        )
        answer.read(10)
        answer.close()
        connection.close()
        [root] = wait_until(
            lambda: [span for span in house.collector.spans if "headrace.cancelled_by" in span.attributes]
        )[-1:]
        told = (root.status, root.attributes["headrace.state"], root.attributes["headrace.cancelled_by"])
        assert told == ("UNSET", "cancelled", "the client hung up")
        house.collector.spans.remove(root)

    def test_a_name_that_is_not_there(self, house):
        """A request that came to no workflow is one span."""
        house.ask(mark := a_mark(), "hi", status=404)
        [span] = house.trace(mark, 1)
        assert (span.status, span.attributes["error.type"]) == ("ERROR", "404")

    def test_a_huge_text(self, house):
        """Is sent without its middle."""
        mark = a_mark()
        house.ask("eve", f"{mark} {'word ' * 200_000}")
        [request] = [span for span in house.trace(mark, 4) if span.kind == "SERVER"]
        told = request.attributes["gen_ai.input.messages"]
        assert " left out) ..." in told
        assert len(told) < 200_000


class TestWhoMaySee:
    def test_a_private_user(self, house):
        """Its texts are nowhere, though others' are sent."""
        house.ask("bob", mark := a_mark(), stream=True)
        house.ask("eve", other := a_mark())
        house.trace(other, 4)
        house.trace("invoke_workflow bob/Chat", 3)
        sent = b"".join(house.collector.bodies)
        assert (mark.encode() in sent, other.encode() in sent) == (False, True)

    def test_the_clients_trace(self, house):
        """Its `traceparent` is the parent of the request."""
        trace, span = f"{next(marks):032x}", "00f067aa0ba902b7"
        connection = http.client.HTTPConnection("127.0.0.1", house.server.port, timeout=PATIENCE_S)
        body = ROUTES["openai-chat"].ask("eve", "hi", stream=False)
        headers = {"Content-Type": "application/json", "traceparent": f"00-{trace}-{span}-01"}
        connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        assert connection.getresponse().status == 200
        connection.close()
        spans = wait_until(
            lambda: len(house.collector.traces().get(trace, ())) >= 4 and house.collector.traces()[trace]
        )
        assert [one.parent for one in spans if one.kind == "SERVER"] == [span]

    def test_nothing_of_it_is_sent_to_models(self, house):
        """A backend gets no header that it did not get before."""
        house.ask("eve", mark := a_mark())
        names = {name.lower() for call in house.backend.calls(mark) for name in call.headers}
        assert not {"traceparent", "tracestate", "baggage"} & names


class TestSeveralWorkers:
    def test_both_send(self, house):
        """Each process has a thread of its own and says which process it is."""
        wanted = 2 if isinstance(house.server, TwoForked) else 1
        asked = set()

        def seen():
            house.ask("eve", mark := a_mark())
            asked.add(house.trace(mark, 4)[0].resource["service.instance.id"])
            return len(asked) >= wanted

        assert wait_until(seen)


def test_a_collector_that_is_away(backend, tmp_path, agents, collector):
    """No answer waits for it; the log has one line about it, and none of the library's."""
    with pytest.MonkeyPatch.context() as environ:
        for name, value in QUICK.items():
            environ.setenv(name, value)
        environ.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9/")
        environ.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
        house = House(Server, tmp_path / "Public", backend, collector, agents)
    try:
        for _ in range(20):
            house.ask("eve", a_mark())
        assert house.server.wait_for_log("traces cannot be sent to http://127.0.0.1:9/")
    finally:
        house.server.stop()
    lines = [line for line in house.server.log.splitlines() if "opentelemetry" in line or "traces" in line]
    assert len(lines) == 1
