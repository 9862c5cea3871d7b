"""`--unpack`: what is written, what is asked, and what is refused before anything is written (workbench.md 17)."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from Middleware.api.launch_arguments import parse
from Middleware.common.instance_global_variables import launch_facts, set_launch_facts
from Middleware.services.pack_archive import Pack, PackNeeds, pack_bytes
from tests.api.commands.pack_house import PackHouse, small_user
from tests.api.commands.test_init import ship

FLOW = "Workflows/ann/Main"


@pytest.fixture
def home(tmp_path: Path, capsys, monkeypatch) -> Iterator[PackHouse]:
    """Where packs come from."""
    before = launch_facts()
    made = PackHouse(tmp_path / "from" / "Public", capsys, monkeypatch)
    small_user(made)
    yield made
    set_launch_facts(before)


@pytest.fixture
def there(home: PackHouse, tmp_path: Path, capsys, monkeypatch) -> PackHouse:
    """Where they go: two endpoints in one folder, of which none has the name of a role."""
    made = PackHouse(tmp_path / "to" / "Public", capsys, monkeypatch)
    made.endpoint("box/Ollama")
    made.endpoint("box/Nomic", "Vectors")
    return made


MAPPED = ("--map", "Main=Ollama", "--map", "Vec=Nomic")


def forged(house: PackHouse, **files: bytes) -> str:
    """The path of a pack that no `--pack` made. `files`: name in the zip file -> bytes."""
    user = {"config/Users/eve.json": b'{"customWorkflowOverride": true, "customWorkflow": "M"}'}
    flow = {"config/Workflows/eve/M.json": b'[{"type": "StaticResponse", "content": "x"}]'}
    target = house.public.parent / "x.zip"
    target.write_bytes(pack_bytes(Pack("eve", "eve", "1.0.0", PackNeeds(), {**user, **flow, **files})))
    return str(target)


class TestWriting:
    def test_a_pack_becomes_a_user_who_works(self, home, there):
        """With the names of this machine's endpoints."""
        status, told = there.run("--unpack", home.packed("ann"), *MAPPED)
        assert status == 0, told
        user = there.read("Users/ann")
        assert user["endpointConfigsSubDirectory"] == "box" and user["embeddingsEndpoint"] == "Nomic"
        flow = there.read(FLOW)
        assert [node.get("endpointName") for node in flow["nodes"]] == ["Ollama", "Ollama", None]
        assert there.run("--validate")[0] == 0
        assert "role Main: Endpoints/box/Ollama.json" in told and "--User ann" in told

    def test_files_keep_their_look(self, home, there):
        """Where a name changes, that name alone does."""
        text = '[ // one\n  {"type": "Standard",  "endpointName": "Main"},\n]\n'
        home.write("Workflows/ann/Child", text)
        assert there.run("--unpack", home.packed("ann"), *MAPPED)[0] == 0
        written = (there.configs / "Workflows/ann/Child.json").read_text("utf-8")
        assert written == text.replace('"Main"', '"Ollama"')

    def test_endpoints_that_have_the_names_of_the_roles_need_no_word(self, home, there):
        """And nothing in the workflows changes."""
        there.endpoint("lan/Main")
        there.endpoint("lan/Vec", "Vectors")
        pack = home.packed("ann")
        assert there.run("--unpack", pack)[0] == 0
        assert there.read("Users/ann")["endpointConfigsSubDirectory"] == "lan"
        assert there.files()[f"Configs/{FLOW}.json"] == home.files()[f"Configs/{FLOW}.json"]

    def test_what_is_there_already_is_used(self, home, there):
        """If it is exactly so."""
        there.write("PromptTemplates/plain", home.read("PromptTemplates/plain"))
        status, told = there.run("--unpack", home.packed("ann"), *MAPPED)
        assert status == 0 and "there already, unchanged: PromptTemplates/plain.json" in told

    def test_a_second_time_there_is_nothing_to_do(self, home, there):
        pack = home.packed("ann")
        there.run("--unpack", pack, *MAPPED)
        before = there.files()
        status, told = there.run("--unpack", pack, *MAPPED)
        assert status == 1 and "all of it is there already" in told and there.files() == before

    def test_a_preview_writes_nothing(self, home, there):
        """It shows the same."""
        before = there.files()
        status, told = there.run("--unpack", home.packed("ann"), *MAPPED, "--preview")
        assert status == 0 and there.files() == before
        assert "would write 6 files, as user ann" in told and "nothing was written (--preview)" in told

    def test_a_pack_of_a_pack_is_the_same(self, home, there):
        """Nothing is lost on the way, but for the presets of kinds that the second machine doesn't have."""
        there.endpoint("lan/Main", modelNameToSendToAPI="gemma3:4b")
        there.endpoint("lan/Vec", "Vectors", modelNameToSendToAPI="nomic")
        there.run("--unpack", home.packed("ann"))
        first, second = home.pack("ann"), there.pack("ann")
        user = "config/Users/ann.json"
        assert {n: d for n, d in second.files.items() if n != user} == {
            n: d for n, d in first.files.items() if n != user
        }
        assert json.loads(second.files[user]) == json.loads(first.files[user])
        assert second.needs == first.needs


