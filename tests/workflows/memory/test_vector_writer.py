"""Vector memories: when, of what, and what happens when a chunk gives none. Source: spec memory.md 7.2, 7.5, 18.2."""

from __future__ import annotations

import json
import logging
import sqlite3
from contextlib import closing

import pytest
import responses

from Middleware.common.errors import WorkflowError
from Middleware.workflows.memory.vector_store import ChunkRecord, VectorDatabase
from tests.workflows.memory.conftest import hash_of, talk

ON = {
    "useVectorForQualityMemory": True,
    "lookbackStartTurn": 0,
    "vectorMemoryChunkEstimatedTokenSize": 2,
}
"""Every message is a chunk."""
BIG = {**ON, "vectorMemoryChunkEstimatedTokenSize": 1_000_000, "vectorMemoryMaxMessagesBetweenChunks": 4}
"""Only the count of messages makes a chunk."""


def fact(text, **more):
    return {"title": "t", "summary": text, "entities": [], "key_phrases": [], **more}


def facts(*texts):
    return json.dumps([fact(text) for text in texts])


def fact_of(call):
    """One fact, named after the message that the chunk is."""
    return facts("fact of " + call.conversation[-1]["content"].split("<piece>\n")[1].split("\n</piece>")[0])


@pytest.fixture
def rows(discussion):
    def run(statement="SELECT memory_text FROM memories ORDER BY id"):
        with closing(sqlite3.connect(VectorDatabase(discussion.store).path)) as connection:
            return [row[0] for row in connection.execute(statement)]

    return run


@pytest.fixture
def on(discussion, model):
    """Vector memories, one fact a message, unless the test says otherwise."""
    model.replies = [fact_of]
    discussion.settings(**ON)
    return discussion


class TestTriggers:
    """Both are always on."""

    def test_enough_messages(self, on, rows):
        """One chunk of four, the newest left alone."""
        on.settings(**{**BIG, "lookbackStartTurn": 1})
        on.turn(talk(5))
        assert rows() == ["fact of word 0\nword 1\nword 2\nword 3"]

    def test_one_message_less_makes_no_database(self, on):
        on.settings(**{**BIG, "lookbackStartTurn": 1})
        on.turn(talk(4))
        assert not on.store.folder.exists()

    def test_enough_tokens(self, on, rows):
        on.settings(**{**ON, "vectorMemoryChunkEstimatedTokenSize": 8})
        on.turn(talk(3))
        assert len(rows()) == 1

    def test_a_chat_no_longer_than_the_lookback_makes_none(self, on, model):
        on.settings(**{**ON, "lookbackStartTurn": 3})
        on.turn(talk(3))
        assert model.calls == []


