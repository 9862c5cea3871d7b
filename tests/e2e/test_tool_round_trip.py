"""A conversation with two tool steps, through the real server: each backend under each client protocol.

The backends are strict: a turn in the wrong form is a 400, as the real ones answer it.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.e2e.conftest import NODE
from tests.e2e.fake_backend import sse_objects

QUESTION = "What is the weather at home?"
ANSWER = "It is sunny in Rome, 20°."
STEPS = [("find_home", {}, "Rome"), ("get_weather", {"city": "Rome", "units": "°C"}, '{"sky": "sunny"}')]
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}
    for name, _, _ in STEPS
]


class OpenAi:
    """Arguments are text, results name the id of their call."""

    api_type, content_type = "Open-AI-API", "text/event-stream"

    def results(self, body: dict[str, Any]) -> list[tuple[str, Any, str]]:
        """`(tool, arguments, result)` of the steps in the request. AssertionError: a wrong form."""
        assert all(tool["type"] == "function" for tool in body["tools"])
        calls: dict[str, Any] = {}
        found = []
        for message in body["messages"]:
            for call in message.get("tool_calls", ()):
                assert call["type"] == "function"
                assert call["id"] not in calls
                calls[call["id"]] = call["function"]
            if message["role"] == "tool":
                function = calls[message["tool_call_id"]]
                found.append((function["name"], json.loads(function["arguments"]), message["content"]))
        return found

    def call(self, step: int, name: str, arguments: dict[str, Any], stream: bool) -> bytes:
        text = json.dumps(arguments)
        function = {"name": name, "arguments": text}
        call = {"id": f"call_{step}", "type": "function", "function": function}
        if not stream:
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
            return whole({"choices": [{"message": message, "finish_reason": "tool_calls"}]})
        head = {"index": 0, **call, "function": {"name": name, "arguments": ""}}
        pieces = [{"index": 0, "function": {"arguments": piece}} for piece in (text[:5], text[5:])]
        deltas = [{"tool_calls": [piece]} for piece in (head, *pieces)]
        return self.chunks(deltas, "tool_calls")

    def text(self, text: str, stream: bool) -> bytes:
        if not stream:
            return whole({"choices": [{"message": {"content": text}, "finish_reason": "stop"}]})
        return self.chunks([{"content": piece} for piece in (text[:4], text[4:])], "stop")

    def chunks(self, deltas: list[Any], reason: str) -> bytes:
        events = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
        events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
        return "".join(f"data: {json.dumps(event)}\n\n" for event in events).encode() + b"data: [DONE]\n\n"


class Ollama:
    """Arguments are objects, results name their tool; the second call has no id."""

    api_type, content_type = "OllamaApiChat", "application/x-ndjson"

    def results(self, body: dict[str, Any]) -> list[tuple[str, Any, str]]:
        asked: list[Any] = []
        found = []
        for message in body["messages"]:
            assert type(message["content"]) is str
            for call in message.get("tool_calls", ()):
                assert type(call["function"]["arguments"]) is dict, "cannot unmarshal string"
                asked.append(call["function"])
            if message["role"] == "tool":
                function = asked[len(found)]
                assert message["tool_name"] == function["name"]
                found.append((function["name"], function["arguments"], message["content"]))
        return found

    def call(self, step: int, name: str, arguments: dict[str, Any], stream: bool) -> bytes:
        named = {} if step else {"id": "call_0"}
        message = {"role": "assistant", "content": ""}
        calling = {**message, "tool_calls": [{**named, "function": {"name": name, "arguments": arguments}}]}
        if not stream:
            return whole({"message": calling, "done": True, "done_reason": "stop"})
        return self.lines([calling], message)

    def text(self, text: str, stream: bool) -> bytes:
        message = {"role": "assistant", "content": ""}
        if not stream:
            return whole({"message": {**message, "content": text}, "done": True, "done_reason": "stop"})
        return self.lines([{**message, "content": piece} for piece in (text[:4], text[4:])], message)

    def lines(self, messages: list[Any], last: Any) -> bytes:
        lines = [{"message": message, "done": False} for message in messages]
        lines.append({"message": last, "done": True, "done_reason": "stop"})
        return "".join(json.dumps(line) + "\n" for line in lines).encode()


class Claude:
    """Blocks, roles in turn, results right behind their calls."""

    api_type, content_type = "Claude", "text/event-stream"

    def results(self, body: dict[str, Any]) -> list[tuple[str, Any, str]]:
        assert all(tool["input_schema"]["type"] == "object" for tool in body["tools"])
        roles = [message["role"] for message in body["messages"]]
        assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]
        uses: dict[str, Any] = {}
        found = []
        for message in body["messages"]:
            for block in message["content"] if isinstance(message["content"], list) else ():
                if block["type"] == "tool_use":
                    assert type(block["input"]) is dict
                    uses[block["id"]] = block
                elif block["type"] == "tool_result":
                    use = uses[block["tool_use_id"]]
                    found.append((use["name"], use["input"], block["content"]))
        return found

    def call(self, step: int, name: str, arguments: dict[str, Any], stream: bool) -> bytes:
        use = {"type": "tool_use", "id": f"toolu_{step}", "name": name}
        if not stream:
            return whole({"content": [{**use, "input": arguments}], "stop_reason": "tool_use"})
        text = json.dumps(arguments)
        pieces = [text[:5], text[5:]] if arguments else []
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
        return self.events({**use, "input": {}}, deltas, "tool_use")

    def text(self, text: str, stream: bool) -> bytes:
        if not stream:
            return whole({"content": [{"type": "text", "text": text}], "stop_reason": "end_turn"})
        deltas = [{"type": "text_delta", "text": piece} for piece in (text[:4], text[4:])]
        return self.events({"type": "text", "text": ""}, deltas, "end_turn")

    def events(self, block: Any, deltas: list[Any], reason: str) -> bytes:
        events = [
            {"type": "message_start", "message": {"model": "claude", "usage": {"input_tokens": 1}}},
            {"type": "content_block_start", "index": 0, "content_block": block},
            *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 2}},
            {"type": "message_stop"},
        ]
        return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()


def whole(body: Any) -> bytes:
    return json.dumps(body).encode()


BACKENDS = {"openai": OpenAi(), "ollama": Ollama(), "claude": Claude()}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    spoken: Any
    asked: list[Any]

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append(body)
        stream = bool(body["stream"])
        try:
            done = self.spoken.results(body)
            assert done == STEPS[: len(done)]
        except (AssertionError, KeyError, IndexError, TypeError) as error:
            self._send(400, "application/json", whole({"error": {"message": f"wrong form: {error!r}"}}))
            return
        if len(done) < len(STEPS):
            answer = self.spoken.call(len(done), *STEPS[len(done)][:2], stream)
        else:
            answer = self.spoken.text(ANSWER, stream)
        self._send(200, self.spoken.content_type if stream else "application/json", answer)

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture(scope="module")
def servers():
    """One strict stand-in for each backend."""
    made = {}
    for name, spoken in BACKENDS.items():
        handler = type("Handler", (_Handler,), {"spoken": spoken, "asked": []})
        made[name] = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=made[name].serve_forever, args=(0.05,), daemon=True).start()
    yield made
    for server in made.values():
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def server(launch, servers):
    users = {
        name: {
            "endpoints": {
                "Model": {
                    "endpoint": f"http://127.0.0.1:{servers[name].server_address[1]}",
                    "apiTypeConfigFileName": spoken.api_type,
                }
            },
            "workflows": {"Chat": [{**NODE, "allowTools": True}]},
        }
        for name, spoken in BACKENDS.items()
    }
    return launch(users, "--concurrency", "0")


class OpenAiClient:
    """Sends back what it got; results name the id."""

    path = "/v1/chat/completions"

    def turn(self, body: bytes, stream: bool) -> tuple[dict[str, Any], str]:
        """The assistant's turn, and why it ended."""
        if not stream:
            choice = json.loads(body)["choices"][0]
            return choice["message"], choice["finish_reason"]
        message: dict[str, Any] = {"role": "assistant", "content": ""}
        calls: dict[int, Any] = {}
        reason = ""
        for unit in sse_objects(body):
            choice = unit["choices"][0]
            message["content"] += choice["delta"].get("content") or ""
            for delta in choice["delta"].get("tool_calls", ()):
                call = calls.setdefault(delta["index"], {**delta, "function": {"name": "", "arguments": ""}})
                for key, piece in delta["function"].items():
                    call["function"][key] += piece
            reason = choice["finish_reason"] or reason
        if calls:
            message["tool_calls"] = [
                {key: value for key, value in call.items() if key != "index"} for call in calls.values()
            ]
        return message, reason

    def arguments(self, call: dict[str, Any]) -> Any:
        return json.loads(call["function"]["arguments"])

    def result(self, call: dict[str, Any], text: str) -> dict[str, Any]:
        return {"role": "tool", "tool_call_id": call["id"], "content": text}


