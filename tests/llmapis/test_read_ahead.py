"""A prompt that a server reads before it is asked: over real sockets, and never in anybody's way (prompt-reuse.md 6)."""

from __future__ import annotations

import json
import logging
import threading

import pytest

from Middleware.common.instance_global_variables import LaunchFacts, launch_facts, set_launch_facts
from Middleware.llmapis import addresses, failover
from Middleware.llmapis.call.call_arguments import CallArguments
from Middleware.llmapis.failover import take_slots
from Middleware.llmapis.llm_api import LlmApiService
from Middleware.llmapis.read_ahead import read_ahead
from Middleware.services import fair_gate
from Middleware.services.held_prompts import held_prompts
from Middleware.services.node_trace import NodeTrace
from Middleware.services.readings_ahead import Reading, readings_ahead
from Middleware.services.run_trace import Observers, RunTrace, TracedNode
from tests.patience import PATIENCE_S, wait_until

TOLD = [
    {"role": "system", "content": "Be Mara."},
    {"role": "user", "content": "tell " * 100},
    {"role": "assistant", "content": "A tale."},
]
GOOD = {"choices": [{"message": {"content": "T"}, "finish_reason": "length"}], "usage": {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10}}  # fmt: skip


@pytest.fixture(autouse=True)
def known(monkeypatch):
    """What the process knows of servers, made anew for each test."""
    before = launch_facts()
    set_launch_facts(LaunchFacts(concurrency_timeout_s=PATIENCE_S))
    caches = (held_prompts, readings_ahead, addresses.outages, fair_gate._machine, addresses._servers)
    for cache in caches:
        cache.cache_clear()
    yield
    set_launch_facts(before)
    for cache in caches:
        cache.cache_clear()


class House:
    """Endpoint `E`. `hold`: nothing is answered before it is set; `answers`: of the first requests, then GOOD."""

    def __init__(self, serve, configs, rig):
        self._serve, self._configs, self._rig = serve, configs, rig
        self.hold, self.answers, self.closed = threading.Event(), [], threading.Event()
        self.hold.set()

    def server(self):
        def script(peer):
            while peer.request():
                if not self.hold.is_set():
                    self.closed.set() if peer.closed() else None
                    return
                peer.send(self.answers.pop(0) if self.answers else self._rig.json_answer(GOOD))

        return self._serve(script)

    def service(self, *servers, **fields):
        first, *more = [server.url for server in servers]
        more = {"moreEndpoints": more} if more else {}
        self._configs.endpoint("E", first, modelNameToSendToAPI="m", **more, **fields)
        return LlmApiService("E", None, 400, True, **self._configs.given())


@pytest.fixture
def house(serve, configs, rig):
    return House(serve, configs, rig)


def reading(name="r1.ahead1"):
    return Reading(name)


def bodies(server):
    return [json.loads(request["body"]) for request in server.requests]


def call_of(messages=TOLD, **more):
    return CallArguments([dict(message) for message in messages], **more)


