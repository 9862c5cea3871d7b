"""Bound, announced, and brought to an orderly end (frontend-api.md 2.3). Real processes: tests/e2e/test_servers.py."""

from __future__ import annotations

import errno
import http.client
import os
import re
import signal
import socket
import sys
import threading
import time

import pytest

from Middleware.api.launch_arguments import parse
from Middleware.api.requests.request_life import RequestLife
from Middleware.api.serving import startup, waitress_server
from Middleware.services.cancellation_service import cancellation_service
from tests.patience import PATIENCE_S, wait_until


@pytest.fixture(autouse=True)
def _quiet(monkeypatch):
    """Neither logging nor the engine; signal handlers and the collector as they were."""
    monkeypatch.setattr(startup, "configure_logging", lambda *given: None)
    monkeypatch.setattr(waitress_server, "warm_up", lambda: None)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def prepared(configs, tmp_path):
    """(launch, server) on a free port with few threads."""

    def make(*words):
        launch = parse(("--PublicDirectory", str(tmp_path), "--User", "mira", "--threads", "4", *words))
        return launch, startup.prepare(launch)

    return make


def is_closed(port):
    """Whether nobody can connect any more; the server's own thread closes the port, at its next turn."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return True
        time.sleep(0.01)
    return False


def when_listening(capsys, action):
    """Run `action(port)` in a thread as soon as the ready line is there, then stop the server."""

    def wait():
        said, end = "", time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            said += capsys.readouterr().out
            if found := re.search(r"listening on http://\S+:(\d+) users=mira concurrency=1/request", said):
                action(int(found[1]), said)
                break
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_it_serves_until_a_signal(prepared, capsys):
    """The ready line is there when it answers; exit status 0."""
    seen = []

    def ask(port, said):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        connection.request("GET", "/health")
        seen.append((connection.getresponse().status, "--listen opens it" in said))
        connection.close()

    thread = when_listening(capsys, ask)
    assert waitress_server.serve(*prepared("--port", "0")) == 0
    thread.join(PATIENCE_S)
    assert seen == [(200, True)]


def test_nobody_is_answered_before_all_is_announced(prepared, capsys, monkeypatch):
    """Who waits for an answer to know that the server is there finds its lines in the log."""
    before, announce, seen = set(threading.enumerate()), waitress_server._announce, []

    def look(*given):
        announce(*given)
        seen.extend(thread.name for thread in threading.enumerate() if thread not in before)

    monkeypatch.setattr(waitress_server, "_announce", look)
    thread = when_listening(capsys, lambda port, said: None)
    before.add(thread)
    assert waitress_server.serve(*prepared("--port", "0")) == 0
    thread.join(PATIENCE_S)
    assert "waitress" not in seen


def test_a_stop_closes_the_port_and_cancels_what_is_unanswered(prepared, capsys):
    """What has been answered may end."""
    launch, server = prepared("--port", "0")
    waiting, answered = RequestLife("waiting"), RequestLife("answered")
    answered.stop_watching()
    refused = []

    def begin(port, said):
        server.door.lives |= {waiting, answered}
        aborted = threading.Event()
        cancellation_service.register_abort_callback("waiting", aborted.set)

        def end():
            assert aborted.wait(PATIENCE_S)
            server.door.lives.discard(waiting)
            refused.append(is_closed(port))
            server.door.lives.discard(answered)

        threading.Thread(target=end).start()

    thread = when_listening(capsys, begin)
    assert waitress_server.serve(launch, server) == 0
    thread.join(PATIENCE_S)
    cancellation_service.acknowledge_cancellation("waiting")
    assert not cancellation_service.is_cancelled("answered")
    assert refused == [True]


def test_what_arrives_during_a_stop_is_cancelled_as_well(prepared, capsys):
    """An open connection may bring one more request while nodes after an answer still run."""
    launch, server = prepared("--port", "0")
    answered, late = RequestLife("answered"), RequestLife("late")
    answered.stop_watching()
    aborted = threading.Event()

    def begin(port, said):
        server.door.lives.add(answered)
        cancellation_service.register_abort_callback("late", aborted.set)

        def arrive():
            until = time.monotonic() + PATIENCE_S
            while not is_closed(port) and time.monotonic() < until:
                time.sleep(0.01)
            server.door.lives.add(late)
            aborted.wait(PATIENCE_S)
            server.door.lives.clear()

        threading.Thread(target=arrive).start()

    thread = when_listening(capsys, begin)
    assert waitress_server.serve(launch, server) == 0
    thread.join(PATIENCE_S)
    cancellation_service.acknowledge_cancellation("late")
    assert aborted.is_set()


def test_a_second_signal_ends_the_wait(prepared, capsys, caplog):
    """With a word about what was left."""
    launch, server = prepared("--port", "0")
    life = RequestLife("slow")
    life.stop_watching()

    def begin(port, said):
        server.door.lives.add(life)
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()

    thread = when_listening(capsys, begin)
    assert waitress_server.serve(launch, server) == 0
    thread.join(PATIENCE_S)
    assert "stopped while 1 request still had nodes to run" in caplog.text


def test_a_port_that_is_taken(prepared, capsys):
    """Exit status 1 and a line that says so."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert waitress_server.serve(*prepared("--port", str(taken.getsockname()[1]))) == 1
    said = capsys.readouterr().err
    assert "cannot listen on 127.0.0.1" in said and "; choose another port with --port N" in said


