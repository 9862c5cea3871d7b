"""What belongs into a pack. How one is made and what it says: tests/api/commands/test_pack.py."""

from __future__ import annotations

import json

import pytest

from Middleware.services.pack_archive import PackRefused
from Middleware.workflows.checks import pack_contents
from Middleware.workflows.checks.pack_contents import meant_by, pack_user
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


@pytest.mark.parametrize(
    ("name", "owner", "meant"),
    [
        ("ana", "", ("ana", None)),
        ("ANA", "", ("ANA", None)),
        ("ana:Draft", "", ("ana", "Draft")),
        ("Draft", "", ("ben", "Draft")),
        ("Draft", "ana", ("ana", "Draft")),
        ("ANA", "ana", ("ana", None)),
    ],
)
def test_what_a_name_means(checked, name, owner, meant):
    """A user, a user's workflow, or a workflow that one user alone has."""
    checked.put("Users/ben.json", {"customWorkflow": "Draft"})
    checked.flow(name="Draft", folder="ben")
    checked.flow(folder="ben")
    assert meant_by(checked.tree.snapshot(), name, owner) == meant


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("Main", "several users have a workflow 'Main': ana, ben; name the user, too"),
        ("None", "no user and no user's workflow 'None'; the users are: ana, ben"),
        ("ana:", "no user and no user's workflow 'ana:'"),
    ],
)
def test_a_name_that_means_nothing_or_too_much(checked, name, told):
    checked.put("Users/ben.json", {"customWorkflow": "Main"})
    checked.flow(folder="ben")
    with pytest.raises(PackRefused, match=told):
        meant_by(checked.tree.snapshot(), name, "")


class TestPresets:
    """A preset goes along for each kind of backend that it is there for."""

    def test_of_every_kind(self, checked):
        checked.put("Presets/Other/cold.json", {"temp": 0})
        checked.put("Presets/Other/warm.json", {"temp": 1})
        files = pack_user(checked.tree.snapshot(), "ana").pack.files
        assert [json.loads(files[f"config/Presets/{kind}/cold.json"]) for kind in ("Other", "T")] == [
            {"temp": 0},
            {"temperature": 0},
        ]
        assert "config/Presets/Other/warm.json" not in files

    @pytest.mark.parametrize(
        "fields", [{"preset": ""}, {"endpointName": "{x}"}, {"preset": "{agent1Output}"}]
    )
    def test_one_that_nobody_knows_yet(self, checked, fields):
        """What has no name, or one that only a run knows, hinders none of the others."""
        checked.flow(llm(**fields), llm(preset="cold"))
        assert "config/Presets/T/cold.json" in files_of(checked)

    def test_samplers_of_an_endpoint_become_a_file(self, checked):
        """In the names of its kind, as the endpoint stays here."""
        checked.put(
            "ApiTypes/Api.json",
            {"type": "openAIChatCompletion", "presetType": "T", "samplerFieldMap": {"temperature": "temp"}},
        )
        checked.change("Endpoints/lan/small-model.json", presetSamplers={"temperature": 0.3})
        checked.flow(llm(preset="small-model"))
        files = pack_user(checked.tree.snapshot(), "ana").pack.files
        assert json.loads(files["config/Presets/T/small-model.json"]) == {"temp": 0.3}


