"""`--memory search, edit, forget, pin, unpin, copy, undo`: what they print, do and give back. Source: spec operate.md 6."""

from __future__ import annotations

import io
import json
import sys

import pytest
import responses

from Middleware.services.discussion_store import ChunkList, Entry
from Middleware.utilities.encryption_utils import TOKEN_START, derive_key
from Middleware.workflows.memory.vector_store import ChunkRecord, VectorDatabase

HASH = "62af8704764faf8e"
FACTS = [
    {"title": "Debt", "summary": "Theo owes Mara a ticket.", "entities": ["Theo"], "key_phrases": ["debt"]},
    {"title": "Fear", "summary": "Mara fears water.", "entities": ["Mara"], "key_phrases": ["fear"]},
]


@pytest.fixture
def trip(house):
    """File memories, vector memories, summary and state document."""
    store = house.store()
    texts = ["They met in the old harbour.", "Theo sold the map.", "They sailed at dawn."]
    ChunkList(store, "memories.json").replace(*[Entry(text, f"h{at}") for at, text in enumerate(texts)])
    ChunkList(store, "chat_summary.json").replace(Entry("Theo sold the map. Then they sailed.", "h2"))
    store.update_text("state_document.md", lambda _: "- Mara fears water.")
    VectorDatabase(store).save(ChunkRecord("c", ("c",)), FACTS, after=None)
    return store


def texts(store):
    return [entry.text for entry in ChunkList(store, "memories.json").load()]


class TestLooking:
    """search; show prints the same numbers."""

    def test_everything_that_contains_the_text_is_printed_under_its_number(self, memory_of, trip):
        status, text = memory_of("search", "trip", "theo  SOLD")
        assert status == 0
        assert "f2, memory 2:\nTheo sold the map.\n" in text
        assert "summary:\nTheo sold the map. Then they sailed.\n" in text
        assert text.endswith("2 places found: f2, summary\n")

    def test_a_vector_memory_has_its_date(self, memory_of, trip):
        text = memory_of("search", "trip", "fears")[1]
        assert "v2, vector memory of 20" in text
        assert "state, state document:\n- Mara fears water.\n" in text

    def test_nothing_found_is_said(self, memory_of, trip):
        assert memory_of("search", "trip", "snow") == (0, "nothing contains 'snow'\n")

    def test_show_prints_the_numbers_and_the_pins(self, memory_of, trip):
        memory_of("pin", "trip", "f3")
        text = memory_of("show", "trip")[1]
        assert "f3, memory 3, pinned:\nThey sailed at dawn.\n" in text
        assert "v2, vector memory of 20" in text
        assert "memories 3, vector memories 2\n" in text

    def test_a_discussion_that_is_not_there_is_an_error(self, memory_of, house):
        assert memory_of("search", "trip", "x")[0] == 1


class TestEdit:
    """edit."""

    def test_the_text_before_and_after_is_printed(self, memory_of, trip):
        status, text = memory_of("edit", "trip", "f2", "Theo kept the map.")
        assert status == 0
        assert "f2, memory 2 changed. Before:\nTheo sold the map.\n\nAfter:\nTheo kept the map.\n" in text
        assert "summary: still contains the old text; change it with --memory edit\n" in text
        assert texts(trip)[1] == "Theo kept the map."

    def test_the_text_may_come_from_stdin(self, memory_of, trip, monkeypatch):
        monkeypatch.setattr(sys, "stdin", io.StringIO("new\nlines\n"))
        assert memory_of("edit", "trip", "state", "-")[0] == 0
        assert trip.read_text("state_document.md") == "new\nlines"

    def test_a_preview_changes_nothing(self, memory_of, trip):
        assert "would change. Before:" in memory_of("edit", "trip", "summary", "x", preview=True)[1]
        assert ChunkList(trip, "chat_summary.json").load()[0].text.startswith("Theo sold")
        assert not (trip.folder / ".undo").exists()

    def test_a_vector_memory_gets_the_vector_of_its_new_text(self, memory_of, trip):
        VectorDatabase(trip).save_vectors("embedder", {1: [1.0], 2: [2.0]})
        with responses.RequestsMock() as network:
            network.post("http://embed.test/api/embed", json={"embeddings": [[5.0]]})
            assert memory_of("edit", "trip", "v1", "Theo paid.")[0] == 0
            assert json.loads(network.calls[0].request.body)["input"] == ["Theo paid."]
        assert VectorDatabase(trip).count_lacking("embedder") == 0

    def test_without_the_embeddings_server_it_has_none_for_now(self, memory_of, trip):
        VectorDatabase(trip).save_vectors("embedder", {1: [1.0], 2: [2.0]})
        with responses.RequestsMock() as network:
            network.post("http://embed.test/api/embed", status=500)
            status, text = memory_of("edit", "trip", "v1", "Theo paid.")
        assert (status, "It has no vector for now" in text) == (0, True)
        assert VectorDatabase(trip).without_vector("embedder", 9) == [(1, "Theo paid.")]

    @pytest.mark.parametrize(
        ("words", "why"),
        [
            (["f9", "x"], "there is no f9 in this discussion"),
            (["f0", "x"], "found 'f0', allowed: a number such as f12 or v40, summary, state"),
            (["12", "x"], "found '12', allowed: a number such as f12 or v40, summary, state"),
            (["f1", "  "], "the new text is blank; to remove a memory, forget it"),
        ],
        ids=str,
    )
    def test_what_cannot_be_done_is_one_sentence(self, memory_of, trip, words, why):
        assert memory_of("edit", "trip", *words) == (1, f"error: {why}\n")


