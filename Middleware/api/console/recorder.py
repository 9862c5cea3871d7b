"""The runs of this process, in memory: those that run, and the last that ended.

An observer of runs. Knows no protocol and no page; writes nothing to disk. Source: spec console.md 4.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from Middleware.common.types import JsonObject
from Middleware.services.kept_bodies import asked_to_keep, kept_body
from Middleware.services.node_trace import CallTrace, NodeTrace
from Middleware.services.run_trace import NO_HEADERS, RunTrace

# --------------------------------------------------------------------------
# How much of a run's texts is kept when it has ended: long ones lose their middle, what is too much goes.


HEAD_CHARS = 49_152
TAIL_CHARS = 16_384
TEXT_LIMIT = HEAD_CHARS + TAIL_CHARS
RUN_LIMIT = 2 << 20
OTHER_OUTPUT = 1 << 10
"""So much counts an output that is no text."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A text that is not there whole: `left_out` characters stood between `head` and `tail`."""

    head: str
    tail: str
    left_out: int

    def __len__(self) -> int:
        """Of the whole text."""
        return self.kept_bytes + self.left_out

    @property
    def kept_bytes(self) -> int:
        return len(self.head) + len(self.tail)


def cut_middle(text: str) -> str | Cut:
    """A text as it is kept: itself, or its first three quarters and its last quarter of the limit."""
    left_out = len(text) - TEXT_LIMIT
    return Cut(text[:HEAD_CHARS], text[-TAIL_CHARS:], left_out) if left_out > 0 else text


def keep_within(run: RunTrace, most: int = RUN_LIMIT) -> int:
    """Bring the texts of a run that has ended to their limits. Gives how much they count together."""
    budget = _Budget(most)
    run.asked, run.asked_left_out = budget.asked(run.asked, run.asked_left_out)
    for node in run.nodes:
        for call in node.calls:
            call.body, call.body_left_out = budget.body(call.body, call.body_left_out)
            call.raw, call.cleaned = budget.text(call.raw), budget.text(call.cleaned)
            call.thoughts = [budget.text(thought) for thought in call.thoughts]
        node.output = budget.text(node.output)
        node.thoughts = [budget.text(thought) for thought in node.thoughts]
        node.values = {name: budget.text(value) for name, value in node.values.items()}
    return budget.kept


def forget_texts(run: RunTrace) -> None:
    """Texts go, their lengths stay."""
    run.keeps_text = False
    run.said, run.headers = "", NO_HEADERS
    run.asked, run.asked_left_out = b"", len(run.asked) + run.asked_left_out
    for node in run.nodes:
        for call in node.calls:
            _forget_call(call)
        _forget_node(node)


def without_texts(run: RunTrace) -> RunTrace:
    """A copy as it is now, of which the lengths of texts are left."""
    nodes: dict[int, NodeTrace] = {}
    for node in list(run.nodes):
        calls = [replace(call) for call in list(node.calls)]
        nodes[id(node)] = replace(node, parent=nodes.get(id(node.parent)), calls=calls)
    made = replace(run, nodes=list(nodes.values()), text_so_far=None)
    forget_texts(made)
    return made


def _forget_call(call: CallTrace) -> None:
    call.body, call.body_left_out = b"", len(call.body) + call.body_left_out
    call.headers = call.cleaning = None
    call.raw, call.cleaned = _drop_texts(call.raw), _drop_texts(call.cleaned)
    call.thoughts = [_drop_texts(thought) for thought in call.thoughts]


def _forget_node(node: NodeTrace) -> None:
    node.output, node.values = _drop_texts(node.output), {}
    node.thoughts = [_drop_texts(thought) for thought in node.thoughts]


def _drop_texts(value: Any) -> Any:
    return Cut("", "", len(value)) if isinstance(value, str | Cut) else None


