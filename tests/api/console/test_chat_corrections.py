"""What the page of a chat corrects in memory: each correction, its undo, and each refusal. Source: spec operate.md 6."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest
import responses

from Middleware.services.discussion_store import MEMORIES, SUMMARY, ChunkList, DiscussionStore, Entry
from Middleware.utilities.encryption_utils import TOKEN_START, api_key_hash, derive_key
from Middleware.workflows.memory.corrections import Corrections
from Middleware.workflows.memory.vector_store import ChunkRecord, VectorDatabase
from tests.api.console.chat_house import chats, house, ran, remembered

assert house and chats
KNIFE, FERRY = "Ada keeps her brother's knife.", "The ferry waits."
FACT = {"title": "Debt", "summary": "Theo owes Mara.", "entities": ["Theo"], "key_phrases": ["debt"]}
PATH = "chats/mira/trip3/memory"


@pytest.fixture(autouse=True)
def no_key(monkeypatch):
    for name in ("HEADRACE_API_KEY", "WILMER_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def trip(chats):
    """A chat with two file memories."""
    return remembered(chats, KNIFE, FERRY)


def texts(store):
    return [entry.text for entry in ChunkList(store, MEMORIES).load()]


def files(store):
    """Every file of the discussion but its lock, with its bytes."""
    paths = [path for path in store.folder.rglob("*") if path.is_file() and path.name != ".lock"]
    return {path: path.read_bytes() for path in paths}


def shown(chats, number, kind="memories"):
    """The row that the page has of a number."""
    rows = chats.ask("GET", PATH, query=f"kind={kind}")[1]["rows"]
    return next(row for row in rows if row["from"] == number)


def post(chats, act, number=None, kind="memories", path=PATH, **fields):
    """A correction of what the page shows under a number."""
    about = {} if number is None else {"number": number, "sum": shown(chats, number, kind)["sum"]}
    return chats.ask("POST", path, body={"act": act, **about, **fields})


class TestEdit:
    def test_the_text_is_another(self, chats, trip):
        status, told = post(chats, "edit", "f2", text="The ferry left.\n")
        assert (status, told["said"]) == (200, ["f2 was changed."])
        assert texts(trip) == [KNIFE, "The ferry left."]
        assert told["state"] == trip.kept_states.states[-1]

    def test_where_the_old_text_still_is_comes_back(self, chats, trip):
        ChunkList(trip, SUMMARY).append(Entry(f"So far: {KNIFE}", "h1"), after=None)
        told = post(chats, "edit", "f1", text="Ada lost it.")[1]
        assert told["said"] == [
            "f1 was changed.",
            "The old text is still in the summary; edit it there, too.",
        ]

    def test_the_summary_and_the_state_document(self, chats, trip):
        ChunkList(trip, SUMMARY).append(Entry("All in all.", "h1"), after=None)
        trip.update_text("state_document.md", lambda _: "# State")
        assert post(chats, "edit", "summary", "summary", text="In short.")[0] == 200
        assert post(chats, "edit", "state", "state", text="# Now")[0] == 200
        assert shown(chats, "summary", "summary")["text"] == "In short."
        assert trip.read_text("state_document.md") == "# Now"

    @pytest.fixture
    def facts(self, chats, trip, tmp_path):
        """A vector memory, and a server that makes vectors."""
        chats.write("ApiTypes/Embed.json", {"type": "ollamaEmbeddings", "presetType": "any"})
        chats.write(
            "Endpoints/embedder.json", {"endpoint": "http://embed.test", "apiTypeConfigFileName": "Embed"}
        )
        chats.write("Workflows/mira/Memory.json", {"embeddingEndpointName": "embedder"})
        settings = {
            "port": 5000,
            "discussionDirectory": str(tmp_path / "chats"),
            "discussionIdMemoryFileWorkflowSettings": "Memory",
        }
        chats.write("Users/mira.json", settings)
        database = VectorDatabase(trip)
        database.save(ChunkRecord("c", ("c",)), [FACT], after=None)
        database.save_vectors("embedder", {1: [1.0]})
        return database

    def test_a_vector_memory_gets_the_vector_of_its_new_text(self, chats, facts):
        with responses.RequestsMock() as network:
            network.post("http://embed.test/api/embed", json={"embeddings": [[5.0]]})
            told = post(chats, "edit", "v1", "vectors", text="Theo paid.")[1]
            assert json.loads(network.calls[0].request.body)["input"] == ["Theo paid."]
        assert told["said"] == ["v1 was changed."] and facts.count_lacking("embedder") == 0

    def test_without_that_server_it_has_none_for_now(self, chats, facts):
        with responses.RequestsMock() as network:
            network.post("http://embed.test/api/embed", status=500)
            status, told = post(chats, "edit", "v1", "vectors", text="Theo paid.")
        assert status == 200 and "has no vector for now" in told["said"][1]
        assert facts.without_vector("embedder", 9) == [(1, "Theo paid.")]


class TestForget:
    def test_it_is_gone_and_what_still_holds_its_text_is_said(self, chats, trip):
        ChunkList(trip, SUMMARY).append(Entry(f"So far: {KNIFE}", "h1"), after=None)
        trip.update_text("state_document.md", lambda _: KNIFE)
        told = post(chats, "forget", "f1")[1]
        assert told["said"] == [
            "f1 was forgotten.",
            "Its text is still in the state document, the summary; edit it there, too.",
        ]
        assert texts(trip) == ["", FERRY]
        assert [row["from"] for row in chats.ask("GET", PATH)[1]["rows"]] == ["f2"]

    def test_of_many_places_the_first_are_named(self, chats):
        """Summary and state document, then the newest memories."""
        store = remembered(chats, *[KNIFE] * 11)
        ChunkList(store, SUMMARY).append(Entry(KNIFE, "h1"), after=None)
        told = post(chats, "forget", "f11")[1]
        assert told["said"][1] == (
            "Its text is still in the summary, f10, f9, f8, f7, f6, f5, f4, 3 more; edit it there, too."
        )

    def test_a_vector_memory_of_unknown_messages_may_come_back(self, chats, trip):
        """Another program made it."""
        database = VectorDatabase(trip)
        database.save(ChunkRecord("c", ("c",)), [FACT], after=None)
        with closing(sqlite3.connect(database.path)) as connection, connection:
            connection.execute("DELETE FROM memory_sources")
        told = post(chats, "forget", "v1", "vectors")[1]
        assert told["said"][0] == "v1 was forgotten." and "rebuild may bring it back" in told["said"][1]


class TestPin:
    def test_a_memory_is_pinned_and_its_pin_taken_off(self, chats, trip):
        assert post(chats, "pin", "f1")[1]["said"] == ["f1 is pinned."]
        assert shown(chats, "f1")["pinned"]
        assert post(chats, "unpin", "f1")[1]["said"] == ["f1 is no longer pinned."]
        assert not shown(chats, "f1")["pinned"]

    def test_what_was_not_pinned_needs_no_undo(self, chats, trip):
        status, told = post(chats, "unpin", "f1")
        assert (status, told) == (200, {"said": ["f1 was not pinned."], "state": None})


class TestUndo:
    def test_one_correction_after_the_other(self, chats, trip):
        first = post(chats, "forget", "f1")[1]["state"]
        second = post(chats, "edit", "f2", text="The ferry left.")[1]["state"]
        assert post(chats, "undo", state=second) == (
            200,
            {"said": ["The last correction was undone."], "state": None},
        )
        assert texts(trip) == ["", FERRY]
        assert post(chats, "undo", state=first)[0] == 200
        assert texts(trip) == [KNIFE, FERRY]

    def test_another_persons_correction_stays(self, chats, trip):
        """Only the newest is undone, and only if it is the one that is meant."""
        state = post(chats, "forget", "f1")[1]["state"]
        Corrections(trip).edit("f2", "The ferry left.")
        before = files(trip)
        status, told = post(chats, "undo", state=state)
        assert status == 409 and "no longer the newest correction" in told["error"]
        assert files(trip) == before

    def test_it_is_not_undone_twice(self, chats, trip):
        state = post(chats, "forget", "f1")[1]["state"]
        post(chats, "undo", state=state)
        assert post(chats, "undo", state=state)[0] == 409


class TestRefused:
    """With one sentence, and nothing is done."""

    @pytest.mark.parametrize(
        ("body", "status", "why"),
        [
            ({}, 400, "act"),
            ([], 400, "object"),
            ({"act": 1}, 400, "act: found 1"),
            ({"act": "forget", "number": 2, "sum": "x"}, 400, "number: found 2"),
            ({"act": "forget", "number": "f2", "sum": "x", "for_good": True}, 400, "for_good"),
            ({"act": "copy"}, 422, "allowed: edit, forget, pin, unpin, undo"),
            ({"act": "forget", "number": "f2"}, 422, "sum: found nothing, but forget needs it"),
            ({"act": "edit", "number": "f2", "sum": "x"}, 422, "text: found nothing, but edit needs it"),
            ({"act": "pin", "number": "f2", "sum": "x", "text": "y"}, 422, "text: not a field of pin"),
            ({"act": "undo"}, 422, "state: found nothing, but undo needs it"),
            ({"act": "undo", "state": ""}, 409, "no longer the newest"),
            ({"act": "undo", "state": "../trip3"}, 409, "no longer the newest"),
            ({"act": "undo", "number": "f1", "state": "x"}, 422, "number: not a field of undo"),
            ({"act": "forget", "number": "f9", "sum": "x"}, 404, "there is no f9"),
            ({"act": "pin", "number": "v1", "sum": "x"}, 404, "there is no v1"),
            ({"act": "edit", "number": "summary", "sum": "x", "text": "y"}, 404, "there is no summary"),
            ({"act": "edit", "number": "state", "sum": "x", "text": "y"}, 404, "there is no state"),
            ({"act": "edit", "number": "../f1", "sum": "x", "text": "y"}, 422, "allowed: a number such as"),
            ({"act": "forget", "number": "f2", "sum": "0" * 12}, 409, "f2 was changed meanwhile"),
            ({"act": "edit", "number": "f2", "sum": "", "text": "y"}, 409, "f2 was changed meanwhile"),
            ({"act": "pin", "number": "f2", "sum": "0" * 12}, 409, "f2 was changed meanwhile"),
        ],
        ids=str,
    )
    def test_odd_wishes(self, chats, trip, body, status, why):
        Corrections(trip).pin("f1")
        before = files(trip)
        found, told = chats.ask("POST", PATH, body=body)
        assert found == status and why in told["error"], told
        assert files(trip) == before

    @pytest.mark.parametrize(
        ("act", "why"), [("forget", "only memories can be forgotten"), ("pin", "only memories")]
    )
    def test_what_the_summary_cannot(self, chats, trip, act, why):
        ChunkList(trip, SUMMARY).append(Entry("All in all.", "h1"), after=None)
        status, told = post(chats, act, "summary", "summary")
        assert status == 422 and why in told["error"] and not trip.kept_states.states

    def test_a_blank_text(self, chats, trip):
        status, told = post(chats, "edit", "f1", text=" \n")
        assert (status, told["error"]) == (422, "the new text is blank; to remove a memory, forget it")
        assert texts(trip) == [KNIFE, FERRY]

    def test_a_memory_that_another_one_changed_meanwhile(self, chats, trip):
        """Also one that is forgotten by now, and one whose number is another memory's."""
        row = shown(chats, "f1")
        wish = {"number": "f1", "sum": row["sum"]}
        Corrections(trip).edit("f1", "Ada lost the knife.")
        assert chats.ask("POST", PATH, body={"act": "edit", "text": "mine", **wish})[0] == 409
        Corrections(trip).forget(["f1"])
        assert chats.ask("POST", PATH, body={"act": "forget", **wish})[0] == 409
        assert chats.ask("POST", PATH, body={"act": "pin", **wish})[0] == 404
        assert texts(trip) == ["", FERRY]

    @pytest.mark.parametrize("right", ["look", "act"])
    def test_without_the_right_to_save(self, chats, trip, right):
        body = {"act": "forget", "number": "f1", "sum": shown(chats, "f1")["sum"]}
        status, told = chats.ask("POST", PATH, body=body, rights=("look", right))
        assert (status, told["need"]) == (403, "save") and texts(trip) == [KNIFE, FERRY]

    @pytest.mark.parametrize(
        "path",
        ["mira/none", "jo/trip3", "nobody/trip3", "mira/..", "mira/.making-x", "mira/%2e%2e", "mira/Trip3"],
    )
    def test_an_id_that_no_list_has(self, chats, trip, path):
        """No path is joined: other spellings are other names."""
        chats.write("Users/jo.json", {"port": 5000, "discussionDirectory": str(chats.root_of_chats / "jo")})
        (chats.root_of_chats / ".making-x").mkdir()
        before = sorted(chats.root_of_chats.rglob("*"))
        status, _ = post(chats, "forget", "f1", path=f"chats/{path}/memory")
        assert status == 404 and texts(trip) == [KNIFE, FERRY]
        assert sorted(chats.root_of_chats.rglob("*")) == before

    def test_a_chat_of_which_memory_holds_nothing(self, chats):
        ran(chats, "new")
        body = {"act": "undo", "state": "x"}
        status, told = chats.ask("POST", "chats/mira/new/memory", body=body)
        assert (status, told["error"]) == (404, "memory holds nothing of this chat")
        assert not (chats.root_of_chats / "new").exists()

    def test_a_private_user(self, chats, trip, tmp_path):
        body = {"act": "forget", "number": "f1", "sum": shown(chats, "f1")["sum"]}
        settings = {"port": 5000, "redactLogOutput": True, "discussionDirectory": str(tmp_path / "chats")}
        chats.write("Users/mira.json", settings)
        status, told = chats.ask("POST", PATH, body=body)
        assert status == 404 and "private" in told["error"] and texts(trip) == [KNIFE, FERRY]

    def test_a_body_of_over_a_mebibyte(self, chats, trip):
        assert post(chats, "edit", "f1", text="x" * (1 << 20))[0] == 413
        assert texts(trip) == [KNIFE, FERRY]

    def test_a_folder_that_cannot_be_written(self, chats, trip):
        """The sentence says why; nothing of it is done."""
        (trip.folder / ".undo").write_text("in the way")
        status, told = post(chats, "forget", "f1")
        assert status == 422 and told["error"] and texts(trip) == [KNIFE, FERRY]