class TestForget:
    """forget."""

    def test_what_is_forgotten_is_printed_and_where_its_text_still_is(self, memory_of, trip):
        status, text = memory_of("forget", "trip", "f2", "v2")
        assert status == 0
        assert "f2, memory 2: forgotten:\nTheo sold the map.\n" in text
        assert "summary: still contains the text; change it with --memory edit\n" in text
        assert "state, state document: still contains the text" in text
        assert texts(trip) == ["They met in the old harbour.", "", "They sailed at dawn."]
        assert "memories 2, vector memories 1" in memory_of("list")[1]

    def test_matching_takes_every_memory_with_the_text(self, memory_of, trip):
        status, text = memory_of("forget", "trip", matching="theo")
        assert (status, "f2, memory 2: forgotten" in text, "v1, vector memory" in text) == (0, True, True)

    def test_a_preview_changes_nothing(self, memory_of, trip):
        status, text = memory_of("forget", "trip", preview=True, matching="dawn", for_good=True)
        assert (status, "f3, memory 3: would be forgotten:" in text) == (0, True)
        assert "backups and earlier states would be deleted" in text
        assert "They sailed at dawn." in texts(trip)

    def test_one_number_that_is_not_there_and_nothing_is_forgotten(self, memory_of, trip):
        assert memory_of("forget", "trip", "f2", "v9") == (1, "error: there is no v9 in this discussion\n")
        assert "Theo sold the map." in texts(trip)

    def test_twice_is_said(self, memory_of, trip):
        memory_of("forget", "trip", "f2", "v1")
        assert memory_of("forget", "trip", "f2", "v1") == (
            0,
            "f2: was forgotten before\nv1: was forgotten before\n",
        )

    def test_numbers_and_a_text_are_a_usage_error(self, memory_of, trip):
        """Whoever gives both may mean the few that have both; all that have either would be gone."""
        status, text = memory_of("forget", "trip", "f2", matching="theo")
        assert (status, "forget: give an ID and the numbers of memories, or --matching TEXT" in text) == (
            2,
            True,
        )
        assert memory_of("forget", "trip", "f2")[1].startswith("f2, memory 2: forgotten")

    @pytest.mark.parametrize("number", ["summary", "state"])
    def test_the_other_texts_are_edited(self, memory_of, trip, number):
        why = f"{number}: only memories can be forgotten; edit the {number} instead"
        assert memory_of("forget", "trip", number) == (1, f"error: {why}\n")

    @pytest.mark.parametrize(
        ("words", "options", "why"),
        [
            (["list"], {"matching": "x"}, "list: --matching is not an option of this action"),
            (["undo", "trip"], {"for_good": True}, "undo: --for-good is not an option of this action"),
            (["forget", "trip", "f1"], {"keep_going": True}, "forget: --keep-going is not an option"),
        ],
        ids=str,
    )
    def test_an_option_of_another_action_is_a_usage_error(self, memory_of, trip, words, options, why):
        status, text = memory_of(*words, **options)
        assert (status, why in text) == (2, True)


class TestForGood:
    """forget --for-good."""

    def test_the_text_is_nowhere_in_the_folder(self, memory_of, trip):
        memory_of("edit", "trip", "f2", "SECRETWORD one")
        memory_of("edit", "trip", "f2", "SECRETWORD two")
        memory_of("edit", "trip", "v1", "SECRETWORD three")
        status, text = memory_of("forget", "trip", matching="secretword", for_good=True)
        assert (status, "so this can't be undone" in text) == (0, True)
        held = [
            path for path in trip.folder.rglob("*") if path.is_file() and b"SECRETWORD" in path.read_bytes()
        ]
        assert held == []
        assert memory_of("undo", "trip") == (1, "error: there is no correction to undo\n")

    def test_what_was_forgotten_before_can_be_forgotten_for_good(self, memory_of, trip):
        memory_of("forget", "trip", "f2")
        status, text = memory_of("forget", "trip", "f2", for_good=True)
        assert (status, text.startswith("f2: was forgotten before\n")) == (0, True)
        assert not (trip.folder / ".undo").exists()

    def test_damaged_files_are_named(self, memory_of, trip):
        aside = trip.folder / "memories.json.corrupt-2031"
        aside.write_text("Theo sold the map.")
        text = memory_of("forget", "trip", "f2", for_good=True)[1]
        assert f"{aside}: this damaged file may still contain the text" in text
        assert aside.exists()