class _Budget:
    """What one run may keep. A text that stands in several places counts once."""

    def __init__(self, most: int) -> None:
        self.kept, self._most = 0, most
        self._known: dict[int, tuple[Any, Any]] = {}

    def text(self, value: Any) -> Any:
        """A text as it is kept; any other output is itself."""
        if value is None or isinstance(value, Cut):
            return value
        if id(value) not in self._known:
            self._known[id(value)] = (value, self._fit_value(value))
        return self._known[id(value)][1]

    def asked(self, body: bytes, left_out: int) -> tuple[bytes, int]:
        kept, left_out = asked_to_keep(body, left_out)
        return (kept, left_out) if self._fits(len(kept)) else (b"", len(kept) + left_out)

    def body(self, body: bytes, left_out: int) -> tuple[bytes, int]:
        kept, more = kept_body(body)
        if not self._fits(len(kept)):
            return b"", len(body) + left_out
        return kept, left_out + more

    def _fit_value(self, value: Any) -> Any:
        if not isinstance(value, str):
            return value if self._fits(OTHER_OUTPUT) else Cut("", "", OTHER_OUTPUT)
        made = cut_middle(value if type(value) is str else str.__str__(value))
        return (
            made
            if self._fits(made.kept_bytes if isinstance(made, Cut) else len(made))
            else _drop_texts(value)
        )

    def _fits(self, size: int) -> bool:
        fits = self.kept + size <= self._most
        self.kept += size if fits else 0
        return fits


# --------------------------------------------------------------------------

MOST_ENDED = 200
MOST_REFUSED = 20
"""Of the ended ones."""
MOST_ODD = 50
"""Of those that failed or had trouble so many stay beside the newest ones."""
MOST_PINNED = 50
"""So many stay until the restart because somebody asked for it."""
MOST_READERS = 8
_GONE_REMEMBERED = 1000


