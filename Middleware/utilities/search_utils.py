"""Words and phrases to search for, and how pieces of text and lists of results are put in order. Pure.

Source: spec memory.md 8.3, 8.5, 9.5, 11.1, 18.2 (17, 19), 18.5.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

from Middleware.utilities.unspaced_scripts import UNSPACED, UNSPACED_RUN, WORD, is_unspaced

MOST_PHRASES = 60
MOST_ROWS = 1000
_RRF = 60
_NEAR = 5
_LABEL = re.compile(rf"([\w{UNSPACED}]+):")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_BLANKS = re.compile(r"[\t-\r\x1c-\x1f\x85]")
"""Control characters that stand between words."""
_KEYWORD = re.compile(rf"[\w{UNSPACED}]+:|[\w{UNSPACED}]+|[()]")
_SPACED = re.compile(rf"[^{UNSPACED}]+")
_ROLE = re.compile("User: |USER: |Assistant: |ASSISTANT: |systemMes: |SYSTEMMES: ")


# --- phrases of a keyword query ---


def phrases(text: str) -> list[str]:
    """What a `;`-separated text asks for, trimmed; the same piece twice stays twice."""
    return [piece for piece in map(str.strip, text.split(";")) if piece]


@dataclass(frozen=True, slots=True)
class Terms:
    """What a query looks for. `phrases`: of whole words; `parts`: of writing without blanks, anywhere in a
    text.
    """

    phrases: tuple[str, ...]
    parts: tuple[str, ...]

    @classmethod
    def of(cls, pieces: Iterable[str]) -> Terms:
        """The pieces, cut where the script changes; at most 60 of each kind."""
        phrases: list[str] = []
        parts: list[str] = []
        for piece in pieces:
            found = UNSPACED_RUN.findall(piece)
            parts += found
            phrases += _SPACED.findall(piece) if found else [piece]
        readable = [phrase for phrase in phrases if _phrase(phrase)]
        return cls(tuple(readable[:MOST_PHRASES]), tuple(parts[:MOST_PHRASES]))


def fts_query(pieces: Iterable[str]) -> str:
    """The pieces as FTS5 phrases joined by OR; nothing in them can be an operator. `""`: none is left.

    A piece without a letter or digit is left out.
    """
    quoted = [f'"{text}"' for piece in pieces if (text := _phrase(piece))]
    return " OR ".join(quoted)


def _phrase(piece: str) -> str:
    text = _CONTROL.sub("", _BLANKS.sub(" ", piece)).replace("-", " ").strip()
    return text.replace('"', '""') if any(map(str.isalnum, text)) else ""


def row_limit(limit: int) -> int:
    """How many rows a limit means: 0 is none, negative or above 1000 is 1000."""
    return MOST_ROWS if limit < 0 else min(limit, MOST_ROWS)


def recency(date: str, now: datetime) -> float:
    """Factor for the rank of a memory: 2.5 for a new one, falling to 1.0; 1.0 for a date that cannot be
    read.
    """
    try:
        moment = datetime.fromisoformat(date)
    except (TypeError, ValueError):
        return 1.0
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    days = max(0.0, (now - moment).total_seconds() / 86400)
    return 1 + 1.5 * math.exp(-0.01 * days)


def fuse_rankings(*lists: Sequence[int]) -> list[int]:
    """Ids of several rankings as one: the sum of 1 / (60 + rank); of equal ones the first seen comes
    first.
    """
    scores: dict[int, float] = {}
    for ranking in lists:
        for rank, each in enumerate(ranking, 1):
            scores[each] = scores.get(each, 0.0) + 1 / (_RRF + rank)
    return sorted(scores, key=lambda each: -scores[each])


# --- pieces of a conversation ---


def tokens(text: str) -> list[str]:
    """Runs of word characters, in lower case; where the script changes a new one begins."""
    return WORD.findall(text.lower())


def without_roles(text: str) -> str:
    """The text without role prefixes, wherever they stand."""
    return _ROLE.sub("", text)


def filtered_keywords(keywords: str, recent: Iterable[str]) -> str:
    """Words, AND, OR and parentheses of a keyword text, without labels and the names of who speaks in
    `recent`.
    """
    speakers = {name.lower() for text in recent for name in _LABEL.findall(text)}
    kept = [
        part for part in _KEYWORD.findall(keywords) if not part.endswith(":") and part.lower() not in speakers
    ]
    text = " ".join(kept)
    while (tidied := re.sub(r"\(\s*\)", " ", text)) != text:
        text = tidied
    return re.sub(r"\s+", " ", text).strip()


def best_pieces(query: str, pieces: Sequence[str], limit: int) -> list[str]:
    """The pieces that share most words with the query, best first; of equal ones in their own order.

    A word that a piece only has as a label (`word:`) does not bring it up. Words near each other count more.
    """
    asked = tokens(query)
    wanted = _Wanted(asked)
    scored = []
    for place, piece in enumerate(pieces):
        hits = wanted.hits(tokens(piece))
        labels = {word for label in _LABEL.findall(piece) for word in tokens(label)}
        if any(word not in labels for _, word in hits):
            scored.append((-_score(asked, hits), place))
    return [pieces[place] for _, place in sorted(scored)[:limit]]


class _Wanted:
    """The words of a query: whole ones, and those of writing without blanks, which may be inside a run."""

    def __init__(self, words: Iterable[str]) -> None:
        self._words = frozenset(words)
        self._parts = tuple(word for word in dict.fromkeys(words) if is_unspaced(word))

    def hits(self, words: Iterable[str]) -> list[tuple[int, str]]:
        """Where they are among the words of a text. A character of writing without blanks is one place."""
        found: list[tuple[int, str]] = []
        place = 0
        for word in words:
            if not is_unspaced(word):
                if word in self._words:
                    found.append((place, word))
                place += 1
                continue
            for part in self._parts:
                found += [(place + at, part) for at in _places_of(part, word)]
            place += len(word)
        return sorted(found)


def _places_of(part: str, text: str) -> Iterator[int]:
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + 1)


def _score(query: Sequence[str], hits: Sequence[tuple[int, str]]) -> int:
    counts = Counter(word for _, word in hits)
    return sum(counts[word] for word in query) + _near_pairs(hits)


def _near_pairs(hits: Sequence[tuple[int, str]]) -> int:
    """Pairs of places of two different wanted words at most five words apart."""
    pairs = 0
    for index, (place, word) in enumerate(hits):
        for later, other in islice(hits, index + 1, None):
            if later - place > _NEAR:
                break
            pairs += other != word
    return pairs


def pieces_sharing_a_word(query: str, pieces: Iterable[str], limit: int) -> list[str]:
    """The first `limit` pieces that hold at least one word of the query, in their order."""
    wanted = _Wanted(tokens(query))
    found = (piece for piece in pieces if wanted.hits(tokens(piece)))
    return list(islice(found, limit))
