"""The last hour in numbers: slots of ten seconds, and the last calls of each endpoint.

An observer of runs that keeps no text of a prompt or an answer. Source: spec console.md 10 and 11.
"""

from __future__ import annotations

import math
import os
import statistics
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from Middleware.api.console.prompt_reuse import prompt_tokens
from Middleware.api.console.run_sums import count_of, usage_of
from Middleware.api.console.today import Today
from Middleware.common.errors import KIND_STATUS
from Middleware.common.secrets import mask_secrets
from Middleware.common.types import JsonObject
from Middleware.services.node_trace import CallTrace, NodeTrace
from Middleware.services.run_trace import RunTrace

STEP_S = 10
SLOTS = 360
MOST_VALUES = 64
"""First texts of one slot."""
MOST_CALLS = 100
MOST_MODELS = 2_000
"""Calls of which it is known which model they used, over all endpoints."""
MOST_ENDPOINTS = 500
FEWEST_TOKENS = 5
SHORTEST_S = 0.2
_ERROR_CHARS = 500
_TO_BACKENDS = ("model", "embedding")
_BROKEN_OFF = ("cancelled", "closed", "dropped")
_COUNTED = ("requests", "failed", "cancelled", "tokens", "tokens_after")
"""`tokens`: of every call; `tokens_after`: those of them that calls behind the answer wrote, when the run
ended."""


class Call(NamedTuple):
    """One call of an endpoint. `unix`: of its begin. `first_s`: from what was sent to what came. `rate`:
    tokens a second. `ok`: None for one that was broken off. `kind`, `text`: of a failure. `address`: which
    one of several it was put to.
    """

    unix: float
    first_s: float | None
    rate: float | None
    ok: bool | None
    kind: str = ""
    text: str = ""
    address: str = ""


class _Slot:
    __slots__ = ("firsts", "memory_mb", "numbers", "running", "waiting")

    def __init__(self, running: int, waiting: int, memory_mb: float | None) -> None:
        self.numbers = dict.fromkeys(_COUNTED, 0)
        self.firsts: list[float] = []
        self.running, self.waiting, self.memory_mb = running, waiting, memory_mb


class _Prompts:
    """Tokens of the prompts of one endpoint in one slot, and those of them that its server had."""

    __slots__ = ("held", "slot", "tokens")

    def __init__(self, slot: int) -> None:
        self.slot, self.tokens, self.held = slot, 0, 0


