"""What servers on several machines share: a Redis server. Knows `redis`; nobody else does.

Each call is one script, run as one step; those that wait at the same time are sent together. Messages come by
a stream that is read as soon as something is in it, and loses nothing while it reconnects. Extra: `redis`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from Middleware.services.shared_state.budgets import Bucket, Sums
from Middleware.services.shared_state.call_batches import BatchedCall, CallBatches
from Middleware.services.shared_state.redis_scripts import SCRIPTS
from Middleware.services.shared_state.store import (
    LEASE_S,
    MOST_NOTES,
    NOTE_LIFE_S,
    Forgotten,
    Note,
    Places,
    StoreLost,
)

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
        self._no_script = redis.exceptions.NoScriptError
        never = Retry(NoBackoff(), 0)  # who cannot be reached is asked again by the heartbeat
        # With protocol 3 XREAD answers with a map, with 2 with a list of pairs, which each Redis knows.
        how: dict[str, Any] = {"retry": never, "decode_responses": True, "protocol": 2}
        how["socket_connect_timeout"] = ANSWER_S
        # A listener of its own: XREAD holds its connection for as long as it waits (Redis, "XREAD", BLOCK).
        self._redis = redis.Redis.from_url(url, socket_timeout=ANSWER_S, **how)
        self._listener = redis.Redis.from_url(url, socket_timeout=MOST_WAIT_S + ANSWER_S, **how)
        self._digests = {name: hashlib.sha1(text.encode()).hexdigest() for name, text in SCRIPTS.items()}
        self._knows_scripts = False
        self._calls = CallBatches(self._send)
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
        self._calls.post("REMOVE", self._words(self._owner, kind, key, value))

    def turns(
        self,
        gate: str,
        limit: int,
        places: Places,
        one_model: bool = False,
        when_queued: Callable[[], object] | None = None,
    ) -> list[str]:
        told = json.dumps({**places._asdict(), "asks": dict(places.asks)})
        words = self._words(self._owner, gate, limit, told, "1" if one_model else "0")
        return [str(one) for one in self._ask_server(lambda: self._calls.ask("TURNS", words, when_queued))]

    def waiting(self, gate: str, before: str = "", name: str | None = None) -> int:
        return int(self._run("WAITING", gate, before, "0" if name is None else "1", name or ""))

    def holding(self, gates: Sequence[str]) -> list[int]:
        return [int(count) for count in self._run("HOLDING", json.dumps(list(gates)))]

    def crowd(self, gate: str, key: str) -> tuple[int, int]:
        inside, waiting = self._run("CROWD", gate, key)
        return int(inside), int(waiting)

    def take(self, name: str, size: int, at_most: float, wanted: int = 1) -> Bucket:
        took, level = self._run("TAKE", name, size, at_most, wanted)
        return Bucket(bool(took), float(level))

    def count(self, name: str, day: str, amounts: Mapping[str, int], known: Mapping[str, int]) -> Sums:
        found = self._run("COUNT", name, day, json.dumps(dict(amounts)), json.dumps(dict(known)))
        return {what: int(total) for what, total in zip(found[::2], found[1::2], strict=True)}

    def keep_note(self, shelf: str, note: Note) -> None:
        marks = json.dumps(list(note.marks))
        self._run("KEEP_NOTE", shelf, int(NOTE_LIFE_S), MOST_NOTES, note.key, note.value, marks)

    def find_note(self, shelf: str, key: str) -> str | None:
        found: str | None = self._run("FIND_NOTE", shelf, int(NOTE_LIFE_S), key)
        return found

    def nearest_note(self, shelf: str, marks: Sequence[str]) -> tuple[str, str] | None:
        found = self._run("NEAREST_NOTE", shelf, int(NOTE_LIFE_S), json.dumps(list(marks)))
        return (found[0], found[1]) if found else None

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
        return self._ask_server(lambda: self._calls.ask(name, self._words(owner, *words)))

    def _words(self, owner: str, *words: Any) -> tuple[Any, ...]:
        return (self._prefix, owner, LEASE_S, *words)

    def _send(self, calls: Sequence[BatchedCall]) -> list[Any]:
        """Ask all in one exchange, the first one with the texts of the scripts. A server that has lost them
        since is sent a text where it does not know the script.
        """
        with self._redis.pipeline(transaction=False) as line:
            texts = () if self._knows_scripts else tuple(SCRIPTS.values())
            for text in texts:
                line.script_load(text)
            for call in calls:
                line.evalsha(self._digests[call.name], 0, *call.words)
            answers: list[Any] = line.execute(raise_on_error=False)[len(texts) :]
            unknown = [i for i, answer in enumerate(answers) if isinstance(answer, self._no_script)]
            for i in unknown:
                line.eval(SCRIPTS[calls[i].name], 0, *calls[i].words)
            for i, answer in zip(unknown, line.execute(raise_on_error=False) if unknown else (), strict=True):
                answers[i] = answer
        self._knows_scripts = not unknown
        return answers

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