class TestPins:
    """pin, unpin."""

    def test_a_pin_comes_and_goes(self, memory_of, trip):
        assert memory_of("pin", "trip", "v1") == (0, "v1: pinned:\nTheo owes Mara a ticket.\n")
        assert "v1, vector memory of 20" in memory_of("search", "trip", "ticket")[1]
        assert memory_of("unpin", "trip", "v1") == (0, "v1: no longer pinned:\nTheo owes Mara a ticket.\n")
        assert memory_of("unpin", "trip", "v1") == (0, "v1: isn't pinned\n")

    def test_a_preview_changes_nothing(self, memory_of, trip):
        assert "f1: would be pinned" in memory_of("pin", "trip", "f1", preview=True)[1]
        assert not trip.path("memory_pins.json").exists()

    def test_only_memories_are_pinned(self, memory_of, trip):
        assert memory_of("pin", "trip", "state") == (1, "error: state: only memories can be pinned\n")


class TestUndo:
    """undo."""

    def test_one_correction_after_the_other_is_undone(self, memory_of, trip):
        memory_of("edit", "trip", "f1", "one")
        memory_of("forget", "trip", "f2")
        status, text = memory_of("undo", "trip")
        assert (status, "trip: is as before the last correction, at 20" in text) == (0, True)
        assert "trip: memories 5, before 4\n" in text
        assert texts(trip)[:2] == ["one", "Theo sold the map."]
        memory_of("undo", "trip")
        assert texts(trip)[0] == "They met in the old harbour."
        assert memory_of("undo", "trip")[0] == 1

    def test_a_preview_changes_nothing(self, memory_of, trip):
        memory_of("edit", "trip", "f1", "one")
        assert "would be as before" in memory_of("undo", "trip", preview=True)[1]
        assert texts(trip)[0] == "one"


class TestCopy:
    """copy."""

    def test_an_old_chat_goes_on_in_a_new_one(self, memory_of, trip, house):
        would = "3 memories, 2 vector memories, the summary, the state document\n"
        assert memory_of("copy", "trip", "walk", preview=True) == (
            0,
            f"walk: would be copied from trip: {would}",
        )
        assert not house.store("walk").folder.exists()
        assert memory_of("copy", "trip", "walk") == (0, f"walk: copied from trip: {would}")
        assert texts(house.store("walk")) == texts(trip)
        assert memory_of("copy", "trip", "walk") == (
            0,
            "walk: nothing to copy; it has everything of trip already\n",
        )

    def test_not_to_itself(self, memory_of, trip):
        assert memory_of("copy", "trip", "trip") == (1, "error: a discussion can't be copied to itself\n")

    def test_it_is_undone_in_the_new_one(self, memory_of, trip, house):
        memory_of("copy", "trip", "walk")
        memory_of("undo", "walk")
        assert (texts(house.store("walk")), VectorDatabase(house.store("walk")).count()) == ([], 0)
        assert len(texts(trip)) == 3


class TestEncrypted:
    """With the key in the environment; what is kept to undo lies as encrypted as the files."""

    @pytest.fixture
    def secret(self, house, monkeypatch):
        monkeypatch.setenv("HEADRACE_API_KEY", "test-key")
        house.write(
            "Users/alice",
            {"encryptUsingApiKey": True, "discussionIdMemoryFileWorkflowSettings": "Memory"},
        )
        return house.remember(key_hash=HASH, encryption_key=derive_key("test-key", "alice"))

    def test_files_stay_encrypted(self, memory_of, secret):
        memory_of("pin", "trip", "f1")
        memory_of("forget", "trip", "f2")
        files = [path for path in secret.folder.rglob("*.json*") if path.is_file()]
        assert len(files) > 4
        assert {path.read_bytes()[:6] for path in files} == {TOKEN_START}
        memory_of("undo", "trip")
        assert texts(secret)[1] == "memory 1"

    def test_without_the_key_nothing_is_found(self, memory_of, secret, monkeypatch):
        monkeypatch.delenv("HEADRACE_API_KEY")
        assert memory_of("forget", "trip", "f2")[0] == 1

    def test_a_new_key_takes_what_is_kept_along(self, memory_of, secret, house, monkeypatch):
        memory_of("forget", "trip", "f2")
        monkeypatch.setenv("HEADRACE_NEW_API_KEY", "other")
        assert memory_of("rekey")[0] == 0
        monkeypatch.setenv("HEADRACE_API_KEY", "other")
        assert memory_of("undo", "trip")[0] == 0
        assert "f2, memory 2:\nmemory 1\n" in memory_of("search", "trip", "memory 1")[1]