class TestMatching:
    """What is new in the history."""

    def test_what_is_done_is_not_done_again(self, on, rows):
        on.turn(talk(3))
        on.turn(talk(4))
        assert rows() == [f"fact of word {i}" for i in range(4)]

    def test_an_edited_message_does_not_double_the_history(self, on, rows):
        """The last one is unknown; the one before is found in the log, however old it is."""
        on.turn(talk(30))
        on.turn([*talk(15), *talk(1, "edited")])
        assert rows()[30:] == ["fact of edited 0"]

    def test_if_no_chunk_end_is_known_messages_of_chunks_are_left_out(self, on, rows, caplog):
        """Chunks of two messages, of which the second is gone."""
        on.settings(**{**ON, "vectorMemoryChunkEstimatedTokenSize": 5})
        on.turn(talk(4))
        on.turn([talk(4)[0], talk(4)[2], *talk(2, "other")])
        assert rows()[2:] == ["fact of other 0\nother 1"]
        assert "only messages that were in no chunk are used" in caplog.text

    def test_a_clock_that_was_ahead_once_stops_nothing(self, on, rows):
        """Each message is remembered, and once."""
        on.turn(talk(3))
        with closing(sqlite3.connect(VectorDatabase(on.store).path)) as connection, connection:
            connection.execute("UPDATE vector_memory_hash_log SET timestamp = '2099-01-01' WHERE id = 2")
        for length in range(4, 8):
            on.turn(talk(length))
        assert rows() == [f"fact of word {i}" for i in range(7)]
        assert len(on.model.calls) == 7

    @pytest.mark.parametrize(
        "tail",
        [talk(1, "again"), [], [*talk(1, "again"), *talk(1, "more")]],
        ids=["edited", "deleted", "more"],
    )
    def test_the_rest_of_a_chunk_whose_last_message_changes_is_not_doubled(self, on, rows, tail):
        """Only what was in no chunk is asked for."""
        on.settings(**BIG)
        on.turn(talk(8))
        later = talk(4, "later")
        on.turn([*talk(7), *tail, *later])
        before = "fact of word 0\nword 1\nword 2\nword 3\nword 4\nword 5\nword 6\nword 7"
        new = "\n".join(message["content"] for message in [*tail, *later])
        assert rows() == [before, f"fact of {new}"]

    def test_a_word_that_every_turn_repeats_hides_nothing(self, on, rows):
        """As many memories as from messages that differ."""
        on.settings(**BIG)
        history = [
            {"role": "user", "content": "continue"} if i % 2 == 0 else message
            for i, message in enumerate(talk(16))
        ]
        for length in range(3, 17):
            on.turn(history[:length])
        assert rows() == [f"fact of continue\nword {i}\ncontinue\nword {i + 2}" for i in range(1, 16, 4)]


class TestChunks:
    """What the model is asked, and what is kept."""

    def test_words_that_are_said_again_hide_nothing(self, on, rows):
        """`go on` ended a chunk; a later one does not end what lies between."""
        on.settings(**BIG)
        on.turn([*talk(3), {"role": "user", "content": "go on"}])
        later = [{"role": "assistant", "content": "more"}, {"role": "user", "content": "go on"}]
        history = [*talk(3), {"role": "user", "content": "go on"}, *later]
        on.turn(history)
        on.turn([*history, *talk(2, "last")])
        assert rows()[1] == "fact of more\ngo on\nlast 0\nlast 1"

    def test_several_facts_of_one_chunk(self, on, model, rows):
        model.replies = [facts("a", "b"), "[]", facts("c")]
        on.turn(talk(3))
        assert rows() == ["a", "b", "c"]

    def test_a_workflow_gets_the_chunk(self, on, house, rows):
        house.workflow(
            "Facts",
            {"type": "StringConcatenator", "strings": ['{{"summary": "{agent1Input}"}}'], "delimiter": ""},
        )
        on.settings(**ON, vectorMemoryWorkflowName="Facts")
        on.turn(talk(3))
        assert rows()[0] == "word 0"

    def test_thoughts_are_cut_off_before_the_json_is_read(self, on, house, model, rows):
        house.endpoint("chat", removeThinking=True, startThinkTag="<think>", endThinkTag="</think>")
        model.replies = [f"<think>{facts('thought')}</think>{facts('said')}"]
        on.turn(talk(3))
        assert rows() == ["said"] * 3

    def test_a_blank_chunk_is_done_without_a_call(self, on, model, rows):
        """A picture without words."""
        on.turn([*talk(1), {"role": "user", "content": " ", "images": ["x"]}, *talk(1, "end")])
        assert rows() == ["fact of word 0", "fact of end 0"]
        assert len(model.calls) == 2

    def test_braces_and_placeholders_in_messages_are_mere_text(self, on, model):
        on.turn([*talk(2), {"role": "user", "content": "{agent1Output} {} [TextChunk]"}])
        assert "<piece>\n{agent1Output} {} [TextChunk]\n</piece>" in on.prompts()[-1]

    def test_a_failing_model_keeps_the_chunks_before(self, on, model, rows, failure):
        """The rest is done next time."""
        model.replies = [fact_of, failure(), fact_of]
        with pytest.raises(WorkflowError):
            on.turn(talk(3))
        on.turn(talk(3))
        assert rows() == [f"fact of word {i}" for i in range(3)]

    def test_a_rebuild_logs_how_far_it_is(self, on, caplog):
        caplog.set_level(logging.INFO)
        on.turn(talk(3))
        assert "memory 2 of 3" in caplog.text


