"""The gate in front of the application (frontend-api.md 15)."""

from __future__ import annotations

import json
import threading
from io import BytesIO
from typing import ClassVar

import pytest
from flask.views import MethodView

from Middleware.api.concurrency_middleware import (
    ConcurrencyLimitMiddleware,
    is_background,
    machine_asked,
    name_waiting,
)
from Middleware.api.handlers import impl  # noqa: F401
from Middleware.api.handlers.front_ends import all_doors
from Middleware.api.requests.chat_messages import newest_text
from Middleware.api.requests.request_life import LIFE, RequestLife
from Middleware.api.wsgi.doors import Doors, Generation, WaitingRequest, routes_to
from Middleware.api.wsgi.model_addresses import MODEL_OF_ADDRESS
from Middleware.common.errors import ClientRequestError, NotFound
from Middleware.common.request_context import RequestContext
from Middleware.protocols.base import PLAIN
from Middleware.services.cancellation_service import cancellation_service
from Middleware.services.fair_gate import FairGate
from Middleware.services.run_trace import Observers
from Middleware.services.shared_state.turns import Ask
from tests.patience import PATIENCE_S, wait_until

CHAT = {"REQUEST_METHOD": "POST", "PATH_INFO": "/v1/chat/completions"}


class Answer:
    """What the server was told."""

    def start(self, status, headers, exc_info=None):
        self.status, self.headers = status, dict(headers)


def app(environ, start_response):
    start_response("200 OK", [])
    return [b"body"]


@pytest.fixture
def answer():
    return Answer()


@pytest.mark.parametrize("environ", [{"PATH_INFO": "/completions"}, {}], ids=["no-method", "no-path"])
def test_what_is_not_said_is_gated(environ, answer):
    """A request without a method counts as POST, one without a path as gated."""
    gate = FairGate(1)
    gate.acquire()
    ConcurrencyLimitMiddleware(app, gate, acquire_timeout=0.01)(environ, answer.start)
    assert answer.status.startswith("503 ")


@pytest.mark.parametrize("semaphore", [threading.BoundedSemaphore(1), FairGate(1)], ids=["threading", "fair"])
class TestSlots:
    def test_the_slot_is_held_until_the_body_is_closed(self, semaphore, answer):
        """Not only until the application returned."""
        gate = ConcurrencyLimitMiddleware(app, semaphore)
        body = gate(dict(CHAT), answer.start)
        assert list(body) == [b"body"]
        assert not semaphore.acquire(blocking=False)
        body.close()
        assert semaphore.acquire(blocking=False)
        semaphore.release()

    def test_a_failing_application_frees_the_slot(self, semaphore, answer):
        """Exactly once."""

        def failing(environ, start_response):
            raise OSError("no")

        with pytest.raises(OSError, match="no"):
            ConcurrencyLimitMiddleware(failing, semaphore)(dict(CHAT), answer.start)
        assert semaphore.acquire(blocking=False)
        semaphore.release()

    def test_other_requests_pass(self, semaphore, answer):
        """Also while the slot is taken."""
        with_slot = semaphore.acquire(blocking=False)
        environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/v1/models"}
        assert with_slot and ConcurrencyLimitMiddleware(app, semaphore)(environ, answer.start) == [b"body"]
        semaphore.release()

    def test_no_slot_in_time_is_503(self, semaphore, answer):
        """In the protocol of the path, with a time to come back."""
        semaphore.acquire()
        gate = ConcurrencyLimitMiddleware(app, semaphore, acquire_timeout=0.01)
        [body] = gate({**CHAT, LIFE: RequestLife("R")}, answer.start)
        semaphore.release()
        assert answer.status.startswith("503 ") and answer.headers["Retry-After"] == "5"
        assert json.loads(body)["error"] == {
            "message": "server is busy: no free slot within 0.01 s (request R)",
            "type": "server_error",
            "param": None,
            "code": 503,
        }

    def test_work_that_goes_on_keeps_the_slot(self, semaphore, answer):
        """Whoever holds the request's life holds its slot."""
        life = RequestLife("R")
        life.hold()
        gate = ConcurrencyLimitMiddleware(app, semaphore)
        gate({**CHAT, LIFE: life}, answer.start)
        life.release()
        assert not semaphore.acquire(blocking=False)
        life.release()
        assert semaphore.acquire(blocking=False)
        semaphore.release()


def test_a_request_that_is_cancelled_while_it_waits(answer):
    """499 in the protocol of the path; the queue is empty."""
    gate = FairGate(1)
    gate.acquire()
    cancellation_service.begin("waiting")
    threading.Timer(0.02, cancellation_service.request_cancellation, ("waiting",)).start()
    middleware = ConcurrencyLimitMiddleware(app, gate, acquire_timeout=30)
    [body] = middleware(
        {"REQUEST_METHOD": "POST", "PATH_INFO": "/api/chat", LIFE: RequestLife("waiting")}, answer.start
    )
    cancellation_service.acknowledge_cancellation("waiting")
    assert answer.status == "499 Client Closed Request" and gate.waiting == 0
    assert json.loads(body) == {"error": "request was cancelled (request waiting)"}


