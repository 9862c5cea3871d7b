"""File memories: when they are made, of what, and what each one holds. Source: spec memory.md 7.3, 7.4, 18.1."""

from __future__ import annotations

import json
import logging

import pytest

from Middleware.common.errors import BackendError, WorkflowError
from Middleware.services.discussion_store import ChunkList, Entry
from tests.workflows.memory.conftest import hash_of, talk

SMALL = {"chunkEstimatedTokenSize": 1_000_000, "maxMessagesBetweenChunks": 4, "lookbackStartTurn": 2}
"""Only the count of messages makes a memory."""
ONE_EACH = {"chunkEstimatedTokenSize": 2, "lookbackStartTurn": 0, "prompt": "[TextChunk]"}
"""Every message is a chunk."""


class TestTriggers:
    """Enough tokens, or enough messages once the file is there."""

    def test_enough_messages_make_a_memory(self, discussion, model):
        """Four new ones, the newest two left alone."""
        model.replies = ["They met."]
        discussion.settings(**SMALL)
        discussion.put("memories.json", "[]")
        discussion.turn(talk(6))
        assert discussion.entries() == (Entry("They met.", hash_of(3)),)

    def test_one_message_less_makes_none(self, discussion, model):
        discussion.settings(**SMALL)
        discussion.put("memories.json", "[]")
        discussion.turn(talk(5))
        assert (discussion.texts, model.calls) == ([], [])

    def test_without_a_file_the_count_of_messages_does_not_matter_but_the_file_appears(self, discussion):
        """A user who deletes the file rebuilds it in whole chunks; the next call counts again."""
        discussion.settings(**SMALL)
        discussion.turn(talk(6))
        assert discussion.store.path("memories.json").read_text() == "[]"
        discussion.turn(talk(6))
        assert len(discussion.entries()) == 1

    @pytest.mark.parametrize(
        ("level", "made"), [("conservative", 1), (" Balanced ", 0), ("unknown", 1)], ids=str
    )
    def test_enough_tokens_make_a_memory_also_without_a_file(self, discussion, level, made):
        """Eight tokens are new; a level above `conservative` makes that too few."""
        size = {"chunkEstimatedTokenSize": 8, "lookbackStartTurn": 2, "wilmerContextEstimationLevel": level}
        discussion.settings(**size)
        discussion.turn(talk(5))
        assert len(discussion.entries()) == made

    def test_one_token_less_makes_none(self, discussion):
        discussion.settings(chunkEstimatedTokenSize=9, lookbackStartTurn=2)
        discussion.turn(talk(5))
        assert discussion.texts == []

    def test_fewer_than_three_messages_make_none_and_touch_nothing(self, discussion):
        """System messages count here, and nowhere else."""
        discussion.settings(**ONE_EACH)
        discussion.turn(talk(2))
        assert not discussion.store.folder.exists()

    def test_system_messages_become_no_memory(self, discussion, model, echo):
        model.replies = [echo]
        discussion.settings(**ONE_EACH)
        discussion.turn([{"role": "system", "content": "Be brief."}, *talk(2)])
        assert discussion.texts == ["note: word 0", "note: word 1"]

    def test_a_lookback_longer_than_the_chat_leaves_everything(self, discussion):
        discussion.settings(**{**ONE_EACH, "lookbackStartTurn": 9})
        discussion.turn(talk(5))
        assert discussion.texts == []

    def test_what_is_remembered_is_not_remembered_again(self, discussion, model, echo):
        model.replies = [echo]
        discussion.settings(**ONE_EACH)
        discussion.turn(talk(3))
        discussion.turn(talk(4))
        assert discussion.hashes == [hash_of(i) for i in range(4)]

    def test_a_regenerated_answer_makes_no_memory_twice(self, discussion, model, echo):
        """The history is shorter by one; the remembered message stands at the boundary."""
        model.replies = [echo]
        discussion.settings(**{**ONE_EACH, "lookbackStartTurn": 1})
        discussion.turn(talk(5))
        before = discussion.entries()
        discussion.turn(talk(4))
        assert discussion.entries() == before


