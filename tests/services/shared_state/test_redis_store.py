"""What is special about Redis: where it is, and what is said when it cannot be reached."""

from __future__ import annotations

import socket

import pytest

from Middleware.services.shared_state.redis_store import RedisStore, place_of
from Middleware.services.shared_state.store import StoreLost


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
