"""ConversationChunkProcessor: the conversation in whole chunks to a child workflow, each chunk once.

A cursor file remembers the hash of the last message of every chunk that is done; a file beside it, which only
we know, all of its messages, for a hash alone is no place. Source: spec nodes.md 3.17, 6.11, memory.md 4.5,
18.2 (18).
"""

from __future__ import annotations

import copy
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from Middleware.common.errors import ConfigError, RequestCancelled
from Middleware.common.types import NodeConfig
from Middleware.services.file_memories import End, Ends, align_entries, end_at, ends_of, lines_of
from Middleware.utilities.file_locks import hold_lock, lock_file_for, locked_in_time
from Middleware.utilities.file_utils import (
    PathLeaves,
    atomic_write,
    confined_path,
    read_text,
)
from Middleware.utilities.hashing_utils import message_hash
from Middleware.workflows.handlers.base.base_workflow_node_handler import ChildName, WorkflowNodeHandler
from Middleware.workflows.handlers.node_types import NODES
from Middleware.workflows.memory.chunking import unprocessed_range
from Middleware.workflows.memory.settings import DEFAULT_LOCK_TIMEOUT_S
from Middleware.workflows.models.execution_context import ChildCall, ExecutionContext
from Middleware.workflows.models.node_keys import (
    ANY,
    NEEDED_TEXT,
    TEXT,
    Keys,
    whole_of_at_least,
)

