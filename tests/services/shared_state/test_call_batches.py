"""Calls to a server far away: sent in order, together, and each with its own answer."""

from __future__ import annotations

import threading

import pytest

from Middleware.services.shared_state.call_batches import CallBatches
from tests.patience import PATIENCE_S, wait_until


class FarServer:
    """Answers with the first word, or raises it. `exchanges`: the names of each. While `gate` is clear, it holds
    back its answers; `busy` is set when it has been asked.
    """

    def __init__(self):
        self.exchanges = []
        self.gate, self.busy = threading.Event(), threading.Event()
        self.gate.set()
        self.fails = None

    def send(self, calls):
        self.exchanges.append([call.name for call in calls])
        self.busy.set()
        assert self.gate.wait(PATIENCE_S)
        if self.fails is not None:
            raise self.fails
        return [call.words[0] for call in calls]


@pytest.fixture
def server():
    return FarServer()


@pytest.fixture
def calls(server):
    return CallBatches(server.send)


def ask_in_threads(calls, names):
    """One after the other they gather; gives the threads, and the answers that they will have."""
    answers, threads = {}, []
    for name in names:
        gathered = len(calls._gathered)
        thread = threading.Thread(
            target=lambda name=name: answers.update({name: calls.ask(name, [f"of {name}"])})
        )
        thread.start()
        wait_until(lambda gathered=gathered: len(calls._gathered) > gathered)
        threads.append(thread)
    return threads, answers


def test_one_call(server, calls):
    """Is sent at once."""
    assert calls.ask("a", ["answer"]) == "answer"
    assert server.exchanges == [["a"]]


def test_what_gathers_meanwhile_is_sent_together(server, calls):
    """While one waits for its answer, in the order in which they came; each gets its own."""
    server.gate.clear()
    first = threading.Thread(target=calls.ask, args=("first", [1]))
    first.start()
    assert server.busy.wait(PATIENCE_S)
    threads, answers = ask_in_threads(calls, "abcd")
    server.gate.set()
    for thread in (first, *threads):
        thread.join(PATIENCE_S)
    assert server.exchanges == [["first"], ["a", "b", "c", "d"]]
    assert answers == {name: f"of {name}" for name in "abcd"}


def test_when_its_place_is_sure(server, calls):
    """What is asked from then on is sent later, though none of it has been answered."""
    server.gate.clear()
    first = threading.Thread(target=calls.ask, args=("first", [1]))
    first.start()
    assert server.busy.wait(PATIENCE_S)
    queued = threading.Event()
    second = threading.Thread(target=calls.ask, args=("second", [1], queued.set))
    second.start()
    assert queued.wait(PATIENCE_S)
    calls.post("third", [1])
    server.gate.set()
    for thread in (first, second):
        thread.join(PATIENCE_S)
    assert server.exchanges == [["first"], ["second", "third"]]


def test_nobody_waits_for_a_post(server, calls):
    """Though the server does not answer; it is sent by a thread of its own."""
    server.gate.clear()
    calls.post("remove", [1])
    assert server.busy.wait(PATIENCE_S)
    server.gate.set()
    assert server.exchanges == [["remove"]]


def test_a_post_keeps_its_place(server, calls):
    """Before what was asked after it."""
    server.gate.clear()
    first = threading.Thread(target=calls.ask, args=("first", [1]))
    first.start()
    assert server.busy.wait(PATIENCE_S)
    calls.post("remove", [1])
    threads, _ = ask_in_threads(calls, "a")
    server.gate.set()
    for thread in (first, *threads):
        thread.join(PATIENCE_S)
    assert [name for exchange in server.exchanges for name in exchange] == ["first", "remove", "a"]


def test_an_error_is_of_its_own_call(server, calls):
    """The others of the exchange have their answers."""
    with pytest.raises(LookupError, match="no"):
        calls.ask("a", [LookupError("no")])
    assert calls.ask("b", [2]) == 2


def test_an_exchange_that_fails(server, calls):
    """Fails all that was sent in it, and nothing later."""
    server.fails = ConnectionError("gone")
    with pytest.raises(ConnectionError):
        calls.ask("a", [1])
    server.fails = None
    assert calls.ask("b", [2]) == 2


def test_a_post_that_failed_is_not_forgotten(server, calls):
    """The next call says so, once: the server may not know what it should."""
    calls.post("remove", [ConnectionError("gone")])
    wait_until(lambda: calls._missed is not None)
    with pytest.raises(ConnectionError, match="gone"):
        calls.ask("a", [1])
    assert calls.ask("b", [2]) == 2


class Stopped:
    """Stands in for what a thread waits by: the thread is stopped there, as servers stop their workers; `after`
    it was told to send, or while it waits.
    """

    def __init__(self, call, after):
        self._news, self._after = call.news, after
        call.news = self

    def acquire(self):
        if self._after == "its turn":
            self._news.acquire()
        raise KeyboardInterrupt

    def release(self):
        self._news.release()


@pytest.mark.parametrize("after", ["a while", "its turn"])
def test_a_thread_that_is_stopped_while_it_waits(server, calls, after):
    """Its call is sent all the same, and those behind it have their answers."""
    server.gate.clear()
    first = threading.Thread(target=calls.ask, args=("first", [1]))
    first.start()
    assert server.busy.wait(PATIENCE_S)
    queued = threading.Event()

    def be_stopped():
        Stopped(calls._gathered[-1], after)
        queued.set()

    stopped = threading.Thread(
        target=pytest.raises, args=(KeyboardInterrupt, calls.ask, "stopped", [1], be_stopped)
    )
    stopped.start()
    assert queued.wait(PATIENCE_S)
    if after == "a while":
        stopped.join(PATIENCE_S)
    (later,), answers = ask_in_threads(calls, "c")
    server.gate.set()
    for thread in (first, stopped, later):
        thread.join(PATIENCE_S)
    assert answers == {"c": "of c"}
    assert server.exchanges == [["first"], ["stopped", "c"]]


def test_a_thread_that_is_ended_while_it_sends(server, calls):
    """Leaves nobody waiting whose call it took along."""
    server.fails = SystemExit()
    with pytest.raises(SystemExit):
        calls.ask("a", [1])
    server.gate.clear()
    server.busy.clear()
    ended = threading.Thread(target=pytest.raises, args=(SystemExit, calls.ask, "b", [1]))
    ended.start()
    assert server.busy.wait(PATIENCE_S)
    server.gate.set()
    ended.join(PATIENCE_S)
    server.fails = None
    assert calls.ask("c", [3]) == 3
