"""What is seen of a prompt that is read ahead: in the run's record, in the numbers, and nothing of it at the client."""

from __future__ import annotations

import json
import threading

import pytest
from prometheus_client.parser import text_string_to_metric_families

from Middleware.api.console import recorder as console
from Middleware.api.console.shapes import run_json
from Middleware.api.wsgi.metrics import Metrics
from tests.patience import PATIENCE_S, wait_until
from tests.workflows.served.conftest import REPLY, Recorder, observe


def node(**fields):
    fixed = {
        "type": "Standard",
        "endpointName": "big",
        "title": "Answer",
        "latePrompt": "LATE",
        "readAhead": "end",
    }
    return {**fixed, **fields}


class Ended(Recorder):
    """Knows when what was read ahead has been."""

    def __init__(self, keeps_text=True):
        super().__init__(keeps_text)
        self.read = threading.Event()

    def note_change(self, run, what, node):
        super().note_change(run, what, node)
        if what == "call_ended" and node.calls[-1].kind == "prefill":
            self.read.set()


@pytest.fixture
def recorder(served):
    return observe(served, Ended())


def answered(house, served, recorder, *nodes, **user):
    house.workflow("Main", *nodes)
    served.save_user(**user)
    status, body = served.ask()
    assert status == 200 and recorder.read.wait(PATIENCE_S)
    return json.loads(body)


class TestTheRecord:
    def test_a_call_of_its_own_behind_the_end(self, house, served, big, recorder, site):
        """The run is over before it begins: its state, its usage and its times are those without it."""
        body = answered(house, served, recorder, node())
        model, prefill = recorder.calls
        assert (model.kind, prefill.kind) == ("model", "prefill")
        assert recorder.run.state == "done" and recorder.run.all_usage["calls"] == 1
        assert body["usage"]["prompt_tokens"] == REPLY["usage"]["prompt_tokens"]
        assert json.loads(prefill.body)["messages"][-1] == {"role": "assistant", "content": "Hello"}
        assert recorder.run.nodes[0].last_model_call is model and model.raw == "Hello"
        calls = run_json(recorder.run, recorder.run.ended)["nodes"][0]["calls"]
        assert [call["kind"] for call in calls] == ["model", "prefill"]

    def test_of_a_private_run_times_alone(self, house, served, big, recorder):
        """No body, as of its other calls."""
        answered(house, served, recorder, node(), redactLogOutput=True)
        prefill = recorder.calls[-1]
        assert prefill.kind == "prefill" and prefill.body == b"" and prefill.ended

    def test_one_that_was_read_while_others_worked_stands_first(self, house, served, big, recorder, site):
        """It began before its node did."""
        draft = {"type": "Standard", "endpointName": "big", "title": "Draft", "prompt": "Draft."}
        elsewhere = site.url("").replace("127.0.0.1", "localhost").rstrip("/")
        big("here", endpoint=elsewhere)
        answered(house, served, recorder, draft, node(endpointName="here", readAhead="start"))
        assert [call.kind for call in recorder.run.nodes[1].calls] == ["prefill", "model"]
        assert recorder.run.nodes[1].calls[0].begun <= recorder.run.nodes[1].begun

    def test_the_console_counts_its_texts(self, house, served, big, recorder):
        """Also what comes when the run has ended."""
        kept = console.Recorder()
        observe(served, kept)
        answered(house, served, recorder, node())
        run = kept.runs()[0]
        wait_until(lambda: run.bytes_kept >= len(recorder.calls[-1].body) + len(recorder.calls[0].body))
        assert kept.kept_sizes()["bytes"] == run.bytes_kept


def samples(metrics):
    text = metrics.exposition("text/plain")[1].decode()
    return {
        (sample.name, sample.labels.get("kind")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name
        in ("headrace_backend_calls_total", "headrace_backend_tokens_total", "headrace_workflow_calls_total")
    }


@pytest.mark.parametrize("when", ["end", "start"])
def test_it_is_counted_among_the_calls_to_backends(house, served, big, recorder, site, when):
    """Once, and not among those that the client is told of."""
    metrics = Metrics()
    observe(served, metrics)
    draft = {"type": "Standard", "endpointName": "big", "title": "Draft", "prompt": "Draft."}
    big("here", endpoint=site.url("").replace("127.0.0.1", "localhost").rstrip("/"))
    answered(house, served, recorder, draft, node(endpointName="here", readAhead=when))
    wait_until(lambda: ("headrace_backend_calls_total", "prefill") in samples(metrics))
    told = samples(metrics)
    assert told["headrace_backend_calls_total", "prefill"] == 1
    assert told["headrace_workflow_calls_total", None] == 2
