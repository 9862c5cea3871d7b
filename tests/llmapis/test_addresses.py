"""Several servers for one endpoint: the choice, what is left out, and calls over real sockets."""

from __future__ import annotations

import hashlib
import json
import logging
import random
import threading

import pytest

from Middleware.common.errors import BackendError, SlotTimeout
from Middleware.common.instance_global_variables import LaunchFacts, launch_facts, set_launch_facts
from Middleware.llmapis import addresses, egress
from Middleware.llmapis.addresses import ChatAsker, Outages, favourite, is_outage, with_room
from Middleware.llmapis.call.call_arguments import CallArguments
from Middleware.llmapis.embedding_service import EmbeddingService
from Middleware.llmapis.llm_api import LlmApiService
from Middleware.services.cancellation_service import cancellation_service
from Middleware.services.held_prompts import held_prompts
from tests.clock import Clock
from tests.patience import PATIENCE_S

ABC = ("http://a:1", "http://b:1", "http://c:1")
A, B, C = ABC
MIRA = ChatAsker("mira", "chat 1")


# --- the choice ---

ROOM = [
    ("nobody-calls", (0, 0, 0), None, "abc"),
    ("one-call-fills-nothing", (1, 0, 0), None, "abc"),
    ("two-at-one-are-too-many", (2, 0, 0), None, "bc"),
    ("an-even-load", (3, 3, 3), None, "abc"),
    ("up-to-a-quarter-above-the-mean-and-one", (5, 2, 2), None, "bc"),
    ("and-not-more", (4, 3, 2), None, "abc"),
    ("a-quarter-of-many-calls-is-more-than-one", (7, 5, 4), None, "abc"),
    ("one-more-is-too-many", (8, 4, 4), None, "bc"),
    ("one-at-its-limit", (2, 1, 1), 2, "bc"),
    ("all-at-their-limit", (2, 2, 2), 2, "abc"),
    ("too-many-but-below-the-limit", (2, 0, 1), 1, "b"),
]


@pytest.mark.parametrize(("calls", "limit", "left"), [c[1:] for c in ROOM], ids=[c[0] for c in ROOM])
def test_who_has_room(calls, limit, left):
    """More than `1 + floor(1.25 * calls / addresses)` are too many."""
    found = with_room(ABC, dict(zip(ABC, calls, strict=True)), limit)
    assert "".join(url[7] for url in found) == left


def test_one_that_is_full_is_better_than_one_at_its_limit():
    """Where only those two are left: a call would wait at the other one."""
    assert with_room([A, B], {A: 3, B: 4, C: 0}, 4) == [A]


class TestFavourite:
    def test_the_hash(self):
        """The highest SHA-256 of address, user and chat, which every process finds."""
        digest = {url: hashlib.sha256(f"{url}\0mira\0chat 1".encode()).hexdigest() for url in ABC}
        assert favourite(ABC, MIRA, lambda url: 0, 0) == max(ABC, key=digest.__getitem__)

    def test_it_spreads_chats(self):
        """Evenly enough: 300 chats on three servers."""
        homes = [favourite(ABC, ChatAsker("u", str(n)), lambda url: 0, 0) for n in range(300)]
        assert all(75 <= homes.count(url) <= 125 for url in ABC)

    def test_an_address_that_goes_takes_only_its_own_chats_along(self):
        """The others stay where they are."""
        for number in range(100):
            asker = ChatAsker("u", str(number))
            home = favourite(ABC, asker, lambda url: 0, 0)
            assert home == C or favourite([A, B], asker, lambda url: 0, 0) == home

    @pytest.mark.parametrize("where", ABC)
    def test_where_the_chat_has_been(self, where):
        """Whatever the hash says."""
        assert favourite(ABC, MIRA, {A: 100, B: 100, C: 100, where: 900}.get, 400) == where

    def test_a_card_that_all_chats_share_draws_nobody(self):
        """As little as tools and system messages in common is as nothing."""
        home = favourite(ABC, MIRA, lambda url: 0, 400)
        other = next(url for url in ABC if url != home)
        shared = {url: 0 for url in ABC} | {other: 400}
        assert favourite(ABC, MIRA, shared.get, 400) == home

    def test_of_those_that_hold_as_much_the_hash_takes_one(self):
        """And not the third."""
        best = {favourite(ABC, ChatAsker("u", str(n)), {A: 9, B: 9, C: 8}.get, 4) for n in range(50)}
        assert best == {A, B}

    def test_odd_texts(self):
        """A lone surrogate is hashed like anything else."""
        assert favourite(ABC, ChatAsker("u", "\ud800"), lambda url: 0, 0) in ABC


