"""Each backend's stand-in server on a real socket, and every way in which it can behave: the same rules for all."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from typing import Any

import pytest

from Middleware.common.errors import BackendError
from Middleware.llmapis.llm_api import LlmApiService
from tests.patience import PATIENCE_S, wait_until

HELLO = [{"role": "user", "content": "Hi"}]


def sse(data: Any, name: str = "") -> bytes:
    return (f"event: {name}\n" if name else "").encode() + f"data: {json.dumps(data)}\n\n".encode()


def ndjson(data: Any) -> bytes:
    return json.dumps(data).encode() + b"\n"


@dataclass(frozen=True)
class OpenAi:
    """Chat. Each dialect: a token, the end, an error, a whole answer."""

    api_type: str = "Open-AI-API"
    content_type: str = "text/event-stream"
    stop_route: str = ""

    def token(self, text: str) -> bytes:
        return sse({"choices": [{"delta": {"content": text}}]})

    def end(self) -> bytes:
        return sse({"choices": [{"delta": {}, "finish_reason": "length"}]}) + b"data: [DONE]\n\n"

    def error(self, text: str) -> bytes:
        return sse({"error": {"message": text}})

    def whole(self, text: str) -> Any:
        return {"choices": [{"message": {"content": text}, "finish_reason": "length"}]}


@dataclass(frozen=True)
class Completions(OpenAi):
    api_type: str = "OpenAI-Compatible-Completions"

    def token(self, text: str) -> bytes:
        return sse({"choices": [{"text": text}]})

    def end(self) -> bytes:
        return sse({"choices": [{"text": "", "finish_reason": "length"}]}) + b"data: [DONE]\n\n"

    def whole(self, text: str) -> Any:
        return {"choices": [{"text": text, "finish_reason": "length"}]}


@dataclass(frozen=True)
class WebUi(OpenAi):
    api_type: str = "Text-Generation-WebUI"
    stop_route: str = "/v1/internal/stop-generation"


@dataclass(frozen=True)
class OllamaChat:
    api_type: str = "OllamaApiChat"
    content_type: str = "application/x-ndjson"
    stop_route: str = ""

    def said(self, text: str) -> dict[str, Any]:
        return {"message": {"role": "assistant", "content": text}}

    def token(self, text: str) -> bytes:
        return ndjson({**self.said(text), "done": False})

    def end(self) -> bytes:
        return ndjson(self.whole(""))

    def error(self, text: str) -> bytes:
        return ndjson({"error": text})

    def whole(self, text: str) -> Any:
        return {**self.said(text), "done": True, "done_reason": "length"}


@dataclass(frozen=True)
class OllamaGenerate(OllamaChat):
    api_type: str = "OllamaApiGenerate"

    def said(self, text: str) -> dict[str, Any]:
        return {"response": text}


@dataclass(frozen=True)
class Kobold:
    api_type: str = "KoboldCpp"
    content_type: str = "text/event-stream"
    stop_route: str = "/api/extra/abort"

    def token(self, text: str) -> bytes:
        return sse({"token": text, "finish_reason": None}, "message")

    def end(self) -> bytes:
        return sse({"token": "", "finish_reason": "length"}, "message")

    def error(self, text: str) -> bytes:
        return sse({"error": {"message": text}}, "message")

    def whole(self, text: str) -> Any:
        return {"results": [{"text": text, "finish_reason": "length"}]}


@dataclass(frozen=True)
class Claude:
    api_type: str = "Claude"
    content_type: str = "text/event-stream"
    stop_route: str = ""

    def token(self, text: str) -> bytes:
        delta = {"type": "text_delta", "text": text}
        return sse({"type": "content_block_delta", "index": 0, "delta": delta}, "content_block_delta")

    def end(self) -> bytes:
        ending = {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}}
        return sse(ending, "message_delta") + sse({"type": "message_stop"}, "message_stop")

    def error(self, text: str) -> bytes:
        return sse({"type": "error", "error": {"type": "api_error", "message": text}}, "error")

    def whole(self, text: str) -> Any:
        return {"content": [{"type": "text", "text": text}], "stop_reason": "max_tokens"}


BACKENDS = [OpenAi(), WebUi(), Completions(), OllamaChat(), OllamaGenerate(), Kobold(), Claude()]
every_backend = pytest.mark.parametrize("spoken", BACKENDS, ids=[one.api_type for one in BACKENDS])
both_ways = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
pytestmark = pytest.mark.usefixtures("transport")


@pytest.fixture
def ask(configs):
    """`ask(server, spoken, stream, ...)` -> the answer: dicts one by one, or the whole one."""

    def put(server, spoken, stream, **fields):
        configs.endpoint("E", server.url, spoken.api_type, modelNameToSendToAPI="m", **fields)
        service = LlmApiService("E", None, 99, stream, **configs.given())
        prompts = (HELLO, None, None) if service.takes_messages else (None, "", "Hi")
        return service.get_response_from_llm(*prompts, request_id="r")

    return put


def answered(answer, stream):
    """`(text, finish reason)`."""
    if not stream:
        return str(answer), answer.finish_reason
    chunks = list(answer)
    return "".join(chunk["token"] for chunk in chunks), chunks[-1]["finish_reason"]


def good(spoken, rig, stream, *texts):
    """A good answer, whole or as a chunked stream."""
    if not stream:
        return rig.json_answer(spoken.whole("".join(texts)))
    head = rig.head(content_type=spoken.content_type, transfer_encoding="chunked")
    return head + rig.chunked(*map(spoken.token, texts), spoken.end())


@every_backend
@both_ways
def test_a_good_answer(spoken, stream, serve, rig, ask):
    """Text, and why it ended."""
    server = serve(lambda peer: (peer.request(), peer.send(good(spoken, rig, stream, "Hel", "lo"))))
    assert answered(ask(server, spoken, stream), stream) == ("Hello", "length")


@every_backend
@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_a_plain_body_is_given_event_by_event(spoken, version, serve, rig, ask):
    """No chunks, no length: each event is here before the next one is sent."""
    taken = [threading.Event() for _ in range(8)]

    def script(peer):
        peer.request()
        peer.send(rig.head(version=version, content_type=spoken.content_type, connection="close"))
        for number, event in enumerate(taken):
            peer.send(spoken.token(f"{number} "))
            event.wait(PATIENCE_S)
        peer.send(spoken.end())

    answer = ask(serve(script), spoken, True)
    for number, event in enumerate(taken):
        assert next(answer)["token"] == f"{number} "
        event.set()
    assert [chunk["finish_reason"] for chunk in answer] == ["length"]


@every_backend
@both_ways
@pytest.mark.parametrize("framing", ["chunked", "counted"])
def test_a_reset_in_the_middle(spoken, stream, framing, serve, rig, ask):
    """A lost connection: the last dict of the stream, or raised."""

    def script(peer):
        while peer.request():
            body = spoken.token("Hel") if stream else json.dumps(spoken.whole("Hello")).encode()[:-4]
            kind = spoken.content_type if stream else "application/json"
            if framing == "chunked":
                head = rig.head(content_type=kind, transfer_encoding="chunked")
                peer.send(head + rig.chunked(body, end=False))
            else:
                peer.send(rig.head(content_type=kind, content_length="9999") + body)
            gone.wait(PATIENCE_S)
            peer.reset()
            return

    gone = threading.Event()
    server = serve(script)
    answer = None
    if stream:
        answer = ask(server, spoken, stream)
        assert next(answer)["token"] == "Hel"
        gone.set()
        (last,) = answer
        assert (last["finish_reason"], last["error"]["kind"]) == ("error", "connection_lost")
        return
    gone.set()
    with pytest.raises(BackendError) as caught:
        ask(server, spoken, stream)
    assert caught.value.kind == "connection_lost"
    assert len(server.requests) == 2


@every_backend
@both_ways
def test_a_reset_before_any_output(spoken, stream, serve, rig, ask):
    """Raised, so that a backup may take over."""

    def script(peer):
        peer.request()
        peer.send(rig.head(content_type=spoken.content_type, transfer_encoding="chunked"))
        peer.reset()

    with pytest.raises(BackendError) as caught:
        answered(ask(serve(script), spoken, stream), stream)
    assert caught.value.kind == "connection_lost"


@every_backend
@both_ways
def test_a_web_page(spoken, stream, serve, rig, ask):
    """With status 200; its beginning is told."""
    page = rig.head(content_type="text/html; charset=utf-8", content_length="26")
    server = serve(
        lambda peer: (peer.request(), peer.send(page, "<html>Sign in here!</html>"), peer.request())
    )
    with pytest.raises(BackendError, match="Sign in here!") as caught:
        answered(ask(server, spoken, stream), stream)
    assert caught.value.kind == "protocol_error"


def as_stream(body, spoken):
    """An object as one event or one line, without the end mark."""
    return ndjson(body) if "ndjson" in spoken.content_type else sse(body, "message")


@every_backend
@both_ways
@pytest.mark.parametrize(
    "body",
    [
        {"message": "quota used up"},
        {"choices": None, "base_resp": {"status_code": 1008, "status_msg": "quota used up"}},
        {"choices": [], "base_resp": {"status_code": 1008, "status_msg": "quota used up"}},
    ],
    ids=["message", "base_resp", "base_resp-beside-an-empty-answer"],
)
@pytest.mark.parametrize("end", [b"", b"data: [DONE]\n\n"], ids=["cut", "marked"])
def test_a_body_that_is_no_answer(spoken, stream, body, end, serve, rig, ask):
    """Status 200, and yet a failure, told in the backend's words."""
    head = rig.head(content_type=spoken.content_type, transfer_encoding="chunked")
    sent = head + rig.chunked(as_stream(body, spoken), end) if stream else rig.json_answer(body)
    server = serve(lambda peer: (peer.request(), peer.send(sent), peer.request(), peer.send(sent)))
    with pytest.raises(BackendError, match="quota used up") as caught:
        answered(ask(server, spoken, stream), stream)
    assert (caught.value.kind, caught.value.status_hint) == ("protocol_error", 502)