class TestRoles:
    def test_it_asks_on_a_terminal(self, home, there):
        """Where there is a choice; the first is the one that it would take."""
        there.endpoint("box/Big")
        status, told = there.run("--unpack", home.packed("ann"), lines=["2"])
        assert status == 0, told
        assert "Which endpoint plays the role Main (chat, tools, json)?" in told
        assert "role Vec: Endpoints/box/Nomic.json" in told
        assert there.read(FLOW)["nodes"][0]["endpointName"] == "Ollama"

    def test_stopping_at_a_question_writes_nothing(self, home, there):
        there.endpoint("box/Big")
        before = there.files()
        status, told = there.run("--unpack", home.packed("ann"), lines=[])
        assert status == 130 and "stopped; nothing was written" in told and there.files() == before

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (("--map", "Main=Gone"), "no endpoint for the role Main (chat, tools, json): needed is 'Gone'"),
            (("--map", "Main=Nomic"), "which gives texts; there are: box/Nomic, box/Ollama"),
            (("--map", "Vec=Ollama"), "needed is 'Ollama', which gives vectors"),
            (("--map", "Large=Ollama"), "the pack has no role 'Large'; it has: Vec, Main"),
        ],
    )
    def test_an_endpoint_that_cannot_play_it(self, home, there, words, said):
        before = there.files()
        status, told = there.run("--unpack", home.packed("ann"), *words)
        assert status == 1 and said in told and there.files() == before

    def test_no_endpoint_at_all(self, home, tmp_path, capsys, monkeypatch):
        empty = PackHouse(tmp_path / "empty" / "Public", capsys, monkeypatch)
        status, told = empty.run("--unpack", home.packed("ann"))
        assert status == 1 and "there are: none" in told

    def test_they_must_be_in_one_folder(self, home, there):
        """A user has one."""
        there.endpoint("far/Away", "Vectors")
        words = ("--map", "Main=box/Ollama", "--map", "Vec=far/Away")
        status, told = there.run("--unpack", home.packed("ann"), *words)
        assert status == 1 and "Vec=far/Away" in told and "are in different folders" in told

    def test_names_that_only_a_run_knows_cannot_be_changed(self, home, there):
        node = {"type": "Standard", "endpointName": "{agent1Output}"}
        home.write("Workflows/ann/Child", [{"type": "StaticResponse", "content": "Main"}, node])
        status, told = there.run("--unpack", home.packed("ann"), *MAPPED)
        assert status == 1 and "give the endpoints the names of the roles" in told

    @pytest.mark.parametrize("word", ["Main", "Main=", "=Ollama"])
    def test_a_map_is_two_names(self, there, word):
        status, told = there.run("--unpack", "x.zip", "--map", word)
        assert status == 2 and "--map takes ROLE=ENDPOINT, such as Main=Ollama" in told

    def test_settings_files_name_endpoints_too(self, home, there):
        """Those of memories."""
        home.write("Users/ann", home.read("Users/ann") | {"discussionIdMemoryFileWorkflowSettings": "Memory"})
        settings = {"endpointName": "Main", "preset": "Cold", "embeddingEndpointName": "Vec"}
        home.write("Workflows/ann/Memory", settings)
        assert there.run("--unpack", home.packed("ann"), *MAPPED)[0] == 0
        made = there.read("Workflows/ann/Memory")
        assert (made["endpointName"], made["embeddingEndpointName"]) == ("Ollama", "Nomic")

    def test_every_place_that_names_one_is_changed(self, home, there):
        """Candidates and their judge, the routing file, the user file."""
        home.endpoint("lan/Small")
        user = home.read("Users/ann") | {"customWorkflowOverride": False, "routingConfig": "r"}
        home.write("Users/ann", user | {"categorizationWorkflow": "Main"})
        examples = {"description": "a", "workflow": "Child", "examples": ["Hello there"]}
        home.write(
            "Routing/r", {"_byMeaning": {"embeddingEndpointName": "Vec"}, "A": examples, "B": examples}
        )
        home.write("Workflows/ann/_DefaultWorkflow", [{"type": "StaticResponse", "content": "x"}])
        node = {
            "type": "Candidates",
            "endpointName": "Main",
            "preset": "Cold",
            "candidates": [{"endpointName": "Main"}, {"endpointName": "Small"}, {}],
            "judgeEndpointName": "Small",
        }
        home.write("Workflows/ann/Child", [node])
        pack = home.packed("ann")
        there.endpoint("box/Tiny")
        status, told = there.run("--unpack", pack, *MAPPED, "--map", "Small=Tiny")
        assert status == 0, told
        (made,) = there.read("Workflows/ann/Child")
        assert made["candidates"] == [{"endpointName": "Ollama"}, {"endpointName": "Tiny"}, {}]
        assert (made["endpointName"], made["judgeEndpointName"]) == ("Ollama", "Tiny")
        assert there.read("Routing/r")["_byMeaning"]["embeddingEndpointName"] == "Nomic"


