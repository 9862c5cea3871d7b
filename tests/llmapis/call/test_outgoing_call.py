"""How one call ends: in its log line, for who waits for its bytes, and for those who observe its run."""

from __future__ import annotations

import json
import logging
import threading
from typing import ClassVar

import pytest

from Middleware.common.errors import BackendError, RequestCancelled
from Middleware.llmapis.call import outgoing_call
from Middleware.llmapis.call.call_arguments import CallArguments
from Middleware.llmapis.call.outgoing_call import OutgoingCall
from Middleware.llmapis.dialects.loop_turns import refusing_thoughts
from Middleware.llmapis.llm_api import LlmApiService
from Middleware.llmapis.wire import http
from Middleware.services.cancellation_service import cancellation_service
from Middleware.services.node_trace import NodeTrace
from Middleware.services.run_trace import Observers
from tests.llmapis.scripts import saying
from tests.patience import PATIENCE_S

HELLO = [{"role": "user", "content": "Hi"}]


@pytest.fixture(autouse=True)
def own_transport(monkeypatch):
    made = http.Transport(pause=lambda handle, seconds: None)
    monkeypatch.setattr(outgoing_call, "default_transport", lambda: made)
    yield
    made.close()


@pytest.fixture
def service(configs):
    return lambda stream=True: LlmApiService("E", None, 99, stream, **configs.given())


def endings(caplog):
    """The last word of each call's line."""
    lines = [record.getMessage() for record in caplog.records]
    return [line.partition("ended ")[2].partition(",")[0] for line in lines if "ended " in line]


@pytest.mark.parametrize(
    ("failure", "ending"),
    [
        (RequestCancelled(), "cancelled"),
        (BackendError("E", "timeout", "slow"), "timeout"),
        (ValueError("odd"), "ValueError"),
        (KeyboardInterrupt(), "closed"),
        (GeneratorExit(), "closed"),
    ],
    ids=repr,
)
def test_a_failure_ends_the_call_and_goes_on(make_handler, caplog, failure, ending):
    """Whatever it is. A cancellation that comes later finds nothing to end."""
    caplog.set_level(logging.INFO)
    call = OutgoingCall(make_handler("openAIChatCompletion"), CallArguments(HELLO, request_id="failing"))
    with pytest.raises(type(failure)) as caught, call.ended_by_failures():
        raise failure
    assert caught.value is failure
    assert endings(caplog) == [ending]
    cancellation_service.request_cancellation("failing")
    cancellation_service.acknowledge_cancellation("failing")
    assert not call.handle.cancelled


class TestAStreamThatNobodyAskedFor:
    def test_its_end_mark_is_the_end(self, serve, rig, configs, service):
        """Though the server holds the connection open: it sees that nobody waits for more."""
        left = threading.Event()

        def script(peer):
            peer.request()
            peer.send(rig.SSE_HEAD + rig.chunked(rig.token("Hello"), rig.DONE, end=False))
            if peer.closed():
                left.set()

        configs.endpoint("E", serve(script).url)
        assert service(stream=False).get_response_from_llm(HELLO) == "Hello"
        assert left.wait(PATIENCE_S)

    def test_its_error_is_raised(self, serve, rig, configs, service):
        """In the server's words, at once."""
        error = 'data: {"error": {"message": "no memory left", "code": 500}}\n\n'
        server = serve(saying(rig.SSE_HEAD + rig.chunked(error)))
        configs.endpoint("E", server.url)
        with pytest.raises(BackendError, match="no memory left"):
            service(stream=False).get_response_from_llm(HELLO)
        assert len(server.requests) == 1

    def test_its_first_token_is_timed(self, serve, rig, configs, service, caplog):
        """Its line says when that came, as the line of any stream."""
        caplog.set_level(logging.INFO)
        configs.endpoint("E", serve(saying(rig.SSE_HEAD + rig.chunked(rig.token("Hello"), rig.DONE))).url)
        service(stream=False).get_response_from_llm(HELLO)
        assert "first token 0." in caplog.text


@pytest.mark.parametrize(("status", "asked"), [("401 X", 1), ("404 X", 1)], ids=["refused", "not-found"])
def test_a_refused_call_of_a_backend_that_always_streams_is_not_asked_again(
    serve, rig, configs, service, status, asked
):
    """The second answer would be no other; only a broken one is asked for twice."""
    server = serve(saying(rig.json_answer({"error": {"message": "no"}}, status)))
    configs.endpoint("E", server.url, backendStream="always")
    with pytest.raises(BackendError, match="no"):
        service(stream=False).get_response_from_llm(HELLO)
    assert len(server.requests) == asked


