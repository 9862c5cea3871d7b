"""What servers on several machines share: a Redis server. Knows `redis`; nobody else does.

Each call is one script, run as one step; messages come by a stream that is read as soon as something is in
it, and loses nothing while a connection is made anew. Extra: `redis`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from Middleware.services.shared_state.redis_scripts import SCRIPTS
from Middleware.services.shared_state.store import LEASE_S, Forgotten, Places, StoreLost

PREFIX = "headrace:"
ANSWER_S = 1.0
"""A server that takes longer to answer is as good as gone."""
MOST_WAIT_S = 2.0
"""`heard` waits no longer, so that a server that is gone is noticed."""


class RedisStore:
    """The view of one owner. `url`: `redis://`, `rediss://` or `unix://`, as redis-py reads it.

    Connects on first use. Each time it joins it takes another name: what it asked for before, and the network
    held back, comes from somebody who is not known any more. Raises ImportError without `redis`, ValueError
    for an URL that is none.
    """

    shared, many_machines = True, True

    def __init__(self, url: str, owner: str, prefix: str = PREFIX) -> None:
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        self._owner, self._name, self._prefix, self.place = owner, owner, prefix, place_of(url)
        self._lives = 0
        self._errors = (redis.RedisError, OSError)
        never = Retry(NoBackoff(), 0)  # who cannot be reached is asked again by the heartbeat
        how: dict[str, Any] = {"retry": never, "decode_responses": True, "protocol": 2}
        how["socket_connect_timeout"] = ANSWER_S
        self._redis = redis.Redis.from_url(url, socket_timeout=ANSWER_S, **how)
        self._listener = redis.Redis.from_url(url, socket_timeout=MOST_WAIT_S + ANSWER_S, **how)
        self._scripts = {name: self._redis.register_script(text) for name, text in SCRIPTS.items()}
        self._read = "0"
        """Id of the last message that was heard."""

    def join(self) -> None:
        before, self._lives = self._owner, self._lives + 1
        owner = f"{self._name}.{self._lives}"
        self._run_as(owner, "JOIN", before)
        self._owner, self._read = owner, "0"

    def beat(self) -> bool:
        return bool(self._run("BEAT"))

    def put(self, kind: str, key: str, value: str) -> str | None:
        return _value(self._run("PUT", kind, key, value, "0"))

    def add(self, kind: str, key: str, value: str) -> bool:
        return self._run("PUT", kind, key, value, "1") in (None, f"{self._owner}\n{value}")

    def find(self, kind: str, key: str) -> str | None:
        return _value(self._run("FIND", kind, key))

    def remove(self, kind: str, key: str, value: str) -> None:
        self._run("REMOVE", kind, key, value)

    def turns(self, gate: str, limit: int, places: Places) -> list[str]:
        return [str(ticket) for ticket in self._run("TURNS", gate, limit, json.dumps(places._asdict()))]

    def waiting(self, gate: str) -> int:
        return int(self._run("WAITING", gate))

    def tell(self, message: str) -> None:
        self._run("TELL", message)

    def receive(self, wait_s: float) -> list[str]:
        stream = f"{self._prefix}messages"
        block = max(1, int(min(wait_s, MOST_WAIT_S) * 1000)) if wait_s else None
        found = self._ask_server(lambda: self._listener.xread({stream: self._read}, block=block))
        entries = [entry for _, batch in found for entry in batch]
        if entries:
            self._read = entries[-1][0]
        return [fields["m"] for _, fields in entries]

    def close(self) -> None:
        """Let the connections go. Another call makes new ones."""
        self._redis.close()
        self._listener.close()

    def _run(self, name: str, *words: Any) -> Any:
        return self._run_as(self._owner, name, *words)

    def _run_as(self, owner: str, name: str, *words: Any) -> Any:
        words = (self._prefix, owner, LEASE_S, *words)
        return self._ask_server(lambda: self._scripts[name](args=words))

    def _ask_server(self, ask: Callable[[], Any]) -> Any:
        """What the server answers. Raises StoreLost."""
        try:
            return ask()
        except self._errors as error:
            kind = Forgotten if "FORGOTTEN" in str(error) else StoreLost
            raise kind(f"Redis at {self.place}: {error}") from error


def place_of(url: str) -> str:
    """Where the server is, without name and password. Raises ValueError."""
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return parts.path
    return f"{parts.hostname or 'localhost'}:{parts.port or 6379}"


def _value(found: str | None) -> str | None:
    return None if found is None else found.partition("\n")[2]