class TestPresets:
    def test_the_one_for_the_endpoint_is_written(self, home, there):
        """Of several that the pack has."""
        home.write("Presets/OtherKind/Cold", {"heat": 0.1})
        there.endpoint("box/Other", "Other")
        words = ("--map", "Main=Other", "--map", "Vec=Nomic")
        assert there.run("--unpack", home.packed("ann"), *words)[0] == 0
        assert there.read("Presets/OtherKind/Cold") == {"heat": 0.1}
        assert not (there.configs / "Presets/OllamaKind").exists()

    def test_one_is_made_for_a_kind_that_the_pack_lacks(self, home, there):
        """In the names of that kind; what it doesn't know is told."""
        there.endpoint("box/Other", "Other")
        words = ("--map", "Main=Other", "--map", "Vec=Nomic")
        status, told = there.run("--unpack", home.packed("ann"), *words)
        assert status == 0 and there.read("Presets/OtherKind/Cold") == {"heat": 0.1, "stop_at": ["x"]}
        assert "note: Presets/OtherKind/Cold.json is made of that for OllamaKind, without min_p" in told

    @pytest.fixture
    def two(self, home, there):
        """A user whose nodes ask two models, each with a preset of its own; there they are of two kinds."""
        home.endpoint("lan/Small")
        home.write("Presets/OllamaKind/Warm", {"temperature": 0.9})
        there.endpoint("box/Other", "Other")
        nodes = [("Main", "Cold"), ("Small", "Warm")]
        home.write(
            "Workflows/ann/Child",
            [{"type": "Standard", "endpointName": name, "preset": preset} for name, preset in nodes],
        )
        return (*MAPPED, "--map", "Small=Other")

    def made(self, there):
        return sorted(path.removeprefix("Configs/Presets/") for path in there.files() if "/Presets/" in path)

    def test_each_kind_gets_the_presets_that_it_is_asked_with(self, home, there, two):
        """One kind where the pack comes from, two here."""
        status, told = there.run("--unpack", home.packed("ann"), *two)
        assert status == 0, told
        assert self.made(there) == ["OllamaKind/Cold.json", "OtherKind/Warm.json"]
        assert there.read("Presets/OtherKind/Warm") == {"heat": 0.9}

    def test_two_kinds_at_both_ends(self, home, there, two):
        """Each preset is taken as it is."""
        home.endpoint("lan/Small", "Other")
        home.write("Presets/OtherKind/Warm", {"heat": 0.8})
        assert there.run("--unpack", home.packed("ann"), *two)[0] == 0
        assert self.made(there) == ["OllamaKind/Cold.json", "OtherKind/Warm.json"]
        assert there.read("Presets/OtherKind/Warm") == {"heat": 0.8}

    def test_a_preset_in_the_users_own_folder_hides_none_of_another_kind(self, home, there, two):
        """The pack has one of that name for the kind, so none is made."""
        home.endpoint("lan/Small", "Other")
        home.write("Presets/OllamaKind/ann/Warm", {"temperature": 0.7})
        home.write("Presets/OtherKind/Warm", {"heat": 0.8})
        node = {"type": "Standard", "endpointName": "Main", "preset": "Warm"}
        home.write("Workflows/ann/Child", [node, node | {"endpointName": "Small"}])
        assert there.run("--unpack", home.packed("ann"), *two)[0] == 0
        assert self.made(there) == [
            "OllamaKind/Cold.json",
            "OllamaKind/ann/Warm.json",
            "OtherKind/Warm.json",
        ]

    @pytest.mark.parametrize("prefix", [(), ("--prefix", "z-")], ids=["as-it-is", "prefix"])
    def test_settings_that_fall_back_on_a_preset(self, home, there, two, prefix):
        """Memories are condensed by the second model with the preset of the first."""
        home.write("Users/ann", home.read("Users/ann") | {"discussionIdMemoryFileWorkflowSettings": "Memory"})
        home.write(
            "Workflows/ann/Memory",
            {
                "endpointName": "Main",
                "preset": "Cold",
                "condenseMemories": True,
                "condenseMemoriesEndpointName": "Small",
            },
        )
        status, told = there.run("--unpack", home.packed("ann"), *two, *prefix)
        assert status == 0, told
        assert there.read("Presets/OtherKind/Cold") == {"heat": 0.1, "stop_at": ["x"]}

    def test_settings_that_name_a_preset_without_using_it(self, home, there):
        """It is checked all the same, so it is packed."""
        home.write("Presets/OllamaKind/Warm", {"temperature": 0.9})
        home.write("Users/ann", home.read("Users/ann") | {"discussionIdMemoryFileWorkflowSettings": "Memory"})
        home.write(
            "Workflows/ann/Memory",
            {"endpointName": "Main", "preset": "Warm", "fileMemoryWorkflowName": "Child"},
        )
        status, told = there.run("--unpack", home.packed("ann"), *MAPPED)
        assert status == 0, told
        assert there.read("Presets/OllamaKind/Warm") == {"temperature": 0.9}

    def test_samplers_of_an_endpoint_with_the_name_come_first_here_too(self, home, there):
        """Then nobody would read the file."""
        there.endpoint("box/Cold", presetSamplers={"temperature": 0.2})
        status, told = there.run("--unpack", home.packed("ann"), *MAPPED)
        assert status == 0, told
        assert self.made(there) == []

    def test_a_folder_of_a_kind_may_be_spelled_in_another_case(self, home, there):
        """Where the pack comes from."""
        (home.configs / "Presets/OllamaKind").rename(home.configs / "Presets/ollamakind")
        status, told = there.run("--unpack", home.packed("ann"), *MAPPED)
        assert status == 0, told
        assert there.read("Presets/OllamaKind/Cold") == {"temperature": 0.1, "min_p": 0.05, "stop": ["x"]}


