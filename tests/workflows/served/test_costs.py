"""What an answer cost: in the log, the trace, the metrics, and as every client is told it (operate.md 5)."""

from __future__ import annotations

import json
import logging

import pytest
from prometheus_client.parser import text_string_to_metric_families

from Middleware.api.console.history_rows import RowMaker
from Middleware.api.console.hour import Hour
from Middleware.common.costs import Cost
from Middleware.services.cancellation_service import cancellation_service
from Middleware.services.history import HistoryFile, HistoryWriter, read_history
from Middleware.utilities.text_utils import estimate_tokens
from tests.e2e.answers import ROUTES
from tests.patience import PATIENCE_S
from tests.workflows.served.conftest import Recorder, answer_of_model, observe
from tests.workflows.served.test_traced_runs import SCRIPT, ask

PRICE = {"input": 2, "output": 8}
EMBEDDING_SCRIPT = """
from Middleware.llmapis.embedding_service import EmbeddingService

def Invoke():
    return str(EmbeddingService("vectors").get_embeddings(["one", "two"]))
"""
ONE_CALL = 5 * 2 + 2 * 8
"""Millionths of what one call of `big` takes: 5 and 2 tokens."""


@pytest.fixture
def recorder(served):
    return observe(served, Recorder())


@pytest.fixture
def priced(big, site):
    """`big` has a price; `mute` has one in another currency and tells no usage; `free` has none."""
    path = "/v1/chat/completions"
    site.pages[f"/mute{path}"] = lambda handler: answer_of_model(site, handler, usage=None)
    site.pages[f"/bad{path}"] = (400, {}, b'{"error": {"message": "not today"}}')
    big(pricePerMillionTokens=PRICE)
    big(
        "mute",
        endpoint=site.url("/mute").rstrip("/"),
        pricePerMillionTokens={"input": 1, "output": 1, "currency": "EUR"},
    )
    big("bad", endpoint=site.url("/bad").rstrip("/"), pricePerMillionTokens=PRICE, backupEndpointName="big")
    big("free")


@pytest.fixture
def tell(house, served):
    """`tell(*nodes)`: the whole answer's `X-Workflow-Usage`."""

    def ask_once(*nodes):
        house.workflow("Main", *nodes)
        served.save_user()
        shape = ROUTES["openai-chat"]
        reply = served.app.test_client().post(shape.path, json=shape.ask("ana", "hi", stream=False))
        assert reply.status_code == 200, reply.get_data()
        reply.close()
        return json.loads(reply.headers.get("X-Workflow-Usage", "null"))

    return ask_once


def cost_series(served):
    text = served.app.test_client().get("/metrics").get_data(as_text=True)
    samples = [one for family in text_string_to_metric_families(text) for one in family.samples]
    names = ("user", "endpoint", "currency")
    return {
        tuple(one.labels[name] for name in names): one.value
        for one in samples
        if one.name == "headrace_cost_total"
    }


class TestClients:
    def test_the_header_of_whole_answers(self, priced, tell):
        """The last key, over all calls."""
        told = tell(ask("Draft"), ask("Answer"))
        assert told == {
            "prompt_tokens": 10,
            "completion_tokens": 4,
            "calls": 2,
            "cost": {"USD": 2 * ONE_CALL / 1e6},
        }
        assert list(told)[-1] == "cost"

    @pytest.mark.parametrize(
        ("route", "unit_of"),
        [
            ("openai-chat", lambda unit: unit.get("workflow_usage")),
            ("ollama-chat", lambda unit: unit.get("workflow_usage")),
            ("anthropic", lambda unit: unit.get("workflow_usage")),
            ("responses", lambda unit: (unit.get("response") or {}).get("workflow_usage")),
        ],
    )
    def test_streams(self, priced, house, served, route, unit_of):
        """Beside the numbers, in the place of each protocol."""
        house.workflow("Main", ask("Answer"))
        served.save_user()
        shape = ROUTES[route]
        body = {**shape.ask("ana", "hi", stream=True), "stream_options": {"include_usage": True}}
        reply = served.app.test_client().post(shape.path, json=body)
        [told] = [found for unit in shape.units(reply.get_data()) if (found := unit_of(unit))]
        reply.close()
        assert told["cost"] == {"USD": ONE_CALL / 1e6}

    def test_currencies_stand_beside_each_other(self, priced, tell):
        """They are never added; one without usage is estimated."""
        mute = estimate_tokens("hi") + estimate_tokens("Hello")
        assert tell(ask("Draft", "mute"), ask("Answer"))["cost"] == {"EUR": mute / 1e6, "USD": ONE_CALL / 1e6}

    def test_calls_without_a_price(self, priced, tell):
        """Nothing is said of a workflow of them alone; beside others they cost nothing."""
        assert "cost" not in tell(ask("Answer", "free"))
        assert tell(ask("Draft"), ask("Answer", "free"))["cost"] == {"USD": ONE_CALL / 1e6}

    def test_nodes_after_the_answer_do_not_count(self, priced, tell):
        """As in the other numbers."""
        assert tell(ask("Answer", returnToUser=True), ask("Notes"))["cost"] == {"USD": ONE_CALL / 1e6}

    def test_a_backup_has_its_own_price(self, priced, tell, big):
        """The endpoint that answered is paid."""
        assert tell(ask("Answer", "bad"))["cost"] == {"USD": ONE_CALL / 1e6}
        big()
        assert "cost" not in tell(ask("Answer", "bad"))

    def test_scripts(self, priced, tell, tmp_path):
        """Whole and streamed calls of a user's script."""
        script = tmp_path / "ask.py"
        script.write_text(SCRIPT, "utf-8")
        told = tell({"type": "PythonModule", "title": "Script", "module_path": str(script), "args": ["tea"]})
        assert told["cost"] == {"USD": 2 * ONE_CALL / 1e6}


