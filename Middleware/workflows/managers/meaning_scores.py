"""How near a message is to the categories of a routing file, from the vectors of their examples. Pure.

The cosines of unrelated texts lie at 0.05 with one model and at 0.8 with another, so scores are told from
them: 0 is unrelated, 1 the same text. Source: spec agents.md 8.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from operator import mul
from typing import NamedTuple

from Middleware.common.types import Messages
from Middleware.config.workflows import ByMeaning

MOST_CHARS = 2000
"""So much of the end of what a user wrote is looked at."""
FEWEST_BYTES = 16
"""Less than this says too little by itself (`ok`, `go on`)."""
SAME_TEXTS = 0.98
"""Where the examples of different categories are this near to each other, nothing tells them apart."""
TOO_NEAR = 0.5
"""Two examples of different categories with a higher score than this spoil each other."""
_SLACK = 1e-9
"""What arithmetic may take from a score that is just enough."""

_USER_TAG = "User: "
"""What `chatCompleteAddUserAssistant` puts before each message of a user."""


def text_to_compare(messages: Messages, wanted: ByMeaning, *, has_tags: bool = False) -> str | None:
    """What is compared with the examples, without the prefix: the newest user messages, at most MOST_CHARS
    from their end. None: the newest one has no text, or all of them together say too little.

    `has_tags`: each user message begins with a tag that is no part of it.
    """
    said = [_own_text(str(m.get("content") or ""), has_tags) for m in messages if m.get("role") == "user"]
    if not said or not said[-1]:
        return None
    said = [text for text in said if text]
    first = max(0, len(said) - wanted.messages)
    text = "\n".join(said[first:])
    while len(text.encode("utf-8", "surrogatepass")) < FEWEST_BYTES:
        if not first:
            return None
        first -= 1
        text = f"{said[first]}\n{text}"
    return text[-MOST_CHARS:]


def _own_text(content: str, has_tag: bool) -> str:
    return (content.removeprefix(_USER_TAG) if has_tag else content).strip()


class Score(NamedTuple):
    """Of one category. `example`: the text that was nearest."""

    category: str
    score: float
    example: str


@dataclass(frozen=True, slots=True)
class Scores:
    """Of all categories, the best first; of equal ones the first in the file. `baseline`: the cosine of
    unrelated texts."""

    baseline: float
    ranked: tuple[Score, ...]

    def taken(self, wanted: ByMeaning) -> str | None:
        """The category that the message surely belongs to; None: it isn't clear."""
        best, second = self.ranked[:2]
        is_near = best.score >= wanted.threshold - _SLACK
        return best.category if is_near and best.score - second.score >= wanted.margin - _SLACK else None

    def __str__(self) -> str:
        best, second = self.ranked[:2]
        return f"by meaning: {best.category} {best.score:.2f}, next {second.category} {second.score:.2f}"


class NearPair(NamedTuple):
    """Two examples of different categories: (category, text) of each, and their score."""

    one: tuple[str, str]
    other: tuple[str, str]
    score: float


@dataclass(frozen=True, slots=True)
class Examples:
    """The categories of a file that have texts, and the vectors of those, each of length one (or zero).

    At least two categories, or `baseline` is 1.0: the mean cosine of all pairs of different categories.
    """

    categories: tuple[str, ...]
    texts: tuple[tuple[str, ...], ...]
    vectors: tuple[tuple[array[float], ...], ...]
    baseline: float

    @classmethod
    def of(cls, known: Sequence[tuple[str, Sequence[tuple[str, Sequence[float]]]]]) -> Examples:
        """`known`: category and its (text, vector) pairs, in the order of the file. Vectors of one length."""
        vectors = tuple(tuple(_unit(vector) for _, vector in pairs) for _, pairs in known)
        return cls(
            tuple(category for category, _ in known),
            tuple(tuple(text for text, _ in pairs) for _, pairs in known),
            vectors,
            _baseline(vectors),
        )

    @property
    def tell_apart(self) -> bool:
        """Whether the categories differ at all."""
        return self.baseline < SAME_TEXTS

    @property
    def dimension(self) -> int:
        return len(self.vectors[0][0])

    def scores(self, vector: Sequence[float]) -> Scores:
        """Of a message with this vector, which must have the same dimension. Only where they `tell_apart`."""
        direction = _unit(vector)
        found = [
            max(
                (Score(name, self._scaled(_dot(direction, own)), text) for text, own in pairs),
                key=lambda score: score.score,
            )
            for name, pairs in self._by_category()
        ]
        return Scores(self.baseline, tuple(sorted(found, key=lambda score: -score.score)))

    def near_pairs(self) -> list[NearPair]:
        """The pairs that spoil each other, the nearest first."""
        everything = [(name, text, own) for name, pairs in self._by_category() for text, own in pairs]
        found = (
            NearPair((name, text), (other_name, other_text), self._scaled(_dot(own, other)))
            for (name, text, own), (other_name, other_text, other) in combinations(everything, 2)
            if name != other_name
        )
        return sorted((pair for pair in found if pair.score > TOO_NEAR), key=lambda pair: -pair.score)

    def _by_category(self) -> Iterator[tuple[str, list[tuple[str, array[float]]]]]:
        for name, texts, vectors in zip(self.categories, self.texts, self.vectors, strict=True):
            yield name, list(zip(texts, vectors, strict=True))

    def _scaled(self, cosine: float) -> float:
        return (cosine - self.baseline) / (1 - self.baseline)


def _unit(vector: Sequence[float]) -> array[float]:
    length = math.sqrt(math.fsum(x * x for x in vector)) or 1.0
    return array("d", (x / length for x in vector))


def _dot(one: Sequence[float], other: Sequence[float]) -> float:
    total: float = sum(map(mul, one, other))
    return total


def _baseline(groups: Sequence[Sequence[array[float]]]) -> float:
    """The mean cosine of all pairs of different groups; 1.0 without such a pair.

    The pairs of two groups together are the product of the groups' sums, so this takes one look at each
    vector, not one at each pair.
    """
    total, pairs, before, count = 0.0, 0, None, 0
    for group in groups:
        own = array("d", map(math.fsum, zip(*group, strict=True)))
        if before is None:
            before = own
        else:
            total += _dot(before, own)
            pairs += count * len(group)
            before = array("d", (x + y for x, y in zip(before, own, strict=True)))
        count += len(group)
    return total / pairs if pairs else 1.0
