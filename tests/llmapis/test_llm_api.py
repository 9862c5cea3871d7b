"""The service over real sockets: streams, whole answers, cancellation, slots, failover."""

from __future__ import annotations

import json
import logging
import threading
import time
from typing import ClassVar

import pytest

from Middleware.common.errors import BackendError, ConfigError, SlotTimeout
from Middleware.common.instance_global_variables import LaunchFacts, launch_facts, set_launch_facts
from Middleware.common.request_context import RequestContext, enter_request
from Middleware.llmapis import egress
from Middleware.llmapis.call import outgoing_call
from Middleware.llmapis.call.call_arguments import CallArguments
from Middleware.llmapis.llm_api import LlmApiService, LlmText
from Middleware.llmapis.llm_handler import LlmHandler
from Middleware.llmapis.wire import http
from Middleware.services.cancellation_service import cancellation_service
from tests.llmapis.scripts import saying
from tests.patience import PATIENCE_S

HELLO = [{"role": "user", "content": "Hi"}]
STOP = {"token": "", "finish_reason": "stop"}
pytestmark = pytest.mark.usefixtures("transport")


@pytest.fixture
def launched():
    """`launched(concurrency=..., ...)` sets the facts of the process for one test."""
    before = launch_facts()
    yield lambda **facts: set_launch_facts(LaunchFacts(**facts))
    set_launch_facts(before)


@pytest.fixture
def service(configs):
    """`service(name="E", stream=True, preset=None)`; configs are written before."""
    return lambda name="E", stream=True, preset=None: LlmApiService(
        name, preset, 99, stream, **configs.given()
    )


def asking(conversation, request_id=None):
    return CallArguments(conversation, request_id=request_id)


def tokens_of(chunks):
    return "".join(chunk["token"] for chunk in chunks)


@pytest.fixture
def hello(rig):
    return rig.SSE_HEAD + rig.chunked(rig.token("Hel"), rig.token("lo"), rig.DONE)


@pytest.fixture
def whole(rig):
    usage = {"prompt_tokens": 3, "completion_tokens": 2}
    message = {"content": "Hello", "reasoning_content": "hm"}
    return rig.json_answer(
        {"choices": [{"message": message, "finish_reason": "length"}], "model": "m", "usage": usage}
    )


class TestStream:
    def test_dicts_one_by_one(self, serve, configs, service, hello):
        """`get_response_from_llm` of a streaming service; the backend is called by the first `next`."""
        server = serve(saying(hello))
        configs.endpoint(
            "E", server.url, apiKey="k", modelNameToSendToAPI="m1", extraHeaders={"x-a": "b", "ACCEPT": "*/*"}
        )
        answer = service().get_response_from_llm(HELLO)
        assert server.requests == []
        assert list(answer) == [
            {"token": "Hel", "finish_reason": None},
            {"token": "lo", "finish_reason": None},
            STOP,
        ]
        request = server.requests[0]
        assert request["line"] == "POST /v1/chat/completions HTTP/1.1"
        sent = {
            key: request["headers"].get(key) for key in ("authorization", "x-a", "accept", "content-type")
        }
        assert sent == {
            "authorization": "Bearer k",
            "x-a": "b",
            "accept": "*/*",
            "content-type": "application/json",
        }
        assert request["headers"]["user-agent"].startswith("Headrace/")
        assert json.loads(request["body"]) == {
            "model": "m1",
            "messages": HELLO,
            "stream_options": {"include_usage": True},
            "stream": True,
            "max_tokens": 99,
        }

    def test_what_one_read_brought_is_one_batch(self, serve, configs, service, hello):
        """`stream_batches`; the backend has answered when it returns."""
        server = serve(saying(hello))
        configs.endpoint("E", server.url)
        batches = service().stream_batches(asking(HELLO))
        assert len(server.requests) == 1
        assert [tokens_of(batch) for batch in batches] == ["Hello"]

    def test_ticks_while_nothing_comes(self, serve, rig, configs, service, monkeypatch):
        """Empty batches, so that the edge can send its heartbeats."""
        monkeypatch.setattr(http, "TICK_S", 0.02)
        go_on = threading.Event()

        def script(peer):
            peer.request()
            peer.send(rig.SSE_HEAD)
            go_on.wait(PATIENCE_S)
            peer.send(rig.chunked(rig.token("a"), rig.DONE))

        configs.endpoint("E", serve(script).url)
        batches = service().stream_batches(asking(HELLO))
        assert [next(batches), next(batches)] == [[], []]
        go_on.set()
        assert [batch for batch in batches if batch] == [[{"token": "a", "finish_reason": None}, STOP]]

    def test_silence_after_the_finish_reason_ends_it(self, serve, rig, configs, service, monkeypatch):
        """A server that keeps the connection open without an end mark does not hold the answer."""
        monkeypatch.setattr(http, "TICK_S", 0.05)
        server = serve(
            lambda p: (
                p.request(),
                p.send(rig.SSE_HEAD + rig.chunked(rig.token("a", finish_reason="stop"), end=False)),
                p.closed(),
            )
        )
        configs.endpoint("E", server.url)
        assert list(service().get_response_from_llm(HELLO)) == [{"token": "a", "finish_reason": "stop"}]

    def test_ten_streams_one_connection(self, serve, configs, service, hello):
        """The pool is used by every node of every workflow."""
        server = serve(saying(hello))
        configs.endpoint("E", server.url)
        assert [tokens_of(service().get_response_from_llm(HELLO)) for _ in range(10)] == ["Hello"] * 10
        assert server.accepted == 1

    def test_a_break_after_output_is_the_last_dict(self, serve, rig, configs, service):
        """No exception for a client that has text already."""
        configs.endpoint(
            "E", serve(saying(rig.SSE_HEAD + rig.chunked(rig.token("a"), end=False), keep=False)).url
        )
        out = list(service().get_response_from_llm(HELLO))
        assert (out[0]["token"], out[1]["error"]["kind"], len(out)) == ("a", "connection_lost", 2)

    def test_an_error_status_is_raised_before_anything_is_yielded(self, serve, rig, configs, service):
        """So that the client gets a real status."""
        configs.endpoint("E", serve(saying(rig.json_answer({"error": "no such model"}, "404 X"))).url)
        with pytest.raises(BackendError, match="no such model") as caught:
            service().stream_batches(asking(HELLO))
        assert caught.value.kind == "not_found"

    def test_images_only_where_they_are_wanted(self, serve, configs, service, hello):
        """The caller's messages are never changed."""
        server = serve(saying(hello))
        configs.endpoint("E", server.url)
        messages = [{"role": "user", "content": "Hi", "images": ["http://h/x.png"]}]
        for wanted in (False, True):
            list(service().get_response_from_llm(messages, llm_takes_images=wanted))
        assert messages[0]["images"] == ["http://h/x.png"]
        assert [b"x.png" in request["body"] for request in server.requests] == [False, True]

    def test_lone_surrogates_are_replaced(self, serve, configs, service, hello):
        """UTF-8 cannot hold them."""
        server = serve(saying(hello))
        configs.endpoint("E", server.url)
        list(service().get_response_from_llm([{"role": "user", "content": "a\ud800é"}]))
        assert json.loads(server.requests[0]["body"])["messages"][0]["content"] == "a\ufffdé"


