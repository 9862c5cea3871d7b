"""Has the client gone? (frontend-api.md 2.4)"""

from __future__ import annotations

import logging
import select
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from Middleware.api.client_watch import ClientWatcher, Watch, end_connection, probe_of
from tests.patience import PATIENCE_S

HOUSE = Path(__file__).resolve().parents[2]


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    yield ours, theirs
    ours.close()
    theirs.close()


class TestProbes:
    def test_waitress_is_asked(self):
        """It gives a function."""
        assert probe_of({"waitress.client_disconnected": lambda: True})() is True

    def test_elsewhere_there_is_no_way(self):
        """Only the next write tells."""
        assert probe_of({}) is None
        assert ClientWatcher().watch({}, lambda: None) is None

    def test_a_silent_client_is_there(self, pair):
        """Nothing to read is not the end."""
        assert probe_of({"gunicorn.socket": pair[0]})() is False

    def test_data_is_not_the_end_and_stays(self, pair):
        """It is the next request."""
        pair[1].sendall(b"GET")
        assert probe_of({"gunicorn.socket": pair[0]})() is False
        assert pair[0].recv(3) == b"GET"

    def test_a_closed_connection(self, pair):
        """Also when only its writing half is closed."""
        pair[1].shutdown(socket.SHUT_WR)
        assert probe_of({"gunicorn.socket": pair[0]})() is True

    def test_any_socket_error_means_gone(self, pair):
        """A reset, or a socket that was closed on our side."""
        probe = probe_of({"gunicorn.socket": pair[0]})
        pair[0].close()
        assert probe() is True

    def test_the_socket_under_a_wrapper_is_asked(self, pair):
        """gevent's own socket would wait for data."""

        class Wrapper:
            _sock = pair[0]

        pair[1].close()
        assert probe_of({"gunicorn.socket": Wrapper()})() is True

    def test_tls_cannot_be_peeked_into(self, pair):
        """Then the client counts as there."""

        class Tls:
            fileno = pair[0].fileno

            def recv(self, size, flags):
                raise ValueError("flags not allowed")

        assert probe_of({"gunicorn.socket": Tls()})() is False


class Channel:
    """What waitress gives: a bound method of the object that has the socket."""

    def __init__(self, connection):
        self.socket, self.connected = connection, True

    def check_client_disconnected(self):
        return not self.connected


@pytest.mark.skipif(not hasattr(select, "POLLRDHUP"), reason="this kernel does not tell")
@pytest.mark.parametrize(
    "environ_of",
    [
        lambda connection: {"gunicorn.socket": connection},
        lambda connection: {"waitress.client_disconnected": Channel(connection).check_client_disconnected},
    ],
    ids=["gunicorn", "waitress"],
)
class TestUnreadBytes:
    """Bytes that nobody reads stand before the end of the connection."""

    def test_they_are_not_the_end(self, pair, environ_of):
        """A stray line end, or the next request."""
        probe = probe_of(environ_of(pair[0]))
        pair[1].sendall(b"\r\nGET / HTTP/1.1")
        assert probe() is False

    def test_the_end_behind_them(self, pair, environ_of):
        """It is seen at once, and the bytes stay."""
        probe = probe_of(environ_of(pair[0]))
        pair[1].sendall(b"\r\nGET / HTTP/1.1")
        pair[1].close()
        assert probe() is True
        assert pair[0].recv(2) == b"\r\n"

    def test_a_tcp_connection(self, environ_of):
        """Not only a pair of sockets; a half-close is the end as well."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            theirs = socket.create_connection(listener.getsockname())
            ours, _ = listener.accept()
        probe = probe_of(environ_of(ours))
        theirs.sendall(b"\r\n")
        assert probe() is False
        theirs.shutdown(socket.SHUT_WR)
        assert _soon(probe)
        ours.close()
        theirs.close()


def _soon(probe):
    """The loopback device takes a moment."""
    end = time.monotonic() + PATIENCE_S
    while not (seen := probe()) and time.monotonic() < end:
        time.sleep(0.001)
    return seen


class TestWatcher:
    def test_a_client_that_goes_is_noticed_once(self):
        """From the watcher's own thread, within a few periods."""
        gone, seen = threading.Event(), threading.Semaphore(0)
        ClientWatcher(0.005).watch({"waitress.client_disconnected": gone.is_set}, seen.release)
        assert not seen.acquire(timeout=0.03)
        gone.set()
        assert seen.acquire(timeout=PATIENCE_S)
        assert not seen.acquire(timeout=0.03)

    def test_a_stopped_watch_is_silent(self):
        """The connection may serve the next request."""
        watcher, seen = ClientWatcher(60), []
        watch = watcher.watch({"waitress.client_disconnected": lambda: True}, lambda: seen.append(1))
        watch.stop()
        watcher.look()
        assert seen == []

    def test_a_watch_that_is_stopped_while_it_is_asked(self):
        """The answer came in that moment."""
        watcher, seen, watches = ClientWatcher(60), [], []

        def probe():
            watches[0].stop()
            return True

        watches.append(watcher.watch({"waitress.client_disconnected": probe}, lambda: seen.append(1)))
        watcher.look()
        assert seen == []

    def test_an_abort_that_fails_is_logged(self, caplog):
        """The watcher watches on."""

        def fail():
            raise OSError("no")

        watcher = ClientWatcher(60)
        watcher.watch({"waitress.client_disconnected": lambda: True}, fail)
        with caplog.at_level(logging.ERROR):
            watcher.look()
        assert "could not be aborted" in caplog.text

    def test_the_thread_ends_when_there_is_nothing_to_watch(self):
        """And a new one begins with the next request."""
        watcher = ClientWatcher(0.001)
        watcher.idle_s = 0.01
        for _ in range(2):
            done = threading.Event()
            watcher.watch({"waitress.client_disconnected": lambda: True}, done.set)
            assert done.wait(PATIENCE_S)
            while watcher.is_running:
                done.wait(0.001)
                threading.Event().wait(0.001)

    def test_watches_are_values(self):
        """Active from the start."""
        assert Watch(lambda: True, lambda: None).active


