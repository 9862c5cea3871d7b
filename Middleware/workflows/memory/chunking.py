"""How messages are cut into chunks. Pure. Source: spec memory.md 4.6, 5."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from Middleware.common.types import Message, Messages
from Middleware.services.file_memories import BEFORE, End, before_of
from Middleware.utilities.hashing_utils import message_hash, shown_hash
from Middleware.utilities.text_utils import stored_message_tokens

FILL = 0.8
"""A chunk takes messages up to this part of its size."""


def without_system(messages: Iterable[Message]) -> Messages:
    """The messages that memories are made of: no system messages."""
    return [message for message in messages if message.get("role") != "system"]


def content(message: Message) -> str:
    return message.get("content") or ""


def tokens_of(messages: Messages) -> int:
    """Estimated tokens of the contents, as one text."""
    return stored_message_tokens(chunk_text(messages))


def chunk_messages(
    messages: Messages, size: int, estimate: Callable[[str], int] = stored_message_tokens
) -> list[Messages]:
    """The messages in chunks of about `size` tokens, filled from the newest backwards, in their own order.

    A message is never cut; the oldest messages are a chunk, however few they are.
    """
    chunks: list[Messages] = []
    current: Messages = []
    filled = 0
    for message in reversed(messages):
        tokens = estimate(content(message))
        if current and filled + tokens > FILL * size:
            chunks.append(current[::-1])
            current, filled = [], 0
        current.append(message)
        filled += tokens
    if current:
        chunks.append(current[::-1])
    return chunks[::-1]


def chunk_text(messages: Messages) -> str:
    """Contents, one under the other, without roles."""
    return "\n".join(map(content, messages))


def chunk_hash(messages: Messages) -> str:
    """Hash of the last message."""
    return message_hash(messages[-1])


# --------------------------------------------------------------------------
# Which messages of a history lie in chunks that were processed before, and where the new ones begin.
# Pure.


Sequences = Sequence[Sequence[str | None]]
"""Hashes of messages that stood one behind the other; None: what stood there is unknown."""


@dataclass(frozen=True, slots=True)
class Processed:
    """What of a history is done.

    `start`: the place behind the chunk that reaches furthest in it; None: no chunk ends in it. `places`: of
    all messages that lie in any chunk. `beside`: for each of the other sequences, the places of its messages.
    """

    start: int | None
    places: frozenset[int]
    beside: tuple[tuple[int, ...], ...]

    def new(self, length: int) -> list[int]:
        """Places of the messages to be processed, of a history of so many."""
        return [place for place in range(self.start or 0, length) if place not in self.places]


def processed_chunks(history: Sequence[str], done: Sequences, others: Sequences = ()) -> Processed:
    """`done`: the chunks, in the order in which they were processed; each ends where it did. `others`: chunks
    of which no end counts, such as those that were tried again later.
    """
    known: list[str | None] = []
    ends = set()
    for chunk in done:
        known.extend(chunk)
        ends.add(len(known) - 1)
    border = len(known)
    spans = []
    for chunk in others:
        known.append(None)
        spans.append(range(len(known), len(known) + len(chunk)))
        known.extend(chunk)
    matched = _neighbours(history, known, _anchors(history, known, border))
    found = [place for place, at in matched.items() if at in ends]
    rest = _in_order(history, known[:border], matched)
    # without a neighbour to ask, a text that is said again ends a chunk at its place in order
    found += [place for place, at in rest.items() if at in ends and at and known[at - 1] is None]
    matched |= rest
    counts, texts = Counter(history), set(known)
    places = {place for place, each in enumerate(history) if counts[each] == 1 and each in texts}
    beside = tuple(tuple(sorted(place for place, at in matched.items() if at in span)) for span in spans)
    return Processed(max(found, default=-1) + 1 if found else None, frozenset(places | set(matched)), beside)


def _anchors(history: Sequence[str], known: Sequence[str | None], border: int) -> dict[int, int]:
    """Places in the history -> in what is known, of texts that each holds once. Those of the chunks (before
    `border`) follow one another in both: a word that comes back much later does not end an early chunk.
    """
    here, there = _unique_indexes(history), _unique_indexes(known)
    pairs = [(place, there[each]) for each, place in here.items() if each in there]
    inside = [pair for pair in sorted(pairs) if pair[1] < border]
    return dict([*_rising(inside), *(pair for pair in pairs if pair[1] >= border)])


def _unique_indexes(hashes: Iterable[str | None]) -> dict[str, int]:
    places: dict[str, int] = {}
    again = set()
    for place, each in enumerate(hashes):
        if each in places:
            again.add(each)
        elif each is not None:
            places[each] = place
    return {each: place for each, place in places.items() if each not in again}


def _rising(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The most pairs, of pairs in rising order of the first number, of which the second rises too."""
    tops: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for index, (_, value) in enumerate(pairs):
        length = bisect_left(tops, value)
        before.append(last[length - 1] if length else -1)
        tops[length : length + 1] = [value]
        last[length : length + 1] = [index]
    chain = []
    index = last[-1] if last else -1
    while index >= 0:
        chain.append(pairs[index])
        index = before[index]
    return chain[::-1]