class TestWhole:
    def test_text_that_knows_how_it_ended(self, serve, configs, service, whole):
        """A `str` with facts."""
        configs.endpoint("E", serve(saying(whole)).url)
        answer = service(stream=False).get_response_from_llm(HELLO)
        assert answer == "Hello"
        assert isinstance(answer, LlmText)
        assert (answer.finish_reason, answer.thinking, answer.model) == ("length", "hm", "m")
        assert answer.usage["total_tokens"] == 5

    def test_reasoning_in_the_text_is_split_as_in_a_stream(self, serve, rig, configs, service):
        """`reasoningParser` serves both."""
        reply = rig.json_answer({"choices": [{"message": {"content": "<think>hm</think>yes"}}]})
        configs.endpoint("E", serve(saying(reply)).url, reasoningParser="think")
        answer = service(stream=False).get_response_from_llm(HELLO)
        assert (answer, answer.thinking) == ("yes", "hm")

    @pytest.mark.parametrize("tool_calls", [False, True])
    def test_a_backend_that_always_streams(self, serve, rig, configs, service, tool_calls):
        """`backendStream`: the stream is joined to the same value."""
        call = {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        last = (
            f'data: {{"choices":[{{"delta":{{"tool_calls":[{json.dumps(call)}]}}}}]}}\n\n'
            if tool_calls
            else ""
        )
        server = serve(saying(rig.SSE_HEAD + rig.chunked(rig.token("Hel"), rig.token("lo") + last, rig.DONE)))
        configs.endpoint("E", server.url, backendStream="always")
        answer = service(stream=False).get_response_from_llm(HELLO)
        assert json.loads(server.requests[0]["body"])["stream"] is True
        if tool_calls:
            del call["index"]
            assert answer == {"content": "Hello", "tool_calls": [call], "finish_reason": "tool_calls"}
        else:
            assert (answer, answer.finish_reason) == ("Hello", "stop")

    def test_an_error_in_such_a_stream_is_raised(self, serve, rig, configs, service):
        """Half an answer is none."""
        server = serve(
            saying(rig.SSE_HEAD + rig.chunked(rig.token("a"), 'data: {"error":"x"}\n\n'), keep=False)
        )
        configs.endpoint("E", server.url, backendStream="always")
        with pytest.raises(BackendError) as caught:
            service(stream=False).get_response_from_llm(HELLO)
        assert caught.value.kind == "stream_error"

    @pytest.mark.parametrize("arguments", ['{"a": 1,}', "[1]"])
    def test_a_bad_call_in_such_a_stream_is_asked_for_twice(self, serve, rig, configs, service, arguments):
        """Nothing of it has reached the client, however it came."""

        def reply(text):
            call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": text}}
            delta = json.dumps({"choices": [{"delta": {"tool_calls": [call]}}]})
            return rig.SSE_HEAD + rig.chunked(rig.token("a"), f"data: {delta}\n\n", rig.DONE)

        replies = iter([reply(arguments), reply("{}")])
        server = serve(lambda peer: [peer.send(next(replies)) for _ in iter(peer.request, None)])
        configs.endpoint("E", server.url, backendStream="always")
        answer = service(stream=False).get_response_from_llm(HELLO)
        assert (answer["tool_calls"][0]["function"]["arguments"], len(server.requests)) == ("{}", 2)
        bad = serve(saying(reply(arguments)))
        configs.endpoint("F", bad.url, backendStream="always")
        with pytest.raises(BackendError, match="not a JSON object"):
            service("F", stream=False).get_response_from_llm(HELLO)
        assert len(bad.requests) == 2

    BAD: ClassVar = {
        "cut": lambda rig: rig.head(content_length="99") + b"{",
        "no-json": lambda rig: rig.head(content_length="4") + b"nope",
        "no-object": lambda rig: rig.head(content_length="2") + b"[]",
        "a-page": lambda rig: rig.head(content_length="6", content_type="text/html") + b"<html>",
        "a-page-with-data": lambda rig: (
            rig.head(connection="close", content_type="text/html; charset=utf-8")
            + (rig.token("Hello") + rig.DONE).encode()
        ),
    }

    @pytest.mark.parametrize("name", BAD)
    def test_a_bad_body_is_asked_for_twice(self, serve, rig, configs, service, whole, name):
        """Then the answer is good, or it is an error."""
        replies = iter([self.BAD[name](rig), whole])
        server = serve(lambda peer: (peer.request(), peer.send(next(replies))))
        configs.endpoint("E", server.url)
        assert service(stream=False).get_response_from_llm(HELLO) == "Hello"
        bad = serve(saying(self.BAD[name](rig), keep=False))
        configs.endpoint("F", bad.url)
        with pytest.raises(BackendError) as caught:
            service("F", stream=False).get_response_from_llm(HELLO)
        assert caught.value.kind in ("connection_lost", "protocol_error")
        assert len(bad.requests) == 2

    def test_a_body_above_the_limit(self, serve, rig, configs, service, monkeypatch):
        """Is the backend's fault, not the client's; it is told with the number, and not asked for again."""
        monkeypatch.setattr(outgoing_call, "MAX_WHOLE_BYTES", 50)
        server = serve(saying(rig.json_answer({"choices": [{"message": {"content": "x" * 60}}]}), keep=False))
        configs.endpoint("E", server.url)
        with pytest.raises(BackendError, match="longer than 50 bytes") as caught:
            service(stream=False).get_response_from_llm(HELLO)
        assert (caught.value.kind, caught.value.status_hint) == ("backend_error", 502)
        assert len(server.requests) == 1

    def test_a_body_of_another_shape(self, serve, rig, configs, service):
        """Is asked for once more, and then an error."""
        server = serve(saying(rig.json_answer({"x": 1})))
        configs.endpoint("E", server.url)
        with pytest.raises(BackendError) as caught:
            service(stream=False).get_response_from_llm(HELLO)
        assert caught.value.kind == "protocol_error"
        assert len(server.requests) == 2

    def test_an_api_type_may_ask_for_streams(self, serve, configs, service, hello):
        """As the one for llama.cpp does; the endpoint has the last word."""
        server = serve(saying(hello))
        configs.endpoint("E", server.url, "LlamaCppServer")
        assert service(stream=False).get_response_from_llm(HELLO) == "Hello"
        body = json.loads(server.requests[0]["body"])
        assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True})
        configs.endpoint("E", server.url, "LlamaCppServer", backendStream="asRequested")
        assert service(stream=False).handler.settings.stream is False

    def test_stream_options_that_are_refused_are_left_out(self, serve, rig, configs, service, hello):
        """The answer is worth more than its numbers."""
        refusal = rig.json_answer({"detail": "stream_options: extra inputs are not permitted"}, "422 X")

        def script(peer):
            while request := peer.request():
                peer.send(refusal if b"stream_options" in request["body"] else hello)

        configs.endpoint("E", serve(script).url)
        assert tokens_of(service().get_response_from_llm(HELLO)) == "Hello"

    def test_which_images_can_be_shown(self, configs, service):
        """Servers that take data only are sent no address."""
        configs.endpoint("E", "http://h", "OllamaApiChat")
        assert not service().can_show("https://h/a.png")
        assert service().can_show("aGVsbG8=")

    def test_an_error_with_status_200(self, serve, rig, configs, service):
        """Is an error."""
        configs.endpoint("E", serve(saying(rig.json_answer({"error": {"message": "m"}}))).url)
        with pytest.raises(BackendError, match="m") as caught:
            service(stream=False).get_response_from_llm(HELLO)
        assert caught.value.kind == "stream_error"

    def test_an_amended_request(self, serve, rig, configs, service):
        """Claude models that refuse a prefill are asked once more, without it."""
        good = {"content": [{"type": "text", "text": "ok"}], "stop_reason": "end_turn"}
        refused = rig.json_answer(
            {"error": {"message": "does not support assistant message prefill"}}, "400 X"
        )
        replies = iter([refused, rig.json_answer(good)])

        def script(peer):
            while peer.request():
                peer.send(next(replies))

        server = serve(script)
        configs.endpoint("E", server.url, "Claude")
        conversation = [*HELLO, {"role": "assistant", "content": "I"}]
        assert service(stream=False).get_response_from_llm(conversation) == "ok"
        assert json.loads(server.requests[1]["body"])["messages"][-1]["role"] == "user"


