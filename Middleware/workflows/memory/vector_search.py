"""Finds memories in a discussion's vector database: by words, by meaning, or both. Writes nothing, makes no
file.

What goes wrong is told in the log, and the search goes on with what it has. Source: spec memory.md 8.3 to
8.7, 9.4, 18.2 (19), operate.md 6.
"""

from __future__ import annotations

import json
import logging
import math
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from Middleware.common.errors import MiddlewareError
from Middleware.services.discussion_store import DiscussionStore
from Middleware.services.file_memories import MOST_PINS_FIRST
from Middleware.utilities import search_utils
from Middleware.utilities.file_utils import beside_the_loop
from Middleware.workflows.memory import vector_rows
from Middleware.workflows.memory.vector_cache import vector_cache
from Middleware.workflows.memory.vector_store import GROUP, VectorDatabase, connect_read_only, has_table

logger = logging.getLogger(__name__)

NOTHING_FOUND = "No relevant memories found in the vector database for the given keywords."
MODES = ("keyword", "semantic", "hybrid")
_COLUMNS = 5
_EXPANDED_ROWS = 10
_NEWEST_COUNTS = 2.5
"""The most that recency makes of a rank."""


@dataclass(frozen=True, slots=True)
class MemoryQuery:
    """What is asked for. `weights`: of title, summary, entities, key phrases, text; None: all equal."""

    input: str
    limit: int = 5
    weights: tuple[float, ...] | None = None
    recency: bool = False
    mode: str = "keyword"
    semantic: str | None = None
    expand: bool = False

    @property
    def meaning(self) -> str:
        """The text that is embedded."""
        return (self.input.replace(";", " ") if self.semantic is None else self.semantic).strip()


@dataclass(frozen=True, slots=True)
class Row:
    """One memory that was found."""

    id: int
    text: str
    date: str
    metadata: str | None


EmbedOne = Callable[[str], tuple[str, Sequence[float] | None]]
"""A text to the model's name and its vector (None: cancelled). Raises MiddlewareError, ValueError."""


