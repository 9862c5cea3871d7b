"""The state document of a discussion: new facts are worked in by a workflow, and a bad answer never costs
the old one.

Which facts it knows is marked in the database of memories (`state_reach.py`): what a merge did not bring in,
the next one does. Source: spec memory.md 7.6, 18.2 (13, 23).
"""

from __future__ import annotations

import logging
import re
from dataclasses import replace

from Middleware.services.discussion_store import DiscussionStore
from Middleware.utilities.hashing_utils import text_hash
from Middleware.workflows.memory.calls import run_tool
from Middleware.workflows.memory.settings import SettingsFile
from Middleware.workflows.memory.state_reach import MOST_REFUSALS, StateReach
from Middleware.workflows.memory.vector_store import VectorDatabase
from Middleware.workflows.models.execution_context import ExecutionContext

logger = logging.getLogger(__name__)

STATE_DOCUMENT = "state_document.md"
SHORT = 500
"""A document of up to this length may shrink at will."""

_FENCED = re.compile(r"(`{3,}|~{3,})[^\n`]*\n(.*)\n\1[ \t]*", re.S)


def is_kept(settings: SettingsFile) -> bool:
    """Whether the settings ask for a document."""
    return settings.flag("useStateDocument")


def lacks_facts(store: DiscussionStore, settings: SettingsFile) -> bool:
    """Whether there are memories that a merge could bring into the document. Raises `sqlite3.Error`."""
    can_merge = is_kept(settings) and bool(settings.text("stateDocumentWorkflowName"))
    return can_merge and bool(VectorDatabase(store).unmerged_memories()[1])


def merge(context: ExecutionContext, store: DiscussionStore, settings: SettingsFile) -> None:
    """Have the settings' workflow work all facts into the document that it does not know yet, in one call.

    Raises what the workflow raises, OSError, `sqlite3.Error`; the facts then wait for the next merge.
    """
    if not is_kept(settings):
        return
    workflow = settings.text("stateDocumentWorkflowName")
    if not workflow:
        logger.error(
            "%s: useStateDocument needs stateDocumentWorkflowName; there is no document", settings.name
        )
        return
    ratio = settings.number("stateDocumentMinRetentionRatio", 0.5)
    old = store.read_text(STATE_DOCUMENT) or ""
    database = VectorDatabase(store)
    reach, facts = _settle_document(database, old)
    if reach is None or not facts:
        return
    newest = facts[-1][0]
    new = run_tool(context, workflow, ("\n".join(f"- {fact}" for _, fact in facts), old))
    document = accept_document(old, new, ratio)
    if document is None:
        refused = reach if not new.strip() else replace(reach, refusals=reach.refusals + 1)
        _keep_old(context, database, refused, newest)
        return
    database.mark_merged(replace(reach, written_id=newest, written_hash=text_hash(document)))

    def change(now: str | None) -> str | None:
        return document if (now or "") == old else None

    if store.update_text(STATE_DOCUMENT, change) == document:
        database.mark_merged(StateReach(newest))
    else:
        context.warn(
            "the state document has changed meanwhile; what was made from its older state is dropped"
        )


def _settle_document(
    database: VectorDatabase, document: str
) -> tuple[StateReach | None, list[tuple[int, str]]]:
    """What the document lacks; a merge that was killed when the file was written is done all the same."""
    reach, facts = database.unmerged_memories()
    if reach is None or reach.written_id is None or reach.written_hash != text_hash(document):
        return reach, facts
    database.mark_merged(StateReach(reach.written_id))
    return database.unmerged_memories()


def _keep_old(context: ExecutionContext, database: VectorDatabase, reach: StateReach, newest: int) -> None:
    """The reply was no document: the facts wait, unless they were refused too often."""
    if reach.refusals < MOST_REFUSALS:
        database.mark_merged(replace(reach, written_id=None, written_hash=None))
        context.warn("the new state document is blank or much shorter; the old one stays")
    else:
        database.mark_merged(StateReach(newest))
        context.warn(
            f"the new state document was much shorter {MOST_REFUSALS} times; the old one stays, "
            "and the newest facts are left out of it"
        )


def accept_document(old: str, reply: str, ratio: float) -> str | None:
    """The document that a reply stands for; None: it is blank, or so short that something must have been
    lost.
    """
    new = without_fence(reply.strip())
    if not new:
        return None
    if ratio and len(old) > SHORT and len(new) < ratio * len(old):
        return None
    return new


def without_fence(text: str) -> str:
    """The text inside a code fence that is around all of it."""
    fenced = _FENCED.fullmatch(text)
    if fenced is None or re.search(rf"^{fenced[1]}", fenced[2], re.M):
        return text
    return fenced[2].strip()