class TestCancellation:
    @pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
    def test_in_prefill(self, serve, rig, configs, service, stream):
        """A clean, empty end while the server still holds on, no failover, and the server sees the close."""
        server = serve(script := rig.Holding())
        backup = serve(saying())
        configs.endpoint("E", server.url, backupEndpointName="B")
        configs.endpoint("B", backup.url)
        results = []

        def run():
            answer = service(stream=stream).get_response_from_llm(HELLO, request_id="prefill")
            results.append(list(answer) if stream else answer)

        rig.cancel(run, script.asked, "prefill")
        assert results == [[] if stream else ""]
        assert script.closed.wait(PATIENCE_S)
        assert (len(server.requests), backup.requests) == (1, [])

    def test_in_the_stream(self, serve, rig, configs, service):
        """It just ends: no finishing dict."""
        server = serve(rig.Holding(rig.SSE_HEAD, rig.chunked(rig.token("a"), end=False)))
        configs.endpoint("E", server.url)
        answer = service().get_response_from_llm(HELLO, request_id="streaming")
        assert next(answer)["token"] == "a"
        cancellation_service.request_cancellation("streaming")
        assert list(answer) == []
        cancellation_service.acknowledge_cancellation("streaming")

    @pytest.mark.parametrize("how", ["close", "drop", "service"])
    def test_closing_the_stream_stops_the_backend(self, serve, rig, configs, service, how):
        """Also when nothing was pulled."""
        script = rig.Holding(rig.SSE_HEAD, rig.chunked(rig.token("a"), end=False))
        configs.endpoint("E", serve(script).url)
        made = service()
        batches = made.stream_batches(asking(HELLO))
        assert made.is_busy()
        if how == "close":
            batches.close()
        elif how == "service":
            made.close()
            assert list(batches) == []
        else:
            made = batches = None
        assert script.closed.wait(PATIENCE_S)
        assert made is None or not made.is_busy()

    def test_closing_from_another_thread(self, serve, rig, configs, service):
        """The thread that waits for bytes wakes up and finds the end."""
        server = serve(rig.Holding(rig.SSE_HEAD))
        configs.endpoint("E", server.url)
        batches, results = service().stream_batches(asking(HELLO)), []
        thread = threading.Thread(target=lambda: results.append([b for b in batches if b]))
        thread.start()
        while not batches._batches._is_pulled:
            time.sleep(0.001)
        batches.close()
        thread.join(PATIENCE_S)
        assert results == [[]]

    def test_kobold_gets_its_abort_call(self, serve, rig, configs, service):
        """In the background, after the socket was shut."""
        aborted = threading.Event()

        def script(peer):
            request = peer.request()
            if "abort" in request["line"]:
                peer.send(rig.json_answer({"success": "true"}))
                aborted.set()
                return
            peer.send(rig.head(version="1.0") + b'event: message\ndata: {"token":"a"}\n\n')
            peer.closed()

        server = serve(script)
        configs.endpoint("E", server.url, "KoboldCpp")
        answer = service().get_response_from_llm(prompt="Hi", request_id="kobold")
        assert next(answer)["token"] == "a"
        cancellation_service.request_cancellation("kobold")
        assert list(answer) == []
        assert aborted.wait(PATIENCE_S)
        cancellation_service.acknowledge_cancellation("kobold")

    def test_an_abort_call_that_fails_is_nobodys_problem(self, serve, rig, configs, service, caplog):
        """A line at DEBUG."""
        caplog.set_level(logging.DEBUG, outgoing_call.__name__)
        refused = threading.Event()

        def script(peer):
            request = peer.request()
            if "abort" in request["line"]:
                peer.send(rig.json_answer({}, "404 X"))
                refused.set()
                return
            peer.send(rig.head(version="1.0") + b'event: message\ndata: {"token":"a"}\n\n')
            peer.closed()

        configs.endpoint("E", serve(script).url, "KoboldCpp")
        answer = service().get_response_from_llm(prompt="Hi")
        next(answer)
        answer.close()
        assert refused.wait(PATIENCE_S)
        [thread.join(PATIENCE_S) for thread in threading.enumerate() if thread.name == "backend-abort"]
        assert "did not accept the abort call" in caplog.text

    def test_callbacks_do_not_pile_up(self, serve, configs, service, hello, whole):
        """A call that ended by itself leaves nothing in the registry, and does not touch its neighbours."""
        configs.endpoint("E", serve(saying(hello)).url)
        configs.endpoint("F", serve(saying(whole)).url)
        others = []
        cancellation_service.register_abort_callback("many", lambda: others.append(1))
        list(service().get_response_from_llm(HELLO, request_id="many"))
        service("F", stream=False).get_response_from_llm(HELLO, request_id="many")
        assert len(cancellation_service._callbacks["many"]) == 1
        cancellation_service.request_cancellation("many")
        cancellation_service.acknowledge_cancellation("many")
        assert others == [1]

    def test_before_the_call(self, serve, configs, service):
        """Nothing is sent."""
        server = serve(saying())
        configs.endpoint("E", server.url)
        cancellation_service.request_cancellation("early")
        assert list(service().stream_batches(asking(HELLO, "early"))) == []
        assert service(stream=False).get_response_from_llm(HELLO, request_id="early") == ""
        cancellation_service.acknowledge_cancellation("early")
        assert server.requests == []


