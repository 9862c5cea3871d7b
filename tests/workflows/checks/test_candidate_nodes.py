"""What `--validate` says of Candidates nodes: models that lead nowhere, settings that cannot be, equal answers."""

from __future__ import annotations

import pytest

NODE = {"type": "Candidates", "endpointName": "small-model", "prompt": "x", "is_responder": True}

# id, fields of the node, what is said of it
FINDINGS = [
    ("good", {}, []),
    ("good-list", {"candidates": [{"times": 2}, {"preset": "warm"}]}, []),
    ("one", {"candidates": 1}, ["error: node 1, candidates: found 1, allowed: a whole number from 2 to 16"]),
    ("word", {"candidates": "many"}, ["warning: node 1, candidates: found "]),
    ("variable", {"candidates": "{many}"}, []),
    ("list-of-one", {"candidates": [{}]}, ["error: node 1, candidates: must be a whole number from 2 to 16"]),
    ("list-of-many", {"candidates": [{"times": 9}, {"times": 9}]}, ["error: node 1, candidates: must be "]),
    ("endpoint-of-an-entry", {"candidates": [{"endpointName": "smal-model"}, {}]},
     ['error: node 1, candidates[0].endpointName: no endpoint "smal-model"']),
    ("preset-of-an-entry", {"candidates": [{}, {"preset": "clod"}]}, ['error: node 1, candidates[1].preset: no preset "clod"']),
    ("judge", {"judgeEndpointName": "wise"}, ['error: node 1, judgeEndpointName: no endpoint "wise"']),
    ("judge-preset", {"judgePreset": "clod"}, ['error: node 1, judgePreset: no preset "clod"']),
    ("judge-of-a-vote", {"choose": "vote", "judgeEndpointName": "wise"}, ["warning: node 1, judgeEndpointName: has no effect"]),
    ("embeddings", {"candidates": [{"endpointName": "emb"}, {}]},
     ['error: node 1, candidates[0].endpointName: endpoint "emb" is for embeddings']),
    ("choose", {"choose": "juge"}, ['error: node 1, choose: found "juge", allowed: "judge"']),
    ("vote", {"choose": "vote", "voteOn": "("}, ["error: node 1, voteOn: must be `last_number`"]),
    ("groups", {"choose": "vote", "voteOn": "a"}, ["error: node 1, voteOn: must be `last_number`"]),
    ("tools", {"allowTools": True}, ["error: node 1, allowTools: found true, allowed: false"]),
    ("no-tools", {"allowTools": False}, []),
    ("equal", {"preset": "cold"}, ["note: node 1, candidates: equal candidates give equal answers"]),
    ("equal-in-a-list", {"preset": "cold", "candidates": [{}, {"preset": "warm"}, {}]},
     ["note: node 1, candidates[0]: equal candidates"]),
    ("different", {"preset": "cold", "candidates": [{}, {"preset": "warm"}]}, []),
    ("same-times", {"candidates": [{"preset": "cold", "times": 2}]}, ["note: node 1, candidates[0]: equal candidates"]),
    ("list-of-a-later-node", {"prompt": "{agent1Candidates}"}, ["warning: node 1, prompt: "]),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "said"), [c[1:] for c in FINDINGS], ids=[c[0] for c in FINDINGS])
def test_findings(checked, fields, said):
    checked.put("ApiTypes/Emb.json", {"type": "ollamaEmbeddings"})
    checked.put("Endpoints/lan/emb.json", {"endpoint": "http://h", "apiTypeConfigFileName": "Emb"})
    checked.put("Presets/T/warm.json", {"temperature": 1})
    checked.flow({**NODE, **fields}, many="4")
    lines = [line.removeprefix("Workflows/ana/Main.json: ") for line in checked.lines()]
    assert len(lines) == len(said), lines
    assert [line[: len(start)] for line, start in zip(lines, said, strict=True)] == said


def test_a_later_node_knows_the_list(checked):
    """By the number of the node that made it."""
    checked.flow(NODE | {"is_responder": False}, {"type": "StaticResponse", "content": "{agent1Candidates}"})
    assert checked.lines() == []


def test_the_endpoint_of_the_node_is_told_once(checked):
    """Though the entries and the judge take it."""
    checked.flow(
        NODE | {"endpointName": "smal-model", "candidates": [{}, {"preset": "cold"}], "judgePreset": "cold"}
    )
    assert len(checked.lines()) == 1