class TestWriting:
    """What the model is asked, and how the answers are kept."""

    def test_each_chunk_is_stored_with_the_hash_of_its_last_message(self, discussion, model):
        """In order; the chunk takes messages up to 80 % of its size, from the newest backwards."""
        model.replies = ["first", "second"]
        discussion.settings(chunkEstimatedTokenSize=6, lookbackStartTurn=0)
        discussion.turn(talk(3))
        assert discussion.entries() == (Entry("first", hash_of(0)), Entry("second", hash_of(2)))

    def test_placeholders_show_earlier_memories_and_the_summary(self, discussion, model):
        """The last three, all of them, and those just made."""
        discussion.settings(
            **{**ONE_EACH, "prompt": "[Memory_file]|[Full_Memory_file]|[Chat_Summary]|[TextChunk]"}
        )
        discussion.put_memories(("m1", "a"), ("m2", "b"), ("m3", "c"), ("m4", hash_of(0)))
        discussion.put_memories(("all of it", "x"), name="chat_summary.json")
        line = "\n--------------\n"
        model.replies = ["m5"]
        discussion.turn(talk(3))
        assert discussion.prompts() == [
            f"m2{line}m3{line}m4|m1{line}m2{line}m3{line}m4|all of it|word 1",
            f"m3{line}m4{line}m5|m1{line}m2{line}m3{line}m4{line}m5|all of it|word 2",
        ]

    def test_without_memories_and_summary_the_placeholders_say_so(self, discussion):
        discussion.settings(**{**ONE_EACH, "prompt": "[Memory_file]|[Full_Memory_file]|[Chat_Summary]"})
        discussion.turn(talk(3))
        nothing = "No preceding memories to show"
        assert discussion.prompts()[0] == f"{nothing}|{nothing}|There is not yet a summary file"

    def test_stored_text_and_messages_are_mere_text(self, discussion, model):
        """Neither variables nor placeholders in them are filled; authored ones are."""
        discussion.settings(**{**ONE_EACH, "prompt": "{Discussion_Id} [Memory_file] [TextChunk]"})
        trap = "{agent1Output} {} {{ 7*7 }} [TextChunk] [DiscussionId]x[/DiscussionId]"
        discussion.put_memories((trap, hash_of(0)))
        discussion.turn([*talk(2), {"role": "user", "content": "{Discussion_Id} [Memory_file]"}])
        assert discussion.prompts() == [
            f"d {trap} word 1",
            "d " + f"{trap}\n--------------\nhello {{Discussion_Id}} [Memory_file]",
        ]

    @pytest.mark.parametrize(("said", "limit"), [({}, 400), ({"maxResponseSizeInTokens": "90"}, 90)])
    def test_how_long_a_memory_may_become(self, discussion, model, said, limit):
        discussion.settings(**ONE_EACH, **said)
        discussion.turn(talk(3))
        assert {asked.max_tokens for asked in model.settings} == {limit}

    def test_without_prompts_ours_are_used(self, discussion, model):
        discussion.settings(chunkEstimatedTokenSize=2, lookbackStartTurn=0)
        discussion.turn(talk(3))
        assert "<excerpt>\nword 0\n</excerpt>" in discussion.prompts()[0]
        assert model.calls[0].conversation[0]["role"] == "system"

    def test_a_workflow_gets_the_four_texts_as_inputs(self, discussion, house):
        house.workflow(
            "Note",
            {
                "type": "StringConcatenator",
                "strings": ["{agent1Input}/{agent2Input}/{agent3Input}/{agent4Input}"],
            },
        )
        discussion.settings(**ONE_EACH, fileMemoryWorkflowName="Note")
        discussion.put_memories((" m1 ", hash_of(1)))
        discussion.turn(talk(3))
        assert discussion.texts[1] == "word 2/m1/m1/There is not yet a summary file"

    def test_a_workflow_needs_no_endpoint(self, discussion, house):
        """The endpoint belongs to the direct call alone."""
        house.workflow("Note", {"type": "StaticResponse", "content": "noted"})
        house.write("Workflows/ana/Memory", {**ONE_EACH, "fileMemoryWorkflowName": "Note"})
        discussion.turn(talk(3))
        assert discussion.texts == ["noted"] * 3

    def test_thoughts_and_prefixes_never_reach_the_file(self, discussion, house, model):
        """Stored texts are cleaned as answers are."""
        house.endpoint(
            "chat",
            removeThinking=True,
            startThinkTag="<think>",
            endThinkTag="</think>",
            trimBeginningAndEndLineBreaks=True,
        )
        model.replies = ["<think>hm</think>\nNote: They met."]
        discussion.settings(
            **ONE_EACH, removeCustomTextFromResponseStart=True, responseStartTextToRemove=["Note: "]
        )
        discussion.turn(talk(3))
        assert discussion.texts == ["They met."] * 3

    def test_an_endpoint_of_prompts_gets_system_and_prompt(self, discussion, model):
        discussion.settings(**{**ONE_EACH, "endpointName": "flat", "systemPrompt": "Sys."})
        discussion.turn(talk(3))
        assert (model.calls[0].system_prompt, model.calls[0].prompt) == ("Sys.", "word 0")