EMPTY_FILE = "No additional information added"
_ID = re.compile(r"[A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True)
class Settings:
    """The checked fields of the node."""

    id: str
    workflow: str
    size: int
    lookback: int
    directory: str


def _read_id(value: Any) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


@NODES.register("ConversationChunkProcessor")
class ConversationChunksNode(WorkflowNodeHandler):
    """Runs `workflowName` once for every complete chunk that is new. The output is a count, or the text of
    a file.
    """

    PALETTE = "workflows"

    KEYS: ClassVar[Keys] = {
        "id": TEXT(
            "Part of the name of the cursor file: letters, digits, `.`, `-` and `_`.",
            required=True,
            read=_read_id,
            pattern="^[A-Za-z0-9_.-]+$",
        ),
        "workflowName": NEEDED_TEXT(
            "The workflow in your own folder that gets each chunk.", form="names:workflows"
        ),
        "chunkSize": ANY(
            "How many messages are in a chunk. Default: {default}.",
            must={"type": "integer", "minimum": 1},
            default=10,
            read=whole_of_at_least(1),
        ),
        "lookbackMessages": ANY(
            "How many of the newest messages are not passed on yet. Default: {default}.",
            must={"type": "integer", "minimum": 0},
            default=4,
            read=whole_of_at_least(0),
        ),
        "cursorDirectory": NEEDED_TEXT(
            "The folder of the file that records which chunks are done. Takes variables."
        ),
        "returnFile": TEXT("A file whose text is the output. Takes variables."),
    }
    FITTING = ("scoped_variables",)
    KEEPS_TO_DISCUSSION = True

    def handle(self, context: ExecutionContext) -> str:
        name = context.value("id")
        try:
            count = self._process(context, _settings(context)) if context.discussion_id else 0
            return _output(context, name, count)
        except PathLeaves as error:
            return f"Error: {error}"

    def _process(self, context: ExecutionContext, settings: Settings) -> int:
        """How many chunks were handed to the child. Another request that is at it is waited for."""
        cursor = _cursor_file(context, settings)
        if not _due(context, settings, _cursor_to_read(context, settings))[1]:
            return 0
        with _turn(context, cursor) as ours:
            if not ours:
                return 0
            _take_over(_cursor_to_read(context, settings), cursor)
            return self._hand_on(context, settings, cursor)

    def _hand_on(self, context: ExecutionContext, settings: Settings, cursor: Path) -> int:
        start, count = _due(context, settings, cursor)
        messages = context.messages
        scoped = [context.fill(str(item)) for item in context.value("scoped_variables")]
        hashes = list(map(message_hash, messages))
        for number in range(count):
            if context.is_cancelled():
                raise RequestCancelled
            first = start + number * settings.size
            chunk = messages[first : first + settings.size]
            call = ChildCall(
                settings.workflow,
                inputs=("\n".join(message.get("content") or "" for message in chunk), *scoped),
                messages=copy.deepcopy(chunk),
                internal=True,
                with_tools=False,
            )
            context.run_workflow(call)
            try:
                _remember(cursor, end_at(hashes, first, first + settings.size))
            except OSError as error:
                context.warn(f"the cursor {cursor} cannot be written: {error.strerror}")
        return count

    def children(self, config: NodeConfig) -> list[ChildName]:
        name, scoped = config.get("workflowName"), config.get("scoped_variables")
        inputs = 1 + (len(scoped) if isinstance(scoped, list) else 0)
        return [ChildName("/workflowName", name, None, inputs)] if isinstance(name, str) and name else []

    def writes(self, config: NodeConfig) -> str:
        return "hands on the new chunks of the conversation, and writes how far it came"

    def dry_notes(self, context: ExecutionContext) -> list[str]:
        if not context.discussion_id:
            return []
        settings = _settings(context)
        _, chunks = _due(context, settings, _cursor_to_read(context, settings))
        cursor = _cursor_file(context, settings)
        return [f"would run '{settings.workflow}' for {chunks} chunk(s) and write {cursor}"]


def _settings(context: ExecutionContext) -> Settings:
    """The fields, checked. Raises ConfigError."""
    name = context.value("id")
    if not _ID.fullmatch(name):
        raise ConfigError(f"'id' may hold letters, digits, '.', '-' and '_' only, not {name!r}")
    return Settings(
        id=name,
        workflow=context.value("workflowName"),
        size=context.value("chunkSize"),
        lookback=context.value("lookbackMessages"),
        directory=context.value("cursorDirectory"),
    )


def _cursor_file(context: ExecutionContext, settings: Settings) -> Path:
    """In a folder of the request's key, if it has one: chats of two keys may have the same id."""
    return _cursor_in(context, settings, context.api_key_hash or "")


def _cursor_in(context: ExecutionContext, settings: Settings, folder: str) -> Path:
    text, base = context.fill_parts(settings.directory)
    if not text.strip():
        raise ConfigError("'cursorDirectory' resolved to nothing")
    name = f"chunk_cursor_{settings.id}_{context.discussion_id}.txt"
    return context.own_file(confined_path(os.path.join(text, folder, name), base))


def _cursor_to_read(context: ExecutionContext, settings: Settings) -> Path:
    """The cursor; while there is none, the one from before keys had folders, if it knows this chat."""
    cursor, before = _cursor_file(context, settings), _cursor_in(context, settings, "")
    if cursor == before or cursor.exists():
        return cursor
    return before if unprocessed_range(context.messages, _done(before), 0)[0] else cursor


def _take_over(before: Path, cursor: Path) -> None:
    """Make a cursor of another place this one. If that fails, or another key was faster, there is none."""
    if before == cursor:
        return
    with suppress(OSError):
        cursor.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            os.replace(_lines_file(before), _lines_file(cursor))
        os.replace(before, cursor)


def _due(context: ExecutionContext, settings: Settings, cursor: Path) -> tuple[int, int]:
    """Where the first chunk that is not done begins, and how many whole ones there are."""
    start, end = unprocessed_range(context.messages, _done(cursor), settings.lookback)
    return start, (end - start) // settings.size


@contextmanager
def _turn(context: ExecutionContext, cursor: Path) -> Iterator[bool]:
    """Hold the right to hand on chunks, over threads and processes.

    Without a place for locks the work goes on at once.
    """
    try:
        lease = lock_file_for(cursor).with_suffix(".lease")
    except OSError as error:
        context.warn(f"no lock can be kept for the cursor {cursor}: {error.strerror}")
        yield True
        return
    with locked_in_time(lease, DEFAULT_LOCK_TIMEOUT_S, context.is_cancelled) as held:
        if not held:
            context.warn("another request hands on these chunks; this one leaves it to a later turn")
        yield held


def _done(cursor: Path) -> Ends:
    """The chunks that are done; none if the cursor file cannot be read."""
    try:
        hashes = read_text(cursor).split()
    except (OSError, ValueError):
        return ()
    return align_entries(hashes, _lines(cursor))


def _lines_file(cursor: Path) -> Path:
    return cursor.with_name(f"{cursor.stem}_ends.json")


def _lines(cursor: Path) -> Ends:
    """What is known of the chunks beside their hashes; nothing if that cannot be read."""
    try:
        return ends_of(json.loads(read_text(_lines_file(cursor))))
    except (OSError, ValueError, TypeError, RecursionError):
        return ()


def _remember(cursor: Path, done: End) -> None:
    """Add a chunk; to the cursor file last: what is not in it counts for nothing.

    The cursor's last line has no line end: other programs that keep the file write it so.
    """
    cursor.parent.mkdir(parents=True, exist_ok=True)
    with hold_lock(lock_file_for(cursor)):
        lines = cursor.read_bytes().split() if cursor.exists() else []
        hashes = [line.decode("ascii", "replace") for line in lines]
        ends = (*align_entries(hashes, _lines(cursor)), done)
        atomic_write(_lines_file(cursor), json.dumps(lines_of(ends)).encode("ascii"))
        atomic_write(cursor, b"\n".join([*lines, done.hash.encode("ascii")]))


def _output(context: ExecutionContext, name: str, count: int) -> str:
    field = context.value("returnFile")
    if not field:
        return f"ConversationChunkProcessor '{name}' processed {count} chunk(s)."
    text, base = context.fill_parts(field)
    if not text.strip():
        return ""
    try:
        path = confined_path(text, base)
        return (read_text(path) or EMPTY_FILE) if path.exists() else ""
    except PathLeaves:
        raise
    except (OSError, ValueError) as error:
        return f"Error reading file: {getattr(error, 'strerror', None) or error}"
