"""Where a steady window begins: at a place in the text that stays the same for many turns. Pure.

Places are found in the text and not counted, so a client that drops its oldest messages, an edit or a swipe
leaves them where they are; no state is kept and every process finds the same. Nothing older than the range
in question is looked at, however long the conversation is. Source: spec prompt-reuse.md 1.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from Middleware.common.types import Message, Messages
from Middleware.utilities.hashing_utils import message_hash, unstamped_content

LEAST_COUNT = 3
"""A window of fewer messages moves as it does without a steady window."""
_ROLES = ("user", "assistant")
"""Whose messages a window may begin with; the second only where the range holds none of the first."""
_USUAL_SLACK = 3
"""So many times its number of messages a window may hold beyond them, where no number is set."""

Marks = Sequence[tuple[int, bytes]]
"""`(index, mark)` of candidates, oldest first."""


@dataclass(frozen=True, slots=True)
class SteadyWindow:
    """How the windows of one node stand.

    `slack`: how many messages a window of N may hold beyond N; None: 3 N. `summary_end`: the last message
    that the compactor's summary holds, behind which the window begins, as `<index>:<hash>` or by its hash
    alone; empty: there is none.
    `waits(count)`: whether the compactor keeps all but about the `count` newest messages as they are, so that
    nothing else holds what a window leaves out; asked where no such message is there.
    """

    slack: int | None = None
    summary_end: str = ""
    waits: Callable[[int], bool] | None = None

    def begin(self, messages: Messages, count: int, places: Sequence[int] | None = None) -> int:
        """Index at which the window of `count` messages begins; 0 where all fit. `places`: of the messages in
        the whole conversation, where they are not all of it.
        """
        places = range(len(messages)) if places is None else places
        behind = self._behind(messages, count, places) if len(messages) > count else None
        if behind is not None:
            return behind
        return begin_of_messages(messages, count, self._slack_of(count))

    def _behind(self, messages: Messages, count: int, places: Sequence[int]) -> int | None:
        """Index behind what the summary holds; None: that leaves fewer than `count` messages, or it cannot be
        told.

        Of several messages with the same text it is the one that is nearest to the place of the summary's
        end, the newest where no place is known.
        """
        place, _, covered = self.summary_end.rpartition(":")
        if covered:
            end = int(place) if place.isdecimal() else places[-1]
            for index in sorted(range(len(messages) - count), key=lambda each: abs(places[each] - end)):
                if message_hash(messages[index]) == covered:
                    return index + 1
            if any(message_hash(message) == covered for message in messages[-count:]):
                return None
        return 0 if count and self.waits is not None and self.waits(count) else None

    def newest(self, newest: Iterable[Message], count: int) -> Messages:
        """The window of `count` messages, oldest first; `newest` walks backwards. Of a summary it knows
        nothing.
        """
        slack = self._slack_of(count)
        messages = [*islice(newest, needed_length(count, slack))]
        messages.reverse()
        return messages[begin_of_messages(messages, count, slack) :]

    def _slack_of(self, count: int) -> int:
        return _USUAL_SLACK * count if self.slack is None else self.slack


def message_mark(message: Message, behind: Message) -> bytes:
    """The mark of a message: 8 bytes of its content and that of the message behind it, without timestamps.

    The message behind belongs to it because people send the same words again ("continue").
    """
    text = f"{unstamped_content(message)}\0{unstamped_content(behind)}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8]


def landmarks(candidates: Marks, reach: int) -> list[int]:
    """Indexes, oldest first, of the candidates whose mark no other one within `reach` messages, before or
    behind, undercuts.

    Linear: the stack holds the candidates that none so far has undercut, each with the place of the nearest
    smaller mark before it.
    """
    found: list[int] = []
    rising: list[tuple[int, bytes, int | None]] = []

    def leave(until: int | None) -> None:
        index, _, smaller_before = rising.pop()
        apart_before = smaller_before is None or index - smaller_before > reach
        if apart_before and (until is None or until - index > reach):
            found.append(index)

    for index, mark in candidates:
        while rising and rising[-1][1] > mark:
            leave(index)
        before = None
        if rising:
            before = rising[-1][2] if rising[-1][1] == mark else rising[-1][0]
        rising.append((index, mark, before))
    while rising:
        leave(None)
    return sorted(found)


def needed_length(count: int, slack: int) -> int:
    """How many of the newest messages `begin_of_messages` looks at."""
    return count + slack + _reach(count, slack)


def begin_of_messages(messages: Messages, count: int, slack: int) -> int:
    """Index at which the window of `count` messages, and up to `slack` more, begins.

    At the newest landmark of that range; else at its candidate with the smallest mark; else `count` messages
    before the end. 0 where all fit. `messages` may be cut to the newest `needed_length`.
    """
    last = len(messages) - count
    if last <= 0:
        return 0
    if count < LEAST_COUNT:
        return last
    reach = _reach(count, slack)
    first = max(0, last - slack)
    marks = _marks(messages, range(first, last + 1), reach)
    standing = [index for index in landmarks(marks, reach) if first <= index <= last]
    if standing:
        return standing[-1]
    return _smallest([each for each in marks if first <= each[0] <= last], last)


def _reach(count: int, slack: int) -> int:
    """How far a landmark is compared. Less than `count - 1`, so that the newest message, which has no mark
    yet, is never asked.
    """
    return max(0, min(slack // 4, count - 2))


def begin_of_tokens(messages: Messages, sizes: Sequence[int], least: float, *, keep: int = 1) -> int:
    """Index at which a window of tokens begins that holds `messages`, the newest that fit, and no older ones;
    `sizes` are their tokens.

    At the candidate with the smallest mark among those that leave `least` tokens and `keep` messages; 0 where
    there is none.
    """
    last, spent = len(messages), 0
    while last and (spent < least or len(messages) - last < keep):
        last -= 1
        spent += sizes[last]
    if spent < least or len(messages) - last < keep:
        return 0
    return _smallest(_marks(messages, range(last + 1), 0), 0)


def newest_steady(
    newest: Iterable[Message],
    *,
    budget: float,
    minimum: int,
    cost: Callable[[Message], int],
    keep: int = 1,
) -> Messages:
    """As `newest_within` for a token `budget`, from the place on at which the window stands, oldest first.

    `newest` walks backwards; the first `minimum` are taken whatever they cost, and the window never begins
    behind them, nor with fewer than `keep`.
    """
    taken: Messages = []
    sizes: list[int] = []
    spent, whole = 0, True
    for message in newest:
        size = cost(message)
        spent += size
        if len(taken) >= minimum and spent > budget:
            whole = False
            break
        taken.append(message)
        sizes.append(size)
    taken.reverse()
    sizes.reverse()
    if whole:
        return taken
    return taken[begin_of_tokens(taken, sizes, budget / 2, keep=max(minimum, keep)) :]


def _marks(messages: Messages, span: range, reach: int) -> Marks:
    """The candidates in `span` and within `reach` of it, all of the role that `span` holds; the newest
    message has no mark.
    """
    newest = len(messages) - 1
    held = {messages[index]["role"] for index in span if index < newest}
    role = next((role for role in _ROLES if role in held), None)
    around = range(max(0, span.start - reach), min(newest, span.stop + reach))
    return [
        (index, message_mark(messages[index], messages[index + 1]))
        for index in around
        if messages[index]["role"] == role
    ]


def _smallest(marks: Marks, default: int) -> int:
    """Index of the smallest mark, the newest of equal ones."""
    return min(marks, key=lambda each: (each[1], -each[0]), default=(default, b""))[0]
