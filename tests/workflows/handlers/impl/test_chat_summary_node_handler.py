"""The rolling summary: read, collected, folded, stored. Source: spec memory.md 9.6 to 9.8."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from Middleware.common.errors import ConfigError
from Middleware.services.discussion_store import ChunkList, DiscussionStore, Entry
from Middleware.services.file_memories import End, FileMemories
from Middleware.workflows.models.execution_context import CleanText
from tests.workflows.leases import leased_by_another

NODE = "chatSummarySummarizer"
PROMPT = {"prompt": "[CHAT_SUMMARY]+[LATEST_MEMORIES]", "endpointName": "e"}
LINE = "\n------------\n"


@pytest.fixture
def memories(bench):
    """Give the discussion memories; the hash of each is its text."""

    def put(*texts):
        ChunkList(bench.store, "memories.json").replace(*[Entry(text, text) for text in texts])

    return put


@pytest.fixture
def summary(bench):
    """Give the discussion a summary that covers the memory `covered`; read it back."""
    chunks = ChunkList(bench.store, "chat_summary.json")
    bench.discussion_id = "d"

    def put(*entry):
        if entry:
            chunks.replace(Entry(*entry))
        return chunks.load()

    return put


@pytest.fixture
def leased(bench):
    """Another thread does long work in the discussion."""

    return partial(leased_by_another, bench.store)


class TestReading:
    """GetCurrentSummaryFromFile, ChatSummaryMemoryGatheringTool."""

    def test_the_summary_as_it_is(self, bench, summary):
        summary("all", "m1")
        assert bench("GetCurrentSummaryFromFile") == "all"

    def test_a_summary_in_parts_has_one_a_line(self, bench):
        """As another program may have left it."""
        bench.discussion_id = "d"
        ChunkList(bench.store, "chat_summary.json").replace(Entry("one", "m1"), Entry("two", "m2"))
        assert bench("FullChatSummary", isManualConfig=True) == "one\ntwo"

    def test_no_summary_yet(self, bench):
        """With and without a discussion."""
        assert bench("GetCurrentSummaryFromFile") == "There is not yet a summary file"
        bench.discussion_id = "d"
        assert bench("GetCurrentSummaryFromFile") == "There is not yet a summary file"

    @pytest.mark.parametrize(
        ("covered", "text"), [("b", f"c{LINE}d"), ("d", ""), ("unknown", f"a{LINE}b{LINE}c{LINE}d")]
    )
    def test_the_memories_that_the_summary_lacks(self, bench, memories, summary, covered, text):
        """All of them if the one it ends with is gone."""
        memories(*"abcd")
        summary("s", covered)
        assert bench("ChatSummaryMemoryGatheringTool", maxTurnsToPull=3) == text

    def test_without_a_discussion_the_newest_messages(self, bench):
        bench.messages = [{"role": "user", "content": letter * 1200} for letter in "abc"]
        output = bench("ChatSummaryMemoryGatheringTool", maxTurnsToPull=3)
        assert output == "a" * 1200 + LINE + "b" * 1200

    def test_without_a_discussion_and_messages_there_is_nothing(self, bench):
        assert (
            bench("ChatSummaryMemoryGatheringTool", maxTurnsToPull=3) == "There are no memories to grab yet"
        )

    def test_the_number_of_turns_is_needed(self, bench):
        with pytest.raises(ConfigError, match="'maxTurnsToPull' must be a whole number"):
            bench("ChatSummaryMemoryGatheringTool")


class TestFullChatSummary:
    """Brought up to date when more than one memory is missing."""

    def test_without_a_discussion_there_is_nothing(self, bench):
        assert bench("FullChatSummary") is None

    def test_by_hand_only_what_is_stored_is_given(self, bench, memories, summary):
        memories("a", "b", "c")
        assert bench("FullChatSummary", isManualConfig=True) == "No summary found"
        summary("s", "a")
        assert bench("FullChatSummary", isManualConfig=True) == "s"

    @pytest.mark.parametrize(
        ("covered", "text"),
        [("a", "value of Tool"), ("b", "s"), ("c", "s"), ("unknown", "value of Tool")],
        ids=["two-behind", "one-behind", "up-to-date", "unknown"],
    )
    def test_the_workflow_runs_when_the_summary_is_behind(
        self, bench, memories, summary, user_with, covered, text
    ):
        bench.user = user_with(chat_summary_tool_workflow="Tool")
        memories("a", "b", "c")
        summary("s", covered)
        assert bench("FullChatSummary") == text

    def test_two_requests_run_the_workflow_once(self, bench, memories, summary, user_with):
        """The second one waits; then the summary is up to date."""
        bench.user = user_with(chat_summary_tool_workflow="Tool")
        memories("a", "b", "c")
        outputs, second = [], threading.Thread(target=lambda: outputs.append(bench("FullChatSummary")))

        def child(call):
            second.start()
            summary("new", "c")
            return "new"

        bench.engine.child = child
        assert bench("FullChatSummary") == "new"
        second.join()
        assert (outputs, len(bench.engine.children)) == (["new"], 1)

    def test_who_is_cancelled_while_waiting_gets_what_is_stored(
        self, bench, memories, summary, user_with, leased
    ):
        bench.user = user_with(chat_summary_tool_workflow="Tool")
        memories("a", "b", "c")
        summary("s", "a")
        bench.engine.cancelled = True
        with leased("summary-workflow"):
            assert bench("FullChatSummary") == "s"

    def test_where_nothing_can_be_written_what_is_stored_is_given(
        self, bench, memories, summary, user_with, monkeypatch
    ):
        """The workflow does not run: its summary could not be kept."""
        bench.user = user_with(chat_summary_tool_workflow="Tool")
        memories("a", "b", "c")
        summary("s", "a")
        monkeypatch.setattr(DiscussionStore, "can_be_written", lambda store: False)
        assert bench("FullChatSummary") == "s"
        assert bench.engine.children == []

    def test_without_memories_the_workflow_runs(self, bench, summary, user_with):
        bench.user = user_with(chat_summary_tool_workflow="Tool")
        summary("s", "a")
        assert bench("FullChatSummary") == "value of Tool"

    def test_without_a_workflow_what_is_stored_is_given(self, bench, memories, summary, caplog):
        memories("a", "b", "c")
        assert bench("FullChatSummary") == "No summary found"
        assert "Users/ana.json: chatSummaryToolWorkflow" in caplog.text

    def test_a_dry_run_tells_what_would_be_made(self, bench):
        assert bench.notes("FullChatSummary") == []
        bench.discussion_id = "d"
        assert len(bench.notes("FullChatSummary")) == 1


class TestWriting:
    """WriteCurrentSummaryToFileAndReturnIt."""

    def test_the_text_is_stored_for_the_last_memory_and_given(self, bench, memories, summary):
        memories("a", "b")
        bench.engine.values = {"agent1Output": "new {agent1Output}"}
        assert bench("WriteCurrentSummaryToFileAndReturnIt", input="{agent1Output}") == "new {agent1Output}"
        assert summary() == (Entry("new {agent1Output}", "b"),)

    def test_without_a_discussion_it_is_only_given(self, bench):
        assert bench("WriteCurrentSummaryToFileAndReturnIt", input="text") == "text"

    def test_without_memories_it_cannot_be_stored(self, bench):
        bench.discussion_id = "d"
        with pytest.raises(ValueError, match="no memories to anchor it to"):
            bench("WriteCurrentSummaryToFileAndReturnIt", input="text")

    @pytest.mark.parametrize("text", ["", " \n", "<think>all of it is a thought"], ids=repr)
    def test_a_blank_text_is_no_summary(self, bench, memories, summary, text):
        memories("a", "b")
        summary("s", "a")
        assert bench("WriteCurrentSummaryToFileAndReturnIt", input=text) == "s"
        assert summary() == (Entry("s", "a"),)

    def test_an_input_is_needed(self, bench):
        assert bench.findings("WriteCurrentSummaryToFileAndReturnIt")[0]
        with pytest.raises(ConfigError, match="'input'"):
            bench("WriteCurrentSummaryToFileAndReturnIt")

    def test_a_dry_run_tells_that_it_would_store(self, bench):
        assert bench.notes("WriteCurrentSummaryToFileAndReturnIt", input="x") == []
        bench.discussion_id = "d"
        assert len(bench.notes("WriteCurrentSummaryToFileAndReturnIt", input="x")) == 1


class TestSummarizer:
    """chatSummarySummarizer."""

    def test_without_a_discussion_there_is_no_summary(self, bench):
        assert bench(NODE, **PROMPT) == "There is not yet a summary file"

    def test_nothing_new_gives_the_summary_without_a_call(self, bench, memories, summary):
        memories("a")
        summary("s", "a")
        assert bench(NODE, **PROMPT) == "s"
        assert bench.engine.calls == []

    def test_memories_are_folded_in_batches(self, bench, memories, summary):
        """Three a call while there are more; then what remains, if it is enough."""
        memories(*"abcdef")
        assert bench(NODE, **PROMPT) == "reply 2"
        none = "There is not yet a summary file"
        assert [call.prompt for call in bench.engine.calls] == [
            f"{none}+a{LINE}b{LINE}c",
            f"reply 1+d{LINE}e{LINE}f",
        ]
        assert summary() == (Entry("reply 2", "f"),)

    def test_too_few_remaining_ones_wait(self, bench, memories, summary):
        memories(*"abcde")
        assert bench(NODE, **PROMPT) == "reply 1"
        assert summary() == (Entry("reply 1", "c"),)

    def test_the_numbers_are_the_nodes(self, bench, memories, summary):
        memories(*"abc")
        assert bench(NODE, **PROMPT, loopIfMemoriesExceed=1, minMemoriesPerSummary=1) == "reply 3"
        assert summary() == (Entry("reply 3", "c"),)

    def test_a_loop_of_zero_counts_as_one(self, bench, memories):
        """It would never end."""
        memories(*"ab")
        assert bench(NODE, **PROMPT, loopIfMemoriesExceed=0, minMemoriesPerSummary=1) == "reply 2"

    def test_without_placeholders_one_ordinary_call_covers_all(self, bench, memories, summary):
        memories(*"abcde")
        assert bench(NODE, prompt="Tell.", endpointName="e") == "reply 1"
        assert bench.engine.calls[0].prompt is None
        assert summary() == (Entry("reply 1", "e"),)

    def test_memories_are_mere_text(self, bench, memories):
        """Inserted after the variables."""
        bench.engine.values = {"secret": "leak"}
        memories("{secret} [CHAT_SUMMARY]")
        bench(NODE, **PROMPT, minMemoriesPerSummary=1)
        assert bench.engine.calls[0].prompt.endswith("+{secret} [CHAT_SUMMARY]")

    def test_a_blank_reply_changes_nothing(self, bench, memories, summary):
        bench.engine.reply = lambda call: " \n"
        memories(*"abc")
        summary("s", "gone")
        assert bench(NODE, **PROMPT) == "s"
        assert summary() == (Entry("s", "gone"),)

    def test_what_follows_a_blank_reply_waits(self, bench, memories, summary):
        """Else its memories would count as folded in."""
        replies = iter(["one", " ", "never", "asked"])
        bench.engine.reply = lambda call: next(replies)
        memories(*"abcdefghi")
        assert bench(NODE, **PROMPT) == "one"
        assert summary() == (Entry("one", "c"),)
        assert len(bench.engine.calls) == 2

    def test_a_summary_that_was_written_meanwhile_stays(self, bench, memories, summary):
        """By a program that knows no lease."""
        memories(*"abc")
        bench.engine.reply = lambda call: summary("theirs", "c") and "ours"
        assert bench(NODE, **PROMPT) == "theirs"
        assert "has changed meanwhile" in bench.engine.warnings[0]

    def test_memories_that_end_with_the_same_text_are_folded_in_once(self, bench):
        """The hash of the summary alone would name the newest of them, and the others would be left out."""
        memories = FileMemories(bench.store)
        for number in range(5):
            memories.append(f"m{number}", End("go", str(number), (str(number), "go")), after=memories.load())
        bench(NODE, **PROMPT, loopIfMemoriesExceed=2, minMemoriesPerSummary=9)
        memories.append("m5", End("go", "5", ("5", "go")), after=memories.load())
        assert bench("ChatSummaryMemoryGatheringTool", maxTurnsToPull=1) == f"m4{LINE}m5"
        bench(NODE, **PROMPT, minMemoriesPerSummary=1)
        assert [call.prompt.partition("+")[2] for call in bench.engine.calls] == [
            f"m0{LINE}m1",
            f"m2{LINE}m3",
            f"m4{LINE}m5",
        ]
        assert bench("ChatSummaryMemoryGatheringTool", maxTurnsToPull=1) == ""

    def test_two_requests_fold_no_memory_in_twice(self, bench, memories, summary):
        """The second one waits, and then finds nothing new."""
        memories(*"abc")
        outputs, second = [], threading.Thread(target=lambda: outputs.append(bench(NODE, **PROMPT)))

        def reply(call):
            if len(bench.engine.calls) == 1:
                second.start()
            return f"{call.prompt}!"

        bench.engine.reply = reply
        first = bench(NODE, **PROMPT)
        second.join()
        assert outputs == [first]
        assert len(bench.engine.calls) == 1

    def test_who_is_cancelled_while_waiting_gets_the_summary_as_it_is(self, bench, memories, summary, leased):
        memories(*"abc")
        bench.engine.cancelled = True
        with leased("summary"):
            assert bench(NODE, **PROMPT) == "There is not yet a summary file"
        assert "another request works on the summary" in bench.engine.warnings[0]

    def test_its_output_is_clean_already(self, bench, memories):
        """The rules must not see it twice."""
        memories(*"abc")
        assert isinstance(bench(NODE, **PROMPT), CleanText)

    def test_a_dry_run_tells_that_it_would_store(self, bench):
        assert bench.notes(NODE, **PROMPT) == []
        bench.discussion_id = "d"
        assert len(bench.notes(NODE, **PROMPT)) == 1