# --- outages ---


@pytest.fixture
def clock():
    return Clock(100.0)


@pytest.fixture
def known(clock):
    return Outages(clock)


class TestOutages:
    def test_the_time_is_doubled(self, known, clock):
        """5 s to 60 s; 5 s again after an answer."""
        waits = []
        for _ in range(6):
            known.note_failure(A, clock.now)
            waits.append(known.left_s(A))
            clock.now += waits[-1]
        assert waits == [5, 10, 20, 40, 60, 60]
        known.note_answer(A, clock.now)
        known.note_failure(A, clock.now)
        assert known.left_s(A) == 5

    def test_calls_that_were_under_way_together_count_once(self, known, clock):
        """A killed server breaks many calls at once."""
        began = clock.now
        clock.now += 1
        for _ in range(10):
            known.note_failure(A, began)
        assert known.left_s(A) == 5

    def test_a_call_that_began_as_the_outage_was_noted_knew_of_it(self, known, clock):
        """Its failure is a new one."""
        for _ in range(2):
            known.note_failure(A, clock.now)
        assert known.left_s(A) == 10

    def test_so_its_answer_ends_it(self, known, clock):
        known.note_failure(A, clock.now)
        known.note_answer(A, clock.now)
        assert not known.is_out(A)

    def test_an_answer_to_an_older_call_says_nothing(self, known, clock):
        """It was begun before the server went."""
        began = clock.now
        clock.now += 1
        known.note_failure(A, clock.now)
        known.note_answer(A, began)
        assert known.is_out(A)

    def test_then_one_call_tries_it(self, known, clock):
        """For the others it is out until that one knows."""
        known.note_failure(A, clock.now)
        assert known.is_out(A) and not known.is_out(B)
        clock.now += 5
        assert not known.is_out(A)
        known.begin_call(A, "first")
        assert known.is_out(A)
        known.begin_call(A, "second")
        known.end_call(A, "second")
        assert known.is_out(A)
        known.end_call(A, "first")
        assert not known.is_out(A)

    def test_of_those_that_are_out_the_first_to_end(self, known, clock):
        """So that a call is put to some server always."""
        known.note_failure(A, clock.now)
        clock.now += 1
        for url in (B, C):
            known.note_failure(url, clock.now)
        assert known.first_to_end(ABC) == A

    def test_it_is_logged_without_the_password(self, known, clock, caplog):
        caplog.set_level(logging.INFO)
        known.note_failure("http://u:pw@a:1/v1?key=k", clock.now)
        known.note_answer("http://u:pw@a:1/v1?key=k", clock.now)
        assert [record.getMessage() for record in caplog.records] == [
            "http://a:1/v1 does not answer and is left out for 5 s",
            "http://a:1/v1 answers again",
        ]


FAILURES = [
    (BackendError("E", "connect_error", "refused", retryable=True), True),
    (BackendError("E", "timeout", "no connection", retryable=True), True),
    (BackendError("E", "timeout", "no answer within 9 s"), False),
    *[(BackendError("E", "server_error", "x", status=status), True) for status in (502, 503, 504)],
    *[(BackendError("E", "server_error", "x", status=status), False) for status in (400, 401, 429, 500)],
    (BackendError("E", "connection_lost", "x", retryable=True), False),
    (ValueError("x"), False),
]


