"""VectorMemorySearch: from the fields of the node to the text of what was found. Source: spec memory.md 9.4."""

from __future__ import annotations

import json

import pytest
import responses

from Middleware.workflows.memory.vector_store import ChunkRecord, VectorDatabase

NODE = "VectorMemorySearch"
NOTHING = "No relevant memories found in the vector database for the given keywords."


@pytest.fixture
def database(bench):
    """Memory `Theo owes Mara a ferry ticket.` with a vector, and one about a map."""
    database = VectorDatabase(bench.store)
    facts = [
        {
            "title": "Debt",
            "summary": "Theo owes Mara a ferry ticket.",
            "entities": ["Theo"],
            "key_phrases": [],
        },
        {"title": "Map", "summary": "The map was a copy.", "entities": [], "key_phrases": ["copied map"]},
    ]
    database.save(ChunkRecord("h", ("h",)), facts, after=None)
    database.save_vectors("nomic", {1: [1.0, 0.0], 2: [0.0, 1.0]})
    return database


@pytest.fixture
def embedder(bench):
    """Endpoint `embedder`, whose every vector is that of the map."""
    for name, document in {
        "Endpoints/embedder": {
            "endpoint": "http://embed.test",
            "apiTypeConfigFileName": "Embed",
            "modelNameToSendToAPI": "nomic",
        },
        "ApiTypes/Embed": {"type": "ollamaEmbeddings", "presetType": "any"},
    }.items():
        path = bench.folder / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document))
    with responses.RequestsMock(assert_all_requests_are_fired=False) as network:
        network.post("http://embed.test/api/embed", json={"embeddings": [[0.1, 0.9]]})
        yield network


def test_without_a_discussion_it_says_so(bench):
    assert bench(NODE, input="ferry") == "Cannot perform VectorMemorySearch without a discussionId."


def test_without_a_database_nothing_is_found_and_none_is_made(bench, caplog):
    store = bench.store
    assert bench(NODE, input="ferry") == NOTHING
    assert not store.folder.exists()
    assert caplog.text == ""


def test_what_is_found_is_joined(bench, database):
    bench.engine.values = {"agent1Output": "copied map;ferry"}
    output = bench(NODE, input="{agent1Output}")
    assert sorted(output.split("\n\n---\n\n")) == ["The map was a copy.", "Theo owes Mara a ferry ticket."]


def test_dates_stand_before_the_memories(bench, database):
    assert bench(NODE, input="ferry", includeDates=True)[12:] == " Theo owes Mara a ferry ticket."
    assert bench(NODE, input="ferry", includeDates=True).startswith("[20")


def test_the_query_by_meaning_is_embedded(bench, database, embedder):
    """The text is `semanticQuery`, variables filled."""
    bench.engine.values = {"q": "what of the chart?"}
    fields = {
        "searchMode": "Semantic",
        "embeddingEndpointName": "embedder",
        "semanticQuery": "{q}",
        "limit": 1,
    }
    assert bench(NODE, input="ferry", **fields) == "The map was a copy."
    assert json.loads(embedder.calls[0].request.body)["input"] == ["what of the chart?"]


def test_an_endpoint_that_is_none_leaves_the_keywords(bench, database, caplog):
    fields = {"searchMode": "hybrid", "embeddingEndpointName": "nobody"}
    assert bench(NODE, input="ferry", **fields) == "Theo owes Mara a ferry ticket."
    assert "nobody" in caplog.text


@pytest.mark.parametrize("limit", [-1, 0, 1001])
def test_the_check_warns_of_limits_that_are_not_kept(bench, limit):
    assert bench.findings(NODE, limit=limit) == ([], ["/limit"])


def test_a_dry_run_tells_that_it_would_search(bench):
    assert bench.notes(NODE) == []
    bench.discussion_id = "d"
    assert len(bench.notes(NODE)) == 1
