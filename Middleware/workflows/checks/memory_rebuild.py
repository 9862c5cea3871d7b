"""Rebuilds a discussion's memories from a conversation: beside it, and put in their place when they are
whole.

What was made stays there when the work is broken off; the next run goes on with it if it is given the same
conversation. The memories before are kept as `.bak`. Source: spec memory.md 15.
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
from Middleware.services.discussion_folders import ArchiveRefused, DiscussionFolders
from Middleware.services.discussion_store import DiscussionStore, an_object, newest_hash
from Middleware.services.file_memories import FileMemories
from Middleware.utilities.hashing_utils import message_hash, sha256_hex
from Middleware.workflows.managers.workflow_manager import WorkflowManager
from Middleware.workflows.memory import file_writer, writer
from Middleware.workflows.memory.chunking import without_system
from Middleware.workflows.memory.file_writer import TRACKER, Told, read_tracker
from Middleware.workflows.memory.settings import SettingsFile, memory_settings
from Middleware.workflows.memory.vector_store import VectorDatabase, is_sound, take_over
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.processors.run import Run

_NODE = {"type": "QualityMemory", "title": "rebuild"}
_RUNS = 4
"""A chunk that gave no memory is tried again so often, all in all."""
_MARKER = "rebuild.json"
"""In the folder beside: of which conversation, cut in which way, its memories are."""
_LEASE = "rebuild"

Chunks = Sequence[Messages]


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
        return len(self._chunks(context, memory_settings(context)))

    def run(self, told: Told) -> int:
        """Make the memories and put them in the place of the old ones; how many chunks gave none (then
        nothing was put in place, and the next run goes on). Too few messages change nothing.

        Raises Refused while another run is at work, or when a file of something else is in the way.
        """
        store = self.folders.store(self.discussion_id)
        with store.lease(_LEASE, 0) as held:
            if not held:
                raise ArchiveRefused(f"{self.discussion_id}: another rebuild is running; wait until it ends")
            return self._run(store, told)

    def _run(self, store: DiscussionStore, told: Told) -> int:
        context = self._context()
        settings = memory_settings(context)
        kind = VECTORS if _is_vector(settings) else FILES
        kind.check(store)
        chunks = self._chunks(context, settings)
        if not chunks:
            return 0
        beside = self.folders.making(self.discussion_id)
        _begin(beside, kind.name, chunks)
        kind.begin(beside)
        making = SettingsFile(settings.name, {**settings.values, **kind.settings})
        for _ in range(_RUNS):
            kind.write(context, beside, making, told)
            if not kind.left(beside, chunks):
                break
        left = kind.left(beside, chunks)
        if not left and not kind.worth_it(beside, store):
            left = len(chunks)
            shutil.rmtree(beside.folder)
        if not left:
            kind.put_in_place(beside, store, settings)
            shutil.rmtree(beside.folder)
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

    def _chunks(self, context: ExecutionContext, settings: SettingsFile) -> Chunks:
        """The conversation as it is cut where there are no memories yet."""
        with tempfile.TemporaryDirectory() as folder:
            empty = DiscussionStore(Path(folder), self.discussion_id, folder_name="empty")
            if _is_vector(settings):
                vectors = writer.plan_chunks(context, empty, settings)
                return [job.messages for job in vectors.jobs] if vectors else []
            files = file_writer.plan_chunks(empty, settings, without_system(self.messages), rebuilding=True)
            return files.chunks if files else []


def _is_vector(settings: SettingsFile) -> bool:
    return settings.flag("useVectorForQualityMemory")


def _begin(beside: DiscussionStore, kind: str, chunks: Chunks) -> None:
    """Have the folder beside for this work: as it is if it was begun for it, else new."""
    work = sha256_hex(json.dumps([kind, [list(map(message_hash, chunk)) for chunk in chunks]]))
    try:
        known = beside.read_json(_MARKER, {}, an_object).get("work")
    except Forbidden:
        known = None
    if known != work:
        if beside.folder.exists():
            shutil.rmtree(beside.folder)
        beside.update_json(_MARKER, lambda _: {"work": work})


@dataclass(frozen=True, slots=True)
class Kind:
    """How one kind of memories is rebuilt.

    `settings`: what differs from the user's while they are made; the state document is no memory and stays
    as it is, and a rest is never too small. `check(store)`: the old ones can be replaced. `begin(beside)`:
    before the first try. `left(beside, chunks)`: how many chunks have none yet. `worth_it(beside, store)`:
    there is something to put in the place of the old ones.
    """

    name: str
    settings: Mapping[str, Any]
    check: Callable[[DiscussionStore], object]
    begin: Callable[[DiscussionStore], object]
    write: Callable[[ExecutionContext, DiscussionStore, SettingsFile, Told], object]
    left: Callable[[DiscussionStore, Chunks], int]
    worth_it: Callable[[DiscussionStore, DiscussionStore], bool]
    put_in_place: Callable[[DiscussionStore, DiscussionStore, SettingsFile], object]


# --- file memories ---


def _files_left(beside: DiscussionStore, chunks: Chunks) -> int:
    return len(chunks) - len(FileMemories(beside).load())


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
    begin=lambda beside: None,
    write=file_writer.write_file_memories,
    left=_files_left,
    worth_it=lambda beside, store: True,
    put_in_place=_put_files,
)


# --- vector memories ---


def _vectors_left(beside: DiscussionStore, chunks: Chunks) -> int:
    """A chunk is done when it is in the log, or failed once and was tried again with success."""
    with VectorDatabase(beside).reading() as log:
        logged = Counter(log.chunk_hashes())
        failed = {failure.chunk.hash: failure.error for failure in log.failures()}
    left = 0
    for record in map(writer.record_of, chunks):
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
    begin=lambda beside: VectorDatabase(beside).try_failures_again(),
    write=writer.write_vector_memories,
    left=_vectors_left,
    worth_it=lambda beside, store: bool(VectorDatabase(beside).count() or not _count_known(store)),
    put_in_place=lambda beside, store, settings: take_over(VectorDatabase(store), VectorDatabase(beside)),
)


def _count_known(store: DiscussionStore) -> int:
    """How many memories would be replaced."""
    database = VectorDatabase(store)
    return database.count() if is_sound(database) else 0
