"""The names that the editor offers."""

from __future__ import annotations

import json

import pytest

from Middleware.config.loader import ConfigTree
from tests.api.console.conftest import a_hub

FILES = {
    "Users/mira.json": {
        "endpointConfigsSubDirectory": "lan",
        "userWideWorkflowVariables": {"town": "Nantes", "city": "Brest"},
    },
    "ApiTypes/Chat.json": {"nameForReference": "Chat", "presetType": "Open", "type": "openAIChatCompletion"},
    "Endpoints/lan/Small.json": {"apiTypeConfigFileName": "Chat", "endpoint": "http://127.0.0.1:1"},
    "Endpoints/lan/Broken.json": {"apiTypeConfigFileName": "Nothing"},
    "Endpoints/other/Far.json": {"apiTypeConfigFileName": "Chat"},
    "Presets/Open/Warm.json": {},
    "Presets/Open/mira/Own.json": {},
    "Presets/Other/Cold.json": {},
    "StructuredOutputs/mira/person.json": {},
    "StructuredOutputs/place.json": {},
    "MCPServers/files.json": {},
    "Workflows/mira/Main.json": {"nodes": []},
    "Workflows/_common/Title.json": {"nodes": []},
    "Workflows/_shared/novel/Chapter.json": {"nodes": []},
}


@pytest.fixture
def offered(ask, tmp_path):
    """`offered("user=mira")` gives (status, value) over a tree of `FILES`."""
    for name, content in FILES.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(content), encoding="utf-8")
    hub = a_hub(snapshot=ConfigTree(tmp_path).snapshot)
    return lambda query: ask("GET", "names", hub=hub, query=query)


def test_names_come_from_the_folders_of_the_user(offered):
    """Presets from those of the preset types of the user's endpoints; one that cannot be read hinders nobody."""
    status, value = offered("user=mira&path=Workflows/mira/Main.json")
    assert status == 200
    assert value == {
        "endpoints": ["Broken", "Small"],
        "presets": ["Own", "Warm"],
        "workflows": ["Main", "Title"],
        "structured_outputs": ["person", "place"],
        "prompt_templates": [],
        "mcp_servers": ["files"],
        "api_types": ["Chat"],
        "variables": ["city", "town"],
        "types": [],
    }


def test_the_folder_of_the_caller_is_looked_into_too(offered):
    """As a run does that looks for a child."""
    _, value = offered("path=Workflows/_shared/novel/Chapter.json")
    assert value["workflows"] == ["Chapter", "Main", "Title"]


@pytest.mark.parametrize("path", ["", "..", "Workflows/../../x/y.json", "/etc/passwd", "Workflows//a.json"])
def test_a_path_that_leads_elsewhere_adds_nothing(offered, path):
    """The question's path says where a caller stands; it is never followed out of the tree."""
    status, value = offered(f"user=mira&path={path}")
    assert (status, value["workflows"]) == (200, ["Main", "Title"])


def test_a_user_that_is_not_served_is_refused(offered):
    """Whether there is a file of that name or not."""
    assert offered("user=jo") == (404, {"error": "this server does not serve such a user"})
