"""Routing by meaning in whole requests: when no model is asked, and that every doubt is left to it."""

from __future__ import annotations

import logging
import sqlite3
import threading
from array import array
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from Middleware.common.errors import BackendError, RequestCancelled
from Middleware.llmapis.handlers.backends import BACKENDS
from Middleware.llmapis.handlers.impl.embedding_api_handler import EmbeddingBackend
from Middleware.services.cancellation_service import cancellation_service
from Middleware.services.run_trace import Observers
from Middleware.workflows.managers import meaning_routing
from Middleware.workflows.managers.meaning_routing import REST_S, MeaningModel, MeaningRouter
from tests.clock import Clock
from tests.patience import PATIENCE_S

CODE = "Please mend my program"
FACT = "Who was the first on the moon?"
VECTORS = {
    "about code": (1.0, 0.0),
    "fix this": (0.8, 0.6),
    "about facts": (0.0, 1.0),
    "who was it": (0.6, 0.8),
    CODE: (1.0, 0.0),
    FACT: (0.1, 1.0),
    "something between the two": (1.0, 1.0),
}


class Embedder:
    """What is embedded: `asked`, one list of texts a call. `replies`: what happens instead, in order; a
    function is called with the texts and the request's id."""

    def __init__(self):
        self.asked, self.replies, self.vectors = [], [], dict(VECTORS)

    def embed(self, texts, request_id):
        self.asked.append(list(texts))
        reply = self.replies.pop(0) if self.replies else None
        if isinstance(reply, Exception):
            raise reply
        if callable(reply):
            return reply(texts, request_id)
        return [list(self.vectors.get(text.removeprefix("query: "), (1.0, 0.0))) for text in texts]


def slow(texts, request_id):
    """It ends when nobody waits any more, as a real call does."""
    stopped = threading.Event()
    cancellation_service.register_abort_callback(request_id, stopped.set)
    assert stopped.wait(PATIENCE_S)


@pytest.fixture
def embedder(house, monkeypatch):
    made = Embedder()

    class Scripted(EmbeddingBackend):
        def embed(self, texts, request_id=None, trace=None):
            return made.embed(texts, request_id)

    monkeypatch.setitem(BACKENDS._table, "scriptedEmbeddings", Scripted)
    house.write("ApiTypes/Vectors", {"type": "scriptedEmbeddings", "presetType": "any"})
    house.endpoint("vectors", apiTypeConfigFileName="Vectors", modelNameToSendToAPI="m")
    return made


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(autouse=True)
def router(monkeypatch, clock):
    """The process has just begun."""

    def restart(limit_s=PATIENCE_S):
        made = MeaningRouter(clock, limit_s)
        monkeypatch.setattr(meaning_routing, "process_meaning", lambda: made)
        return made

    restart()
    return restart


@pytest.fixture
def routed(house, embedder):
    """A user with two categories; the model, if it is asked, says FACTS."""
    house.user |= {
        "customWorkflowOverride": False,
        "routingConfig": "routes",
        "categorizationWorkflow": "Pick",
    }
    house.routing = {
        "_byMeaning": {"embeddingEndpointName": "vectors"},
        "CODING": {"description": "about code", "workflow": "Code", "examples": ["fix this"]},
        "FACTS": {"description": "about facts", "workflow": "Facts", "examples": ["who was it"]},
    }
    house.write("Routing/routes", house.routing)
    house.workflow("Pick", {"type": "Standard", "endpointName": "chat", "prompt": "which?"})
    for name in ("Code", "Facts", "_DefaultWorkflow"):
        house.workflow(name, {"type": "StaticResponse", "content": name})
    house.model.replies = ["facts"]
    house.asked = lambda: len(house.model.calls)
    return house


def warnings(caplog):
    return [record.message for record in caplog.records if record.levelno == logging.WARNING]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
