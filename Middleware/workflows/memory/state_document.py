"""The state document of a discussion: new facts are worked in by a workflow, and a bad answer never costs
the old one.

Source: spec memory.md 7.6, 18.2 (13).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable

from Middleware.services.discussion_store import DiscussionStore
from Middleware.workflows.memory.calls import run_tool
from Middleware.workflows.memory.settings import SettingsFile
from Middleware.workflows.models.execution_context import ExecutionContext

logger = logging.getLogger(__name__)

FILE = "state_document.md"
SHORT = 500
"""A document of up to this length may shrink at will."""

_FENCED = re.compile(r"(`{3,}|~{3,})[^\n`]*\n(.*)\n\1[ \t]*", re.S)


def merge(
    context: ExecutionContext, store: DiscussionStore, settings: SettingsFile, facts: Iterable[str]
) -> None:
    """Have the settings' workflow work new facts into the document. Raises what the workflow raises,
    OSError.
    """
    if not settings.flag("useStateDocument"):
        return
    workflow = settings.text("stateDocumentWorkflowName")
    if not workflow:
        logger.error(
            "%s: useStateDocument needs stateDocumentWorkflowName; there is no document", settings.name
        )
        return
    ratio = settings.number("stateDocumentMinRetentionRatio", 0.5)
    old = store.read_text(FILE) or ""
    new = run_tool(context, workflow, ("\n".join(f"- {fact}" for fact in facts), old))
    document = accepted(old, new, ratio)
    if document is None:
        context.warn("the new state document is blank or much shorter; the old one stays")
        return

    def change(now: str | None) -> str | None:
        return document if (now or "") == old else None

    if store.update_text(FILE, change) != document:
        context.warn(
            "the state document has changed meanwhile; what was made from its older state is dropped"
        )


def accepted(old: str, reply: str, ratio: float) -> str | None:
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