class TestSlots:
    def test_the_process_gate_times_out(self, serve, rig, configs, service, launched):
        """A `TimeoutError` that names seconds and limit; no failover."""
        launched(concurrency=1, concurrency_level="endpoint", concurrency_timeout_s=0.05)
        server = serve(rig.Holding(rig.SSE_HEAD, rig.chunked(rig.token("a"), end=False)))
        configs.endpoint("E", server.url, backupEndpointName="B")
        configs.endpoint("B", server.url)
        first = service().stream_batches(asking(HELLO))
        for stream in (True, False):
            with pytest.raises(TimeoutError, match=r"0.05 s \(limit 1\)") as caught:
                made = service(stream=stream)
                list(made.get_response_from_llm(HELLO))
            assert isinstance(caught.value, SlotTimeout)
        first.close()
        service().stream_batches(asking(HELLO)).close()
        assert len(server.requests) == 2

    @pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
    def test_a_time_out_in_the_line_is_no_failure_of_the_backend(
        self, serve, rig, configs, service, launched, hello, stream
    ):
        """No backup takes over: it would only make a second line."""
        launched(concurrency_timeout_s=0.05)
        held = rig.SSE_HEAD + rig.chunked(rig.token("a"), end=False)
        first = serve(lambda peer: (peer.request(), peer.send(held), peer.closed()))
        backup = serve(saying(hello))
        configs.endpoint("E", first.url, maxConcurrentRequests=1, backupEndpointName="B")
        configs.endpoint("B", backup.url)
        holder = service().stream_batches(asking(HELLO))
        with pytest.raises(SlotTimeout):
            list(service(stream=stream).get_response_from_llm(HELLO))
        holder.close()
        assert (len(first.requests), backup.requests) == (1, [])

    def test_an_endpoint_of_its_own(self, serve, rig, configs, service, launched):
        """`maxConcurrentRequests` counts for that endpoint only; a cancelled waiter leaves with an empty answer."""
        launched(concurrency_timeout_s=5.0)
        server = serve(rig.Holding(rig.SSE_HEAD, rig.chunked(rig.token("a"), end=False)))
        configs.endpoint("E", server.url, maxConcurrentRequests=1)
        configs.endpoint("F", server.url)
        first = service().stream_batches(asking(HELLO))
        service("F").stream_batches(asking(HELLO)).close()
        results = []

        def wait_in_line(stream):
            answer = service(stream=stream).get_response_from_llm(HELLO, request_id="waits")
            results.append(list(answer))

        threads = [threading.Thread(target=wait_in_line, args=(stream,)) for stream in (True, False)]
        for thread in threads:
            thread.start()
        cancellation_service.request_cancellation("waits")
        for thread in threads:
            thread.join(PATIENCE_S)
        cancellation_service.acknowledge_cancellation("waits")
        first.close()
        assert results == [[], []]

    def test_a_stream_that_is_cancelled_in_the_line_is_over(self, serve, rig, configs, service, launched):
        """At once, before anybody pulls it."""
        launched(concurrency_timeout_s=PATIENCE_S)
        server = serve(rig.Holding(rig.SSE_HEAD, rig.chunked(rig.token("a"), end=False)))
        configs.endpoint("E", server.url, maxConcurrentRequests=1)
        first, made, streams = service().stream_batches(asking(HELLO)), service(), []
        waits = asking(HELLO, "waits")
        thread = threading.Thread(target=lambda: streams.append(made.stream_batches(waits)))
        thread.start()
        cancellation_service.request_cancellation("waits")
        thread.join(PATIENCE_S)
        cancellation_service.acknowledge_cancellation("waits")
        assert not made.is_busy()
        assert list(streams[0]) == [] and len(server.requests) == 1
        first.close()


