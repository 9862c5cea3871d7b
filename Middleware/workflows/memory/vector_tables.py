"""The tables of a discussion's vector database as they are on disk: only made where they lack.

Source: spec memory.md 8.1, 18.2 (9, 10, 21, 23).
"""

from __future__ import annotations

DEFINITIONS = """
CREATE TABLE IF NOT EXISTS memories (id INTEGER PRIMARY KEY, discussion_id TEXT NOT NULL,
    memory_text TEXT NOT NULL, date_added TEXT NOT NULL, metadata_json TEXT);
CREATE VIRTUAL TABLE IF NOT EXISTS memories_fts USING fts5(title, summary, entities, key_phrases,
    memory_text_unweighted, tokenize='porter');
CREATE TABLE IF NOT EXISTS vector_memory_hash_log (id INTEGER PRIMARY KEY AUTOINCREMENT,
    discussion_id TEXT NOT NULL, message_hash TEXT NOT NULL, timestamp DATETIME NOT NULL);
CREATE TABLE IF NOT EXISTS memory_embeddings (memory_id INTEGER NOT NULL, model TEXT NOT NULL,
    dim INTEGER NOT NULL, vector BLOB NOT NULL, PRIMARY KEY (memory_id, model));
CREATE TABLE IF NOT EXISTS memory_chunks (chunk_hash TEXT NOT NULL, message_hash TEXT NOT NULL,
    ord INTEGER NOT NULL, PRIMARY KEY (chunk_hash, ord));
CREATE TABLE IF NOT EXISTS memory_failures (chunk_hash TEXT PRIMARY KEY, attempts INTEGER NOT NULL,
    last_error TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS memory_sources (memory_id INTEGER PRIMARY KEY, chunk_name TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS state_document_reach (memory_id INTEGER NOT NULL, refusals INTEGER NOT NULL
    DEFAULT 0, written_id INTEGER, written_hash TEXT);
CREATE INDEX IF NOT EXISTS ours_sources_chunk ON memory_sources (chunk_name);
CREATE INDEX IF NOT EXISTS ours_log_newest ON vector_memory_hash_log (discussion_id, timestamp DESC);
CREATE INDEX IF NOT EXISTS ours_memories_date ON memories (date_added);
"""
OUR_TABLES = {
    "memories",
    "memories_fts",
    "vector_memory_hash_log",
    "memory_embeddings",
    "memory_chunks",
    "memory_failures",
    "memory_sources",
    "state_document_reach",
}