class Hour:
    """Counts what it observes. `clock`: Unix seconds. `memory_mb`: of this process, None: nobody knows.
    `today`: what users used since midnight."""

    keeps_text = False

    def __init__(
        self,
        clock: Callable[[], float] = time.time,
        memory_mb: Callable[[], float | None] | None = None,
    ) -> None:
        self._clock, self._memory_mb = clock, memory_mb or resident_mb
        self.today = Today(clock)
        self._lock = threading.Lock()
        self._slots: deque[_Slot | None] = deque([None] * SLOTS, maxlen=SLOTS)
        self._last = 0
        self._running = self._waiting = 0
        self._calls: dict[tuple[str, str], deque[Call]] = {}
        self._models: deque[tuple[float, str, str]] = deque(maxlen=MOST_MODELS)
        """(Unix seconds, where it is, model) of calls to models."""
        self._prompts: dict[tuple[str, str], deque[_Prompts]] = {}
        self._acts: dict[str, Callable[[_Slot, RunTrace], None]] = {
            "arrived": self._count_arrival,
            "begun": self._count_start,
            "first_text": self._first_text,
            "ended": self._count_end,
        }

    @property
    def changes(self) -> Collection[str]:
        """What it counts."""
        return (*self._acts, "node_ended")

    def note_change(self, run: RunTrace, what: str, node: NodeTrace | None) -> None:
        act = self._acts.get(what)
        if act is not None:
            with self._lock:
                act(self._slot(), run)
        elif what == "node_ended" and node is not None and node.calls:
            self._note_calls(run, node)

    def series(self) -> JsonObject:
        """`{"step_s", "end", "series"}`: a value a slot in each, the oldest first, None: there is none."""
        with self._lock:
            self._slot()
            slots, end = list(self._slots), (self._last + 1) * STEP_S
            series = {
                **{name: [slot and slot.numbers[name] for slot in slots] for name in _COUNTED},
                "first_p50": [slot and _percentile(slot.firsts, 0.5) for slot in slots],
                "first_p95": [slot and _percentile(slot.firsts, 0.95) for slot in slots],
                "running": [slot and slot.running for slot in slots],
                "waiting": [slot and slot.waiting for slot in slots],
                "memory_mb": [slot and slot.memory_mb for slot in slots],
            }
        return {"step_s": STEP_S, "end": end, "series": series}

    def calls(self, user: str, endpoint: str) -> list[Call]:
        """The last calls of an endpoint of this user, the oldest first."""
        with self._lock:
            return list(self._calls.get((user, endpoint), ()))

    def newest_calls(self) -> dict[tuple[str, str], Call]:
        """Of each endpoint, as `(user, name)`, the newest call that says how it is."""
        with self._lock:
            telling = {
                key: [call for call in calls if call.ok is not None] for key, calls in self._calls.items()
            }
        return {key: max(calls, key=lambda call: call.unix) for key, calls in telling.items() if calls}

    def model_before(self, place: str, unix: float) -> str:
        """The model of the last call to this place (`place_of_model`) that began before; "": not known."""
        with self._lock:
            known = [one for one in self._models if one[1] == place and one[0] < unix]
        return max(known)[2] if known else ""

    def held_share(self, *endpoints: tuple[str, str]) -> float | None:
        """How much of their prompts the server of these endpoints, each `(user, name)`, had been sent before,
        over the last hour, from 0 to 1. None: of none it is known."""
        oldest = int(self._clock()) // STEP_S - SLOTS
        with self._lock:
            known = [one for endpoint in endpoints for one in self._prompts.get(endpoint, ())]
            recent = [one for one in known if one.slot > oldest]
        tokens = sum(one.tokens for one in recent)
        return round(sum(one.held for one in recent) / tokens, 3) if tokens else None

    def _slot(self) -> _Slot:
        """That of now. What passed without news was as the last news left it. The lock is held."""
        now = int(self._clock()) // STEP_S
        missed = now - self._last if self._last else 1
        for _ in range(min(missed - 1, SLOTS)):
            self._slots.append(_Slot(self._running, self._waiting, None))
        if missed > 0:
            self._slots.append(_Slot(self._running, self._waiting, self._memory_mb()))
            self._last = now
        slot = self._slots[-1]
        assert slot is not None
        return slot

    def _count_arrival(self, slot: _Slot, run: RunTrace) -> None:
        slot.numbers["requests"] += 1
        self._waiting += 1
        slot.waiting = max(slot.waiting, self._waiting)

    def _count_start(self, slot: _Slot, run: RunTrace) -> None:
        self._waiting -= 1
        self._running += 1
        slot.running = max(slot.running, self._running)

    def _first_text(self, slot: _Slot, run: RunTrace) -> None:
        if len(slot.firsts) < MOST_VALUES:
            slot.firsts.append(run.first_text - run.arrived)

    def _count_end(self, slot: _Slot, run: RunTrace) -> None:
        if run.begun:
            self._running -= 1
        else:
            self._waiting -= 1
        if run.state in ("failed", "cancelled"):
            slot.numbers[run.state] += 1
        usage = usage_of(run)
        self.today.count(run, usage)
        slot.numbers["tokens_after"] += usage.after.completion_tokens or 0
        left = usage.whole.completion_tokens or 0
        for call in (call for node in list(run.nodes) for call in list(node.calls)):
            wrote = min(left, count_of(call.usage, "completion_tokens") or 0)
            if wrote and call.kind == "model" and call.first and call.ended > call.first:
                since = run.wall - run.arrived
                self._spread_tokens(slot, wrote, since + call.first, since + call.ended)
                left -= wrote
        slot.numbers["tokens"] += left

    def _spread_tokens(self, newest: _Slot, tokens: int, begin: float, end: float) -> None:
        """Over the slots in which they came: a long answer is no peak at its end. `begin`, `end`: Unix
        seconds. What came outside of the hour, or before the server, counts for the newest. The lock is held.
        """

        def wrote_until(unix: float) -> int:
            return round(tokens * min(max((unix - begin) / (end - begin), 0.0), 1.0))

        left = tokens
        for number in range(max(int(begin) // STEP_S, self._last - SLOTS + 1), self._last):
            slot = self._slots[number - self._last - 1]
            if slot is not None:
                wrote = wrote_until((number + 1) * STEP_S) - wrote_until(number * STEP_S)
                slot.numbers["tokens"] += wrote
                left -= wrote
        newest.numbers["tokens"] += left

    def _note_calls(self, run: RunTrace, node: NodeTrace) -> None:
        """A node's calls are noted when it ends: they all have ended then."""
        for call in node.calls:
            if call.kind in _TO_BACKENDS and call.sent:
                noted = _call_record(run, call)
                with self._lock:
                    self._calls_of(run.user, call.endpoint).append(noted)
                    if call.kind == "model":
                        self._models.append((noted.unix, place_of_model(call), model_name(call)))
                    self._note_prompt(run.user, call)

    def _note_prompt(self, user: str, call: CallTrace) -> None:
        """The lock is held."""
        size = prompt_tokens(call)
        if size is None or size.held is None or call.error:
            return
        known = self._prompts.setdefault((user, call.endpoint), deque(maxlen=SLOTS))
        now = int(self._clock()) // STEP_S
        if not known or known[-1].slot != now:
            known.append(_Prompts(now))
        known[-1].tokens += size.tokens
        known[-1].held += size.held

    def _calls_of(self, user: str, endpoint: str) -> deque[Call]:
        """The lock is held."""
        known = self._calls.get((user, endpoint))
        if known is None:
            if len(self._calls) >= MOST_ENDPOINTS:
                oldest = next(iter(self._calls))
                del self._calls[oldest]
                self._prompts.pop(oldest, None)
            known = self._calls[user, endpoint] = deque(maxlen=MOST_CALLS)
        return known


def medians_of(calls: Sequence[Call]) -> JsonObject:
    """`{"first_s", "rate"}`, None: nothing is known."""
    return {"first_s": _median(call.first_s for call in calls), "rate": _median(c.rate for c in calls)}


def _call_record(run: RunTrace, call: CallTrace) -> Call:
    unix = round(run.wall + call.begun - run.arrived, 3)
    first_s = round(call.first - call.sent, 3) if call.first else None
    if call.outcome in _BROKEN_OFF:
        return Call(unix, first_s, None, None, address=call.address)
    if not call.error and call.outcome not in KIND_STATUS:
        return Call(unix, first_s, rate_of(call), True, address=call.address)
    text = "" if run.private else mask_secrets(call.error, *call.secrets, *run.secrets)[:_ERROR_CHARS]
    return Call(unix, first_s, None, False, call.outcome, text, call.address)


def place_of_model(call: CallTrace) -> str:
    """Where one model takes the place of another: the machine of the endpoint, else host and port."""
    return f"machine {call.machine}" if call.machine else urlsplit(call.url).netloc


def model_name(call: CallTrace) -> str:
    """What its endpoint asks for; the endpoint itself where that names no model."""
    return call.model or call.endpoint


def rate_of(call: CallTrace) -> float | None:
    """Tokens a second from the first to the last of a call; None for what is too short to tell."""
    tokens = count_of(call.usage, "completion_tokens")
    if tokens is None or not call.first or not call.ended:
        return None
    span = call.ended - call.first
    return round(tokens / span, 3) if tokens >= FEWEST_TOKENS and span >= SHORTEST_S else None


def resident_mb() -> float | None:
    """The memory of this process. None where the system does not tell."""
    if sys.platform != "linux":
        return None
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return round(pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20), 1)


def _percentile(values: list[float], share: float) -> float | None:
    if not values:
        return None
    ordered = sorted(values)
    return round(ordered[math.ceil(share * len(ordered)) - 1], 3)


def _median(values: Any) -> float | None:
    known = [value for value in values if value is not None]
    return round(statistics.median(known), 3) if known else None
