"""`--dry-run` and `--explain` on the command line: what is printed, and the exit status."""

from __future__ import annotations

import json
import os
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from Middleware.api.commands import dry_run
from Middleware.common.instance_global_variables import LaunchFacts, launch_facts, set_launch_facts

FILES: dict[str, Any] = {
    "Users/_current-user": {"currentUser": "ana"},
    "Users/ana": {"port": 5000},
    "ApiTypes/Demo": {"type": "builtInDemo"},
    "Endpoints/demo": {"endpoint": "", "apiTypeConfigFileName": "Demo"},
    "Workflows/ana/Main": [
        {"type": "StaticResponse", "content": "x", "title": "Text"},
        {"type": "Standard", "endpointName": "demo", "prompt": "say {chat_user_prompt_last_one}"},
    ],
    "Workflows/_shared/notes/_DefaultWorkflow": [
        {"type": "Standard", "endpointName": "demo", "prompt": "shared"}
    ],
    "Workflows/ana/Bad": [{"type": "Standard", "endpointName": "nope"}],
}


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Path]:
    for name, document in FILES.items():
        path = tmp_path / "Configs" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document))
    before = launch_facts()
    set_launch_facts(LaunchFacts(public_directory=tmp_path, config_directory=tmp_path / "Configs"))
    yield tmp_path
    set_launch_facts(before)


def run(**arguments: Any) -> int:
    defaults = {"dry_run": None, "explain": None, "messages": None, "stub_output": None}
    return dry_run.WalkAWorkflow().run(Namespace(**{**defaults, **arguments}))


class TestDryRun:
    def test_it_prints_every_node(self, tree, capsys):
        """With the workflow's file on top."""
        assert run(dry_run="Main") == 0
        printed = capsys.readouterr().out
        assert printed.startswith('Workflows/ana/Main.json\nnode 1 "Text" (StaticResponse)\n')
        assert '"content": "say Hello"' in printed
        assert "\n  POST (inside this program)\n" in printed

    @pytest.mark.parametrize(
        "document",
        [
            [{"role": "user", "content": "Ho"}],
            {"messages": [{"role": "user", "content": "Ho"}], "stream": True},
        ],
        ids=["messages", "body"],
    )
    def test_the_conversation_can_be_given(self, tree, capsys, document):
        """A list of messages, or a whole request body."""
        (tree / "m.json").write_text(json.dumps(document))
        assert run(dry_run="Main", messages=str(tree / "m.json"), stub_output="S") == 0
        assert "say Ho" in capsys.readouterr().out

    @pytest.mark.parametrize("text", ["no json", "{}", '[{"no": "role"}]', '"x"'])
    def test_a_bad_conversation_is_a_usage_error(self, tree, capsys, text):
        """Status 2, and what is wrong."""
        (tree / "m.json").write_text(text)
        assert run(dry_run="Main", messages=str(tree / "m.json")) == 2
        assert "--messages" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("held", "said"),
        [
            (None, "m.json: cannot be read: No such file or directory"),
            (
                b"\xff\xfe[\0]\0",
                "m.json: the file is UTF-16 or UTF-32 text, allowed: UTF-8; save it as UTF-8",
            ),
            (b'["\xff"]', "m.json:1:3: not UTF-8 text; save it as UTF-8"),
            (b"{}", "m.json: found neither a list of messages nor an object with `messages`"),
            (b'[{"role": 5}]', "m.json: messages"),
        ],
        ids=["missing", "utf-16", "bytes", "object", "message"],
    )
    def test_what_is_wrong_with_its_file_is_said_once(self, tree, capsys, held, said):
        """As of a config file: its name, the place, what is allowed. PowerShell writes UTF-16."""
        file = tree / "m.json"
        if held is not None:
            file.write_bytes(held)
        assert run(dry_run="Main", messages=str(file)) == 2
        assert capsys.readouterr().err.startswith(f"--messages: {tree}{os.sep}{said}")

    @pytest.mark.parametrize("name", ["notes", "notes:latest", "ana:notes", "ana:notes:latest"])
    def test_a_shared_workflow_is_named_as_in_the_model_field(self, tree, capsys, name):
        """By its folder, alone or behind the user."""
        assert run(dry_run=name) == 0
        assert capsys.readouterr().out.startswith("Workflows/_shared/notes/_DefaultWorkflow.json\n")

    def test_a_failing_node_is_told(self, tree, capsys):
        """Status 1."""
        assert run(dry_run="Bad") == 1
        assert (
            'error: Workflows/ana/Bad.json:1:2: node 1 (Standard): no endpoint "nope"'
            in capsys.readouterr().out
        )

    def test_an_unknown_workflow_is_told(self, tree, capsys):
        """Status 1."""
        assert run(dry_run="None") == 1
        assert "no workflow" in capsys.readouterr().out

    def test_several_users_are_a_usage_error(self, tree, capsys):
        """The walk is one user's."""
        set_launch_facts(LaunchFacts(users=("a", "b")))
        assert run(dry_run="Main") == 2


class TestExplain:
    @pytest.mark.parametrize("name", ["Main", "Main#2"])
    def test_one_node_alone(self, tree, capsys, name):
        """Without a number: the first that calls a model."""
        assert run(explain=name) == 0
        printed = capsys.readouterr().out
        assert printed.startswith("POST") and "node" not in printed

    def test_a_shared_workflow_is_explained_too(self, tree, capsys):
        assert run(explain="ana:notes#1") == 0
        assert '"content": "shared"' in capsys.readouterr().out

    @pytest.mark.parametrize("name", ["Main#1", "Main#9"])
    def test_a_node_that_calls_no_model(self, tree, capsys, name):
        """Status 1."""
        assert run(explain=name) == 1
        assert "that calls a model" in capsys.readouterr().out

    def test_what_stands_in_the_way_is_told(self, tree, capsys):
        """A failure before the node."""
        assert run(explain="Bad#1") == 1
        assert "no endpoint" in capsys.readouterr().out

    def test_a_number_must_be_one(self, tree):
        """Status 2."""
        assert run(explain="Main#x") == 2
