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

    def test_progress_is_lines_where_there_is_no_terminal(self, memory_of, house, chat, file):
        text = memory_of("rebuild", "trip", file)[1]
        assert text.splitlines()[:3] == ["memories: 1 of 3", "memories: 2 of 3", "memories: 3 of 3"]

    def test_a_long_conversation_has_twenty_lines(self, memory_of, house, chat, tmp_path):
        talk = [{"role": "user", "content": f"word {i}"} for i in range(50)]
        (tmp_path / "long.json").write_text(json.dumps(talk))
        lines = memory_of("rebuild", "trip", str(tmp_path / "long.json"))[1].splitlines()
        progress = [line for line in lines if line.startswith("memories: ")]
        assert (len(progress), progress[-2:]) == (20, ["memories: 48 of 50", "memories: 50 of 50"])

    def test_what_is_forgotten_is_passed_over(self, memory_of, house, chat, file):
        memory_of("rebuild", "trip", file)
        memory_of("forget", "trip", "f2")
        status, text = memory_of("rebuild", "trip", file)
        assert (status, "the new memories cover 2 chunks" in text) == (0, True)
        assert [entry.text for entry in ChunkList(house.store(), "memories.json").load()] == [
            "a note",
            "",
            "a note",
        ]

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
            (b"[", "odd.json:1:2: not JSON: the file ends here; a closing ] or } is missing"),
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
        assert (status, text) == (1, f"error: {name!r} is not a valid discussion id\n")


class TestNothingComes:
    """A model that gives no facts: it is asked five times, and everything is said once."""

    @pytest.fixture
    def facts(self, house, tmp_path):
        """Runs a rebuild of 12 chunks with a model that answers as told; its exit status, text and calls."""
        talk = [{"role": "user", "content": f"word {i}"} for i in range(12)]
        (tmp_path / "talk.json").write_text(json.dumps(talk))
        house.settings(
            useVectorForQualityMemory=True, vectorMemoryChunkEstimatedTokenSize=2, embeddingEndpointName=""
        )

        def run(memory_of, answer, **options):
            with responses.RequestsMock() as network:
                body = {"choices": [{"message": {"content": answer}, "finish_reason": "stop"}]}
                network.post("http://chat.test/v1/chat/completions", json=body)
                status, text = memory_of("rebuild", "trip", str(tmp_path / "talk.json"), **options)
                return status, text, len(network.calls)

        return run

    def test_it_stops_after_five_chunks(self, memory_of, facts):
        status, text, calls = facts(memory_of, "I am sorry.")
        assert (status, calls) == (1, 5)
        assert "trip: stopped, because 5 chunks in a row gave no memory (the reply contains no JSON" in text

    def test_each_warning_is_printed_once_with_its_number(self, memory_of, facts):
        lines = facts(memory_of, "I am sorry.")[1].splitlines()
        warnings = [line for line in lines if "gave no memory and is tried again later" in line]
        assert len(warnings) == 1
        assert warnings[0].startswith("warning, 5 times: ")

    def test_it_may_keep_going(self, memory_of, facts):
        """Each chunk is tried four times then."""
        status, text, calls = facts(memory_of, "I am sorry.", keep_going=True)
        assert (status, calls) == (1, 48)
        assert "trip: 12 chunks gave no memory, so the old memories stay" in text


class TestDocument:
    """The state document, where the settings ask for one."""

    @pytest.fixture
    def rebuilt(self, house, memory_of, tmp_path):
        """Rebuilds vector memories of three messages with a workflow for the document."""
        house.write("Workflows/alice/Facts", [{"type": "StaticResponse", "content": '{"summary": "a fact"}'}])
        house.settings(
            useVectorForQualityMemory=True,
            vectorMemoryChunkEstimatedTokenSize=2,
            vectorMemoryWorkflowName="Facts",
            embeddingEndpointName="",
            useStateDocument=True,
            stateDocumentWorkflowName="Merge",
        )
        talk = [{"role": "user", "content": f"word {i}"} for i in range(3)]
        (tmp_path / "talk.json").write_text(json.dumps(talk))

        def run(document, **options):
            house.write("Workflows/alice/Merge", [{"type": "StaticResponse", "content": document}])
            return memory_of("rebuild", "trip", str(tmp_path / "talk.json"), **options)

        return run

    def test_it_is_made(self, rebuilt, house):
        assert "the state document would be brought up to date" in rebuilt("doc", preview=True)[1]
        status, text = rebuilt("- a fact")
        assert status == 0
        assert text.splitlines()[-2:] == [
            "facts in the state document: 3 of 3",
            "trip: the state document is up to date",
        ]
        assert house.store().read_text("state_document.md") == "- a fact"

    def test_what_it_lacks_makes_it_undone(self, rebuilt, house):
        status, text = rebuilt(" ")
        assert (status, "trip: the state document lacks 3 facts" in text) == (1, True)
