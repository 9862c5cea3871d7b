"""Names in the files of a pack: which scripts and servers they are, and how they become others."""

from __future__ import annotations

import pytest

from Middleware.workflows.checks.pack_names import (
    Renames,
    edits_of,
    imported_scripts,
    names_made_in_a_run,
    script_below,
    script_name,
    scripts_named,
    servers_named,
)

FILE = "Workflows/ann/Main.json"
SCRIPT = {"type": "PythonModule", "module_path": "Public/workflow_python_scripts/a/b.py"}


class TestScripts:
    @pytest.mark.parametrize(
        ("text", "found"),
        [
            ("import Public.workflow_python_scripts.a.b", ["a/b.py"]),
            ("from workflow_python_scripts.a import b, c", ["a.py", "a/b.py", "a/c.py"]),
            ("def f():\n    from Public.workflow_python_scripts import a", ["a.py"]),
            ("import json, os.path\nfrom Middleware.utilities import text_utils", []),
            ("from . import a", []),
            ("this is no Python", []),
            ("\0", []),
        ],
    )
    def test_what_a_script_imports_from_its_folder(self, text, found):
        """Names of modules, and of what may be one."""
        assert imported_scripts(text.encode()) == found

    def test_a_name_and_its_place(self):
        assert script_below(script_name("a/b.py")) == "a/b.py"
        assert script_below("/home/ann/b.py") is None

    def test_agents_name_scripts_too(self):
        node = {"type": "Agent", "agentTools": ["mcp:files", {"python": "x.py"}, {"workflow": "W"}]}
        assert list(scripts_named(node)) == [("/agentTools/1/python", "x.py")]
        assert list(scripts_named(SCRIPT)) == [("/module_path", SCRIPT["module_path"])]
        assert list(scripts_named({"type": "Standard", "module_path": "x.py"})) == []


class TestServers:
    @pytest.mark.parametrize(
        ("node", "found"),
        [
            ({"type": "MCPToolCall", "server": "files"}, [("/server", "files")]),
            ({"type": "MCPToolCall", "server": "{which}"}, [("/server", "files")]),
            ({"type": "MCPToolCall", "server": "other"}, []),
            (
                {"type": "Agent", "agentTools": ["mcp:files/read_*", "mcp:other", 5]},
                [("/agentTools/0", "files")],
            ),
            (SCRIPT | {"args": ["files"]}, [("/args/0", "files")]),
            (SCRIPT | {"kwargs": {"s": "x, files;plans"}}, [("/kwargs/s", "files"), ("/kwargs/s", "plans")]),
            (SCRIPT | {"kwargs": {"s": {"t": ["{which}"]}}}, [("/kwargs/s/t/0", "files")]),
            (SCRIPT | {"args": ["files.txt", "the-files", 7]}, []),
            ({"type": "Standard", "prompt": "files"}, []),
        ],
    )
    def test_where_a_node_names_one(self, node, found):
        """Of those that there are."""
        assert list(servers_named(node, {"which": "files"}, ["files", "plans"])) == found


class TestEdits:
    def test_names_become_others_where_they_are_names(self):
        """Through the variables of the file, too; not in a text."""
        document = {
            "fast": "files",
            "nodes": [
                {"type": "MCPToolCall", "server": "{fast}", "prompt": "files"},
                {"type": "MCPToolCall", "server": "other"},
                {"type": "CustomWorkflow", "workflowName": "W", "workflowUserFolderOverride": "tools/deep"},
                SCRIPT | {"kwargs": {"s": "files, plans", "t": "profiles"}},
                {
                    "type": "Agent",
                    "agentTools": [
                        "mcp:files/read_*",
                        {"workflow": "W", "workflowUserFolderOverride": "tools"},
                        {"python": "Public/workflow_python_scripts/a/b.py"},
                    ],
                },
            ],
        }
        renames = Renames(
            servers={"files": "n-files", "plans": "n-plans"},
            scripts={"a/b.py": "n-a/b.py"},
            folders={"tools": "n-tools"},
        )
        assert edits_of(FILE, document, {}, renames) == {
            "/nodes/0/server": "n-files",
            "/nodes/2/workflowUserFolderOverride": "n-tools/deep",
            "/nodes/3/module_path": "Public/workflow_python_scripts/n-a/b.py",
            "/nodes/3/kwargs/s": "n-files, n-plans",
            "/nodes/4/agentTools/0": "mcp:n-files/read_*",
            "/nodes/4/agentTools/1/workflowUserFolderOverride": "n-tools",
            "/nodes/4/agentTools/2/python": "Public/workflow_python_scripts/n-a/b.py",
        }

    def test_without_renames_nothing_changes(self):
        assert edits_of(FILE, [SCRIPT | {"endpointName": "Main"}], {}, Renames()) == {}


def test_names_that_only_a_run_knows():
    """A variable of the file or of the user is known."""
    nodes = [
        {"type": "CustomWorkflow", "workflowName": "{mine}", "preset": "{users}"},
        {"type": "CustomWorkflow", "workflowName": "{agent1Output}"},
    ]
    found = names_made_in_a_run(FILE, {"mine": "Main", "nodes": nodes}, {"users": "Cold"})
    assert list(found) == [f"{FILE}, node 2, workflowName: {{agent1Output}}"]