@every_backend
@pytest.mark.parametrize("honest", [True, False], ids=["said-so", "said-json"])
def test_a_backend_that_streams_although_a_whole_answer_was_asked_for(spoken, honest, serve, rig, ask):
    """Its stream is joined, whatever its headers say."""
    kind = spoken.content_type if honest else "application/json"
    head = rig.head(content_type=kind, transfer_encoding="chunked")
    sent = head + rig.chunked(spoken.token("Hel"), spoken.token("lo"), spoken.end())
    server = serve(lambda peer: (peer.request(), peer.send(sent)))
    assert answered(ask(server, spoken, False), False) == ("Hello", "length")
    assert len(server.requests) == 1


@every_backend
def test_an_error_in_a_stream_that_nobody_asked_for(spoken, serve, rig, ask):
    """Is an error of the whole answer, also behind text."""
    head = rig.head(content_type=spoken.content_type, transfer_encoding="chunked")
    sent = head + rig.chunked(spoken.token("Hel"), spoken.error("out of memory"))
    with pytest.raises(BackendError, match="out of memory"):
        ask(serve(lambda peer: (peer.request(), peer.send(sent))), spoken, False)


@every_backend
@both_ways
def test_a_wrong_address_is_named(spoken, stream, serve, rig, ask):
    """The one that was called, which is not always the one in the file."""
    reply = rig.json_answer({"error": "nothing here"}, "404 Not Found")
    server = serve(lambda peer: (peer.request(), peer.send(reply)))
    with pytest.raises(BackendError) as caught:
        answered(ask(server, spoken, stream), stream)
    path = server.requests[0]["line"].split()[1]
    assert caught.value.message == f"nothing here (POST {server.url}{path})"


