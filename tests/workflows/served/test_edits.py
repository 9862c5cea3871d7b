"""Config files that change while the server runs: a typo in each kind, an edit in the middle of a request, another user."""

from __future__ import annotations

import json
import logging
import time

import pytest

from Middleware.api.console.stood_out import stood_out
from tests.e2e.answers import ROUTES
from tests.workflows.served.conftest import Recorder, observe

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}

# kind, file, the content with a typo, what the message names
TYPOS = [
    ("user", "Users/ana", {"customWorkflowOverride": "yes", "routingConfig": ["routes"]}, "routingConfig: found a list, allowed: a text"),
    ("pointer", "Users/_current-user", {"currentUsr": "ana"}, "is 'currentUsr' meant to be it?"),
    ("routing", "Routing/routes", {"COOKING": {"description": "d", "workfow": "Main"}}, "is 'workfow' meant to be it?"),
    ("workflow", "Workflows/ana/Main", [{"type": "Standard", "endpointNme": "flat"}], "is 'endpointNme' meant to be it?"),
    ("shared-child", "Workflows/_common/Far", [{"type": "StaticResponse", "content": 5}], "node 1, content: found 5, allowed: a text"),
    ("endpoint", "Endpoints/flat", {"endpont": "http://model.test", "apiTypeConfigFileName": "Flat"}, "is 'endpont' meant to be it?"),
    ("api-type", "ApiTypes/Flat", {"typ": "scriptedFlat"}, "is 'typ' meant to be it?"),
    ("preset", "Presets/any/cold", ["temperature"], "found a list, allowed: an object"),
    ("template", "PromptTemplates/marks", {"promptTemplateUserPrefix": 1}, "promptTemplateUserPrefix: found 1, allowed: a text"),
    ("structured-output", "StructuredOutputs/answer", {}, "StructuredOutputs/answer.json"),
]  # fmt: skip


@pytest.fixture
def kitchen(served):
    """The pointer's user routes to a workflow that uses a file of every other kind."""
    house = served.house
    house.user |= {
        "customWorkflowOverride": False,
        "routingConfig": "routes",
        "categorizationWorkflow": "Pick",
    }
    house.write("Users/_current-user", {"currentUser": "ana"})
    house.write(
        "Routing/routes",
        {name: {"description": "d", "workflow": "Main"} for name in ("COOKING", "OTHER")},
    )
    house.write("Presets/any/cold", {"temperature": 0})
    house.write("StructuredOutputs/answer", SCHEMA)
    house.write(
        "ApiTypes/Chat",
        {"type": "scriptedChat", "presetType": "any", "structuredOutput": {"field": "f", "style": "raw"}},
    )
    house.workflow("Pick", {"type": "Standard", "endpointName": "chat", "structuredOutputFile": "answer"})
    house.workflow("Far", {"type": "StaticResponse", "content": "far"}, folder="_common")
    house.workflow(
        "Main",
        {"type": "CustomWorkflow", "workflowName": "Far"},
        {"type": "Standard", "endpointName": "flat", "preset": "cold", "systemPrompt": "{agent1Output}"},
    )
    house.model.replies = [
        lambda call: "cooking" if call.conversation else f"{call.system_prompt}|{call.prompt}"
    ]
    served.users(())
    served.save_user()
    return served


@pytest.fixture
def observed(served):
    return observe(served, Recorder())


@pytest.mark.parametrize(("file", "typo", "named"), [t[1:] for t in TYPOS], ids=[t[0] for t in TYPOS])
def test_a_typo_in_each_kind_of_file(kitchen, caplog, file, typo, named):
    """The server goes on with the last good version, by both protocols, and says once what is wrong where."""
    before = kitchen.every_text()
    kitchen.house.write(file, typo)
    assert kitchen.every_text() == before
    (said,) = {r.getMessage() for r in caplog.records if r.levelno == logging.ERROR}
    assert said.startswith(f"{file}.json")
    assert named in said
    assert "last good version" in said


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("file", "typo", "named"), [t[1:] for t in TYPOS], ids=[t[0] for t in TYPOS])
def test_a_run_says_that_it_used_the_last_good_version(kitchen, observed, caplog, file, typo, named, stream):
    """First of all that stood out, and first in the answer's line of the log: which file, and what is wrong with it."""
    kitchen.text(stream=stream)
    kitchen.house.write(file, typo)
    caplog.set_level(logging.INFO)
    kitchen.text(stream=stream)
    first = stood_out(observed.runs[-1], time.monotonic())[0]
    assert first["rule"] == "outdated" and first["text"].startswith(f"{file}.json")
    assert named in first["text"] and first["text"].endswith("; the last good version was used.")
    [line] = [r.getMessage() for r in caplog.records if "first token" in r.getMessage()]
    assert line.startswith(f"request {observed.runs[-1].id}: {first['text']} POST ")


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_repaired_file_is_not_spoken_of(kitchen, observed, stream):
    """Nor is one that this request does not read."""
    right = (kitchen.house.root / "Workflows/ana/Main.json").read_text("utf-8")
    kitchen.text(stream=stream)
    kitchen.house.write("Workflows/ana/Main", [])
    kitchen.house.write("Workflows/ana/Other", [])
    kitchen.text(stream=stream)
    (kitchen.house.root / "Workflows/ana/Main.json").write_text(right, "utf-8")
    kitchen.text(stream=stream)
    assert [len(run.outdated) for run in observed.runs] == [0, 1, 0]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("route", ROUTES)