class TestNeverOver:
    @pytest.fixture
    def taken(self, there):
        """Files of the pack's names, with other contents."""
        there.write("Users/ann", {"customWorkflowOverride": True, "customWorkflow": "Mine"})
        there.write("Workflows/ann/Mine", [{"type": "StaticResponse", "content": "mine"}])
        there.write("Workflows/ann/Main", [{"type": "StaticResponse", "content": "mine"}])
        there.write("Presets/OllamaKind/Cold", {"temperature": 2})
        there.write("PromptTemplates/plain", {})
        return there

    def test_it_says_what_is_there(self, home, taken):
        before = taken.files()
        status, told = taken.run("--unpack", home.packed("ann"), *MAPPED)
        assert status == 1 and taken.files() == before
        assert (
            "already there with another content: PromptTemplates/plain.json, Workflows/ann/Main.json" in told
        )
        assert "Users/ann.json; add --prefix TEXT" in told

    def test_with_a_prefix_it_goes_beside(self, home, taken):
        """Nothing that was there changes, and all names lead to the new files."""
        before = taken.files()
        status, told = taken.run("--unpack", home.packed("ann"), *MAPPED, "--prefix", "new-")
        assert status == 0, told
        after = taken.files()
        assert {name: after[name] for name in before} == before
        assert sorted(set(after) - set(before)) == [
            "Configs/Presets/OllamaKind/new-ann/Cold.json",
            "Configs/PromptTemplates/new-plain.json",
            "Configs/StructuredOutputs/new-ann/Event.json",
            "Configs/Users/new-ann.json",
            "Configs/Workflows/new-ann/Child.json",
            "Configs/Workflows/new-ann/Main.json",
        ]
        assert taken.read("Users/new-ann")["chatPromptTemplateName"] == "new-plain"
        assert "--User new-ann" in told

    def test_servers_and_scripts_get_the_prefix_where_they_are_in_the_way(self, home, there):
        """In the nodes that name them, too."""
        server = {"transport": "stdio", "command": "npx"}
        home.write("MCPServers/notes", server)
        home.write("MCPServers/plans", server)
        home.script("dice.py")
        name = "Public/workflow_python_scripts/dice.py"
        nodes = [
            {"type": "MCPToolCall", "server": "notes", "tool": "t", "arguments": {}},
            {
                "type": "PythonModule",
                "module_path": name,
                "kwargs": {"services": "notes, plans", "n": "notes"},
            },
            {"type": "StaticResponse", "content": "x"},
        ]
        home.write("Workflows/ann/Child", nodes)
        there.write("MCPServers/notes", {"transport": "stdio", "command": "mine"})
        there.script("dice.py", "def Invoke():\n    return 'mine'\n")
        pack = home.packed("ann")
        assert there.run("--unpack", pack, *MAPPED, "--with-programs")[0] == 1
        status, told = there.run("--unpack", pack, *MAPPED, "--with-programs", "--prefix", "new-")
        assert status == 0, told
        made = there.read("Workflows/new-ann/Child")
        assert made[0]["server"] == "new-notes" and made[1]["module_path"].endswith("/new-dice.py")
        assert made[1]["kwargs"] == {"services": "new-notes, plans", "n": "new-notes"}
        assert (there.public / "workflow_python_scripts/new-dice.py").is_file()
        assert (there.configs / "MCPServers/plans.json").is_file()

    def test_routes_shared_and_common_workflows_get_the_prefix(self, home, there):
        """And the folders that nodes name."""
        static = [{"type": "StaticResponse", "content": "x"}]
        user = home.read("Users/ann") | {"customWorkflowOverride": False, "routingConfig": "r"}
        home.write("Users/ann", user | {"categorizationWorkflow": "Main"})
        home.write("Routing/r", {"A": {"description": "a", "workflow": "Child"}})
        home.write("Workflows/ann/_DefaultWorkflow", static)
        home.write("Workflows/_common/Tidy", static)
        home.write("Workflows/tools/Count", static)
        home.write("Workflows/_shared/novel/_DefaultWorkflow", static)
        run = {"type": "CustomWorkflow"}
        home.write(
            "Workflows/ann/Child",
            [
                {**run, "workflowName": "Tidy"},
                {**run, "workflowName": "Count", "workflowUserFolderOverride": "tools"},
            ],
        )
        there.write("Users/ann", {})
        status, told = there.run("--unpack", home.packed("ann"), *MAPPED, "--prefix", "new-")
        assert status == 0, told
        assert there.read("Users/new-ann")["routingConfig"] == "new-r"
        assert there.read("Users/new-ann")["sharedWorkflowsSubDirectoryOverride"] == "new-_shared"
        assert there.read("Workflows/new-ann/Child")[1]["workflowUserFolderOverride"] == "new-tools"
        for file in ("Routing/new-r", "Workflows/new-ann/Tidy", "Workflows/new-tools/Count"):
            assert (there.configs / f"{file}.json").is_file()
        assert (there.configs / "Workflows/new-_shared/novel/_DefaultWorkflow.json").is_file()

    @pytest.mark.parametrize("taken", [False, True], ids=["not-there", "there"])
    def test_common_workflows_stay_together_where_a_node_names_their_folder(self, home, there, taken):
        """Those that it calls by their names alone go to the user's own; nobody's of the same name is taken
        for them."""

        def static(text):
            return [{"type": "StaticResponse", "content": text}]

        run, common = {"type": "CustomWorkflow"}, {"workflowUserFolderOverride": "_Common"}
        home.write("Workflows/_common/Check", static("common"))
        home.write("Workflows/_common/Tidy", static("tidy"))
        home.write("Workflows/ann/Check", static("own"))
        home.write(
            "Workflows/ann/Child",
            [
                {**run, "workflowName": "Check", **common},
                {**run, "workflowName": "Check"},
                {**run, "workflowName": "Tidy", **common},
                {**run, "workflowName": "Tidy"},
            ],
        )
        if taken:
            there.write("Workflows/_common/Check", static("mine"))
        status, told = there.run("--unpack", home.packed("ann"), *MAPPED, "--prefix", "new-")
        assert status == 0, told
        made = {
            name: there.read(f"Workflows/{name}")[0]["content"]
            for name in ("new-_common/Check", "new-ann/Check", "new-_common/Tidy", "new-ann/Tidy")
        }
        assert list(made.values()) == ["common", "own", "tidy", "tidy"]
        folders = [node.get("workflowUserFolderOverride") for node in there.read("Workflows/new-ann/Child")]
        assert folders == ["new-_common", None, "new-_common", None]

    def test_names_that_differ_in_case_alone_get_it_too(self, home, there):
        """Of folders, templates and servers, where the pack comes from."""
        static = [{"type": "StaticResponse", "content": "x"}]
        home.write("Workflows/_quay/boats/_DefaultWorkflow", static)
        home.write("Workflows/Tools/Count", static)
        home.write("MCPServers/notes", {"transport": "sse", "url": "http://h/"})
        home.write("Presets/OllamaKind/Ann/Own", {"temperature": 0.3})
        (home.configs / "StructuredOutputs/ann").rename(home.configs / "StructuredOutputs/Ann")
        (home.configs / "Workflows/ann").rename(home.configs / "Workflows/Ann")
        more = {"chatPromptTemplateName": "PLAIN", "sharedWorkflowsSubDirectoryOverride": "_Quay"}
        home.write("Users/ann", home.read("Users/ann") | more)
        home.write(
            "Workflows/Ann/Child",
            [
                {"type": "CustomWorkflow", "workflowName": "Count", "workflowUserFolderOverride": "tools/"},
                {"type": "MCPToolCall", "server": "NOTES", "tool": "t", "arguments": {}},
                {"type": "Agent", "endpointName": "Main", "preset": "Own", "agentTools": ["mcp:Notes/t"]},
            ],
        )
        there.write("MCPServers/notes", {"transport": "sse", "url": "http://mine/"})
        there.write("PromptTemplates/plain", {})
        status, told = there.run("--unpack", home.packed("ann"), *MAPPED, "--prefix", "new-")
        assert status == 0, told
        user = there.read("Users/new-ann")
        assert user["workflowConfigsSubDirectoryOverride"] == "new-Ann"
        assert user["sharedWorkflowsSubDirectoryOverride"] == "new-_quay"
        assert user["chatPromptTemplateName"] == "new-plain"
        made = there.read("Workflows/new-Ann/Child")
        assert made[0]["workflowUserFolderOverride"] == "new-Tools"
        assert (made[1]["server"], made[2]["agentTools"]) == ("new-notes", ["mcp:new-notes/t"])
        for name in ("Presets/OllamaKind/new-ann/Own", "StructuredOutputs/new-ann/Event"):
            assert (there.configs / f"{name}.json").is_file()

    def test_it_goes_beside_the_same_file_in_another_case(self, home, there):
        """Which on many systems would be the same place."""
        there.write("PromptTemplates/Plain", home.read("PromptTemplates/plain"))
        there.write("Presets/OllamaKind/cold", home.read("Presets/OllamaKind/Cold"))
        status, told = there.run("--unpack", home.packed("ann"), *MAPPED, "--prefix", "new-")
        assert status == 0, told
        assert there.read("Users/new-ann")["chatPromptTemplateName"] == "new-plain"

    def test_a_user_who_has_no_workflows_of_its_own(self, home, there):
        """No folder is named that is not there."""
        home.write("Workflows/_shared/novel/_DefaultWorkflow", [{"type": "StaticResponse", "content": "x"}])
        home.write("Users/ann", {"endpointConfigsSubDirectory": "lan", "allowSharedWorkflows": True})
        status, told = there.run("--unpack", home.packed("ann"), "--prefix", "new-")
        assert status == 0 and "warning" not in told, told
        assert "workflowConfigsSubDirectoryOverride" not in there.read("Users/new-ann")

    def test_no_two_files_become_one(self, there):
        """A schema of the user's own, and one of everybody with its name."""
        schemas = {"StructuredOutputs/eve/E.json": b'{"a": 1}', "StructuredOutputs/E.json": b'{"b": 1}'}
        pack = forged(there, **{f"config/{name}": text for name, text in schemas.items()})
        status, told = there.run("--unpack", pack, "--prefix", "new-")
        assert status == 1 and "two files of the pack would become StructuredOutputs/new-eve/E.json" in told

    @pytest.mark.parametrize("prefix", ["../", "New", "a b", "-x", "x" * 40, "a/"])
    def test_a_prefix_that_cannot_be_one(self, home, there, prefix):
        status, told = there.run("--unpack", home.packed("ann"), *MAPPED, f"--prefix={prefix}")
        assert status == 1 and "cannot be a prefix; allowed: up to 32 small letters" in told

    def test_a_name_that_differs_in_case_alone_is_in_the_way(self, home, there):
        """On many systems it is the same file."""
        there.write("PromptTemplates/Plain", {})
        status, told = there.run("--unpack", home.packed("ann"), *MAPPED)
        assert status == 1 and "another content: PromptTemplates/Plain.json" in told