class OllamaClient:
    """Arguments are objects; results name the tool, and know no ids."""

    path = "/api/chat"

    def turn(self, body: bytes, stream: bool) -> tuple[dict[str, Any], str]:
        message: dict[str, Any] = {"role": "assistant", "content": ""}
        for line in body.decode().splitlines():
            unit = json.loads(line)
            message["content"] += unit["message"]["content"]
            message.setdefault("tool_calls", []).extend(unit["message"].get("tool_calls", ()))
        if not message["tool_calls"]:
            del message["tool_calls"]
        assert unit["done"]
        return message, "tool_calls" if "tool_calls" in message else unit["done_reason"]

    def arguments(self, call: dict[str, Any]) -> Any:
        return call["function"]["arguments"]

    def result(self, call: dict[str, Any], text: str) -> dict[str, Any]:
        return {"role": "tool", "tool_name": call["function"]["name"], "content": text}


class ForgetfulOllamaClient(OllamaClient):
    """Older libraries have no field for the id of a call, and drop it."""

    def turn(self, body: bytes, stream: bool) -> tuple[dict[str, Any], str]:
        message, reason = super().turn(body, stream)
        for call in message.get("tool_calls", ()):
            call.pop("id", None)
            call["function"].pop("index", None)
        return message, reason


CLIENTS = [OpenAiClient(), OllamaClient(), ForgetfulOllamaClient()]


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: type(client).__name__)
@pytest.mark.parametrize("backend_name", BACKENDS)
def test_two_steps(backend_name, client, stream, server, servers):
    """Call, result, call, result, answer."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": QUESTION}]
    for name, arguments, result in STEPS:
        status, body = server.post(
            client.path, {"model": backend_name, "messages": messages, "tools": TOOLS, "stream": stream}
        )
        assert status == 200, body
        message, reason = client.turn(body, stream)
        (call,) = message["tool_calls"]
        assert (call["function"]["name"], client.arguments(call), reason) == (name, arguments, "tool_calls")
        messages += [message, client.result(call, result)]
    status, body = server.post(
        client.path, {"model": backend_name, "messages": messages, "tools": TOOLS, "stream": stream}
    )
    assert status == 200, body
    message, reason = client.turn(body, stream)
    assert (message["content"], reason) == (ANSWER, "stop")
    assert not message.get("tool_calls")