class TestTaken:
    def test_a_clear_message_asks_no_model(self, routed, embedder, stream, caplog):
        """Examples first, description before them, in the order of the file; then the message."""
        caplog.set_level(logging.INFO)
        assert routed.route(stream=stream, say=CODE).text == "Code"
        assert routed.route(stream=stream, say=FACT).text == "Facts"
        assert routed.asked() == 0
        assert embedder.asked == [["about code", "fix this", "about facts", "who was it"], [CODE], [FACT]]
        assert "by meaning: CODING 1.00, next FACTS 0.13: workflow 'Code'" in caplog.text

    def test_a_prefix_stands_before_everything(self, routed, embedder, stream):
        """As some models want it."""
        routed.routing["_byMeaning"]["prefix"] = "query: "
        routed.write("Routing/routes", routed.routing)
        routed.route(stream=stream, say=CODE)
        assert embedder.asked[0][0] == "query: about code"
        assert embedder.asked[1] == [f"query: {CODE}"]


class TestLeftToTheModel:
    def test_a_message_between_two_categories(self, routed, caplog):
        caplog.set_level(logging.INFO)
        assert routed.route(say="something between the two").text == "Facts"
        assert routed.asked() == 1
        assert "not clear, so the categorisation workflow decides" in caplog.text

    def test_a_short_message(self, routed, embedder):
        """Nothing is embedded."""
        assert routed.route(say="ok").text == "Facts"
        assert (embedder.asked, routed.asked()) == ([], 1)

    @pytest.mark.parametrize(
        "failure",
        [
            BackendError("vectors", "backend_error", "no room"),
            ValueError("no room"),
            lambda *_: [[1.0, 0.0], [1.0]],
            lambda *_: [[1e300, 0.0]] * 4,
        ],
        ids=["backend", "answer", "lengths", "numbers"],
    )
    @pytest.mark.parametrize("before", [0, 1], ids=["examples", "message"])
    def test_a_failure(self, routed, embedder, failure, before, caplog):
        """Of either call; the client sees nothing of it, and the next request tries again."""
        embedder.replies = [None] * before + [failure]
        assert routed.route(say=CODE).text == "Facts"
        assert routed.asked() == 1
        assert len(warnings(caplog)) == 1
        assert "endpoint 'vectors': " in warnings(caplog)[0]
        assert routed.route(say=CODE).text == "Code"

    def test_a_failure_is_logged_once_a_minute(self, routed, embedder, clock, caplog):
        def told_by_one_more():
            embedder.replies = [ValueError("no room")]
            caplog.clear()
            assert routed.route(say=CODE).text == "Facts"
            return len(warnings(caplog))

        assert [told_by_one_more(), told_by_one_more()] == [1, 0]
        clock.now += 61
        assert told_by_one_more() == 1

    @pytest.mark.parametrize(
        "fields",
        [{"embeddingEndpointName": "nowhere"}, {"embeddingEndpointName": "chat"}],
        ids=["missing", "for chat"],
    )
    def test_an_endpoint_that_cannot_be_used(self, routed, fields, caplog):
        routed.write("Routing/routes", routed.routing | {"_byMeaning": fields})
        assert routed.route(say=CODE).text == "Facts"
        assert "Routing/routes.json" in warnings(caplog)[0]

    def test_categories_that_are_all_alike(self, routed, embedder, caplog):
        """A model that gives every text the same vector decides nothing."""
        embedder.vectors = {}
        assert routed.route(say=CODE).text == "Facts"
        assert "too much alike" in warnings(caplog)[0]
        assert len(embedder.asked) == 1

    def test_only_one_category_has_texts(self, routed, embedder, caplog):
        routed.routing["CODING"] |= {"description": " ", "examples": [""]}
        routed.write("Routing/routes", routed.routing)
        assert routed.route(say=CODE).text == "Facts"
        assert "two categories" in warnings(caplog)[0]
        assert embedder.asked == []


