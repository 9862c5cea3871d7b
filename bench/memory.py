"""What memories cost at scale: searches in 100,000 vector memories, what is new in a long chat.

    python bench/memory.py [--memories 100000] [--dimensions 768]

Makes its database in a temporary folder and prints one line a figure.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from array import array
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Middleware.services.discussion_store import ChunkList, DiscussionStore, Entry
from Middleware.utilities.hashing_utils import message_hash
from Middleware.workflows.memory.chunking import unprocessed
from Middleware.workflows.memory.vector_cache import vector_cache
from Middleware.workflows.memory.vector_search import MemoryQuery, VectorSearch
from Middleware.workflows.memory.vector_store import VectorDatabase, now_text

WORDS = [f"w{number}" for number in range(20_000)]
MODEL = "bench"


def fill(database: VectorDatabase, count: int, dim: int) -> None:
    """Memories of 30 words and vectors of random numbers, in one transaction."""
    rng = random.Random(7)
    weights = [1 / (rank + 10) for rank in range(len(WORDS))]
    vectors = [array("f", [rng.gauss(0, 1) for _ in range(dim)]) for _ in range(200)]
    with database.writing() as connection:
        for each in range(1, count + 1):
            text = " ".join(rng.choices(WORDS, weights, k=30))
            metadata = json.dumps({"entities": rng.sample(WORDS, 2)})
            connection.execute(
                "INSERT INTO memories VALUES (?, 'd', ?, ?, ?)", (each, text, now_text(), metadata)
            )
            connection.execute(
                "INSERT INTO memories_fts (rowid, title, summary, entities, key_phrases, "
                "memory_text_unweighted)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (each, text[:30], text, "", text[-40:], text),
            )
            vector = array("f", vectors[each % 200])
            vector[each % dim] += each
            connection.execute(
                "INSERT INTO memory_embeddings VALUES (?, ?, ?, ?)",
                (each, MODEL, dim, vector.tobytes()),
            )


def timed(label: str, work: Callable[[], Any], rounds: int = 7) -> None:
    spent = []
    for _ in range(rounds):
        begun = time.perf_counter()
        work()
        spent.append((time.perf_counter() - begun) * 1000)
    print(f"{label:58} {median(spent):9.1f} ms  (best {min(spent):.1f})", flush=True)


def searches(store: DiscussionStore, dim: int) -> None:
    rng = random.Random(11)
    query = [rng.gauss(0, 1) for _ in range(dim)]
    search = VectorSearch(store, lambda text: (MODEL, query))
    common = [";".join(rng.sample(WORDS[200:2000], 60)) for _ in range(2)]
    three = ";".join(rng.sample(WORDS[200:2000], 3))
    timed("keyword, 3 terms, 5 results", lambda: search.find(MemoryQuery(three)))
    timed("keyword, 60 terms, 5 results", lambda: search.find(MemoryQuery(common[0])))
    timed("keyword, 60 terms, recency", lambda: search.find(MemoryQuery(common[1], recency=True)))
    timed("semantic, first (loads all vectors)", lambda: search.find(MemoryQuery("x", mode="semantic")), 1)
    timed("semantic, later", lambda: search.find(MemoryQuery("x", mode="semantic")))
    timed("hybrid, 3 terms, expansion", lambda: search.find(MemoryQuery(three, mode="hybrid", expand=True)))
    database = VectorDatabase(store)

    def add() -> None:
        database.save_vectors(MODEL, {rng.randrange(10**6, 10**9): query})
        search.find(MemoryQuery("x", mode="semantic"))

    timed("semantic, after a vector was added (write included)", add)
    timed("backfill candidates", lambda: database.without_vector(MODEL, 20))


def chat(store: DiscussionStore, count: int) -> None:
    messages = [{"role": "user", "content": f"message {i} " + "word " * 60} for i in range(count)]
    done = {message_hash(message) for message in messages[: count // 2 : 10]}
    timed(f"what is new in a chat of {count} messages", lambda: unprocessed(messages, done, 3))
    memories = ChunkList(store, "memories.json")
    memories.replace(*[Entry("memory " * 120, message_hash({"content": str(i)})) for i in range(count // 10)])
    timed(f"memories.json of {count // 10} memories: read, unchanged", memories.load)

    def append() -> None:
        entries = memories.load()
        memories.append(
            Entry("memory " * 120, message_hash({"content": str(len(entries))})), after=entries[-1].hash
        )

    timed(f"memories.json of {count // 10} memories: one more", append)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memories", type=int, default=100_000)
    parser.add_argument("--dimensions", type=int, default=768)
    arguments = parser.parse_args()
    count, dim = arguments.memories, arguments.dimensions
    with tempfile.TemporaryDirectory() as folder:
        store = DiscussionStore(Path(folder), "d")
        begun = time.perf_counter()
        fill(VectorDatabase(store), count, dim)
        print(f"{count} memories, {dim} dimensions, made in {time.perf_counter() - begun:.0f} s", flush=True)
        searches(store, dim)
        chat(store, 10_000)
        vector_cache().close()


if __name__ == "__main__":
    main()
