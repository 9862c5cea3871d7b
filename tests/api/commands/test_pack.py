"""`--pack`: what goes into a pack, and what stays at home (workbench.md 17)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from Middleware.common.instance_global_variables import launch_facts, set_launch_facts
from tests.api.commands.pack_house import PackHouse, small_user

USER, FLOW = "config/Users/ann.json", "config/Workflows/ann/Main.json"
SERVER = {"transport": "stdio", "command": "npx", "args": ["-y", "notes-server"]}


@pytest.fixture
def house(tmp_path: Path, capsys, monkeypatch) -> Iterator[PackHouse]:
    before = launch_facts()
    made = PackHouse(tmp_path / "Public", capsys, monkeypatch)
    small_user(made)
    yield made
    set_launch_facts(before)


class TestContents:
    def test_everything_that_the_user_reaches_is_in_it(self, house):
        """And nothing else: no workflow that nobody runs, no endpoint, no API type."""
        assert sorted(house.pack("ann").files) == [
            "config/Presets/OllamaKind/Cold.json",
            "config/PromptTemplates/plain.json",
            "config/StructuredOutputs/ann/Event.json",
            "config/Users/ann.json",
            "config/Workflows/ann/Child.json",
            "config/Workflows/ann/Main.json",
        ]

    def test_files_are_as_they_are_written(self, house):
        """Comments and spaces, too."""
        text = '[ // one\n  {"type": "StaticResponse",  "content": "x"},\n]\n'
        file = house.write("Workflows/ann/Child", text)
        assert house.pack("ann").files["config/Workflows/ann/Child.json"] == file.read_bytes()

    def test_the_user_file_is_without_paths_and_keys(self, house):
        """And without the endpoints of the machine."""
        assert json.loads(house.pack("ann").files[USER]) == {
            "description": "Ann's user.",
            "customWorkflowOverride": True,
            "customWorkflow": "Main",
            "chatPromptTemplateName": "plain",
            "embeddingsEndpoint": "Vec",
        }

    def test_roles_take_the_place_of_endpoints(self, house):
        """With what they are asked for, and the models as a hint."""
        needs = house.pack("ann").needs
        assert needs.roles == {"Vec": ("embeddings",), "Main": ("chat", "tools", "json")}
        assert needs.models == {"Main": "gemma3:4b", "Vec": "nomic"}
        assert (needs.extras, needs.programs, needs.mcp_servers) == ((), (), ())

    def test_pictures_are_an_ability(self, house):
        house.write(
            "Workflows/ann/Child", [{"type": "Standard", "endpointName": "Main", "acceptImages": True}]
        )
        assert "vision" in house.pack("ann").needs.roles["Main"]

    def test_a_preset_comes_for_each_kind_of_backend(self, house):
        """Who unpacks it may have another kind."""
        house.write("Presets/OtherKind/Cold", {"heat": 0.1})
        house.write("Presets/OtherKind/Warm", {"heat": 1})
        files = house.pack("ann").files
        assert "config/Presets/OtherKind/Cold.json" in files
        assert "config/Presets/OtherKind/Warm.json" not in files

    def test_samplers_in_an_endpoint_file_become_a_preset(self, house):
        """The file stays at home."""
        house.endpoint("lan/Cool", presetSamplers={"temperature": 0.2})
        house.write("Workflows/ann/Child", [{"type": "Standard", "endpointName": "Main", "preset": "Cool"}])
        files = house.pack("ann").files
        assert json.loads(files["config/Presets/OllamaKind/Cool.json"]) == {"temperature": 0.2}

    def test_a_routed_user(self, house):
        """The routing file and all that it leads to."""
        user = house.read("Users/ann") | {"customWorkflowOverride": False, "routingConfig": "r"}
        house.write("Users/ann", user | {"categorizationWorkflow": "Main"})
        house.write("Routing/r", {"A": {"description": "a", "workflow": "Child"}})
        house.write("Workflows/ann/_DefaultWorkflow", [{"type": "StaticResponse", "content": "x"}])
        files = house.pack("ann").files
        assert {"config/Routing/r.json", "config/Workflows/ann/_DefaultWorkflow.json"} <= set(files)

    def test_shared_workflows_belong_to_the_user(self, house):
        """A client can pick them."""
        house.write("Workflows/_shared/novel/_DefaultWorkflow", [{"type": "StaticResponse", "content": "x"}])
        assert "config/Workflows/_shared/novel/_DefaultWorkflow.json" in house.pack("ann").files
        assert not [name for name in house.pack("ann:Child").files if "_shared" in name]


class TestOneWorkflow:
    @pytest.mark.parametrize(
        "words", [("Child",), ("ann:Child",), ("Child", "--user", "ann"), ("Child", "--User", "ann")]
    )
    def test_it_is_found_by_its_name(self, house, words):
        """With its user, or without one where only one user has it."""
        pack = house.pack(*words)
        assert pack.name == "ann:Child" and json.loads(pack.files[USER])["customWorkflow"] == "Child"
        assert FLOW not in pack.files and "config/Workflows/ann/Child.json" in pack.files

    def test_its_user_answers_with_it(self, house):
        """Even if the user chooses between workflows."""
        user = house.read("Users/ann") | {"customWorkflowOverride": False, "routingConfig": "r"}
        house.write("Users/ann", user | {"categorizationWorkflow": "Main"})
        house.write("Routing/r", {"A": {"description": "a", "workflow": "Child"}})
        made = json.loads(house.pack("ann:Child").files[USER])
        assert made["customWorkflowOverride"] is True and "routingConfig" not in made

    def test_a_shared_one(self, house):
        house.write("Workflows/_shared/novel/_DefaultWorkflow", [{"type": "StaticResponse", "content": "x"}])
        made = json.loads(house.pack("ann:novel").files[USER])
        assert made["workflowConfigsSubDirectoryOverride"] == "_shared/novel"
        assert made["customWorkflow"] == "_DefaultWorkflow"

    def test_several_users_have_it(self, house):
        house.write("Users/bob", house.read("Users/ann"))
        house.write("Workflows/bob/Child", [{"type": "StaticResponse", "content": "x"}])
        status, told = house.run("--pack", "Child")
        assert status == 1 and "several users have a workflow 'Child': ann, bob; name the user, too" in told

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (("Nobody",), "there is no user and no user's workflow 'Nobody'; the users are: ann"),
            (("ann:Nothing",), "user ann has no workflow 'Nothing'"),
            (("bob:Child",), "bob"),
            (("Nothing", "--user", "ann"), "user ann has no workflow 'Nothing'"),
        ],
    )
    def test_a_name_that_leads_nowhere(self, house, words, said):
        status, told = house.run("--pack", *words)
        assert status == 1 and told.startswith("error: nothing was written: ") and said in told


class TestServersAndScripts:
    def test_secrets_of_a_tool_server_become_variables(self, house):
        """In variables, headers, arguments and addresses; what came from the environment stays."""
        house.write(
            "MCPServers/notes",
            {
                **SERVER,
                "args": ["--root", "/srv", "--token", "abcdefgh12345678", "--api-key=zzzzzzzz12345678"],
                "env": {"NOTES_KEY": "plain-secret-1", "OTHER_TOKEN": "${ENV:MINE}", "COLOUR": "blue"},
            },
        )
        web = {"Authorization": "Bearer abcdefgh12345678", "X-Team": "blue", "X-Api-Key": "k-12345678"}
        house.write(
            "MCPServers/web",
            {"transport": "sse", "url": "http://ann:hunter2@h.example/x", "headers": web},
        )
        call = {"type": "MCPToolCall", "tool": "t", "arguments": {}}
        house.write("Workflows/ann/Child", [{**call, "server": "notes"}, {**call, "server": "web"}])
        pack = house.pack("ann")
        notes, web = (json.loads(pack.files[f"config/MCPServers/{name}.json"]) for name in ("notes", "web"))
        assert notes["args"] == [
            *("--root", "/srv", "--token", "${ENV:NOTES_ARGS_3}"),
            "--api-key=${ENV:NOTES_ARGS_4}",
        ]
        assert notes["env"] == {
            "NOTES_KEY": "${ENV:NOTES_KEY}",
            "OTHER_TOKEN": "${ENV:MINE}",
            "COLOUR": "blue",
        }
        assert web["headers"] == {
            "Authorization": "Bearer ${ENV:WEB_AUTHORIZATION}",
            "X-Team": "blue",
            "X-Api-Key": "${ENV:WEB_X_API_KEY}",
        }
        assert web["url"] == "http://ann:${ENV:WEB_URL}@h.example/x"
        everything = b"".join(pack.files.values())
        assert not [
            word
            for word in (b"abcdefgh", b"zzzzzzzz", b"plain-secret", b"hunter2", b"k-1234")
            if word in everything
        ]
        assert {"MINE", "WEB_AUTHORIZATION", "WEB_URL"} <= set(pack.needs.environment)
        assert pack.needs.programs == ("npx",) and pack.needs.extras == ("mcp",)
        assert pack.needs.mcp_servers == ("notes", "web")

    def test_a_variable_stands_for_one_value(self, house):
        """Two servers with the same key share it; another key gets a name of its own."""
        for name, key in (("a", "same-key-1"), ("b", "same-key-1"), ("c", "other-key-2")):
            house.write(f"MCPServers/{name}", {**SERVER, "env": {"API_KEY": key}})
        call = {"type": "MCPToolCall", "tool": "t", "arguments": {}}
        house.write("Workflows/ann/Child", [{**call, "server": name} for name in "abc"])
        pack = house.pack("ann")
        files = [json.loads(pack.files[f"config/MCPServers/{name}.json"])["env"]["API_KEY"] for name in "abc"]
        assert files == ["${ENV:API_KEY}", "${ENV:API_KEY}", "${ENV:C_API_KEY}"]

    def test_a_secret_elsewhere_is_masked_and_told(self, house):
        """There is no variable for it."""
        node = {"type": "CurlCommand", "args": ["-H", "Authorization: Bearer abcdefgh12345678", "http://h/"]}
        house.write("Workflows/ann/Child", [node])
        status, told = house.run("--pack", "ann", str(house.public.parent / "x.zip"))
        assert (
            status == 0 and "Workflows/ann/Child.json: *** is in the place of a secret at /0/args/1" in told
        )
        pack = house.pack("ann")
        assert b"abcdefgh" not in b"".join(pack.files.values())
        assert pack.masked == {"Workflows/ann/Child.json": ("/0/args/1",)}
        assert pack.needs.programs == ("curl",)
        assert "runs a program: Workflows/ann/Child.json, node 1: curl" in told

    def test_headers_of_a_fetch_become_variables(self, house):
        node = {
            "type": "WebFetch",
            "url": "http://h.example/",
            "headers": {"Authorization": "Bearer abcdefgh12345678"},
        }
        house.write("Workflows/ann/Child", [node])
        pack = house.pack("ann")
        made = json.loads(pack.files["config/Workflows/ann/Child.json"])
        assert made[0]["headers"] == {"Authorization": "Bearer ${ENV:CHILD_AUTHORIZATION}"}
        assert pack.needs.environment == ("CHILD_AUTHORIZATION",)

    def test_scripts_and_what_they_import_come_along(self, house):
        """From the folder of scripts, under the name that every machine knows."""
        house.script(
            "tools/dice.py", "from Public.workflow_python_scripts.tools import sides\ndef Invoke(): ...\n"
        )
        house.script("tools/sides.py")
        house.script("tools/other.py")
        absolute = str(house.public / "workflow_python_scripts/tools/dice.py")
        house.write("Workflows/ann/Child", [{"type": "PythonModule", "module_path": absolute}])
        user = house.read("Users/ann")
        user.pop("pythonModuleRoots")
        house.write("Users/ann", user)
        pack = house.pack("ann")
        assert sorted(pack.below("scripts/")) == ["tools/dice.py", "tools/sides.py"]
        made = json.loads(pack.files["config/Workflows/ann/Child.json"])
        assert made[0]["module_path"] == "Public/workflow_python_scripts/tools/dice.py"

    def test_a_script_that_lies_elsewhere(self, house, tmp_path):
        """It belongs to this machine."""
        (tmp_path / "mine.py").write_text("def Invoke(): ...\n", encoding="utf-8")
        house.write(
            "Workflows/ann/Child", [{"type": "PythonModule", "module_path": str(tmp_path / "mine.py")}]
        )
        status, told = house.run("--pack", "ann")
        assert status == 1
        assert "Workflows/ann/Child.json, node 1: the script" in told
        assert "isn't in the folder workflow_python_scripts, so it can't be packed; move it there" in told

    def test_a_script_with_a_key_is_told(self, house):
        """It is not changed."""
        house.script("dice.py", "KEY = 'sk-abcdef1234567890abcd'\ndef Invoke(): ...\n")
        name = "Public/workflow_python_scripts/dice.py"
        house.write("Workflows/ann/Child", [{"type": "PythonModule", "module_path": name}])
        status, told = house.run("--pack", "ann", str(house.public.parent / "x.zip"))
        assert (
            status == 0
            and "warning: the script dice.py seems to hold a key: look before you share it" in told
        )

    def test_servers_that_a_script_is_handed_come_along(self, house):
        """By their names, alone or with commas between."""
        for name in ("notes", "plans", "others"):
            house.write(f"MCPServers/{name}", SERVER)
        house.script("agent.py")
        node = {"type": "PythonModule", "module_path": "Public/workflow_python_scripts/agent.py"}
        house.write("Workflows/ann/Child", [{**node, "kwargs": {"services": "notes, plans"}}])
        assert house.pack("ann").needs.mcp_servers == ("notes", "plans")


class TestRemarks:
    def test_a_name_that_only_a_run_knows(self, house):
        """It can't be followed."""
        node = {"type": "Standard", "endpointName": "Main", "preset": "{agent1Output}"}
        house.write("Workflows/ann/Child", [{"type": "StaticResponse", "content": "Cold"}, node])
        status, told = house.run("--pack", "ann", str(house.public.parent / "x.zip"))
        assert status == 0
        assert "only a run knows the name: Workflows/ann/Child.json, node 2, preset: {agent1Output}" in told

    def test_what_has_errors_is_not_packed(self, house):
        """Nobody could use it."""
        house.write("Workflows/ann/Child", [{"type": "CustomWorkflow", "workflowName": "Gone"}])
        status, told = house.run("--pack", "ann")
        assert status == 1 and "what ann reaches has errors:" in told and "Gone" in told


