"""What is special about Redis: where it is, and what is said when it cannot be reached."""

from __future__ import annotations

import socket
import threading
from contextlib import closing, suppress

import pytest
import redis

from Middleware.services.shared_state.redis_store import RedisStore, place_of
from Middleware.services.shared_state.store import Places, StoreLost
from tests.patience import PATIENCE_S, wait_until


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("redis://ann:secret@redis.internal:7000/3", "redis.internal:7000"),
        ("rediss://:secret@redis.internal", "redis.internal:6379"),
        ("redis://", "localhost:6379"),
        ("unix://ann:secret@/run/redis.sock?db=1", "/run/redis.sock"),
    ],
)
def test_the_place_has_no_secret(url, place):
    """It stands in logs."""
    assert place_of(url) == place


def test_one_that_refuses():
    """The error names the place, not the password."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        port = taken.getsockname()[1]
        with pytest.raises(StoreLost, match=f"Redis at 127.0.0.1:{port}") as lost:
            RedisStore(f"redis://:secret@127.0.0.1:{port}", "one").join()
    assert "secret" not in str(lost.value)


def test_one_that_does_not_answer(monkeypatch):
    """It is as good as gone."""
    monkeypatch.setattr("Middleware.services.shared_state.redis_store.ANSWER_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        store = RedisStore(f"redis://127.0.0.1:{silent.getsockname()[1]}", "one")
        with pytest.raises(StoreLost, match="Redis at"):
            store.beat()
        store.close()


def test_two_databases_are_two_worlds(redis_server):
    """Servers that are not to be one take another number."""
    stores = [RedisStore(f"{redis_server.url}/{number}", "one") for number in (1, 2)]
    for store in stores:
        store.join()
    stores[0].put("key", "k", "v")
    assert stores[1].find("key", "k") is None
    for store in stores:
        store.close()


class HeldBack:
    """A network between a process and its server: what is sent while it is `cut` arrives by `deliver`."""

    def __init__(self, port):
        self._port, self.cut = port, False
        self._released, self._arrived = threading.Event(), threading.Event()
        self._threads = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self._listening.getsockname()[1]}"
        self._start(self._accept)

    def _start(self, work, *words):
        self._threads.append(threading.Thread(target=work, args=words))
        self._threads[-1].start()

    def _accept(self):
        with suppress(OSError):  # shut: the end
            while True:
                near = self._listening.accept()[0]
                self._start(self._carry, near, socket.create_connection(("127.0.0.1", self._port)))

    def _carry(self, near, far):
        back = threading.Thread(target=self._carry_back, args=(far, near))
        back.start()
        with near, far:
            while data := near.recv(65536):
                late = self.cut
                if late:
                    self._released.wait(PATIENCE_S)
                far.sendall(data)
                if late:
                    self._arrived.wait(PATIENCE_S)
            far.shutdown(socket.SHUT_RDWR)
            back.join(PATIENCE_S)

    def _carry_back(self, far, near):
        while data := far.recv(65536):
            if self._released.is_set():
                self._arrived.set()
            with suppress(OSError):  # the process waits for it no longer
                near.sendall(data)

    def deliver(self):
        """Returns when the server has done it."""
        self._released.set()
        assert self._arrived.wait(PATIENCE_S)

    def close(self):
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for thread in self._threads:
            thread.join(PATIENCE_S)


@pytest.fixture
def wire(redis_server):
    made = HeldBack(redis_server.port)
    yield made
    made.close()


def test_what_a_network_held_back_takes_no_slot(redis_server, wire):
    """It comes when the process has joined again, which knows nothing of it and would never give it back."""
    with closing(RedisStore(wire.url, "one")) as store, closing(RedisStore(redis_server.url, "two")) as other:
        store.join()
        other.join()
        other.turns("late", 1, Places())  # so that the server knows the script
        wire.cut = True
        with pytest.raises(StoreLost):
            store.turns("late", 1, Places(wait=["a"]))
        wire.cut = False
        store.join()
        wire.deliver()
        assert other.turns("late", 1, Places(wait=["b"])) == ["b"]


@pytest.mark.parametrize(
    ("setting", "value"), [("maxmemory", "1"), ("min-replicas-to-write", "1")], ids=["memory", "replicas"]
)
def test_one_that_cannot_write_is_not_joined(redis_server, setting, value):
    """Else a process would be one of several again, and alone again, every second."""
    with closing(redis.Redis.from_url(redis_server.url)) as client:
        if setting == "min-replicas-to-write" and client.info("server")["redis_version"].startswith("6."):
            pytest.skip("before Redis 7 a script may write without enough replicas")
        before = client.config_get(setting)[setting]
        store = RedisStore(redis_server.url, "one")
        store.join()
        client.config_set(setting, value)
        try:
            with pytest.raises(StoreLost, match="Redis at"):
                store.join()
        finally:
            client.config_set(setting, before)
        store.join()
        store.close()


def test_a_server_that_forgot_the_scripts_is_told_them_again(redis_server):
    """After a restart, or when somebody flushed them; the answers are in their order."""
    store = RedisStore(redis_server.url, "one")
    store.join()
    store.put("key", "k", "v")
    with closing(redis.Redis.from_url(redis_server.url)) as client:
        client.script_flush()
    assert store.find("key", "k") == "v"
    store.close()


def test_a_removal_comes_before_what_is_asked_after_it(redis_server):
    """Though nobody waited for it."""
    store = RedisStore(redis_server.url, "one")
    store.join()
    for number in range(50):
        store.put("key", "k", f"{number}")
        store.remove("key", "k", f"{number}")
        assert store.find("key", "k") is None
    store.close()


def test_a_removal_that_failed_is_noticed(redis_server, monkeypatch):
    """By whoever asks next: the server would hold for ever what is gone."""
    store = RedisStore(redis_server.url, "one")
    store.join()
    send = store._calls._send

    def fails(calls):
        raise redis.ConnectionError("gone")

    monkeypatch.setattr(store._calls, "_send", fails)
    store.remove("key", "k", "v")
    wait_until(lambda: store._calls._missed is not None)
    monkeypatch.setattr(store._calls, "_send", send)
    with pytest.raises(StoreLost, match="gone"):
        store.find("key", "k")
    store.close()


def test_one_that_has_not_joined_hears_what_is_kept(redis_server):
    """From the first message on."""
    one, late = (RedisStore(redis_server.url, name, "early:") for name in ("one", "late"))
    one.join()
    one.tell("hello")
    assert late.receive(0)[-1:] == ["hello"]
