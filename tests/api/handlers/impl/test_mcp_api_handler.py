"""`/mcp`, against a scripted engine (more-fronts.md 6)."""

from __future__ import annotations

import json
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from Middleware.api.requests.access import AccessRules
from Middleware.common.errors import BackendError
from tests.api.conftest import chunk
from tests.api.handlers.impl.test_ollama_api_handler import odd
from tests.api.test_a_third_protocol import Held, in_background
from tests.patience import PATIENCE_S, wait_until

JSON, SSE = {"Accept": "application/json"}, {"Accept": "application/json, text/event-stream"}
MODERN = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
TIDE = {
    "description": "Height of the tide.",
    "inputs": {"port": {"required": True}, "hours": {"type": "integer", "default": 6}},
    "message": "Tide in {port}",
}
LOW = [[chunk("Low ")], [chunk("tide.")], [chunk("", "stop")]]


@pytest.fixture(autouse=True)
def tree(configs, engine):
    """A tool `tide` over a shared workflow that is listed nowhere else."""
    configs("Workflows/_shared/tide/_DefaultWorkflow.json", [])
    configs("Workflows/_shared/tide/_mcpTool.json", TIDE)
    engine.answer = LOW


def message(method, params=None, call_id=1):
    return {"jsonrpc": "2.0", "id": call_id, "method": method, "params": params or {}}


def tool_call(arguments=None, call_id=7, name="tide", **meta):
    params = {"name": name, "arguments": {"port": "Brest"} if arguments is None else arguments}
    return message("tools/call", {**params, "_meta": meta} if meta else params, call_id)


def ask(client, body, headers=JSON, **more):
    return client.post("/mcp", json=body, headers=headers, buffered=True, **more)


def events(answer):
    """The JSON-RPC messages of a stream."""
    blocks = [block for block in answer.text.split("\n\n") if block and block != ":"]
    assert all(block.startswith("event: message\ndata: ") for block in blocks)
    return [json.loads(block.split("data: ", 1)[1]) for block in blocks]


class TestMethods:
    def test_initialize(self, client):
        """Names a session, for which nothing is kept."""
        answer = ask(client, message("initialize", {"protocolVersion": "2025-03-26"}))
        assert answer.json["result"]["protocolVersion"] == "2025-03-26"
        assert answer.headers["Mcp-Session-Id"] == answer.headers["X-Request-Id"]
        again = ask(client, message("tools/list"), {**JSON, "Mcp-Session-Id": "of-another-server"})
        assert again.status_code == 200

    @pytest.mark.parametrize("call_id", [1, "a", 2.5])
    def test_ping(self, client, call_id):
        """The id comes back as it was."""
        assert ask(client, message("ping", None, call_id)).json == {
            "jsonrpc": "2.0",
            "id": call_id,
            "result": {},
        }

    def test_list(self, client):
        """One page."""
        result = ask(client, message("tools/list", {"cursor": "x"})).json["result"]
        assert [tool["name"] for tool in result["tools"]] == ["tide"] and list(result) == ["tools"]

    def test_modern(self, client):
        """Each request names its version; there is no handshake, so neither is a ping."""
        found = ask(client, message("server/discover", {"_meta": MODERN})).json["result"]
        assert found["supportedVersions"][0] == "2026-07-28"
        assert ask(client, message("tools/list", {"_meta": MODERN})).json["result"]["cacheScope"] == "private"
        for method in ("ping", "initialize", "resources/list"):
            answer = ask(client, message(method, {"_meta": MODERN}))
            assert answer.status_code == 404 and answer.json["error"]["code"] == -32601

    @pytest.mark.parametrize("method", ["resources/list", "prompts/list", "server/discover", "x"])
    def test_what_is_not_there(self, client, method):
        """An answer of the protocol, not of HTTP."""
        answer = ask(client, message(method))
        assert (answer.status_code, answer.json["id"], answer.json["error"]["code"]) == (200, 1, -32601)
        assert method in answer.json["error"]["message"]

    @pytest.mark.parametrize(
        "body",
        [
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": [1]}},
            {"jsonrpc": "2.0", "method": "notifications/cancelled"},
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": [1]},
            {"jsonrpc": "2.0", "id": 1, "result": {}},
        ],
    )
    def test_what_wants_no_answer(self, client, body):
        """202 and nothing."""
        answer = ask(client, body)
        assert (answer.status_code, answer.data) == (202, b"")

    @pytest.mark.parametrize(("data", "code"), [(b"{", -32700), (b"[]", -32600), (b"{}", -32600)])
    def test_what_is_no_request(self, client, data, code):
        """HTTP 400, without an id."""
        answer = client.post("/mcp", data=data)
        assert (answer.status_code, answer.json["id"], answer.json["error"]["code"]) == (400, None, code)

    def test_versions(self, client):
        """An unknown one is refused, wherever it stands."""
        header = ask(client, message("ping"), {**JSON, "MCP-Protocol-Version": "1999-01-01"})
        assert (header.status_code, header.json["error"]["code"]) == (400, -32600)
        for version in ("2024-11-05", "2026-07-28"):
            assert ask(client, message("ping"), {"MCP-Protocol-Version": version}).status_code == 200
        meta = {"io.modelcontextprotocol/protocolVersion": "2031-01-01"}
        answer = ask(client, message("tools/list", {"_meta": meta}))
        assert (answer.status_code, answer.json["error"]["code"]) == (400, -32022)
        assert answer.json["error"]["data"]["requested"] == "2031-01-01"

    @pytest.mark.parametrize("method", ["GET", "DELETE", "HEAD"])
    def test_there_is_no_stream_of_the_server(self, client, method):
        """Clients take that."""
        answer = client.open("/mcp", method=method)
        assert answer.status_code == 405 and "POST" in answer.headers["Allow"]
        assert "GET" not in answer.headers["Allow"] and "DELETE" not in answer.headers["Allow"]

    def test_keys(self, serve):
        """As on every route, in its own shape."""
        client = serve(access=AccessRules(api_keys=("k",))).test_client()
        refused = ask(client, message("tools/list"))
        assert refused.status_code == 401 and refused.json["error"]["code"] == -32600
        assert refused.json["id"] is None
        assert ask(client, message("tools/list"), {**JSON, "Authorization": "Bearer k"}).status_code == 200