class TestSlow:
    def test_a_slow_message_vector(self, routed, embedder, router, clock, caplog):
        """The call is ended, and the endpoint is left alone for half a minute."""
        routed.route(say=CODE)
        router(limit_s=0.05)
        embedder.replies = [slow]
        assert routed.route(say=CODE).text == "Facts"
        assert "longer than 0.05 s" in warnings(caplog)[0]
        asked = len(embedder.asked)
        assert routed.route(say=CODE).text == "Facts"
        assert len(embedder.asked) == asked
        clock.now += REST_S
        router(limit_s=PATIENCE_S)
        assert routed.route(say=CODE).text == "Code"

    def test_slow_examples_are_made_behind_the_request(self, routed, embedder, router, monkeypatch):
        """Requests go the old way meanwhile, and the one behind does not wait again; then they are there."""
        go, made = threading.Event(), threading.Event()
        keep = MeaningRouter._keep

        def note_kept(*args):
            keep(*args)
            made.set()

        monkeypatch.setattr(MeaningRouter, "_keep", note_kept)

        def wait_and_make(texts, _):
            assert go.wait(PATIENCE_S)
            return [list(VECTORS[text]) for text in texts]

        router(limit_s=0.05)
        embedder.replies = [wait_and_make]
        assert routed.route(say=CODE).text == "Facts"
        assert routed.route(say=CODE).text == "Facts"
        assert len(embedder.asked) == 1
        go.set()
        assert made.wait(PATIENCE_S)
        router(limit_s=PATIENCE_S)
        assert routed.route(say=CODE).text == "Code"
        assert embedder.asked[1:] == [[CODE]]

    @pytest.mark.parametrize("before", [0, 1], ids=["examples", "message"])
    def test_a_cancelled_request_does_not_wait(self, routed, embedder, before):
        """It ends while the embedding is under way."""

        def cancel(texts, request_id):
            cancellation_service.request_cancellation("r1")
            return [list(VECTORS[text]) for text in texts]

        embedder.replies = [None] * before + [cancel]
        with pytest.raises(RequestCancelled):
            routed.route(say=CODE)
        assert routed.asked() == 0

    def test_two_at_once_make_the_examples_once(self, routed, embedder):
        """They wait for the same ones."""
        meet = threading.Barrier(2)

        def ask(_):
            meet.wait(PATIENCE_S)
            return routed.route(say=CODE).text

        with ThreadPoolExecutor(2) as pool:
            assert list(pool.map(ask, range(2))) == ["Code", "Code"]
        assert sorted(map(len, embedder.asked)) == [1, 1, 4]