def public_answers(monkeypatch, addresses):
    monkeypatch.setattr(
        egress.socket, "getaddrinfo", lambda *a: [(0, 0, 0, "", (address, 0)) for address in addresses]
    )


class TestFailover:
    @pytest.fixture
    def pair(self, serve, rig, configs, hello, whole):
        """`pair(first_reply, **fields of the backup)`: endpoint E fails over to B, which answers well."""

        def make(reply, **fields):
            self.first = serve(saying(reply, keep=False))
            stream = rig.SSE_HEAD in hello

            def good(peer):
                while request := peer.request():
                    peer.send(hello if stream and b'"stream": true' in request["body"] else whole)

            self.second = serve(good)
            configs.endpoint("E", self.first.url, backupEndpointName="B")
            configs.endpoint("B", self.second.url, **fields)

        return make

    FAULTS: ClassVar = {
        "status": lambda rig: rig.json_answer({}, "503 X"),
        "client-error": lambda rig: rig.json_answer({}, "401 X"),
        "no-answer": lambda rig: b"",
        "empty-stream": lambda rig: rig.SSE_HEAD + rig.chunked(": hi\n\n"),
        "error-in-stream": lambda rig: rig.SSE_HEAD + rig.chunked(rig.token(""), 'data: {"error":"x"}\n\n'),
        "cut-before-output": lambda rig: rig.SSE_HEAD + rig.chunked(rig.token(""), end=False),
        "page": lambda rig: rig.head(content_type="text/html", content_length="3") + b"<a>",
        "unknown-shape": lambda rig: rig.json_answer({"x": 1}),
    }

    @pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
    @pytest.mark.parametrize("fault", FAULTS)
    def test_any_failure_before_output(self, rig, pair, service, caplog, fault, stream):
        """The backup answers; one attempt at the first, one WARN with both names."""
        pair(self.FAULTS[fault](rig))
        answer = service(stream=stream).get_response_from_llm(HELLO)
        assert (tokens_of(answer) if stream else answer) == "Hello"
        assert len(self.first.requests) == 1
        hops = [record.getMessage() for record in caplog.records if "the backup" in record.getMessage()]
        assert len(hops) == 1
        assert "'E'" in hops[0]
        assert "'B'" in hops[0]

    def test_not_after_output(self, rig, pair, service):
        """A token, a thought or a tool call is the point of no return."""
        pair(rig.SSE_HEAD + rig.chunked(rig.token("a"), end=False))
        out = list(service().get_response_from_llm(HELLO))
        assert (out[0]["token"], out[-1]["finish_reason"]) == ("a", "error")
        assert self.second.requests == []

    def test_a_fault_of_ours_fails_over_too(self, rig, pair, service, monkeypatch):
        """Payload building is part of the call."""
        pair(b"")
        made = service()

        def broken(call):
            raise KeyError("payload")

        monkeypatch.setattr(made.handler, "stream_batches", broken)
        assert tokens_of(made.get_response_from_llm(HELLO)) == "Hello"

    def test_a_late_fault_of_ours_goes_on(self, rig, configs, serve, service, monkeypatch, caplog):
        """With an ERROR, after output."""
        configs.endpoint("E", serve(saying(b"")).url, backupEndpointName="B")
        made = service()

        def broken(call):
            yield [{"token": "a", "finish_reason": None}]
            raise KeyError("late")

        monkeypatch.setattr(made.handler, "stream_batches", broken)
        batches = made.stream_batches(asking(HELLO))
        next(batches)
        with pytest.raises(KeyError):
            next(batches)
        assert "after output had begun" in caplog.text
        assert list(batches) == []

    def test_the_original_arguments_and_the_backups_own_preset(self, rig, serve, configs, service, hello):
        """The caller's messages, and samplers looked up for the backup's own API type."""
        first, second = serve(saying(rig.json_answer({}, "500 X"))), serve(saying(hello))
        configs.endpoint("E", first.url, backupEndpointName="B", backupPresetName="q")
        configs.endpoint("B", second.url, "LlamaCppServer", dontIncludeModel=True)
        configs.preset("OpenAiCompatibleApis", "p", temperature=1)
        configs.preset("LlamaCppServer", "q", min_p=0.5)
        list(service(preset="p").get_response_from_llm(HELLO))
        assert json.loads(second.requests[0]["body"]) == {
            "messages": HELLO,
            "min_p": 0.5,
            "stream_options": {"include_usage": True},
            "stream": True,
            "n_predict": 99,
        }

    def test_across_shapes_the_prompt_is_formed_again(self, rig, serve, configs, service):
        """A chat endpoint may have a flat backup."""
        first = serve(saying(rig.json_answer({}, "500 X")))
        second = serve(
            saying(rig.head(version="1.0") + b'event: message\ndata: {"token":"ok"}\n\n', keep=False)
        )
        configs.endpoint("E", first.url, backupEndpointName="B")
        configs.endpoint("B", second.url, "KoboldCpp")
        shapes = []

        def rebuild(_, backup):
            shapes.append(backup.takes_messages)
            return CallArguments(system_prompt="S ", prompt="P")

        batches = service().stream_batches(CallArguments(HELLO, rebuild=rebuild))
        assert tokens_of(chunk for batch in batches for chunk in batch) == "ok"
        assert shapes == [False]
        assert json.loads(second.requests[0]["body"])["prompt"] == "S P"

    def test_a_chain_of_any_length(self, rig, serve, configs, service, hello):
        """The last one answers."""
        bad, good = serve(saying(rig.json_answer({}, "500 X"))), serve(saying(hello))
        for name, backup in (("E", "F"), ("F", "G"), ("G", "H")):
            configs.endpoint(name, bad.url, backupEndpointName=backup)
        configs.endpoint("H", good.url)
        assert tokens_of(service().get_response_from_llm(HELLO)) == "Hello"
        assert len(bad.requests) == 3

    def test_if_all_fail_the_last_error_is_raised(self, rig, serve, configs, service):
        """With its own name."""
        configs.endpoint("E", serve(saying(rig.json_answer({}, "500 X"))).url, backupEndpointName="B")
        configs.endpoint("B", serve(saying(rig.json_answer({}, "401 X"))).url)
        with pytest.raises(BackendError, match="endpoint 'B' answered 401"):
            service(stream=False).get_response_from_llm(HELLO)

    @pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
    def test_a_circle(self, rig, serve, configs, service, stream):
        """Is an error that names all."""
        bad = serve(saying(rig.json_answer({}, "500 X")))
        configs.endpoint("E", bad.url, backupEndpointName="B")
        configs.endpoint("B", bad.url, backupEndpointName="E")
        with pytest.raises(RuntimeError, match="B, E"):
            list(service(stream=stream).get_response_from_llm(HELLO))

    def test_a_public_backup_is_not_called(self, rig, serve, configs, service):
        """Unless its own file allows it."""
        configs.endpoint("E", serve(saying(rig.json_answer({}, "500 X"))).url, backupEndpointName="B")
        configs.endpoint("B", "http://8.8.8.8:1")
        with pytest.raises(RuntimeError, match="allowRemoteBackup"):
            list(service().get_response_from_llm(HELLO))

    def test_a_public_backup_that_is_allowed(self, rig, pair, service, monkeypatch, caplog):
        """Is called, with a WARN, at the address that was looked at."""
        pair(rig.json_answer({}, "500 X"), allowRemoteBackup=True)
        monkeypatch.setattr(
            "Middleware.llmapis.failover.place_of", lambda url: egress.EgressTarget("remote", ("127.0.0.1",))
        )
        assert tokens_of(service().get_response_from_llm(HELLO)) == "Hello"
        assert "public host" in caplog.text

    def test_a_backup_whose_place_is_unknown(self, rig, pair, service, monkeypatch, caplog):
        """Is called, with a WARN."""
        pair(rig.json_answer({}, "500 X"))
        monkeypatch.setattr(
            "Middleware.llmapis.failover.place_of", lambda url: egress.EgressTarget("unknown")
        )
        assert tokens_of(service().get_response_from_llm(HELLO)) == "Hello"
        assert "not known on which host" in caplog.text

    def test_the_address_that_was_checked_is_the_one_that_is_called(
        self, rig, pair, configs, service, monkeypatch
    ):
        """A name that answers differently the second time cannot lead elsewhere."""
        pair(rig.json_answer({}, "500 X"))
        configs.endpoint("B", f"http://llm.invalid:{self.second.port}")
        monkeypatch.setattr(
            "Middleware.llmapis.failover.place_of", lambda url: egress.EgressTarget("local", ("127.0.0.1",))
        )
        assert tokens_of(service().get_response_from_llm(HELLO)) == "Hello"

    def test_a_failure_in_the_stream_that_cannot_be_mended(self, rig, serve, configs, service):
        """The backup's own failure is raised by the iteration."""
        configs.endpoint(
            "E", serve(saying(rig.SSE_HEAD + rig.chunked(": x\n\n"))).url, backupEndpointName="B"
        )
        configs.endpoint("B", serve(saying(rig.json_answer({}, "401 X"))).url)
        batches = service().stream_batches(asking(HELLO))
        with pytest.raises(BackendError, match="401"):
            list(batches)
        assert list(batches) == []

    @pytest.mark.parametrize(
        "behind", [[], [{"token": "", "finish_reason": None}]], ids=["tick", "nothing-visible"]
    )
    def test_what_has_been_seen_stays_seen(self, pair, service, monkeypatch, behind):
        """The backup would begin the answer again: it isn't asked, whatever came behind the first word."""
        pair(b"")
        made = service()

        def broken(call):
            yield [{"token": "Hel", "finish_reason": None}]
            yield behind
            raise BackendError("E", "connection_lost", "lost")

        monkeypatch.setattr(made.handler, "stream_batches", broken)
        batches = made.stream_batches(asking(HELLO))
        assert [next(batches), next(batches)] == [[{"token": "Hel", "finish_reason": None}], behind]
        with pytest.raises(BackendError, match="lost"):
            next(batches)
        assert self.second.requests == []

    @pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
    def test_a_cancelled_call_never_moves_on(self, configs, pair, service, monkeypatch, stream):
        """Whatever exception comes out of it."""
        pair(b"")
        made = service(stream=stream)

        def broken(call):
            cancellation_service.request_cancellation("odd")
            raise AttributeError("closed under my feet")

        for name in ("stream_batches", "handle_non_streaming"):
            monkeypatch.setattr(made.handler, name, broken)
        assert list(made.get_response_from_llm(HELLO, request_id="odd")) == []
        cancellation_service.acknowledge_cancellation("odd")
        assert self.second.requests == []

    def test_a_cancelled_call_without_a_backup_is_no_failure(self, configs, serve, service, monkeypatch):
        """Though an exception came out of it."""
        configs.endpoint("E", serve(saying(b"")).url)
        made = service(stream=False)

        def broken(call):
            cancellation_service.request_cancellation("odd")
            raise AttributeError("closed under my feet")

        monkeypatch.setattr(made.handler, "handle_non_streaming", broken)
        assert made.get_response_from_llm(HELLO, request_id="odd") == ""
        cancellation_service.acknowledge_cancellation("odd")

    def test_nor_in_the_middle_of_a_stream(self, pair, service, monkeypatch):
        """The same while it is being pulled."""
        pair(b"")
        made = service()

        def broken(call):
            yield []
            cancellation_service.request_cancellation("odd")
            raise ValueError("closed under my feet")

        monkeypatch.setattr(made.handler, "stream_batches", broken)
        assert list(made.stream_batches(asking(HELLO, "odd"))) == [[]]
        cancellation_service.acknowledge_cancellation("odd")
        assert self.second.requests == []


