"""What belongs into a pack. How one is made and what it says: tests/api/commands/test_pack.py."""

from __future__ import annotations

import json

import pytest

from Middleware.services.pack_archive import PackRefused
from Middleware.workflows.checks.pack_contents import pack_user
from tests.workflows.checks.conftest import llm


def files_of(checked, **more):
    return sorted(pack_user(checked.tree.snapshot(), "ana", **more).pack.files)


def test_everything_that_the_user_reaches(checked):
    """Workflows, templates, presets; no endpoint, no API type, and nothing of others."""
    checked.flow(
        llm(preset="cold", structuredOutputFile="shape"),
        {"type": "CustomWorkflow", "workflowName": "Child"},
    )
    checked.flow(name="Child")
    checked.flow(name="Unused")
    checked.put("StructuredOutputs/shape.json", {"type": "object"})
    checked.put("StructuredOutputs/other.json", {"type": "object"})
    assert files_of(checked) == [
        "config/Presets/T/cold.json",
        "config/PromptTemplates/plain.json",
        "config/StructuredOutputs/shape.json",
        "config/Users/ana.json",
        "config/Workflows/ana/Child.json",
        "config/Workflows/ana/Main.json",
    ]


def test_the_user_file_leads_nowhere_on_this_machine(checked):
    """Folders and endpoints are those of whoever unpacks."""
    checked.change("Users/ana.json", sqlLiteDirectory="/srv", exposeEndpoints=True)
    user = json.loads(pack_user(checked.tree.snapshot(), "ana").pack.files["config/Users/ana.json"])
    assert user == {
        "customWorkflowOverride": True,
        "customWorkflow": "Main",
        "chatPromptTemplateName": "plain",
    }


def test_one_workflow_alone(checked):
    """With a user who answers by it."""
    checked.flow(name="Other")
    found = pack_user(checked.tree.snapshot(), "ana", workflow="Other").pack
    assert found.name == "ana:Other"
    assert json.loads(found.files["config/Users/ana.json"])["customWorkflow"] == "Other"
    assert sorted(found.files) == [
        "config/PromptTemplates/plain.json",
        "config/Users/ana.json",
        "config/Workflows/ana/Other.json",
    ]
    with pytest.raises(PackRefused, match="no workflow 'None'"):
        pack_user(checked.tree.snapshot(), "ana", workflow="None")


def test_what_has_errors_is_refused(checked):
    """It would work nowhere."""
    checked.flow(llm(endpointName="nobody"))
    with pytest.raises(PackRefused, match="has errors"):
        files_of(checked)