class TestKept:
    def test_a_restart_makes_nothing_again(self, routed, embedder, router):
        """The vectors are in the user's database; only the message is new."""
        routed.route(say=CODE)
        router()
        assert routed.route(say=FACT).text == "Facts"
        assert embedder.asked[2:] == [[FACT]]
        assert (routed.root.parent / "SqlLiteDBs/ana_routes.db").exists()

    def test_an_edited_example_alone_is_made(self, routed, embedder):
        """The others are kept."""
        routed.route(say=CODE)
        routed.routing["CODING"]["examples"] = ["fix that", "fix this"]
        routed.write("Routing/routes", routed.routing)
        assert routed.route(say=FACT).text == "Facts"
        assert embedder.asked[2:] == [["fix that"], [FACT]]

    @pytest.mark.parametrize(
        "fields", [{"endpoint": "http://other.test"}, {"modelNameToSendToAPI": "n"}], ids=["address", "model"]
    )
    def test_another_model_makes_its_own(self, routed, embedder, fields):
        routed.route(say=CODE)
        base = {"apiTypeConfigFileName": "Vectors", "modelNameToSendToAPI": "m"}
        routed.endpoint("vectors", **{**base, **fields})
        routed.route(say=CODE)
        assert [len(texts) for texts in embedder.asked] == [4, 1, 4, 1]

    def test_another_model_by_the_same_name(self, routed, embedder, caplog):
        """Its vectors are longer: this message is left to the model, the next one is compared again."""
        routed.route(say=CODE)
        embedder.vectors = {text: (*vector, 0.0) for text, vector in VECTORS.items()}
        assert [routed.route(say=CODE).text for _ in range(2)] == ["Facts", "Code"]
        assert "other vectors than before" in warnings(caplog)[0]

    def test_some_kept_ones_are_of_another_model(self, routed, embedder, router):
        """All are made again."""
        routed.route(say=CODE)
        router()
        embedder.vectors = {text: (*vector, 0.0) for text, vector in VECTORS.items()}
        embedder.vectors["fix that"] = (0.8, 0.6, 0.0)
        routed.routing["CODING"]["examples"] = ["fix that"]
        routed.write("Routing/routes", routed.routing)
        assert routed.route(say=CODE).text == "Code"
        assert [len(texts) for texts in embedder.asked[2:]] == [1, 4, 1]

    def test_many_examples_are_asked_for_in_parts(self, routed, embedder):
        """Of 64, and those that were made are kept when a later part fails."""
        routed.routing["CODING"]["examples"] = [f"example {n}" for n in range(70)]
        routed.write("Routing/routes", routed.routing)
        embedder.vectors |= {f"example {n}": (0.8, 0.6) for n in range(70)}
        embedder.replies = [None, ValueError("no room")]
        assert routed.route(say=FACT).text == "Facts"
        assert routed.route(say=FACT).text == "Facts"
        assert [len(texts) for texts in embedder.asked] == [64, 9, 9, 1]

    def test_a_damaged_database(self, routed, embedder, caplog):
        """It is made anew."""
        file = routed.root.parent / "SqlLiteDBs/ana_routes.db"
        file.parent.mkdir()
        file.write_bytes(b"no database at all" * 100)
        assert routed.route(say=CODE).text == "Code"
        with sqlite3.connect(file) as sql:
            assert sql.execute("SELECT count(*) FROM vectors").fetchone() == (4,)

    def test_a_folder_that_cannot_be_written(self, routed, caplog):
        """The vectors are held in memory, and the log says so."""
        (routed.root.parent / "SqlLiteDBs").write_text("a file")
        assert routed.route(say=CODE).text == "Code"
        assert any("could not be kept" in message for message in warnings(caplog))


class TestTraced:
    def run(self, routed, say, *, privacy=False):
        observers, runs = Observers(), []

        class Seeing:
            keeps_text = True

            def note_change(self, run, what, node):
                runs[:] = [run]

        observers.observe(Seeing())
        trace = observers.begin("r1", "/")
        routed.request = {"trace": trace, "privacy": privacy}
        manager = routed.manager()
        trace.name(manager.request, front="", stream=False, asked=b"")
        routed.manager = lambda: manager
        routed.route(say=say)
        return runs[0]

    def test_the_choice_is_a_node_of_the_run(self, routed):
        node = self.run(routed, CODE).nodes[0]
        assert (node.workflow, node.type, node.state) == ("Routing/routes.json", "Routing", "done")
        assert (node.title, node.output, node.endpoint) == (
            "by meaning: CODING 1.00, next FACTS 0.13",
            "CODING",
            "vectors",
        )

    def test_a_failure_is_a_warning_of_the_node(self, routed, embedder):
        embedder.replies = [ValueError("no room")]
        assert "no room" in self.run(routed, CODE).nodes[0].warnings[0]

    def test_a_private_run_keeps_no_words(self, routed, embedder):
        """Names and scores only."""
        embedder.replies = [ValueError("no room")]
        node = self.run(routed, CODE, privacy=True).nodes[0]
        assert (node.warnings, node.output) == ([], None)


@pytest.mark.parametrize(
    "kept", [{}, {"k": array("f", [1.0]), "l": array("f", [1.0, 2.0])}], ids=["none", "odd"]
)
def test_examples_of_a_cancelled_request(kept):
    """There are none, whether they are made for the first time or once more."""
    service = SimpleNamespace(get_embeddings=lambda texts, request_id: None)
    store = SimpleNamespace(find=lambda keys: dict(kept), keep=kept.update)
    keys = (("A", (("a", "k"),)), ("B", (("b", "l"),)))
    model = MeaningModel(SimpleNamespace(prefix=""), service, store, keys)
    assert model.examples("r1") is None and model.vector_of("a", "r1") is None
