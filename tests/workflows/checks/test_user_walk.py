"""What a user reaches, and the names on the way."""

from __future__ import annotations

import pytest

from Middleware.workflows.checks import config_check
from Middleware.workflows.tools.script_check import MANUAL

LLM = {"type": "Standard", "endpointName": "small-model", "prompt": "x"}


def child(name, **more):
    return {"type": "CustomWorkflow", "workflowName": name} | more


def branch(**workflows):
    return {
        "type": "ConditionalCustomWorkflow",
        "conditionalKey": "x",
        "conditionalWorkflows": workflows,
        "UseDefaultContentInsteadOfWorkflow": "",
    }


# id, fields of the only node, the line after the file
NODES = [
    ("endpoint", {"endpointName": "smal-model"},
     'error: node 1, endpointName: no endpoint "smal-model" in Endpoints/lan (did you mean "small-model"?); '
     "tried Endpoints/lan/smal-model.json"),
    ("endpoint-path-trick", {"endpointName": "../x"},
     "error: node 1, endpointName: '../x' cannot be the name of an endpoint, because it is empty or leads out of its folder"),
    ("endpoint-in-a-variable", {"endpointName": "{worker}"},
     'error: node 1, endpointName: no endpoint "wrong" in Endpoints/lan; tried Endpoints/lan/wrong.json'),
    ("preset", {"preset": "clod"},
     'error: node 1, preset: no preset "clod" in Presets/T/ana (did you mean "cold"?); '
     "tried Presets/T/ana/clod.json, Presets/T/clod.json"),
    ("preset-name", {"presetName": "clod"},
     'error: node 1, presetName: no preset "clod" in Presets/T/ana (did you mean "cold"?); '
     "tried Presets/T/ana/clod.json, Presets/T/clod.json"),
    ("schema", {"structuredOutputFile": "s"},
     'error: node 1, structuredOutputFile: no structured output schema "s" in StructuredOutputs/ana; '
     "tried StructuredOutputs/ana/s.json, StructuredOutputs/s.json"),
    ("mcp-server", {"type": "MCPToolCall", "server": "notes", "tool": "t"},
     'error: node 1, server: no MCP server "notes" in MCPServers; tried MCPServers/notes.json'),
    ("mcp-server-not-flat", {"type": "MCPToolCall", "server": "a/b", "tool": "t"},
     "error: node 1, server: 'a/b' cannot be the name of an MCP server; it must be a plain file name"),
    ("schema-not-flat", {"structuredOutputFile": "a/s"},
     "error: node 1, structuredOutputFile: structuredOutputFile 'a/s' must be a plain file name, without folders"),
    ("embeddings", {"endpointName": "emb"},
     'error: node 1, endpointName: endpoint "emb" is for embeddings (ollamaEmbeddings) and cannot answer'),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "line"), [c[1:] for c in NODES], ids=[c[0] for c in NODES])
def test_names_in_a_node(checked, fields, line):
    checked.put("ApiTypes/Emb.json", {"type": "ollamaEmbeddings"})
    checked.put("Endpoints/lan/emb.json", {"endpoint": "http://h", "apiTypeConfigFileName": "Emb"})
    checked.flow({**LLM, **fields}, worker="wrong")
    assert checked.lines() == [f"Workflows/ana/Main.json: {line}"]


VECTORS = {"ApiTypes/Emb.json": {"type": "ollamaEmbeddings"}, "Endpoints/lan/emb.json": {"endpoint": "http://h", "apiTypeConfigFileName": "Emb"}}  # fmt: skip
EMBEDDERS = [
    ("small-model", ["error: {}: endpoint \"small-model\" (openAIChatCompletion) is not for embeddings; these types are: openAIEmbeddings, ollamaEmbeddings"]),
    ("emb", []),
]  # fmt: skip


@pytest.fixture
def embedding(checked):
    for file, document in VECTORS.items():
        checked.put(file, document)
    return checked


