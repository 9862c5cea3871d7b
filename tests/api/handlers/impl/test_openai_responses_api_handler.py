"""The Responses routes, against a scripted engine (more-fronts.md 3)."""

from __future__ import annotations

import json
import threading

import httpx2
import openai
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openai.types.responses import Response, ResponseItemList

from Middleware.api.requests import answering
from Middleware.api.requests.chat_messages import TOOL_SENTENCE
from Middleware.common.errors import BackendError
from Middleware.protocols import responses
from Middleware.services.cancellation_service import cancellation_service
from tests.api.conftest import chunk
from tests.patience import PATIENCE_S

BODY = {"model": "mira", "input": "Hi"}
CALL = {"index": 0, "id": "c1", "type": "function", "function": {"name": "tide", "arguments": "{}"}}
TOOL = {"type": "function", "name": "tide", "parameters": {"type": "object"}}
TASK = "### Task:\nWrite a title for <chat_history>a</chat_history>"


def post(client, stream=False, path="/v1/responses", headers=None, **body):
    return client.post(path, json={**BODY, **body, "stream": stream}, headers=headers, buffered=True)


def events(answer):
    return [
        json.loads(block.partition("\ndata: ")[2]) for block in answer.text.split("\n\n") if "data: " in block
    ]


def response_of(answer):
    return events(answer)[-1]["response"] if answer.mimetype == "text/event-stream" else answer.json


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def stream(request):
    return request.param


class TestAnswers:
    @pytest.mark.parametrize("path", ["/v1/responses", "/responses", "/v1/responses/"])
    def test_the_answer(self, client, engine, stream, path):
        """Under the request's id, by the official type."""
        answer = post(client, stream, path)
        made = Response.model_validate(response_of(answer))
        assert (made.id, made.output_text) == (f"resp_{answer.headers['X-Request-Id']}", "Hello.")
        assert engine.last.messages == [{"role": "user", "content": "Hi"}]

    def test_it_streams_only_when_asked(self, client, engine):
        """As the SDK expects."""
        assert client.post("/v1/responses", json=BODY).json["object"] == "response"

    def test_a_question_as_the_workflow_sees_it(self, client, engine, stream):
        """Instructions, messages, tools, choice."""
        post(client, stream, instructions="Be brief.", tools=[TOOL], tool_choice="required")
        assert engine.last.messages == [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Hi"},
        ]
        function = {"name": "tide", "parameters": {"type": "object"}}
        assert engine.last.tools == [{"type": "function", "function": function}]
        assert (engine.last.tool_choice, engine.last.stream) == ("required", stream)

    def test_what_has_no_place_is_logged_once(self, client, engine, caplog, stream):
        """However often a body is looked at."""
        post(client, stream, input=[{"type": "computer_call"}], tools=[{"type": "web_search"}])
        assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
            "items or parts of these types were dropped: ['computer_call']",
            "tools of these types were left out: ['web_search']",
        ]

    def test_speaker_prefixes(self, client, engine, configs):
        """As on the chat routes."""
        configs("Users/mira.json", {"chatCompleteAddUserAssistant": True})
        post(client)
        assert engine.last.messages[0]["content"] == "User: Hi"

    @pytest.mark.parametrize(
        ("reasoning", "none"), [({"effort": "none"}, True), ({"effort": "low"}, False), (None, False), ("none", False)]
    )  # fmt: skip
    def test_no_reasoning(self, client, engine, reasoning, none):
        """On the client's wish."""
        post(client, reasoning=reasoning, think=False)
        assert engine.last.request.suppress_reasoning is none

    def test_what_the_request_said_is_repeated(self, client, engine, stream):
        """In whole answers and in streams."""
        made = response_of(post(client, stream, metadata={"k": "v"}, tools=[TOOL], temperature="hot"))
        assert (made["metadata"], made["tools"], made["temperature"]) == ({"k": "v"}, [TOOL], None)


class TestOpenWebUi:
    def test_a_background_task(self, client, engine):
        """Is known by its messages, here too."""
        post(client, input=[{"role": "user", "content": TASK}])
        assert engine.last.request.task == "title"
        post(client, input=TASK)
        assert engine.last.request.task == "title"
        post(client)
        assert engine.last.request.task is None

    def test_the_tool_picker(self, client, engine, configs, stream):
        """Is answered without a model, and not kept."""
        configs("Users/mira.json", {"interceptOpenWebUIToolRequests": True})
        made = response_of(post(client, stream, instructions=TOOL_SENTENCE, user="u"))
        assert made["output"][0]["content"][0]["text"] == '{"tool_calls": []}'
        assert (made["user"], engine.calls) == ("u", [])
        assert client.get(f"/v1/responses/{made['id']}").status_code == 404


