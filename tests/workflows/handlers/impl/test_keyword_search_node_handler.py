"""Search by words in the conversation and in file memories. Source: spec memory.md 11.1."""

from __future__ import annotations

import pytest

from Middleware.common.errors import ConfigError
from Middleware.services.discussion_store import ChunkList, Entry

NODES = ("ConversationalKeywordSearchPerformerTool", "MemoryKeywordSearchPerformerTool")
NODE = NODES[0]
TOO_SHORT = "There are no memories. This conversation has not gone long enough for there to be memories."


def long(word):
    """A message that fills a piece of its own."""
    return {"role": "user", "content": f"{word} " + "x" * 1100}


@pytest.mark.parametrize("node", NODES)
def test_both_names_search_the_conversation_without_its_last_message(bench, node):
    bench.messages = [long("ferry"), long("boat"), long("ferry")]
    assert bench(node, keywords="ferry") == long("ferry")["content"]


def test_pieces_are_separated_and_the_best_comes_first(bench):
    bench.messages = [long("ferry"), long("ferry ferry"), long("end")]
    first, second = long("ferry ferry")["content"], long("ferry")["content"]
    assert bench(NODE, keywords="ferry AND") == f"{first}--ChunkBreak--{second}"


def test_a_lookback_searches_only_the_newest(bench):
    bench.messages = [long("ferry"), long("boat"), long("ferry boat")]
    assert bench(NODE, keywords="ferry", lookbackStartTurn=1) == long("ferry boat")["content"]


def test_a_conversation_that_is_too_short_says_so(bench):
    bench.messages = [long("ferry")] * 2
    assert bench(NODE, keywords="ferry", lookbackStartTurn=2) == TOO_SHORT


@pytest.mark.parametrize(
    "fields", [{"searchTarget": "Elsewhere"}, {"searchTarget": "RecentMemories"}, {}], ids=str
)
def test_nothing_is_found(bench, fields):
    """In no known place, without a discussion, without messages."""
    bench.messages = []
    assert bench(NODE, keywords="ferry", **fields) == ""


def test_memories_but_the_newest_three_are_searched(bench):
    """In their order, without role prefixes; at most ten."""
    texts = [f"User: ferry {i}" for i in range(15)]
    ChunkList(bench.store, "memories.json").replace(*[Entry(text, text) for text in texts])
    output = bench(NODE, keywords="Ferry", searchTarget="RecentMemories")
    assert output.split("\n\n") == [f"ferry {i}" for i in range(10)]


def test_up_to_three_memories_are_all_searched(bench):
    ChunkList(bench.store, "memories.json").replace(Entry("a ferry", "h"), Entry("User: ", "i"))
    assert bench(NODE, keywords="ferry user", searchTarget="RecentMemories") == "a ferry"


def test_keywords_are_needed(bench):
    assert bench.findings(NODE)[0]
    with pytest.raises(ConfigError, match="'keywords'"):
        bench(NODE)