PICTURE, ADDRESS, FILE = "data:image/png;base64,iVBORw0KGgo=", "https://h/a.png", "file:///a.png"


@pytest.mark.parametrize(
    ("spoken", "shown"),
    [
        (OpenAi(), [True, True, False]),
        (Completions(), [False, False, False]),
        (OllamaChat(), [True, False, False]),
        (OllamaGenerate(), [True, False, False]),
        (Kobold(), [True, False, False]),
        (Claude(), [True, True, False]),
    ],
    ids=lambda value: getattr(value, "api_type", ""),
)
def test_which_images_the_model_gets_to_see(spoken, shown, configs):
    """Data everywhere but in plain completions; addresses where the server fetches them; files nowhere."""
    configs.endpoint("E", "http://h", spoken.api_type)
    service = LlmApiService("E", None, 99, **configs.given())
    assert [service.can_show(PICTURE), service.can_show(ADDRESS), service.can_show(FILE)] == shown


SAID = "you sent sk-secret and az-secret"


@both_ways
@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("text/html", f"<html>{SAID}"),
        ("application/json", f'"{SAID}"'),
        ("text/event-stream", f"data: {SAID}\n\n"),
    ],
    ids=["page", "json", "events"],
)
def test_no_key_in_words_about_an_unusable_answer(stream, kind, body, serve, rig, ask, caplog):
    """Neither in the error nor in the log."""
    sent = rig.head(content_type=kind, content_length=str(len(body))) + body.encode()
    server = serve(lambda peer: (peer.request(), peer.send(sent), peer.request(), peer.send(sent)))
    fields = {"apiKey": "sk-secret", "extraHeaders": {"api-key": "az-secret"}}
    with pytest.raises(BackendError) as caught:
        answered(ask(server, OpenAi(), stream, **fields), stream)
    assert caught.value.kind == "protocol_error"
    assert "secret" not in str(caught.value) + caplog.text