class TestTheCall:
    def test_one_token_whole_and_the_prompt_as_it_is(self, house):
        """Nothing else of it differs from a call of the node: samplers may choose the template's form."""
        server = house.server()
        made = reading()
        read_ahead(
            house.service(server), call_of(tools=[{"type": "function", "function": {"name": "f"}}]), made
        )
        [body] = bodies(server)
        assert body["messages"] == TOLD and body["max_tokens"] == 1 and not body.get("stream")
        assert body["tools"] and body["model"] == "m"
        assert made.ended.is_set() and readings_ahead().count_at(server.url) == 0

    def test_a_backend_that_always_streams(self, house, rig):
        """Its stream is read to the end."""
        server = house.server()
        house.answers = [rig.SSE_HEAD + rig.chunked(rig.token("T"), rig.DONE)]
        read_ahead(house.service(server, backendStream="always"), call_of(), reading())
        [body] = bodies(server)
        assert body["stream"] is True and body["max_tokens"] == 1

    def test_the_server_holds_it_then(self, house):
        """The next call is compared with it."""
        service = house.service(house.server())
        read_ahead(service, call_of(), reading())
        read_ahead(service, call_of(), reading())
        own = call_of().of_endpoint(service, is_backup=False)
        payload = service.handler_to_read()._payload(own)
        prompt = failover.digest_payload(payload)
        assert held_prompts().shared_chars(service.endpoint.url, "m", prompt) == prompt.chars

    def test_its_trace_is_of_a_kind_of_its_own(self, house):
        """Beside the call of the node, whose text stays the node's."""
        node = NodeTrace("Main.json", 1, "Standard")
        trace = TracedNode(RunTrace("r1", "/", Observers()), node)
        read_ahead(house.service(house.server()), call_of(trace=trace), reading())
        [call] = node.calls
        assert (call.kind, call.outcome, call.endpoint) == ("prefill", "length", "E")
        assert call.usage["prompt_tokens"] == 9 and node.last_model_call is None


class TestFailures:
    @pytest.mark.parametrize("status", ["500 X", "503 X", "404 X", "429 X"])
    def test_one_try_at_level_debug(self, house, rig, caplog, status):
        """No second one, no backup, no warning."""
        server, backup = house.server(), house.server()
        house._configs.endpoint("B", backup.url)
        house.answers = [rig.json_answer({"error": "no"}, status)]
        service = house.service(server, backupEndpointName="B")
        caplog.set_level(logging.DEBUG, logger="Middleware")
        read_ahead(service, call_of(), reading())
        assert len(server.requests) == 1 and backup.requests == []
        assert all(record.levelno <= logging.INFO for record in caplog.records)
        [said] = [r for r in caplog.records if r.name == "Middleware.llmapis.read_ahead"]
        assert said.levelno == logging.DEBUG

    def test_nobody_is_there(self, configs, caplog):
        """As any other failure."""
        configs.endpoint("E", "http://127.0.0.1:9")
        made = reading()
        read_ahead(LlmApiService("E", None, 400, **configs.given()), call_of(), made)
        assert made.ended.is_set()
        assert all(record.levelno <= logging.INFO for record in caplog.records)

    def test_what_was_not_read_is_not_held(self, house, rig):
        """So nobody is told that it was."""
        service = house.service(house.server())
        house.answers = [rig.json_answer({"error": "no"}, "500 X")]
        read_ahead(service, call_of(), reading())
        assert not held_prompts()._servers

    def test_a_server_that_refuses_the_assistants_last_word(self, house, rig):
        """It gets a turn of the user behind it; one that refuses this too is left alone."""
        server = house.server()
        refusal = rig.json_answer(
            {"error": {"message": "prefill is incompatible with enable_thinking"}}, "400 X"
        )
        house.answers = [refusal, rig.json_answer(GOOD), refusal, refusal]
        service = house.service(server)
        read_ahead(service, call_of(), reading())
        assert bodies(server)[1]["messages"] == [*TOLD, {"role": "user", "content": "..."}]
        read_ahead(service, call_of(), reading())
        assert len(server.requests) == 4

    def test_a_refusal_of_another_prompt_is_one(self, house, rig):
        """There is nothing to put behind a question."""
        server = house.server()
        house.answers = [rig.json_answer({"error": "no"}, "400 X")]
        read_ahead(house.service(server), call_of(TOLD[:2]), reading())
        assert len(server.requests) == 1


