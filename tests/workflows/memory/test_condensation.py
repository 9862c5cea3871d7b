"""Old memories become one. Source: spec memory.md 7.7."""

from __future__ import annotations

import json

import pytest

from Middleware.services.discussion_store import ChunkList, Entry
from Middleware.workflows.memory.file_writer import condense
from Middleware.workflows.memory.settings import SettingsFile
from tests.workflows.memory.conftest import hash_of, talk

ON = {
    "chunkEstimatedTokenSize": 2,
    "lookbackStartTurn": 0,
    "prompt": "[TextChunk]",
    "condenseMemories": True,
    "memoriesBeforeCondensation": 3,
    "memoryCondensationBuffer": 1,
    "condenseMemoriesPrompt": "[Memories_Before_Memories_to_Condense]|[MemoriesToCondense]",
}
LINE = "\n--------------\n"


@pytest.fixture
def remember(discussion, model):
    """One turn that makes memory `new` after `known` ones, then condenses; `reply` is the condensed text."""

    def run(known, reply="joined", tracker=None, **settings):
        discussion.settings(**{**ON, **settings})
        discussion.put_memories(*[(f"m{i}", hash_of(i)) for i in range(known)])
        if tracker is not None:
            discussion.put("condensation_tracker.json", {"lastCondensationHash": tracker})
        model.replies = ["new", reply]
        discussion.turn(talk(known + 1))
        return discussion.texts

    return run


def tracker_of(discussion):
    return json.loads(discussion.store.path("condensation_tracker.json").read_text())


def test_a_full_batch_becomes_one_memory(discussion, remember):
    """Three of four; the newest is the buffer. The one keeps the hash of the last."""
    assert remember(3) == ["joined", "new"]
    assert discussion.hashes[0] == hash_of(2)
    assert tracker_of(discussion) == {"lastCondensationHash": hash_of(2)}


def test_one_memory_less_waits(discussion, remember):
    assert remember(2) == ["m0", "m1", "new"]
    assert not discussion.store.path("condensation_tracker.json").exists()


def test_it_begins_after_the_last_condensed_memory(discussion, remember):
    """Up to three before it are shown."""
    assert remember(7, tracker=hash_of(3)) == ["m0", "m1", "m2", "m3", "joined", "new"]
    assert discussion.prompts()[1] == f"m1{LINE}m2{LINE}m3|m4{LINE}m5{LINE}m6"


def test_a_tracker_that_names_nothing_begins_at_the_first(discussion, remember, caplog):
    assert remember(3, tracker="gone") == ["joined", "new"]
    assert "condensing starts again at the first memory" in caplog.text
    assert discussion.prompts()[1].startswith("No preceding memories to show|m0")


@pytest.mark.parametrize("tracker", [[], {"other": 1}], ids=str)
def test_a_tracker_of_another_form_begins_at_the_first(discussion, remember, tracker):
    discussion.put("condensation_tracker.json", tracker)
    assert remember(3) == ["joined", "new"]


def test_a_blank_reply_keeps_everything(remember, caplog):
    assert remember(3, reply=" ") == ["m0", "m1", "m2", "new"]
    assert "the condensed memories came back empty" in caplog.text


def test_at_most_one_batch_a_turn(remember):
    assert remember(9) == ["joined", "m3", "m4", "m5", "m6", "m7", "m8", "new"]


def test_off_or_without_a_batch_size_nothing_is_condensed(remember, caplog):
    assert len(remember(5, condenseMemories=False)) == 6
    assert len(remember(5, memoriesBeforeCondensation=None)) == 6
    assert "condenseMemories needs memoriesBeforeCondensation" in caplog.text


def test_it_may_have_a_model_of_its_own(discussion, remember, model):
    """An override that is absent falls back, and ours are the prompts when there are none."""
    remember(3, condenseMemoriesEndpointName="flat", condenseMemoriesPrompt=None)
    assert "<notes>\nm0" in model.calls[1].prompt


def test_a_kill_before_the_tracker_is_written_loses_and_doubles_nothing(discussion, remember, monkeypatch):
    """The condensed memory stands for what it was made of, and counts as one that may be condensed again."""

    def killed(store, covered):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("Middleware.workflows.memory.file_writer.save_tracker", killed)
        remember(3)
    assert discussion.texts == ["joined", "new"]
    discussion.model.replies += ["m4", "m5", "again"]
    discussion.turn(talk(6))
    assert discussion.texts == ["again", "m5"]
    assert discussion.prompts()[-1].endswith(f"|joined{LINE}new{LINE}m4")


@pytest.mark.parametrize("value", ["70", 70.0], ids=repr)
def test_a_number_of_the_settings_may_be_a_text(bench, value):
    nodes = []
    bench.engine.dispatch = lambda context, call: nodes.append(context.config) or "joined"
    ChunkList(bench.store, "memories.json").replace(*[Entry(f"m{i}", f"h{i}") for i in range(4)])
    settings = {**ON, "endpointName": "e", "condenseMemoriesMaxResponseSizeInTokens": value}
    condense(bench.context(""), bench.store, SettingsFile("Memory", settings))
    assert nodes[0]["maxResponseSizeInTokens"] == 70


def test_memories_that_end_with_the_same_text_are_condensed_once(discussion, model):
    """Every answer is `go on`; the tracker's hash alone would name the first one again and again."""
    discussion.settings(**{**ON, "chunkEstimatedTokenSize": 8, "memoryCondensationBuffer": 0})
    model.replies = [lambda call: "joined" if "|" in (said := call.conversation[-1]["content"]) else said]
    discussion.put("memories.json", "[]")
    texts = []
    for number in range(18):
        texts += [f"word {number}", "go on"]
        discussion.turn([{"role": "user", "content": text} for text in texts])
    condensed = [prompt.partition("|")[2] for prompt in discussion.prompts() if "|" in prompt]
    words = [word for word in " ".join(condensed).split() if word.isdecimal()]
    assert len(condensed) > 2
    assert words == [str(number) for number in range(len(words))]
    assert "joined" not in "".join(condensed)


def test_a_size_that_is_no_number_is_told_and_the_memories_stay(remember, caplog):
    assert remember(3, condenseMemoriesMaxResponseSizeInTokens="many") == ["m0", "m1", "m2", "new"]
    assert "condenseMemoriesMaxResponseSizeInTokens: found 'many', allowed: a number >= 1" in caplog.text


def test_memories_changed_meanwhile_are_not_replaced(discussion, remember, caplog):
    """Another server condensed them."""
    chunks = ChunkList(discussion.store, "memories.json")

    def other_writer(_):
        chunks.update(lambda entries: [Entry("theirs", entries[2].hash), *entries[3:]])
        return "ours"

    assert remember(3, reply=other_writer) == ["theirs", "new"]
    assert "so the condensed ones are dropped" in caplog.text