class VectorSearch:
    """Searches in one database. `embed`: None when no embeddings endpoint is named. `now`: the clock, UTC."""

    def __init__(
        self,
        store: DiscussionStore,
        embed: EmbedOne | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._database = VectorDatabase(store)
        self._embed, self._now = embed, now

    def find(self, question: MemoryQuery) -> list[Row]:
        """The pinned rows, newest pin first, then those that were found, in order; at most `limit`, but never
        fewer than the pinned ones (eight at the most). None when there is no database of memories.
        """
        if not self._database.exists or not self._holds_memories():
            return []
        rows = self._by_mode(question)
        rows = self._expand_rows(question, rows) if question.expand and rows else rows
        limit = search_utils.row_limit(question.limit)
        if not limit or not (pinned := self._pinned()):
            return rows
        known = {row.id for row in pinned}
        others = [row for row in rows if row.id not in known]
        return [*pinned, *others[: max(0, limit - len(pinned))]]

    def _pinned(self) -> list[Row]:
        try:
            with readers().connection(self._database.path) as connection:
                ids = vector_rows.pinned_ids(connection)[:MOST_PINS_FIRST]
        except (sqlite3.Error, OSError) as error:
            logger.error("the pinned memories cannot be read: %s", error)
            return []
        return self._rows(ids)

    def _holds_memories(self) -> bool:
        """False for an empty database, and for one of something else (which is told of once)."""
        path = self._database.path
        try:
            with readers().connection(path) as connection:
                if has_table(connection, "memories"):
                    return True
                foreign = connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is not None
        except sqlite3.OperationalError as error:
            logger.error("the memories cannot be searched: %s", error)
            return False
        except (sqlite3.Error, OSError) as error:
            _tell_once(path, str(error))
            return False
        if foreign:
            _tell_once(path, "it is not a database of memories")
        return False

    def _by_mode(self, question: MemoryQuery) -> list[Row]:
        mode = question.mode.strip().lower()
        if mode not in MODES:
            logger.warning(
                "searchMode: found %r, allowed: %s; keyword is used instead", question.mode, ", ".join(MODES)
            )
            mode = "keyword"
        if mode != "keyword" and self._embed is None:
            logger.error("searchMode %s needs an embeddingEndpointName; keyword is used instead", mode)
            mode = "keyword"
        nearest = self._nearest(question) if mode != "keyword" else []
        if mode == "semantic" and nearest:
            return self._rows(nearest)
        found = self._keyword(question, search_utils.phrases(question.input))
        if not nearest or not found:
            return found or self._rows(nearest)
        known = {row.id: row for row in found}
        order = search_utils.fuse_rankings(list(known), nearest)[: search_utils.row_limit(question.limit)]
        known |= {row.id: row for row in self._rows([each for each in order if each not in known])}
        return [known[each] for each in order if each in known]

    def _nearest(self, question: MemoryQuery) -> list[int]:
        """Ids by meaning; none when that cannot be told."""
        text = question.meaning
        if not text or self._embed is None:
            return []
        try:
            model, vector = self._embed(text)
            if vector is None:
                return []
            limit = search_utils.row_limit(question.limit)
            found = [each for each, _ in vector_cache().nearest(self._database.path, model, vector, limit)]
        except (MiddlewareError, ValueError, sqlite3.Error, OSError) as error:
            logger.error("the search by meaning failed, so keywords are used: %s", error)
            return []
        return found

    def _keyword(self, question: MemoryQuery, pieces: Sequence[str]) -> list[Row]:
        if len(pieces) > search_utils.MOST_PHRASES:
            logger.warning(
                "there are %d phrases to search for; only the first %d are used",
                len(pieces),
                search_utils.MOST_PHRASES,
            )
        terms = search_utils.Terms.of(pieces[: search_utils.MOST_PHRASES])
        limit = search_utils.row_limit(question.limit)
        if not (terms.phrases or terms.parts) or not limit:
            return []
        now = self._now() if question.recency else None
        try:
            with readers().connection(self._database.path) as connection:
                return beside_the_loop(lambda: _matching(connection, terms, question.weights, limit, now))
        except (sqlite3.Error, OSError) as error:
            logger.error("the search by keywords failed: %s", error)
            return []

    def _rows(self, ids: Sequence[int]) -> list[Row]:
        """The memories with these ids, in their order; those that are gone are left out."""
        if not ids:
            return []
        try:
            with readers().connection(self._database.path) as connection:
                found = {row.id: row for row in _fetch_rows(connection, ids)}
        except (sqlite3.Error, OSError) as error:
            logger.error("the memories that were found cannot be read: %s", error)
            return []
        return [found[each] for each in ids if each in found]

    def _expand_rows(self, question: MemoryQuery, rows: list[Row]) -> list[Row]:
        """The rows, some of the last replaced by memories about the entities of the first."""
        limit = search_utils.row_limit(question.limit)
        entities = entities_of(rows[:_EXPANDED_ROWS], search_utils.phrases(question.input))
        known = {row.id for row in rows}
        novel = [row for row in self._keyword(question, entities) if row.id not in known]
        slots = min(max(1, limit // 3), len(novel), limit - 1)
        if slots < 1:
            return rows
        return [*rows[: limit - slots], *novel][:limit]


@lru_cache(maxsize=256)
def _tell_once(path: Path, fault: str) -> None:
    """The same at every search: said once is enough."""
    logger.warning("%s: nothing is found in it: %s", path, fault)


def entities_of(rows: Sequence[Row], asked: Sequence[str]) -> list[str]:
    """The entities of memories, each once, without those that were asked for; at most 60."""
    seen = {text.casefold() for text in asked}
    found: list[str] = []
    for row in rows:
        for entity in _entities(row.metadata):
            if entity and entity.casefold() not in seen:
                seen.add(entity.casefold())
                found.append(entity)
    return found[: search_utils.MOST_PHRASES]


def _entities(metadata: str | None) -> list[str]:
    try:
        value = json.loads(metadata or "{}")
    except (ValueError, RecursionError):
        return []
    entities = value.get("entities") if isinstance(value, dict) else None
    return [str(entity).strip() for entity in entities] if isinstance(entities, list) else []


def bm25_weights(value: Any) -> tuple[float, ...] | None:
    """Five numbers, or None (with a warning unless there is no value)."""
    if value is None:
        return None
    if isinstance(value, list) and len(value) == _COLUMNS and all(map(_is_number, value)):
        return tuple(map(float, value))
    logger.warning(
        "bm25Weights: found %r, allowed: a list of five numbers; all columns are weighted equally", value
    )
    return None


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def format_memories(rows: Sequence[Row], *, dates: bool) -> str:
    """The texts of memories for a prompt; the sentence that nothing was found for none."""
    texts = [f"[{row.date[:10]}] {row.text}" if dates and row.date else row.text for row in rows]
    return "\n\n---\n\n".join(texts) or NOTHING_FOUND


# --- the database ---


def _matching(
    connection: sqlite3.Connection,
    terms: search_utils.Terms,
    weights: Sequence[float] | None,
    limit: int,
    now: datetime | None,
) -> list[Row]:
    """The best rows for some terms. `now`: newer memories count more."""
    ranked = _ranked_ids(connection, search_utils.fts_query(terms.phrases), weights)
    if more := search_utils.ranks(connection, terms, weights):
        found = _together(connection, dict(ranked(None)), more, now)[:limit]
    elif now is None:
        found = [each for each, _ in ranked(limit)]
    else:
        found = _recent_first(connection, ranked(None), limit, now)
    rows = {row.id: row for row in _fetch_rows(connection, found)}
    return [rows[each] for each in found if each in rows]


def _ranked_ids(
    connection: sqlite3.Connection, query: str, weights: Sequence[float] | None
) -> Callable[[int | None], Iterator[tuple[int, float]]]:
    """Ids and ranks of an FTS query, best first; asked with a limit, or None for all."""
    rank = f"bm25({', '.join(f'{weight:.9f}' for weight in weights)})" if weights else "bm25()"
    matching = (
        "SELECT rowid, rank FROM memories_fts WHERE memories_fts MATCH ? AND rank MATCH ? ORDER BY rank"
    )

    def run(limit: int | None) -> Iterator[tuple[int, float]]:
        if not query:
            return iter(())
        if limit is None:
            return connection.execute(matching, (query, rank))
        return connection.execute(f"{matching} LIMIT ?", (query, rank, limit))

    return run


def _together(
    connection: sqlite3.Connection, ranks: dict[int, float], more: dict[int, float], now: datetime | None
) -> list[int]:
    """Ids by the sum of two ranks, times recency if `now` is given; of equal ones the older first."""
    for each, rank in more.items():
        ranks[each] = ranks.get(each, 0.0) + rank
    if now is not None:
        dates = {row.id: row.date for row in _fetch_rows(connection, list(ranks))}
        ranks = {each: rank * search_utils.recency(dates.get(each, ""), now) for each, rank in ranks.items()}
    return sorted(ranks, key=lambda each: (ranks[each], each))


def _recent_first(
    connection: sqlite3.Connection, ranked: Iterator[tuple[int, float]], limit: int, now: datetime
) -> list[int]:
    """Ids by rank times recency. Stops where no later row can come in any more, were it made this moment."""
    best: list[tuple[float, int, int]] = []
    for place, (each, rank) in enumerate(ranked):
        if len(best) == limit and rank * _NEWEST_COUNTS > best[-1][0]:
            break
        row = connection.execute("SELECT date_added FROM memories WHERE id = ?", (each,)).fetchone()
        if row is not None:
            best.append((rank * search_utils.recency(row[0], now), place, each))
            best.sort()
            del best[limit:]
    return [each for _, _, each in best]


def _fetch_rows(connection: sqlite3.Connection, ids: Sequence[int]) -> Iterator[Row]:
    for start in range(0, len(ids), GROUP):
        part = ids[start : start + GROUP]
        marks = ",".join("?" * len(part))
        rows = connection.execute(
            f"SELECT id, memory_text, date_added, metadata_json FROM memories WHERE id IN ({marks})",
            tuple(part),
        )
        yield from (Row(*row) for row in rows)


class Readers:
    """Open connections for reading, kept for the next search: a few for each of the databases used last."""

    def __init__(self, idle_each: int = 4, files: int = 32) -> None:
        self._idle_each, self._files = idle_each, files
        self._idle: dict[tuple[str, int], list[sqlite3.Connection]] = {}
        self._guard = threading.Lock()

    @contextmanager
    def connection(self, path: Path) -> Iterator[sqlite3.Connection]:
        """A connection of one's own. Raises `sqlite3.Error`, OSError when there is no such database."""
        key = (str(path), path.stat().st_ino)
        with self._guard:
            idle = self._idle.get(key)
            connection = idle.pop() if idle else None
        connection = connection or connect_read_only(path, any_thread=True)
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        self._give_back(key, connection)

    def _give_back(self, key: tuple[str, int], connection: sqlite3.Connection) -> None:
        dropped = []
        with self._guard:
            idle = self._idle.pop(key, [])
            idle.append(connection)
            self._idle[key] = idle
            dropped += idle[self._idle_each :]
            del idle[self._idle_each :]
            while len(self._idle) > self._files:
                dropped += self._idle.pop(next(iter(self._idle)))
        for each in dropped:
            each.close()

    def close(self) -> None:
        """Close what is idle."""
        with self._guard:
            dropped = [each for idle in self._idle.values() for each in idle]
            self._idle.clear()
        for each in dropped:
            each.close()


@cache
def readers() -> Readers:
    """The connections of this process."""
    return Readers()