class TestConfigs:
    def test_an_embeddings_endpoint_cannot_answer(self, configs, service):
        """Said before the preset is looked for."""
        configs.endpoint("E", "http://h", "OpenAI-Embeddings")
        with pytest.raises(ConfigError, match='"E" is for embeddings'):
            service(preset="missing")

    def test_an_unknown_type(self, configs, service):
        """Names the type, and the file that holds it."""
        configs._write("ApiTypes/Odd.json", {"type": "odd"})
        configs.endpoint("E", "http://h", "Odd")
        with pytest.raises(ValueError, match="Unsupported LLM type: odd") as caught:
            service()
        assert isinstance(caught.value, ConfigError)
        assert str(caught.value).startswith("ApiTypes/Odd.json: type: Unsupported LLM type: odd. Known: ")

    def test_samplers_are_translated_and_appended_to(self, configs, service):
        """Embedded samplers speak the canonical names."""
        configs.preset("LlamaCppServer", "more", top_k=3)
        configs.endpoint(
            "E",
            "http://h",
            "LlamaCppServer",
            presetSamplers={"temperature": 0.5, "top_k": 9},
            appendPresetName="more",
        )
        assert service().handler.settings.samplers == {"temperature": 0.5, "top_k": 3}

    @pytest.mark.parametrize(
        ("fields", "timeouts"),
        [({}, (30.0, 14400.0)), ({"connectTimeoutInSeconds": 0.2, "readTimeoutInSeconds": 7}, (1.0, 7.0))],
    )  # fmt: skip
    def test_time_outs(self, configs, service, fields, timeouts):
        """The endpoint's, the user's, the defaults."""
        configs.endpoint("E", "http://h", **fields)
        settings = service().handler.settings
        assert (settings.connect_timeout_s, settings.read_timeout_s) == timeouts

    def test_the_current_request_says_whose_configs(self, serve, configs, hello):
        """User, snapshot and request id are the request's when they are not given."""
        configs.endpoint("E", serve(saying(hello)).url)
        told = []
        request = RequestContext(
            "r1", "u", "openai", snapshot=configs.given()["snapshot"], setup_done=lambda: told.append(1)
        )
        with enter_request(request):
            made = LlmApiService("E", None, 5, True)
            cancellation_service.request_cancellation("r1")
            assert list(made.get_response_from_llm(HELLO)) == []
            cancellation_service.acknowledge_cancellation("r1")
            assert tokens_of(made.get_response_from_llm(HELLO)) == "Hello"
        assert (made.user.name, told) == ("u", [1])

    @pytest.mark.parametrize("users", [("u",), ()], ids=["one-user", "pointer-file"])
    def test_without_a_request(self, configs, launched, users):
        """The process's only user, else the one of the pointer file."""
        configs.endpoint("E", "http://h")
        configs._write("Users/_current-user.json", {"currentUser": "u"})
        launched(config_directory=configs.root, users=users)
        assert LlmApiService("E", None, 5).user.name == "u"

    def test_the_model_of_a_node(self, configs, service):
        """LlmHandler is a value around the service."""
        configs.endpoint("E", "http://h")
        made = service()
        handler = LlmHandler(made, {}, True, made.endpoint.type, made.takes_messages)
        assert (handler.takes_message_collection, handler.llm_type) == (True, "openAIChatCompletion")


