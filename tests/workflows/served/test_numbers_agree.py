"""Trace, log, numbers, usage and backend tell the same of one request, whatever its workflow is and however it ends."""

from __future__ import annotations

import ast
import json
import logging
import random
import re
from collections import Counter

import pytest
from prometheus_client.parser import text_string_to_metric_families

from Middleware.services.cancellation_service import cancellation_service
from tests.e2e.answers import ROUTES
from tests.patience import PATIENCE_S
from tests.workflows.served.conftest import REPLY, Recorder, answer_of_model, observe
from tests.workflows.served.test_traced_runs import SCRIPT, ask, say

SEEDS = range(200)
KINDS = ("say", "ask", "bad", "spare", "mute", "group", "child", "script")
CALL = re.compile(r"endpoint '(\w+)' \(.*, tries (\d+)\): .* ended (\w+), usage (.*)")
NODE = re.compile(r"  (\d+) (\w+) '(.*)' (\S*) (\S*) (\d+\.\d{3}) s, (\d+) tokens(?:, (\w+))?")
LAST = re.compile(
    r"request \S+: POST .*, (\d+) tokens(?:, workflow (\d+) \+ (\d+) in (\d+) calls)?(?:, \w+)?"
)
IN_THE_LOG = {"done": None, "went_on": "failed"}


class Chance:
    """Random workflows; children are written beside them."""

    def __init__(self, seed, house, script):
        self.random, self.house, self.script = random.Random(seed), house, script
        self.children = 0

    def nodes(self, depth=0):
        made = []
        for number in range(self.random.randint(1, 3)):
            made += self.some(f"{depth}.{number}", depth)
        last = self.random.choice(["ask", "ask", "ask", "mute", "spare", "bad", "stop"])
        made += self.some(f"last {depth}", depth, last)
        if depth == 0 and self.random.random() < 0.3:
            made[-1]["returnToUser"] = True
            made += self.some("after", depth)
        return made

    def some(self, title, depth, kind=""):
        kind = kind or self.random.choice([kind for kind in KINDS if depth < 2 or kind != "child"])
        if kind == "group":
            endpoints = [self.random.choice(["big", "big", "mute", "bad"]) for _ in range(3)]
            return [self.call(f"{title}.{i}", name, parallelGroup=title) for i, name in enumerate(endpoints)]
        if kind == "child":
            self.children += 1
            name = f"Child{self.children}"
            self.house.workflow(name, *self.nodes(depth + 1))
            return [{"type": "CustomWorkflow", "title": title, "workflowName": name}]
        if kind == "script":
            return [
                {"type": "PythonModule", "title": title, "module_path": str(self.script), "args": ["tea"]}
            ]
        if kind == "say":
            return [say("a text", title)]
        return [self.call(title, "big" if kind == "ask" else kind)]

    def call(self, title, endpoint, **more):
        goes_on = {"onNodeError": "continue", "errorText": "no."} if self.random.random() < 0.85 else {}
        return ask(title, endpoint, **goes_on, **more)


@pytest.fixture
def recorder(served):
    return observe(served, Recorder())


@pytest.fixture
def backends(big, site, recorder):
    """`big` answers, `bad` refuses, `spare` refuses and has a backup, `mute` tells no usage, `stop` is left in the
    middle."""
    path = "/v1/chat/completions"
    site.pages[f"/bad{path}"] = (400, {}, b'{"error": {"message": "not today"}}')
    site.pages[f"/stop{path}"] = lambda handler: cancellation_service.request_cancellation(
        recorder.run.id, "the console"
    )
    site.pages[f"/mute{path}"] = lambda handler: answer_of_model(site, handler, usage=None)
    for name, more in {"bad": {}, "mute": {}, "stop": {}, "spare": {"backupEndpointName": "big"}}.items():
        place = "bad" if name == "spare" else name
        big(name, endpoint=site.url(f"/{place}").rstrip("/"), **more)


@pytest.mark.parametrize("seed", SEEDS)
def test_all_agree(house, served, backends, recorder, site, caplog, tmp_path, seed):
    """Nodes, calls, tries, tokens, how each ended: in the trace, in the log, at `/metrics`, at the backend, and as the
    client was told them."""
    script = tmp_path / "ask.py"
    script.write_text(SCRIPT, "utf-8")
    chance = Chance(seed, house, script)
    house.workflow("Main", *chance.nodes())
    served.save_user()
    caplog.set_level(logging.INFO)
    status, told = asked(served, stream=chance.random.random() < 0.5)
    assert recorder.ended.wait(PATIENCE_S)
    run, shown, log = recorder.run, samples(served), [r.getMessage() for r in caplog.records]
    check_the_end(run, status, told, shown, log)
    check_calls(run, shown, log, site)
    check_nodes(run, log)