class TestPrograms:
    @pytest.fixture
    def pack(self, home):
        """One with a script."""
        home.script("dice.py")
        name = "Public/workflow_python_scripts/dice.py"
        home.write("Workflows/ann/Child", [{"type": "PythonModule", "module_path": name}])
        return home.packed("ann")

    def test_they_need_a_word(self, pack, there):
        """It says which."""
        before = there.files()
        status, told = there.run("--unpack", pack, *MAPPED)
        assert status == 1 and there.files() == before
        assert "runs a program: the script dice.py" in told and "add --with-programs" in told

    def test_with_it_they_are_written(self, pack, there):
        assert there.run("--unpack", pack, *MAPPED, "--with-programs")[0] == 0
        assert (there.public / "workflow_python_scripts/dice.py").is_file()

    def test_a_preview_needs_none(self, pack, there):
        status, told = there.run("--unpack", pack, *MAPPED, "--preview")
        assert status == 0 and "workflow_python_scripts/dice.py" in told

    @pytest.mark.parametrize(
        ("node", "said"),
        [
            (b'[{"type": "CurlCommand", "args": ["http://h/"]}]', "node 1: curl"),
            (b'[{"type": "PythonModule", "module_path": "/usr/lib/x.py"}]', "node 1: /usr/lib/x.py"),
            (b'[{"type": "PythonModule", "module_path": "{agent1Output}"}]', "node 1: {agent1Output}"),
            (b'{"w": "/x.py", "nodes": [{"type": "PythonModule", "module_path": "{w}"}]}', "node 1: {w}"),
        ],
        ids=["curl", "a-script-of-this-machine", "a-script-that-a-run-names", "by-a-variable"],
    )
    def test_what_a_pack_says_of_itself_does_not_count(self, there, node, said):
        """Its files are looked at."""
        status, told = there.run("--unpack", forged(there, **{"config/Workflows/eve/M.json": node}))
        assert status == 1 and said in told and "add --with-programs" in told

    def test_a_tool_server_that_is_started(self, there):
        server = b'{"transport": "stdio", "command": "rm", "args": ["-rf", "x"]}'
        status, told = there.run("--unpack", forged(there, **{"config/MCPServers/x.json": server}))
        assert status == 1 and "runs a program: MCPServers/x.json: rm -rf x" in told