class TestLogs:
    def test_one_line_a_call(self, serve, rig, configs, service, hello, whole, caplog):
        """Endpoint, type, model, tries, times, ending, usage; never a text."""
        caplog.set_level(logging.INFO)
        configs.endpoint("E", serve(saying(hello)).url, modelNameToSendToAPI="m1")
        configs.endpoint("F", serve(saying(whole)).url)
        list(service().get_response_from_llm(HELLO))
        service("F", stream=False).get_response_from_llm(HELLO)
        lines = [record.getMessage() for record in caplog.records]
        assert len(lines) == 2
        assert lines[0].startswith(
            "endpoint 'E' (Open-AI-API, model 'm1', stream on, tries 1): first token 0."
        )
        assert lines[0].endswith("ended stop, usage -")
        assert "ended length, usage {'prompt_tokens': 3" in lines[1]

    @pytest.mark.parametrize("private", [False, True])
    def test_payloads_only_at_debug(self, serve, configs, service, hello, caplog, private):
        """With data shortened, and not for a private request."""
        caplog.set_level(logging.DEBUG, outgoing_call.__name__)
        configs.endpoint("E", serve(saying(hello)).url)
        messages = [{"role": "user", "content": "my words", "images": ["data:image/png;base64," + "A" * 400]}]
        with enter_request(RequestContext("r", "u", "openai", privacy=private)):
            list(service().get_response_from_llm(messages, llm_takes_images=True))
        assert ("my words" in caplog.text) is not private
        assert "AAAA" not in caplog.text

    def test_long_texts_of_payloads_are_shortened(self, serve, configs, service, hello, caplog):
        """100 characters at each end; every other text is whole."""
        caplog.set_level(logging.DEBUG, outgoing_call.__name__)
        configs.endpoint("E", serve(saying(hello)).url)
        long = "a" * 100 + 'b"' * 500 + "c" * 100
        messages = [{"role": "system", "content": "so " * 333}, {"role": "user", "content": long}]
        list(service().get_response_from_llm(messages))
        assert f'"{"a" * 100}...{"c" * 100}"' in caplog.text
        assert f'"{"so " * 333}"' in caplog.text

    def test_a_dropped_stream_still_has_its_line(self, serve, configs, service, hello, caplog):
        """`__del__` cleans up."""
        caplog.set_level(logging.INFO, "Middleware.llmapis.call.call_log")
        configs.endpoint("E", serve(saying(hello)).url)
        service().stream_batches(asking(HELLO))
        assert "ended closed" in caplog.text


def test_nothing_leaks(serve, rig, configs, service, hello):
    """200 streams at once; threads and sockets are back to what they were."""
    gate = threading.Barrier(201)
    server = serve(
        lambda peer: (
            peer.request(),
            peer.send(rig.SSE_HEAD, rig.chunked(rig.token("Hel"), end=False)),
            gate.wait(PATIENCE_S),
            peer.send(rig.chunked(rig.token("lo"), rig.DONE)),
        )
    )
    configs.endpoint("E", server.url)
    made = service()
    before = set(threading.enumerate())
    results = []
    clients = [
        threading.Thread(target=lambda: results.append(tokens_of(made.get_response_from_llm(HELLO))))
        for _ in range(200)
    ]
    for client in clients:
        client.start()
    gate.wait(PATIENCE_S)
    for client in clients:
        client.join(PATIENCE_S)
    for thread in server._threads:
        thread.join(PATIENCE_S)
    assert results == ["Hello"] * 200
    assert not made.is_busy()
    further = [thread.name for thread in threading.enumerate() if thread not in before]
    assert set(further) <= {"idle-connections"}  # which closes the ones that are kept
