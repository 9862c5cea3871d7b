"""Pooled connections are closed when nobody used them for a minute, with nothing else going on."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import pytest

from Middleware.llmapis.wire import idle_connections as module
from Middleware.llmapis.wire.connections import AbortHandle
from Middleware.llmapis.wire.http import Post, Transport
from Middleware.llmapis.wire.idle_connections import IDLE_S, IdleConnections, idle_connections
from tests.patience import PATIENCE_S, wait_until


class Connection:
    """Came back to its pool at a time."""

    def __init__(self, idle_since: float) -> None:
        self.idle_since = idle_since
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


class Pool:
    """As much of a pool of urllib3 as is looked at."""

    def __init__(self, *connections: Connection | None) -> None:
        self.pool: SimpleNamespace | None = SimpleNamespace(queue=list(connections), mutex=threading.Lock())

    @property
    def waiting(self) -> list[Connection | None]:
        return [] if self.pool is None else self.pool.queue


@pytest.fixture
def no_thread(monkeypatch):
    """The test is the one that sweeps."""
    monkeypatch.setattr(module, "SWEEP_EVERY_S", PATIENCE_S)


def watching(*pools):
    made = IdleConnections()
    for pool in pools:
        made.watch(pool)
    return made


@pytest.mark.usefixtures("no_thread")
class TestWhatIsClosed:
    @pytest.mark.parametrize(("now", "closed"), [(IDLE_S - 0.1, [False, False]), (IDLE_S, [True, False])])
    def test_what_nobody_used_for_a_minute(self, now, closed):
        """Its place in the pool is free; the others stay where they are."""
        old, new = Connection(0.0), Connection(1.0)
        pool = Pool(None, old, new)
        assert watching(pool).close_idle(now)
        assert [old.is_closed, new.is_closed] == closed
        assert pool.waiting == [None, None if closed[0] else old, new]

    def test_in_all_pools(self):
        """Those that are closed already are passed over, wherever they stand."""
        pools = [Pool(Connection(0.0)) for _ in range(9)]
        old = [pool.waiting[0] for pool in pools[4:]]
        sweep = watching(*pools)
        for pool in pools[:4]:
            pool.pool = None
        assert not sweep.close_idle(IDLE_S)
        assert [one.is_closed for one in old] == [True] * 5

    def test_not_what_a_call_has_just_taken(self):
        """Whoever was faster has it."""

        class Taken(Connection):
            @property
            def idle_since(self):
                pool.waiting[:] = [None]
                return 0.0

            @idle_since.setter
            def idle_since(self, value):
                """Nobody asks."""

        taken = Taken(0.0)
        pool = Pool(taken)
        watching(pool).close_idle(IDLE_S)
        assert not taken.is_closed

    def test_in_a_pool_without_a_lock(self):
        """gevent's queue has none."""
        old = Connection(0.0)
        pool = Pool(old)
        del pool.pool.mutex
        watching(pool).close_idle(IDLE_S)
        assert old.is_closed

    def test_a_pool_that_nobody_else_holds_is_let_go(self):
        """Watching keeps nothing alive."""
        sweep = watching(Pool(Connection(IDLE_S)))
        assert not sweep.close_idle(IDLE_S)


class TestTheThread:
    @pytest.fixture(autouse=True)
    def quick(self, monkeypatch):
        monkeypatch.setattr(module, "SWEEP_EVERY_S", 0.01)

    def test_lives_while_a_connection_is_held(self):
        """One, for all pools; a connection that comes back later begins it again."""
        used = Connection(time.monotonic() + PATIENCE_S)
        pool, other = Pool(used), Pool(used)
        sweep = watching(pool, other)
        thread = sweep._thread
        sweep.watch(pool)
        assert sweep._thread is thread and thread.daemon
        pool.waiting[:] = [None]
        thread.join(0.05)
        assert thread.is_alive()
        other.waiting[:] = [None]
        thread.join(PATIENCE_S)
        assert not thread.is_alive()

        pool.waiting[:] = [old := Connection(0.0)]
        sweep.watch(pool)
        wait_until(lambda: old.is_closed)
        wait_until(lambda: sweep._thread is None)

    def test_that_a_fork_left_behind_is_replaced(self):
        """There, the object is still known, and nothing runs."""
        sweep = IdleConnections()
        sweep._thread = threading.Thread()
        pool = Pool(old := Connection(0.0))
        sweep.watch(pool)
        wait_until(lambda: old.is_closed)


class TestOfATransport:
    @pytest.fixture
    def transport(self):
        made = Transport()
        yield made
        made.close()

    def ask(self, transport, url):
        answer = transport.post(Post(url=url, body=b"{}", headers={}, endpoint="E"), AbortHandle())
        with_body = answer.read_all()
        answer.close()
        return with_body

    @pytest.mark.usefixtures("no_thread")
    def test_its_socket_is_closed_after_a_minute(self, serve, rig, transport):
        """Closed, and not left to whoever collects the garbage; the next call opens another."""
        server = serve(script := rig.Holding(rig.head(content_length="4"), b"text"))
        assert self.ask(transport, server.url) == b"text"
        (key,) = transport._adapter.poolmanager.pools.keys()
        pool = transport._adapter.poolmanager.pools[key]
        (held,) = [one for one in pool.pool.queue if one is not None]
        idle_connections().close_idle(time.monotonic() + IDLE_S / 2)
        assert held.sock is not None and not script.closed.wait(0.05)
        idle_connections().close_idle(time.monotonic() + IDLE_S + 1)
        assert held.sock is None
        assert script.closed.wait(PATIENCE_S)
        assert self.ask(transport, server.url) == b"text"

    def test_nobody_has_to_call_again(self, serve, rig, transport, monkeypatch):
        """A server that has nothing to do holds no connection."""
        monkeypatch.setattr(module, "SWEEP_EVERY_S", 0.01)
        monkeypatch.setattr(module, "IDLE_S", 0.0)
        monkeypatch.setattr("Middleware.llmapis.wire.connections.idle_connections", lambda: own)
        own = IdleConnections()
        server = serve(script := rig.Holding(rig.head(content_length="4"), b"text"))
        assert self.ask(transport, server.url) == b"text"
        assert script.closed.wait(PATIENCE_S)
