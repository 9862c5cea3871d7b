"""Rebuilds a discussion's memories from a conversation: beside it, and put in their place when they are
whole.

What was made stays there when the work is broken off; the next run goes on with it if it is given the same
conversation. The memories before are kept as `.bak`, and to be put back by an undo. Of messages of which
memories were forgotten none are made. Source: spec memory.md 15, operate.md 6.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from Middleware.common.errors import Forbidden
from Middleware.common.request_context import ClientQuestion
from Middleware.common.types import Messages
from Middleware.config.workflows import WorkflowFile
from Middleware.services.discussion_folders import ArchiveRefused, DiscussionFolders, correct
from Middleware.services.discussion_store import DiscussionStore, an_object, newest_hash
from Middleware.services.file_memories import End, FileMemories
from Middleware.utilities.hashing_utils import message_hash, sha256_hex
from Middleware.workflows.managers.workflow_manager import WorkflowManager
from Middleware.workflows.memory import file_writer, reader, writer
from Middleware.workflows.memory.chunking import tokens_of, without_system
from Middleware.workflows.memory.file_writer import (
    TRACKER,
    Told,
    cut_chunks,
    forgotten_messages,
    read_tracker,
)
from Middleware.workflows.memory.settings import SettingsFile, memory_settings
from Middleware.workflows.memory.vector_store import (
    VectorDatabase,
    is_sound,
    put_damaged_aside,
    take_over,
)
from Middleware.workflows.memory.vector_tables import StateReach
from Middleware.workflows.memory.writer import Patience
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.processors.run import Run

_NODE = {"type": "QualityMemory", "title": "rebuild"}
_RUNS = 4
"""A chunk that gave no memory is tried again so often, all in all."""
STOP_AFTER = 5
"""So many chunks in a row that gave no memory, and more are not tried."""
_MARKER = "rebuild.json"
"""In the folder beside: of which conversation, cut in which way, its memories are."""
_LEASE = "rebuild"
_FACTS_A_CALL = 20
"""So many facts go into a state document at once that is made of many."""


@dataclass(frozen=True, slots=True)
class Item:
    """One chunk of the conversation. `end`: what its file memory covers; `forgotten`: it gets none."""

    messages: Messages
    end: End | None = None
    forgotten: bool = False


Items = Sequence[Item]


@dataclass(frozen=True, slots=True)
class Rebuild:
    """`messages`: the conversation, oldest first. Methods raise what making memories raises."""

    manager: WorkflowManager
    folders: DiscussionFolders
    discussion_id: str
    messages: Messages

    def count_planned(self) -> int:
        """How many chunks would become memories; changes nothing."""
        context = self._context()
        settings = memory_settings(context)
        store = self.folders.store(self.discussion_id)
        return _count_chunks(_kind_of(settings).plan(context, store, settings))

    def run(self, told: Told, *, stop_after: int | None = None) -> int:
        """Make the memories and put them in the place of the old ones; how many chunks gave none (then
        nothing was put in place, and the next run goes on). Too few messages change nothing.

        Raises Refused while another run is at work, or when a file of something else is in the way;
        NothingComes when `stop_after` chunks in a row gave no memory (None: never; file memories are made one
        after the other, so there one chunk is tried four times at the most).
        """
        store = self.folders.store(self.discussion_id)
        with store.lease(_LEASE, 0) as held:
            if not held:
                raise ArchiveRefused(f"{self.discussion_id}: another rebuild is running; wait until it ends")
            return self._run(store, told, Patience(stop_after))

    def _run(self, store: DiscussionStore, told: Told, patience: Patience) -> int:
        context = self._context()
        settings = memory_settings(context)
        kind = _kind_of(settings)
        kind.check(store)
        beside = self.folders.making(self.discussion_id)
        making = SettingsFile(settings.name, {**settings.values, **kind.settings})
        while items := kind.plan(context, store, settings):
            _begin(beside, kind.name, items)
            kind.begin(beside, store)
            left = _make(kind, _Work(context, making, items, told, patience), beside)
            if not left and not kind.worth_it(beside, store):
                left = _count_chunks(items)
                _remove(beside)
            if left:
                return left
            kind.clear(store)
            with store.lock():
                if kind.plan(context, store, settings) == items:
                    with correct(store):
                        kind.put_in_place(beside, store, settings)
                    break
            # something was forgotten meanwhile, of which these memories were made: once more without it
        if beside.folder.exists():
            _remove(beside)
        return 0

    def makes_document(self) -> bool:
        """Whether the settings ask for a state document."""
        settings = memory_settings(self._context())
        return settings.flag("useVectorForQualityMemory") and reader.is_kept(settings)

    def make_document(self, told: Told) -> int:
        """Work the memories into the state document that it lacks, some with each call: all of them where
        there is no document. How many it lacks then.
        """
        context = self._context()
        settings, store = memory_settings(context), self.folders.store(self.discussion_id)
        database = VectorDatabase(store)
        with file_writer.memory_turn(context, store, settings) as is_ours:
            if is_ours and not (store.read_text(reader.STATE_DOCUMENT) or "").strip():
                database.mark_merged(StateReach(0))
            whole = left = len(database.unmerged_memories()[1])
            while left and is_ours:
                reader.merge(context, store, settings, _FACTS_A_CALL)
                before, left = left, len(database.unmerged_memories()[1])
                if left == before:
                    break
                told(whole - left, whole)
        return left

    def _context(self) -> ExecutionContext:
        user = self.manager.user
        file = WorkflowFile("rebuild", user.workflow_folder, "--memory rebuild", (_NODE,))
        run = Run(
            self.manager.state,
            file,
            ClientQuestion(self.messages, discussion_id=self.discussion_id),
            internal=True,
            chain=(file.name,),
        )
        context = self.manager.processor(run).context(0, self.messages)
        return replace(context, is_responder=False).ready()


def _kind_of(settings: SettingsFile) -> Kind:
    return VECTORS if settings.flag("useVectorForQualityMemory") else FILES


def _count_chunks(items: Items) -> int:
    """How many of them get a memory."""
    return sum(not item.forgotten for item in items)


def _make(kind: Kind, work: _Work, beside: DiscussionStore) -> int:
    """Make the memories in the folder beside; how many chunks have none."""
    for _ in range(_RUNS):
        kind.write(work, beside)
        if not kind.left(beside, work.items):
            break
    return kind.left(beside, work.items)


def _remove(beside: DiscussionStore) -> None:
    """Its mark goes first, so that nobody goes on with what is left if this is killed."""
    beside.path(_MARKER).unlink(missing_ok=True)
    shutil.rmtree(beside.folder)


def _begin(beside: DiscussionStore, kind: str, items: Items) -> None:
    """Have the folder beside for this work: as it is if it was begun for it, else new."""
    parts = [
        [*map(message_hash, item.messages), *(["forgotten"] if item.forgotten else [])] for item in items
    ]
    work = sha256_hex(json.dumps([kind, parts]))
    try:
        known = beside.read_json(_MARKER, {}, an_object).get("work")
    except Forbidden:
        known = None
    if known != work:
        if beside.folder.exists():
            _remove(beside)
        beside.update_json(_MARKER, lambda _: {"work": work})


@dataclass(frozen=True, slots=True)
class _Work:
    """What is to be made, and of what."""

    context: ExecutionContext
    settings: SettingsFile
    items: Items
    told: Told
    patience: Patience


@dataclass(frozen=True, slots=True)
class Kind:
    """How one kind of memories is rebuilt.

    `settings`: what differs from the user's while they are made; the state document is no memory, and a rest
    is never too small. `check(store)`: the old ones can be replaced. `plan(context, store, settings)`: the
    conversation as it is cut where there are no memories yet, but for those that were forgotten.
    `begin(beside, store)`: before the first try. `write(work, beside)`: one try. `left(beside, items)`: how
    many chunks have none yet. `worth_it(beside, store)`: there is something to put in the place of the old
    ones. `clear(store)`: move away what cannot be kept.
    """

    name: str
    settings: Mapping[str, Any]
    check: Callable[[DiscussionStore], object]
    plan: Callable[[ExecutionContext, DiscussionStore, SettingsFile], Items]
    begin: Callable[[DiscussionStore, DiscussionStore], object]
    write: Callable[[_Work, DiscussionStore], object]
    left: Callable[[DiscussionStore, Items], int]
    worth_it: Callable[[DiscussionStore, DiscussionStore], bool]
    clear: Callable[[DiscussionStore], object]
    put_in_place: Callable[[DiscussionStore, DiscussionStore, SettingsFile], object]


# --- file memories ---


def _plan_files(context: ExecutionContext, store: DiscussionStore, settings: SettingsFile) -> Items:
    messages = without_system(context.messages)
    end = max(0, len(messages) - settings.whole_number("lookbackStartTurn"))
    files = FileMemories(store)
    entries = files.load()
    forgotten = forgotten_messages(messages[:end], files.ends(entries) if entries else files.lines())
    size = settings.scaled_size("chunkEstimatedTokenSize")
    if tokens_of([messages[at] for at in range(end) if at not in forgotten]) < size:
        return []
    chunks, ends = cut_chunks(messages, range(end), forgotten, size)
    return [Item(chunk, each, bool(each.forgotten)) for chunk, each in zip(chunks, ends, strict=True)]


def _write_files(work: _Work, beside: DiscussionStore) -> None:
    """One memory after the other; what gives none ends it."""
    memories = FileMemories(beside)
    memories.open()
    while (done := len(entries := memories.load())) < len(work.items):
        item = work.items[done]
        assert item.end is not None  # that of a file memory
        if item.forgotten:
            memories.append("", item.end, after=entries)
            continue
        plan = file_writer.FileMemoryPlan([item.messages], [item.end], entries, rebuilding=False)
        file_writer.write_plan(work.context, beside, work.settings, plan, lambda done, whole: None)
        if len(memories.load()) == done:
            return
        made = work.items[: done + 1]
        work.told(_count_chunks(made), _count_chunks(work.items))


def _files_left(beside: DiscussionStore, items: Items) -> int:
    return _count_chunks(items[len(FileMemories(beside).load()) :])


def _put_files(beside: DiscussionStore, store: DiscussionStore, settings: SettingsFile) -> None:
    made, memories = FileMemories(beside), FileMemories(store)
    covered = newest_hash(made.load()) if settings.flag("condenseMemories") else None
    with store.lock():
        memories.take_over(made)
        if covered:
            memories.mark_condensed()
        store.update_json(
            TRACKER, lambda old: read_tracker(covered) if covered else old and {}, {}, an_object
        )


FILES = Kind(
    name="files",
    settings={"condenseMemories": False, "maxMessagesBetweenChunks": 1},
    check=lambda store: FileMemories(store).load(),
    plan=_plan_files,
    begin=lambda beside, store: None,
    write=_write_files,
    left=_files_left,
    worth_it=lambda beside, store: True,
    clear=lambda store: None,
    put_in_place=_put_files,
)


# --- vector memories ---


def _plan_vectors(context: ExecutionContext, store: DiscussionStore, settings: SettingsFile) -> Items:
    with tempfile.TemporaryDirectory() as folder:
        empty = DiscussionStore(Path(folder), store.discussion_id, folder_name="empty")
        _begin_vectors(empty, store)
        vectors = writer.plan_chunks(context, empty, settings)
    return [Item(job.messages) for job in vectors.jobs] if vectors else []


def _begin_vectors(beside: DiscussionStore, store: DiscussionStore) -> None:
    database = VectorDatabase(store)
    if is_sound(database):
        with database.reading() as log:
            forgotten = log.forgotten_chunks()
        VectorDatabase(beside).pass_over(forgotten)
    VectorDatabase(beside).try_failures_again()


def _vectors_left(beside: DiscussionStore, items: Items) -> int:
    """A chunk is done when it is in the log, or failed once and was tried again with success."""
    with VectorDatabase(beside).reading() as log:
        logged = Counter(log.chunk_hashes())
        failed = {failure.chunk.hash: failure.error for failure in log.failures()}
    left = 0
    for record in (writer.record_of(item.messages) for item in items):
        if record.with_unique_name.hash in failed:
            left += bool(failed[record.with_unique_name.hash])
        elif logged[record.hash]:
            logged[record.hash] -= 1
        else:
            left += 1
    return left


VECTORS = Kind(
    name="vectors",
    settings={"useStateDocument": False, "vectorMemoryMaxMessagesBetweenChunks": 1},
    check=lambda store: is_sound(VectorDatabase(store)),
    plan=_plan_vectors,
    begin=_begin_vectors,
    write=lambda work, beside: writer.write_vector_memories(
        work.context, beside, work.settings, work.told, work.patience
    ),
    left=_vectors_left,
    worth_it=lambda beside, store: bool(VectorDatabase(beside).count() or not _count_known(store)),
    clear=lambda store: put_damaged_aside(VectorDatabase(store)),
    put_in_place=lambda beside, store, settings: take_over(VectorDatabase(store), VectorDatabase(beside)),
)


def _count_known(store: DiscussionStore) -> int:
    """How many memories would be replaced."""
    database = VectorDatabase(store)
    return database.count() if is_sound(database) else 0
