"""Trace, log, numbers and backend tell the same of one request, whatever its workflow is."""

from __future__ import annotations

import logging
import random
import re
from collections import Counter

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.workflows.served.conftest import Recorder, observe
from tests.workflows.served.test_traced_runs import ask, say

SEEDS = range(30)


def nodes_of(chance, house, depth=0):
    """A random list of nodes; children are written beside it."""
    made = []
    for number in range(chance.randint(1, 3)):
        kind = chance.choice(["say", "ask", "dead", "spare", "group", "child" if depth < 2 else "say"])
        title = f"{kind} {depth}.{number}"
        if kind == "group":
            made += [ask(f"{title}.{i}", parallelGroup=f"g{depth}.{number}") for i in range(3)]
        elif kind == "child":
            name = f"Child{depth}{number}{chance.randint(0, 999)}"
            house.workflow(name, *nodes_of(chance, house, depth + 1))
            made.append({"type": "CustomWorkflow", "title": title, "workflowName": name})
        elif kind == "say":
            made.append(say("a text", title))
        else:
            endpoint = {"ask": "big", "dead": "dead", "spare": "spare"}[kind]
            more = {"onNodeError": "continue"} if chance.random() < 0.8 else {}
            made.append(ask(title, endpoint, **more))
    return [*made, ask(f"last {depth}")]


@pytest.mark.parametrize("seed", SEEDS)
def test_all_agree(house, served, big, site, caplog, seed):
    """Calls by endpoint and outcome, nodes that ran, requests by outcome."""
    chance = random.Random(seed)
    big("dead", endpoint="http://127.0.0.1:9", connectTimeoutInSeconds=1)
    big("spare", endpoint="http://127.0.0.1:9", backupEndpointName="big")
    house.workflow("Main", *nodes_of(chance, house))
    served.save_user()
    recorder = observe(served, Recorder())
    with caplog.at_level(logging.INFO):
        status, _ = served.ask(stream=chance.random() < 0.5)
    assert recorder.ended.wait(10)
    run, shown = recorder.run, samples(served)
    calls = Counter((call.endpoint, call.outcome) for node in run.nodes for call in node.calls)
    assert run.state == ("done" if status == 200 else "failed")
    assert shown["headrace_requests_total"] == {(run.state,): 1}
    assert shown["headrace_backend_calls_total"] == calls
    assert len(site.seen) == sum(n for (_, outcome), n in calls.items() if outcome == "stop")
    logged = [record.getMessage() for record in caplog.records]
    ended = [re.match(r"endpoint '(\w+)' \(.*ended (\w+), usage", line) for line in logged]
    assert Counter(found.groups() for found in ended if found) == calls
    ran = [re.search(r": (\d+) of \d+ nodes ran", line) for line in logged]
    assert sum(int(found[1]) for found in ran if found) == len(run.nodes)
    assert all(node.ended and node.state not in ("running", "answering") for node in run.nodes)


def samples(served):
    """Name -> (outcome, or endpoint and outcome) -> count."""
    text = served.app.test_client().get("/metrics").text
    found: dict[str, Counter] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = tuple(sample.labels[name] for name in ("endpoint", "outcome") if name in sample.labels)
            found.setdefault(sample.name, Counter())[key] += int(sample.value)
    return found
