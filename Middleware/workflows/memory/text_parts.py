"""Search in memories for what the full-text index cannot find: words inside a run of writing without blanks.

The index takes such a run for one word. So the texts themselves are looked at: for terms of such writing
always, for others only where the database holds such writing at all ("gen" in a text that glues it to Han
characters). Source: spec memory.md 8.3, 18.2 (19).
"""

from __future__ import annotations

import math
import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence

from Middleware.utilities.search_utils import Terms
from Middleware.utilities.unspaced_scripts import UNSPACED

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