class TestAdvice:
    """What a port that cannot be had is told with."""

    def test_macos_keeps_a_port(self, prepared, monkeypatch):
        """The one that is the default."""
        monkeypatch.setattr(waitress_server.sys, "platform", "darwin")
        launch, _ = prepared("--port", "5000")
        assert "macOS uses 5000" in waitress_server._advice(launch, OSError(errno.EADDRINUSE, "in use"))

    def test_other_systems_do_not(self, prepared):
        launch, _ = prepared("--port", "5000")
        assert "macOS" not in waitress_server._advice(launch, OSError(errno.EADDRINUSE, "in use"))

    def test_low_ports_need_rights(self, prepared):
        launch, _ = prepared("--port", "80")
        assert "1024 or above" in waitress_server._advice(launch, OSError(errno.EACCES, "denied"))

    def test_an_address_of_another_machine(self, prepared, capsys):
        """Then it is not the port."""
        assert waitress_server.serve(*prepared("--listen", "192.0.2.1", "--port", "0")) == 1
        assert "give --listen an address of this machine" in capsys.readouterr().err


@pytest.mark.parametrize(("threads", "most"), [(400, 384), (17, 1), (16, 8), (4, 2), (1, 1)])
def test_some_threads_are_spared(threads, most):
    """For lists, cancellations and signs of life."""
    assert waitress_server.most_posts(threads) == most


@pytest.mark.parametrize(("threads", "most"), [(400, 8), (17, 8), (16, 4), (4, 1), (1, 0)])
def test_open_pages_take_half_of_those(threads, most):
    """A server of few threads is not held by people who look at it."""
    assert waitress_server.most_pages(threads) == most


