"""What a reader of a chat's page corrects in its memory: edit, forget, pin, and the undo of these.

The work is that of `--memory` (`workflows/memory/corrections.py`). A memory that is another one by now than
the page shows is not touched, and only the newest correction is undone. Source: spec operate.md 6.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

from Middleware.api.console.chat_views import ENCRYPTED, Chat, find_chat
from Middleware.api.console.view_contract import ApiRoute, Ask, ViewRefused
from Middleware.common.request_context import RequestContext
from Middleware.common.types import JsonObject
from Middleware.config.validation import describe_value
from Middleware.services.discussion_folders import ArchiveRefused
from Middleware.services.discussion_store import reason_of
from Middleware.workflows.memory.corrections import (
    STATE_NUMBER,
    SUMMARY_NUMBER,
    Corrections,
    Edited,
    Forgotten,
    MemoryChanged,
    NoSuchMemory,
    Remembered,
)
from Middleware.workflows.memory.upkeep import embedder

logger = logging.getLogger(__name__)

NOTHING_HELD = "memory holds nothing of this chat"
_FIELDS = {
    "edit": {"number", "sum", "text"},
    "forget": {"number", "sum"},
    "pin": {"number", "sum"},
    "unpin": {"number", "sum"},
    "undo": {"state"},
}
"""What is done -> the fields that it needs, and no other."""
_MOST_PLACES = 8
"""So many places that still hold a text are named, summary and state document first, then the newest."""
_NAMES = {SUMMARY_NUMBER: "the summary", STATE_NUMBER: "the state document"}


def correct_memory(ask: Ask, user: str, chat: str) -> JsonObject:
    """POST `chats/<user>/<id>/memory`: `{"act": "edit", "number", "sum", "text"}`; `forget`, `pin` and
    `unpin` without `text`; `{"act": "undo", "state"}`. Gives `{"said", "state"}`: sentences, and the state
    that undoes it (null: there is none).

    `number`, `sum`: as the page was given them. Refused: 403 for memories that are encrypted, 404 for no such
    chat or memory, 409 for what is no longer as it was seen, 422 for what cannot be done.
    """
    ask.words()
    wish = _wish(ask)
    found = find_chat(ask, user, chat)
    store = found.store
    if store is None:
        is_locked = found.user.encrypt_using_api_key
        raise ViewRefused(403 if is_locked else 404, ENCRYPTED if is_locked else NOTHING_HELD)
    seen = {} if wish["number"] is None else {wish["number"]: wish["sum"]}
    corrections = Corrections(store, embedder(found.user, _request(ask, found)), seen)
    try:
        said = _correct(corrections, wish)
    except ArchiveRefused as error:
        status = 404 if isinstance(error, NoSuchMemory) else 409 if isinstance(error, MemoryChanged) else 422
        raise ViewRefused(status, str(error)) from error
    except (OSError, sqlite3.Error) as error:
        raise ViewRefused(422, reason_of(error)) from error
    logger.info("console: corrected a memory of user %s (%s)", found.user.name, wish["act"])
    return {"said": said, "state": corrections.kept or None}


def _wish(ask: Ask) -> dict[str, Any]:
    """The fields of the body, null where its act needs none."""
    given = ask.fields(act=str, number=str | None, sum=str | None, text=str | None, state=str | None)
    act = given["act"]
    if act not in _FIELDS:
        raise ViewRefused(422, f"act: found {describe_value(act)}, allowed: {', '.join(_FIELDS)}")
    for name in ("number", "sum", "text", "state"):
        if name in _FIELDS[act] and given[name] is None:
            raise ViewRefused(422, f"{name}: found nothing, but {act} needs it")
        if name not in _FIELDS[act] and given[name] is not None:
            raise ViewRefused(422, f"{name}: not a field of {act}")
    return given


def _request(ask: Ask, chat: Chat) -> RequestContext:
    """Nobody's, for the server that makes the vector of a text."""
    return RequestContext("console", chat.user.name, "openaichatcompletion", snapshot=ask.hub.snapshot())


def _correct(corrections: Corrections, wish: dict[str, Any]) -> list[str]:
    """Do it; what is said of it. Raises what Corrections does."""
    number, act = wish["number"], wish["act"]
    if act == "edit":
        return list(_said_of_edit(corrections.edit(number, wish["text"])))
    if act == "forget":
        return list(_said_of_forgotten(number, corrections.forget([number])))
    if act == "undo":
        corrections.undo(wish["state"])
        return ["The last correction was undone."]
    was_pinned = corrections.pin(number, pinned=act == "pin").is_pinned
    if act == "pin":
        return [f"{number} is pinned."]
    return [f"{number} is no longer pinned." if was_pinned else f"{number} was not pinned."]


def _said_of_edit(done: Edited) -> Iterator[str]:
    yield f"{done.old.number} was changed."
    if done.no_vector:
        yield f"It has no vector for now ({done.no_vector}); --memory backfill makes it."
    yield from _elsewhere("The old text", done.elsewhere)


def _said_of_forgotten(number: str, done: Forgotten) -> Iterator[str]:
    """Raises MemoryChanged for one that had been forgotten before."""
    if done.already:
        raise MemoryChanged(f"there is no {number} any longer: it was forgotten before")
    yield f"{number} was forgotten."
    if done.unsure:
        yield "It is not known which messages it was made from, so a rebuild may bring it back."
    yield from _elsewhere("Its text", done.elsewhere)


def _elsewhere(what: str, places: Sequence[Remembered]) -> Iterator[str]:
    if places:
        names = [_NAMES.get(each.number, each.number) for each in reversed(places)]
        more = [f"{len(names) - _MOST_PLACES} more"] if len(names) > _MOST_PLACES else []
        yield f"{what} is still in {', '.join((*names[:_MOST_PLACES], *more))}; edit it there, too."


CORRECTION_ROUTES = (ApiRoute("POST", "chats/<user>/<chat>/memory", "save", correct_memory),)
