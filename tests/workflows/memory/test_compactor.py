"""The context compactor: windows, when it runs, what it stores, and what no crash may do. Source: spec memory.md 10."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from Middleware.common.errors import BackendError
from Middleware.services.compacted_messages import summary_end
from Middleware.services.discussion_store import ChunkList, Entry
from Middleware.utilities.steady_window import SteadyWindow
from Middleware.utilities.text_utils import stored_message_tokens
from Middleware.workflows.memory.compactor import compact, tagged_summaries, windows_of
from Middleware.workflows.memory.settings import COMPACTOR_KEYS, SettingsFile
from tests.patience import PATIENCE_S
from tests.workflows.memory.conftest import hash_of, talk

SMALL = {"endpointName": "e", "recentContextTokens": 4, "oldContextTokens": 4, "lookbackStartTurn": 0}
"""Two messages in each window."""


def settings(**fields):
    return SettingsFile("Compact", {**SMALL, **fields}, COMPACTOR_KEYS)


class Compacting:
    """Runs the compactor on a conversation; `calls`: what was asked."""

    def __init__(self, bench):
        self.bench, self.store = bench, bench.store
        self.replies = None
        bench.engine.reply = self.reply

    def reply(self, call):
        reply = self.replies.pop(0) if self.replies else f"reply {len(self.bench.engine.calls)}"
        if isinstance(reply, Exception):
            raise reply
        return reply

    def run(self, messages, **fields):
        self.bench.messages = messages
        self.bench.engine.calls.clear()
        compact(self.bench.context(""), self.store, settings(**fields))
        return [call.prompt for call in self.bench.engine.calls]

    def entries(self, name):
        return ChunkList(self.store, f"context_compactor_{name}.json").load()

    def put(self, name, *pairs):
        ChunkList(self.store, f"context_compactor_{name}.json").replace(*[Entry(*pair) for pair in pairs])


@pytest.fixture
def compacting(bench):
    return Compacting(bench)


def lines(*numbers):
    return "\n".join(f"{('user', 'assistant')[n % 2]}: word {n}" for n in numbers)


class TestWindows:
    """Recent and Old by their budgets, from the end."""

    @pytest.mark.parametrize(
        ("count", "fields", "place"),
        [
            (6, {}, (2, 4)),
            (4, {}, (0, 2)),
            (3, {}, (0, 1)),
            (6, {"recentContextTokens": 1}, (4, 6)),
            (7, {"lookbackStartTurn": 1}, (2, 4)),
            (6, {"lookbackStartTurn": 6}, (2, 4)),
            (6, {"wilmerContextEstimationLevel": "aggressive"}, (0, 3)),
            (6, {"wilmerContextEstimationLevel": "measured"}, (2, 4)),
        ],
        ids=[
            *("three-windows", "old-fits", "one-in-old", "recent-empty", "lookback", "short-chat", "level"),
            "what-a-process-measured-decides-nothing",
        ],
    )
    def test_where_they_begin(self, count, fields, place):
        windows = windows_of(talk(count), settings(**fields))
        assert (windows.old, windows.recent) == place

    @pytest.mark.parametrize(
        ("count", "fields"),
        [(2, {}), (1, {}), (3, {"lookbackStartTurn": 2}), (4, {"oldContextTokens": 1})],
        ids=["all-recent", "one-message", "too-few-left", "old-empty"],
    )
    def test_there_is_nothing_to_compact(self, count, fields):
        assert windows_of(talk(count), settings(**fields)) is None


WIDE = {"recentContextTokens": 400, "oldContextTokens": 400, "lookbackStartTurn": 5}
"""Some fifty messages in each window."""


class TestSteadyWindows:
    """`steadyWindow` of the settings: Recent begins at a place that stays (prompt-reuse.md 1)."""

    def chat(self, length):
        luck = random.Random(1)
        words = [str(luck.random()) for _ in range(length)]
        return [{"role": ("user", "assistant")[n % 2], "content": words[n]} for n in range(length)]

    def windows(self, steady, turns=range(160, 400, 2)):
        messages = self.chat(400)
        return [windows_of(messages[:end], settings(**WIDE, steadyWindow=steady)) for end in turns]

    @pytest.mark.parametrize(("steady", "least", "most"), [(False, 110, 119), (True, 1, 20)])
    def test_move_seldom(self, steady, least, most):
        """With the setting both stand for many turns; without it they move in each, with up to three calls."""
        windows = self.windows(steady)
        moves = sum(
            (a.messages[a.recent - 1], a.messages[a.old]) != (b.messages[b.recent - 1], b.messages[b.old])
            for a, b in pairwise(windows)
        )

        assert least <= moves <= most

    def test_hold_a_quarter_of_the_budget(self):
        """And two messages; never more than the budget."""
        for window in self.windows(True):
            recent = window.messages[window.recent :]
            assert 100 <= sum(stored_message_tokens(message["content"]) for message in recent) <= 400
            assert len(recent) >= 2

    def test_what_all_fits_is_recent(self):
        """Nothing is summarised before it has to be."""
        assert windows_of(self.chat(20), settings(**WIDE, steadyWindow=True)) is None

    def test_summary_and_window_of_a_node_meet(self, compacting):
        """The end of the summary is the message that a window by the compactor begins behind."""
        messages = self.chat(200)
        compacting.run(messages, **WIDE, steadyWindow=True)
        windows = windows_of(messages, settings(**WIDE, steadyWindow=True))

        steady = SteadyWindow(summary_end=summary_end(compacting.store))
        assert steady.begin(messages, 3) == windows.recent


class TestWork:
    """What is asked and stored."""

    def test_the_first_run_without_oldest(self, compacting):
        """One call; the boundary names the first message of Old."""
        prompts = compacting.run(talk(4), oldSectionPrompt="[MESSAGES_TO_SUMMARIZE]|[RECENT_MESSAGES]")
        assert prompts == [f"{lines(0, 1)}|{lines(2, 3)}"]
        assert compacting.entries("old") == (
            Entry("reply 1", hash_of(1)),
            Entry("__boundary__", f"0:{hash_of(0)}"),
        )
        assert compacting.entries("oldest") == ()

    def test_the_first_run_with_oldest(self, compacting):
        """Three calls; the oldest summary has the hash of the first message."""
        prompts = compacting.run(talk(6))
        assert prompts == [lines(2, 3), lines(0, 1), "\n\nreply 2"]
        assert compacting.entries("oldest") == (Entry("reply 3", hash_of(0)),)
        assert compacting.entries("old")[1] == Entry("__boundary__", f"2:{hash_of(2)}")

    def test_an_oldest_summary_that_was_lost_is_made_of_everything(self, compacting):
        """Not only of what has left Old since."""
        compacting.run(talk(6))
        compacting.store.path("context_compactor_oldest.json").unlink()
        assert compacting.run(talk(8))[1] == lines(0, 1, 2, 3)

    def test_only_what_has_left_old_is_folded_in(self, compacting):
        compacting.run(talk(6))
        assert compacting.run(talk(8)) == [lines(4, 5), lines(2, 3), "reply 3\n\nreply 2"]

    def test_unmoved_windows_ask_nothing(self, compacting):
        compacting.run(talk(6))
        assert compacting.run(talk(6)) == []

    @pytest.mark.parametrize("place", [2, 3], ids=["first-of-old", "last-of-old"])
    def test_an_edited_edge_of_old_runs_again(self, compacting, place):
        compacting.run(talk(6))
        edited = talk(6)
        edited[place] = {"role": "user", "content": "word x"}
        assert compacting.run(edited)[0] != ""

    def test_blank_replies_leave_the_raw_text(self, compacting):
        """The messages themselves are better than nothing."""
        compacting.replies = [" ", "", "\n"]
        compacting.run(talk(6))
        assert compacting.entries("old")[0].text == lines(2, 3)
        assert compacting.entries("oldest")[0].text == lines(0, 1)

    def test_a_blank_merge_keeps_the_existing_summary(self, compacting):
        compacting.run(talk(6))
        compacting.replies = ["old", "neutral", " "]
        compacting.run(talk(8))
        assert compacting.entries("oldest")[0].text == "reply 3"

    def test_texts_are_mere_text(self, compacting):
        """Neither variables nor placeholders."""
        trap = "{x} {} [RECENT_MESSAGES]"
        messages = [{"role": "user", "content": trap}, *talk(2)]
        compacting.bench.engine.values = {"x": "leak"}
        assert compacting.run(messages, oldContextTokens=100) == [f"user: {trap}"]

    def test_while_another_one_works_nothing_happens(self, compacting):
        import threading

        held, done = threading.Event(), threading.Event()

        def holder() -> None:
            with compacting.store.lease("compactor", None):
                held.set()
                done.wait(PATIENCE_S)

        thread = threading.Thread(target=holder)
        thread.start()
        held.wait(PATIENCE_S)
        assert compacting.run(talk(6)) == []
        done.set()
        thread.join()


def saying(*words):
    """One message each, all as long as those of `talk`."""
    return [{"role": "user", "content": f"word {word}"} for word in words]


class TestTheSameTextAgain:
    """A hash is no place when its text stands more than once."""

    def test_windows_that_move_from_one_to_another_are_summarised(self, compacting):
        """Both edges of Old say what they said before."""
        texts = ["go", "go", 0, "go", 1, "go", 2, 3]
        compacting.run(saying("go", "go", 0, 1))
        assert compacting.run(saying("go", "go", 0, 1, "go", "go", 2, 3)) != []
        compacting.run(saying(*texts[:5]), oldContextTokens=100)
        assert compacting.run(saying(*texts), oldContextTokens=100) != []

    def test_messages_that_were_deleted_before_them_move_no_window(self, compacting):
        """The texts at the edges stand only once: they are the same messages."""
        compacting.run(talk(8))
        assert compacting.run(talk(8)[1:]) == []

    def test_what_is_folded_in_begins_at_the_nearest_one(self, compacting):
        """Not at the first message of the conversation that says the same."""
        first = saying("go", 0, 1, 2, "go", 3, 4, 5)
        compacting.run(first)
        assert compacting.entries("old")[1].hash.startswith("4:")
        shorter = [first[0], *first[2:], *saying(6, 7)]
        assert compacting.run(shorter)[1] == "user: word go\nuser: word 3"


class TestBoundary:
    """Nothing is folded in twice."""

    def test_after_a_crash_between_the_two_files_nothing_is_folded_twice(self, compacting):
        """The oldest summary was saved, the old one was not."""
        compacting.run(talk(6))
        before = compacting.entries("old")
        compacting.run(talk(8))
        compacting.put("old", *[(entry.text, entry.hash) for entry in before])
        assert compacting.run(talk(8)) == [lines(4, 5)]

    def test_a_failing_model_leaves_both_files_as_they_were(self, compacting):
        compacting.run(talk(6))
        compacting.replies = ["old", BackendError("e", "overloaded", "busy")]
        with pytest.raises(BackendError):
            compacting.run(talk(8))
        assert compacting.entries("old")[1].hash == f"2:{hash_of(2)}"

    def test_the_state_of_another_program_is_continued(self, compacting):
        """It keeps the boundary in the old file only, in older files without an index."""
        compacting.put("old", ("o", hash_of(3)), ("__boundary__", hash_of(2)))
        compacting.put("oldest", ("theirs", hash_of(0)))
        assert compacting.run(talk(8)) == [lines(4, 5), lines(2, 3), "theirs\n\nreply 2"]

    def test_messages_that_moved_are_found_by_their_hash(self, compacting):
        compacting.put("old", ("o", hash_of(4)), ("__boundary__", f"7:{hash_of(3)}"))
        compacting.put("oldest", ("theirs", hash_of(0)))
        assert compacting.run(talk(8))[1] == lines(3)

    def test_an_edited_boundary_folds_nothing_again(self, compacting):
        """It begins behind the last message that is known to be in Oldest."""
        compacting.run(talk(6))
        compacting.run(talk(8))
        messages = talk(10)
        messages[4] = {"role": "user", "content": "word x"}
        assert compacting.run(messages)[1] == f"user: word x\n{lines(5)}"

    def test_an_edited_boundary_that_is_said_elsewhere_is_not_taken_for_that(self, compacting):
        """The next `go` in the history is another message."""
        compacting.run(saying("go", 0, 1, 2, "go", 3, 4, 5))
        edited = saying("go", 0, 1, 2, "x", 3, 4, 5, 6, 7)
        assert compacting.run(edited)[1] == "user: word x\nuser: word 3"

    def test_a_branch_goes_on_where_it_left(self, compacting):
        """What both have in common is in Oldest already; what only the branch has is folded in."""
        compacting.run(talk(12))
        branch = [*talk(5), *talk(9, "other")]
        assert compacting.run(branch)[1] == lines(*range(5)).replace("word", "other")

    def test_a_boundary_that_is_gone_falls_back_to_an_older_one(self, compacting):
        """Where older files do not say which messages are in Oldest: of the last three states."""
        compacting.run(talk(6))
        compacting.run(talk(8))
        states = [(each.text, each.hash.split()[0]) for each in compacting.entries("reach")]
        compacting.put("reach", *states)
        messages = talk(10)
        messages[4] = {"role": "user", "content": "word x"}
        assert compacting.run(messages)[1] == "\n".join([lines(2, 3), "user: word x", lines(5)])

    def test_what_is_in_oldest_stays_known_when_its_states_are_forgotten(self, compacting):
        """Three states are kept; a history without their newest messages is no new one."""
        for count in range(6, 22, 2):
            compacting.run(talk(count))
        assert len(compacting.entries("reach")) == 4
        branch = [*talk(3), *talk(9, "other")]
        assert compacting.run(branch)[1].startswith("user: other 0")

    def test_without_any_known_boundary_oldest_is_made_anew(self, compacting):
        """In one pass, without the text that is there."""
        compacting.put("old", ("o", "gone"), ("__boundary__", "3:gone"))
        compacting.put("oldest", ("theirs", "gone"))
        assert compacting.run(talk(6))[1:] == [lines(0, 1), "\n\nreply 2"]
        assert "the summary is rebuilt" in compacting.bench.engine.warnings[0]

    def test_a_history_that_shrank_folds_nothing(self, compacting):
        """What is in Oldest stays there."""
        compacting.run(talk(10))
        assert len(compacting.run(talk(8))) == 1


def test_the_output_leaves_empty_parts_out(compacting):
    assert tagged_summaries(compacting.store) == ""
    compacting.put("oldest", ("text", "h"))
    compacting.put("old", ("", "h"), ("__boundary__", "0:h"))
    assert tagged_summaries(compacting.store) == "<context_compactor_oldest>text</context_compactor_oldest>"


@pytest.mark.parametrize(("said", "limit"), [({}, 750), ({"maxResponseSizeInTokens": 90}, 90)])
def test_how_long_a_summary_may_become(compacting, said, limit):
    nodes = []
    compacting.bench.engine.dispatch = lambda context, call: nodes.append(context.config) or "short"
    compacting.run(talk(12), **said)
    assert {node["maxResponseSizeInTokens"] for node in nodes} == {limit}
