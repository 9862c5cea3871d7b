"""A model server that says what a test wants: OpenAI, Ollama and KoboldCpp dialects on one port, real sockets.

Texts to `/v1/embeddings` become vectors of their length and a half.

Without other orders it echoes the newest user text, word by word. `backend.on(mark, Reply(...))` is its order for
prompts that hold `mark`. Every request is kept as a `Call`, which also knows when the other side hung up.
"""

from __future__ import annotations

import json
import select
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from tests.e2e.served import QuietHandler, ServedBackend
from tests.patience import PATIENCE_S, wait_until

DIALECTS = {
    "/v1/chat/completions": "openai",
    "/v1/completions": "openai-text",
    "/api/chat": "ollama",
    "/api/generate": "ollama-text",
    "/api/extra/generate/stream": "kobold",
    "/api/v1/generate": "kobold",
}
HANG_LIMIT_S = PATIENCE_S


@dataclass(frozen=True)
class Reply:
    """One answer. `dies_after`: the connection breaks after so many chunks; `hangs`: it stays silent after the last.

    `tool`: this function is called as well (OpenAI chat only), with what the user said. `after`: it begins when
    this is set; `rest_after`: all but its first piece comes when this is set. `counts`: its numbers, in the words of
    OpenAI's `usage` or of Ollama's last line, over the usual ones.
    """

    chunks: Sequence[str] = ("ok",)
    gap_s: float = 0.0
    status: int = 200
    dies_after: int | None = None
    hangs: bool = False
    tool: str | None = None
    after: threading.Event | None = None
    rest_after: threading.Event | None = None
    counts: Mapping[str, int] = field(default_factory=dict)


@dataclass
class Call:
    """One request that arrived."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    hung_up: threading.Event = field(default_factory=threading.Event)

    @property
    def dialect(self) -> str:
        return DIALECTS.get(self.path, "other")

    @property
    def text(self) -> str:
        """All that the prompt says."""
        messages = self.body.get("messages") or []
        parts = [str(message.get("content") or "") for message in messages]
        return "\n".join([str(self.body.get("system", "")), *parts, str(self.body.get("prompt", ""))])

    @property
    def question(self) -> str:
        """The newest user text, or the whole flat prompt."""
        said = [m["content"] for m in self.body.get("messages") or [] if m.get("role") == "user"]
        return str(said[-1] if said else self.body.get("prompt", "")).strip()

    @property
    def streams(self) -> bool:
        if self.dialect == "kobold":
            return self.path.endswith("/stream")
        return bool(self.body.get("stream", self.dialect.startswith("ollama")))


class FakeBackend(ServedBackend):
    """The server."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._orders: dict[str, Reply] = {}
        self._calls: list[Call] = []
        self.is_killed = False
        super().__init__(_Handler)

    def on(self, mark: str, reply: Reply) -> None:
        with self._lock:
            self._orders[mark] = reply

    def calls(self, mark: str = "") -> list[Call]:
        """The calls whose prompt holds `mark`, in order of arrival."""
        with self._lock:
            return [call for call in self._calls if mark in call.text]

    def wait_for_call(self, mark: str) -> Call:
        first: Call = wait_until(lambda: self.calls(mark), said=lambda: f"a call with {mark!r}")[0]
        return first

    def kill(self) -> None:
        """As a process that is killed: it listens no more, and whoever is connected gets nothing more."""
        self.is_killed = True
        self.close()

    def reply_to(self, call: Call) -> Reply:
        with self._lock:
            self._calls.append(call)
            order = next((reply for mark, reply in self._orders.items() if mark in call.text), None)
        return order or Reply(_words(call.question))


