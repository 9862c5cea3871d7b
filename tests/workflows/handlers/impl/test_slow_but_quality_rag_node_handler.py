"""SlowButQualityRAG: pieces of a text become memories that are not stored. Source: spec memory.md 11.2."""

from __future__ import annotations

import pytest

from Middleware.common.errors import ConfigError, RequestCancelled
from Middleware.services.discussion_store import ChunkList, Entry

NODE = "SlowButQualityRAG"
FIELDS = {
    "ragTarget": "one--ChunkBreak--{two}",
    "ragType": "x",
    "prompt": "[Memory_file]>[TextChunk]",
    "endpointName": "e",
}


def test_without_a_discussion_there_is_nothing(bench):
    assert bench(NODE, **FIELDS) == ""


def test_each_piece_is_a_call_that_sees_the_earlier_ones(bench):
    """The outputs stand side by side, and no file is written."""
    store = bench.store
    bench.engine.values = {"two": "2"}
    assert bench(NODE, **FIELDS) == "reply 1reply 2"
    assert [call.prompt for call in bench.engine.calls] == [
        "No preceding memories to show>one",
        "reply 1>2",
    ]
    assert not store.folder.exists()


def test_stored_memories_are_seen_too(bench):
    ChunkList(bench.store, "memories.json").replace(Entry("known", "h"))
    bench(NODE, **{**FIELDS, "ragTarget": "one"})
    assert bench.engine.calls[0].prompt == "known>one"


def test_a_workflow_can_do_the_work(bench):
    bench.discussion_id = "d"
    assert bench(NODE, **FIELDS, fileMemoryWorkflowName="Note") == "value of Notevalue of Note"
    assert bench.engine.children[0].inputs[0] == "one"


@pytest.mark.parametrize("missing", ["ragTarget", "ragType"])
def test_target_and_type_are_needed(bench, missing):
    bench.discussion_id = "d"
    fields = {key: value for key, value in FIELDS.items() if key != missing}
    assert bench.findings(NODE, **fields)[0]
    with pytest.raises(ConfigError, match="'ragTarget' and a 'ragType'"):
        bench(NODE, **fields)


def test_a_cancelled_request_asks_no_model(bench):
    bench.discussion_id, bench.engine.cancelled = "d", True
    with pytest.raises(RequestCancelled):
        bench(NODE, **FIELDS)


def test_the_check_knows_the_workflow(bench):
    from Middleware.workflows.handlers.node_types import node_handler

    children = node_handler(NODE).children({"fileMemoryWorkflowName": "Note"})
    assert [(child.name, child.inputs) for child in children] == [("Note", 4)]
    assert node_handler(NODE).children({}) == []