class TestGivingWay:
    def test_a_call_to_the_address_aborts_it(self, house):
        """Its connection is closed while the server reads, and its slot is free for the call."""
        server = house.server()
        house.hold.clear()
        service = house.service(server, maxConcurrentRequests=1)
        made = reading()
        thread = threading.Thread(target=read_ahead, args=(service, call_of(), made), daemon=True)
        thread.start()
        wait_until(lambda: server.requests)
        with take_slots(service.endpoint, None):
            assert house.closed.wait(PATIENCE_S)
        thread.join(PATIENCE_S)
        assert made.ended.is_set() and not held_prompts()._servers

    @pytest.mark.parametrize("limit", [{}, {"maxConcurrentRequests": 4}])
    def test_left_out_while_a_call_is_there(self, house, limit):
        """Also where there would be a slot: it would make the call slow."""
        server = house.server()
        service = house.service(server, **limit)
        with take_slots(service.endpoint, None):
            read_ahead(service, call_of(), reading())
        assert server.requests == []
        read_ahead(service, call_of(), reading())
        assert len(server.requests) == 1

    def test_left_out_where_another_model_would_be_loaded(self, house):
        """The machine's last model is another one."""
        server, other = house.server(), house.server()
        house._configs.endpoint("Other", other.url, modelNameToSendToAPI="big", machine="desk")
        service = house.service(server, machine="desk")
        big = LlmApiService("Other", None, 9, **house._configs.given())
        take_slots(service.endpoint, None).close()
        read_ahead(service, call_of(), reading())
        assert len(server.requests) == 1
        take_slots(big.endpoint, None).close()
        read_ahead(service, call_of(), reading())
        assert len(server.requests) == 1

    def test_a_call_for_its_machine_aborts_it(self, house):
        """Of another model, at another address: it would have to wait for its turn."""
        server, other = house.server(), house.server()
        house._configs.endpoint("Other", other.url, modelNameToSendToAPI="big", machine="desk")
        service = house.service(server, machine="desk")
        take_slots(service.endpoint, None).close()
        house.hold.clear()
        thread = threading.Thread(target=read_ahead, args=(service, call_of(), reading()), daemon=True)
        thread.start()
        wait_until(lambda: server.requests)
        with take_slots(LlmApiService("Other", None, 9, **house._configs.given()).endpoint, None):
            assert house.closed.wait(PATIENCE_S)
        thread.join(PATIENCE_S)


class TestSeveralServers:
    def test_the_one_that_has_the_chat_reads(self, house):
        """And the chat's next call goes there, whatever is read ahead."""
        servers = [house.server() for _ in range(3)]
        service = house.service(*servers)
        service.stream = False
        chat = TOLD[:2]
        service.whole_answer(call_of(chat, chat="c1"))
        [home] = [server for server in servers if server.requests]
        read_ahead(service, call_of(chat=""), reading())
        assert len(home.requests) == 2
        service.whole_answer(call_of([*TOLD, {"role": "user", "content": "more"}], chat="c1"))
        assert len(home.requests) == 3

    def test_the_chat_gets_its_full_server_back(self, house):
        """One slot each: what is read ahead there does not send the chat to another server."""
        servers = [house.server() for _ in range(3)]
        service = house.service(*servers, maxConcurrentRequests=1)
        service.stream = False
        service.whole_answer(call_of(TOLD[:2], chat="c1"))
        [home] = [server for server in servers if server.requests]
        house.hold.clear()
        thread = threading.Thread(target=read_ahead, args=(service, call_of(), reading()), daemon=True)
        thread.start()
        wait_until(lambda: len(home.requests) == 2)
        house.hold.set()
        service.whole_answer(call_of([*TOLD[:2], {"role": "user", "content": "more"}], chat="c1"))
        thread.join(PATIENCE_S)
        assert len(home.requests) == 3 and sum(len(s.requests) for s in servers) == 3

    def test_left_out_while_none_answers(self, house):
        """Whoever asks finds out."""
        servers = [house.server() for _ in range(2)]
        service = house.service(*servers)
        for server in servers:
            addresses.outages().note_failure(server.url, addresses.outages().now())
        read_ahead(service, call_of(), reading())
        assert [server.requests for server in servers] == [[], []]
