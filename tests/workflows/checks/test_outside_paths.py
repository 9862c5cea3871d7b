"""What the configuration names by path. Source: spec operate.md 3."""

from __future__ import annotations

import json

import pytest

from Middleware.config.loader import ConfigTree
from Middleware.workflows.checks.outside_paths import named_paths


@pytest.fixture
def found(tmp_path, monkeypatch):
    """The paths below `tmp_path/far` that a workflow of one node, or another file, names; relative to it."""
    monkeypatch.chdir(tmp_path)
    far = tmp_path / "far"
    (far / "cursors").mkdir(parents=True)
    for name in ("a.py", "note.txt"):
        (far / name).write_text("x")

    def names(file, document):
        path = tmp_path / "Configs" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document).replace("FAR", str(far)))
        return [
            each.relative_to(far).as_posix()
            for each in named_paths(ConfigTree(tmp_path / "Configs").snapshot())
        ]

    return names


@pytest.mark.parametrize(
    ("node", "paths"),
    [
        ({"type": "PythonModule", "module_path": "FAR/a.py"}, ["a.py"]),
        ({"type": "PythonModule", "module_path": "far/a.py"}, ["a.py"]),
        ({"type": "PythonModule", "module_path": "FAR/{x}.py"}, ["."]),
        ({"type": "GetCustomFile", "filepath": "far/note.txt"}, ["note.txt"]),
        ({"type": "GetCustomFile", "filepath": "far/{Discussion_Id}.txt"}, ["."]),
        ({"type": "ConversationChunkProcessor", "cursorDirectory": "FAR/cursors"}, ["cursors"]),
        ({"type": "Standard", "notesDir": "FAR/cursors"}, ["cursors"]),
        ({"type": "Standard", "prompt": "FAR/a.py\nand more"}, []),
        ({"type": "Standard", "prompt": "far/a.py"}, []),
        ({"type": "GetCustomFile", "filepath": "FAR/gone.txt"}, []),
        ({"type": "GetCustomFile", "filepath": "{agent1Output}"}, []),
        ({"type": "GetCustomFile", "filepath": "/"}, []),
    ],
    ids=str,
)
def test_of_a_node(found, node, paths):
    """What is there, also up to the first variable."""
    assert found("Workflows/ana/Main.json", [node]) == paths


def test_of_other_files(found):
    assert found("Users/ana.json", {"pythonModuleRoots": ["FAR/cursors"]}) == ["cursors"]
    assert found("MCPServers/files.json", {"command": "npx", "args": ["serve", "FAR/note.txt"]}) == [
        "cursors",
        "note.txt",
    ]
