"""Finished responses that a client may name again: kept in memory, forgotten at the end of the process.

Under (API key or none, id) stand the final object and the input items of its request, as JSON text: nobody
can change them, and the limit counts what they take. What was unused for the longest time goes first. Of
other processes it is only known which responses they make now. Never logs a text. Source: spec
more-fronts.md 3.7.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from Middleware.common.types import JsonObject
from Middleware.services.shared_state.member import Member, this_process
from Middleware.utilities.hashing_utils import sha256_hex

logger = logging.getLogger(__name__)

MAX_RESPONSES = 1000
MAX_BYTES = 64 * 1024 * 1024
LIFETIME_S = 24 * 3600.0
MADE = "response"
"""Kind of the record that a response is being made."""

_Place = tuple[str, str]


class UnknownResponse(LookupError):
    """No response of this id is kept for this owner. `response_id`: which one of a chain."""

    def __init__(self, response_id: str) -> None:
        self.response_id = response_id
        super().__init__(f"no response {response_id!r} is stored")


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """One finished response. `response`: the final object; `input_items`: what its request brought."""

    response: JsonObject
    input_items: list[JsonObject]


@dataclass(slots=True)
class _Entry:
    """`data`: JSON in UTF-8. `used`: seconds of the clock."""

    data: bytes
    previous: _Place | None
    used: float


class ResponseStore:
    """Safe from any thread. `owner`: the client's API key or None; only its hash is held."""

    def __init__(
        self,
        *,
        most: int = MAX_RESPONSES,
        most_bytes: int = MAX_BYTES,
        lifetime_s: float = LIFETIME_S,
        clock: Callable[[], float] = time.monotonic,
        member: Callable[[], Member] = this_process,
    ) -> None:
        self._most, self._most_bytes, self._lifetime_s, self._clock = most, most_bytes, lifetime_s, clock
        self._member = member
        self._lock = threading.Lock()
        self._entries: OrderedDict[_Place, _Entry] = OrderedDict()
        self._running: set[_Place] = set()
        self._bytes = 0

    def begin(self, owner: str | None, response_id: str) -> None:
        """A response of this id is being made, until `keep` or `end`."""
        place = _place(owner, response_id)
        with self._lock:
            self._running.add(place)
        self._member().put(MADE, " ".join(place), "")

    def end(self, owner: str | None, response_id: str) -> bool:
        """It is not made any more, or shall not be kept. True when it was."""
        place = _place(owner, response_id)
        with self._lock:
            if place not in self._running:
                return False
            self._running.remove(place)
        self._tell_of_end(place)
        return True

    def _tell_of_end(self, place: _Place) -> None:
        self._member().remove(MADE, " ".join(place), "")

    def is_running(self, owner: str | None, response_id: str) -> bool:
        """In this process or another one."""
        place = _place(owner, response_id)
        return place in self._running or self._member().find(MADE, " ".join(place)) is not None

    def keep(self, owner: str | None, response: JsonObject, input_items: list[JsonObject]) -> None:
        """A response that was begun is made: keep it, linked to its `previous_response_id`.

        One that was ended before, or that is larger than all that may be kept, is not kept.
        """
        data = _pack_response(response, input_items)
        if data is None or len(data) > self._most_bytes:
            logger.warning(
                "a response could not be kept, because it is too large or cannot be written as JSON"
            )
            self.end(owner, response["id"])
            return
        place, previous = _place(owner, response["id"]), response.get("previous_response_id")
        with self._lock:  # whoever deletes it meets it here or there
            if place not in self._running:
                return
            self._running.remove(place)
            self._entries[place] = _Entry(data, _place(owner, previous) if previous else None, self._clock())
            self._bytes += len(data)
            self._drop_old()
        self._tell_of_end(place)

    def find(self, owner: str | None, response_id: str) -> StoredResponse | None:
        """The response of this id; None when there is none. It and its chain count as used."""
        with self._lock:
            entry = self._touch_chain(_place(owner, response_id))
        return None if entry is None else _unpack_response(entry.data)

    def chain(self, owner: str | None, response_id: str) -> list[StoredResponse]:
        """The response and all before it, the first one first. Raises UnknownResponse for a missing link."""
        found: list[bytes] = []
        with self._lock:
            place: _Place | None = _place(owner, response_id)
            self._touch_chain(_place(owner, response_id))
            while place is not None:
                if (entry := self._entries.get(place)) is None:
                    raise UnknownResponse(place[1])
                found.append(entry.data)
                place = entry.previous
        return [_unpack_response(data) for data in reversed(found)]

    def delete(self, owner: str | None, response_id: str) -> bool:
        """True when there was one."""
        with self._lock:
            self._drop_old()
            return self._drop(_place(owner, response_id))

    def _touch_chain(self, place: _Place) -> _Entry | None:
        """The entry of a place. All links of its chain move to the end, where the newest stand."""
        self._drop_old()
        now, links = self._clock(), []
        wanted: _Place | None = place
        while wanted is not None and (entry := self._entries.get(wanted)) is not None:
            links.append((wanted, entry))
            wanted = entry.previous
        for link, entry in reversed(links):
            entry.used = now
            self._entries.move_to_end(link)
        return links[0][1] if links else None

    def _drop_old(self) -> None:
        """Constant work but for what goes: the entries stand in the order of their last use."""
        oldest_use = self._clock() - self._lifetime_s
        while self._entries:
            place, entry = next(iter(self._entries.items()))
            fits = len(self._entries) <= self._most and self._bytes <= self._most_bytes
            if fits and entry.used >= oldest_use:
                return
            self._drop(place)

    def _drop(self, place: _Place) -> bool:
        entry = self._entries.pop(place, None)
        self._bytes -= len(entry.data) if entry else 0
        return entry is not None


def _place(owner: str | None, response_id: str) -> _Place:
    return (sha256_hex(owner) if owner else "", response_id)


def _pack_response(response: JsonObject, input_items: list[JsonObject]) -> bytes | None:
    """None for numbers that JSON has no form for."""
    try:
        text = json.dumps([response, input_items], ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:
        return None
    return text.encode("utf-8", "surrogatepass")


def _unpack_response(data: bytes) -> StoredResponse:
    response, input_items = json.loads(data.decode("utf-8", "surrogatepass"))
    return StoredResponse(response, input_items)