class TestFailures:
    """A chunk that yields nothing is tried again, and then given up."""

    def test_it_is_tried_again_though_later_chunks_succeeded(self, on, model, rows, caplog):
        model.replies = ["no json", fact_of, fact_of, facts("late")]
        on.turn(talk(3))
        assert "gave no memory and is tried again later" in caplog.text
        on.turn(talk(3))
        on.turn(talk(3))
        assert rows() == ["fact of word 1", "fact of word 2", "late"]
        assert len(model.calls) == 4

    def test_two_chunks_that_end_with_the_same_words_are_two(self, on, model, rows):
        """The one that failed is tried again, without the messages of the other."""
        on.settings(**BIG)
        go_on = {"role": "user", "content": "go on"}
        first, second = [*talk(3), go_on], [*talk(3, "more"), go_on]
        model.replies = [facts("first"), "none", fact_of]
        on.turn(first)
        on.turn([*first, *second])
        on.turn([*first, *second])
        assert rows() == ["first", "fact of more 0\nmore 1\nmore 2\ngo on"]

    def test_a_message_that_comes_back_after_such_a_try_is_new(self, on, model, rows):
        """A deleted message was not among those that were tried again."""
        on.settings(**BIG)
        model.replies = ["none", facts("three"), fact_of]
        on.turn(talk(4))
        on.turn(talk(3))
        on.turn(talk(7))
        assert rows() == ["three", "fact of word 3\nword 4\nword 5\nword 6"]

    def test_after_three_more_tries_it_is_given_up_and_told_once(self, on, model, rows, caplog):
        model.replies = [
            lambda call: "none" if "word 0" in call.conversation[-1]["content"] else fact_of(call)
        ]
        on.turn(talk(3))
        [on.turn(talk(3)) for _ in range(5)]
        assert rows() == ["fact of word 1", "fact of word 2"]
        assert len(model.calls) == 3 + 3
        assert caplog.text.count("is left out") == 1

    def test_a_rejected_object_is_told_and_the_others_kept(self, on, model, rows, caplog):
        model.replies = [json.dumps([fact("kept"), {"title": "t"}])]
        on.turn(talk(3))
        assert rows() == ["kept"] * 3
        assert "object 2: `summary` is empty or missing" in caplog.text

    def test_a_failed_chunk_that_left_the_history_is_forgotten(self, on, model, rows):
        model.replies = ["none", fact_of]
        on.turn(talk(3))
        on.turn(talk(3)[1:] + talk(1, "new"))
        assert rows() == ["fact of word 1", "fact of word 2", "fact of new 0"]

    def test_a_result_made_from_an_older_state_is_dropped(self, on, model, rows, caplog):
        def other_writer(_):
            VectorDatabase(on.store).save(
                ChunkRecord(hash_of(0), (hash_of(0),)), [fact("theirs")], after=None
            )
            return facts("ours")

        model.replies = [other_writer]
        on.turn(talk(3))
        assert rows() == ["theirs"]
        assert "are dropped" in caplog.text


def test_while_another_one_writes_this_round_is_skipped(on, model, caplog):
    on.settings(**ON, condensationLockTimeoutSeconds=0.01)
    with on.leased():
        on.turn(talk(3))
    assert model.calls == []
    assert "leaves them to a later turn" in caplog.text