def test_a_full_queue_is_503(answer):
    """At once."""
    gate = FairGate(1, max_waiting=1)
    gate.acquire()
    waiter = threading.Thread(target=gate.acquire, kwargs={"timeout": 5})
    waiter.start()
    while not gate.waiting:
        waiter.join(0.001)
    ConcurrencyLimitMiddleware(app, gate)({**CHAT, LIFE: RequestLife("R")}, answer.start)
    gate.release()
    waiter.join(PATIENCE_S)
    assert answer.status.startswith("503 ")


TASK = "### Task:\nGenerate a title.\n<chat_history>\nUSER: hi\n</chat_history>"


EMOJI = "Your task is to reflect the speaker's likely facial expression through a fitting emoji. Interpret"


def posted(path, text=TASK, more=None, header=None):
    """The environment of a POST with one message."""
    body = json.dumps({"messages": [{"role": "user", "content": text}], **(more or {})}).encode()
    environ = {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": path,
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.input": BytesIO(body),
    }
    return environ if header is None else {**environ, "HTTP_X_OPENWEBUI_TASK": header}


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        (posted("/v1/chat/completions"), True),
        (posted("/chat/completions", more={"stream": False}), True),
        (posted("/v1/chat/completions", more={"stream": True}), False),
        (posted("/api/chat"), False),
        (posted("/api/chat", more={"stream": False}), True),
        (posted("/v1/completions"), False),
        (posted("/v1/chat/completions", EMOJI), True),
        (posted("/v1/chat/completions", f"He said: {EMOJI}"), False),
        (posted("/v1/chat/completions", "hi"), False),
        (posted("/v1/chat/completions", "what is ### Task: and <chat_history>?"), False),
        (posted("/v1/chat/completions", "hi", header="title_generation"), True),
        (posted("/v1/chat/completions", "hi", header=" "), False),
        ({**posted("/v1/chat/completions"), "CONTENT_LENGTH": "70"}, False),
        ({"PATH_INFO": "/api/chat"}, False),
    ],
)
def test_what_stands_behind_people(environ, expected):
    """Open WebUI's own requests, by their header or their shape; a body that is broken is nobody's."""
    environ.setdefault("wsgi.input", BytesIO())
    assert is_background(environ, all_doors()) is expected


def test_a_title_waits_for_the_chat(answer):
    """It came first, the slot was free, and still the chat is served first; its body reaches the view."""
    served = []

    def view(environ, start_response):
        served.append((environ["PATH_INFO"], len(environ["wsgi.input"].read())))
        return app(environ, start_response)

    gate = FairGate(1, settle_s=0.2)
    middleware = ConcurrencyLimitMiddleware(view, gate)
    title = posted("/v1/chat/completions")
    thread = threading.Thread(target=lambda: middleware(title, Answer().start).close())
    thread.start()
    middleware(posted("/api/chat", "hi"), answer.start).close()
    thread.join(PATIENCE_S)
    assert [path for path, _ in served] == ["/api/chat", "/v1/chat/completions"]
    assert served[1][1] == int(title["CONTENT_LENGTH"])


class Asks(MethodView, Generation):
    """Says which model of the machine a body will need."""

    methods: ClassVar = ["POST"]

    def machine_asked(self, body, *, is_task):
        if body["model"] == "nobody":
            raise NotFound("there is no such model", param="model")
        if body["model"] == "":
            raise ClientRequestError("no model")
        return Ask("desk", body["model"])

    def waiting(self, body, request_id, headers):
        if body["model"] == "":
            raise ClientRequestError("no model")
        request = RequestContext(request_id, body["model"], "openaichatcompletion")
        return WaitingRequest(request, "OpenAI chat", False, newest_text(body))


class KeepsText:
    """An observer of texts."""

    keeps_text = True

    def note_change(self, run, what, node):
        """It only looks."""


