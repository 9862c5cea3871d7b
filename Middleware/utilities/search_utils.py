"""Words and phrases to search for, and how pieces of text and lists of results are put in order. Pure.

Source: spec memory.md 8.3, 8.5, 9.5, 11.1, 18.2 (17, 19), 18.5.
"""

from __future__ import annotations

import math
import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

from Middleware.utilities.text_utils import UNSPACED, UNSPACED_RUN, WORD, is_unspaced

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


# --------------------------------------------------------------------------
# Search in memories for what the full-text index cannot find: words inside a run of writing without
# blanks.


_COLUMNS = ("title", "summary", "entities", "key_phrases", "memory_text_unweighted")
_TEXT = " || ' ' || ".join(f"coalesce({column}, '')" for column in _COLUMNS)
_EVEN = (1.0,) * len(_COLUMNS)
_VOCABULARY = "CREATE VIRTUAL TABLE IF NOT EXISTS temp.words USING fts5vocab(main, memories_fts, instance)"
_BLOCKS = re.compile(r"(.)-(.)")
_WORD = re.compile(r"\w+")
_ASCII = re.compile(r"[a-z0-9]+")
_SATURATION = 1.2
_LEAST_WEIGHT = 1e-6
"""As FTS5 counts: `k1` of its bm25, and the weight of a term that most memories hold."""


def ranks(connection: sqlite3.Connection, terms: Terms, weights: Sequence[float] | None) -> dict[int, float]:
    """Id -> rank: bm25 but for the length of texts (negative, smaller is better). Raises `sqlite3.Error`."""
    wanted: Counter[_Term] = Counter(map(_Term.of_part, terms.parts))
    words = [_WORD.findall(phrase) for phrase in terms.phrases]
    if any(words) and _holds_unspaced(connection, words):
        wanted.update(_Term.glued_words(each) for each in words if each)
    if not wanted:
        return {}
    counts = _counts(connection, wanted, weights or _EVEN)
    memories = connection.execute("SELECT count(*) FROM memories").fetchone()[0]
    found: dict[int, float] = {}
    for term, rows in counts.items():
        rarity = math.log((memories - len(rows) + 0.5) / (len(rows) + 0.5)) if memories > len(rows) else 0.0
        weight = wanted[term] * max(rarity, _LEAST_WEIGHT) * (_SATURATION + 1)
        for each, count in rows.items():
            found[each] = found.get(each, 0.0) - weight * count / (count + _SATURATION)
    return found


class _Term:
    """`pattern` finds it in a text; `hint`: what every such text holds, "" when that cannot be said."""

    __slots__ = ("hint", "pattern")

    def __init__(self, pattern: str, hint: str) -> None:
        self.pattern, self.hint = re.compile(pattern, re.IGNORECASE), hint

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Term) and other.pattern == self.pattern

    def __hash__(self) -> int:
        return hash(self.pattern)

    @classmethod
    def of_part(cls, part: str) -> _Term:
        return cls(re.escape(part), part)

    @classmethod
    def glued_words(cls, words: Sequence[str]) -> _Term:
        """Words of other writing of which the first or the last touches writing without blanks. Those that
        do not are found by the index.
        """
        phrase = r"\W+".join(map(re.escape, words))
        before, after = rf"(?<![^\W{UNSPACED}])", rf"(?![^\W{UNSPACED}])"
        touching = rf"(?<=[{UNSPACED}]){phrase}{after}|{before}{phrase}(?=[{UNSPACED}])"
        runs = _ASCII.findall(" ".join(words).lower())
        return cls(touching, max(runs, key=len, default=""))


def _counts(
    connection: sqlite3.Connection, terms: Iterable[_Term], weights: Sequence[float]
) -> dict[_Term, dict[int, float]]:
    """Term -> memories that hold it -> how often, weighted by column."""
    hints = {term.hint for term in terms}
    condition = "1" if "" in hints else " OR ".join(["instr(text, ?)"] * len(hints))
    cursor = connection.execute(
        f"SELECT * FROM (SELECT rowid, {', '.join(_COLUMNS)}, lower({_TEXT}) AS text FROM memories_fts) "
        f"WHERE {condition}",
        () if "" in hints else tuple(hints),
    )
    counts: dict[_Term, dict[int, float]] = {term: {} for term in terms}
    for each, *columns, _ in cursor:
        texts = [str(column or "") for column in columns]
        for term, rows in counts.items():
            hits = [len(term.pattern.findall(text)) for text in texts]
            if any(hits):
                count = sum(weight * hit for weight, hit in zip(weights, hits, strict=True))
                rows[each] = max(count, 0.0)
    return counts


def _holds_unspaced(connection: sqlite3.Connection, phrases: Iterable[Sequence[str]]) -> bool:
    """Whether a word of the index begins with writing without blanks, or goes on with it behind one of these
    phrases. That is looked up in the sorted index, so it costs nothing where there is none.
    """
    connection.execute("PRAGMA temp_store = MEMORY")  # else the name of the table would need a file
    connection.execute(_VOCABULARY)
    spans = [(low, high + "\U0010ffff") for low, high in _BLOCKS.findall(UNSPACED)]
    for words in phrases:
        if words:
            spans.append((words[-1].lower() + "\u0e00", words[-1].lower() + "\U0010ffff"))
    statement = "SELECT 1 FROM temp.words WHERE term >= ? AND term <= ? LIMIT 1"
    return any(connection.execute(statement, span).fetchone() for span in spans)
