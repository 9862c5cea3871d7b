"""Words and phrases to search for, and how pieces of text and lists of results are put in order. Pure.

Source: spec memory.md 8.3, 8.5, 9.5, 11.1, 18.2 (17), 18.5.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

MOST_PHRASES = 60
MOST_ROWS = 1000
_RRF = 60
_NEAR = 5
_WORD = re.compile(r"\w+")
_LABEL = re.compile(r"\b(\w+):")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_BLANKS = re.compile(r"[\t-\r\x1c-\x1f\x85]")
"""Control characters that stand between words."""
_KEYWORD = re.compile(r"\w+:|\w+|[()]")
_ROLE = re.compile("User: |USER: |Assistant: |ASSISTANT: |systemMes: |SYSTEMMES: ")


# --- phrases of a keyword query ---


def phrases(text: str) -> list[str]:
    """What a `;`-separated text asks for, trimmed; the same piece twice stays twice."""
    return [piece for piece in map(str.strip, text.split(";")) if piece]


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


def fused(*lists: Sequence[int]) -> list[int]:
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
    """Runs of word characters, in lower case."""
    return _WORD.findall(text.lower())


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
    wanted = list(dict.fromkeys(tokens(query)))
    scored = []
    for place, piece in enumerate(pieces):
        words = tokens(piece)
        labels = {label.lower() for label in _LABEL.findall(piece)}
        if any(word in wanted and word not in labels for word in words):
            scored.append((-_score(tokens(query), wanted, words), place))
    return [pieces[place] for _, place in sorted(scored)[:limit]]


def _score(query: Sequence[str], wanted: Sequence[str], words: Sequence[str]) -> int:
    counts = Counter(words)
    return sum(counts[word] for word in query) + _near_pairs(set(wanted), words)


def _near_pairs(wanted: set[str], words: Sequence[str]) -> int:
    """Pairs of places of two different wanted words at most five words apart."""
    places = [(place, word) for place, word in enumerate(words) if word in wanted]
    pairs = 0
    for index, (place, word) in enumerate(places):
        for later, other in places[index + 1 : index + 1 + _NEAR]:
            pairs += other != word and later - place <= _NEAR
    return pairs


def pieces_sharing_a_word(query: str, pieces: Iterable[str], limit: int) -> list[str]:
    """The first `limit` pieces that hold at least one word of the query, in their order."""
    wanted = set(tokens(query))
    found = (piece for piece in pieces if not wanted.isdisjoint(tokens(piece)))
    return [piece for piece, _ in zip(found, range(limit), strict=False)]