def asking(body):
    """A request with this body."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": "/ask",
        "CONTENT_LENGTH": str(len(data)),
        "wsgi.input": BytesIO(data),
    }


class SlowBody(BytesIO):
    """A body of which nothing comes until it is told to."""

    def __init__(self, data):
        super().__init__(data)
        self.asked, self.sent = threading.Event(), threading.Event()

    def readinto(self, buffer):
        self.asked.set()
        assert self.sent.wait(PATIENCE_S)
        return super().readinto(buffer)


@pytest.mark.parametrize("header", [None, "title_generation"], ids=["chat", "marked-task"])
def test_the_line_is_in_the_order_in_which_bodies_have_ended(header):
    """Who sends slowly came first, and neither stands in the line nor holds a slot until it has sent."""
    gate, served = FairGate(1, settle_s=0.0, patience_s=0.0), []
    gate.acquire()

    def view(environ, start_response):
        served.append(environ["PATH_INFO"])
        return app(environ, start_response)

    def ask(environ):
        thread = threading.Thread(
            target=lambda: ConcurrencyLimitMiddleware(view, gate)(environ, Answer().start).close()
        )
        thread.start()
        return thread

    slow = posted("/v1/chat/completions", "hi", header=header)
    slow["wsgi.input"] = body = SlowBody(slow["wsgi.input"].getvalue())
    threads = [ask(slow)]
    assert body.asked.wait(PATIENCE_S)
    threads.append(ask(posted("/api/chat", "hi")))
    wait_until(lambda: gate.waiting == 1)
    body.sent.set()
    wait_until(lambda: gate.waiting == 2)
    gate.release()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert served == ["/api/chat", "/v1/chat/completions"]


class TestWhoWaits:
    """A request that finds no slot is read before it queues, for its name (workbench.md 12)."""

    DOORS = Doors([(PLAIN, routes_to(Asks, "/ask"))])

    def trace(self):
        observers = Observers()
        observers.observe(KeepsText())
        return observers.begin("R", "/ask")

    def test_its_row_has_its_name_and_its_words(self, answer):
        """As long as it waits; the body stays there to be read."""
        gate, life = FairGate(1), RequestLife("R")
        gate.acquire()
        life.trace = self.trace()
        environ = {**asking({"model": "ana", "messages": [{"role": "user", "content": "Hello"}]}), LIFE: life}
        middleware = ConcurrencyLimitMiddleware(app, gate, PATIENCE_S, self.DOORS)
        thread = threading.Thread(target=lambda: middleware(environ, answer.start), daemon=True)
        thread.start()
        wait_until(lambda: life.trace.user)
        assert (life.trace.user, life.trace.said, life.trace.state) == ("ana", "Hello", "waiting")
        gate.release()
        thread.join(PATIENCE_S)
        assert life.trace.state == "running"
        assert json.loads(environ["wsgi.input"].read())["model"] == "ana"

    def test_one_that_finds_a_slot_is_not_read(self, answer):
        """It costs nothing."""
        life = RequestLife("R")
        life.trace = self.trace()
        middleware = ConcurrencyLimitMiddleware(app, FairGate(1), PATIENCE_S, self.DOORS)
        middleware({**asking({"model": "ana"}), LIFE: life}, answer.start)
        assert (life.trace.user, life.trace.state) == ("", "running")

    @pytest.mark.parametrize("body", [{"model": ""}, b"no JSON"], ids=["no-model", "no-json"])
    def test_what_cannot_be_told_is_not(self, body):
        trace = self.trace()
        name_waiting(trace, asking(body), self.DOORS)
        assert trace.user == ""


class TestModelsOfAMachine:
    """Who waits is looked at for the model that it will need first (prompt-reuse.md 7.1)."""

    DOORS = Doors([(PLAIN, routes_to(Asks, "/ask"))])

    @pytest.mark.parametrize(
        ("body", "asked"),
        [
            ({"model": "a"}, Ask("desk", "a")),
            ({"model": ""}, None),
            (b"no JSON", None),
            (b"[]", None),
        ],
        ids=["known", "no-model", "no-json", "no-object"],
    )
    def test_what_a_body_says(self, body, asked):
        """The body stays there to be read; what is wrong with it is said when it has its turn."""
        environ = asking(body)
        assert machine_asked(environ, self.DOORS, is_task=False) == asked
        assert environ["wsgi.input"].read() == (
            body if isinstance(body, bytes) else json.dumps(body).encode()
        )

    def test_the_model_of_the_address_counts_first(self):
        """Whatever the body says (operate.md 4)."""
        environ = asking({"model": "a"}) | {MODEL_OF_ADDRESS: "b"}
        assert machine_asked(environ, self.DOORS, is_task=False) == Ask("desk", "b")

    def test_another_route_says_nothing(self):
        assert machine_asked({**asking({}), "PATH_INFO": "/other"}, self.DOORS, is_task=False) is None

    def test_a_name_that_is_not_there_is_refused_at_once(self, answer):
        """Not after its wait; the queue is empty."""
        gate = FairGate(1)
        gate.acquire()
        middleware = ConcurrencyLimitMiddleware(app, gate, PATIENCE_S, self.DOORS)
        [body] = middleware({**asking({"model": "nobody"}), LIFE: RequestLife("R")}, answer.start)
        assert answer.status.startswith("404 ") and b"there is no such model" in body
        assert gate.waiting == 0 and gate.held_slots == 1

    def test_the_model_that_was_asked_last_goes_first(self, answer):
        """Among those that wait; who found a slot was not looked at."""
        gate, served = FairGate(1), []
        gate.acquire()

        def run(environ, start_response):
            served.append(json.loads(environ["wsgi.input"].read())["model"])
            return app(environ, start_response)

        middleware = ConcurrencyLimitMiddleware(run, gate, PATIENCE_S, self.DOORS)
        threads = []
        for count, model in enumerate("abab", 1):
            environ = asking({"model": model})
            threads.append(
                threading.Thread(target=lambda e=environ: middleware(e, Answer().start).close(), daemon=True)
            )
            threads[-1].start()
            wait_until(lambda count=count: gate.waiting == count == len(gate._asks))
        gate.release()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert "".join(served) == "aabb"