class TestScripts:
    @pytest.fixture
    def scripts(self, tmp_path, monkeypatch):
        """Texts of scripts in the folder; one of another name lies elsewhere."""
        known = {
            "dice": "from Public.workflow_python_scripts import sides\n",
            "sides": "from Public.workflow_python_scripts import dice\n",
            "key": "k = 'sk-proj-abcdefghijklmnop123456'\n",
        }
        for name, text in known.items():
            (tmp_path / f"{name}.py").write_text(text)

        def script_of(name):
            name = name.rpartition("/")[2].removesuffix(".py")
            return (tmp_path / f"{name}.py", f"{name}.py") if name in known else None

        monkeypatch.setattr(pack_contents, "script_of", script_of)
        walk = pack_contents.UserWalk.findings
        monkeypatch.setattr(pack_contents.UserWalk, "findings", lambda self: walk(self) and [])
        return lambda *names: [{"type": "PythonModule", "module_path": name} for name in names]

    def test_with_what_they_import(self, checked, scripts):
        """Under the name that every machine knows."""
        checked.flow(*scripts("/srv/dice.py"))
        packed = pack_user(checked.tree.snapshot(), "ana")
        assert {n for n in packed.pack.files if n.startswith("scripts/")} == {
            "scripts/dice.py",
            "scripts/sides.py",
        }
        flow = json.loads(packed.pack.files["config/Workflows/ana/Main.json"])
        assert flow["nodes"][0]["module_path"] == "Public/workflow_python_scripts/dice.py"
        assert packed.remarks == []

    def test_one_that_lies_elsewhere(self, checked, scripts):
        checked.flow(*scripts("/srv/lost.py"))
        with pytest.raises(
            PackRefused, match=r"Main.json, node 1: the script /srv/lost.py isn't in the folder"
        ):
            pack_user(checked.tree.snapshot(), "ana")

    def test_one_that_seems_to_hold_a_key(self, checked, scripts):
        checked.flow(*scripts("key.py"))
        remarks = pack_user(checked.tree.snapshot(), "ana").remarks
        assert remarks == ["the script key.py seems to hold a key: look before you share it"]


class TestNeeds:
    def needs(self, checked):
        return pack_user(checked.tree.snapshot(), "ana").pack.needs

    def test_of_a_plain_user(self, checked):
        """One endpoint that can chat."""
        needs = self.needs(checked)
        assert (needs.roles, needs.models, needs.extras) == ({"small-model": ("chat",)}, {}, ())
        assert (needs.programs, needs.mcp_servers, needs.environment) == ((), (), ())

    def test_what_a_model_has_to_be_able_to(self, checked):
        """All that some node asks of it, in one order."""
        checked.put("StructuredOutputs/shape.json", {"type": "object"})
        checked.flow(
            llm(structuredOutputFile="shape"),
            llm(allowTools=True),
            llm(type="ImageProcessor"),
        )
        assert self.needs(checked).roles == {"small-model": ("chat", "tools", "vision", "json")}

    def test_the_model_that_it_was_made_with(self, checked):
        checked.change("Endpoints/lan/small-model.json", modelNameToSendToAPI="tiny")
        assert self.needs(checked).models == {"small-model": "tiny"}

    def test_encryption(self, checked):
        checked.change("Users/ana.json", encryptUsingApiKey=True)
        assert self.needs(checked).extras == ("encryption",)

    def test_programs_servers_and_keys(self, checked):
        """What is started here, and the environment that it is handed."""
        checked.put(
            "MCPServers/notes.json",
            {"transport": "stdio", "command": "npx", "env": {"A": "${ENV:NOTES_KEY}"}},
        )
        checked.put("MCPServers/far.json", {"transport": "streamable_http", "url": "http://127.0.0.1:1"})
        checked.put("MCPServers/unused.json", {"transport": "stdio", "command": "uvx"})
        checked.flow(
            llm(agentTools=["mcp:notes", "mcp:far"], type="Agent"),
            {"type": "CurlCommand", "args": ["http://127.0.0.1:1"]},
            {"type": "WebFetch", "url": "http://127.0.0.1:1", "headers": {"X-Key": "${ENV:PAGE_KEY}"}},
        )
        needs = self.needs(checked)
        assert needs.extras == ("mcp",)
        assert (needs.programs, needs.mcp_servers) == (("curl", "npx"), ("far", "notes"))
        assert needs.environment == ("NOTES_KEY", "PAGE_KEY")


def test_secrets_stay_here(checked):
    """A mask is in their place, and whoever packs is told where."""
    checked.flow(llm(prompt="Ask with sk-proj-abcdefghijklmnop123456"))
    packed = pack_user(checked.tree.snapshot(), "ana")
    file = "Workflows/ana/Main.json"
    assert b"abcdefghijkl" not in packed.pack.files[f"config/{file}"]
    assert packed.pack.masked == {file: ("/nodes/0/prompt",)}
    assert packed.remarks == [f"{file}: *** is in the place of a secret at /nodes/0/prompt"]


def test_at_most_five_errors_are_told(checked):
    checked.flow(*[llm(endpointName=f"nobody{number}") for number in range(8)])
    with pytest.raises(PackRefused) as caught:
        files_of(checked)
    assert str(caught.value).count("no endpoint") == 5
