"""A model server that answers by script, in the dialects of several: what an agent's tests need.

`backend.script(mark, *steps)`: a chat whose prompt holds `mark` gets these answers in their order, the last one for
ever. Which dialect is spoken is told by the path. A step may wait, so that a test can hang up meanwhile.
"""

from __future__ import annotations

import json
import select
import socket
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.e2e.served import QuietHandler, ServedBackend
from tests.patience import PATIENCE_S, wait_until


@dataclass(frozen=True)
class Step:
    """One answer. `calls`: `(name, arguments)`, arguments as an object or as a text that is none. `hangs`: it never
    comes. `status`: of a refusal, whose words are the text."""

    text: str = ""
    calls: Sequence[tuple[str, Any]] = ()
    thinking: str = ""
    finish: str = ""
    hangs: bool = False
    status: int = 200


@dataclass
class Asked:
    """One request. `hung_up`: its caller went before it was answered."""

    path: str
    body: dict[str, Any]
    hung_up: threading.Event = field(default_factory=threading.Event)

    @property
    def turns(self) -> list[dict[str, Any]]:
        return list(self.body.get("messages") or ())

    @property
    def results(self) -> list[str]:
        """The results of tools in it, whatever their form."""
        found = []
        for message in self.turns:
            if message["role"] == "tool":
                found.append(message["content"])
            blocks = message["content"] if isinstance(message["content"], list) else ()
            found += [block["content"] for block in blocks if block["type"] == "tool_result"]
        return found

    @property
    def choice(self) -> Any:
        """`tool_choice` in OpenAI's words."""
        choice = self.body.get("tool_choice")
        return choice["type"] if isinstance(choice, dict) else choice


class AgentBackend(ServedBackend):
    """The server."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._scripts: dict[str, list[Step]] = {}
        self._asked: list[tuple[str, Asked]] = []
        super().__init__(_Handler)

    def script(self, mark: str, *steps: Step) -> None:
        with self._guard:
            self._scripts[mark] = list(steps)

    def asked(self, mark: str) -> list[Asked]:
        with self._guard:
            return [one for found, one in self._asked if found == mark]

    def wait_for(self, mark: str, count: int = 1) -> Asked:
        found: list[Asked] = wait_until(
            lambda: self.asked(mark) if len(self.asked(mark)) >= count else None,
            said=lambda: f"{count} calls with {mark!r}",
        )
        return found[count - 1]

    def take(self, asked: Asked) -> Step:
        """The answer to a request."""
        text = json.dumps(asked.body, ensure_ascii=False)
        with self._guard:
            mark = next((mark for mark in self._scripts if mark in text), "")
            number = sum(found == mark for found, _ in self._asked)
            self._asked.append((mark, asked))
            steps = self._scripts.get(mark) or [Step("ok")]
            return steps[min(number, len(steps) - 1)]


class _Handler(QuietHandler):
    backend: AgentBackend

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        asked = Asked(self.path, json.loads(raw or b"{}"))
        if "abort" in self.path:
            self.send_whole(200, b"{}")
            return
        step = self.backend.take(asked)
        if step.hangs:
            self._wait_for_hang_up(asked)
            return
        if step.status != 200:
            self.send_whole(step.status, json.dumps({"error": {"message": step.text}}).encode())
            return
        number = len(asked.turns)
        stream = bool(asked.body.get("stream", "stream" in self.path))
        for part, kind, render in DIALECTS:
            if part in self.path:
                body = render(step, stream, number)
                self.send_whole(200, body, kind if stream else "application/json")
                return

    def _wait_for_hang_up(self, asked: Asked) -> None:
        readable, _, _ = select.select([self.connection], [], [], PATIENCE_S)
        if readable and self.connection.recv(1, socket.MSG_PEEK) == b"":
            asked.hung_up.set()
        self.close_connection = True


def _text_of(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def _openai(step: Step, stream: bool, number: int) -> bytes:
    calls = [
        {
            "id": f"c{number}_{at}",
            "type": "function",
            "function": {"name": name, "arguments": _text_of(given)},
        }
        for at, (name, given) in enumerate(step.calls)
    ]
    reason = step.finish or ("tool_calls" if calls else "stop")
    message: dict[str, Any] = {"role": "assistant", "content": step.text}
    if step.thinking:
        message["reasoning_content"] = step.thinking
    if not stream:
        whole = {**message, "tool_calls": calls} if calls else message
        return json.dumps({"choices": [{"message": whole, "finish_reason": reason}]}).encode()
    deltas: list[Any] = [{"role": "assistant"}]
    deltas += [{"reasoning_content": piece} for piece in step.thinking]
    deltas += [{"content": piece} for piece in _pieces(step.text)]
    deltas += [{"tool_calls": [{"index": at, **call}]} for at, call in enumerate(calls)]
    events = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    return "".join(f"data: {json.dumps(event)}\n\n" for event in events).encode() + b"data: [DONE]\n\n"


def _ollama(step: Step, stream: bool, number: int) -> bytes:
    calls = [
        {"function": {"name": name, "arguments": given if isinstance(given, dict) else {"broken": given}}}
        for name, given in step.calls
    ]
    said = {"role": "assistant", "content": step.text}
    extra = {
        **({"thinking": step.thinking} if step.thinking else {}),
        **({"tool_calls": calls} if calls else {}),
    }
    if not stream:
        return json.dumps({"message": {**said, **extra}, "done": True, "done_reason": "stop"}).encode()
    lines: list[Any] = [
        {"message": {"role": "assistant", "content": p}, "done": False} for p in _pieces(step.text)
    ]
    if extra:
        lines.append({"message": {"role": "assistant", "content": "", **extra}, "done": False})
    lines.append({"message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop"})
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def _claude(step: Step, stream: bool, number: int) -> bytes:
    blocks: list[dict[str, Any]] = [{"type": "text", "text": step.text}] if step.text else []
    blocks += [
        {"type": "tool_use", "id": f"toolu_{number}_{at}", "name": name, "input": given}
        for at, (name, given) in enumerate(step.calls)
    ]
    reason = step.finish or ("tool_use" if step.calls else "end_turn")
    if not stream:
        return json.dumps({"content": blocks, "stop_reason": reason}).encode()
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"model": "claude", "usage": {"input_tokens": 1}}}
    ]
    for at, block in enumerate(blocks):
        if block["type"] == "text":
            start, deltas = {"type": "text", "text": ""}, [{"type": "text_delta", "text": block["text"]}]
        else:
            start = {**block, "input": {}}
            deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
        events.append({"type": "content_block_start", "index": at, "content_block": start})
        events += [{"type": "content_block_delta", "index": at, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": at})
    events.append({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 2}})
    events.append({"type": "message_stop"})
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()


def _kobold(step: Step, stream: bool, number: int) -> bytes:
    if not stream:
        return json.dumps({"results": [{"text": step.text, "finish_reason": "stop"}]}).encode()
    events = [{"token": piece, "finish_reason": None} for piece in _pieces(step.text)]
    events.append({"token": "", "finish_reason": "stop"})
    return "".join(f"event: message\ndata: {json.dumps(event)}\n\n" for event in events).encode()


def _pieces(text: str) -> list[str]:
    return [text[at : at + 3] for at in range(0, len(text), 3)]


DIALECTS = (
    ("/v1/chat/completions", "text/event-stream", _openai),
    ("/api/chat", "application/x-ndjson", _ollama),
    ("/v1/messages", "text/event-stream", _claude),
    ("/generate", "text/event-stream", _kobold),
)