class TestCall:
    def test_whole(self, client, engine):
        """One body for who wants no stream; the workflow runs with the inputs, without tools and thoughts."""
        answer = ask(client, tool_call())
        assert answer.content_type == "application/json"
        assert answer.text == (
            '{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"Low tide."}],"isError":false}}'
        )
        asked = engine.last
        assert asked.messages == [{"role": "user", "content": "Tide in Brest"}]
        assert (asked.inputs, asked.tools, asked.stream) == (("Brest", "6"), None, False)
        assert asked.request.workflow_folder == "tide" and asked.request.suppress_reasoning

    def test_streamed(self, client, engine):
        """Events, the response last."""
        answer = ask(client, tool_call(progressToken="t1"), SSE)
        assert answer.content_type == "text/event-stream; charset=utf-8"
        [response] = events(answer)
        assert response["result"] == {"content": [{"type": "text", "text": "Low tide."}], "isError": False}
        assert engine.last.stream

    def test_progress(self, client, engine):
        """Nodes that start are told before the response."""
        step = {"number": 1, "of": 2, "title": "Look", "depth": 0}
        engine.answer = [[chunk(progress=step)], *LOW]
        told, response = events(ask(client, tool_call(progressToken=5), SSE))
        assert told["params"] == {"progressToken": 5, "progress": 1, "message": "[1/2] Look"}
        assert response["id"] == 7 and engine.last.request.progress != "off"

    def test_progress_is_for_who_asks(self, client, engine, configs):
        """By a token and a stream; the user's own setting is for other clients."""
        configs("Users/mira.json", {"progressOutput": "reasoning"})
        for call, headers in [(tool_call(), SSE), (tool_call(progressToken=5), JSON)]:
            ask(client, call, headers)
            assert engine.last.request.progress == "off"

    def test_what_the_workflow_used(self, client, engine):
        """Beside the answer, whole and streamed, and in a header of the whole one."""

        def answer(call):
            call.request.usage.add({"prompt_tokens": 22, "completion_tokens": 14})
            return LOW

        engine.answer = answer
        used = {"headrace/usage": {"prompt_tokens": 22, "completion_tokens": 14, "calls": 1}}
        whole = ask(client, tool_call())
        assert whole.json["result"]["_meta"] == used
        assert json.loads(whole.headers["X-Workflow-Usage"]) == used["headrace/usage"]
        assert events(ask(client, tool_call(), SSE))[-1]["result"]["_meta"] == used

    def test_modern(self, client):
        """Says that it is complete."""
        assert ask(client, tool_call(**MODERN)).json["result"]["resultType"] == "complete"

    @pytest.mark.parametrize("headers", [JSON, SSE], ids=["whole", "streamed"])
    def test_wrong_arguments_are_a_result(self, client, engine, headers):
        """So that the model can mend them; nothing runs."""
        answer = ask(client, tool_call({"depth": 1}), headers)
        assert answer.status_code == 200 and engine.calls == []
        assert answer.json["result"]["isError"] is True
        assert "no input 'depth'" in answer.json["result"]["content"][0]["text"]

    @pytest.mark.parametrize("name", ["nobody", None, 7, [], "novel"])
    def test_an_unknown_tool(self, client, engine, name):
        """Is an error of the protocol."""
        answer = ask(client, tool_call(name=name))
        assert (answer.status_code, answer.json["error"]["code"]) == (200, -32602)
        modern = ask(client, tool_call(name=name, **MODERN))
        assert (modern.status_code, modern.json["error"]["code"], engine.calls) == (400, -32602, [])

    def test_a_folder_with_an_odd_name(self, client, configs, engine):
        """Is found again, though a model name would be cut there."""
        configs("Workflows/_shared/latest/_DefaultWorkflow.json", [])
        configs("Workflows/_shared/latest/_mcpTool.json", {"description": "x"})
        ask(client, tool_call({"message": "Hi"}, name="latest"))
        assert engine.last.request.workflow_folder == "latest"

    def test_several_users(self, client, configs, facts, engine):
        """The name says whose workflow runs."""
        configs("Users/ann.json", {"customWorkflow": "Main"})
        facts(users=("mira", "ann"))
        assert "error" in ask(client, tool_call()).json
        ask(client, tool_call(name="ann.tide"))
        assert (engine.last.user.name, engine.last.request.workflow_folder) == ("ann", "tide")

    @pytest.mark.parametrize("headers", [JSON, SSE], ids=["whole", "streamed"])
    @pytest.mark.parametrize("late", [False, True], ids=["at-once", "later"])
    def test_a_failure_is_a_result(self, client, engine, headers, late):
        """HTTP 200, whenever it comes, so that the model reads it."""

        def breaking(call):
            if late:
                yield [chunk("Low")]
            raise BackendError("Big", "timeout", "no answer within 5 s")

        engine.answer = breaking
        answer = ask(client, tool_call(), headers)
        body = answer.json if headers is JSON else events(answer)[-1]
        assert answer.status_code == 200 and body["id"] == 7 and body["result"]["isError"] is True
        assert body["result"]["content"][0]["text"].startswith("endpoint 'Big': no answer within 5 s")

    def test_a_bug_is_told_as_one(self, client, engine):
        """Without its insides."""
        engine.answer = lambda call: 1 / 0
        text = ask(client, tool_call()).json["result"]["content"][0]["text"]
        assert text.startswith("internal error (ZeroDivisionError)")


