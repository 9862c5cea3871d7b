"""The turns of loops that ended with a call of the client's own tool, kept until its result comes back.

Else what earlier steps read would be gone, and what they wrote would be written again. In memory, for an
hour, the oldest go first when there are too many. Source: spec agents.md 3.3.
"""

from __future__ import annotations

import copy
import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from Middleware.common.types import Message, Messages
from Middleware.services.run_trace import json_text
from Middleware.workflows.agents.tool_calls import Repeats

KEPT_FOR_S = 3600.0
MOST_BYTES = 64 * 1024 * 1024
_OVERHEAD = 1000


class LoopPlace(NamedTuple):
    """Which loop: the node of a workflow of a user, as `owner` runs it (of an `Asker`), in answer to
    `question` (as of `question_of`). Ids alone tell no two chats apart: some models count their calls.
    """

    user: str
    workflow: str
    node: int
    owner: str = ""
    question: str = ""


def question_of(messages: Sequence[Message]) -> str:
    """The hash of what the user said last: the same before a call and when its result comes."""
    end = _behind_user(messages)
    content = messages[end - 1].get("content") if end else None
    if isinstance(content, list):
        content = "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return hashlib.sha256(json_text(content).encode("utf-8", "replace")).hexdigest()


class KeptResult(NamedTuple):
    """The result of a call. `turn`: index of the turn that holds it; `was_made`: the call was not refused."""

    turn: int
    name: str
    text: str
    was_made: bool


@dataclass(frozen=True, slots=True)
class KeptLoop:
    """A loop that waits for its client.

    `turns`: the last one calls the client's tools. `ids`: of all calls of the client in them, as it knows
    them; `names`: of the tools of the last ones. `steps`, `calls`: how many it has made. `is_json`: its model
    does not call natively.
    """

    turns: Messages
    ids: frozenset[str]
    names: Mapping[str, str]
    steps: int
    calls: int
    repeats: Repeats
    results: tuple[KeptResult, ...] = ()
    is_json: bool = False

    def fresh_copy(self) -> KeptLoop:
        """One that may be gone on with."""
        return copy.deepcopy(self)


class KeptLoops:
    """Thread-safe. `clock`: seconds that only grow."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, most_bytes: int = MOST_BYTES) -> None:
        self._clock, self._most = clock, most_bytes
        self._guard = threading.Lock()
        self._kept: OrderedDict[tuple[LoopPlace, str], tuple[float, int, KeptLoop]] = OrderedDict()
        self._bytes = 0

    def keep(self, place: LoopPlace, call_ids: Iterable[str], loop: KeptLoop) -> None:
        """Remember it by each of the calls of the client that it ended with."""
        ids = list(call_ids)
        size = len(json_text(loop.turns).encode("utf-8", "replace")) // max(1, len(ids)) + _OVERHEAD
        kept = loop.fresh_copy()
        with self._guard:
            until = self._clock() + KEPT_FOR_S
            for call_id in ids:
                self._drop((place, call_id))
                self._kept[place, call_id] = (until, size, kept)
                self._bytes += size
            while self._kept and (self._bytes > self._most or self._oldest_is_over()):
                self._drop(next(iter(self._kept)))

    def find(self, place: LoopPlace, call_ids: Iterable[str]) -> KeptLoop | None:
        """The loop that ended with one of these calls; None: it is not known any more."""
        with self._guard:
            for call_id in call_ids:
                until, _, loop = self._kept.get((place, call_id), (0.0, 0, None))
                if loop is not None and until > self._clock():
                    return loop.fresh_copy()
        return None

    def _drop(self, key: tuple[LoopPlace, str]) -> None:
        _, size, _ = self._kept.pop(key, (0.0, 0, None))
        self._bytes -= size

    def _oldest_is_over(self) -> bool:
        until, _, _ = next(iter(self._kept.values()))
        return until <= self._clock()


kept_loops = KeptLoops()
"""The process's own."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """A conversation whose open exchange a loop goes on with.

    `messages`: what stands before the loop's turns. `answers`: the results of the client's tools.
    """

    messages: Messages
    loop: KeptLoop
    answers: Messages


def resume_loop(messages: Sequence[Message], find: Callable[[list[str]], KeptLoop | None]) -> Resumed | None:
    """The loop that the end of a conversation goes on with: results of calls that a kept loop ended with.
    None: it ends otherwise, or nothing is known of those calls."""
    end = len(messages)
    while end and _is_filler(messages[end - 1]):
        end -= 1
    start = end
    while start and messages[start - 1].get("role") == "tool":
        start -= 1
    if start == end or not start:
        return None
    loop = find(_call_ids(messages[start - 1]))
    if loop is None:
        return None
    first = next(
        (
            index
            for index in range(_behind_user(messages), start)
            if any(call_id in loop.ids for call_id in _call_ids(messages[index]))
        ),
        start - 1,
    )
    return Resumed(list(messages[:first]), loop, list(messages[start:end]))


def _behind_user(messages: Sequence[Message]) -> int:
    return next((i for i in range(len(messages), 0, -1) if messages[i - 1].get("role") == "user"), 0)


def _call_ids(message: Message) -> list[str]:
    calls = message.get("tool_calls") if message.get("role") == "assistant" else None
    return [str(call["id"]) for call in calls or () if isinstance(call, dict) and call.get("id")]


def _is_filler(message: Message) -> bool:
    """An assistant turn that a front end put at the end and that says nothing."""
    if message.get("role") != "assistant" or message.get("tool_calls"):
        return False
    return str(message.get("content") or "").strip() in ("", "Assistant:")
