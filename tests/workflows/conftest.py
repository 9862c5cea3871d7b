"""A house of workflows for tests: config files in a temporary folder, and a model that answers by script."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from requests.adapters import HTTPAdapter

from Middleware.common.errors import BackendError
from Middleware.common.instance_global_variables import LaunchFacts, launch_facts, set_launch_facts
from Middleware.common.request_context import ClientQuestion, RequestContext
from Middleware.common.types import Batch, Batches
from Middleware.config.loader import ConfigTree
from Middleware.config.users import load_user
from Middleware.llmapis.handlers.backends import BACKENDS
from Middleware.llmapis.handlers.base.base_llm_api_handler import LlmApiHandler
from Middleware.llmapis.llm_text import LlmText
from Middleware.llmapis.wire import connections
from Middleware.services.answers import AnswerCollector, WholeAnswer
from Middleware.services.cancellation_service import cancellation_service
from Middleware.workflows.managers.categorization import open_answer_run
from Middleware.workflows.managers.workflow_manager import WorkflowManager, process_services

FLAT_TEMPLATE = {
    f"promptTemplate{role}{end}": f"<{role.lower()}>" if end == "Prefix" else f"</{role.lower()}>"
    for role in ("System", "User", "Assistant")
    for end in ("Prefix", "Suffix")
}


@dataclass
class ScriptedModel:
    """`replies`: what each call answers, in order; the last one stays. A reply: text, dict, batches, error, or a function.

    `calls`: what was asked, one `CallArguments` a call; `settings`: of the handler that was asked. `closed`: how many
    streams were closed before their end; they are kept in `held`, so that no garbage collector closes them.
    """

    replies: list[Any] = field(default_factory=lambda: ["hello"])
    calls: list[Any] = field(default_factory=list)
    settings: list[Any] = field(default_factory=list)
    closed: int = 0
    held: list[Any] = field(default_factory=list)

    def reply(self, call: Any) -> Any:
        self.calls.append(call)
        reply = self.replies[min(len(self.calls), len(self.replies)) - 1]
        return reply(call) if callable(reply) else reply

    def whole(self, call: Any) -> Any:
        reply = self.reply(call)
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, list):
            chunks = [chunk for batch in reply for chunk in batch]
            return LlmText("".join(chunk["token"] for chunk in chunks), finish_reason="stop")
        return reply

    def stream(self, call: Any) -> Batches:
        reply = self.reply(call)
        if isinstance(reply, Exception):
            raise reply
        self.held.append(self._pulled(self._batches(reply)))
        return self.held[-1]

    def _batches(self, reply: Any) -> list[Any]:
        if isinstance(reply, list):
            return reply
        if isinstance(reply, dict):
            calls = [{**call, "index": i} for i, call in enumerate(reply["tool_calls"])]
            first = {"token": reply["content"], "finish_reason": None, "tool_calls": calls}
            if thinking := reply.get("thinking"):
                first["thinking"] = thinking
            facts = {name: reply[name] for name in ("usage", "beside", "cut_calls") if name in reply}
            return [
                [first],
                [{"token": "", "finish_reason": reply.get("finish_reason") or "tool_calls", **facts}],
            ]
        pieces = [[{"token": piece, "finish_reason": None}] for piece in (reply[:2], reply[2:])]
        thinking = getattr(reply, "thinking", "")
        head = [[{"token": "", "finish_reason": None, "thinking": thinking}]] if thinking else []
        end = {"token": "", "finish_reason": getattr(reply, "finish_reason", None) or "stop"}
        if usage := getattr(reply, "usage", None):
            end["usage"] = usage
        return [*head, *pieces, [], [end]]

    def _pulled(self, batches: list[Any]) -> Iterator[Batch]:
        try:
            for batch in batches:
                if isinstance(batch, Exception):
                    raise batch
                yield batch
        except GeneratorExit:
            self.closed += 1
            raise


class House:
    """One user, `ana`, with endpoints `chat` and `flat` that speak to `model`."""

    def __init__(self, root: Path, model: ScriptedModel) -> None:
        self.root, self.model = root / "Configs", model
        self.user: dict[str, Any] = {"chatPromptTemplateName": "marks", "customWorkflowOverride": True}
        self.request: dict[str, Any] = {}
        for kind in ("Chat", "Flat"):
            self.write(f"ApiTypes/{kind}", {"type": f"scripted{kind}", "presetType": "any"})
        self.write("PromptTemplates/marks", FLAT_TEMPLATE)
        self.endpoint("chat", apiTypeConfigFileName="Chat")
        self.endpoint("flat", apiTypeConfigFileName="Flat")

    def write(self, name: str, document: Any) -> None:
        path = self.root / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document), "utf-8")

    def endpoint(self, name: str, **fields: Any) -> None:
        base = {"endpoint": "http://model.test", "apiTypeConfigFileName": "Chat"}
        self.write(f"Endpoints/{name}", {**base, **fields})

    def workflow(self, name: str, *nodes: Any, folder: str = "ana", **variables: Any) -> None:
        self.write(f"Workflows/{folder}/{name}", {"nodes": list(nodes), **variables})

    def manager(self) -> WorkflowManager:
        self.write("Users/ana", self.user)
        snapshot = ConfigTree(self.root).snapshot()
        facts = {"request_id": "r1", "user": "ana", "api_type": "openaichatcompletion"}
        request = RequestContext(snapshot=snapshot, **{**facts, **self.request})
        return WorkflowManager(load_user(snapshot, "ana"), request)

    def open(self, name: str = "Main", *, stream: bool = False, say: Any = "hi", **more: Any) -> Batches:
        messages = [{"role": "user", "content": say}] if isinstance(say, str) else say
        return self.manager().open_run(name, ClientQuestion(messages, stream, **more))

    def ask(
        self, *nodes: Any, stream: bool = False, say: Any = "hi", name: str = "Main", **more: Any
    ) -> WholeAnswer:
        """The answer of a workflow of these nodes (none: of workflow `name` as it is), the run used up."""
        if nodes:
            self.workflow(name, *nodes)
        return collect(self.open(name, stream=stream, say=say, **more))

    def route(self, *, stream: bool = False, say: str = "hi") -> WholeAnswer:
        return collect(
            open_answer_run(self.manager(), ClientQuestion([{"role": "user", "content": say}], stream))
        )


def collect(batches: Batches) -> WholeAnswer:
    """The answer of a run, used up to its end; exactly one chunk has a finish reason."""
    collector = AnswerCollector()
    finishes = 0
    for batch in batches:
        finishes += sum(chunk["finish_reason"] is not None for chunk in batch)
        if not collector.state.sent:
            collector.add(batch)
    assert finishes == 1
    return collector.answer()


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> ScriptedModel:
    scripted = ScriptedModel()

    class ScriptedChat(LlmApiHandler):
        def _get_api_endpoint_url(self) -> str:
            return self.base_url

        def _payload(self, call: Any) -> dict[str, Any]:
            return {}

        def _map_event(self, *_: Any) -> None:
            return None

        def _parse_non_stream_response(self, body: Any) -> Any:
            return body

        def stream_batches(self, call: Any) -> Batches:
            scripted.settings.append(self.settings)
            return scripted.stream(call)

        def handle_non_streaming(self, call: Any) -> Any:
            scripted.settings.append(self.settings)
            return scripted.whole(call)

    class ScriptedFlat(ScriptedChat):
        takes_messages = False

    monkeypatch.setitem(BACKENDS._table, "scriptedChat", ScriptedChat)
    monkeypatch.setitem(BACKENDS._table, "scriptedFlat", ScriptedFlat)
    return scripted


@pytest.fixture
def house(tmp_path: Path, model: ScriptedModel) -> Iterator[House]:
    before = launch_facts()
    built = House(tmp_path, model)
    set_launch_facts(LaunchFacts(public_directory=tmp_path, config_directory=built.root, users=("ana",)))
    process_services.cache_clear()
    yield built
    cancellation_service.acknowledge_cancellation("r1")
    set_launch_facts(before)


@pytest.fixture
def failure() -> Callable[..., BackendError]:
    """A failure of the backend."""
    return lambda kind="overloaded": BackendError("chat", kind, "no answer today")


class Site:
    """A real HTTP server on loopback. `pages[path] = (status, headers, body)`; `seen` is what was asked.

    A body that is a list is sent in chunks; a callable gets the handler and writes by itself.
    """

    def __init__(self) -> None:
        self.pages: dict[str, Any] = {}
        self.seen: list[Seen] = []
        self.leaving = threading.Event()
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: Any) -> None:
                """The test's output is its own."""

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                site.seen.append(Seen(self.command, self.path, dict(self.headers.items()), body))
                answer = site.pages.get(self.path.partition("?")[0], (404, {}, b"no such page"))
                if callable(answer):
                    answer(self)
                    return
                site.write(self, *answer)

            do_GET = do_POST = do_PUT = do_HEAD = do_DELETE = answer

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.block_on_close = False
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    @staticmethod
    def write(handler: BaseHTTPRequestHandler, status: int, headers: Mapping[str, str], body: Any) -> None:
        """An answer; for pages that look at what was asked, too."""
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        if isinstance(body, list):
            handler.send_header("Transfer-Encoding", "chunked")
            body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in [*body, b""])
        else:
            handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        if handler.command != "HEAD":
            handler.wfile.write(body)

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    def close(self) -> None:
        self.leaving.set()
        self.server.shutdown()
        self.server.server_close()