class TestBeside:
    """Vectors and the state document come after, and cost no memory."""

    @pytest.fixture
    def embedder(self, house):
        house.write("ApiTypes/Embed", {"type": "ollamaEmbeddings", "presetType": "any"})
        house.endpoint(
            "embedder",
            endpoint="http://embed.test",
            apiTypeConfigFileName="Embed",
            modelNameToSendToAPI="nomic",
        )

        def vectors(request):
            texts = json.loads(request.body)["input"]
            return 200, {}, json.dumps({"embeddings": [[1.0, 2.0] for _ in texts]})

        with responses.RequestsMock(assert_all_requests_are_fired=False) as network:
            network.add_callback("POST", "http://embed.test/api/embed", vectors)
            yield network

    def test_new_memories_get_vectors_and_some_older_ones_too(self, on, rows, embedder):
        """One older memory a chunk."""
        VectorDatabase(on.store).save(ChunkRecord("x", ("x",)), [fact("old 1"), fact("old 2")], after=None)
        on.settings(**ON, embeddingEndpointName="embedder", embeddingBackfillBatchSize=1)
        on.turn(talk(3))
        assert rows("SELECT memory_id FROM memory_embeddings WHERE model = 'nomic' ORDER BY 1") == [
            1,
            2,
            3,
            4,
            5,
        ]
        assert json.loads(embedder.calls[0].request.body)["input"] == ["fact of word 0", "old 1"]

    def test_no_endpoint_is_no_fault(self, on, rows, caplog):
        """Vectors are made where the settings name one for them."""
        on.settings(**ON)
        on.turn(talk(3))
        assert len(rows()) == 3
        assert "got no vectors" not in caplog.text

    @pytest.mark.parametrize("endpoint", ["nobody", "chat"])
    def test_a_wrong_endpoint_costs_no_memory(self, on, rows, caplog, endpoint):
        on.settings(**ON, embeddingEndpointName=endpoint)
        on.turn(talk(3))
        assert len(rows()) == 3
        assert "new memories got no vectors" in caplog.text

    def test_the_state_document_gets_the_new_facts(self, on, house):
        house.workflow(
            "Merge",
            {"type": "StringConcatenator", "strings": ["{agent2Input}", "{agent1Input}"], "delimiter": "\n"},
        )
        on.settings(**ON, useStateDocument=True, stateDocumentWorkflowName="Merge")
        on.turn(talk(3))
        assert (
            on.store.read_text("state_document.md") == "- fact of word 0\n- fact of word 1\n- fact of word 2"
        )

    @pytest.fixture
    def merging(self, house, on):
        """Merges that append, and begin to fail or to work."""
        on.settings(**ON, useStateDocument=True, stateDocumentWorkflowName="Merge")

        def switch(*, works):
            append = {
                "type": "StringConcatenator",
                "strings": ["{agent2Input}", "{agent1Input}"],
                "delimiter": "\n",
            }
            house.workflow("Merge", append if works else {**append, "strings": [], "delimiter": ""})

        return switch

    def test_facts_whose_merge_gave_nothing_come_with_the_next_ones(self, on, merging):
        merging(works=False)
        on.turn(talk(3))
        merging(works=True)
        on.turn(talk(4))
        assert on.store.read_text("state_document.md") == "\n".join(f"- fact of word {i}" for i in range(4))

    def test_they_come_with_the_next_turn_though_nothing_else_is_new(self, on, merging, model):
        """No message is asked about again."""
        merging(works=False)
        on.turn(talk(3))
        merging(works=True)
        on.turn(talk(3))
        assert on.store.read_text("state_document.md") == "\n".join(f"- fact of word {i}" for i in range(3))
        assert len(model.calls) == 3

    def test_a_state_document_that_cannot_be_made_costs_no_memory(self, on, rows, caplog):
        on.settings(**ON, useStateDocument=True, stateDocumentWorkflowName="Nobody")
        on.turn(talk(3))
        assert len(rows()) == 3
        assert "the state document is not changed" in caplog.text


@pytest.mark.parametrize(
    ("said", "limit"),
    [({}, 1024), ({"maxResponseSizeInTokens": 90}, 1024), ({"vectorMemoryMaxResponseSizeInTokens": 70}, 70)],
)
def test_how_long_the_answer_with_the_facts_may_become(discussion, model, said, limit):
    """That of file memories does not count."""
    model.replies = [fact_of]
    discussion.settings(**ON, **said)
    discussion.turn(talk(3))
    assert {asked.max_tokens for asked in model.settings} == {limit}
