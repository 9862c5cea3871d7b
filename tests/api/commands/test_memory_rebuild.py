"""`--memory rebuild`: what it reads, prints and gives back. Source: spec memory.md 15."""

from __future__ import annotations

import json

import pytest
import responses

from Middleware.services.discussion_store import ChunkList
from Middleware.utilities.hashing_utils import message_hash


class TestRebuild:
    """rebuild."""

    @pytest.fixture
    def chat(self):
        with responses.RequestsMock(assert_all_requests_are_fired=False) as network:
            body = {"choices": [{"message": {"content": "a note"}, "finish_reason": "stop"}]}
            network.post("http://chat.test/v1/chat/completions", json=body)
            yield network

    @pytest.fixture
    def file(self, tmp_path):
        path = tmp_path / "talk.json"
        path.write_text(json.dumps([{"role": "user", "content": f"word {i}"} for i in range(3)]))
        return str(path)

    def test_memories_are_made_anew(self, memory_of, house, chat, file):
        house.remember()
        assert "3 messages in 3 chunks would replace" in memory_of("rebuild", "trip", file, preview=True)[1]
        assert len(chat.calls) == 0
        assert memory_of("rebuild", "trip", file)[0] == 0
        assert [entry.text for entry in ChunkList(house.store(), "memories.json").load()] == ["a note"] * 3

    def test_what_is_left_makes_it_undone(self, memory_of, house, chat, file):
        blank = {"choices": [{"message": {"content": " "}, "finish_reason": "stop"}]}
        chat.replace("POST", "http://chat.test/v1/chat/completions", json=blank)
        status, text = memory_of("rebuild", "trip", file)
        assert (status, "3 chunks gave no memory" in text) == (1, True)

    def test_too_few_messages_change_nothing(self, memory_of, house, file):
        house.settings(chunkEstimatedTokenSize=1000)
        status, text = memory_of("rebuild", "trip", file)
        assert (status, "3 messages are too few or too short for a memory" in text) == (1, True)

    def test_tags_of_the_file_are_no_part_of_what_is_remembered(self, memory_of, house, chat, tmp_path):
        """As in a chat: the next one finds its messages again, and a message of nothing but a tag is none."""
        house.settings(prompt="[TextChunk]")
        tag = "[DiscussionId]trip[/DiscussionId]"
        talk = [
            {"role": "user", "content": f"word 0{tag}"},
            {"role": "user", "content": tag},
            {"role": "assistant", "content": "word 1"},
        ]
        (tmp_path / "talk.json").write_text(json.dumps(talk))
        assert memory_of("rebuild", "trip", str(tmp_path / "talk.json"))[0] == 0
        assert [entry.hash for entry in ChunkList(house.store(), "memories.json").load()] == [
            message_hash({"content": "word 0"}),
            message_hash({"content": "word 1"}),
        ]

    def test_the_turn_that_is_to_be_answered_is_no_message(self, memory_of, house, chat, file):
        """Users may have an empty or begun one put behind the conversation of each request."""
        house.write(
            "Users/alice",
            {
                "discussionIdMemoryFileWorkflowSettings": "Memory",
                "chatCompleteAddUserAssistant": True,
                "chatCompletionAddMissingAssistantGenerator": True,
            },
        )
        memory_of("rebuild", "trip", file)
        newest = ChunkList(house.store(), "memories.json").load()[-1]
        assert newest.hash == message_hash({"content": "User: word 2"})

    @pytest.mark.parametrize(
        ("document", "message"),
        [
            (b"{}", "found no list, allowed: a JSON list of messages"),
            (b"[", "odd.json:1:2: not JSON: Expecting value"),
            (b"[1]", "messages[0] must be an object"),
            (b"\xff", "odd.json:1:1: not UTF-8 text; save it as UTF-8"),
            (b"[" * 100_000, "nested too deeply"),
        ],
        ids=range(5),
    )
    def test_a_file_of_something_else_is_an_error(self, memory_of, tmp_path, document, message):
        (tmp_path / "odd.json").write_bytes(document)
        status, text = memory_of("rebuild", "trip", str(tmp_path / "odd.json"))
        assert (status, text.startswith(f"error: {tmp_path / 'odd.json'}:"), message in text) == (
            1,
            True,
            True,
        )

    @pytest.mark.parametrize("name", [".making-trip", ".lock", " "])
    def test_names_of_the_house_are_no_discussions(self, memory_of, file, name):
        status, text = memory_of("rebuild", name, file)
        assert (status, text) == (1, f"error: {name!r} cannot be a discussion id\n")