class TestUnfinishedRequests:
    """A connection without a complete request is closed after a while, and no other one (2.4)."""

    @pytest.fixture
    def port(self):
        def app(environ, start_response):
            start_response("200 OK", [("Content-Type", "text/plain")])
            time.sleep(2.5)
            yield b"it took its time "
            for _ in range(6):
                time.sleep(0.5)
                yield b"still here "

        with socket.create_server(("127.0.0.1", 0)) as listening:
            server, listeners = waitress_server.waitress_for(app, listening, 4, unfinished_s=1)
            threading.Thread(target=server.run, daemon=True).start()
            yield listeners[0].effective_port
            listeners[0].trigger.pull_trigger(waitress_server._closing(listeners[0]))

    def test_a_trickle_is_closed(self, port):
        """However lively it is; a request takes no minute to arrive."""
        with socket.create_connection(("127.0.0.1", port), timeout=0.2) as connection:
            connection.sendall(b"POST / HTTP/1.1\r\nContent-Length: 900\r\n\r\n")
            end = time.monotonic() + PATIENCE_S
            while time.monotonic() < end and not _was_closed(connection):
                continue
            assert time.monotonic() < end

    def test_a_long_answer_is_not(self, port):
        """Nothing more is heard of a client that listens."""
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            said = b""
            while part := connection.recv(65536):
                said += part
        assert said.count(b"still here") == 6

    def test_an_answer_that_nobody_reads_yet_is_not(self):
        """It is complete for the application, and most of it still lies in the server."""

        def app(environ, start_response):
            start_response("200 OK", [("Content-Length", str(40_000_000))])
            return [bytes(40_000_000)]

        with socket.create_server(("127.0.0.1", 0)) as listening:
            server, listeners = waitress_server.waitress_for(app, listening, 4, unfinished_s=3)
            threading.Thread(target=server.run, daemon=True).start()
            with socket.create_connection(
                ("127.0.0.1", listeners[0].effective_port), timeout=PATIENCE_S
            ) as connection:
                connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
                time.sleep(7)
                said = 0
                while part := connection.recv(1 << 20):
                    said += len(part)
            listeners[0].trigger.pull_trigger(waitress_server._closing(listeners[0]))
        assert said > 40_000_000


class TestWorkers:
    """The thread that rested last takes the next request."""

    def test_who_has_waited_for_the_shortest_time_is_woken_first(self):
        """Then the one before it."""
        lock, woken, waiting = threading.Lock(), [], []
        rested = waitress_server.LatestFirst(lock)

        def rest(name):
            with lock:
                waiting.append(name)
                rested.wait()
                woken.append(name)

        threads = []
        for name in "abc":
            threads.append(threading.Thread(target=rest, args=(name,)))
            threads[-1].start()
            wait_until(lambda: name in waiting)  # noqa: B023 - called at once
        for number in (1, 2):
            with lock:
                rested.notify()
            wait_until(lambda: len(woken) == number)  # noqa: B023
        with lock:
            rested.notify_all()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert woken == ["c", "b", "a"]

    def test_one_thread_takes_requests_that_come_one_after_the_other(self):
        """However many there are."""
        workers, took = waitress_server.started_workers(5), []

        class Task:
            def service(self):
                took.append(threading.current_thread().name)

        for number in range(1, 13):
            wait_until(lambda: workers.active_count == 0)
            workers.add_task(Task())
            wait_until(lambda: len(took) == number)  # noqa: B023
        workers.shutdown(timeout=PATIENCE_S)
        assert len(set(took)) == 1 and not workers.threads

    def test_requests_that_come_together_are_worked_on_together(self):
        """Nobody waits while a thread rests."""
        workers, met = waitress_server.started_workers(5), threading.Barrier(5)

        class Task:
            def service(self):
                met.wait(PATIENCE_S)

        for _ in range(10):
            workers.add_task(Task())
        wait_until(lambda: workers.active_count == 0 and not workers.queue)
        workers.shutdown(timeout=PATIENCE_S)
        assert not met.broken


def _was_closed(connection):
    """One more byte of the body, and a look whether it is still wanted."""
    try:
        connection.sendall(b"x")
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def test_a_signal_may_come_at_any_moment_of_the_wait():
    """Its handler interrupts the waiting thread wherever that is, also where a lock is held."""
    signals = waitress_server._Signals()

    def interrupt(frame, event, argument):
        handler = signal.getsignal(signal.SIGTERM)
        if event == "line" and frame.f_code.co_name in ("wait", "__enter__", "__exit__"):
            sys.settrace(None)
            handler(signal.SIGTERM, frame)
            sys.settrace(interrupt)
        return interrupt

    def wait():
        sys.settrace(interrupt)
        try:
            signals.wait()
        finally:
            sys.settrace(None)

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    waiting.join(PATIENCE_S)
    assert not waiting.is_alive()