def test_a_failure_of_a_text_that_is_gone(kitchen, observed, caplog, route, stream):
    """The client learns of the broken edit first; the failure of the old text names no line of the new one."""
    kitchen.text(route=route)
    kitchen.house.write("Workflows/ana/Main", [{"type": "StaticResponse", "content": 5}])
    (kitchen.house.root / "Endpoints/flat.json").unlink()
    body = kitchen.ask(route=route, stream=stream)[1].decode()
    edit = "Workflows/ana/Main.json:1:40: node 1, content: found 5, allowed: a text; the last good version was used."
    gone = "Workflows/ana/Main.json: node 2 (Standard): no endpoint"
    cause_first = "tried Endpoints/flat.json; in Workflows/ana/Main.json: node 2 (Standard)"
    assert f"{edit} no endpoint" in body and cause_first in body
    assert f"failed: {edit} {gone}" in caplog.text
    told = [one["text"] for one in stood_out(observed.runs[-1], time.monotonic())]
    assert told[0] == edit and told[1].startswith("no endpoint") and cause_first in told[1]


@pytest.mark.parametrize(("file", "typo", "named"), [t[1:] for t in TYPOS], ids=[t[0] for t in TYPOS])
def test_a_typo_that_was_never_right(kitchen, file, typo, named):
    """The request that needs the file fails with the message; the next one works when the file is mended."""
    path = kitchen.house.root / f"{file}.json"
    right = path.read_text("utf-8")
    kitchen.house.write(file, typo)
    status, body = kitchen.ask()
    assert (status, named in json.loads(body)["error"]["message"]) == (500, True), body
    path.write_text(right, "utf-8")
    assert kitchen.text() == "<system>far</system>|<user>hi</user>"


def test_an_edit_that_works_and_is_hardly_as_meant(kitchen, caplog):
    """It is used, and its warnings are logged once, as those of a start."""
    kitchen.text()
    kitchen.house.write(
        "Workflows/ana/Main",
        [{"type": "Standard", "endpointName": "flat", "Prompt": "x", "system_prompt": "y"}],
    )
    kitchen.text()
    kitchen.text()
    warnings = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert warnings == [
        "Workflows/ana/Main.json:1:57: warning: node 1, Prompt: unknown field 'Prompt' (did you mean 'prompt'?)",
        "Workflows/ana/Main.json:1:79: warning: node 1, system_prompt: unknown field 'system_prompt' (did you mean 'systemPrompt'?)",
    ]


def test_an_edit_in_the_middle_of_a_request(served):
    """Files that the request has not read yet count as they were; the next request sees the new ones."""
    house = served.house
    served.save_user()
    house.workflow("Late", {"type": "StaticResponse", "content": "old"})
    house.workflow(
        "Main",
        {"type": "Standard", "endpointName": "chat"},
        {"type": "CustomWorkflow", "workflowName": "Late"},
    )
    assert served.text() == "old"

    def edit(_):
        house.workflow("Late", {"type": "StaticResponse", "content": "new"})
        return "x"

    house.model.replies = ["x", edit, "x"]
    assert served.text() == "old"
    assert served.text() == "new"


def test_the_pointer_names_another_user(served):
    """It is read at each request."""
    served.users(())
    served.house.workflow("Main", {"type": "StaticResponse", "content": "of ana"})
    served.house.workflow("Main", {"type": "StaticResponse", "content": "of ben"}, folder="ben")
    served.save_user("ana")
    served.save_user("ben")
    for name in ("ana", "ben", "ana"):
        served.house.write("Users/_current-user", {"currentUser": name})
        assert set(served.every_text("gpt-4").values()) == {f"of {name}"}
        assert served.model_name() == name
