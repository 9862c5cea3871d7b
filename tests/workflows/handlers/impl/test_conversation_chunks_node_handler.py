"""ConversationChunkProcessor: whole chunks, each once, as far as the cursor remembers."""

from __future__ import annotations

import json
import os
import threading

import pytest

from Middleware.common.errors import ConfigError, RequestCancelled
from Middleware.services.file_memories import End
from Middleware.utilities.file_utils import PathLeaves
from Middleware.utilities.hashing_utils import StampedMessage, message_hash, shown_hash
from Middleware.workflows.handlers.base.base_workflow_node_handler import ChildName
from Middleware.workflows.handlers.impl import conversation_chunks_node_handler
from Middleware.workflows.handlers.node_types import node_handler
from Middleware.workflows.memory.chunking import unprocessed_range

TYPE = "ConversationChunkProcessor"


def talk(count, start=0, text="m"):
    return [{"role": "user", "content": f"{text}{n}"} for n in range(start, start + count)]


@pytest.fixture
def run(bench, tmp_path):
    """The node with lookback 0 and chunks of 10; the count of its output, the texts of the children."""
    bench.discussion_id = "d1"
    bench.engine.fixed["dir"] = str(tmp_path / "cursors")

    def call(**fields):
        return bench(
            TYPE,
            **{
                "id": "time-line.1",
                "workflowName": "Add",
                "lookbackMessages": 0,
                "cursorDirectory": "{dir}",
                **fields,
            },
        )

    return call


def done(count):
    return f"ConversationChunkProcessor 'time-line.1' processed {count} chunk(s)."


@pytest.fixture
def cursor(tmp_path):
    return tmp_path / "cursors" / "chunk_cursor_time-line.1_d1.txt"