class _Handler(QuietHandler):
    backend: FakeBackend

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.backend.is_killed:
            self._break()
            return
        call = Call(
            self.path, {name.lower(): value for name, value in self.headers.items()}, json.loads(raw or b"{}")
        )
        if self.path == "/v1/embeddings":
            self._whole(200, {"data": [{"embedding": [len(text), 0.5]} for text in call.body["input"]]})
            return
        if call.dialect == "other":
            self._whole(200, {"success": True})
            return
        reply = self.backend.reply_to(call)
        if reply.after is not None:
            reply.after.wait(PATIENCE_S)
        if self.backend.is_killed:
            self._break()
            return
        try:
            if reply.status != 200:
                self._whole(reply.status, {"error": {"message": "the backend is out of order"}})
            elif call.streams:
                self._stream(call, reply)
            else:
                self._answer(call, reply)
        except OSError:
            call.hung_up.set()
            self.close_connection = True

    def _answer(self, call: Call, reply: Reply) -> None:
        self._pause(reply.gap_s * len(reply.chunks))
        if reply.rest_after is not None:
            reply.rest_after.wait(PATIENCE_S)
        if reply.hangs:
            self._pause(HANG_LIMIT_S)
        if reply.dies_after is not None:
            self._break()
            return
        body = whole_body(call.dialect, "".join(reply.chunks), reply.counts)
        if reply.tool:
            body["choices"][0]["message"]["tool_calls"] = [tool_call(reply.tool, call)]
        self._whole(200, body)

    def _stream(self, call: Call, reply: Reply) -> None:
        self.send_response(200)
        kind = "application/x-ndjson" if call.dialect.startswith("ollama") else "text/event-stream"
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number, text in enumerate(reply.chunks):
            if number == reply.dies_after:
                self._break()
                return
            self._pause(reply.gap_s if number else 0)
            if number and reply.rest_after is not None:
                reply.rest_after.wait(PATIENCE_S)
            self._write(stream_unit(call.dialect, text))
        if reply.dies_after is not None:
            self._break()
            return
        if reply.hangs:
            self._pause(HANG_LIMIT_S)
        if reply.tool:
            delta = {"tool_calls": [tool_call(reply.tool, call)]}
            self._write(_sse({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}))
        self._write(stream_end(call.dialect, reply.counts))
        self.wfile.write(b"0\r\n\r\n")

    def _whole(self, status: int, body: Any) -> None:
        self.send_whole(status, json.dumps(body, ensure_ascii=False).encode())

    def _write(self, data: bytes) -> None:
        self._pause(0)
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _pause(self, seconds: float) -> None:
        """Wait, but notice at once when the other side closes. Raises ConnectionResetError."""
        readable, _, _ = select.select([self.connection], [], [], seconds)
        if readable and self.connection.recv(1, socket.MSG_PEEK) == b"":
            raise ConnectionResetError("the caller hung up")

    def _break(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)


def _words(text: str) -> list[str]:
    """`a b c` -> `a`, ` b`, ` c`."""
    first, *rest = text.split(" ")
    return [first, *(f" {word}" for word in rest)]


def stream_unit(dialect: str, text: str) -> bytes:
    """One piece of text on the wire."""
    if dialect == "openai":
        return _sse({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]})
    if dialect == "openai-text":
        return _sse({"choices": [{"index": 0, "text": text, "finish_reason": None}]})
    if dialect == "kobold":
        return b"event: message\n" + _sse({"token": text, "finish_reason": None})
    field_ = (
        {"message": {"role": "assistant", "content": text}} if dialect == "ollama" else {"response": text}
    )
    return _line({"model": "fake", **field_, "done": False})


def stream_end(dialect: str, counts: Mapping[str, int] = MappingProxyType({})) -> bytes:
    """The last unit of a stream."""
    done = b"data: [DONE]\n\n"
    if dialect == "openai":
        last = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        return _sse({**last, **({"usage": dict(counts)} if counts else {})}) + done
    if dialect == "openai-text":
        return _sse({"choices": [{"index": 0, "text": "", "finish_reason": "stop"}]}) + done
    if dialect == "kobold":
        return b"event: message\n" + _sse({"token": "", "finish_reason": "stop"})
    field_ = {"message": {"role": "assistant", "content": ""}} if dialect == "ollama" else {"response": ""}
    return _line({"model": "fake", **field_, "done": True, "done_reason": "stop", **_OLLAMA_COUNTS, **counts})


def tool_call(name: str, call: Call) -> dict[str, Any]:
    arguments = json.dumps({"about": call.question})
    return {
        "index": 0,
        "id": "call_1",
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def whole_body(dialect: str, text: str, counts: Mapping[str, int] = MappingProxyType({})) -> dict[str, Any]:
    """A whole answer."""
    if dialect == "openai":
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        return {"id": "fake", "object": "chat.completion", "choices": [choice], "usage": {**_USAGE, **counts}}
    if dialect == "openai-text":
        return {
            "id": "fake",
            "choices": [{"index": 0, "text": text, "finish_reason": "stop"}],
            "usage": {**_USAGE, **counts},
        }
    if dialect == "kobold":
        return {"results": [{"text": text, "finish_reason": "stop"}]}
    field_ = (
        {"message": {"role": "assistant", "content": text}} if dialect == "ollama" else {"response": text}
    )
    return {"model": "fake", **field_, "done": True, "done_reason": "stop", **_OLLAMA_COUNTS, **counts}


_USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
_OLLAMA_COUNTS = {"prompt_eval_count": 11, "eval_count": 7}


def _sse(data: Any) -> bytes:
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def _line(data: Any) -> bytes:
    return (json.dumps(data, ensure_ascii=False) + "\n").encode()


def sse_objects(body: bytes) -> Iterator[Any]:
    """The JSON objects of an event stream, without comments and `[DONE]`."""
    for line in body.decode().splitlines():
        if line.startswith("data: ") and line != "data: [DONE]":
            yield json.loads(line[6:])