@pytest.mark.parametrize(("error", "out"), FAILURES, ids=lambda value: str(value)[:60])
def test_what_says_that_a_server_is_not_there(error, out):
    assert is_outage(error) is out


# --- calls ---


@pytest.fixture(autouse=True)
def pauses(monkeypatch, known, transport):
    """Each test has its own pool, knows of no outage and of no prompt, and waits for no retry."""
    monkeypatch.setattr(addresses, "outages", lambda: known)
    held_prompts.cache_clear()
    yield transport.pauses
    held_prompts.cache_clear()


@pytest.fixture
def launched():
    before = launch_facts()
    yield lambda **facts: set_launch_facts(LaunchFacts(**facts))
    set_launch_facts(before)


REFUSED = "http://127.0.0.1:9"


class House:
    """Endpoint `E` with some servers, and what each was asked."""

    def __init__(self, serve, configs, rig):
        self._serve, self._configs, self._rig = serve, configs, rig
        self.servers = []
        self.hold = threading.Event()
        self.hold.set()

    def answer(self, request):
        body = json.loads(request["body"])
        if body.get("stream"):
            return self._rig.SSE_HEAD + self._rig.chunked(self._rig.token("ok"), self._rig.DONE)
        choice = {"message": {"content": "ok"}, "finish_reason": "stop"}
        return self._rig.json_answer({"choices": [choice]})

    def server(self, reply=None, *, keep=True):
        """`reply`: bytes for every request; None: a good answer. `keep`: the connection stays open."""

        def script(peer):
            while request := peer.request():
                self.hold.wait(PATIENCE_S)
                peer.send(self.answer(request) if reply is None else reply)
                if not keep:
                    return

        self.servers.append(self._serve(script))
        return self.servers[-1]

    def endpoint(self, *urls, **fields):
        first, *more = urls or [server.url for server in self.servers]
        self._configs.endpoint("E", first, moreEndpoints=more, **fields)

    def service(self, stream=True):
        return LlmApiService("E", None, 99, stream, **self._configs.given())

    def ask(self, chat="chat", *, stream=True, words="", system="", request_id=None):
        """The text of an answer in a chat, which begins like no other unless `words` says so."""
        words = words or f"Hi, this is {chat}"
        messages = [{"role": "system", "content": system}] if system else []
        messages += words if isinstance(words, list) else [{"role": "user", "content": words}]
        call = CallArguments(messages, chat=chat, request_id=request_id)
        if not stream:
            return str(self.service(stream=False).whole_answer(call))
        return "".join(c["token"] for batch in self.service().stream_batches(call) for c in batch)

    @property
    def asked(self):
        return [len(server.requests) for server in self.servers]


@pytest.fixture
def house(serve, configs, rig):
    return House(serve, configs, rig)


@pytest.fixture
def three(house):
    for _ in range(3):
        house.server()
    house.endpoint()
    return house


both_ways = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])


class TestOneChat:
    def test_it_stays_where_it_is(self, three):
        """Ten turns of thirty chats: each on one server, and each server has some of them."""
        homes = {}
        for turn in range(10):
            for chat in range(30):
                before = three.asked
                talk = [
                    {"role": role, "content": f"{role} {chat} {n}"}
                    for n in range(turn + 1)
                    for role in ("user", "assistant")
                ][:-1]
                assert three.ask(f"chat {chat}", words=talk, system="A card for all. " * 200) == "ok"
                [home] = [i for i, (a, b) in enumerate(zip(before, three.asked, strict=True)) if b > a]
                homes.setdefault(chat, set()).add(home)
        assert all(len(places) == 1 for places in homes.values())
        assert {place for places in homes.values() for place in places} == {0, 1, 2}

    def test_without_an_id_its_first_message_counts(self, three):
        """The first one that is sent, where nothing else is known."""
        for turn in range(1, 4):
            talk = [{"role": "user", "content": f"first, then {n}"} for n in range(turn)]
            three.ask("", words=talk)
        assert sorted(three.asked) == [0, 0, 3]

    def test_name_key_and_headers_go_to_every_address(self, house):
        """They are the endpoint's."""
        house.server(), house.server()
        house.endpoint(modelNameToSendToAPI="m", apiKey="k", extraHeaders={"X-A": "b"})
        for chat in range(24):
            house.ask(str(chat))
        assert min(house.asked) > 0
        for server in house.servers:
            headers = server.requests[0]["headers"]
            assert (headers["authorization"], headers["x-a"]) == ("Bearer k", "b")
            assert json.loads(server.requests[0]["body"])["model"] == "m"

    def test_an_address_that_is_there_twice_counts_once(self, house):
        house.server()
        url = house.servers[0].url
        house.endpoint(url, url, f"{url}/")
        assert house.service().addresses == (url,)
        assert house.ask() == "ok"


