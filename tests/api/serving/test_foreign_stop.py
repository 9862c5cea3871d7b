"""SIGTERM under a server with a handler of its own: unanswered requests end, nodes after an answer may."""

from __future__ import annotations

import signal
import threading

import pytest

from Middleware.api.client_watch import ClientWatcher
from Middleware.api.front_door import FrontDoor
from Middleware.api.requests.access import AccessRules
from Middleware.api.requests.request_life import RequestLife
from Middleware.api.serving import foreign_servers as foreign_stop
from Middleware.api.serving.foreign_servers import stop_in_order
from Middleware.api.wsgi.doors import Doors
from Middleware.services.cancellation_service import cancellation_service
from tests.patience import PATIENCE_S


@pytest.fixture
def door():
    return FrontDoor(lambda environ, start: [], AccessRules(), ClientWatcher(), Doors([]))


@pytest.fixture
def sigterm():
    """Sets the server's own handler; the old ones come back."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)}
    yield lambda handler: signal.signal(signal.SIGTERM, handler)
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def life(door):
    """A request of the door, until the test ends."""
    running = RequestLife("stop-1")
    cancellation_service.begin("stop-1")
    door.lives.add(running)
    yield running
    cancellation_service.acknowledge_cancellation("stop-1")


def test_a_process_without_a_handler_is_left_alone(door, sigterm):
    """`server.py` and tests have no handler when the application is built."""
    sigterm(signal.SIG_DFL)
    assert stop_in_order(door) is False
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_another_thread_cannot_set_handlers(door, sigterm):
    """Then nothing is set, and nothing fails."""
    sigterm(lambda number, frame: None)
    said = []
    thread = threading.Thread(target=lambda: said.append(stop_in_order(door)))
    thread.start()
    thread.join()
    assert said == [False]


def test_unanswered_requests_are_cancelled(door, sigterm, life):
    """The server's own handler runs too, as often as the signal comes; we act once."""
    theirs, at_exit, cancelled = [], [], threading.Event()
    sigterm(lambda number, frame: theirs.append(number))
    assert stop_in_order(door, at_exit.append) is True
    cancellation_service.register_abort_callback("stop-1", cancelled.set)
    signal.raise_signal(signal.SIGTERM)
    signal.raise_signal(signal.SIGTERM)
    assert cancelled.wait(PATIENCE_S)
    assert theirs == [signal.SIGTERM] * 2
    assert len(at_exit) == 1


def test_nodes_after_an_answer_may_end(door, sigterm, life):
    """They are not cancelled; the process waits for them."""
    at_exit = []
    sigterm(lambda number, frame: None)
    stop_in_order(door, at_exit.append)
    life.stop_watching()
    signal.raise_signal(signal.SIGTERM)
    threading.Timer(0.1, lambda: door.lives.discard(life)).start()
    at_exit[0]()
    assert not door.lives
    assert not cancellation_service.is_cancelled("stop-1")


def test_the_wait_has_an_end(door, sigterm, life, monkeypatch, caplog):
    """Then it is told."""
    monkeypatch.setattr(foreign_stop, "REST_S", 0.05)
    at_exit = []
    sigterm(lambda number, frame: None)
    stop_in_order(door, at_exit.append)
    life.stop_watching()
    signal.raise_signal(signal.SIGTERM)
    at_exit[0]()
    assert "1 request still had nodes to run" in caplog.text


@pytest.mark.parametrize("name", ["SIGINT", "SIGQUIT"])
def test_other_signals_end_it_in_the_same_order(door, sigterm, life, name):
    """The server's handler for SIGTERM runs: its others would cut every stream."""
    theirs, cancelled = [], threading.Event()
    sigterm(lambda number, frame: theirs.append(number))
    stop_in_order(door, [].append)
    cancellation_service.register_abort_callback("stop-1", cancelled.set)
    signal.raise_signal(getattr(signal, name))
    assert cancelled.wait(PATIENCE_S)
    assert theirs == [signal.SIGTERM]


@pytest.mark.parametrize(
    ("apart_s", "told"), [(-1.0, True), (60.0, False)], ids=["a-second-wish", "the-same"]
)
def test_a_second_signal_ends_the_wait(door, sigterm, life, monkeypatch, caplog, apart_s, told):
    """But for the pair that one Ctrl-C makes."""
    monkeypatch.setattr(foreign_stop, "ONE_STOP_S", apart_s)
    at_exit = []
    sigterm(lambda number, frame: None)
    stop_in_order(door, at_exit.append)
    life.stop_watching()
    signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGQUIT)
    threading.Timer(0.3, lambda: door.lives.discard(life)).start()
    at_exit[0]()
    assert ("1 request still had nodes to run" in caplog.text) is told
