"""What changes, told to the pages that are open: a stream of server-sent events for each.

A reader sleeps on the recorder's condition and looks when there is news. It is no generation request: it
holds no slot, and the end of the server does not wait for it. Source: spec console.md 7.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from Middleware.api.client_watch import end_connection, probe_of
from Middleware.api.console.endpoint_views import failing_count
from Middleware.api.console.run_texts import AnswerTimes, tokens_of
from Middleware.api.console.shapes import SHORTEST_PART_S, Look
from Middleware.api.console.view_contract import ApiRoute, Ask, Hub, Reply, ViewRefused, json_bytes
from Middleware.common.constants import VERSION
from Middleware.common.types import JsonObject
from Middleware.services.run_trace import RunTrace

# --------------------------------------------------------------------------
# What the console shows of the server itself. Source: spec console.md 6.1.


def state(ask: Ask) -> JsonObject:
    """GET `state` (6.1)."""
    ask.words()
    return state_of(ask.hub, ask.rights)


def state_of(hub: Hub, rights: tuple[str, ...]) -> JsonObject:
    """The state of the server, as a reader with these rights sees it."""
    return {
        "version": VERSION,
        "mode": hub.mode,
        "rights": list(rights),
        "pid": os.getpid(),
        "processes": hub.processes,
        "started": hub.started,
        "users": hub.served_users(),
        "gate": hub.gate(),
        "kept": hub.recorder.kept_sizes(),
        "failing": failing_count(hub),
        "seq": hub.recorder.seq,
    }


STATE_ROUTES = (ApiRoute("GET", "state", "look", state),)


# --------------------------------------------------------------------------

RUN_EVERY_S = 0.5
STATE_EVERY_S = 2.0
SILENCE_S = 15.0
LASTS_S = 600.0
NAP_S = 0.2
"""A reader looks at least so often: at counts that grew, and whether the server stops."""
BEAT_S = 0.25
"""Where there is news, a reader looks by this beat: what comes together leaves in one piece, and what grows
is told each `RUN_EVERY_S`, which is a multiple of it, whatever else is told between."""
MOST_SEQ = 10**15
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_COMMENT = b": \n\n"

Clock = Callable[[], float]


class _Told(NamedTuple):
    """What a page knows of a run: the change, when it was told, and what grows without one."""

    seq: int
    at: float
    mark: int | str | None


def events(ask: Ask) -> Reply:
    """GET `events?after=N`."""
    ask.words("after")
    after = ask.number("after", 0, 0, MOST_SEQ)
    if not ask.hub.recorder.enter():
        places = f"{ask.hub.recorder.most_readers} places"
        raise ViewRefused(503, f"the console is open in {places} already")
    reader = EventStream(probe_of(ask.environ) or (lambda: False), partial(end_connection, ask.environ))
    stream = Stream(ask.hub, ask.rights, after, reader)
    return Reply(content_type="text/event-stream", headers=_HEADERS, stream=stream)


class EventStream(NamedTuple):
    """A reader's. `is_gone()`: it has hung up. `end()`: this answer is the last one here."""

    is_gone: Callable[[], bool]
    end: Callable[[], object]


class Stream:
    """The body of one reader's answer. Closing it frees the place."""

    def __init__(
        self,
        hub: Hub,
        rights: tuple[str, ...],
        after: int,
        connection: EventStream,
        clock: Clock = time.monotonic,
    ) -> None:
        self._hub, self._connection, self._clock = hub, connection, clock
        self._news = News(hub, rights, after, clock)
        self._is_open = True

    def __iter__(self) -> Iterator[bytes]:
        recorder, clock = self._hub.recorder, self._clock
        end = clock() + LASTS_S
        told_at = spoke = clock()
        while not (self._hub.stopping() or self._connection.is_gone() or clock() > end):
            told = self._news.since_last()
            if told:
                told_at = spoke = clock()
                yield told
            elif clock() - spoke >= SILENCE_S:
                spoke = clock()
                yield _COMMENT
            if clock() - told_at < RUN_EVERY_S:
                time.sleep(BEAT_S)
            else:
                recorder.wait(self._news.seen, NAP_S)
        if self._hub.stopping():
            self._connection.end()

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._hub.recorder.leave()


class News:
    """What one page does not know yet. `seen`: the change up to which it has looked."""

    def __init__(self, hub: Hub, rights: tuple[str, ...], after: int, clock: Clock = time.monotonic) -> None:
        self._hub, self._rights, self._clock = hub, rights, clock
        now = hub.recorder.seq
        self._after = after if after <= now else 0  # of a server that was there before this one
        self.seen = self._after
        self._gone_told = self._after or now
        self._told: dict[str, _Told] = {}
        self._state: JsonObject | None = None
        self._state_at = 0.0

    def since_last(self) -> bytes:
        """The events of what changed since the last look; empty: nothing that is due."""
        look = Look(self._hub, self._clock)
        fresh, safe = self._due_runs(look)
        self.seen = look.seq
        pieces = [_event("run", min(seq, safe), look.summary(run)) for seq, run in fresh]
        if gone := self._hub.recorder.removed_since(self._gone_told):
            pieces.append(_event("gone", safe, gone))
        self._gone_told = max(self._gone_told, look.seq)
        if (state := self._new_state(look.now)) is not None:
            pieces.append(_event("state", safe, state))
        return b"".join(pieces)

    def _due_runs(self, look: Look) -> tuple[list[tuple[int, RunTrace]], int]:
        """The runs to tell of, in the order of their changes, and the change up to which the page knows all
        then: one that was told of just now must wait, and a page that comes back asks for it again.
        """
        due, safe = [], look.seq
        known, self._told = self._told, {}
        for run in look.runs:
            seq, mark, told = run.seq, _mark(look, run), known.get(run.id)
            changed = seq > (told.seq if told else self._after)
            if not changed and (mark is None or (told is not None and mark == told.mark)):
                if told is not None:
                    self._told[run.id] = told
            elif told is not None and look.now - told.at < RUN_EVERY_S:
                self._told[run.id] = told
                safe = min(safe, seq - 1) if changed else safe
            else:
                self._told[run.id] = _Told(seq, look.now, mark)
                due.append((seq, run))
        return sorted(due, key=lambda one: one[0]), safe

    def _new_state(self, now: float) -> JsonObject | None:
        """The state, where it is another than the page was told, and it is time."""
        if self._state is not None and now - self._state_at < STATE_EVERY_S:
            return None
        self._state_at = now
        state = state_of(self._hub, self._rights)
        known, self._state = self._state, {**state, "seq": 0}
        return state if self._state != known else None


def _mark(look: Look, run: RunTrace) -> int | str | None:
    """What changes while nothing else does: the place in the line, the count of the answer; 1: thinking has
    become long enough to be shown."""
    if run.state == "waiting":
        line = look.line(run)
        return line.words if line else None
    if run.state == "running" and AnswerTimes(run, look.now).think_s >= SHORTEST_PART_S:
        return 1
    return tokens_of(run)[0] if run.state == "answering" else None


def _event(name: str, seq: int, value: object) -> bytes:
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (seq, name.encode(), json_bytes(value))


ROUTES = (ApiRoute("GET", "events", "look", events),)