class TestErrors:
    @pytest.mark.parametrize(
        ("body", "param", "code"),
        [
            ({"input": 5}, "input", None),
            ({"input": [{"type": "message"}]}, "input[0].role", None),
            ({"background": True}, "background", "unsupported_parameter"),
            ({"previous_response_id": "resp_x"}, "previous_response_id", "previous_response_not_found"),
            ({"previous_response_id": 7}, "previous_response_id", "previous_response_not_found"),
        ],
        ids=str,
    )
    def test_before_any_work(self, client, engine, stream, body, param, code):
        """400 with the field, no stream."""
        answer = post(client, stream, **body)
        error = answer.json["error"]
        assert (answer.status_code, error["type"]) == (400, "invalid_request_error")
        assert (error["param"], error["code"], engine.calls) == (param, code, [])

    @pytest.mark.parametrize("path", ["/v1/responses", "/responses"])
    def test_a_failing_backend(self, client, engine, stream, path):
        """OpenAI's object, also without `/v1`; the SDK must not repeat it."""

        def failing(call):
            raise BackendError("Big", "timeout", "no answer within 5 s")

        engine.answer = failing
        answer = post(client, stream, path)
        assert (answer.status_code, answer.headers["x-should-retry"]) == (504, "false")
        assert answer.json["error"]["type"] == "server_error"
        name = f"resp_{answer.headers['X-Request-Id']}"
        assert client.post(f"/v1/responses/{name}/cancel").status_code == 404

    def test_in_mid_stream(self, client, engine):
        """The response has failed; it is not kept."""

        def breaking(call):
            yield [chunk("Hel")]
            raise BackendError("Big", "timeout", "no answer within 5 s")

        engine.answer = breaking
        made = response_of(post(client, True))
        assert (made["status"], made["error"]["code"]) == ("failed", "server_error")
        assert client.get(f"/v1/responses/{made['id']}").status_code == 404

    @pytest.mark.parametrize(
        ("method", "path", "status", "sentence"),
        [
            ("GET", "/v1/responses", 405, "method not allowed"),
            ("DELETE", "/v1/responses", 405, "method not allowed"),
            ("POST", "/v1/responses/compact", 404, "not supported by this server"),
            ("POST", "/v1/responses/resp_x/other", 404, "no such route"),
            ("GET", "/v1/responses/resp_x", 404, "response 'resp_x' is not kept"),
            ("DELETE", "/responses/resp_x", 404, "response 'resp_x' is not kept"),
            ("POST", "/v1/responses/resp_x/cancel", 404, "response 'resp_x' is not kept"),
            ("GET", "/responses/resp_x/input_items", 404, "response 'resp_x' is not kept"),
        ],
    )
    def test_routes(self, client, method, path, status, sentence):
        """In OpenAI's form."""
        answer = client.open(path, method=method)
        assert answer.status_code == status and answer.json["error"]["message"].startswith(sentence)

    def test_a_web_socket(self, client):
        """Is a GET that is not allowed: Codex goes on without."""
        upgrade = {"Connection": "Upgrade", "Upgrade": "websocket"}
        assert client.get("/v1/responses", headers=upgrade).status_code == 405


