"""Two names for one search by words, in the conversation or in the file memories. Source: spec memory.md
11.1.
"""

from __future__ import annotations

from typing import ClassVar

from Middleware.services.discussion_store import DiskFaults
from Middleware.utilities.search_utils import (
    best_pieces,
    filtered_keywords,
    pieces_sharing_a_word,
    without_roles,
)
from Middleware.workflows.handlers.base.base_workflow_node_handler import MACHINE, WorkflowNodeHandler
from Middleware.workflows.handlers.node_types import NODES
from Middleware.workflows.memory.chunking import chunk_messages, chunk_text, content
from Middleware.workflows.memory.reader import CHUNK_BREAK, PIECE_TOKENS, MemoryReader, texts_of
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.node_keys import ANY, INTEGER, TEXT, Keys, read_filled

TOO_SHORT = "There are no memories. This conversation has not gone long enough for there to be memories."
TARGETS = ("CurrentConversation", "RecentMemories")
_MOST_PIECES = 10
_SPEAKER_MESSAGES = 10
_NEWEST_LEFT_OUT = 3


@NODES.register("ConversationalKeywordSearchPerformerTool", "MemoryKeywordSearchPerformerTool")
class KeywordSearchNode(WorkflowNodeHandler):
    """Outputs the pieces of the conversation, or the memories, that contain words of `keywords`."""

    PALETTE = "memory"

    POWERS = frozenset([MACHINE])

    KEYS: ClassVar[Keys] = {
        "keywords": TEXT("The words to search for. Takes variables.", required=True),
        "searchTarget": ANY(
            "Where to search.", should={"enum": list(TARGETS)}, default=TARGETS[0], read=read_filled
        ),
        "lookbackStartTurn": INTEGER(
            "How many of the newest messages to search. 0 means all of them except the last.", default=0
        ),
    }
    RUNS_DRY = True

    def handle(self, context: ExecutionContext) -> str:
        target, keywords = context.value("searchTarget"), context.fill(context.value("keywords"))
        if target == "CurrentConversation":
            return _in_conversation(context, keywords)
        return _in_memories(context, keywords) if target == "RecentMemories" else ""


def _in_conversation(context: ExecutionContext, keywords: str) -> str:
    messages = context.messages
    lookback = context.value("lookbackStartTurn")
    if not messages:
        return ""
    if len(messages) <= lookback:
        return TOO_SHORT
    pool = messages[-lookback:] if lookback > 0 else messages[:-1]
    pieces = [chunk_text(chunk) for chunk in chunk_messages(pool, PIECE_TOKENS)]
    wanted = filtered_keywords(keywords, map(content, messages[-_SPEAKER_MESSAGES:]))
    return _join_pieces(best_pieces(wanted, pieces, _MOST_PIECES), CHUNK_BREAK)


def _in_memories(context: ExecutionContext, keywords: str) -> str:
    if context.store is None:
        return ""
    reader = MemoryReader(context.store)
    disk, why = DiskFaults(), "the memories cannot be searched"
    pinned = texts_of(disk.try_work(reader.pinned, (), why))
    texts = texts_of(disk.try_work(reader.memories, (), why))
    if len(texts) > _NEWEST_LEFT_OUT:
        texts = texts[:-_NEWEST_LEFT_OUT]
    others = [text for text in texts if text not in pinned]
    found = pieces_sharing_a_word(keywords, others, max(0, _MOST_PIECES - len(pinned)))
    return _join_pieces([*pinned, *found], "\n\n")


def _join_pieces(pieces: list[str], separator: str) -> str:
    return separator.join(text for text in map(without_roles, pieces) if text)
