"""A discussion's memories made anew from a conversation: beside it, and put in their place when they are
whole.

What was made stays there when the work is broken off; the next run goes on with it. The memories before are
kept as `.bak`. Source: spec memory.md 15.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from Middleware.common.client_question import ClientQuestion
from Middleware.common.types import Messages
from Middleware.config.workflows import WorkflowFile
from Middleware.services.chunk_list import MEMORIES, ChunkList
from Middleware.services.discussion_folders import BESIDE, DiscussionFolders
from Middleware.services.discussion_store import DiscussionStore
from Middleware.workflows.managers.workflow_manager import WorkflowManager
from Middleware.workflows.memory import file_writer, vector_writer
from Middleware.workflows.memory.chunking import without_system
from Middleware.workflows.memory.condensation import TRACKER
from Middleware.workflows.memory.progress import Told
from Middleware.workflows.memory.settings import SettingsFile, memory_settings
from Middleware.workflows.memory.vector_store import VectorDatabase
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.processors.loop_kit import LoopKit
from Middleware.workflows.processors.run import Known, Run

_NODE = {"type": "QualityMemory", "title": "rebuild"}
_RUNS = 4
"""A chunk that gave no memory is tried again so often, all in all."""


@dataclass(frozen=True, slots=True)
class Rebuild:
    """`messages`: the conversation, oldest first. Methods raise what making memories raises."""

    manager: WorkflowManager
    folders: DiscussionFolders
    discussion_id: str
    messages: Messages

    def planned(self) -> int:
        """How many chunks would become memories; changes nothing."""
        with tempfile.TemporaryDirectory() as folder:
            empty = DiscussionStore(Path(folder), self.discussion_id)
            context = self._context()
            return self._left(context, empty, self._settings(context))

    def run(self, told: Told) -> int:
        """Make the memories and put them in the place of the old ones; how many chunks are left (then
        nothing was
        put in place, and the next run goes on).
        """
        context = self._context()
        settings = self._settings(context)
        beside = self.folders.store(f"{BESIDE}{self.discussion_id}")
        left = 0
        for _ in range(_RUNS):
            if _is_vector(settings):
                vector_writer.write_vector_memories(context, beside, settings, told)
            else:
                file_writer.write_file_memories(context, beside, settings, told)
            left = self._left(context, beside, settings)
            if not left:
                break
        if not left and _is_vector(settings):
            left = _given_up_all(VectorDatabase(beside))
        if not left:
            self._put_in_place(beside, vectors=_is_vector(settings))
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
        kit = LoopKit(run, 0, self.manager.run_child, Known())
        return kit.prepared(_NODE, self.messages, is_responder=False)

    def _settings(self, context: ExecutionContext) -> SettingsFile:
        """The user's settings; the state document is not a memory, and stays as it is."""
        settings = memory_settings(context)
        return SettingsFile(settings.name, {**settings.values, "useStateDocument": False})

    def _left(self, context: ExecutionContext, store: DiscussionStore, settings: SettingsFile) -> int:
        if _is_vector(settings):
            vectors = vector_writer.planned(context, store, settings)
            return len(vectors.jobs) if vectors else 0
        files = file_writer.planned(store, settings, without_system(self.messages), rebuilding=True)
        return len(files.chunks) if files else 0

    def _put_in_place(self, beside: DiscussionStore, *, vectors: bool) -> None:
        store = self.folders.store(self.discussion_id)
        with store.lock():
            if vectors:
                _swap_database(VectorDatabase(beside).path, VectorDatabase(store).path)
            else:
                ChunkList(store, MEMORIES).replace(*ChunkList(beside, MEMORIES).load())
                tracker = beside.read_json(TRACKER, None)
                store.update_json(TRACKER, lambda old: tracker if tracker is not None else old and {})
        shutil.rmtree(beside.folder)


def _is_vector(settings: SettingsFile) -> bool:
    return settings.flag("useVectorForQualityMemory")


def _given_up_all(database: VectorDatabase) -> int:
    """How many chunks gave no memory, when none gave one: nothing takes the place of old memories."""
    with database.reading() as log:
        failed = sum(1 for failure in log.failures() if failure.error)
        given = sum(1 for _ in log.chunk_hashes())
    return failed if failed and failed >= given else 0


def _swap_database(new: Path, place: Path) -> None:
    for path in (new, place):
        if path.exists():
            with closing(sqlite3.connect(path)) as connection:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    if place.exists():
        os.replace(place, place.with_name(place.name + ".bak"))
    for tail in ("-wal", "-shm"):
        place.with_name(place.name + tail).unlink(missing_ok=True)
    os.replace(new, place)