@every_backend
@pytest.mark.parametrize("after_output", [False, True], ids=["before", "after"])
def test_an_error_inside_a_stream(spoken, after_output, serve, rig, ask):
    """Status 200. Before output it is raised, behind it it is the last dict."""
    head = rig.head(content_type=spoken.content_type, transfer_encoding="chunked")
    events = [spoken.token("Y")] * after_output + [spoken.error("out of memory")]
    answer = ask(serve(lambda peer: (peer.request(), peer.send(head + rig.chunked(*events)))), spoken, True)
    if after_output:
        first, last = answer
        assert (first["token"], last["finish_reason"]) == ("Y", "error")
        assert (last["error"]["kind"], last["error"]["message"]) == ("stream_error", "out of memory")
        return
    with pytest.raises(BackendError) as caught:
        list(answer)
    assert (caught.value.kind, caught.value.message) == ("stream_error", "out of memory")


@every_backend
def test_an_error_as_a_whole_body(spoken, serve, rig, ask):
    """Status 200 as well."""
    body = rig.json_answer({"error": {"message": "out of memory"}})
    with pytest.raises(BackendError, match="out of memory"):
        ask(serve(lambda peer: (peer.request(), peer.send(body))), spoken, False)


@every_backend
@both_ways
def test_too_many_requests(spoken, stream, serve, rig, ask, transport):
    """The time that the server names is waited for, then it is asked again."""
    busy = rig.json_answer({"error": "slow down"}, "429 Too Many Requests", retry_after="7")

    def script(peer):
        peer.request()
        peer.send(busy)
        peer.request()
        peer.send(good(spoken, rig, stream, "ok"))

    assert answered(ask(serve(script), spoken, stream), stream) == ("ok", "length")
    assert transport.pauses == [7.0]


@every_backend
@both_ways
def test_cancelled_before_the_headers(spoken, stream, serve, rig, ask):
    """A clean, empty end while the server holds on, which sees the close; some are told to stop as well."""
    asked, closed = threading.Event(), threading.Event()

    def script(peer):
        request = peer.request()
        if spoken.stop_route and spoken.stop_route in request["line"]:
            peer.send(rig.json_answer({"success": "true"}))
            return
        asked.set()
        if peer.closed():
            closed.set()

    server = serve(script)
    results = []

    def run():
        answer = ask(server, spoken, stream)
        results.append(list(answer) if stream else str(answer))

    rig.cancel(run, asked, "r")
    [result] = results
    assert not result and closed.wait(PATIENCE_S)
    wait_until(lambda: not spoken.stop_route or len(server.requests) == 2)


@every_backend
def test_a_server_that_does_not_stream(spoken, serve, rig, ask):
    """It was asked to, and gives one whole answer."""
    body = rig.json_answer(spoken.whole("Hello"))
    server = serve(lambda peer: (peer.request(), peer.send(body)))
    assert answered(ask(server, spoken, True), True) == ("Hello", "length")


@every_backend
@both_ways
def test_a_server_that_sends_one_byte_at_a_time(spoken, stream, serve, rig, ask):
    """Head, chunk sizes, characters: cut everywhere."""
    data = good(spoken, rig, stream, "Grü", "ße")
    server = serve(lambda peer: (peer.request(), [peer.send(data[i : i + 1]) for i in range(len(data))]))
    assert answered(ask(server, spoken, stream), stream) == ("Grüße", "length")


@every_backend
def test_a_line_that_is_too_long(spoken, serve, rig, ask):
    """20 MB in one line is refused with a clear error, and not kept."""
    head = rig.head(content_type=spoken.content_type, connection="close")
    start = spoken.token("x").split(b'"x"')[0]

    def script(peer):
        peer.request()
        peer.send(head, start + b'"')
        for _ in range(20):
            peer.send(b"x" * 1_000_000)

    with pytest.raises(BackendError, match="longer than 16777216 bytes") as caught:
        list(ask(serve(script), spoken, True))
    assert caught.value.kind == "protocol_error"