def asked(served, *, stream):
    """Status, and what the client was told of the usage: of the answer and of the workflow."""
    body = ROUTES["openai-chat"].ask("ana", "hi", stream=stream)
    if stream:
        body["stream_options"] = {"include_usage": True}
    reply = served.app.test_client().post("/v1/chat/completions", json=body)
    data = reply.get_data().decode()
    reply.close()
    if stream and reply.status_code == 200:
        units = [json.loads(line[6:]) for line in data.splitlines() if line.startswith("data: {")]
        [last] = [unit for unit in units if unit.get("usage")] or [{}]
        return 200, (last.get("usage"), last.get("workflow_usage"))
    return reply.status_code, (
        json.loads(data).get("usage"),
        json.loads(reply.headers.get("X-Workflow-Usage", "null")),
    )


def check_the_end(run, status, told, shown, log):
    usage, of_workflow = told
    assert run.state == {200: "done", 499: "cancelled"}.get(status, "failed") or (status, run.state) in (
        (200, "cancelled"),
        (200, "failed"),
    )
    assert shown["headrace_requests_total"] == {(run.state,): 1}
    [last] = [found for line in log if (found := LAST.fullmatch(line))]
    numbers = tuple(map(int, last.groups()[1:])) if last[2] is not None else None
    assert numbers == (run.all_usage and tuple(run.all_usage.values()))
    by_kind = {(kind,): (run.all_usage or {}).get(f"{kind}_tokens", 0) for kind in ("prompt", "completion")}
    assert shown.get("headrace_workflow_tokens_total", Counter()) == Counter(by_kind)
    assert shown.get("headrace_workflow_calls_total", {(): 0})[()] == (run.all_usage or {"calls": 0})["calls"]
    if run.state == "done":
        assert of_workflow == run.all_usage
        assert {key: run.usage[key] for key in ("prompt_tokens", "completion_tokens")} == {
            key: usage[key] for key in ("prompt_tokens", "completion_tokens")
        }
        answered = [call for node in run.nodes for call in node.calls if counts(node, call)]
        assert len(answered) == (run.all_usage or {"calls": 0})["calls"]
        if all(call.usage for call in answered):
            assert (run.all_usage or REPLY["usage"])["prompt_tokens"] == 5 * max(1, len(answered))


def counts(node, call):
    return call.kind == "model" and call.outcome == "stop" and not node.after


def check_calls(run, shown, log, site):
    models = [call for node in run.nodes for call in node.calls if call.kind == "model"]
    outcomes = Counter((call.endpoint, call.outcome) for call in models)
    assert shown.get("headrace_backend_calls_total", Counter()) == outcomes
    for kind in ("prompt", "completion"):
        tokens = sum((call.usage or {}).get(f"{kind}_tokens", 0) for call in models)
        assert shown.get("headrace_backend_tokens_total", Counter())[(kind,)] == tokens
    lines = [found.groups() for line in log if (found := CALL.fullmatch(line))]
    logged = sorted((name, int(tries), outcome, usage) for name, tries, outcome, usage in lines)
    assert logged == sorted((c.endpoint, c.tries, c.outcome, str(c.usage or "-")) for c in models)
    assert all(usage == "-" or ast.literal_eval(usage) for *_, usage in logged)
    assert len(site.seen) == sum(call.tries for call in models)


def check_nodes(run, log):
    logged = []
    for text in log:
        if found := re.match(r"(\S+): (\d+) of (\d+) nodes ran", text):
            rows = [NODE.fullmatch(line).groups() for line in text.splitlines()[1:]]
            assert int(found[2]) == len(rows)
            logged += [(found[1], int(found[3]), *row) for row in rows]
    traced = [
        (
            *(node.workflow, node.of, str(node.number), node.type, node.title, node.endpoint, node.url),
            *(f"{node.seconds:.3f}", str(node.tokens), IN_THE_LOG.get(node.state, node.state)),
        )
        for node in run.nodes
    ]
    assert sorted(logged, key=str) == sorted(traced, key=str)
    assert all(node.ended and node.state not in ("running", "answering") for node in run.nodes)


def samples(served):
    """Name -> the labels that are not of the run -> count."""
    text = served.app.test_client().get("/metrics").text
    found: dict[str, Counter] = {}
    names = ("endpoint", "outcome", "kind")
    for family in text_string_to_metric_families(text):
        keep = {"headrace_backend_tokens": ("kind",), "headrace_backend_calls": names[:2]}.get(
            family.name, names
        )
        for sample in family.samples:
            key = tuple(sample.labels[name] for name in keep if name in sample.labels)
            found.setdefault(sample.name, Counter())[key] += int(sample.value)
    return found