@dataclass(frozen=True)
class Seen:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@pytest.fixture
def site():
    made = Site()
    yield made
    made.close()


@pytest.fixture
def waits(monkeypatch) -> list[Any]:
    """How long each request that `requests` sends may wait for its connection and for each read."""
    seen, send = [], HTTPAdapter.send

    def sending(adapter, request, *args, **settings):
        seen.append(settings["timeout"])
        return send(adapter, request, *args, **settings)

    monkeypatch.setattr(HTTPAdapter, "send", sending)
    return seen


@pytest.fixture
def timers(monkeypatch) -> list[threading.Timer]:
    """Every `threading.Timer` that is made."""
    made = []

    class Noted(threading.Timer):
        def __init__(self, *args: Any, **settings: Any) -> None:
            super().__init__(*args, **settings)
            made.append(self)

    monkeypatch.setattr(threading, "Timer", Noted)
    return made


class Dialled(list[tuple[str, int]]):
    kind: type[socket.socket]


@pytest.fixture
def dialled(monkeypatch, site):
    """Every outgoing connection of the wire ends at `site`; the list holds the addresses that were dialled."""
    addresses = Dialled()

    class Socket(socket.socket):
        def connect(self, address: Any) -> None:
            addresses.append(address[:2])
            super().connect(("127.0.0.1", site.port))

        def getpeername(self) -> Any:
            return addresses[-1]

    addresses.kind = Socket
    stream = socket.AF_INET, socket.SOCK_STREAM, 6, ""
    names = SimpleNamespace(**vars(socket))
    names.socket = Socket
    names.getaddrinfo = lambda host, port, *rest: [(*stream, (host, port))]
    monkeypatch.setattr(connections, "socket", names)
    return addresses
