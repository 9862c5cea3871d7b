"""The shared corpus of cleaning: every line streamed as given, one character at a time, and whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from Middleware.cleaning import ResponseCleaner
from Middleware.utilities.streaming_utils import post_process_llm_output

LINES = [
    json.loads(line) for line in Path(__file__).with_name("cleaning.jsonl").read_text("utf-8").splitlines()
]
each_line = pytest.mark.parametrize("line", LINES, ids=[line["id"] for line in LINES])
each_with_thoughts = pytest.mark.parametrize(
    "line", [pytest.param(line, id=line["id"]) for line in LINES if "thoughts" in line]
)
each_with_releases = pytest.mark.parametrize(
    "line", [pytest.param(line, id=line["id"]) for line in LINES if "released" in line]
)


def chunks_of(line):
    return line["chunks"] if "chunks" in line else [line["text"]]


def cleaner_of(line):
    return ResponseCleaner(
        line["endpoint"],
        line["node"],
        user_config=line["user"],
        generation_prompt=line.get("generation_prompt"),
    )


def streamed(cleaner, chunks):
    return "".join([cleaner.feed(chunk) for chunk in chunks]) + cleaner.finish()


def test_the_corpus_is_whole():
    """A line that is lost would be a rule that nobody tests."""
    assert len(LINES) == len({line["id"] for line in LINES}) == 153
    assert {line["function"] for line in LINES} == {"clean"}


@each_line
def test_streamed_as_given(line):
    assert streamed(cleaner_of(line), chunks_of(line)) == line["expected"]


@each_line
def test_streamed_character_by_character(line):
    assert streamed(cleaner_of(line), "".join(chunks_of(line))) == line["expected"]


@each_line
def test_streamed_in_pairs_between_empty_chunks(line):
    text = "".join(chunks_of(line))
    chunks = [piece for start in range(0, len(text), 2) for piece in ("", text[start : start + 2])]

    assert streamed(cleaner_of(line), chunks) == line["expected"]


@each_line
def test_whole(line):
    cleaned = post_process_llm_output(
        "".join(chunks_of(line)),
        line["endpoint"],
        line["node"],
        user_config=line["user"],
        generation_prompt=line.get("generation_prompt"),
    )

    assert cleaned == line["expected"]


@each_with_thoughts
@pytest.mark.parametrize(
    "cut", [chunks_of, lambda line: "".join(chunks_of(line))], ids=["as given", "characters"]
)
def test_thoughts_are_kept(line, cut):
    cleaner = cleaner_of(line)

    streamed(cleaner, cut(line))

    assert cleaner.completed_thoughts == line["thoughts"]


@each_with_releases
def test_nothing_is_held_longer_than_needed(line):
    cleaner = cleaner_of(line)

    assert [cleaner.feed(chunk) for chunk in line["chunks"]] == line["released"]
