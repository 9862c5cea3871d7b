"""Several servers for one endpoint (`moreEndpoints`): which address a call is put to, and which one next.

An address that cannot be reached is left out for a while, one that has more than its share of the calls under
way is passed over, and of the others a chat gets the server that has read it already; a new one is spread by
a hash that is the same in every process. Opens nothing but DNS. Source: spec prompt-reuse.md 7.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from Middleware.common.errors import BackendError
from Middleware.common.secrets import shown_url
from Middleware.config.endpoints import EndpointConfig
from Middleware.llmapis.egress import place_of
from Middleware.services.fair_gate import NO_LIMIT, FairGate
from Middleware.services.held_prompts import PromptDigest, held_prompts
from Middleware.services.key_limits import ask_of_request
from Middleware.services.readings_ahead import readings_ahead
from Middleware.services.shared_state.turns import Ask

logger = logging.getLogger(__name__)

FIRST_OUT_S = 5.0
LONGEST_OUT_S = 60.0
OUT_STATUSES = frozenset((502, 503, 504))
"""What a proxy says of a server that is not there, and a server that is not ready of itself."""

# --------------------------------------------------------------------------
# Addresses that are out: those that could not be reached lately.


@dataclass(slots=True)
class _Outage:
    """`noted`, `until`: clock's seconds. `tried_by`: the call that is finding out whether it is over."""

    noted: float
    until: float
    wait_s: float
    tried_by: object | None = None