class TestLoad:
    def test_no_address_gets_more_than_its_share(self, three):
        """Calls that begin one after another and all stay open: none is above the bound when it gets one."""
        service, open_streams = three.service(), []
        for number in range(40):
            loads = three.asked
            assert max(loads) <= 2 + 5 * number // 12
            call = CallArguments([{"role": "user", "content": str(number)}], chat=str(number))
            open_streams.append(service.stream_batches(call))
        for stream in open_streams:
            stream.close()
        assert addresses.servers_of(service.endpoint).under_way() == dict.fromkeys(service.addresses, 0)

    def test_threads_do_not_choose_past_each_other(self, three):
        """Forty at once: choosing and taking the slot is one step."""
        service = three.service()
        servers = addresses.servers_of(service.endpoint)
        loads, seen = [], threading.Lock()
        barrier = threading.Barrier(8)

        def call(number):
            barrier.wait(PATIENCE_S)
            for turn in range(5):
                chat = str(5 * number + turn)
                batches = service.stream_batches(
                    CallArguments([{"role": "user", "content": chat}], chat=chat)
                )
                with seen:
                    loads.append(batches)

        threads = [threading.Thread(target=call, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert max(servers.under_way().values()) <= 2 + 5 * 39 // 12
        for batches in loads:
            batches.close()

    def test_the_limit_counts_for_each_address(self, house, launched):
        """One slot each: three chats run at once, and the fourth waits where it belongs."""
        launched(concurrency_timeout_s=0.05)
        for _ in range(3):
            house.server()
        house.endpoint(maxConcurrentRequests=1)
        service = house.service()
        calls = [CallArguments([{"role": "user", "content": str(n)}], chat=str(n)) for n in range(4)]
        streams = [service.stream_batches(call) for call in calls[:3]]
        assert house.asked == [1, 1, 1]
        with pytest.raises(SlotTimeout, match=r"within 0.05 s \(limit 1\)"):
            service.stream_batches(calls[3])
        for stream in streams:
            stream.close()
        assert house.ask() == "ok"

    def test_a_waiter_that_is_cancelled_leaves(self, house, launched):
        launched(concurrency_timeout_s=PATIENCE_S)
        house.server(), house.server()
        house.endpoint(maxConcurrentRequests=1)
        service = house.service()
        streams = [service.stream_batches(CallArguments([], chat=str(n))) for n in range(2)]
        results = []
        waiter = threading.Thread(target=lambda: results.append(house.ask(request_id="waits")))
        waiter.start()
        cancellation_service.request_cancellation("waits")
        waiter.join(PATIENCE_S)
        cancellation_service.acknowledge_cancellation("waits")
        for stream in streams:
            stream.close()
        assert results == [""]
        assert set(addresses.servers_of(service.endpoint).under_way().values()) == {0}


class TestFailure:
    @both_ways
    @pytest.mark.parametrize("bad", [REFUSED, 503, 500, 429, 400, "empty"])
    def test_the_next_address_answers(self, house, rig, pauses, bad, stream):
        """Whatever went wrong before the first text; each is asked once, and nobody waits."""
        if bad == "empty":
            house.server(rig.SSE_HEAD + rig.chunked(": nothing\n\n"))
        elif bad != REFUSED:
            house.server(rig.json_answer({"error": "no"}, f"{bad} X"))
        good = house.server()
        house.endpoint(*([REFUSED] if bad == REFUSED else []), *[s.url for s in house.servers])
        for chat in range(6):
            assert house.ask(str(chat), stream=stream) == "ok"
        assert len(good.requests) == 6
        assert pauses == []

    def test_what_comes_later_in_an_answer_says_nothing(self, house, known):
        """The server has answered: it is there."""
        house.server()
        house.endpoint(A, B)
        gone = BackendError("e", "connect_error", "refused")
        stops = [addresses.Stop(A, addresses.servers_of(house.service().endpoint).gate(A)) for _ in range(2)]
        stops[0].note_answer()
        assert stops[0].note_failure(gone) is False and not known.is_out(A)
        assert stops[1].note_failure(gone) is True and known.is_out(A)

    @pytest.mark.parametrize(("status", "is_out"), [(400, False), (None, True)])
    def test_a_refusal_shows_that_a_server_is_back(self, house, known, status, is_out):
        """It answers. A failure without an answer shows nothing."""
        house.server()
        house.endpoint(A, B)
        known.note_failure(A, known.now())
        stop = addresses.Stop(A, addresses.servers_of(house.service().endpoint).gate(A))
        assert stop.note_failure(BackendError("e", "server_error", "x", status=status)) is False
        assert known.is_out(A) is is_out

    def test_an_address_that_is_out_is_not_asked(self, house, rig):
        """Within its 5 seconds: the first failure is the only one."""
        bad = house.server(rig.json_answer({"error": "no"}, "503 X"))
        house.server()
        house.endpoint()
        for chat in range(20):
            assert house.ask(str(chat)) == "ok"
        assert len(bad.requests) == 1

    def test_one_that_refuses_a_call_is_not_out(self, house, rig):
        """It is there: the next chat that belongs to it asks it again."""
        bad = house.server(rig.json_answer({"error": "no"}, "500 X"))
        house.server()
        house.endpoint()
        for chat in range(20):
            assert house.ask(str(chat)) == "ok"
        assert len(bad.requests) > 1

    def test_after_its_time_it_is_tried(self, house, clock, known):
        """And has its chats again."""
        house.server(), house.server()
        house.endpoint()
        first = house.servers[0]
        known.note_failure(first.url, clock.now)
        for chat in range(24):
            house.ask(str(chat))
        assert house.asked == [0, 24]
        clock.now += 5
        for chat in range(24, 48):
            house.ask(str(chat))
        assert house.asked[0] > 0 and not known.is_out(first.url)

    def test_a_chat_that_was_moved_stays(self, house, clock, known):
        """It is held there now."""
        house.server(), house.server()
        house.endpoint()
        talk = [{"role": "user", "content": "one " * 200}]
        house.ask(words=talk)
        home = house.asked.index(1)
        known.note_failure(house.servers[home].url, clock.now)
        talk += [{"role": "assistant", "content": "ok"}, {"role": "user", "content": "two " * 200}]
        house.ask(words=talk)
        clock.now += 5
        for number in range(3):
            talk += [{"role": "assistant", "content": "ok"}, {"role": "user", "content": f"more {number}"}]
            house.ask(words=talk)
        assert house.asked[home] == 1 and house.asked[1 - home] == 4

    @both_ways
    def test_all_are_out(self, house, pauses, stream):
        """The one whose time ends first is tried, and the last one as often as a single address."""
        house.endpoint(REFUSED, "http://127.0.0.1:9/v1")
        for _ in range(2):
            with pytest.raises(BackendError, match="cannot connect"):
                house.ask(stream=stream)
        assert len(pauses) == 4

    def test_then_the_backup(self, house, configs, pauses):
        """After the last address, which is tried once then."""
        good = house.server()
        house.endpoint(REFUSED, "http://127.0.0.1:9/v1", backupEndpointName="B")
        configs.endpoint("B", good.url)
        assert house.ask() == "ok"
        assert pauses == []

    def test_a_backup_with_more_addresses(self, house, configs):
        """Each of them, too."""
        good = house.server()
        configs.endpoint("E", REFUSED, backupEndpointName="B")
        configs.endpoint("B", REFUSED, moreEndpoints=[good.url])
        assert house.ask() == "ok"

    def test_not_after_output(self, house, rig):
        """What the client has read cannot be taken back."""
        begins = rig.SSE_HEAD + rig.chunked(rig.token("a"), end=False)
        house.server(begins, keep=False), house.server(begins, keep=False)
        house.endpoint()
        [[first, *_], *_, [last]] = [b for b in house.service().stream_batches(CallArguments([])) if b]
        assert (first["token"], last["finish_reason"]) == ("a", "error")
        assert sum(house.asked) == 1

    def test_a_fault_of_the_files_goes_to_no_other_address(self, house):
        """It would fail there as well."""
        house.server(), house.server()
        house.endpoint(extraHeaders={"X-A": "${ENV:NOT_SET_ANYWHERE}"})
        with pytest.raises(Exception, match="NOT_SET_ANYWHERE"):
            house.ask()
        assert house.asked == [0, 0]

    def test_a_server_is_killed(self, three):
        """In mid-run, with calls on their way: no client sees an error before its first text."""
        random.seed(7)
        results, failed = [], []

        def talk(chat):
            words = []
            for turn in range(10):
                words.append({"role": "user", "content": f"{chat} {turn} " * 40})
                try:
                    results.append(three.ask(chat, words=words, stream=turn % 2 == 0))
                except BackendError as error:
                    failed.append(error)
                words.append({"role": "assistant", "content": "ok"})
                if len(results) == 100:
                    three.servers[1].kill()

        threads = [threading.Thread(target=talk, args=(f"chat {n}",)) for n in range(30)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert failed == []
        assert results == ["ok"] * 300


class TestCancellation:
    @both_ways
    def test_it_reaches_the_address_that_was_asked(self, house, serve, configs, stream):
        """Which sees the close; the others are not asked."""
        arrived, closed = threading.Event(), threading.Event()

        def holding(peer):
            peer.request()
            arrived.set()
            if peer.closed():
                closed.set()

        house.servers += [serve(holding), serve(holding)]
        house.endpoint()
        results = []
        caller = threading.Thread(target=lambda: results.append(house.ask(stream=stream, request_id="stop")))
        caller.start()
        assert arrived.wait(PATIENCE_S)
        cancellation_service.request_cancellation("stop")
        caller.join(PATIENCE_S)
        cancellation_service.acknowledge_cancellation("stop")
        assert results == [""] and closed.wait(PATIENCE_S)
        assert sum(house.asked) == 1

    def test_koboldcpps_abort_goes_there_too(self, house, serve, rig):
        """To the same address as the call."""
        aborted = threading.Event()

        def kobold(peer):
            while request := peer.request():
                if "abort" in request["line"]:
                    peer.send(rig.json_answer({"success": True}))
                    aborted.set()
                else:
                    peer.send(rig.SSE_HEAD)
                    peer.closed()

        house.servers += [serve(kobold), serve(kobold)]
        house.endpoint(apiTypeConfigFileName="KoboldCpp")
        service = house.service()
        stream = service.stream_batches(CallArguments(prompt="x", request_id="k"))
        cancellation_service.request_cancellation("k")
        assert list(stream) == [] and aborted.wait(PATIENCE_S)
        cancellation_service.acknowledge_cancellation("k")
        assert sorted(house.asked) == [0, 2]


class TestWhoObserves:
    def test_each_call_names_its_address(self, house, traced, caplog):
        """In the trace, and in the log without its password; the node shows the last one."""
        caplog.set_level(logging.INFO)
        good = house.server()
        place = good.url.replace("//", "//u:secret99@")
        house.endpoint(REFUSED, "http://127.0.0.1:9/v1", place)
        nodes = [traced() for _ in range(8)]
        for number, node in enumerate(nodes):
            call = CallArguments([{"role": "user", "content": f"chat {number}"}], trace=node)
            house.service(stream=False).whole_answer(call)
        tried = [[call.address for call in node.node.calls] for node in nodes]
        assert all(calls[-1] == place for calls in tried) and max(map(len, tried)) > 1
        assert {node.node.url for node in nodes} == {place}
        assert f"endpoint 'E' at {good.url} (" in caplog.text and "secret99" not in caplog.text

    def test_of_one_address_nothing_is_said(self, house, caplog):
        """As ever."""
        caplog.set_level(logging.INFO)
        house.server()
        house.endpoint()
        house.ask()
        assert "endpoint 'E' (" in caplog.text


class TestEgress:
    @pytest.fixture
    def public(self, monkeypatch):
        """Names that end in `.example` are public, and lead to this machine."""
        asked = []

        def place_of(url):
            asked.append(url)
            if ".example" in url:
                return egress.EgressTarget("remote", ("127.0.0.1",))
            return egress.EgressTarget("unknown") if ".odd" in url else egress.EgressTarget("local")

        monkeypatch.setattr(addresses, "place_of", place_of)
        addresses._warn_once.cache_clear()
        return asked

    def outside(self, house, name="gpu.example"):
        return house.servers[1].url.replace("127.0.0.1", name)

    def test_a_public_address_behind_a_local_one(self, house, public, caplog):
        """Is never called, and the log says so once."""
        house.server(), house.server()
        house.endpoint(house.servers[0].url, self.outside(house))
        assert [house.ask(str(n)) for n in range(24)] == ["ok"] * 24
        assert house.asked == [24, 0]
        told = [r.getMessage() for r in caplog.records if "allowRemoteBackup" in r.getMessage()]
        assert len(told) == 1 and "gpu.example" in told[0]

    def test_not_even_when_the_local_one_fails(self, house, public):
        """The error is that of the local one."""
        house.server(), house.server()
        house.endpoint(REFUSED, self.outside(house))
        with pytest.raises(BackendError, match=r"cannot connect to 127\.0\.0\.1:9"):
            house.ask()
        assert house.asked == [0, 0]

    def test_one_that_is_allowed(self, house, public):
        """It is called where the guard has looked."""
        house.server(), house.server()
        house.endpoint(house.servers[0].url, self.outside(house), allowRemoteBackup=True)
        assert [house.ask(str(n)) for n in range(24)] == ["ok"] * 24
        assert min(house.asked) > 0

    def test_behind_a_public_one(self, house, public):
        """Prompts for this endpoint go out anyway."""
        house.server(), house.server()
        house.endpoint("http://first.example:9", house.servers[1].url, house.servers[0].url)
        assert [house.ask(str(n), stream=False) for n in range(3)] == ["ok"] * 3

    def test_one_whose_place_is_unknown(self, house, public, caplog):
        """Is called, with a warning."""
        house.server(), house.server()
        house.endpoint(REFUSED, self.outside(house, "gpu.odd"))
        with pytest.raises(BackendError, match="cannot connect"):
            house.ask()
        assert "not known on which host" in caplog.text


class TestEmbeddings:
    def vectors(self, configs, house):
        return EmbeddingService("V", **configs.given()).get_embeddings(["a"])

    @pytest.fixture
    def good(self, serve, rig):
        body = rig.json_answer({"data": [{"index": 0, "embedding": [1.0]}]})
        return serve(lambda peer: [peer.send(body) for _ in iter(peer.request, None)])

    def test_the_next_address_answers(self, configs, house, good):
        configs.endpoint("V", REFUSED, "OpenAI-Embeddings", moreEndpoints=[good.url])
        assert [self.vectors(configs, house) for _ in range(3)] == [[[1.0]]] * 3

    def test_all_fail(self, configs, house):
        """The last error is raised."""
        configs.endpoint("V", REFUSED, "OpenAI-Embeddings", moreEndpoints=["http://127.0.0.1:9/v1"])
        with pytest.raises(BackendError, match="cannot connect"):
            self.vectors(configs, house)
