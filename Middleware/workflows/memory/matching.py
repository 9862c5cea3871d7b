"""How far the messages of a history are remembered already. Pure. Source: spec memory.md 4.5, 18.2 (18, 26).

A history is rarely just the known messages and new ones behind them: messages are edited, deleted, said
again, left out by a front end that sends the newest only; there are branches, and requests that come late.
What is known is the row of messages that memories cover, in the order in which they were remembered. The
furthest message of the history that is one of them is what is looked for.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from Middleware.common.types import Message, Messages
from Middleware.services.file_memories import BEFORE, End, before_of
from Middleware.utilities.hashing_utils import message_hash, shown_hash


class _Known(NamedTuple):
    """One message that is covered. `follows`: it stood directly behind the one that was remembered before it,
    or at least nothing else is known; else some stood between, of which nothing is known, and `before` may
    tell its place. `previous`: hash of the message that it stood behind ("": none, or not known).
    """

    hash: str
    follows: bool
    before: str = ""
    previous: str = ""


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
            behind = zip(end.previous, end.messages, strict=True)
            yield from (_Known(each, follows=True, previous=previous) for previous, each in behind)
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

    What both begin with is easy. Behind that, messages whose text stands only once, beside one that is known,
    tell the places: the longest row of them in the same order counts, for a text may be said again long after
    the first one has left the history. From its last message on both are compared one by one.
    """
    begin = 0
    while begin < min(len(hashes), len(known)) and _fits(hashes, begin, known[begin]):
        begin += 1
    if begin in (len(hashes), len(known)):
        return begin
    once = _once(hashes, begin)
    index, place = _last_in_order(_certain(hashes, known, once, begin), begin - 1)
    often = Counter(item.hash for item in known)
    single = {each: at for each, at in once.items() if often[each] == 1}
    return _extended(hashes, known, single, index, place)


def _once(hashes: Sequence[str], begin: int) -> dict[str, int]:
    """Places, from `begin` on, of the messages whose text stands only once in the history."""
    often = Counter(hashes)
    return {each: index for index, each in enumerate(hashes) if index >= begin and often[each] == 1}


def _fits(hashes: Sequence[str], index: int, item: _Known) -> bool:
    return hashes[index] == item.hash and (not item.before or before_of(hashes, index) == item.before)


def _certain(
    hashes: Sequence[str], known: Sequence[_Known], once: Mapping[str, int], begin: int
) -> Iterator[tuple[int, int]]:
    """Messages, and which of the known ones they are."""
    for place in range(begin, len(known)):
        item = known[place]
        index = once.get(item.hash)
        if item.follows and index and not _has_neighbour(hashes, index, known, place):
            index = None
        if item.before and index is None:
            fitting = [at for at in range(begin, len(hashes)) if _fits(hashes, at, item)]
            index = fitting[0] if len(fitting) == 1 else None
        if index is not None:
            yield index, place


def _has_neighbour(hashes: Sequence[str], index: int, known: Sequence[_Known], place: int) -> bool:
    """Claims that the message before or behind it is the same on both sides."""
    if hashes[index - 1] == known[place].previous:
        return True
    rest = zip(hashes[index + 1 : index + 2], known[place + 1 : place + 2], strict=False)
    return any(each == item.hash and item.previous == hashes[index] for each, item in rest)


def _last_in_order(pairs: Iterable[tuple[int, int]], nowhere: int) -> tuple[int, int]:
    """Where the longest row of pairs that rise on both sides ends (none: `nowhere` on both).

    Of rows of one length the one that ends first: it loses no message.
    """
    ends: list[int] = []
    last = nowhere, nowhere
    for index, place in sorted(pairs, key=lambda pair: (pair[0], -pair[1])):  # so one message counts once
        length = bisect_left(ends, place)
        if length == len(ends):
            ends.append(place)
            last = index, place
        else:
            ends[length] = place
    return last


def _extended(
    hashes: Sequence[str], known: Sequence[_Known], single: Mapping[str, int], index: int, place: int
) -> int:
    """Index behind the last message that follows `index` as it follows `place` among the known ones.

    Behind one that differs (it was edited) two in a row must agree, or a `single` text, which stands once on
    both sides, at its place or at the next one (what was between is deleted). Where it is not known how many
    messages stood between, the first one with the text counts.
    """
    behind, agreed = index + 1, True
    for at, item in enumerate(known[place + 1 :], place + 1):
        if item.follows and at - place > BEFORE:
            continue
        here = index + at - place if item.follows else _first_fitting(hashes, behind, item)
        agrees = here < len(hashes) and hashes[here] == item.hash
        if item.follows and not (agrees and agreed):
            alone = single.get(item.hash, -1)
            agreed, agrees = agrees, alone in (behind, here)
            here = alone
        if agrees:
            index, place, behind, agreed = here, at, here + 1, True
    return behind


def _first_fitting(hashes: Sequence[str], start: int, item: _Known) -> int:
    """The first place from `start` on; behind the last one, if there is none."""
    places = [at for at in range(start, len(hashes)) if hashes[at] == item.hash]
    return next((at for at in places if _fits(hashes, at, item)), places[0] if places else len(hashes))