class TestWhatTheServerTells:
    def test_the_trace(self, priced, tell, recorder):
        """Each call, and the run with all of its calls, those behind the answer too."""
        tell(ask("Answer", returnToUser=True), ask("Notes"), ask("More", "free"))
        assert recorder.ended.wait(PATIENCE_S)
        assert [call.cost for call in recorder.calls] == [Cost("USD", ONE_CALL), Cost("USD", ONE_CALL), None]
        assert recorder.run.costs == (Cost("USD", 2 * ONE_CALL),)

    def test_the_metric(self, priced, tell, served, recorder):
        """By user, endpoint and currency; no series without a price."""
        tell(ask("Answer", returnToUser=True), ask("Notes"), ask("More", "free"))
        assert recorder.ended.wait(PATIENCE_S)
        assert cost_series(served) == {("ana", "big", "USD"): pytest.approx(2 * ONE_CALL / 1e6)}

    def test_the_log(self, priced, tell, recorder, caplog):
        """The line of each call, and that of the request."""
        caplog.set_level(logging.INFO)
        tell(ask("Draft"), ask("Answer", "mute"))
        assert recorder.ended.wait(PATIENCE_S)
        lines = [record.getMessage() for record in caplog.records]
        [big] = [line for line in lines if line.startswith("endpoint 'big'")]
        assert big.endswith(", cost 0.000026 USD")
        [mute] = [line for line in lines if line.startswith("endpoint 'mute'")]
        assert ", cost about 0." in mute and mute.endswith(" EUR")
        [last] = [line for line in lines if ": POST " in line]
        assert " in 2 calls, cost about " in last and last.endswith(" and 0.000026 USD")

    @pytest.mark.parametrize(
        ("answer", "cost"),
        [
            ({"usage": {"prompt_tokens": 9, "total_tokens": 9}}, Cost("USD", 18)),
            ({}, Cost("USD", 2 * estimate_tokens("one two"), True)),
        ],
        ids=["reported", "estimated"],
    )
    def test_embeddings_of_a_script(self, priced, tell, house, site, recorder, big, tmp_path, answer, cost):
        """They are in the run's sum; the client's numbers do not count them."""
        house.write("ApiTypes/Vectors", {"type": "openAIEmbeddings", "presetType": ""})
        big("vectors", apiTypeConfigFileName="Vectors", pricePerMillionTokens={"input": 2, "output": 0})
        vectors = {"data": [{"index": i, "embedding": [1.0]} for i in range(2)], **answer}
        site.pages["/v1/embeddings"] = (
            200,
            {"Content-Type": "application/json"},
            json.dumps(vectors).encode(),
        )
        script = tmp_path / "embed.py"
        script.write_text(EMBEDDING_SCRIPT, "utf-8")
        node = {"type": "PythonModule", "title": "Script", "module_path": str(script), "args": []}
        assert tell(node) is None
        assert recorder.ended.wait(PATIENCE_S)
        assert recorder.run.costs == (cost,)

    @pytest.mark.parametrize("calls_before", [0, 1], ids=["first-call", "kept-connection"])
    def test_a_run_that_is_cancelled(self, priced, house, served, site, recorder, calls_before):
        """The prompt of the call that was broken off is paid for, also on a connection that had one before."""
        house.workflow("Main", ask("Answer"))
        served.save_user()
        for _ in range(calls_before):
            served.ask()
            recorder.runs.clear()
            recorder.ended.clear()
        site.pages["/v1/chat/completions"] = lambda handler: cancellation_service.request_cancellation(
            recorder.run.id, "the console"
        )
        served.ask()
        assert recorder.ended.wait(PATIENCE_S)
        assert recorder.run.state == "cancelled"
        assert recorder.run.costs == (Cost("USD", 2 * estimate_tokens("hi"), True),)

    @pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
    def test_what_is_read_ahead_for_the_next_turn(
        self, priced, house, served, recorder, caplog, tmp_path, stream
    ):
        """Behind the run's end, and part of its sum: trace, metric, log and history agree."""
        caplog.set_level(logging.INFO)
        history = HistoryWriter(HistoryFile(tmp_path), RowMaker(None, Hour(), 1).row_of)
        observe(served, history)
        nodes = [ask("Answer", returnToUser=True, readAhead="end", prompt=""), ask("Notes")]
        house.workflow("Main", *nodes)
        served.save_user()
        served.ask(stream=stream)
        assert recorder.settled.wait(PATIENCE_S)
        history.close(PATIENCE_S)
        assert [call.kind for call in recorder.calls] == ["model", "prefill", "model"]
        assert recorder.run.costs == (Cost("USD", 3 * ONE_CALL),)
        assert cost_series(served) == {("ana", "big", "USD"): pytest.approx(3 * ONE_CALL / 1e6)}
        last = [r.getMessage() for r in caplog.records if r.getMessage().startswith("request ")][-1]
        assert last.endswith(f", cost {3 * ONE_CALL / 1e6:f} USD")
        with read_history(tmp_path) as sql:
            [row] = sql.execute("SELECT prompt, completion, millionths, about FROM runs, costs").fetchall()
        assert row == (3 * 5, 3 * 2, 3 * ONE_CALL, 0)

    def test_nothing_without_a_price(self, priced, tell, recorder, served, caplog):
        """No word of it anywhere."""
        caplog.set_level(logging.INFO)
        tell(ask("Answer", "free"))
        assert recorder.ended.wait(PATIENCE_S)
        assert not any("cost" in record.getMessage() for record in caplog.records)
        assert cost_series(served) == {} and recorder.run.costs == ()
