"""The paragraphs of a client's system text: which stand in front of its chat, and which came later. Pure.

A client that exchanges parts of its system message from turn to turn (a lorebook, the cards of a group) would
have its model server read everything behind them again. Knows no chat and keeps nothing: `chat_fronts.py`
does. Source: spec prompt-reuse.md 2.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from Middleware.common.types import Messages
from Middleware.utilities.prompt_extraction_utils import leading_system_messages

RIPE_AFTER = 8
"""A changed paragraph may come to the front when each of so many prompts, up to now, held it."""


class SystemParts(NamedTuple):
    """The client's system text, each of its paragraphs in one of the two, an empty line between them."""

    steady: str
    changed: str


class SentLate(NamedTuple):
    """A changed paragraph since it came: how many prompts held it, and its characters in all of them."""

    prompts: int = 0
    characters: int = 0


@dataclass(frozen=True, slots=True)
class ChatFront:
    """The system text of a chat's last prompt, by digests: `steady` in the order in which they stand."""

    steady: tuple[str, ...] = ()
    late: Mapping[str, SentLate] = field(default_factory=dict)


def system_paragraphs(messages: Messages, *, everywhere: bool) -> Iterator[str]:
    """The paragraphs of the leading, or of all, system messages; each message is cut by itself."""
    chosen = messages if everywhere else leading_system_messages(messages)
    for message in chosen:
        if message["role"] == "system":
            yield from cut_paragraphs(message["content"])


def cut_paragraphs(text: str) -> Iterator[str]:
    """What stands between lines that hold nothing but blanks; its own lines as they are."""
    lines: list[str] = []
    for line in text.split("\n"):
        if line and not line.isspace():
            lines.append(line)
        elif lines:
            yield _joined(lines)
            lines = []
    if lines:
        yield _joined(lines)


def _joined(lines: list[str]) -> str:
    return "\n".join(lines).removesuffix("\r")


def next_front(before: ChatFront | None, paragraphs: Mapping[str, str], prompt_characters: int) -> ChatFront:
    """The front of this prompt. `before`: of the chat's last one, None: this is the first. `paragraphs`:
    digest -> text, in the client's order. `prompt_characters`: of all that the client sent.
    """
    if before is None:
        return ChatFront(tuple(paragraphs))
    steady = tuple(digest for digest in before.steady if digest in paragraphs)
    late = {
        digest: _sent_again(before.late.get(digest, SentLate()), text)
        for digest, text in paragraphs.items()
        if digest not in steady
    }
    ripe = {digest for digest, sent in late.items() if sent.prompts >= RIPE_AFTER}
    if sum(late[digest].characters for digest in ripe) <= prompt_characters:
        return ChatFront(steady, late)
    front = ripe.union(steady)
    return ChatFront(
        tuple(digest for digest in paragraphs if digest in front),
        {digest: sent for digest, sent in late.items() if digest not in ripe},
    )


def _sent_again(before: SentLate, text: str) -> SentLate:
    return SentLate(before.prompts + 1, before.characters + len(text))


def parts_of(front: ChatFront, paragraphs: Mapping[str, str]) -> SystemParts:
    """The text of a prompt's paragraphs (`next_front`): the steady ones in their order, the others in the
    client's.
    """
    return SystemParts(
        "\n\n".join(paragraphs[digest] for digest in front.steady),
        "\n\n".join(text for digest, text in paragraphs.items() if digest in front.late),
    )


def first_parts(messages: Messages, *, everywhere: bool) -> SystemParts:
    """As in the first turn of a chat: all is steady."""
    paragraphs = dict.fromkeys(system_paragraphs(messages, everywhere=everywhere))
    return SystemParts("\n\n".join(paragraphs), "")
