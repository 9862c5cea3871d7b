"""Where every node that makes memories goes in: what is new in the conversation is remembered, or nothing
happens.

Source: spec memory.md 7.1, 18.2 (4, 27).
"""

from __future__ import annotations

import logging
import sqlite3
from dataclasses import dataclass, field

from Middleware.common.errors import ConfigError, ConfigMissing, MiddlewareError, RequestCancelled
from Middleware.common.types import Messages
from Middleware.services.discussion_store import DiscussionStore, DiskFaults
from Middleware.utilities.hashing_utils import message_hash
from Middleware.workflows.memory import calls, reader
from Middleware.workflows.memory.calls import Templates, ask, run_tool
from Middleware.workflows.memory.chunking import (
    Processed,
    chunk_hash,
    chunk_messages,
    chunk_text,
    processed_chunks,
    tokens_of,
    without_system,
)
from Middleware.workflows.memory.extraction import Extracted, extract
from Middleware.workflows.memory.file_writer import Told, log_progress, memory_turn, write_file_memories
from Middleware.workflows.memory.settings import SettingsFile, memory_settings
from Middleware.workflows.memory.upkeep import embed_new
from Middleware.workflows.memory.vector_store import (
    MAX_RETRIES,
    ChunkRecord,
    Failure,
    NotADatabaseOfMemories,
    VectorDatabase,
)
from Middleware.workflows.models.execution_context import ChildCall, ExecutionContext, NodeResult

logger = logging.getLogger(__name__)


# --------------------------------------------------------------------------
# Workflows that the user file names for memory nodes. A name that leads nowhere costs no chat.


def tool_value(context: ExecutionContext, setting: str, workflow: str, otherwise: str) -> NodeResult:
    """The value of `workflow`, which the user file names under `setting`; `otherwise` (and an error in the
    log)
    when it names none, or one that does not exist. Raises what a node of the workflow raises.
    """
    fault: object = "a memory node needs a workflow here"
    if workflow:
        try:
            return context.run_workflow(ChildCall(workflow, internal=True))
        except ConfigMissing as error:
            fault = error
    logger.error("%s", ConfigError(str(fault), file=f"Users/{context.user.name}.json", pointer=f"/{setting}"))
    return otherwise


# --------------------------------------------------------------------------
# Vector memories: new messages become rows of the vector database, a chunk in one step.


@dataclass(frozen=True, slots=True)
class ChunkJob:
    """One chunk to be done. `record`: how it is known; `retried`: it gave no memory before."""

    record: ChunkRecord
    messages: Messages = field(repr=False)
    retried: bool = False

    @classmethod
    def of(cls, messages: Messages) -> ChunkJob:
        return cls(record_of(messages), messages)


def record_of(messages: Messages) -> ChunkRecord:
    """How a chunk is known."""
    return ChunkRecord(chunk_hash(messages), tuple(map(message_hash, messages)))


@dataclass(frozen=True, slots=True)
class VectorMemoryPlan:
    """What is to be done. `after`: hash of the newest chunk that it was made from."""

    jobs: list[ChunkJob]
    after: str | None


class NothingComes(ValueError):
    """So many chunks in a row gave no memory that more are not tried. The text says why the last one did."""


class Patience:
    """Counts chunks in a row that gave no memory. `most`: so many raise NothingComes; None: none do."""

    def __init__(self, most: int | None = None) -> None:
        self._most, self._failures = most, 0

    def note_memory(self) -> None:
        self._failures = 0

    def note_failure(self, reason: str) -> None:
        self._failures += 1
        if self._failures == self._most:
            raise NothingComes(reason)


def write_vector_memories(
    context: ExecutionContext,
    store: DiscussionStore,
    settings: SettingsFile,
    told: Told = log_progress,
    patience: Patience | None = None,
) -> None:
    """Remember what is new, if it is enough, and what gave no memory before; the state document gets what it
    lacks.

    Raises ConfigError, BackendError, `sqlite3.Error`, RequestCancelled, NothingComes (by `patience`); what
    was stored by then stays stored.
    """
    if plan_chunks(context, store, settings) is None and not reader.lacks_facts(store, settings):
        return
    with memory_turn(context, store, settings) as is_ours:
        if not is_ours:
            return
        writer = _Writer(context, store, settings)
        plan = plan_chunks(context, store, settings)
        if plan is not None:
            writer.write(plan, told, patience or Patience())
        if not writer.has_merged:
            writer.merge()


def plan_chunks(
    context: ExecutionContext, store: DiscussionStore, settings: SettingsFile
) -> VectorMemoryPlan | None:
    """The chunks to be done now; None: there are none."""
    messages = without_system(context.messages)
    lookback = settings.whole_number("lookbackStartTurn")
    eligible = messages[: max(0, len(messages) - lookback)]
    if not eligible:
        return None
    hashes = list(map(message_hash, eligible))
    with VectorDatabase(store).reading() as log:
        failures = log.failures()
        done = processed_chunks(hashes, log.chunks(), log.chunks_beside(failures))
        after = log.newest()
    if done.start is None and after is not None:
        context.warn(
            "no remembered chunk ends in this history, so only messages that were in no chunk are used"
        )
    new = [eligible[place] for place in done.new(len(eligible))]
    retries = _retries(failures, done, eligible)
    size = settings.scaled_size("vectorMemoryChunkEstimatedTokenSize")
    most = settings.whole_number("vectorMemoryMaxMessagesBetweenChunks")
    enough = bool(new) and (tokens_of(new) >= size or len(new) >= most)
    jobs = [*retries, *map(ChunkJob.of, chunk_messages(new, size) if enough else [])]
    return VectorMemoryPlan(jobs, after) if jobs else None