def test_without_a_place_for_locks_the_work_goes_on(bench, run, cursor, monkeypatch):
    """Somebody else's folder stands there: neither the turn nor the cursor can be kept, and the log says so."""

    def refused(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(conversation_chunks_node_handler, "lock_file_for", refused)
    bench.messages = talk(10)
    assert run() == done(1)
    assert bench.engine.warnings == [
        f"no lock can be kept for the cursor {cursor}: Permission denied",
        f"the cursor {cursor} cannot be written: Permission denied",
    ]


class TestKeys:
    """Chats of two keys may have the same id and the same messages (keys.md 1, memory.md 13.1)."""

    @pytest.fixture
    def run_of(self, bench, run):
        def call(key):
            bench.facts = {"api_key_hash": key}
            return run()

        return call

    def test_each_key_has_its_own_cursor(self, bench, run_of):
        """Without a key, too."""
        bench.messages = talk(25)
        assert [run_of(key) for key in ("ann", "bob", None)] == [done(2)] * 3
        assert [run_of(key) for key in ("ann", "bob", None)] == [done(0)] * 3

    def test_its_file_lies_in_the_folder_of_the_key(self, bench, run_of, cursor):
        bench.messages = talk(10)
        run_of("ann")
        assert (cursor.parent / "ann" / cursor.name).exists() and not cursor.exists()

    def test_an_older_cursor_is_taken_over_by_the_key_whose_chat_it_knows(self, bench, run_of, cursor):
        """With what lies beside it. What was handed on before keys had folders is not handed on again."""
        bench.messages = talk(25)
        run_of(None)
        bench.messages = talk(10, text="other")
        assert run_of("bob") == done(1)
        bench.messages = talk(30)
        assert [run_of("ann"), run_of("ann")] == [done(1), done(0)]
        assert sorted(path.name for path in cursor.parent.iterdir()) == ["ann", "bob"]
        assert len((cursor.parent / "ann" / cursor.name).read_text().split()) == 3

    def test_an_older_cursor_counts_also_while_nothing_is_due(self, bench, run_of, cursor):
        bench.messages = talk(20)
        run_of(None)
        assert run_of("ann") == done(0) and cursor.exists()


class TestVectors:
    """The vectors of the specification."""

    def test_25_messages_are_two_chunks_and_then_none(self, bench, run, cursor):
        bench.messages = talk(25)
        assert [run(), run()] == [done(2), done(0)]
        assert cursor.read_text().split() == [message_hash(bench.messages[n]) for n in (9, 19)]

    def test_rewritten_messages_are_processed_again(self, bench, run):
        bench.messages = talk(30)
        run()
        bench.messages[20:] = talk(10, text="new")
        assert run() == done(1)
        assert bench.engine.children[-1].messages == talk(10, text="new")

    def test_a_trimmed_history_gives_exactly_the_new_messages(self, bench, run):
        bench.messages = talk(30)
        run()
        bench.messages = [*talk(27, 3), *talk(10, 30)]
        assert run() == done(1)
        assert bench.engine.children[-1].messages == talk(10, 30)

    @pytest.mark.parametrize(
        ("count", "stored", "lookback", "place"),
        [
            (10, [4], 3, (5, 7)),
            (10, [7], 3, (7, 7)),
            (10, [8], 3, (7, 7)),
            (10, [], 3, (0, 7)),
            (10, [99], 0, (0, 10)),
            (10, [9], 0, (10, 10)),
            (3, [0], 4, (0, 0)),
            (3, [0], 3, (0, 0)),
            (10, [1, 5], 0, (6, 10)),
        ],
        ids=[
            "middle",
            "at-the-boundary",
            "history-shrunk-by-more",
            "no-cursor",
            "no-hit",
            "last",
            "short",
            "all-back",
            "newest-hit",
        ],
    )
    def test_matching(self, count, stored, lookback, place):
        ends = [End(message_hash(talk(1, n)[0])) for n in stored]
        assert unprocessed_range(talk(count), ends, lookback) == place


class TestChild:
    """What the child workflow is given."""

    def test_text_inputs_messages_and_role(self, bench, run):
        bench.messages = [*talk(1), {"role": "assistant", "content": "x", "images": ["i"]}, {"role": "tool"}]
        bench.engine.values["worker"] = "big"
        run(chunkSize=3, scoped_variables=["{worker}", 5])
        (call,) = bench.engine.children
        assert (call.name, call.folder, call.inputs) == ("Add", None, ("m0\nx\n", "big", "5"))
        assert (call.internal, call.with_tools) == (True, False)
        assert call.messages == bench.messages and call.messages[0] is not bench.messages[0]

    def test_a_failed_child_stops_and_the_next_turn_resumes(self, bench, run):
        bench.messages = talk(30)

        def fails_at_the_second(call):
            if call.messages[0]["content"] == "m10":
                raise ConfigError("no model")

        bench.engine.child = fails_at_the_second
        with pytest.raises(ConfigError):
            run()
        bench.engine.child = lambda call: None
        assert run() == done(2)

    def test_a_cancelled_request_stops_between_chunks(self, bench, run, cursor):
        bench.messages = talk(20)

        def child(call):
            bench.engine.cancelled = True

        bench.engine.child = child
        with pytest.raises(RequestCancelled):
            run()
        assert len(cursor.read_text().split()) == 1

    def test_it_is_known_before_it_runs(self):
        children = node_handler(TYPE).children
        assert children({"workflowName": "Add", "scoped_variables": ["a"]}) == [
            ChildName("/workflowName", "Add", None, 2)
        ]
        assert children({"workflowName": "Add"}) == [ChildName("/workflowName", "Add", None, 1)]
        assert children({}) == []


class TestCursor:
    """One hash per line; trouble with the file is never the user's."""

    def test_timestamps_do_not_change_it_and_the_peers_hashes_count(self, bench, run, cursor):
        bench.messages = [StampedMessage(m, f"(now) {m['content']}") for m in talk(10)]
        assert run() == done(1)
        assert cursor.read_text().split() == [message_hash(talk(1, 9)[0])]
        cursor.write_text(shown_hash(bench.messages[9]))
        assert run() == done(0)

    def test_messages_that_say_the_same_are_handed_on_all_the_same(self, bench, run, cursor):
        """Every other one is `go`, and chunks end with it."""
        texts = [text for number in range(20) for text in (f"a{number}", "go")]
        handed = []
        for count in range(2, len(texts) + 1, 2):
            bench.messages = [{"role": "user", "content": text} for text in texts[:count]]
            run(chunkSize=4, lookbackMessages=2)
        for call in bench.engine.children:
            handed += [message["content"] for message in call.messages]
        assert handed == texts[:36]
        assert len(cursor.read_text().split()) == 9

    def test_what_each_chunk_holds_is_kept_beside_it(self, bench, run, cursor):
        """A file that is damaged, or gone, leaves the hashes of the cursor."""
        bench.messages = talk(25)
        run()
        beside = cursor.with_name("chunk_cursor_time-line.1_d1_ends.json")
        assert [len(line["messages"]) for line in json.loads(beside.read_text())] == [10, 10]
        beside.write_text("[{")
        assert run() == done(0)

    def test_a_history_that_is_shorter_for_once_hands_on_nothing_twice(self, bench, run):
        bench.messages = talk(25)
        run()
        bench.messages = talk(18)
        assert run(chunkSize=4) == done(0)

    def test_two_requests_at_once_hand_on_each_chunk_once(self, bench, run):
        """The second one waits for the first, and then finds nothing to do."""
        bench.messages = talk(20)
        outputs, second = [], threading.Thread(target=lambda: outputs.append(run()))

        def child(call):
            if len(bench.engine.children) == 1:
                second.start()

        bench.engine.child = child
        assert run() == done(2)
        second.join()
        assert (outputs, len(bench.engine.children)) == ([done(0)], 2)

    def test_a_file_without_a_last_line_end_is_continued(self, bench, run, cursor):
        bench.messages = talk(10)
        cursor.parent.mkdir()
        cursor.write_text("older")
        run()
        assert cursor.read_text() == f"older\n{message_hash(bench.messages[9])}"

    def test_it_has_no_line_end_at_its_end(self, bench, run, cursor):
        """Other programs write it so; what they wrote with one is continued all the same."""
        run_one = f"{message_hash(talk(10)[9])}"
        bench.messages = talk(10)
        run(lookbackMessages=0)
        assert cursor.read_text() == run_one
        cursor.write_text("older\n")
        run(lookbackMessages=0)
        assert cursor.read_text() == f"older\n{run_one}"

    def test_an_unreadable_one_is_none(self, bench, run, cursor):
        bench.messages = talk(10)
        cursor.parent.mkdir()
        cursor.write_bytes(b"\xff")
        assert run() == done(1)

    def test_a_failed_write_is_a_warning(self, bench, run, monkeypatch):
        def full(*_):
            raise OSError(28, "no space")

        monkeypatch.setattr(conversation_chunks_node_handler, "atomic_write", full)
        bench.messages = talk(20)
        assert run() == done(2)
        assert "cannot be written: no space" in bench.engine.warnings[0]


class TestOutput:
    """A count, or the text of a file."""

    @pytest.mark.parametrize("discussion_id", [None, ""])
    def test_without_a_discussion_nothing_is_processed_or_checked(self, bench, run, discussion_id):
        bench.discussion_id = discussion_id
        bench.messages = talk(50)
        assert run(chunkSize=0, workflowName="", cursorDirectory=None) == done(0)

    def test_fewer_messages_than_the_lookback(self, bench, run):
        bench.messages = talk(4)
        assert run(chunkSize=1, lookbackMessages=None) == done(0)

    @pytest.mark.parametrize(
        ("content", "output"),
        [(None, ""), ("", "No additional information added"), ("a\nb\n", "a\nb\n")],
        ids=["missing", "empty", "text"],
    )
    def test_the_file_to_return(self, bench, run, tmp_path, content, output):
        if content is not None:
            (tmp_path / "t.md").write_text(content)
        bench.engine.fixed["file"] = str(tmp_path / "t.md")
        assert run(returnFile="{file}") == output

    def test_other_outcomes_of_the_file(self, bench, run, tmp_path):
        bench.engine.values["x"] = ""
        assert run(returnFile="{x}") == ""
        assert run(returnFile=str(tmp_path)).startswith("Error reading file: ")
        bench.engine.values["x"] = "../secret"
        assert run(returnFile=f"{tmp_path}/notes/{{x}}") == f"Error: path leaves {tmp_path}/notes"

    def test_a_cursor_folder_that_leaves_its_base_is_told(self, bench, run, tmp_path):
        bench.engine.values["x"] = "../../etc"
        assert run(cursorDirectory="{dir}/{x}") == f"Error: path leaves {tmp_path}/cursors"
        assert bench.engine.children == [] and os.listdir(tmp_path) == []


class TestFaults:
    """Errors of the configuration."""

    @pytest.mark.parametrize("value", [None, "", "  ", 3], ids=repr)
    @pytest.mark.parametrize("discussion_id", [None, "d1"])
    def test_an_id_is_always_needed(self, bench, run, value, discussion_id):
        bench.discussion_id = discussion_id
        with pytest.raises(ConfigError, match="needs an 'id'"):
            run(id=value)

    @pytest.mark.parametrize(
        ("fields", "names"),
        [
            ({"id": "a/b"}, "'id' may hold"),
            ({"id": "a b"}, "'id' may hold"),
            ({"workflowName": None}, "workflowName"),
            ({"chunkSize": 0}, "'chunkSize' must be an integer >= 1"),
            ({"chunkSize": "5"}, "'chunkSize'"),
            ({"chunkSize": True}, "'chunkSize'"),
            ({"lookbackMessages": -1}, "'lookbackMessages' must be an integer >= 0"),
            ({"lookbackMessages": 1.5}, "'lookbackMessages'"),
            ({"cursorDirectory": ""}, "needs a 'cursorDirectory'"),
            ({"cursorDirectory": "{empty}"}, "resolved to nothing"),
        ],
        ids=repr,
    )
    def test_the_other_fields(self, bench, run, fields, names):
        bench.engine.values["empty"] = " "
        with pytest.raises(ConfigError, match=names):
            run(**fields)

    def test_schema(self, bench):
        good = {"id": "a", "workflowName": "W", "cursorDirectory": "d"}
        assert bench.findings(TYPE, **good) == ([], [])
        assert bench.findings(TYPE, **{**good, "id": "a/b", "chunkSize": 0}) == (["/chunkSize", "/id"], [])
        assert len(bench.findings(TYPE)[0]) == 1


def test_a_dry_run_tells_how_many_chunks(bench, run, cursor):
    """Nothing is run or written."""
    bench.messages = talk(25)
    fields = {"id": "time-line.1", "workflowName": "Add", "lookbackMessages": 0, "cursorDirectory": "{dir}"}
    assert bench.notes(TYPE, **fields) == [f"would run 'Add' for 2 chunk(s) and write {cursor}"]
    bench.discussion_id = None
    assert bench.notes(TYPE, **fields) == []
    assert bench.engine.children == []


def test_leaving_the_base_is_a_refusal():
    """The error that becomes the text."""
    assert str(PathLeaves("/n")) == "path leaves /n"