class TestThoughtsThatAreRefused:
    TURNS: ClassVar = [{"role": "assistant", "content": "a", "beside": {"reasoning": "hm"}}]
    CALL = CallArguments(HELLO, turns=TURNS)

    @pytest.fixture(autouse=True)
    def nothing_learnt(self):
        yield
        refusing_thoughts.forget_all()

    @pytest.fixture
    def refusal(self, rig):
        said = {"error": {"message": "reasoning is not supported with this model"}}
        return rig.json_answer(said, "400 Bad Request")

    def test_they_are_left_out_from_then_on(self, serve, rig, configs, service, refusal):
        """Once a try without them was taken."""

        def script(peer):
            for answer in (refusal, rig.SSE_HEAD + rig.chunked(rig.token("Hi"), rig.DONE)):
                peer.request()
                peer.send(answer)

        server = serve(script)
        configs.endpoint("E", server.url)
        called = service()
        list(called.handler.stream_batches(self.CALL))
        assert refusing_thoughts.holds(called.endpoint)
        assert ["hm" in str(request) for request in server.requests] == [True, False]

    def test_where_that_was_not_it(self, serve, configs, service, refusal):
        """What one client asked for may have the same words, so nothing is learnt."""
        server = serve(saying(refusal))
        configs.endpoint("E", server.url)
        called = service()
        with pytest.raises(BackendError, match="not supported"):
            list(called.handler.stream_batches(self.CALL))
        assert (len(server.requests), refusing_thoughts.holds(called.endpoint)) == (2, False)


class TestTheEndOfAStream:
    @pytest.fixture
    def hello(self, rig):
        return rig.SSE_HEAD + rig.chunked(rig.token("Hello"), rig.DONE)

    def test_it_ends_once(self, serve, configs, service, hello, caplog):
        """Read to its end, asked again, closed and dropped: one line."""
        caplog.set_level(logging.INFO)
        configs.endpoint("E", serve(saying(hello)).url)
        batches = service().handler.stream_batches(CallArguments(HELLO))
        list(batches)
        assert list(batches) == []
        batches.close()
        del batches
        assert endings(caplog) == ["stop"]

    def test_closed_from_another_thread_while_it_waits(self, serve, rig, configs, service, caplog):
        """The connection is shut at once, and the thread that waits ends the call."""
        caplog.set_level(logging.INFO)
        asked, left = threading.Event(), threading.Event()

        def script(peer):
            peer.request()
            peer.send(rig.SSE_HEAD + rig.chunked(rig.token("a"), end=False))
            asked.set()
            if peer.closed():
                left.set()

        configs.endpoint("E", serve(script).url)
        batches, given = service().handler.stream_batches(CallArguments(HELLO)), []
        first = threading.Event()

        def pull():
            for batch in batches:
                given.extend(batch)
                if batch:
                    first.set()

        thread = threading.Thread(target=pull, daemon=True)
        thread.start()
        assert first.wait(PATIENCE_S)
        while not batches._is_pulled:
            pass
        batches.close()
        assert left.wait(PATIENCE_S)
        thread.join(PATIENCE_S)
        assert [chunk["token"] for chunk in given] == ["a"] and endings(caplog) == ["cancelled"]

    def test_an_error_that_the_stream_brought_is_noted(self, serve, rig, configs, service):
        """For those who observe the run: how it ended, and in which words."""
        error = "data: " + json.dumps({"error": {"message": "no memory left", "code": 500}}) + "\n\n"
        configs.endpoint("E", serve(saying(rig.SSE_HEAD + rig.chunked(rig.token("a"), error))).url)
        observers = Observers()
        observers.observe(Watcher())
        node = observers.begin("r1", "/api/chat").node(NodeTrace("w", 1, "Standard"))
        batches = service().handler.stream_batches(CallArguments(HELLO, trace=node))
        assert [chunk["finish_reason"] for batch in batches for chunk in batch] == [None, "error"]
        [call] = node.node.calls
        assert "no memory left" in call.error and call.outcome == "error"


class Watcher:
    keeps_text = False

    def note_change(self, run, what, node):
        """Sees and keeps nothing."""