@pytest.mark.parametrize(("name", "lines"), EMBEDDERS, ids=["wrong", "right"])
def test_the_embeddings_endpoint_of_a_user(embedding, name, lines):
    """Exists, and is for embeddings."""
    embedding.change("Users/ana.json", embeddingsEndpoint=name)
    assert embedding.lines() == [f"Users/ana.json: {line.format('embeddingsEndpoint')}" for line in lines]


def test_an_embeddings_endpoint_that_does_not_exist(embedding):
    """The nearest name is told."""
    embedding.change("Users/ana.json", embeddingsEndpoint="amb")
    (line,) = embedding.lines()
    assert line.startswith('Users/ana.json: error: embeddingsEndpoint: no endpoint "amb"') and '"emb"' in line


@pytest.mark.parametrize(("name", "lines"), EMBEDDERS, ids=["wrong", "right"])
def test_the_embeddings_endpoint_of_a_node_and_of_memories(embedding, name, lines):
    """The same wherever one is named."""
    embedding.change("Users/ana.json", discussionIdMemoryFileWorkflowSettings="Memory")
    embedding.put("Workflows/ana/Memory.json", {"embeddingEndpointName": name})
    embedding.flow({**LLM, "type": "VectorMemorySearch", "input": "x", "embeddingEndpointName": name})
    told = [line for line in embedding.lines() if "is not for embeddings" in line]
    places = [("Main", "node 1, embeddingEndpointName"), ("Memory", "embeddingEndpointName")]
    assert told == [
        f"Workflows/ana/{file}.json: {line.format(place)}" for line in lines for file, place in places
    ]


def script(path):
    return {"type": "PythonModule", "module_path": path}


class TestScripts:
    def lost(self, checked):
        return [line for line in checked.lines() if "module_path" in line]

    def test_a_missing_script_is_told_with_the_folders(self, checked, monkeypatch):
        monkeypatch.chdir(checked.root)
        checked.flow(script("scripts/gone.py"), LLM)
        (line,) = self.lost(checked)
        head = f"Workflows/ana/Main.json: error: node 1, module_path: no file 'scripts/gone.py'; looked in {checked.root}"
        assert line == head or line.startswith(f"{head}, ")

    def test_an_absolute_one_without(self, checked):
        checked.flow(script(f"{checked.root}/gone.py"), LLM)
        assert self.lost(checked) == [
            f"Workflows/ana/Main.json: error: node 1, module_path: no file '{checked.root}/gone.py'"
        ]

    def test_nothing_where_it_is_there_or_only_a_run_knows(self, checked):
        checked.put("here.py", "def Invoke(): pass")
        checked.flow(script(f"{checked.root}/here.py"), script("{agent1Output}.py"), LLM)
        assert self.lost(checked) == []

    def test_a_variable_of_the_files_is_filled(self, checked):
        """That of the workflow, and that of the user."""
        checked.change("Users/ana.json", userWideWorkflowVariables={"folder": str(checked.root)})
        checked.flow(script("{folder}/{tool}.py"), LLM, tool="gone")
        (line,) = self.lost(checked)
        assert line.endswith(f"no file '{checked.root}/gone.py'")

    def test_a_script_that_cannot_work(self, checked):
        """It is read, not run: each fault with its line, and what to write instead."""
        text = "from utilities.text_utils import count_tokens\n"
        checked.put("old.py", text)
        checked.flow(script(f"{checked.root}/old.py"), LLM)
        place = "Workflows/ana/Main.json: error: node 1, module_path: old.py, line 1: "
        assert self.lost(checked) == [
            f"{place}Middleware.utilities.text_utils has no name 'count_tokens'; "
            f"Middleware.utilities.script_library has 'estimate_tokens'; {MANUAL}",
            f"{place}the script has no function 'Invoke'",
        ]