class TestSafety:
    """Failures and other writers."""

    def test_what_was_made_before_a_failure_stays(self, discussion, model, failure):
        """A long rebuild goes on where it stopped."""
        model.replies = ["m0", failure(), "m1", "m2"]
        discussion.settings(**ONE_EACH)
        with pytest.raises((BackendError, WorkflowError)):
            discussion.turn(talk(3))
        assert discussion.texts == ["m0"]
        discussion.turn(talk(3))
        assert discussion.texts == ["m0", "m1", "m2"]

    def test_an_empty_memory_is_not_stored_and_asked_for_again(self, discussion, model):
        model.replies = ["m0", "  ", "m1", "m2"]
        discussion.settings(**ONE_EACH)
        discussion.turn(talk(3))
        discussion.turn(talk(3))
        assert discussion.texts == ["m0", "m1", "m2"]

    def test_a_result_made_from_an_older_state_is_dropped(self, discussion, model):
        """Another server remembered these messages meanwhile; nothing is doubled."""

        def other_writer(_: object) -> str:
            ChunkList(discussion.store, "memories.json").append(Entry("theirs", hash_of(0)), after=None)
            return "ours"

        model.replies = [other_writer]
        discussion.settings(**ONE_EACH)
        discussion.turn(talk(3))
        assert discussion.texts == ["theirs"]

    def test_while_another_one_writes_this_round_is_skipped(self, discussion, model, caplog):
        discussion.settings(**ONE_EACH, condensationLockTimeoutSeconds=0.01)
        with discussion.leased():
            discussion.turn(talk(3))
        assert model.calls == []
        assert "leaves them to a later turn" in caplog.text

    def test_without_an_endpoint_the_settings_file_is_named(self, discussion, house, caplog):
        house.write("Workflows/ana/Memory", ONE_EACH)
        discussion.turn(talk(3))
        assert 'Workflows/ana/Memory.json: this call needs an "endpointName"' in caplog.text

    def test_a_rebuild_logs_how_far_it_is(self, discussion, caplog):
        caplog.set_level(logging.INFO)
        discussion.settings(**ONE_EACH)
        discussion.turn(talk(3))
        assert "memory 2 of 3" in caplog.text

    def test_a_rebuild_begins_condensing_after_itself(self, discussion):
        """What was made anew is fresh; only what comes later is condensed."""
        discussion.settings(**ONE_EACH, condenseMemories=True, memoriesBeforeCondensation=2)
        discussion.turn(talk(3))
        tracker = json.loads(discussion.store.path("condensation_tracker.json").read_text())
        assert tracker == {"lastCondensationHash": hash_of(2)}
        assert len(discussion.entries()) == 3

    def test_a_cancelled_request_stops_between_two_memories(self, discussion, model):
        from Middleware.services.cancellation_service import cancellation_service

        def cancel(_: object) -> str:
            cancellation_service.request_cancellation("r1")
            return "m0"

        model.replies = [cancel]
        discussion.settings(**ONE_EACH)
        answer = {"type": "StaticResponse", "content": "yes", "returnToUser": True}
        assert discussion.turn(talk(3), answer, {"type": "QualityMemory"}) == "yes"
        assert discussion.texts == ["m0"]