class Outages:
    """What this process knows of addresses that do not answer. Once its time is over one call tries an
    address; for the others it stays out until that one knows. `clock`: seconds that nobody sets."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._guard = threading.Lock()
        self._known: dict[str, _Outage] = {}

    def now(self) -> float:
        return self._clock()

    def is_out(self, address: str) -> bool:
        with self._guard:
            outage = self._known.get(address)
            return outage is not None and (outage.tried_by is not None or self._clock() < outage.until)

    def left_s(self, address: str) -> float:
        """Seconds until it is tried again; 0.0: it is in, or a call may try it or does."""
        with self._guard:
            outage = self._known.get(address)
            return 0.0 if outage is None else max(0.0, outage.until - self._clock())

    def first_to_end(self, addresses: Iterable[str]) -> str:
        """Of addresses that are all out the one whose time ends first."""
        with self._guard:
            ends = {url: known.until for url in addresses if (known := self._known.get(url)) is not None}
        return min(addresses, key=lambda url: ends.get(url, 0.0))

    def begin_call(self, address: str, call: object) -> None:
        """A call goes there: if the address was out, this is the one that tries it."""
        with self._guard:
            outage = self._known.get(address)
            if outage is not None and outage.tried_by is None:
                outage.tried_by = call

    def end_call(self, address: str, call: object) -> None:
        """A call that went there is over, whether or not it found anything out."""
        with self._guard:
            outage = self._known.get(address)
            if outage is not None and outage.tried_by is call:
                outage.tried_by = None

    def note_answer(self, address: str, begun: float) -> None:
        """A call that was begun then was answered; one that is older than the outage says nothing of it."""
        with self._guard:
            outage = self._known.get(address)
            if outage is None or begun < outage.noted:
                return
            del self._known[address]
        logger.info("%s answers again", shown_url(address))

    def note_failure(self, address: str, begun: float) -> None:
        """A call that was begun then did not reach it. Of calls that were under way together only the first
        one counts."""
        with self._guard:
            now, before = self._clock(), self._known.get(address)
            if before is not None and begun < before.noted:
                return
            wait_s = FIRST_OUT_S if before is None else min(2 * before.wait_s, LONGEST_OUT_S)
            self._known[address] = _Outage(now, now + wait_s, wait_s)
        logger.warning("%s does not answer and is left out for %g s", shown_url(address), wait_s)


outages = lru_cache(maxsize=1)(Outages)
"""Those of this process."""


def is_outage(error: BaseException) -> bool:
    """Whether a failure says that the server is not there: no connection, or 502, 503, 504."""
    if not isinstance(error, BackendError):
        return False
    if error.status is not None:
        return error.status in OUT_STATUSES
    return error.kind == "connect_error" or (error.kind == "timeout" and error.retryable)


# --------------------------------------------------------------------------
# The choice among addresses that are in. Pure.


class ChatAsker(NamedTuple):
    """Whose call it is. `chat`: the discussion id, else the first message of the user."""

    user: str
    chat: str


def with_room(wanted: Sequence[str], under_way: Mapping[str, int], limit: int | None = None) -> list[str]:
    """Those of `wanted` that may get one more call: below the limit, and not far above the mean. None is so:
    those below the limit; none of these either: all. `under_way`: address -> calls, of all that are in."""
    most = 1 + 5 * sum(under_way.values()) // (4 * len(under_way))
    free = [url for url in wanted if limit is None or under_way[url] < limit]
    return [url for url in free if under_way[url] <= most] or free or list(wanted)


def favourite(urls: Sequence[str], asker: ChatAsker, shared: Callable[[str], int], head_chars: int) -> str:
    """Where the chat has been, else where a hash puts it.

    `shared(url)`: how many characters of the prompt's beginning that server has read lately. No more than
    `head_chars`, the tools and system messages, count for nothing: all chats share those."""
    counts = {url: shared(url) for url in urls}
    longest = max(counts.values())
    if longest > head_chars:
        urls = [url for url in urls if counts[url] == longest]
    return max(urls, key=lambda url: _rank(url, asker))


def _rank(url: str, asker: ChatAsker) -> bytes:
    """Rendezvous hashing (Thaler and Ravishankar, 1998): where one is missing, only its own chats move."""
    text = "\0".join((url, asker.user, asker.chat))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


# --------------------------------------------------------------------------
# The addresses of an endpoint, with the calls that are under way at each.


class Servers:
    """The addresses of one endpoint. Each has a gate, which counts its calls: over all processes, where they
    share their state."""

    def __init__(self, file: str, urls: tuple[str, ...], limit: int | None) -> None:
        self.urls, self.limit = urls, limit
        limited = f", at most {limit}" if limit else ""
        self._gates = {
            url: FairGate(limit or NO_LIMIT, name=f"endpoint {file} {url}{limited}") for url in urls
        }
        self._choosing = threading.Lock()

    def gate(self, url: str) -> FairGate:
        return self._gates[url]

    def under_way(self) -> dict[str, int]:
        """Address -> calls. What this process reads ahead is none: it gives way."""
        held = FairGate.count_held(list(self._gates.values()))
        readings = readings_ahead()
        return {url: max(0, n - readings.count_at(url)) for url, n in zip(self.urls, held, strict=True)}

    def enter(self, choose: Callable[[dict[str, int]], str]) -> Stop:
        """Choose an address by the calls under way and take its slot, as one step of this process. An address
        that has none free is to be waited for."""
        with self._choosing:
            under_way = self.under_way()
            while True:
                url = choose(under_way)
                readings_ahead().make_way([url])
                stop = Stop(url, self._gates[url])
                if (self.limit is not None and under_way[url] >= self.limit) or stop.enter():
                    return stop
                under_way[url] = self.limit or NO_LIMIT  # another process was faster


@lru_cache(maxsize=256)
def _servers(file: str, urls: tuple[str, ...], limit: int | None) -> Servers:
    return Servers(file, urls, limit)


def servers_of(endpoint: EndpointConfig) -> Servers:
    """Those of this process. An edited file makes new ones; calls at the old ones end by themselves."""
    return _servers(endpoint.file, endpoint.addresses, endpoint.max_concurrent_requests)


# --------------------------------------------------------------------------
# One call on its way over the addresses.


class Stop:
    """The address that a call is put to now, with its slot there. A gate for `take_slots`.

    `pinned`: what the egress guard has looked at, to connect to. `is_last`: no other address is left."""

    def __init__(self, url: str, gate: FairGate) -> None:
        self.url, self._gate = url, gate
        self.pinned: tuple[str, ...] = ()
        self.is_last = False
        self._begun = outages().now()
        self._entered = self._answered = False
        self._name = ""
        """Whose the slot is."""

    @property
    def limit(self) -> int:
        return self._gate.limit

    def enter(self) -> bool:
        """Take the slot if there is one now."""
        ask = ask_of_request()
        self._name = "" if ask is None else ask.name
        return self._begin(self._gate.acquire(blocking=False, ask=ask))

    def acquire(
        self,
        *,
        timeout: float | None,
        request_id: str,
        ask: Ask | None = None,
        behind: bool = False,
        learn: Callable[[], Ask | None] | None = None,
    ) -> bool:
        """Wait for the slot, unless it has been taken. Arguments and errors as of `FairGate.acquire`."""
        if not self._entered:
            self._name = "" if ask is None else ask.name
        return self._entered or self._begin(
            self._gate.acquire(timeout=timeout, request_id=request_id, ask=ask, behind=behind, learn=learn)
        )

    def take_spare(self, ask: Ask | None = None) -> bool:
        """Take the slot, unless it has been taken, for what can be left out: nobody is waited for."""
        if not self._entered:
            self._name = ""
        return self._entered or self._begin(self._gate.take_spare(ask))

    def _begin(self, entered: bool) -> bool:
        self._entered = entered
        if entered:
            self._begun = outages().now()
            outages().begin_call(self.url, self)
        return entered

    def release(self, name: str = "") -> None:
        """The call is over here. May be called again. `name`: as of `FairGate.release`; it is known here."""
        if self._entered:
            self._entered = False
            outages().end_call(self.url, self)
            self._gate.release(self._name)

    def note_answer(self) -> None:
        """The server has begun to answer."""
        self._answered = True
        outages().note_answer(self.url, self._begun)

    def note_failure(self, error: BaseException) -> bool:
        """The call failed. True: because the server is not there. One that refuses a call is there; what
        comes later in an answer says nothing."""
        is_gone = not self._answered and is_outage(error)
        if is_gone:
            outages().note_failure(self.url, self._begun)
        elif isinstance(error, BackendError) and error.status is not None:
            self.note_answer()
        return is_gone


class AddressRoute:
    """The way of one call over the addresses of its endpoint, each at most once."""

    def __init__(self, endpoint: EndpointConfig, asker: ChatAsker) -> None:
        self._endpoint, self._asker = endpoint, asker
        self._servers, self._left = servers_of(endpoint), list(endpoint.addresses)
        self._stop: Stop | None = None
        self._prompt: PromptDigest | None = None

    def next_stop(self, prompt: PromptDigest | None = None) -> Stop:
        """The address to call now, its slot taken or to be waited for; `release` it. `prompt`: what is sent,
        None: what no server holds. Raises BackendError `config_error` when none is left."""
        self._prompt = prompt
        while self._left:
            stop = self._servers.enter(self._choose)
            self._left.remove(stop.url)
            try:
                stop.pinned = guarded_hosts(self._endpoint, stop.url)
            except BackendError:
                stop.release()
                continue
            stop.is_last = not self._left
            self._stop = stop
            return stop
        raise BackendError(self._endpoint.name, "config_error", "none of its addresses may be called")

    def spare_stop(self, prompt: PromptDigest) -> Stop | None:
        """The address that gets the chat, however many calls are under way there, for a prompt that is read
        ahead; its slot is to be taken. None: all are out. Raises BackendError for one that may not be
        called."""
        self._prompt = prompt
        wanted = [url for url in self._left if not outages().is_out(url)]
        if not wanted:
            return None
        url = favourite(wanted, self._asker, self._shared_chars, prompt.head_chars)
        stop = Stop(url, self._servers.gate(url))
        stop.pinned = guarded_hosts(self._endpoint, url)
        return stop

    @property
    def stop(self) -> Stop:
        """The last one that `next_stop` gave."""
        assert self._stop is not None
        return self._stop

    def goes_on_after(self, error: Exception) -> bool:
        """Note how the last address failed. True: another one is to be asked. A fault of the configuration is
        the same everywhere."""
        stop, prompt = self._stop, self._prompt
        if stop is None or not isinstance(error, BackendError) or error.kind == "config_error":
            return False
        is_gone = stop.note_failure(error)
        if prompt is not None:
            held_prompts().forget(stop.url, self._endpoint.model, None if is_gone else prompt)
        self._left = [url for url in self._left if _may_be_called(self._endpoint, url)]
        return bool(self._left)

    def _choose(self, under_way: dict[str, int]) -> str:
        known = outages()
        calls_of_in = {url: calls for url, calls in under_way.items() if not known.is_out(url)}
        wanted = [url for url in self._left if url in calls_of_in]
        if not wanted:
            return known.first_to_end(self._left)
        room = with_room(wanted, calls_of_in, self._servers.limit)
        prompt = self._prompt
        return favourite(room, self._asker, self._shared_chars, prompt.head_chars if prompt else 0)

    def _shared_chars(self, url: str) -> int:
        """How much of the prompt that server has read lately."""
        prompt = self._prompt
        return held_prompts().shared_chars(url, self._endpoint.model, prompt) if prompt else 0


def guarded_hosts(endpoint: EndpointConfig, url: str) -> tuple[str, ...]:
    """What to connect to for one of the endpoint's addresses; empty: whatever its name leads to. Raises
    BackendError `config_error` for a public one behind a first one that is local, unless the endpoint sets
    `allowRemoteBackup`."""
    if url == endpoint.url or place_of(endpoint.url).where == "remote":
        return ()
    place = place_of(url)
    if place.where == "remote" and not endpoint.allow_remote_backup:
        message = (
            f"{shown_url(url)} of `moreEndpoints` is on a public host, the first address is not, and the "
            "file does not set allowRemoteBackup"
        )
        _warn_once(f"endpoint '{endpoint.name}': {message}; it is never called")
        raise BackendError(endpoint.name, "config_error", message)
    if place.where == "unknown":
        _warn_once(f"endpoint '{endpoint.name}': it is not known on which host {shown_url(url)} is")
    return place.addresses


def _may_be_called(endpoint: EndpointConfig, url: str) -> bool:
    try:
        guarded_hosts(endpoint, url)
    except BackendError:
        return False
    return True


@lru_cache(maxsize=256)
def _warn_once(text: str) -> None:
    logger.warning("%s", text)