class TestStore:
    def test_a_response_comes_back(self, client, engine, stream):
        """As it was told in the end."""
        made = response_of(post(client, stream, metadata={"k": "v"}))
        assert client.get(f"/v1/responses/{made['id']}").json == made
        assert client.get(f"/responses/{made['id']}/").json == made

    def test_it_is_not_streamed_again(self, client, engine):
        """A wish that is told apart from an unknown id."""
        made = post(client).json
        assert client.get(f"/v1/responses/{made['id']}?stream=true").status_code == 400
        assert client.get(f"/v1/responses/{made['id']}?stream=false").status_code == 200

    def test_not_kept(self, client, engine, stream):
        """On the client's wish only."""
        made = response_of(post(client, stream, store=False))
        assert made["store"] is False and client.get(f"/v1/responses/{made['id']}").status_code == 404
        made = response_of(post(client, stream, store=None))
        assert made["store"] is True and client.get(f"/v1/responses/{made['id']}").status_code == 200

    def test_a_chain(self, client, engine, stream):
        """Input and output of each, the first one first; neither its instructions nor its tools."""
        engine.answer = [
            [chunk(thinking="hm")],
            [chunk("I look.", tool_calls=[CALL])],
            [chunk("", "tool_calls")],
        ]
        first = response_of(post(client, stream, instructions="old", tools=[TOOL]))
        engine.answer = [[chunk("Low."), chunk("", "stop")]]
        result = [{"type": "function_call_output", "call_id": "c1", "output": "1 m"}]
        second = response_of(post(client, stream, input=result, previous_response_id=first["id"]))
        assert second["previous_response_id"] == first["id"]
        post(client, stream, input="Thanks", instructions="new", previous_response_id=second["id"])
        call = {"id": "c1", "type": "function", "function": {"name": "tide", "arguments": "{}"}}
        assert engine.last.messages == [
            {"role": "system", "content": "new"},
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "I look.", "tool_calls": [call]},
            {"role": "tool", "content": "1 m", "tool_call_id": "c1", "name": "tide"},
            {"role": "assistant", "content": "Low."},
            {"role": "user", "content": "Thanks"},
        ]
        assert engine.last.tools is None

    def test_the_history_alone(self, client, engine):
        """No input is needed then."""
        made = post(client).json
        client.post("/v1/responses", json={"model": "mira", "previous_response_id": made["id"]})
        assert [message["content"] for message in engine.last.messages] == ["Hi", "Hello."]

    def test_a_missing_link(self, client, engine):
        """Is named, wherever it is."""
        first = post(client).json["id"]
        second = post(client, previous_response_id=first).json["id"]
        client.delete(f"/v1/responses/{first}")
        error = post(client, previous_response_id=second).json["error"]
        assert error["message"].startswith(f"previous response '{first}' is not kept")
        assert error["code"] == "previous_response_not_found"

    def test_a_text_in_place_of_an_id(self, client, engine):
        """Is not quoted: logs and the console tell errors of private users, too."""
        error = post(client, previous_response_id="my secret plan").json["error"]
        assert error["message"].startswith("previous response is not kept: it is unknown")
        assert error["param"] == "previous_response_id"

    def test_another_key(self, client, engine):
        """Sees nothing."""
        mine, other = {"Authorization": "Bearer mine"}, {"Authorization": "Bearer other"}
        made = post(client, headers=mine).json["id"]
        for headers in (other, None):
            assert client.get(f"/v1/responses/{made}", headers=headers).status_code == 404
            assert client.delete(f"/v1/responses/{made}", headers=headers).status_code == 404
            assert post(client, headers=headers, previous_response_id=made).status_code == 400
        assert client.get(f"/v1/responses/{made}", headers=mine).status_code == 200

    def test_deleted(self, client, engine):
        """Then it is unknown."""
        made = post(client).json["id"]
        deleted = client.delete(f"/v1/responses/{made}").json
        assert deleted == {"id": made, "object": "response", "deleted": True}
        assert client.delete(f"/v1/responses/{made}").status_code == 404

    def test_input_items(self, client, engine):
        """The newest first, unless the order is asked for."""
        items = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
        made = post(client, input=items).json["id"]
        page = ResponseItemList.model_validate(client.get(f"/v1/responses/{made}/input_items").json)
        assert [item.content[0].text for item in page.data] == ["b", "a"]
        assert (page.first_id, page.last_id, page.has_more) == (page.data[0].id, page.data[1].id, False)
        turned = client.get(f"/v1/responses/{made}/input_items?order=asc").json
        assert [item["id"] for item in turned["data"]] == [item.id for item in page.data[::-1]]
        previous = client.post("/v1/responses", json={"model": "mira", "previous_response_id": made}).json[
            "id"
        ]
        empty = client.get(f"/v1/responses/{previous}/input_items").json
        assert (empty["data"], empty["first_id"], empty["last_id"]) == ([], None, None)

    def test_every_server_has_its_own(self, serve, engine):
        """Nothing is shared that nobody sees."""
        made = post(serve().test_client()).json["id"]
        assert serve().test_client().get(f"/v1/responses/{made}").status_code == 404

    def test_no_log_tells_a_text(self, client, engine, caplog):
        """Neither what was kept nor what was forgotten."""
        with caplog.at_level("DEBUG"):
            made = post(client, input="marked-words").json["id"]
            client.get(f"/v1/responses/{made}")
            client.delete(f"/v1/responses/{made}")
        assert "marked-words" not in caplog.text and "Hello." not in caplog.text