class TestItsPlaceInTheHouse:
    def test_only_calls_pass_the_gate(self, facts, serve, engine):
        """A second call finds no slot in time and is told so in JSON-RPC; lists and pings never wait."""
        facts(concurrency=1, concurrency_level="request", concurrency_timeout_s=0.05)
        app, held = serve(), Held(engine)
        first = in_background(lambda: ask(app.test_client(), tool_call()))
        assert held.began.wait(PATIENCE_S)
        busy = ask(app.test_client(), tool_call())
        assert ask(app.test_client(), message("tools/list")).status_code == 200
        held.free.set()
        first.join(PATIENCE_S)
        assert (busy.status_code, busy.json["id"], busy.json["error"]["code"]) == (503, None, -32603)
        assert busy.headers["Retry-After"] == "5"
        engine.answer = LOW
        assert ask(app.test_client(), tool_call()).status_code == 200

    def test_the_gate_is_the_one_of_all(self, facts, serve, engine):
        """A chat waits for a call that runs."""
        facts(concurrency=1, concurrency_level="request", concurrency_timeout_s=0.05)
        app, held = serve(), Held(engine)
        first = in_background(lambda: ask(app.test_client(), tool_call()))
        assert held.began.wait(PATIENCE_S)
        busy = app.test_client().post("/v1/completions", json={"prompt": "Hi"}, buffered=True)
        held.free.set()
        first.join(PATIENCE_S)
        assert busy.status_code == 503

    def test_there_must_be_room(self, serve, engine, caplog):
        """Threads of the server are kept free for other requests. As on other routes that is no error of the
        log's."""
        app, held = serve(), Held(engine)
        app.door.most_posts = 1
        first = in_background(lambda: ask(app.test_client(), tool_call()))
        assert held.began.wait(PATIENCE_S)
        busy = ask(app.test_client(), tool_call())
        held.free.set()
        first.join(PATIENCE_S)
        assert busy.status_code == 503 and "requests are running or waiting" in busy.json["error"]["message"]
        assert [record for record in caplog.records if record.levelname == "ERROR"] == []

    @pytest.mark.parametrize("headers", [JSON, SSE], ids=["whole", "streamed"])
    def test_a_hang_up_stops_a_call(self, serve, engine, headers):
        """As on every route."""
        app, held, gone = serve(), Held(engine), threading.Event()
        environ = {"waitress.client_disconnected": gone.is_set}
        call = in_background(lambda: ask(app.test_client(), tool_call(), headers, environ_overrides=environ))
        assert held.began.wait(PATIENCE_S)
        gone.set()
        call.join(PATIENCE_S)
        assert held.cancelled

    def test_a_hang_up_at_the_gate(self, facts, serve, engine):
        """Leaves the queue; the workflow never runs."""
        facts(concurrency=1, concurrency_level="request", concurrency_timeout_s=PATIENCE_S)
        app, held, gone = serve(), Held(engine), threading.Event()
        first = in_background(lambda: ask(app.test_client(), tool_call()))
        assert held.began.wait(PATIENCE_S)
        environ, answers = {"waitress.client_disconnected": gone.is_set}, []
        second = in_background(
            lambda: answers.append(ask(app.test_client(), tool_call(), environ_overrides=environ))
        )
        while not app.door.traffic.waiting():
            threading.Event().wait(0.005)
        gone.set()
        second.join(PATIENCE_S)
        held.free.set()
        first.join(PATIENCE_S)
        assert [answer.status_code for answer in answers] == [499] and len(engine.calls) == 1

    def test_a_call_that_waits_is_named(self, facts, serve, engine):
        """Its user, its workflow, its protocol, and the message that the workflow gets (workbench.md 12)."""
        facts(concurrency=1, concurrency_level="request", concurrency_timeout_s=PATIENCE_S)
        app, held, told = serve(), Held(engine), []

        class Rows:
            keeps_text, changes = True, ("waiting",)

            def note_change(self, run, what, node):
                told.append((run.state, run.user, run.model, run.front, run.said))

        first = in_background(lambda: ask(app.test_client(), tool_call()))
        assert held.began.wait(PATIENCE_S)
        app.door.observers.observe(Rows())
        second = in_background(lambda: ask(app.test_client(), tool_call({"port": "Ulm"})))
        wait_until(lambda: app.door.traffic.waiting())
        held.free.set()
        for call in (first, second):
            call.join(PATIENCE_S)
        assert told == [("waiting", "mira", "mira:tide", "MCP", "Tide in Ulm")]

    def test_nothing_is_left_behind(self, serve, engine):
        """After an answer, a failure, wrong arguments."""
        app = serve()
        for headers in (JSON, SSE):
            engine.answer = [[chunk("x", "stop", last=True)]]
            ask(app.test_client(), tool_call(), headers)
            engine.answer = lambda call: 1 / 0
            ask(app.test_client(), tool_call(), headers)
            ask(app.test_client(), tool_call({}), headers)
        for _ in range(500):
            if not app.door.lives:
                break
            threading.Event().wait(0.01)
        assert app.door.lives == set() and app.door.traffic.running == 0
        assert app.door._posts == set() and len(app.extensions["headrace.named.mcp"]) == 0
        assert app.door.traffic.finished == 4


