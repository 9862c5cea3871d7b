"""Chats (workbench.md 14): which runs belong together, and what memory holds of one."""

from __future__ import annotations

import json

import pytest

from Middleware.api.console.chat_views import PAGE, Makers, Row
from Middleware.services.discussion_store import MEMORIES, SUMMARY, ChunkList, DiscussionStore, Entry
from Middleware.services.timestamp_service import FILE as TIMES_FILE
from Middleware.utilities.hashing_utils import message_hash
from tests.api.console.chat_house import WALL, chats, house, ran, remembered
from tests.api.console.traced import call_of, node_of

assert house and chats


def listed(chats):
    status, told = chats.ask("GET", "chats")
    assert status == 200
    return told["chats"]


class TestList:
    def test_runs_of_one_discussion_are_one_row(self, chats):
        """Newest first, with the number of the last turn and the state of the last run."""
        ran(chats, "trip3", 13)
        ran(chats, "quotes", 3, model="mira:novel")
        ran(chats, "trip3", 14, state="failed")
        assert listed(chats) == [
            {"user": "mira", "id": "trip3", "mark": None, "name": "mira", "turns": 14, "runs": 2, "last": WALL + 2, "state": "failed", "level": "bad"},
            {"user": "mira", "id": "quotes", "mark": None, "name": "mira:novel", "turns": 3, "runs": 1, "last": WALL + 1, "state": "done", "level": None},
        ]  # fmt: skip

    def test_runs_without_one_are_the_last_row(self, chats):
        ran(chats, "trip3", 1)
        ran(chats, "", 0)
        ran(chats, "", 0)
        assert [(one["id"], one["runs"], one["name"]) for one in listed(chats)] == [
            ("trip3", 1, "mira"),
            (None, 2, None),
        ]

    def test_a_private_chat_is_a_mark(self, chats):
        """Two runs of one chat have one; it has no page."""
        private = {"discussion": "", "private": True, "chat_mark": "3f9a1b2c", "keeps_text": False}
        ran(chats, turn=1, **private)
        ran(chats, turn=2, **private)
        (row,) = listed(chats)
        assert (row["id"], row["mark"], row["turns"]) == (None, "3f9a1b2c", 2)

    def test_the_same_id_of_two_users_is_two_chats(self, chats):
        ran(chats, user="mira")
        ran(chats, user="jo")
        assert [one["user"] for one in listed(chats)] == ["jo", "mira"]

    def test_background_tasks_are_left_out(self, chats):
        ran(chats, task="title")
        assert listed(chats) == []


class TestChat:
    def test_tries_of_one_turn_stand_together(self, chats):
        """From the top, each with what the user wrote and what came."""
        body = json.dumps(
            {
                "messages": [
                    {"role": "user", "content": "Tell it from her side.[DiscussionId]trip3[/DiscussionId]"}
                ]
            }
        ).encode()
        ran(chats, "trip3", 12, node_of(1, "Answer", answers=True, output="It did not go out."), asked=body)
        ran(chats, "trip3", 13)
        ran(chats, "trip3", 13)
        status, told = chats.ask("GET", "chats/mira/trip3")
        assert status == 200
        assert [(turn["n"], turn["runs"]) for turn in told["turns"]] == [(12, ["r0"]), (13, ["r1", "r2"])]
        (row,) = told["turns"][0]["rows"]
        assert (row["question"], row["answer"]) == ("Tell it from her side.", "It did not go out.")
        assert told["memory"] == [
            {"kind": kind, "count": 0} for kind in ("memories", "summary", "state", "vectors", "times")
        ]

    def test_a_chat_that_memory_alone_knows(self, chats):
        """After a restart no run of it is kept."""
        remembered(chats, "Ada keeps the knife.")
        status, told = chats.ask("GET", "chats/mira/trip3")
        assert (status, told["turns"], told["memory"][0]) == (200, [], {"kind": "memories", "count": 1})

    @pytest.mark.parametrize(
        "path", ["mira/none", "jo/trip3", "nobody/trip3", "mira/..", "mira/.making-x", "mira/%2e%2e"]
    )
    def test_an_id_that_no_list_has(self, chats, path):
        """No path is joined: other spellings are other names."""
        remembered(chats, "Ada keeps the knife.")
        (chats.root_of_chats / ".making-x").mkdir()
        assert chats.ask("GET", f"chats/{path}")[0] in (404, 422)

    def test_a_private_user_has_no_page(self, chats, tmp_path):
        """Whoever was kept before."""
        ran(chats)
        remembered(chats, "a secret")
        chats.write(
            "Users/mira.json",
            {"port": 5000, "redactLogOutput": True, "discussionDirectory": str(tmp_path / "chats")},
        )
        for path in ("chats/mira/trip3", "chats/mira/trip3/memory"):
            status, told = chats.ask("GET", path)
            assert status == 404 and "private" in told["error"] and "a secret" not in json.dumps(told)

    def test_an_encrypting_user_says_so(self, chats, tmp_path):
        chats.write(
            "Users/mira.json",
            {"port": 5000, "encryptUsingApiKey": True, "discussionDirectory": str(tmp_path / "chats")},
        )
        ran(chats)
        status, told = chats.ask("GET", "chats/mira/trip3")
        assert status == 200 and "encrypted" in told["why"]

    def test_memories_of_a_key_lie_in_its_folder(self, chats):
        ran(chats, chat_folder="a" * 64)
        ChunkList(DiscussionStore(chats.root_of_chats, "trip3", key_hash="a" * 64), MEMORIES).append(
            Entry("of the key", "h"), after=None
        )
        status, told = chats.ask("GET", "chats/mira/trip3/memory")
        assert status == 200 and [row["text"] for row in told["rows"]] == ["of the key"]