class Held:
    """A run that waits: `began` is set when it is asked, it ends when it is cancelled or `free` is set."""

    def __init__(self, engine):
        self.began, self.free, self.cancelled, self.id = threading.Event(), threading.Event(), False, ""
        engine.answer = self

    def __call__(self, call):
        self.id = call.request.request_id
        yield [chunk("Hel")]
        self.began.set()
        while not self.free.wait(0.005):
            if cancellation_service.is_cancelled(self.id):
                self.cancelled = True
                return
        yield [chunk("lo.", "stop")]


class Asked:
    """A request in the background; `answer` is there after `join`."""

    def __init__(self, client, stream, **more):
        self.answer = None
        self._thread = threading.Thread(target=self._ask, args=(client, stream, more), daemon=True)
        self._thread.start()

    def _ask(self, client, stream, more):
        self.answer = client.post("/v1/responses", json={**BODY, "stream": stream}, buffered=True, **more)

    def join(self):
        self._thread.join(PATIENCE_S)
        return self.answer


class TestRunning:
    def test_cancelled(self, serve, engine, stream):
        """A stream ends with its last event, a whole answer is a 499."""
        app, held = serve(), Held(engine)
        asked = Asked(app.test_client(), stream)
        assert held.began.wait(PATIENCE_S)
        name = f"resp_{held.id}"
        told = app.test_client().post(f"/v1/responses/{name}/cancel").json
        answer = asked.join()
        assert held.cancelled and told == {"id": name, "object": "response", "status": "cancelled"}
        if stream:
            made = response_of(answer)
            assert made["status"] == "completed" and made["output"][0]["content"][0]["text"] == "Hel"
        else:
            assert answer.status_code == 499

    def test_what_has_ended_is_not_cancelled(self, client, engine):
        """Its object is the answer."""
        made = post(client).json
        assert client.post(f"/v1/responses/{made['id']}/cancel").json == made

    def test_nodes_behind_an_answer_run_on(self, serve, engine):
        """Whoever deletes what is told and kept does not stop them."""
        began, free, over, cancelled = threading.Event(), threading.Event(), threading.Event(), []

        def run(call):
            yield [chunk("Hello.", "stop")]
            began.set()
            free.wait(PATIENCE_S)
            cancelled.append(cancellation_service.is_cancelled(call.request.request_id))
            over.set()

        engine.answer, client = run, serve().test_client()
        name = post(client).json["id"]
        assert began.wait(PATIENCE_S)
        assert client.post(f"/v1/responses/{name}/cancel").json["status"] == "completed"
        assert [client.delete(f"/v1/responses/{name}").status_code for _ in range(2)] == [200, 404]
        free.set()
        assert over.wait(PATIENCE_S) and cancelled == [False]

    @pytest.mark.parametrize("name", ["resp_{}", "{}"])
    def test_deleted(self, serve, engine, stream, name):
        """It is cancelled, and not kept when it ends."""
        app, held = serve(), Held(engine)
        asked = Asked(app.test_client(), stream)
        assert held.began.wait(PATIENCE_S)
        client, path = app.test_client(), f"/v1/responses/{name.format(held.id)}"
        assert client.delete(path).json["deleted"] is True
        asked.join()
        assert held.cancelled and client.get(f"/v1/responses/resp_{held.id}").status_code == 404

    @pytest.mark.parametrize("path", ["/v1/chat/completions/resp_{}", "/api/chat?request_id=resp_{}"])
    def test_cancelled_by_another_front_end(self, serve, engine, stream, path):
        """By its id as this protocol writes it."""
        app, held = serve(), Held(engine)
        asked = Asked(app.test_client(), stream)
        assert held.began.wait(PATIENCE_S)
        assert app.test_client().delete(path.format(held.id)).json["status"] == "cancelled"
        asked.join()
        assert held.cancelled

    def test_a_hang_up_stops_it(self, serve, engine, stream):
        """And nothing is kept."""
        app, held, gone = serve(), Held(engine), threading.Event()
        asked = Asked(
            app.test_client(), stream, environ_overrides={"waitress.client_disconnected": gone.is_set}
        )
        assert held.began.wait(PATIENCE_S)
        gone.set()
        asked.join()
        assert held.cancelled

    def test_the_gate(self, serve, engine, facts):
        """Generation waits for its turn; what only looks, counts or cancels does not."""
        facts(concurrency=1, concurrency_level="request", concurrency_timeout_s=0.05)
        app, held = serve(), Held(engine)
        asked, client = Asked(app.test_client(), False), app.test_client()
        assert held.began.wait(PATIENCE_S)
        busy = post(client)
        assert (busy.status_code, busy.json["error"]["code"]) == (503, 503)
        assert client.post("/v1/responses/input_tokens", json=BODY).status_code == 200
        assert client.get("/v1/responses/resp_x").status_code == 404
        assert client.post(f"/v1/responses/resp_{held.id}/cancel").status_code == 200
        asked.join()


