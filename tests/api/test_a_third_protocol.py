"""A client protocol that nobody knows: one file of facts and routes, and the whole house serves it.

The protocol stands in this file alone. Gate, cancellation, idempotency, hang-up and errors know it at once.
"""

from __future__ import annotations

import json
import threading
from dataclasses import replace

import pytest

from Middleware.api.api_server import ApiServer
from Middleware.api.app import _App
from Middleware.api.handlers import impl  # noqa: F401
from Middleware.api.handlers.base.base_api_handler import BaseApiHandler, GenerationView
from Middleware.api.handlers.front_ends import FRONT_ENDS
from Middleware.api.wsgi.doors import generation_routes
from Middleware.common.errors import BackendError, ClientRequestError
from Middleware.common.request_context import ClientQuestion, Wish
from Middleware.protocols.base import PROTOCOLS, ClientProtocol, Framer, WireFormat
from Middleware.services.answers import step_line
from Middleware.services.cancellation_service import cancellation_service
from tests.patience import PATIENCE_S


class TeletypeFramer(Framer):
    """`+text`, `.reason`, `!sentence`: one line each."""

    def text_unit(self, text):
        return f"+{text}\n"

    def thinking_unit(self, thinking):
        return ""

    def _tool_call_units(self, calls):
        return []

    def finish_units(self, finish_reason):
        return [f".{finish_reason}\n"]

    def heartbeat(self):
        return "~\n"

    def end(self):
        return []

    def error(self, reply):
        return [f"!{reply.status} {reply.message}\n"]


class TellingFramer(TeletypeFramer):
    """`#line`: a node starts. The end says what the workflow took."""

    def progress_units(self, steps):
        return [f"#{step_line(step)}\n" for step in steps]

    def finish_units(self, finish_reason):
        usage = self.facts.workflow_usage()
        return [f".{finish_reason} {usage['completion_tokens']} tokens\n"]


def told(call):
    """A run of two nodes that says so if it is asked to, and whose calls took 12 tokens."""
    call.request.usage.add({"prompt_tokens": 3, "completion_tokens": 12})
    if call.request.progress != "off":
        yield [{"token": "", "finish_reason": None, "progress": STEP}]
    yield [{"token": "Hello.", "finish_reason": None}]
    yield [{"token": "", "finish_reason": "stop"}]


STEP = {"number": 1, "of": 2, "title": "Recall", "depth": 0}
TELETYPE = ClientProtocol(
    "teletype",
    lambda reply: {"fault": {"number": reply.status, "says": reply.message}},
    {
        "teletype": WireFormat(
            TeletypeFramer,
            lambda answer, facts: {"typed": answer.text, "id": f"tt-{facts.request_id}"},
            lambda text: f"{text}\n",
            "text/x-teletype",
        )
    },
    roots=("/tt",),
    id_prefixes=("tt-",),
    unsupported=("/tt/bell",),
    answer_headers=lambda request_id: {"X-Typed-By": request_id},
)


class TypeAPI(GenerationView):
    api_type = "teletype"

    def read_question(self, body, user):
        if not isinstance(body.get("key"), str):
            raise ClientRequestError("'key' must be a string", param="key")
        return ClientQuestion([{"role": "user", "content": body["key"]}])


@pytest.fixture
def house(monkeypatch, configs, engine, facts):
    """The application with the third protocol beside the others; a gate of one slot."""
    monkeypatch.setattr(PROTOCOLS, "_table", {**PROTOCOLS._table})
    monkeypatch.setattr(FRONT_ENDS, "_table", {**FRONT_ENDS._table})
    for api_type, wire in TELETYPE.formats.items():
        monkeypatch.setitem(PROTOCOLS.formats, api_type, wire)
    PROTOCOLS._table[TELETYPE.name] = TELETYPE

    @FRONT_ENDS.register("teletype")
    class TeletypeApiHandler(BaseApiHandler):
        protocol = TELETYPE
        routes = generation_routes(TypeAPI, "/tt/type")

    facts(concurrency=1, concurrency_level="request", concurrency_timeout_s=0.05)
    app = _App("third", static_folder=None)
    app.door = ApiServer(app).door
    return app


class Held:
    """A run that waits: `began` is set when it is asked, it goes on when `free` is set."""

    def __init__(self, engine):
        self.began, self.free, self.cancelled, self.id = threading.Event(), threading.Event(), False, None
        engine.answer = self

    def __call__(self, call):
        self.id = call.request.request_id
        self.began.set()
        while not self.free.wait(0.005):
            if cancellation_service.is_cancelled(self.id):
                self.cancelled = True
                return
        yield [{"token": "late", "finish_reason": None}]
        yield [{"token": "", "finish_reason": "stop"}]


def ask(app, stream=False, **more):
    return app.test_client().post("/tt/type", json={"key": "Hi", "stream": stream}, **more)


def in_background(task):
    thread = threading.Thread(target=task, daemon=True)
    thread.start()
    return thread