def _retries(failures: list[Failure], done: Processed, eligible: Messages) -> list[ChunkJob]:
    """Failed chunks that may be tried again and of which the history still has messages."""
    jobs = []
    for failure, places in zip(failures, done.beside, strict=False):
        if failure.may_be_tried and places:
            messages = [eligible[place] for place in places]
            record = ChunkRecord(failure.chunk.hash, tuple(map(message_hash, messages)))
            jobs.append(ChunkJob(record, messages, retried=True))
    return jobs


class _Writer:
    """The work of one run. `has_merged`: the state document was asked for."""

    def __init__(self, context: ExecutionContext, store: DiscussionStore, settings: SettingsFile) -> None:
        self._context, self._store, self._settings = context, store, settings
        self._database = VectorDatabase(store)
        self.has_merged = False

    def write(self, plan: VectorMemoryPlan, told: Told, patience: Patience) -> None:
        after = plan.after
        for number, job in enumerate(plan.jobs, 1):
            if self._context.is_cancelled():
                raise RequestCancelled
            found = self._extract_memories(job)
            for reason in found.rejected:
                self._context.warn(f"a memory was not stored: {reason}")
            if not found.memories and not found.nothing_to_keep:
                patience.note_failure(self._record_failure(job, found))
                continue
            patience.note_memory()
            if not self._store_memories(job, found, after):
                self._context.warn("the memories have changed in the meantime, so the new ones are dropped")
                return
            after = after if job.retried else job.record.hash
            told(number, len(plan.jobs))

    def _extract_memories(self, job: ChunkJob) -> Extracted:
        text = chunk_text(job.messages)
        if not text.strip():
            return Extracted(found=True)
        workflow = self._settings.text("vectorMemoryWorkflowName")
        if workflow:
            return extract(run_tool(self._context, workflow, (text,)))
        settings = self._settings
        config = settings.node(
            {
                "endpointName": settings.override("vectorMemoryEndpointName", "endpointName"),
                "preset": settings.override("vectorMemoryPreset", "preset"),
                "maxResponseSizeInTokens": settings.whole_number(
                    "vectorMemoryMaxResponseSizeInTokens", minimum=1
                ),
            }
        )
        templates = Templates(calls.FACTS_SYSTEM, calls.FACTS_PROMPT)
        return extract(ask(self._context, config, templates, {"[TextChunk]": text}, variables=False))

    def _record_failure(self, job: ChunkJob, found: Extracted) -> str:
        """Why the chunk gave none."""
        reason = "; ".join(found.rejected) or "the reply contains no JSON object or array"
        record = job.record if job.retried else job.record.with_unique_name
        attempts = self._database.record_failure(record, reason)
        if attempts > MAX_RETRIES:
            logger.error(
                "a chunk of the conversation gave no memory %d times and is left out: %s", attempts, reason
            )
        else:
            self._context.warn(
                f"a chunk of the conversation gave no memory and is tried again later: {reason}"
            )
        return reason

    def _store_memories(self, job: ChunkJob, found: Extracted, after: str | None) -> bool:
        stored = self._database.save(
            job.record,
            found.memories,
            after=after,
            index_topics=self._settings.flag("vectorMemoryIndexTopics"),
            retried=job.retried,
            document=reader.is_kept(self._settings),
        )
        if stored is None:
            return False
        if stored:
            self._embed(stored)
            self.merge()
        return True

    def _embed(self, memories: dict[int, str]) -> None:
        """Vectors for new memories, which stay stored whatever happens here; later chunks bring the rest."""
        try:
            embed_new(self._context, self._store, self._settings, memories)
        except (MiddlewareError, ValueError, OSError, sqlite3.Error) as error:
            _raise_if_cancelled(error)
            logger.error("new memories got no vectors: %s", error)

    def merge(self) -> None:
        """Bring the state document up to date; what it lacks after this waits for the next time."""
        self.has_merged = True
        try:
            reader.merge(self._context, self._store, self._settings)
        except (MiddlewareError, ValueError, OSError, sqlite3.Error) as error:
            _raise_if_cancelled(error)
            logger.error("the state document is not changed for now: %s", error)


def _raise_if_cancelled(error: BaseException) -> None:
    if isinstance(error, RequestCancelled):
        raise error


# --------------------------------------------------------------------------

FEWEST_MESSAGES = 3


def remember(context: ExecutionContext, disk: DiskFaults, *, files_only: bool = False) -> None:
    """Make the memories that are due, as the user's settings file says (`files_only`: file memories in any
    case).

    A fault of that file, of the database or of the disk is an error in the log; the chat goes on. Raises what
    a model call raises.
    """
    store = context.store
    if store is None or len(context.messages) < FEWEST_MESSAGES:
        return
    disk.try_work(
        lambda: _write_memories(context, store, files_only=files_only), None, "no memories were made"
    )


def _write_memories(context: ExecutionContext, store: DiscussionStore, *, files_only: bool) -> None:
    try:
        settings = memory_settings(context)
        if settings.flag("useVectorForQualityMemory") and not files_only:
            write_vector_memories(context, store, settings)
        else:
            write_file_memories(context, store, settings)
    except (ConfigError, NotADatabaseOfMemories) as error:
        logger.error("no memories were made: %s", error)