class TestOfficialClient:
    def test_a_long_silence(self, serve, engine, monkeypatch):
        """Signs of life that are events come until the first item, and the client puts the answer together."""
        monkeypatch.setattr(answering, "HEARTBEAT_S", 0.01)
        monkeypatch.setattr(responses, "IN_PROGRESS_S", 0.02)
        free = threading.Event()

        def run(call):
            free.wait(PATIENCE_S)
            yield [chunk("At "), chunk("last")]
            yield [chunk("", "stop")]

        engine.answer = run
        http = httpx2.Client(transport=httpx2.WSGITransport(app=serve()))
        with (
            openai.OpenAI(base_url="http://localhost/v1", api_key="k", http_client=http) as sdk,
            sdk.responses.stream(model="mira", input="Hi") as stream,
        ):
            seen = []
            for event in stream:
                seen.append(event.type)
                if seen.count("response.in_progress") == 3:
                    free.set()
            assert stream.get_final_response().output_text == "At last"
        assert seen.index("response.output_item.added") > 3
        assert "response.in_progress" not in seen[seen.index("response.output_item.added") :]


class TestInputTokens:
    @pytest.mark.parametrize("path", ["/v1/responses/input_tokens", "/responses/input_tokens"])
    def test_an_estimate(self, client, engine, path):
        """Of instructions, input and tools; nothing runs."""

        def count(**more):
            answer = client.post(path, json={"model": "mira", "input": "Hello world", **more}).json
            assert answer["object"] == "response.input_tokens"
            return answer["input_tokens"]

        assert (count(), count(instructions="Hello world")) == (11, 22)
        assert count(tools=[TOOL]) > 11 == count(tools=[{"type": "web_search"}])
        assert engine.calls == []

    def test_a_history_counts(self, client, engine):
        """It is part of the question."""
        body = {**BODY, "previous_response_id": post(client).json["id"]}
        alone = client.post("/v1/responses/input_tokens", json=BODY).json["input_tokens"]
        assert client.post("/v1/responses/input_tokens", json=body).json["input_tokens"] > 2 * alone

    def test_its_checks(self, client):
        """Those of a request."""
        assert client.post("/v1/responses/input_tokens", json={}).json["error"]["param"] == "input"
        assert client.post("/v1/responses/input_tokens", data="{").status_code == 400


odd = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=4),
                   lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["role", "content", "type", "output", "arguments", "call_id", "name", "function", "tools", "mode", "id", "effort", "format", "text"]), inner, max_size=4),
                   max_leaves=8)  # fmt: skip
item = st.fixed_dictionaries(
    {"type": st.sampled_from(["message", "function_call", "custom_tool_call", "function_call_output", "reasoning", "x"])},
    optional={name: odd | st.just("user") for name in ("role", "content", "output", "arguments", "call_id", "name", "input", "id")},
)  # fmt: skip
FIELDS = ["model", "instructions", "previous_response_id", "store", "tools", "tool_choice", "reasoning", "background", "conversation", "prompt", "text", "max_output_tokens", "temperature", "top_p", "truncation", "parallel_tool_calls", "metadata", "prompt_cache_key", "safety_identifier", "user", "max_tool_calls", "include", "stream_options", "service_tier", "stream"]  # fmt: skip


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    path=st.sampled_from(
        ["/v1/responses", "/responses", "/v1/responses/input_tokens", "/v1/responses/resp_x/cancel"]
    ),
    body=st.dictionaries(st.sampled_from(FIELDS), odd),
    given_input=st.lists(item, max_size=4) | odd,
)
def test_any_field_of_any_type_is_never_a_500(client, path, body, given_input):
    """An answer that the protocol knows, or OpenAI's error; all of it JSON."""

    def strict(constant):
        raise AssertionError(f"{constant} is no JSON")

    answer = client.post(path, data=json.dumps({**body, "input": given_input}), buffered=True)
    assert answer.status_code in (200, 400, 404)
    if answer.mimetype == "text/event-stream":
        assert (
            answer.text.startswith("event: response.created\n")
            and events(answer)[-1]["type"] == "response.completed"
        )
        told = [block.partition("\ndata: ")[2] for block in answer.text.split("\n\n")[:-1]]
    else:
        told = [answer.text]
        assert (
            answer.json.get("object") in ("response", "response.input_tokens")
            or "message" in answer.json["error"]
        )
    for one in told:
        json.loads(one, parse_constant=strict)
