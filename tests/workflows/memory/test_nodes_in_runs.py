"""Memory nodes in whole runs: what they store is clean, what they give is clean once, and they never cost an answer."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from tests.workflows.memory.conftest import hash_of, talk

ONE_EACH = {"chunkEstimatedTokenSize": 2, "lookbackStartTurn": 0, "prompt": "[TextChunk]"}
THINKS = {
    "removeThinking": True,
    "startThinkTag": "<think>",
    "endThinkTag": "</think>",
    "expectOnlyClosingThinkTag": True,
    "whenEndThinkTagMissing": "discard",
}
SUMMARIZER = {
    "type": "chatSummarySummarizer",
    "endpointName": "chat",
    "prompt": "[CHAT_SUMMARY]+[LATEST_MEMORIES]",
    "minMemoriesPerSummary": 1,
}


@pytest.mark.parametrize("stream", [False, True])
def test_a_summary_is_cleaned_once(discussion, house, model, stream):
    """A model that thinks aloud: the thoughts are gone, and the text is not taken for a thought itself."""
    house.endpoint("chat", **THINKS)
    model.replies = ["hm</think>They met."]
    discussion.put_memories(("m0", hash_of(0)))
    assert discussion.turn(talk(1), SUMMARIZER, stream=stream) == "They met."
    assert discussion.entries("chat_summary.json")[0].text == "They met."
    assert discussion.turn(talk(1), SUMMARIZER, stream=stream) == "They met."


def test_while_another_one_works_on_the_summary_it_is_given_as_it_is(discussion, model):
    """After the time that the settings allow for waiting."""
    discussion.settings(condensationLockTimeoutSeconds=0.01)
    discussion.put_memories(("m0", hash_of(0)))
    with discussion.leased("summary"):
        assert discussion.turn(talk(1), SUMMARIZER) == "There is not yet a summary file"
    assert model.calls == []


def test_compacted_texts_are_cleaned(discussion, house, model):
    house.endpoint("chat", **THINKS)
    house.write(
        "Workflows/ana/Compact", {"endpointName": "chat", "recentContextTokens": 2, "lookbackStartTurn": 0}
    )
    house.user["contextCompactorSettingsFile"] = "Compact"
    model.replies = ["hm</think>old"]
    text = discussion.turn(talk(2), {"type": "ContextCompactor"})
    assert text == "<context_compactor_old>old</context_compactor_old>"


def test_an_output_of_nothing_is_no_text_in_a_prompt(discussion):
    """Not `None`."""
    discussion.settings(**ONE_EACH)
    shows = {"type": "StringConcatenator", "strings": ["<{agent1Output}>"]}
    assert discussion.turn(talk(3), {"type": "QualityMemory"}, shows) == "<>"


def test_memories_are_made_after_the_answer(discussion, model, failure):
    """A model that fails then costs no answer."""
    model.replies = ["m0", failure()]
    discussion.settings(**ONE_EACH)
    answer = {"type": "StaticResponse", "content": "yes", "returnToUser": True}
    assert discussion.turn(talk(3), answer, {"type": "QualityMemory"}) == "yes"
    assert discussion.texts == ["m0"]


@pytest.mark.parametrize(
    "stored", ["{agent1Output}", "{}", "{{ 7*7 }}", "[DiscussionId]other[/DiscussionId]"]
)
@pytest.mark.parametrize("jinja", [False, True])
def test_what_a_memory_holds_changes_nothing_but_text(discussion, model, stored, jinja):
    """Neither variables, nor Jinja, nor a tag."""
    discussion.put_memories((stored, hash_of(0)))
    shows = {
        "type": "Standard",
        "endpointName": "chat",
        "prompt": "{{ agent1Output }}" if jinja else "{agent1Output}",
    }
    reads = {"type": "GetCurrentMemoryFromFile"}
    discussion.turn(talk(1), reads, {**shows, "jinja2": jinja})
    assert discussion.prompts() == [stored]
    assert [path.name for path in discussion.store.folder.parent.iterdir()] == ["d"]


def test_the_settings_may_ask_for_jinja(discussion):
    discussion.settings(**{**ONE_EACH, "jinja2": True, "prompt": "{% if true %}[TextChunk]{% endif %}"})
    discussion.turn([*talk(2), {"role": "user", "content": "{{ 7*7 }}"}])
    assert discussion.prompts() == ["word 0", "word 1", "{{ 7*7 }}"]


def test_a_wrong_setting_is_told_and_the_chat_goes_on(discussion, caplog):
    discussion.settings(**{**ONE_EACH, "lookbackStartTurn": "three"})
    answer = {"type": "StaticResponse", "content": "yes"}
    assert discussion.turn(talk(3), {"type": "QualityMemory"}, answer) == "yes"
    assert "lookbackStartTurn: found 'three', allowed: a number >= 0" in caplog.text


DAMAGED = [
    ("memories.json", "{}", "GetCurrentMemoryFromFile", "There are not yet any memories"),
    ("chat_summary.json", "{}", "GetCurrentSummaryFromFile", "There is not yet a summary file"),
    ("state_document.md", "caf\udce9", "GetCurrentStateDocument", "No state document has been created yet"),
]


@pytest.mark.parametrize(("name", "held", "node", "text"), DAMAGED, ids=[case[0] for case in DAMAGED])
def test_a_damaged_file_costs_no_answer(discussion, caplog, name, held, node, text):
    """It is put aside, and the log tells which it was."""
    discussion.put(name, "").write_bytes(held.encode("utf-8", "surrogateescape"))
    assert discussion.turn(talk(1), {"type": node}) == text
    assert discussion.turn(talk(1), {"type": node}) == text
    assert len(list(discussion.store.folder.glob(f"{name}.corrupt-*"))) == 1
    assert caplog.text.count(f"{name} was damaged") == 1


@pytest.mark.parametrize("held", [b"text" * 1000, None], ids=["no-database", "something-else"])
def test_a_damaged_database_costs_no_answer(discussion, caplog, held):
    """What is no database of memories is never altered."""
    discussion.settings(
        useVectorForQualityMemory=True, lookbackStartTurn=0, vectorMemoryMaxMessagesBetweenChunks=1
    )
    place = discussion.put("vector_memory.db", "")
    if held is None:
        with closing(sqlite3.connect(place)) as connection:
            connection.execute("CREATE TABLE other (x)")
    else:
        place.write_bytes(held)
    before = place.read_bytes()
    answer = {"type": "StaticResponse", "content": "yes"}
    assert discussion.turn(talk(3), {"type": "QualityMemory"}, answer) == "yes"
    assert "no memories were made: " in caplog.text
    assert place.read_bytes() == before


ENDLESS = {"removeThinking": True, "startThinkTag": "<think>", "endThinkTag": "</think>"}
"""A thought that never ends is shown to the user, by default."""


@pytest.mark.parametrize("endpoint", [ENDLESS, {**ENDLESS, "whenEndThinkTagMissing": "keep"}, {}], ids=str)
@pytest.mark.parametrize("workflow", [False, True], ids=["direct", "workflow"])
def test_an_endless_thought_is_no_memory(discussion, house, model, endpoint, workflow):
    """A reply that was cut off in its thoughts: the messages are remembered by the next turn."""
    house.endpoint("chat", **endpoint)
    house.workflow("Note", {"type": "Standard", "endpointName": "chat", "prompt": "{agent1Input}"})
    discussion.settings(**ONE_EACH, **({"fileMemoryWorkflowName": "Note"} if workflow else {}))
    model.replies = ["<think>they might", "m0", "m1", "m2"]
    discussion.turn(talk(3))
    assert discussion.texts == []
    discussion.turn(talk(5))
    assert discussion.texts[0] == "m0"


@pytest.mark.parametrize(("missing", "first"), [("keep", "They met."), ("discard", "later")])
def test_where_answers_begin_in_a_thought_the_file_decides(discussion, house, model, missing, first):
    """An answer without the end of one may be no thought at all."""
    house.endpoint("chat", **{**THINKS, "whenEndThinkTagMissing": missing})
    discussion.settings(**ONE_EACH)
    model.replies = ["They met.", "x</think>later"]
    discussion.turn(talk(3))
    discussion.turn(talk(5))
    assert discussion.texts[0] == first


def test_an_endless_thought_is_no_summary_and_no_state_document(discussion, house, model):
    house.endpoint("chat", **ENDLESS)
    discussion.put_memories(("m0", hash_of(0)))
    model.replies = ["<think>hm", "<think>hm"]
    writes = {"type": "WriteCurrentSummaryToFileAndReturnIt", "input": "{agent1Output}"}
    thinks = {"type": "Standard", "endpointName": "chat", "prompt": "x"}
    assert discussion.turn(talk(1), SUMMARIZER) == "There is not yet a summary file"
    assert discussion.turn(talk(1), thinks, writes) == "There is not yet a summary file"
    assert discussion.entries("chat_summary.json") == ()


def test_a_thought_that_ends_is_taken_away_where_no_rule_does(discussion, model):
    discussion.settings(**ONE_EACH)
    model.replies = ["<think>hm</think>\nThey met. <think> is a tag."]
    discussion.turn(talk(3))
    assert discussion.texts[0] == "They met. <think> is a tag."


def test_numbers_of_nodes_may_be_texts_and_placeholders(discussion):
    discussion.put_memories(("m0", "a"), ("m1", "b"))
    node = {"type": "RecentMemorySummarizerTool", "maxTurnsToPull": "3", "maxSummaryChunksFromFile": "{n}"}
    discussion.house.workflow("Main", node, n=1)
    assert discussion.house.ask(say=talk(1), discussion_id="d").text == "m1"


def test_recent_memory_makes_file_memories_whatever_the_settings_say(discussion, house):
    """Then runs the user's workflow."""
    discussion.settings(**ONE_EACH, useVectorForQualityMemory=True)
    house.workflow("Recent", {"type": "GetCurrentMemoryFromFile", "customDelimiter": "|"})
    house.user["recentMemoryToolWorkflow"] = "Recent"
    assert discussion.turn(talk(3), {"type": "RecentMemory"}) == "hello|hello|hello"