def _neighbours(
    history: Sequence[str], known: Sequence[str | None], anchors: Mapping[int, int]
) -> dict[int, int]:
    """The anchors, and all that stands next to them, on both sides, in the history as in what is known."""
    matched = dict(anchors)
    for step in (1, -1):
        for place, at in [*anchors.items(), (-1, -1)]:  # both may begin alike
            while True:
                place, at = place + step, at + step
                if not (0 <= place < len(history) and 0 <= at < len(known)) or place in matched:
                    break
                if history[place] != known[at]:
                    break
                matched[place] = at
    return matched


def _in_order(
    history: Sequence[str], known: Sequence[str | None], matched: Mapping[int, int]
) -> dict[int, int]:
    """What lies behind all that was matched, each at the first fitting place behind the one before."""
    inside = [(at, place) for place, at in matched.items() if at < len(known)]
    at, place = max(inside, default=(-1, -1))
    waiting: dict[str, list[int]] = defaultdict(list)
    for later in range(len(known) - 1, at, -1):
        text = known[later]
        if text is not None:
            waiting[text].append(later)
    found = {}
    for later in range(place + 1, len(history)):
        fitting = waiting.get(history[later], [])
        while fitting and fitting[-1] <= at:
            fitting.pop()
        if fitting and later not in matched:
            at = fitting.pop()
            found[later] = at
    return found


# --------------------------------------------------------------------------
# How far the messages of a history are remembered already. Pure. Source: spec memory.md 4.5, 18.2 (18,
# 26).


class _Known(NamedTuple):
    """One message that is covered. `follows`: it stood directly behind the one that was remembered before it,
    or at least nothing else is known; else some stood between, of which nothing is known, and `before` may
    tell its place. `previous`: hash of the message that it stood behind ("": none, or not known).
    """

    hash: str
    follows: bool
    before: str = ""
    previous: str = ""


def unprocessed_range(messages: Messages, done: Sequence[End], lookback: int) -> tuple[int, int]:
    """Start and end of the messages that no entry covers yet; the newest `lookback` ones do not count."""
    end = max(0, len(messages) - lookback)
    if not done:
        return 0, end
    known = list(_known_messages(done))
    return min(end, furthest_known(_hashes(messages, {each.hash for each in known}), known)), end


def forgotten_places(hashes: Sequence[str], done: Sequence[End]) -> frozenset[int]:
    """Places, in a history with these hashes, of the messages of which nothing is to be remembered.

    Where the messages of an entry do not stand in a row any more, those whose text stands only once count.
    """
    once = _unique_places(hashes, 0)
    found: set[int] = set()
    start = 0
    for end in done:
        covered = end.covered_hashes
        if not end.messages and end.hash in hashes[start:]:  # all behind the entry before
            stop = hashes.index(end.hash, start) + 1
            found.update(range(start, stop) if end.forgotten else ())
            start = stop
            continue
        at = _run_at(hashes, covered, start)
        start = start if at is None else at + len(covered)
        for first, stop in end.forgotten:
            if at is not None:
                found.update(range(at + first, at + stop))
            else:
                found.update(once[each] for each in covered[first:stop] if each in once)
    return frozenset(found)


def _run_at(hashes: Sequence[str], run: Sequence[str], start: int) -> int | None:
    """Where messages with the hashes of `run` stand in a row, from `start` on; None: nowhere."""
    length, wanted = len(run), list(run)
    places = range(start, len(hashes) - length + 1) if length else ()
    return next((at for at in places if list(hashes[at : at + length]) == wanted), None)


def _known_messages(done: Sequence[End]) -> Iterator[_Known]:
    for end in done:
        if end.messages:
            behind = zip(end.previous, end.messages, strict=True)
            yield from (_Known(each, follows=True, previous=previous) for previous, each in behind)
        elif not end.copied:
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


def furthest_known(hashes: Sequence[str], known: Sequence[_Known]) -> int:
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
    once = _unique_places(hashes, begin)
    index, place = _last_in_order(_certain(hashes, known, once, begin), begin - 1)
    often = Counter(item.hash for item in known)
    single = {each: at for each, at in once.items() if often[each] == 1}
    return _extend_match(hashes, known, single, index, place)


def _unique_places(hashes: Sequence[str], begin: int) -> dict[str, int]:
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
    """Whether the message before or behind it is the same on both sides."""
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


def _extend_match(
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