class TestCancelled:
    def cancel(self, app, call_id, **headers):
        body = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": call_id}}
        return ask(app.test_client(), body, {**JSON, **headers}).status_code

    @pytest.mark.parametrize("call_id", [7, "7", 7.5])
    def test_by_its_id(self, serve, engine, call_id):
        """The stream just ends, with the text so far."""
        app, held, answers = serve(), Held(engine), []
        call = in_background(lambda: answers.append(ask(app.test_client(), tool_call(call_id=call_id), SSE)))
        assert held.began.wait(PATIENCE_S)
        assert self.cancel(app, call_id) == 202
        call.join(PATIENCE_S)
        assert held.cancelled and events(answers[0])[-1]["result"]["content"][0]["text"] == ""

    def test_a_whole_answer(self, serve, engine):
        """Is none any more."""
        app, held, answers = serve(), Held(engine), []
        call = in_background(lambda: answers.append(ask(app.test_client(), tool_call())))
        assert held.began.wait(PATIENCE_S)
        self.cancel(app, 7)
        call.join(PATIENCE_S)
        assert held.cancelled and answers[0].status_code == 499

    def test_at_the_gate(self, facts, serve, engine):
        """It leaves the queue; the workflow never runs. Clients give up by their own clock while they wait."""
        facts(concurrency=1, concurrency_level="request", concurrency_timeout_s=PATIENCE_S)
        app, held, answers = serve(), Held(engine), []
        first = in_background(lambda: ask(app.test_client(), tool_call(call_id=1)))
        assert held.began.wait(PATIENCE_S)
        second = in_background(lambda: answers.append(ask(app.test_client(), tool_call(call_id=2))))
        while not app.door.traffic.waiting():
            threading.Event().wait(0.005)
        assert self.cancel(app, 2) == 202
        second.join(PATIENCE_S)
        held.free.set()
        first.join(PATIENCE_S)
        assert [answer.status_code for answer in answers] == [499] and len(engine.calls) == 1

    def test_the_call_of_another(self, serve, engine):
        """Another id, another type of id, another session, another key: none of them is this one."""
        app, held = serve(), Held(engine)
        own = {"Mcp-Session-Id": "s", "Authorization": "Bearer k"}
        call = in_background(lambda: ask(app.test_client(), tool_call(), {**JSON, **own}))
        assert held.began.wait(PATIENCE_S)
        for call_id, change in [(8, {}), ("7", {}), (7.0, {}), (7, {"Mcp-Session-Id": "t"})]:
            self.cancel(app, call_id, **{**own, **change})
        self.cancel(app, 7, **{"Mcp-Session-Id": "s"})
        assert not held.cancelled and not call.join(0.05) and call.is_alive()
        self.cancel(app, 7, **own)
        call.join(PATIENCE_S)
        assert held.cancelled


PARAMS = st.dictionaries(
    st.sampled_from(["name", "arguments", "_meta", "requestId", "protocolVersion", "cursor"]),
    odd | st.sampled_from(["tide", {"port": "x"}, {"progressToken": []}, MODERN]),
)
METHODS = ["tools/call", "tools/list", "initialize", "notifications/cancelled", "server/discover", "x"]


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    body=st.fixed_dictionaries(
        {}, optional={"jsonrpc": st.just("2.0") | odd, "id": odd, "method": st.sampled_from(METHODS) | odd, "params": PARAMS | odd}
    ) | odd,
    headers=st.sampled_from([JSON, SSE, {}]),
)  # fmt: skip
def test_any_field_of_any_type_is_never_a_500(client, body, headers):
    """A message of JSON-RPC, or nothing."""
    answer = ask(client, body, headers)
    assert answer.status_code in (200, 202, 400, 404)
    if answer.content_type.startswith("text/event-stream"):
        assert all(one["jsonrpc"] == "2.0" for one in events(answer))
    elif answer.status_code != 202:
        assert answer.json["jsonrpc"] == "2.0" and ("result" in answer.json) != ("error" in answer.json)