class TestAnswers:
    def test_whole_and_streamed(self, house):
        """In its own bodies, units and media type, with its header."""
        with ask(house) as whole:
            assert whole.json == {"typed": "Hello.", "id": f"tt-{whole.headers['X-Request-Id']}"}
            assert whole.headers["X-Typed-By"] == whole.headers["X-Request-Id"]
        streamed = ask(house, stream=True)
        assert streamed.text == "+Hel\n+lo.\n.stop\n" and streamed.mimetype == "text/x-teletype"

    def test_it_shows_no_nodes_and_wishes_nothing_unless_it_says_so(self, house, configs, engine):
        """Whatever the user's settings and the bodies of its clients hold."""
        configs("Users/mira.json", {"customWorkflowOverride": True, "progressOutput": "reasoning"})
        engine.answer = told
        body = {"key": "Hi", "stream": True, "max_tokens": 5}
        text = house.test_client().post("/tt/type", json=body).text
        assert text == "+Hello.\n.stop\n"
        assert (engine.last.request.progress, dict(engine.last.wishes)) == ("off", {})

    def test_a_protocol_that_says_so(self, house, configs, engine, monkeypatch):
        """How it shows them and where its clients say what they want: both in its own files."""
        configs("Users/mira.json", {"customWorkflowOverride": True, "progressOutput": "status"})
        wire = replace(TELETYPE.formats["teletype"], framer=TellingFramer, shows_progress=("status",))
        monkeypatch.setitem(PROTOCOLS.formats, "teletype", wire)
        monkeypatch.setattr(TypeAPI, "wish_fields", {"max_tokens": ("tape.length",)})
        engine.answer = told
        body = {"key": "Hi", "stream": True, "tape": {"length": 5}}
        text = house.test_client().post("/tt/type", json=body).text
        assert text == "#[1/2] Recall\n+Hello.\n.stop 12 tokens\n"
        assert engine.last.wishes == {"max_tokens": Wish(5, "tape.length")}


class TestErrors:
    @pytest.mark.parametrize(
        ("send", "status", "says"),
        [
            (lambda c: c.post("/tt/type", json={"key": 1}), 400, "'key' must be a string"),
            (lambda c: c.post("/tt/type", data="{"), 400, "the body is not JSON"),
            (lambda c: c.get("/tt/none"), 404, "no such route: GET /tt/none"),
            (lambda c: c.post("/tt/bell/1"), 404, "not supported by this server: POST /tt/bell/1"),
            (lambda c: c.get("/tt/type"), 405, "method not allowed: GET /tt/type"),
            (lambda c: c.get("/tt/type", headers={"Host": "evil.example"}), 403, "host 'evil.example'"),
        ],
        ids=["field", "json", "no-route", "unsupported", "method", "host"],
    )
    def test_in_its_own_shape(self, house, send, status, says):
        """Whichever layer refuses."""
        answer = send(house.test_client())
        assert answer.status_code == status
        assert answer.json["fault"]["number"] == status and answer.json["fault"]["says"].startswith(says)

    @pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
    def test_a_bug_is_a_500(self, house, engine, stream):
        """Before anything was sent."""
        engine.answer = lambda call: 1 / 0
        answer = ask(house, stream)
        assert answer.status_code == 500 and answer.json["fault"]["number"] == 500

    def test_a_failure_in_mid_stream(self, house, engine):
        """Ends the stream in its own way."""

        def breaking(call):
            yield [{"token": "Hel", "finish_reason": None}]
            raise BackendError("Big", "timeout", "no answer within 5 s")

        engine.answer = breaking
        first, last = ask(house, stream=True).text.splitlines()
        assert first == "+Hel" and last.startswith("!504 endpoint 'Big': no answer within 5 s")


class TestItsPlaceInTheHouse:
    def test_it_is_gated(self, house, engine):
        """The second request finds no slot in time; the first keeps its own."""
        held = Held(engine)
        first = in_background(lambda: ask(house))
        assert held.began.wait(PATIENCE_S)
        busy = ask(house)
        held.free.set()
        first.join(PATIENCE_S)
        assert busy.status_code == 503 and busy.json["fault"]["number"] == 503
        assert busy.headers["Retry-After"] == "5"

    @pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
    def test_a_hang_up_stops_it(self, house, engine, stream):
        """The server's own word that the client has gone is asked."""
        held, gone = Held(engine), threading.Event()
        environ = {"waitress.client_disconnected": gone.is_set}
        request = in_background(lambda: ask(house, stream, environ_overrides=environ))
        assert held.began.wait(PATIENCE_S)
        gone.set()
        request.join(PATIENCE_S)
        assert held.cancelled

    @pytest.mark.parametrize(
        "delete",
        [
            lambda client, id: client.delete(f"/tt/type/tt-{id}"),
            lambda client, id: client.delete("/tt/type", json={"request_id": f"tt-{id}"}),
            lambda client, id: client.delete(f"/v1/chat/completions/tt-{id}"),
        ],
        ids=["path", "body", "another-front-end"],
    )
    def test_delete_stops_it(self, house, engine, delete):
        """By its id as the protocol writes it, at its own route and at any other."""
        held = Held(engine)
        request = in_background(lambda: ask(house))
        assert held.began.wait(PATIENCE_S)
        answer = delete(house.test_client(), held.id)
        request.join(PATIENCE_S)
        assert held.cancelled and json.loads(answer.data) == {"status": "cancelled", "request_id": held.id}

    def test_a_repeated_key_replaces_the_first(self, house, engine, facts):
        """Idempotency needs nothing of the protocol."""
        facts(concurrency=0)
        app = _App("third-open", static_folder=None)
        ApiServer(app)
        held = Held(engine)
        key = {"Idempotency-Key": "k1"}
        first = in_background(lambda: ask(app, headers=key))
        assert held.began.wait(PATIENCE_S)
        engine.answer = [[{"token": "new", "finish_reason": "stop"}]]
        assert ask(app, headers=key).json["typed"] == "new"
        first.join(PATIENCE_S)
        assert held.cancelled
