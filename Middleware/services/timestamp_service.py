"""When each message of a discussion was sent: kept in `timestamps.json`, written into messages, told in
words.

Functions on a `DiscussionStore` with the clock handed in; what must happen once per request is kept in
`RequestStamps`. Source: spec workflows.md 9, memory.md 12.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from Middleware.common.types import Message, Messages
from Middleware.services.discussion_store import DiscussionStore, DiskFaults, an_object
from Middleware.utilities.datetime_utils import age_text, format_stamp, parse_stamp
from Middleware.utilities.hashing_utils import (
    StampedMessage,
    message_hash,
    text_hash,
    unstamped_content,
    without_timestamp,
)

FILE = "timestamps.json"
PLACEHOLDER = "PLACEHOLDER_TIMESTAMP_HASH_0000"

Clock = Callable[[], datetime]

_EARLIEST = datetime(1900, 1, 1)
"""No message is older; a damaged file may say so."""
_SILENT_ROLES = ("system", "systemmes")


def generation_prompt(messages: Messages) -> str | None:
    """The stripped content of the last message if it only opens an answer: shorter than 100 characters, ends
    in `:`.
    """
    text = unstamped_content(messages[-1]).strip() if messages else ""
    return text if len(text) < 100 and text.endswith(":") else None


def _dated_messages(messages: Messages) -> Iterator[Message]:
    """The messages that have a time, newest first: no system messages, no generation prompt at the end."""
    end = len(messages) - (generation_prompt(messages) is not None)
    return (
        message
        for message in reversed(messages[:end])
        if str(message.get("role")).lower() not in _SILENT_ROLES
    )


def track(store: DiscussionStore, messages: Messages, *, bind_placeholder: bool, clock: Clock) -> None:
    """Give every message its time: a known one keeps it, unknown ones go back from now by one second each.

    `bind_placeholder`: the first tracking of a request gives the time of a begun answer to the newest
    assistant message.
    """
    now = clock()

    def change(stamps: dict[str, Any]) -> dict[str, Any] | None:
        before = dict(stamps)
        if bind_placeholder and PLACEHOLDER in stamps:
            begun = stamps.pop(PLACEHOLDER)
            answer = next((m for m in _dated_messages(messages) if m.get("role") == "assistant"), None)
            if answer is not None:
                stamps.setdefault(message_hash(answer), begun)
        anchor = now
        for message in _dated_messages(messages):
            stamp = stamps.setdefault(message_hash(message), format_stamp(anchor))
            anchor = max(parse_stamp(stamp) or anchor, _EARLIEST) - timedelta(seconds=1)
        return stamps if stamps != before else None

    _update(store, change)


def write_stamps(store: DiscussionStore, messages: Messages, *, relative: bool, clock: Clock) -> Messages:
    """A deep copy of the messages with their times in front: `<stamp> <content>`, or `[Sent 2 hours ago]
    <content>`.

    Starts from the unstamped content, so stamps of a calling node are written afresh; the copies remember it.
    """
    stamps, now = _load(store), clock()
    plain = [without_timestamp(copy.deepcopy(message)) for message in messages]
    dated = {id(message) for message in _dated_messages(plain)}
    return [_with_stamp(m, stamps, relative, now) if id(m) in dated else m for m in plain]


def _with_stamp(message: Message, stamps: dict[str, Any], relative: bool, now: datetime) -> Message:
    stamp = stamps.get(message_hash(message))
    if relative:
        moment = parse_stamp(stamp)
        stamp = f"[Sent {age_text(moment, now)} ago]" if moment else ""
    content = message.get("content") or ""
    if not isinstance(stamp, str) or not stamp or content.startswith(stamp):
        return message
    return StampedMessage(message, f"{stamp} {content}")


def save_placeholder(store: DiscussionStore, *, clock: Clock) -> None:
    """Remember that an answer begins now."""
    stamp = format_stamp(clock())
    _update(store, lambda stamps: {**stamps, PLACEHOLDER: stamp})


def resolve_placeholder(store: DiscussionStore, answer: str, *, clock: Clock) -> None:
    """Give the time of the begun answer (now, if none began) to its text; an empty answer only forgets it."""
    now = format_stamp(clock())

    def change(stamps: dict[str, Any]) -> dict[str, Any]:
        begun = stamps.pop(PLACEHOLDER, now)
        if answer:
            stamps[text_hash(answer)] = begun
        return stamps

    _update(store, change)


def time_context_summary(store: DiscussionStore, *, clock: Clock) -> str:
    """When the conversation began and when its newest message was sent, one bracketed line; `""` without
    data.
    """
    known = _load(store).items()
    moments = [moment for key, stamp in known if key != PLACEHOLDER and (moment := parse_stamp(stamp))]
    if not moments:
        return ""
    now, first, last = clock(), min(moments), max(moments)
    started = f"conversation started {age_text(first, now)} ago."
    if first == last:
        return f"[Time Context: The {started}]"
    return f"[Time Context: This {started} The most recent message was sent {age_text(last, now)} ago.]"


def _load(store: DiscussionStore) -> dict[str, Any]:
    stamps: dict[str, Any] = store.read_json(FILE, {}, an_object)
    return stamps


def _update(store: DiscussionStore, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> None:
    store.update_json(FILE, lambda stamps: change(dict(stamps)), {}, an_object)


@dataclass(slots=True)
class RequestStamps:
    """The timestamps of one request: made by its first run, handed to all nested ones.

    An old placeholder is bound once, an answer is begun once (by the outermost responder with the flag) and
    finished once (by the innermost one with the group flag). A disk that keeps or gives no times costs one
    line in the log, never the answer. Source: spec workflows.md 9.3, 9.4, memory.md 18.2 (27).
    """

    store: DiscussionStore
    clock: Clock = datetime.now
    _tracked: bool = False
    _begun: bool = False
    _finished: bool = False
    _disk: DiskFaults = field(default_factory=DiskFaults)

    def track(self, messages: Messages) -> None:
        """Before the first node of a run that has a node with the flag."""
        first, self._tracked = not self._tracked, True
        self._disk.try_work(
            lambda: track(self.store, messages, bind_placeholder=first, clock=self.clock),
            None,
            "the times of messages could not be saved",
        )

    def write(self, messages: Messages, *, relative: bool) -> Messages:
        """The messages that a node with the flag sees."""
        return self._disk.try_work(
            lambda: write_stamps(self.store, messages, relative=relative, clock=self.clock),
            messages,
            "the times of messages cannot be read",
        )

    def begin_answer(self) -> None:
        """Just before a responder with the flag."""
        if not self._begun:
            self._begun = True
            self._disk.try_work(
                lambda: save_placeholder(self.store, clock=self.clock),
                None,
                "the time of an answer could not be saved",
            )

    def finish_answer(self, answer: str) -> None:
        """Right after the answer of a responder with the flag and `useGroupChatTimestampLogic`; `answer` is
        cleaned.
        """
        if not self._finished:
            self._finished = True
            self._disk.try_work(
                lambda: resolve_placeholder(self.store, answer, clock=self.clock),
                None,
                "the time of an answer could not be saved",
            )

    def time_context_summary(self) -> str:
        return self._disk.try_work(
            lambda: time_context_summary(self.store, clock=self.clock),
            "",
            "the times of messages cannot be read",
        )
