"""Which messages of a history lie in chunks that were processed before, and where the new ones begin. Pure.

A hash is a place only where its text occurs once; elsewhere the neighbours decide ("continue" is said more
than once). Nothing here asks a clock. Source: spec memory.md 4.6, 18.2 (9, 18, 24, 25).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

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