class TestFiles:
    """Text files of `GetCustomFile`."""

    def get(self, path):
        return {"type": "GetCustomFile", "filepath": path}

    def test_one_that_is_not_there(self, checked):
        checked.flow(self.get(f"{checked.root}/gone.txt"), LLM)
        [line] = checked.lines()
        assert line.startswith(
            f"Workflows/ana/Main.json: warning: node 1, filepath: no file '{checked.root}/gone.txt'"
        )

    def test_one_that_a_node_of_the_workflow_writes(self, checked):
        path = f"{checked.root}/later.txt"
        checked.flow(self.get(path), {"type": "SaveCustomFile", "filepath": path, "content": "x"}, LLM)
        assert checked.lines() == []


class TestFolders:
    """Folders that the user file names."""

    @pytest.mark.parametrize(
        ("key", "folder"),
        [
            ("endpointConfigsSubDirectory", "Endpoints/modles"),
            ("workflowConfigsSubDirectoryOverride", "Workflows/modles"),
            ("sharedWorkflowsSubDirectoryOverride", "Workflows/modles"),
        ],
    )
    def test_one_that_is_not_there(self, checked, key, folder):
        """With the one that is meant."""
        checked.put(f"{folder.partition('/')[0]}/models/x.json", [LLM] if folder.startswith("W") else {})
        checked.change("Users/ana.json", **{key: "modles"})
        told = f'Users/ana.json: warning: {key}: there is no folder {folder} (did you mean "models"?)'
        assert told in checked.lines()


class TestChildren:
    def test_a_missing_child_is_told_with_all_paths(self, checked):
        checked.flow(child("Chld"))
        checked.flow(LLM, name="Child")
        (line, _) = checked.lines()
        assert line == (
            'Workflows/ana/Main.json: error: node 1, workflowName: no workflow "Chld" (did you mean "Child"?); '
            "tried Workflows/ana/Chld.json, Workflows/_common/Chld.json"
        )

    def test_children_are_found_as_they_will_be(self, checked):
        """The caller's folder, `_common`, an override; branches too."""
        checked.flow(
            child("Other", workflowUserFolderOverride="team"), child("Shared"), branch(a="Deep"), LLM
        )
        checked.flow(child("Beside"), LLM, name="Other", folder="team")
        checked.flow(LLM, name="Beside", folder="team")
        checked.flow(LLM, name="Shared", folder="_common")
        checked.flow(LLM, name="Deep")
        assert checked.lines() == []

    def test_a_path_out_of_the_tree_is_told(self, checked):
        checked.flow(child("../../x"), LLM)
        (line,) = checked.lines()
        assert "would be outside Workflows/" in line

    def test_inputs_are_counted_over_all_callers(self, checked):
        checked.flow(child("C", scoped_variables=["a"]), child("C", scoped_variables=["a", "b"]), LLM)
        checked.flow(LLM | {"prompt": "{agent2Input}{agent3Input}"}, name="C")
        (line,) = checked.lines()
        assert line == (
            "Workflows/ana/C.json: warning: node 1, prompt: {agent3Input} is never passed: "
            "callers give 2 scoped_variables"
        )


class TestCircles:
    def test_a_circle_without_a_condition_is_a_warning(self, checked):
        checked.flow(child("B"), LLM)
        checked.flow(child("Main"), LLM, name="B")
        (line,) = checked.lines()
        assert line == (
            "Workflows/ana/Main.json: warning: calls itself without a condition: "
            "Workflows/ana/Main.json > Workflows/ana/B.json > Workflows/ana/Main.json"
        )

    def test_one_with_a_condition_is_a_note(self, checked):
        checked.flow(branch(a="Main"), LLM)
        (line,) = checked.lines()
        assert line.startswith("Workflows/ana/Main.json: note: calls itself, under a condition")

    def test_a_child_that_is_called_twice_is_no_circle(self, checked):
        checked.flow(child("B"), child("C"), LLM)
        checked.flow(child("C"), LLM, name="B")
        checked.flow(LLM, name="C")
        assert checked.lines() == []