class TestRefused:
    @pytest.mark.parametrize(
        ("files", "said"),
        [
            (
                {"config/Workflows/eve/M.json": b'[{"type": "CustomWorkflow", "workflowName": "Gone"}]'},
                "Gone",
            ),
            ({"config/Workflows/eve/M.json": b'[{"type": "Standard", "endpointName": "Ollama"}]'}, "Ollama"),
            ({"config/Workflows/eve/M.json": b'[{"type": '}, "cannot be read"),
            ({"config/Users/eve.json": b"[]"}, "Users/eve.json must be an object"),
            ({"config/Users/eve.json": b'{"port": "x"}'}, "port"),
            (
                {"config/Workflows/other/X.json": b"[]"},
                "files that its user doesn't use: Workflows/other/X.json",
            ),
            (
                {"config/MCPServers/x.json": b'{"transport": "sse", "url": "http://h/"}'},
                "doesn't use: MCPServers/x",
            ),
        ],
        ids=[
            "a-child-that-is-not-there",
            "an-endpoint-that-is-no-role",
            "no-json",
            "no-object",
            "a-wrong-value",
            "a-stranger",
            "a-server-that-nobody-calls",
        ],
    )
    def test_what_would_not_work_here(self, there, files, said):
        """It is found out before anything is written."""
        before = there.files()
        pack = forged(there, **files)
        status, told = there.run("--unpack", pack)
        assert status == 1 and said in told and there.files() == before

    def test_a_script_that_nobody_runs(self, there):
        pack = forged(there, **{"scripts/evil.py": b"def Invoke(): ..."})
        status, told = there.run("--unpack", pack, "--with-programs")
        assert status == 1 and "files that its user doesn't use: scripts/evil.py" in told

    def test_what_is_no_pack(self, there, tmp_path):
        with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
            archive.writestr("hello.txt", "hello")
        status, told = there.run("--unpack", str(tmp_path / "x.zip"))
        assert status == 1 and "it is no pack" in told

    def test_a_disk_that_refuses_leaves_nothing(self, home, there, monkeypatch):
        """However far it came."""
        pack = home.packed("ann")
        before = there.files()
        link, seen = os.link, []

        def refuses(source, target, **how):
            seen.append(target)
            if len(seen) >= 4:
                raise OSError(28, "No space left on device", str(target))
            link(source, target, **how)

        monkeypatch.setattr(os, "link", refuses)
        monkeypatch.setattr(os, "rename", refuses)
        status, told = there.run("--unpack", pack, *MAPPED)
        assert status == 1 and "No space left on device" in told and there.files() == before

    def test_a_masked_secret_is_told_and_does_no_harm(self, there):
        """Its author has left it out; the user fills it in."""
        flow = b'[{"type": "WebFetch", "url": "http://h.example/", "headers": {"Authorization": "***"}}]'
        status, told = there.run("--unpack", forged(there, **{"config/Workflows/eve/M.json": flow}))
        assert status == 0, told
        assert "fill in the secret that is *** there" in told

    def test_a_variable_that_is_not_set_is_told(self, home, there, monkeypatch):
        monkeypatch.delenv("NOTES_KEY", raising=False)
        home.write(
            "MCPServers/notes", {"transport": "sse", "url": "http://h/", "headers": {"X-Key": "abcdefgh1"}}
        )
        node = {"type": "MCPToolCall", "server": "notes", "tool": "t", "arguments": {}}
        home.write("Workflows/ann/Child", [node])
        status, told = there.run("--unpack", home.packed("ann"), *MAPPED)
        assert status == 0 and "needs the variables of the environment: NOTES_X_KEY" in told
        assert "environment variable 'NOTES_X_KEY' is not set" in told


def test_a_program_out_of_a_wheel_has_no_tree_of_its_own_yet(home, tmp_path, monkeypatch, capsys):
    """What came with the program is never written."""
    pack = home.packed("ann")
    ship(tmp_path / "site-packages", monkeypatch)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    launch = parse(["--unpack", pack])
    set_launch_facts(launch.facts)
    assert launch.command is not None
    assert launch.command.run(launch.arguments) == 1
    assert "run headrace --setup first" in capsys.readouterr().out
