"""Processes that share a store, one in each kind of store."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest
import redis

from Middleware.services.shared_state.redis_store import RedisStore
from Middleware.services.shared_state.sqlite_store import SqliteStore
from Middleware.services.shared_state.store import MemoryStore, Tables
from tests.redis_server import RedisServer


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory):
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    yield server
    server.stop()


class InMemory:
    def __init__(self):
        self.tables = Tables()

    def store(self, owner):
        return MemoryStore(owner, self.tables)

    def silence(self, owner):
        self.tables.beats[owner] = float("-inf")

    def age_buckets(self):
        buckets = self.tables.buckets
        buckets.update({name: (level, at - 60) for name, (level, at) in buckets.items()})

    def age_places(self):
        for gate in self.tables.gates.values():
            gate.came.update(dict.fromkeys(gate.came, float("-inf")))

    def age_notes(self):
        notes = self.tables.notes
        notes.update({place: (note, float("-inf")) for place, (note, _) in notes.items()})


class InFile:
    def __init__(self, folder):
        self.file = folder / "locks" / "workers.sqlite"
        self.stores = []

    def store(self, owner):
        self.stores.append(SqliteStore(self.file, owner))
        return self.stores[-1]

    def silence(self, owner):
        with closing(sqlite3.connect(self.file)) as connection, connection:
            connection.execute("UPDATE Members SET Beat = -1e9 WHERE Owner = ?", (owner,))

    def age_buckets(self):
        with closing(sqlite3.connect(self.file)) as connection, connection:
            connection.execute("UPDATE Buckets SET At = At - 60")

    def age_places(self):
        with closing(sqlite3.connect(self.file)) as connection, connection:
            connection.execute("UPDATE Asks SET Came = -1e9")

    def age_notes(self):
        with closing(sqlite3.connect(self.file)) as connection, connection:
            connection.execute("UPDATE Notes SET Written = -1e9")

    def close(self):
        for store in self.stores:
            store.close()


class InRedis:
    def __init__(self, server):
        self.url = server.url
        self.client = redis.Redis.from_url(self.url)
        self.client.flushall()
        self.stores = []

    def store(self, owner):
        self.stores.append(RedisStore(self.url, owner))
        return self.stores[-1]

    def silence(self, owner):
        for member in self.client.zrange("headrace:members", 0, -1):
            if member.decode().startswith(f"{owner}."):  # and how often it has joined
                self.client.zadd("headrace:members", {member: 0})

    def age_buckets(self):
        for bucket in self.client.keys("headrace:bucket:*"):
            self.client.hincrbyfloat(bucket, "at", -60)

    def age_places(self):
        for asks in self.client.keys("headrace:asks:*"):
            for place, told in self.client.hgetall(asks).items():
                ask = json.loads(told)
                self.client.hset(asks, place, json.dumps([*ask[:4], 0] if ask[3] else ask))

    def age_notes(self):
        for place in self.client.zrange("headrace:notes:written", 0, -1):
            self.client.zadd("headrace:notes:written", {place: 0})

    def close(self):
        self.client.close()
        for store in self.stores:
            store.close()


@pytest.fixture(params=["memory", "sqlite", "redis"])
def shared(request, tmp_path):
    """`shared.store(owner)`: one process's view; `shared.silence(owner)`: it has not beaten for a long time;
    `shared.age_notes()`: nobody has written a note for a long time; `shared.age_places()`: those who wait for
    a background turn have waited for long; `shared.age_buckets()`: a minute has passed.
    """
    if request.param == "memory":
        yield InMemory()
        return
    made = InFile(tmp_path) if request.param == "sqlite" else InRedis(request.getfixturevalue("redis_server"))
    yield made
    made.close()
