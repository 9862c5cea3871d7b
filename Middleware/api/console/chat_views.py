"""Chats: the kept runs by the discussion that they belong to, and what memory holds of one.

Memory is read as `--memory show` reads it; `chat_corrections.py` changes it. A private run's chat is a mark
without a page. An id is looked up in the list of those that are there; no path is joined. Source: spec
workbench.md 14.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

from Middleware.api.api_helpers import is_private
from Middleware.api.console.recorder import Cut
from Middleware.api.console.run_texts import answering_node, asked_text, output_text
from Middleware.api.console.shapes import MEMORY, Look, name_asked
from Middleware.api.console.view_contract import ApiRoute, Ask, ViewRefused
from Middleware.api.requests.chat_messages import newest_text
from Middleware.common.errors import MiddlewareError
from Middleware.common.types import JsonObject
from Middleware.config.users import UserSettings, load_user
from Middleware.config.validation import describe_value
from Middleware.services.data_folders import discussions_root, old_discussions
from Middleware.services.discussion_folders import DiscussionFolders
from Middleware.services.discussion_store import DiscussionStore, an_object, reason_of
from Middleware.services.key_folders import KEY, folders_of_key, key_in
from Middleware.services.node_trace import NodeTrace
from Middleware.services.run_trace import RunTrace
from Middleware.services.timestamp_service import FILE as TIMES_FILE
from Middleware.utilities.datetime_utils import parse_stamp
from Middleware.utilities.hashing_utils import message_hash
from Middleware.utilities.prompt_extraction_utils import without_discussion_tags
from Middleware.workflows.handlers.node_types import node_handler
from Middleware.workflows.memory.corrections import (
    STATE_NUMBER,
    SUMMARY_NUMBER,
    Corrections,
    Remembered,
    fold,
)

NO_CHAT = "no such chat: no kept run belongs to it, and memory holds nothing of it"
PRIVATE = "The user's settings keep texts private, so its chats have no page."
ENCRYPTED = (
    "This user's memories are encrypted with each client's key, so they cannot be read here,"
    f" unless the server is started with that key in {KEY}."
)
MEMORIES, VECTORS, SUMMARY, STATE, TIMES = "memories", "vectors", "summary", "state", "times"
KINDS = (MEMORIES, SUMMARY, STATE, VECTORS, TIMES)
PAGE = 50
SHOWN_CHARS = 400
"""Of a question and of an answer in the list of turns."""
_FAULTS = (MiddlewareError, OSError, ValueError, sqlite3.Error)

Key = tuple[str, str, str]
"""User, id and mark of a chat."""


# --------------------------------------------------------------------------
# Which runs belong together.


def chat_of(run: RunTrace) -> Key | None:
    """None: it belongs to none."""
    is_known = run.discussion or run.chat_mark
    return (run.user, run.discussion, run.chat_mark) if is_known else None


def _chats(runs: Iterable[RunTrace]) -> dict[Key | None, list[RunTrace]]:
    """Runs by their chat, both the newest first; what front ends ask for themselves is left out."""
    found: dict[Key | None, list[RunTrace]] = {}
    for run in runs:
        if run.task is None:
            found.setdefault(chat_of(run), []).append(run)
    return found


def chats(ask: Ask) -> JsonObject:
    """GET `chats`: `{"chats": [{"user", "id", "mark", "name", "turns", "runs", "last", "state", "level"}]}`,
    newest first; runs without a chat are the last one."""
    ask.words()
    look = Look(ask.hub)
    found = _chats(look.runs)
    rest = found.pop(None, None)
    rows = [*found.items(), *([(None, rest)] if rest else [])]
    return {"chats": [_chat_json(look, key, runs) for key, runs in rows]}


def _chat_json(look: Look, key: Key | None, runs: Sequence[RunTrace]) -> JsonObject:
    newest = runs[0]
    user, discussion, mark = key or ("", "", "")
    return {
        "user": user or None,
        "id": discussion or None,
        "mark": mark or None,
        "name": name_asked(newest) if key else None,
        "turns": max(run.turn for run in runs) if key else 0,
        "runs": len(runs),
        "last": round(newest.wall, 3),
        "state": newest.state,
        "level": look.words(newest).level,
    }


# --------------------------------------------------------------------------
# One chat.


class Chat(NamedTuple):
    """`runs`: those that are kept, newest first. `user`: whose it is."""

    user: UserSettings
    discussion: str
    runs: list[RunTrace]

    @property
    def folders(self) -> DiscussionFolders:
        """Where its memory is: in the folder of the key that the client brought; of a user who encrypts, in
        that of the key in the environment.
        """
        folder = self.runs[0].chat_folder if self.runs else None
        plain = DiscussionFolders(discussions_root(self.user), folder, None, old_discussions(self.user))
        key = key_in(KEY) if self.user.encrypt_using_api_key else ""
        if not key or self.discussion in plain.ids():
            return plain
        return next((each for each in folders_of_key(self.user, key) if self.discussion in each.ids()), plain)

    @property
    def store(self) -> DiscussionStore | None:
        """None: nothing is held. The id is one of the list."""
        folders = self.folders
        return folders.existing(self.discussion) if self.discussion in folders.ids() else None


def find_chat(ask: Ask, user_name: str, discussion: str) -> Chat:
    """Raises Refused (404): no such chat, or a private one."""
    if user_name not in ask.hub.served_users():
        raise ViewRefused(404, NO_CHAT)
    user = load_user(ask.hub.snapshot(), user_name)
    if is_private(user, None):
        raise ViewRefused(404, PRIVATE)
    kept = _chats(ask.hub.recorder.runs()).get((user_name, discussion, ""), [])
    chat = Chat(user, discussion, kept)
    if not kept and discussion not in chat.folders.ids():
        raise ViewRefused(404, NO_CHAT)
    return chat


def chat_view(ask: Ask, user: str, chat: str) -> JsonObject:
    """GET `chats/<user>/<id>`: `{"name", "turns": [{"n", "runs", "rows"}], "memory": [{"kind", "count"}],
    "why"}`, the oldest turn first. `rows`: of each run its summary with the beginnings of question and
    answer. `why`: memory cannot be read; null: it can."""
    ask.words()
    found = find_chat(ask, user, chat)
    look = Look(ask.hub)
    turns: dict[int, list[RunTrace]] = {}
    for run in reversed(found.runs):
        turns.setdefault(run.turn, []).append(run)
    counts, why = _counts(found)
    return {
        "name": name_asked(found.runs[0]) if found.runs else user,
        "turns": [
            {"n": n, "runs": [run.id for run in runs], "rows": [_turn_json(look, run) for run in runs]}
            for n, runs in sorted(turns.items())
        ],
        "memory": [{"kind": kind, "count": counts[kind]} for kind in KINDS],
        "why": why,
    }


def _turn_json(look: Look, run: RunTrace) -> JsonObject:
    secrets, node = look.secrets(run), answering_node(run)
    answer = output_text(node) if node is not None else None
    text = answer.head if isinstance(answer, Cut) else answer or ""
    return {
        **look.summary(run),
        "question": _beginning(secrets.out_of(_question(run))) or None,
        "answer": _beginning(secrets.out_of(text)) or None,
    }


def _question(run: RunTrace) -> str:
    """What the user wrote last; of a body that is not kept whole what its row says."""
    asked = asked_text(run)
    try:
        body = json.loads(asked) if isinstance(asked, str) else None
    except ValueError:
        body = None
    return without_discussion_tags((newest_text(body) if isinstance(body, dict) else "") or run.said)


def _beginning(text: str) -> str:
    text = text.strip()
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]} \u2026"


def _counts(chat: Chat) -> tuple[Counter[str], str | None]:
    try:
        rows = _held(chat)
    except _FAULTS as error:
        return Counter(), _why(error)
    why = ENCRYPTED if not rows and chat.user.encrypt_using_api_key else None
    return Counter({kind: len(rows_of_kind) for kind, rows_of_kind in rows.items()}), why


def _why(error: BaseException) -> str:
    return reason_of(error) if isinstance(error, OSError | sqlite3.Error) else str(error)


# --------------------------------------------------------------------------
# What memory holds.


class Row(NamedTuple):
    """`at`: Unix seconds, None: not known. `number`, `sum`: as `Remembered` has them; empty: it cannot be
    corrected.
    """

    text: str
    at: float | None = None
    number: str = ""
    is_pinned: bool = False
    sum: str = ""


def memory(ask: Ask, user: str, chat: str) -> JsonObject:
    """GET `chats/<user>/<id>/memory?kind=&text=&offset=`: `{"rows": [{"text", "at", "from", "sum",
    "pinned", "made_by"}], "next"}`, newest first. `from`: its number, as `--memory` calls it; `sum`: of its
    text, for a correction; `made_by`: the run and the turn that made it, null: it is not known."""
    words = ask.words("kind", "text", "offset")
    kind = words["kind"] or MEMORIES
    if kind not in KINDS:
        raise ViewRefused(400, f"kind: found {describe_value(kind)}, allowed: {', '.join(KINDS)}")
    offset = ask.number("offset", 0, 0, 1_000_000)
    found = find_chat(ask, user, chat)
    try:
        rows = _held(found).get(kind, [])
    except _FAULTS as error:
        raise ViewRefused(422, _why(error)) from error
    wanted = fold(words["text"])
    fitting = [row for row in rows if wanted in fold(row.text)]
    makers = Makers(found.runs)
    shown = fitting[offset : offset + PAGE]
    return {
        "rows": [_row_json(row, makers.of(row)) for row in shown],
        "next": offset + PAGE if offset + PAGE < len(fitting) else None,
    }


def _row_json(row: Row, maker: RunTrace | None) -> JsonObject:
    return {
        "text": row.text,
        "at": row.at,
        "from": row.number or None,
        "sum": row.sum or None,
        "pinned": row.is_pinned,
        "made_by": {"run": maker.id, "turn": maker.turn} if maker is not None else None,
    }


def _held(chat: Chat) -> dict[str, list[Row]]:
    """All that memory holds, by its kind, the newest first. Raises what is one of `_FAULTS`."""
    store = chat.store
    if store is None:
        return {}
    held: dict[str, list[Row]] = {}
    for each in Corrections(store).all():
        held.setdefault(_kind_of(each), []).insert(0, _row_of(each))
    times = list(_times(store, chat.runs))
    return {**held, TIMES: times} if times else held


def _kind_of(each: Remembered) -> str:
    if each.number in (SUMMARY_NUMBER, STATE_NUMBER):
        return SUMMARY if each.number == SUMMARY_NUMBER else STATE
    return MEMORIES if each.number.startswith("f") else VECTORS


def _row_of(each: Remembered) -> Row:
    return Row(each.text, _unix_of(each.date), each.number, each.is_pinned, each.sum)


def _unix_of(date: str) -> float | None:
    try:
        moment = datetime.fromisoformat(date) if date else None
    except ValueError:
        return None
    if moment is None:
        return None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp(), 3)


def _times(store: DiscussionStore, runs: Sequence[RunTrace]) -> Iterator[Row]:
    """When the messages were sent, as memory has it: those of the newest run in their words."""
    stamps = store.read_json(TIMES_FILE, {}, an_object)
    texts = dict(_texts_by_hash(runs[0])) if runs else {}
    for key, stamp in reversed(stamps.items()):
        moment = parse_stamp(stamp)
        text = texts.get(key, "a message that no kept run has")
        yield Row(text, round(moment.timestamp(), 3) if moment else None)


def _texts_by_hash(run: RunTrace) -> Iterator[tuple[str, str]]:
    asked = asked_text(run)
    try:
        body = json.loads(asked) if isinstance(asked, str) else None
    except ValueError:
        return
    messages = body.get("messages") if isinstance(body, Mapping) else None
    for message in messages if isinstance(messages, list) else ():
        if isinstance(message, Mapping) and isinstance(message.get("content"), str):
            yield message_hash(message), _beginning(message["content"])


# --------------------------------------------------------------------------
# Which run made a memory.


@dataclass(slots=True)
class Makers:
    """`runs`: newest first. A text is a run's if a call of one of its memory nodes gave it; a vector memory
    without such a call, if its time lies within the run."""

    runs: Sequence[RunTrace]
    _texts: list[tuple[RunTrace, list[str]]] = field(init=False)

    def __post_init__(self) -> None:
        self._texts = [(run, [fold(text) for text in _memory_texts(run)]) for run in self.runs]

    def of(self, row: Row) -> RunTrace | None:
        wanted = fold(row.text)
        for run, texts in self._texts:
            if wanted and any(wanted in text for text in texts):
                return run
        if row.at is None or not row.number.startswith("v"):
            return None
        return next((run for run in self.runs if _lasted(run, row.at)), None)


def _lasted(run: RunTrace, unix: float) -> bool:
    """Whether a run went on at this time; of a memory whole seconds are known."""
    took = (run.ended - run.arrived) if run.ended else 0.0
    return int(run.wall) <= unix <= run.wall + took + 1


def _memory_texts(run: RunTrace) -> Iterator[str]:
    """What models said to the run's memory nodes, and to workflows that these called."""
    for node in list(run.nodes):
        if not _remembers(node):
            continue
        for call in list(node.calls):
            text = call.cleaned if call.cleaned is not None else call.raw
            if call.kind == "model" and isinstance(text, str):
                yield text


def _remembers(node: NodeTrace | None) -> bool:
    while node is not None:
        if node_handler(node.type).PALETTE == MEMORY:
            return True
        node = node.parent
    return False


CHAT_ROUTES = (
    ApiRoute("GET", "chats", "look", chats),
    ApiRoute("GET", "chats/<user>/<chat>", "look", chat_view),
    ApiRoute("GET", "chats/<user>/<chat>/memory", "look", memory),
)
