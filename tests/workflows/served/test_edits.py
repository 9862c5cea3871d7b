"""Config files that change while the server runs: a typo in each kind, an edit in the middle of a request, another user."""

from __future__ import annotations

import json
import logging

import pytest

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