class TestGoodVersions:
    """What a start reads is what a broken edit can fall back on."""

    def test_files_on_the_way_are_read(self, checked):
        checked.flow(LLM | {"preset": "cold"})
        config_check.check_users(checked.tree.snapshot(), ["ana"])
        for file in (
            "Presets/T/cold.json",
            "Endpoints/lan/small-model.json",
            "ApiTypes/Api.json",
            "Users/ana.json",
        ):
            good = checked.tree.snapshot().read(file)
            checked.put(file, "[")
            assert checked.tree.snapshot().read(file) == good

    def test_a_name_with_a_placeholder_reads_the_whole_folder(self, checked):
        checked.flow(LLM | {"endpointName": "{agent1Input}"})
        checked.put("Endpoints/lan/other.json", {"endpoint": "http://h", "apiTypeConfigFileName": "Api"})
        config_check.check_users(checked.tree.snapshot(), ["ana"])
        checked.put("Endpoints/lan/other.json", "[")
        assert checked.tree.snapshot().read("Endpoints/lan/other.json")["endpoint"] == "http://h"

    def test_a_broken_preset_is_told(self, checked):
        checked.put("Presets/T/cold.json", "[")
        (finding,) = config_check.check_users(checked.tree.snapshot(), ["ana"])
        assert (finding.file, finding.level) == ("Presets/T/cold.json", "error")


@pytest.mark.parametrize(
    ("user", "node", "noted"),
    [
        ({"steadyWindow": True}, {}, True),
        ({}, {"steadyWindow": 30}, True),
        ({}, {}, False),
        ({"steadyWindow": True}, {"steadyWindow": False}, False),
        ({"steadyWindow": True}, {"useRelativeTimestamps": False}, False),
        ({"steadyWindow": True}, {"addDiscussionIdTimestampsForLLM": False}, False),
    ],
)
def test_relative_times_in_a_window_that_stands_are_noted(checked, user, node, noted):
    """They change each message with each turn, so nothing of it can be reused."""
    checked.change("Users/ana.json", **user)
    times = {"addDiscussionIdTimestampsForLLM": True, "useRelativeTimestamps": True}
    checked.flow(LLM | times | node)
    lines = [line for line in checked.lines() if "useRelativeTimestamps: relative times" in line]
    assert (len(lines), [line for line in lines if ": note: " not in line]) == (noted, [])


@pytest.mark.parametrize(
    ("endpoint", "api_type", "said"),
    [
        ("http://127.0.0.1:8080", "openAIChatCompletion", []),
        ("http://desk.local:8080", "openAIChatCompletion", []),
        (
            "https://api.example.com",
            "openAIChatCompletion",
            ["note: node 2, readAhead: endpoint 'small-model' is not on a local network"],
        ),
        (
            "http://127.0.0.1:8080",
            "openAIV1Completion",
            ["note: node 2, readAhead: has no effect: endpoint 'small-model' takes no messages"],
        ),
    ],
    ids=["at-home", "in-the-house", "paid-for", "flat"],
)
@pytest.mark.parametrize("when", ["start", "end", "off"])
def test_what_prompts_that_are_read_ahead_cost(checked, endpoint, api_type, said, when):
    """A service that is paid by the token is paid for them, too; a flat prompt cannot be read so."""
    checked.change("Endpoints/lan/small-model.json", endpoint=endpoint)
    checked.change("ApiTypes/Api.json", type=api_type)
    checked.flow(
        {"type": "StaticResponse", "content": "x"}, {"endpointName": "small-model", "readAhead": when}
    )
    lines = [line for line in checked.lines() if "readAhead: " in line]
    expected = said if when != "off" else []
    assert len(lines) == len(expected)
    assert all(words in line for words, line in zip(expected, lines, strict=True))


@pytest.mark.parametrize(("roots", "noted"), [({}, True), ({"pythonModuleRoots": ["/srv/scripts"]}, False)])
def test_scripts_that_may_lie_anywhere_are_noted(checked, roots, noted):
    """For a user whose workflows run some."""
    checked.change("Users/ana.json", **roots)
    checked.flow({"type": "PythonModule", "module_path": "tool.py"})
    assert (
        any("PythonModule nodes may run scripts from any folder" in line for line in checked.lines()) is noted
    )