class TestFile:
    def test_its_name_is_that_of_what_was_packed(self, house, tmp_path, monkeypatch):
        """In the working directory."""
        monkeypatch.chdir(tmp_path)
        assert house.run("--pack", "ann")[0] == 0 and (tmp_path / "ann.pack.zip").is_file()
        assert house.run("--pack", "ann:Child")[0] == 0 and (tmp_path / "ann-Child.pack.zip").is_file()

    def test_it_is_never_over_a_file(self, house, tmp_path):
        target = tmp_path / "x.zip"
        target.write_bytes(b"mine")
        status, told = house.run("--pack", "ann", str(target))
        assert (
            status == 1 and "already exists and is not overwritten" in told and target.read_bytes() == b"mine"
        )

    def test_there_is_no_such_folder(self, house, tmp_path):
        status, told = house.run("--pack", "ann", str(tmp_path / "none" / "x.zip"))
        assert status == 1 and f"there is no folder {tmp_path / 'none'}" in told
        assert not (tmp_path / "none").exists()

    def test_the_same_tree_gives_the_same_bytes(self, house):
        """Whenever, and whichever way it is asked for."""
        one, other = house.packed("ann"), house.packed("ann")
        assert one != other and Path(one).read_bytes() == Path(other).read_bytes()

    def test_too_many_names(self, house):
        assert house.run("--pack", "ann", "x.zip", "more")[0] == 2

    @pytest.mark.skipif(os.name == "nt", reason="rights of folders")
    def test_it_changes_nothing_in_the_tree(self, house):
        before = house.files()
        house.packed("ann")
        assert house.files() == before
