"""How far the messages of a history are remembered already. Pure. Source: spec memory.md 4.5, 18.2 (18, 26).

A history is rarely just the known messages and new ones behind them: messages are edited, deleted, said
again, left out by a front end that sends the newest only; there are branches, and requests that come late.
What is known is the row of messages that memories cover, in the order in which they were remembered. The
furthest message of the history that is one of them is what is looked for.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from Middleware.common.types import Message, Messages
from Middleware.services.file_memories import End, before_of
from Middleware.utilities.hashing_utils import message_hash, shown_hash


@dataclass(frozen=True, slots=True)
class _Known:
    """One message that is covered. `follows`: it stood directly behind the one before; else some stood
    between, of which nothing is known, and `before` may tell its place.
    """

    hash: str
    follows: bool
    before: str = ""


def unprocessed(messages: Messages, done: Sequence[End], lookback: int) -> tuple[int, int]:
    """Start and end of the messages that no entry covers yet; the newest `lookback` ones do not count."""
    end = max(0, len(messages) - lookback)
    if not done:
        return 0, end
    known = list(_known(done))
    return min(end, reached(_hashes(messages, {each.hash for each in known}), known)), end


def _known(done: Sequence[End]) -> Iterator[_Known]:
    for end in done:
        if end.messages:
            yield from (_Known(each, follows=True) for each in end.messages)
        else:
            yield _Known(end.hash, follows=False, before=end.before)


def _hashes(messages: Messages, known: set[str]) -> list[str]:
    """Hash of each message; as it stands, timestamp included, where that is what was remembered."""
    return [_hash(message, known) for message in messages]


def _hash(message: Message, known: set[str]) -> str:
    plain = message_hash(message)
    if plain in known:
        return plain
    shown = shown_hash(message)
    return shown if shown in known else plain


def reached(hashes: Sequence[str], known: Sequence[_Known]) -> int:
    """Index behind the furthest message that is known.

    What both begin with is easy. Behind that, messages whose text stands only once tell the places: of those
    that are known the longest row in the same order counts, for a text may be said again long after the first
    one has left the history. From its last message on both are compared one by one.
    """
    begin = 0
    while begin < min(len(hashes), len(known)) and _fits(hashes, begin, known[begin]):
        begin += 1
    if begin in (len(hashes), len(known)):
        return begin
    return _extended(hashes, known, *_last_in_order(hashes, known, begin))


def _fits(hashes: Sequence[str], index: int, item: _Known) -> bool:
    return hashes[index] == item.hash and (not item.before or before_of(hashes, index) == item.before)


def _last_in_order(hashes: Sequence[str], known: Sequence[_Known], begin: int) -> tuple[int, int]:
    """Where the longest row of certain places, in the same order on both sides, ends: index of the message
    and of the known one. Of rows of one length the one that ends first: it loses no message.
    """
    ends: list[int] = []
    last = begin - 1, begin - 1
    for index, neg_place in sorted(_certain(hashes, known, begin)):
        place = -neg_place
        length = bisect_left(ends, place)
        if length == len(ends):
            ends.append(place)
            last = index, place
        else:
            ends[length] = place
    return last


def _certain(hashes: Sequence[str], known: Sequence[_Known], begin: int) -> Iterator[tuple[int, int]]:
    """Messages and the known ones that they are (negative, so that one message is used once in a row)."""
    often = Counter(hashes)
    where = {each: index for index, each in enumerate(hashes) if often[each] == 1}
    for place in range(begin, len(known)):
        item = known[place]
        index = where.get(item.hash)
        if index is None and item.before and often[item.hash]:
            fitting = [at for at in range(begin, len(hashes)) if _fits(hashes, at, item)]
            index = fitting[0] if len(fitting) == 1 else None
        if index is not None:
            yield index, -place


def _extended(hashes: Sequence[str], known: Sequence[_Known], index: int, place: int) -> int:
    """Index behind the last message that follows `index` as it follows `place` among the known ones.

    Behind one that differs (it was edited) two in a row must agree. Where it is not known how many messages
    stood between, the first message with the text counts.
    """
    behind, agreed = index + 1, True
    for item in known[place + 1 :]:
        if item.follows:
            index += 1
            agrees = index < len(hashes) and hashes[index] == item.hash
            if agrees and agreed:
                behind = max(behind, index + 1)
            agreed = agrees
        else:
            found = _first_fitting(hashes, behind, item)
            if found is not None:
                index, behind, agreed = found, found + 1, True
    return behind


def _first_fitting(hashes: Sequence[str], start: int, item: _Known) -> int | None:
    places = [at for at in range(start, len(hashes)) if hashes[at] == item.hash]
    return next((at for at in places if _fits(hashes, at, item)), places[0] if places else None)