class TestEncrypted:
    """Only with the key in the environment."""

    @pytest.fixture
    def secret(self, chats, tmp_path):
        """A chat of a key, encrypted."""
        settings = {"port": 5000, "encryptUsingApiKey": True, "discussionDirectory": str(tmp_path / "chats")}
        chats.write("Users/mira.json", settings)
        key = {"key_hash": api_key_hash("k1"), "encryption_key": derive_key("k1", "mira")}
        store = DiscussionStore(chats.root_of_chats, "trip3", **key)
        ChunkList(store, MEMORIES).replace(Entry(KNIFE, "h1"))
        return store

    @pytest.mark.parametrize("key", [None, "k2"])
    def test_without_its_key_it_is_not_there(self, chats, secret, monkeypatch, key):
        if key:
            monkeypatch.setenv("HEADRACE_API_KEY", key)
        assert chats.ask("GET", PATH)[0] == 404
        assert chats.ask("POST", PATH, body={"act": "undo", "state": "x"})[0] == 404
        assert texts(secret) == [KNIFE]

    def test_a_chat_that_runs_have_says_why(self, chats, secret):
        ran(chats)
        status, told = chats.ask("POST", PATH, body={"act": "undo", "state": "x"})
        assert status == 403 and "encrypted" in told["error"] and "HEADRACE_API_KEY" in told["error"]

    def test_a_file_of_another_key(self, chats, secret, monkeypatch):
        monkeypatch.setenv("HEADRACE_API_KEY", "k1")
        wrong = {"key_hash": api_key_hash("k1"), "encryption_key": derive_key("k2", "mira")}
        other = DiscussionStore(chats.root_of_chats, "trip4", **wrong)
        ChunkList(other, MEMORIES).replace(Entry(KNIFE, "h1"))
        body = {"act": "forget", "number": "f1", "sum": "x"}
        status, told = chats.ask("POST", "chats/mira/trip4/memory", body=body)
        assert (status, told["error"]) == (403, "a file of this discussion is encrypted with another API key")

    def test_with_its_key_it_is_corrected_and_stays_encrypted(self, chats, secret, monkeypatch):
        monkeypatch.setenv("HEADRACE_API_KEY", "k1")
        told = post(chats, "edit", "f1", text="Ada lost it.")[1]
        assert texts(secret) == ["Ada lost it."]
        assert secret.path(MEMORIES).read_bytes().startswith(TOKEN_START)
        assert post(chats, "undo", state=told["state"])[0] == 200 and texts(secret) == [KNIFE]
