"""Which paragraphs of its system text each chat began with, from one request to the next.

Kept are digests only, made with the owner's name, so that no text can be read or compared between owners:
1,000 chats, each for an hour since its last prompt, in the shared state where there is one, else in the
memory of the process. What follows from them is decided in `steady_paragraphs.py`. Source: spec
prompt-reuse.md 2.1.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

from Middleware.common.types import Message, Messages
from Middleware.services.shared_state.member import Member, this_process
from Middleware.services.shared_state.store import Note
from Middleware.services.steady_paragraphs import (
    ChatFront,
    SentLate,
    SystemParts,
    next_front,
    parts_of,
    system_paragraphs,
)

NEWEST = 8
"""So many messages of a chat's last prompt tell it from other chats."""
SEARCHED = 64
"""Among so many of a new prompt they are looked for: tools may have added more than a few since."""


@dataclass(frozen=True, slots=True)
class ChatOwner:
    """Whose chats they are. `key_hash`: of the client's API key, None without one."""

    user: str
    key_hash: str | None = None


class ChatFronts:
    """Safe from any thread. `member`: through which other processes know of the chats, too."""

    def __init__(self, member: Callable[[], Member] = this_process) -> None:
        self._member = member

    def parts(
        self, owner: ChatOwner, discussion_id: str | None, messages: Messages, *, everywhere: bool
    ) -> SystemParts:
        """The two parts of a prompt's system text, which is the newest of its chat from now on.

        `everywhere`: all system messages count, else only those at the front. A prompt without any changes
        nothing: it may be a front end's own question about the chat. Asked once a request.
        """
        digests = _Digests(owner)
        paragraphs = {
            digests.of(b"paragraph", text): text
            for text in system_paragraphs(messages, everywhere=everywhere)
        }
        if not paragraphs:
            return SystemParts("", "")
        shelf = f"front {'all' if everywhere else 'leading'} {digests.of(b'owner', '')}"
        newest = list(_newest(messages, digests))
        if discussion_id:
            key, before = self._by_id(shelf, digests.of(b"id", discussion_id), newest)
        else:
            key, before = self._by_messages(shelf, newest, paragraphs)
        characters = sum(len(message["content"]) for message in messages)
        front = next_front(before, paragraphs, characters)
        marks = tuple(dict.fromkeys(newest[:NEWEST]))
        self._member().keep_note(shelf, Note(key, _pack(front, marks), marks))
        return parts_of(front, paragraphs)

    def _by_id(self, shelf: str, key: str, newest: list[str]) -> tuple[str, ChatFront | None]:
        """The chat of a prompt, and how it stood; None: it begins, or none of its messages is left."""
        value = self._member().find_note(shelf, key)
        if value is None:
            return key, None
        front, marks = _unpack(value)
        return key, None if marks.isdisjoint(newest) else front

    def _by_messages(
        self, shelf: str, newest: list[str], paragraphs: Collection[str]
    ) -> tuple[str, ChatFront | None]:
        """As `_by_id`, for a prompt whose chat only its messages tell.

        Few of them may be those of another chat that was opened with the same words: its system text must
        then be there, too.
        """
        found = self._member().nearest_note(shelf, list(dict.fromkeys(newest)))
        if found is not None:
            key, (front, marks) = found[0], _unpack(found[1])
            if _are_many(len(marks.intersection(newest)), len(marks)) or _stands(front, paragraphs):
                return key, front
        return uuid.uuid4().hex, None


def _are_many(shared: int, marks: int) -> bool:
    """Whether so many of a chat's last messages tell it beyond doubt."""
    return shared > 1 and shared * 2 >= marks


def _stands(front: ChatFront, paragraphs: Collection[str]) -> bool:
    """Whether all that stood in front is still sent."""
    return bool(front.steady) and all(digest in paragraphs for digest in front.steady)


class _Digests:
    """Digests of one owner: 16 hex digits."""

    def __init__(self, owner: ChatOwner) -> None:
        name = json.dumps([owner.user, owner.key_hash])
        self._key = hashlib.sha256(name.encode()).digest()

    def of(self, kind: bytes, text: str) -> str:
        """`kind`: of what; equal texts of two kinds have different digests."""
        data = text.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(data, digest_size=8, key=self._key, person=kind).hexdigest()


def _newest(messages: Messages, digests: _Digests) -> Iterator[str]:
    """Digests of the newest messages that say something, the newest first. System text tells no chat from
    another one with the same character.
    """
    said = (message for message in reversed(messages) if _says_something(message))
    for _, message in zip(range(SEARCHED), said, strict=False):
        yield digests.of(b"message", f"{message['role']}\0{message['content']}")


def _says_something(message: Message) -> bool:
    return message["role"] != "system" and bool(message["content"].strip())


def _pack(front: ChatFront, newest: Iterable[str]) -> str:
    return json.dumps([list(front.steady), front.late, list(newest)])


def _unpack(value: str) -> tuple[ChatFront, frozenset[str]]:
    """The front, and the digests of its newest messages."""
    steady, late, newest = json.loads(value)
    front = ChatFront(tuple(steady), {digest: SentLate(*sent) for digest, sent in late.items()})
    return front, frozenset(newest)