class Recorder:
    """`memory_mb`: for the texts of all runs; 0: facts only.

    `seq`: raised by every change; a run's own is that of its last change. `limit`: bytes of texts.
    `most_readers`: how many may wait for changes at once.
    `row_words`: of ended runs, what a reader found out of them.
    """

    def __init__(self, memory_mb: int = 16) -> None:
        self.keeps_text = memory_mb > 0
        self.limit = memory_mb << 20
        self.seq = 0
        self.most_readers = MOST_READERS
        self._readers = 0
        self._bytes = 0
        self._runs: dict[str, RunTrace] = {}  # in order of arrival
        self._ended: dict[str, RunTrace] = {}  # in order of their end
        self._older: dict[str, RunTrace] = {}  # than the newest ended ones: odd and pinned ones
        self._refused: deque[str] = deque()
        self.row_words: dict[str, Any] = {}
        self._gone: deque[tuple[int, str]] = deque(maxlen=_GONE_REMEMBERED)
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)

    def note_change(self, run: RunTrace, what: str, node: NodeTrace | None) -> None:
        """In the thread that works on the run. A run that arrived before this recorder was there is not
        kept."""
        is_over = what == "ended" or (what == "call_ended" and run.ended)
        kept = _limited_size(run) if is_over else 0
        with self._lock:
            if what == "arrived":
                self._runs[run.id] = run
            elif run.id not in self._runs:
                return
            self.seq += 1
            run.seq = self.seq
            forgotten = self._end(run, kept) if what == "ended" else self._grow(run, kept) if is_over else ()
            if self._readers:
                self._changed.notify_all()
        for old in forgotten:
            forget_texts(old)

    def runs(self) -> list[RunTrace]:
        """All that are kept, the newest first."""
        with self._lock:
            kept = list(self._runs.values())[::-1]
        return [self._shown(run) for run in kept]

    def run(self, run_id: str) -> RunTrace | None:
        run = self._runs.get(run_id)
        return None if run is None else self._shown(run)

    def _shown(self, run: RunTrace) -> RunTrace:
        """Texts that another observer wants while a run lasts are not for readers of facts."""
        return run if self.keeps_text or not run.keeps_text else without_texts(run)

    def kept_sizes(self) -> JsonObject:
        """`{"runs", "bytes", "limit", "odd", "pinned"}`. Of those that are older than the newest ones: `odd`
        are there for their trouble alone, `pinned` because somebody asked for it.
        """
        with self._lock:
            sizes = {"runs": len(self._runs), "bytes": self._bytes, "limit": self.limit}
            pinned = sum(run.pinned for run in self._older.values())
            return {**sizes, "odd": len(self._older) - pinned, "pinned": pinned}

    def pin(self, run_id: str, pinned: bool) -> bool:
        """A run stays until the restart, its texts go last; or no longer. False: so many are pinned already.
        Source: spec workbench.md 12.
        """
        with self._lock:
            run = self._runs.get(run_id)
            if run is None or run.pinned == pinned:
                return True
            if pinned and sum(one.pinned for one in self._runs.values()) >= MOST_PINNED:
                return False
            run.pinned = pinned
            if not pinned and not is_odd(run):
                self._older.pop(run_id, None)  # it goes when the next one ends
            self.seq += 1
            run.seq = self.seq
            if self._readers:
                self._changed.notify_all()
        return True

    def removed_since(self, since: int) -> list[str]:
        """The runs that left after the change `since`, as far as they are remembered."""
        with self._lock:
            return [run_id for seq, run_id in self._gone if seq > since]

    def note_words(self, run_id: str, words: Any) -> None:
        """Remember what a row says of a run for as long as the run is kept."""
        with self._lock:
            if run_id in self._ended:
                self.row_words[run_id] = words

    def enter(self) -> bool:
        """A reader comes, who waits for changes. False: there are too many already."""
        with self._lock:
            if self._readers >= self.most_readers:
                return False
            self._readers += 1
            return True

    def leave(self) -> None:
        """A reader goes."""
        with self._lock:
            self._readers -= 1

    def wait(self, after: int, timeout_s: float) -> None:
        """Until there is a change behind `after`, or the time is over. For a reader that has entered."""
        with self._lock:
            if self.seq <= after:
                self._changed.wait(timeout_s)

    def _end(self, run: RunTrace, kept: int) -> list[RunTrace]:
        """The run has ended: what is too much goes. Gives those whose texts must be forgotten.

        The lock is held.
        """
        self._ended[run.id] = run
        if run.state == "refused":
            self._refused.append(run.id)
        self._drop_beyond(self._refused, MOST_REFUSED)
        while len(self._ended) - len(self._older) > MOST_ENDED:
            oldest = next(run_id for run_id in self._ended if run_id not in self._older)
            if self._ended[oldest].pinned or is_odd(self._ended[oldest]):
                self._older[oldest] = self._ended[oldest]
            else:
                self._drop(oldest)
        self._drop_beyond(self._older, MOST_ODD)
        return self._grow(run, kept)

    def _drop_beyond(self, run_ids: Collection[str], most: int) -> None:
        """The oldest of them go, where there are more; pinned ones do not count. The lock is held."""
        loose = [run_id for run_id in run_ids if not self._ended[run_id].pinned]
        for run_id in loose[:-most]:
            self._drop(run_id)

    def _grow(self, run: RunTrace, kept: int) -> list[RunTrace]:
        """The texts of a run that has ended count so much now: something is read ahead for the next one. As
        `_end`.
        """
        self._bytes += kept - run.bytes_kept
        run.bytes_kept = kept
        forgotten = []
        pinned_last = (old for last in (False, True) for old in self._ended.values() if old.pinned is last)
        for old in pinned_last if self._bytes > self.limit else ():
            if old.bytes_kept:
                self._bytes -= old.bytes_kept
                old.bytes_kept = 0
                forgotten.append(old)
                if self._bytes <= self.limit:
                    break
        return forgotten

    def _drop(self, run_id: str) -> None:
        """The lock is held."""
        run = self._ended.pop(run_id)
        self._older.pop(run_id, None)
        del self._runs[run_id]
        self.row_words.pop(run_id, None)
        self._bytes -= run.bytes_kept
        if run_id in self._refused:
            self._refused.remove(run_id)
        self.seq += 1
        self._gone.append((self.seq, run_id))


def is_odd(run: RunTrace) -> bool:
    """Whether it failed or had trouble, as far as its facts say so at once: `stood_out` costs more, and knows
    of names that stayed unfilled, too.
    """
    if run.state == "failed" or run.finish_reason == "length":
        return True
    if run.state == "done" and run.answered and not run.first_text and run.finish_reason != "tool_calls":
        return True
    for node in run.nodes:
        if node.warnings or node.state in ("went_on", "stopped"):
            return True
        if any(call.tries > 1 or call.backup_of or call.truncated for call in node.calls):
            return True
    return False


def _limited_size(run: RunTrace) -> int:
    """How much the texts of a run count that has ended, brought to their limits."""
    if run.keeps_text:
        return keep_within(run)
    forget_texts(run)
    return 0
