"""This process as one of several: what it has told the others, and how it goes on when none answers.

Whatever is shared stands here, too: a store that forgot, or came back, is told all of it again. One process
has a store in its own memory, no thread, and nothing to poll. What the guarantees are: docs/scaling.md.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Protocol, TypeVar
from weakref import WeakSet

from Middleware.services.shared_state.budgets import Bucket, BucketLevels, DaySums, Sums
from Middleware.services.shared_state.store import (
    BEAT_S,
    Forgotten,
    MemoryStore,
    Note,
    SharedStore,
    StoreLost,
)

logger = logging.getLogger(__name__)

RETRY_S = 1.0
"""How often a store that is lost is asked again, while the process holds anything."""
IDLE_RETRY_S = 5.0
"""After so long without a try, the next request does not begin alone: it tries first."""
LISTEN_S = 1.0
"""How long the listener waits for a message before it looks whether anything else is due."""

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, eq=False)
class Footing:
    """What everything is told to now. A new one, and only then, means: tell it all again."""

    store: SharedStore


class Waiting(Protocol):
    """A gate, as its process's member sees it."""

    @property
    def busy(self) -> bool:
        """Somebody is inside or waits."""
        ...

    def look(self) -> None:
        """See whose turn it is."""
        ...


class Member:
    """`store` None: the process is the only one. `hear("cancel", f)`: `f(rest)` is called for each message
    `cancel <rest>` of any process, by a thread of the member's own.
    """

    def __init__(
        self,
        store: SharedStore | None = None,
        clock: Callable[[], float] = time.monotonic,
        retry_s: float = RETRY_S,
    ) -> None:
        self._remote, self._clock, self._retry_s = store, clock, retry_s
        self._footing = Footing(MemoryStore() if store is None else store)
        self._mine: dict[tuple[str, str], str] = {}
        self._gates: WeakSet[Waiting] = WeakSet()
        self._hearers: dict[str, Callable[[str], object]] = {}
        self._beaten = self._tried = self._told_again = float("-inf")
        self._lock = threading.RLock()
        self._trying = threading.Lock()
        self._work = threading.Event()
        self._listener: threading.Thread | None = None
        self._levels, self._sums = BucketLevels(clock), DaySums()
        self._actions: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._doer: threading.Thread | None = None
        self._over = False

    @property
    def many_machines(self) -> bool:
        """Whether other machines may be behind the store, whether or not it answers now."""
        return self._remote is not None and self._remote.many_machines

    @property
    def is_joined(self) -> bool:
        """Whether other processes are reached now."""
        return self._footing.store is self._remote

    @property
    def is_joined_with_others(self) -> bool:
        return self._remote is not None and self.is_joined

    def hear(self, word: str, hearer: Callable[[str], object]) -> None:
        self._hearers[word] = hearer

    def put(self, kind: str, key: str, value: str) -> str | None:
        """Write a record, over anybody's. The value that was there before, of whatever living process."""
        key = _writable(key)
        self._keep()
        with self._lock:
            mine = self._mine.get((kind, key))
            self._mine[kind, key] = value
        before = self._ask(lambda store: store.put(kind, key, value))
        self._begin()
        if before == value:  # a store that this process has joined meanwhile was told by that
            before = mine
        return None if before == value else before

    def add(self, kind: str, key: str, value: str) -> bool:
        """Write a record. False: this process, or another one that lives, has one there."""
        key = _writable(key)
        self._keep()
        with self._lock:
            if (kind, key) in self._mine:
                return False
            self._mine[kind, key] = value
        if not self._ask(lambda store: store.add(kind, key, value)):
            with self._lock:
                self._mine.pop((kind, key), None)
            return False
        self._begin()
        return True

    def find(self, kind: str, key: str) -> str | None:
        """The value of a record of any living process."""
        key = _writable(key)
        mine = self._mine.get((kind, key))
        return self._ask_store(lambda store: store.find(kind, key)) if mine is None else mine

    def remove(self, kind: str, key: str, value: str) -> None:
        """This process has no such record any more. Another value, or another's record, stays."""
        key = _writable(key)
        self._keep()
        with self._lock:
            if self._mine.get((kind, key)) != value:
                return
            del self._mine[kind, key]
        self._ask(lambda store: store.remove(kind, key, value))

    def waiting(self, gate: str, before: str = "", name: str | None = None) -> int:
        """How many of all processes wait there, without those behind. `before`: a ticket of this process.
        `name`: of those that have it."""
        return self._ask_store(lambda store: store.waiting(gate, before, name))

    def holding(self, names: Callable[[SharedStore], Sequence[str]]) -> list[int]:
        """How many of all processes are inside each of several gates. `names`: what they are called in the
        store."""
        return self._ask_store(lambda store: store.holding(names(store)))

    def crowd(self, gate: Callable[[SharedStore], str], key: str) -> tuple[int, int]:
        """How many of all processes are inside a gate and wait there, those behind among them, that have the
        name `key`, or one that begins with it and a blank. `gate`: what it is called in the store."""
        return self._ask_store(lambda store: store.crowd(gate(store), key))

    def keep_note(self, shelf: str, note: Note) -> None:
        """Write a note, over the one of this key. Alone, the process has the notes that it wrote alone."""
        self._ask_store(lambda store: store.keep_note(shelf, note))

    def find_note(self, shelf: str, key: str) -> str | None:
        """The value of a note of any process."""
        return self._ask_store(lambda store: store.find_note(shelf, key))

    def nearest_note(self, shelf: str, marks: Sequence[str]) -> tuple[str, str] | None:
        """Key and value of the note of any process that has most of these marks."""
        return self._ask_store(lambda store: store.nearest_note(shelf, marks))

    def take(self, name: str, size: int, wanted: int = 1) -> Bucket:
        """Take one out of the bucket of all processes that holds `size`, or look into it (`wanted` 0). Alone,
        out of what this process knows of it."""
        at_most = self._levels.most(name, size)
        bucket = self._ask_store(lambda store: store.take(name, size, at_most, wanted))
        self._levels.note(name, bucket.level)
        return bucket

    def bucket_level(self, name: str, size: int) -> float:
        """How much can be in it now, as far as this process knows, without asking."""
        return self._levels.most(name, size)

    def count(self, name: str, day: str, amounts: Mapping[str, int]) -> Sums:
        """Add to the sums of a name's day; gives those of all processes. Alone, what this process knows of
        them; it tells the others later."""
        if self._remote is None:
            return self._footing.store.count(name, day, amounts, {})
        self._sums.add(name, day, amounts)
        self._keep()
        self._tell_sums(name, day)
        return self._sums.totals(name, day)

    def count_soon(self, name: str, day: str, amounts: Mapping[str, int]) -> None:
        """The same where nobody waits for what others have counted."""
        if self._remote is None:
            self.count(name, day, amounts)
            return
        self._sums.add(name, day, amounts)
        self.do_soon(lambda: self.count(name, day, {}))

    def known_sums(self, name: str, day: str) -> Sums:
        """What this process knows of them, without asking."""
        if self._remote is None:
            return self._footing.store.count(name, day, {}, {})
        return self._sums.totals(name, day)

    def _tell_sums(self, name: str, day: str) -> None:
        footing = self._footing
        if footing.store is not self._remote:
            return  # alone: kept until the others answer
        try:
            self._sums.tell(name, day, lambda amounts, known: footing.store.count(name, day, amounts, known))
        except StoreLost as error:
            self.lose(footing, error)

    def _tell_all_sums(self) -> None:
        for name, day in self._sums.untold():
            self._tell_sums(name, day)

    def do_soon(self, action: Callable[[], object]) -> None:
        """Run it in a thread of the member's own: nobody waits for it."""
        with self._lock:
            if self._doer is None:
                self._doer = threading.Thread(target=self._do_actions, name="shared-state-doer", daemon=True)
                self._doer.start()
        self._actions.put(action)

    def _do_actions(self) -> None:
        """The edge of a thread: no error ends it."""
        while True:
            try:
                self._actions.get()()
            except Exception:
                logger.exception("the other processes could not be informed")

    def tell(self, message: str) -> None:
        """Send a text to all processes."""
        self._ask_store(lambda store: store.tell(_writable(message)))

    def footing(self, gate: Waiting) -> Footing:
        """What a gate is to tell of its tickets to. One that it does not know yet is told all of them."""
        if self._remote is not None:
            self._keep()
            if gate not in self._gates:
                with self._lock:
                    self._gates.add(gate)
            self._begin()
        return self._footing

    def lose(self, footing: Footing, error: StoreLost) -> None:
        """A store did not answer: go on alone, from what this process knows. One that only forgot it
        is told again.
        """
        with self._lock:
            if footing is not self._footing or (isinstance(error, Forgotten) and self._tells_again(footing)):
                return
            alone = MemoryStore()
            for (kind, key), value in self._mine.items():
                alone.put(kind, key, value)
            self._footing, self._tried = Footing(alone), self._clock()
        if not self._over:
            logger.warning(
                "this process continues alone, with its own limits, until the others answer: %s", error
            )

    def _tells_again(self, footing: Footing) -> bool:
        """False: it forgot already what it was just told, or does not answer."""
        if self._clock() - self._told_again < BEAT_S:
            return False
        self._told_again = self._clock()
        try:
            self._join(footing.store)
        except StoreLost:
            return False
        return True

    def _ask_store(self, ask: Callable[[SharedStore], Answer]) -> Answer:
        self._keep()
        return self._ask(ask)

    def _ask(self, ask: Callable[[SharedStore], Answer]) -> Answer:
        while True:
            footing = self._footing
            try:
                return ask(footing.store)
            except StoreLost as error:
                self.lose(footing, error)

    def _keep(self) -> None:
        """Beat when it is due; come back to a store that nobody asked for long."""
        if not self.is_joined:
            if self._remote is not None and self._clock() - self._tried > IDLE_RETRY_S:
                self._joins_again()
            return
        if self._clock() - self._beaten < BEAT_S:
            return
        with self._lock:
            footing, now = self._footing, self._clock()
            if footing.store is not self._remote or now - self._beaten < BEAT_S:
                return
            try:
                if not footing.store.beat():
                    self._join(footing.store)
                self._beaten = now
            except StoreLost as error:
                self.lose(footing, error)

    def _join(self, store: SharedStore) -> None:
        """Tell a store that does not know this process all that it holds. A newer record of others stays."""
        store.join()
        for (kind, key), value in self._mine.items():
            store.add(kind, key, value)
        self._footing = Footing(store)

    def _begin(self) -> None:
        """There is something to listen for: wake the listener."""
        if self._remote is None or self._work.is_set():
            return
        with self._lock:
            self._work.set()
            if self._listener is None:
                self._listener = threading.Thread(target=self._listen, name="shared-state", daemon=True)
                self._listener.start()

    @property
    def _busy(self) -> bool:
        return bool(self._mine) or any(gate.busy for gate in self._watched_waits())

    def _watched_waits(self) -> list[Waiting]:
        with self._lock:
            return list(self._gates)

    def _listen(self) -> None:
        """Runs while the process holds anything. The edge of a thread: no error ends it."""
        while not self._over:
            self._work.wait()
            self._work.clear()
            if self._busy and not self._over:
                self._work.set()
                try:
                    self.listen_once()
                except Exception:
                    logger.exception("listening to other processes failed")
                    time.sleep(self._retry_s)

    def listen_once(self, wait_s: float = LISTEN_S) -> None:
        """Beat, hear what others say, and see whose turn it is; or ask again a store that was lost."""
        if not self.is_joined and not self._joins_again():
            self._look_at_gates()
            time.sleep(self._retry_s)
            return
        self._keep()
        footing = self._footing
        try:
            messages = footing.store.receive(wait_s)
        except StoreLost as error:
            self.lose(footing, error)
            messages = []
        for message in dict.fromkeys(messages):
            self._hear(message)
        self._look_at_gates()

    def _hear(self, message: str) -> None:
        """The edge of what others say: a hearer that fails keeps nobody from hearing the next message."""
        word, _, rest = message.partition(" ")
        try:
            if word in self._hearers:
                self._hearers[word](rest)
        except Exception:
            logger.exception("a message from another process could not be handled: %s", word)

    def _look_at_gates(self) -> None:
        """The edge of what gates do: one that fails keeps nobody from the gates behind it."""
        for gate in self._watched_waits():
            try:
                gate.look()
            except Exception:
                logger.exception("a queue could not be looked at")

    def leave(self) -> None:
        """The process ends: what it still holds is free for others at once."""
        self._over = True
        self._work.set()
        self._tell_all_sums()
        with self._lock:
            if self._remote is None or not self.is_joined:
                return
            try:
                self._remote.join()  # as one that holds nothing
            except StoreLost as error:
                logger.info("the other processes could not be informed that this one ends: %s", error)

    def _joins_again(self) -> bool:
        """One thread tries, and the others do not wait for a store that does not answer."""
        if self._remote is None or not self._trying.acquire(blocking=False):
            return False
        try:
            self._tried = self._clock()
            self._remote.beat()
            with self._lock:
                if not self.is_joined:
                    self._join(self._remote)
                    self._beaten = self._clock()
        except StoreLost:
            return False
        finally:
            self._trying.release()
        logger.info("this process works together with the others again")
        self.do_soon(self._tell_all_sums)
        return True


def _writable(text: str) -> str:
    """The text as a store far away can hold it. JSON of a client may hold half of a surrogate pair, which is
    no UTF-8: it would fail there, in Redis together with what others ask at that moment.
    """
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


_store: Callable[[str], SharedStore | None] = lambda owner: None  # noqa: E731
_member: tuple[int, Member] | None = None
_guard = threading.Lock()


def share_by(store: Callable[[str], SharedStore | None]) -> None:
    """From now on each process that needs it makes its store by `store(owner)`; None: it is the only one."""
    global _store, _member
    with _guard:
        _store, _member = store, None


def this_process() -> Member:
    """The member that this process is. One that a server forked makes its own."""
    global _member
    if _member is None or _member[0] != os.getpid():
        with _guard:
            if _member is None or _member[0] != os.getpid():
                member = Member(_store(f"{os.getpid()}-{uuid.uuid4().hex[:12]}"))
                atexit.register(member.leave)
                _member = os.getpid(), member
    return _member[1]