class Loop:
    """gevent's event loop, as far as a watcher needs it: `ring()` says that the connection became readable."""

    def __init__(self):
        self.hung = None

    def io(self, number, events):
        self.number, self.events = number, events
        return self

    def start(self, callback, *args):
        self.hung = lambda: callback(*args)

    def stop(self):
        self.hung = None

    def close(self):
        self.closed = True

    def ring(self):
        self.hung()


class GeventSocket:
    """Only what gevent's socket adds: the plain one below it, and its hub."""

    def __init__(self, plain, loop):
        self._sock = plain
        self.fileno = plain.fileno
        self.hub = type("Hub", (), {"loop": loop})


class TestUnderGevent:
    """The event loop tells; nobody asks."""

    @pytest.fixture
    def bell(self):
        return Loop()

    @pytest.fixture
    def gone(self):
        return threading.Event()

    @pytest.fixture
    def watcher(self):
        return ClientWatcher(period_s=0.001)

    @pytest.fixture
    def watch(self, watcher, pair, bell, gone):
        return watcher.watch({"gunicorn.socket": GeventSocket(pair[0], bell)}, gone.set)

    def test_a_silent_client_costs_nothing(self, watcher, watch, bell, pair):
        """No thread asks for it; the loop waits for its connection to become readable."""
        assert not watcher.is_running
        assert (bell.number, bell.events) == (pair[0].fileno(), 1)

    def test_a_client_that_goes(self, watch, bell, pair, gone):
        """Noticed when the loop says so."""
        pair[1].close()
        bell.ring()
        assert gone.wait(PATIENCE_S)
        assert not watch.active and bell.hung is None

    def test_the_next_request_is_no_end(self, watch, bell, pair, gone):
        """But the end behind it is seen as well: from now on the client is asked for."""
        pair[1].sendall(b"GET")
        bell.ring()
        assert not gone.wait(0.05)
        pair[0].recv(3)
        pair[1].close()
        assert gone.wait(PATIENCE_S)

    def test_a_stopped_watch_leaves_the_loop(self, watch, bell):
        """The connection may serve the next request."""
        watch.stop()
        watch.stop()
        assert bell.hung is None and bell.closed

    def test_the_loop_never_waits(self, tmp_path):
        """gevent refuses any wait in its event loop, also that of a thread for its start."""
        pytest.importorskip("gevent")
        script = tmp_path / "bell.py"
        script.write_text(_UNDER_GEVENT, "utf-8")
        told = subprocess.run(
            [sys.executable, str(script)], capture_output=True, text=True, timeout=PATIENCE_S, cwd=HOUSE
        )
        assert (told.stdout.strip(), told.stderr) == ("gone", "")


_UNDER_GEVENT = """
import sys

sys.path.insert(0, "")
from gevent import monkey

monkey.patch_all()
import gevent
from gevent import socket
from gevent.event import Event

from Middleware.api.client_watch import ClientWatcher

ours, theirs = socket.socketpair()
gone = Event()
ClientWatcher().watch({"gunicorn.socket": ours}, gone.set)
gevent.sleep(0)
theirs.close()
print("gone" if gone.wait(600) else "not noticed")
"""


class TestEndConnection:
    def test_no_further_request_is_waited_for(self):
        """What is still to be written arrives."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            end_connection({"gunicorn.socket": ours})
            ours.sendall(b"the end")
            assert (ours.recv(1), theirs.recv(10)) == (b"", b"the end")

    def test_a_client_that_has_left(self):
        """And servers that give no socket."""
        ours, theirs = socket.socketpair()
        theirs.close()
        ours.close()
        end_connection({"gunicorn.socket": ours})
        end_connection({})
        assert ours.fileno() == -1