class TestMemory:
    def rows(self, chats, query=""):
        status, told = chats.ask("GET", "chats/mira/trip3/memory", query=query)
        assert status == 200, told
        return told

    def test_file_memories_newest_first(self, chats):
        remembered(chats, "one", "two")
        assert [(row["text"], row["from"]) for row in self.rows(chats)["rows"]] == [
            ("two", "f2"),
            ("one", "f1"),
        ]

    def test_fifty_at_a_time(self, chats):
        remembered(chats, *(f"memory {n}" for n in range(PAGE + 2)))
        first = self.rows(chats)
        rest = self.rows(chats, f"offset={first['next']}")
        assert (len(first["rows"]), first["next"], len(rest["rows"]), rest["next"]) == (PAGE, PAGE, 2, None)

    def test_search_whatever_the_case(self, chats):
        remembered(chats, "Ada keeps the  KNIFE.", "The ferry waits.")
        assert [row["text"] for row in self.rows(chats, "text=the knife")["rows"]] == [
            "Ada keeps the  KNIFE."
        ]

    def test_the_summary_and_the_state_document(self, chats):
        store = remembered(chats, "one")
        ChunkList(store, SUMMARY).append(Entry("All in all.", "h0"), after=None)
        store.update_text("state_document.md", lambda old: "# State")
        assert [row["text"] for row in self.rows(chats, "kind=summary")["rows"]] == ["All in all."]
        assert [row["text"] for row in self.rows(chats, "kind=state")["rows"]] == ["# State"]

    def test_the_times_of_messages(self, chats):
        """In the words of the newest run, where it has them."""
        message = {"role": "user", "content": "She walks down."}
        body = json.dumps({"messages": [message]}).encode()
        ran(chats, "trip3", 1, asked=body)
        stamps = {
            "gone": "(Friday, 2025-10-10 09:00:00)",
            message_hash(message): "(Friday, 2025-10-10 09:00:01)",
        }
        DiscussionStore(chats.root_of_chats, "trip3").update_json(TIMES_FILE, lambda old: stamps, {}, dict)
        texts = [row["text"] for row in self.rows(chats, "kind=times")["rows"]]
        assert texts == ["She walks down.", "a message that no kept run has"]

    def test_who_made_a_memory(self, chats):
        """The run of whose memory nodes a call gave its text; of others nothing is said."""
        call = call_of(cleaned='["Ada keeps  the knife.", "More"]')
        ran(chats, "trip3", 12, node_of(1, "Answer", call_of(cleaned="The ferry waits.")))
        ran(chats, "trip3", 13, node_of(6, "Remember", call, type="QualityMemory"))
        remembered(chats, "The ferry waits.", "Ada keeps the knife.")
        made = {row["text"]: row["made_by"] for row in self.rows(chats)["rows"]}
        assert made == {"The ferry waits.": None, "Ada keeps the knife.": {"run": "r1", "turn": 13}}

    def test_a_call_of_a_workflow_that_a_memory_node_called(self, chats):
        parent = node_of(6, "Remember", type="QualityMemory")
        run = ran(chats, "trip3", 13, parent, node_of(1, "Write", call_of(cleaned="Ada."), parent=parent))
        assert Makers([run]).of(Row("Ada.")) is run

    @pytest.mark.parametrize(
        ("at", "is_its"), [(WALL - 1, False), (WALL, True), (WALL + 1, True), (WALL + 5, False)]
    )
    def test_a_vector_memory_is_told_by_its_time(self, chats, at, is_its):
        run = ran(chats, "trip3", 13)
        assert (Makers([run]).of(Row("Ada.", at, "v1")) is run) is is_its

    @pytest.mark.parametrize("query", ["kind=other", "offset=-1", "offset=x", "more=1"])
    def test_odd_questions(self, chats, query):
        ran(chats)
        assert chats.ask("GET", "chats/mira/trip3/memory", query=query)[0] == 400


def test_runs_of_a_chat_are_a_filter(chats):
    """As the page of the chat asks for them."""
    ran(chats, "trip3", 1)
    ran(chats, "quotes", 1)
    status, told = chats.ask("GET", "runs", query="discussion=trip3")
    assert status == 200 and [(run["id"], run["discussion"]) for run in told["runs"]] == [("r0", "trip3")]
