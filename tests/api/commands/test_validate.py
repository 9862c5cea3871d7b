"""`--validate` prints each finding and exits 0 without errors."""

from __future__ import annotations

import json
from argparse import Namespace

import pytest

from Middleware.api.commands import validate
from Middleware.common.instance_global_variables import LaunchFacts, launch_facts, set_launch_facts


@pytest.fixture
def root(tmp_path):
    before = launch_facts()
    set_launch_facts(LaunchFacts(config_directory=tmp_path / "Configs"))
    yield tmp_path / "Configs"
    set_launch_facts(before)


def put(root, file, document):
    path = root / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document), encoding="utf-8")


def test_errors_are_printed_and_make_it_fail(root, capsys):
    put(root, "Users/ana.json", {"customWorkflowOverride": True, "customWorkflow": "Main"})
    put(root, "Workflows/ana/Main.json", [{"type": "StaticResponse", "content": 5, "isResponder": True}])
    assert validate.Validate().run(Namespace()) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "Workflows/ana/Main.json:1:40: error: node 1, content: found 5, allowed: a string",
        "Workflows/ana/Main.json:1:58: warning: node 1, isResponder: unknown field 'isResponder' (did you mean 'is_responder'?)",
        f"{root}: 1 error, 1 warning, 0 notes",
    ]


def test_warnings_do_not(root, capsys):
    put(root, "Users/ana.json", {"customWorkflowOverride": True, "customWorkflow": "Main", "prot": 1})
    put(root, "Workflows/ana/Main.json", [{"type": "StaticResponse", "content": "x"}])
    assert validate.Validate().run(Namespace()) == 0
    assert "1 warning" in capsys.readouterr().out


def test_a_missing_folder_is_an_error(root, capsys):
    assert validate.Validate().run(Namespace()) == 1
    assert "no such folder" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("users", "status", "lines"),
    [
        (("ana",), 0, [": 0 errors, 0 warnings, 0 notes"]),
        (("tom",), 1, ["Users/tom.json:1:52: error: customWorkflow", ": 1 error, 0 warnings, 0 notes"]),
        (
            ("ana", "tom"),
            1,
            ["Users/tom.json:1:52: error: customWorkflow", ": 1 error, 0 warnings, 0 notes"],
        ),
        (("bo",), 1, ["Users/bo.json: error: no user 'bo'", ": 1 error, 0 warnings, 0 notes"]),
        (
            (),
            1,
            [
                "Users/tom.json:1:52: error: customWorkflow",
                "Workflows/ana/Old.json:1:1: note",
                ": 1 error, 0 warnings, 1 note",
            ],
        ),
    ],
    ids=["well", "faulty", "both", "nobody", "whole-tree"],
)
def test_with_users_only_what_they_reach(root, capsys, users, status, lines):
    """Faults of others, and workflows that nobody names, are not theirs."""
    put(root, "Users/ana.json", {"customWorkflowOverride": True, "customWorkflow": "Main"})
    put(root, "Users/tom.json", {"customWorkflowOverride": True, "customWorkflow": "Mian"})
    put(root, "Workflows/ana/Main.json", [{"type": "StaticResponse", "content": "x"}])
    put(root, "Workflows/ana/Old.json", [{"type": "StaticResponse", "content": "x"}])
    set_launch_facts(LaunchFacts(config_directory=root, users=users))
    assert validate.Validate().run(Namespace()) == status
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == len(lines)
    assert all(part in line for part, line in zip(lines, printed, strict=True))


@pytest.mark.parametrize("name", ["a/b", "../x", ".", "a:b"])
def test_a_name_that_no_user_can_have(root, capsys, name):
    """One sentence says so, as with every other command."""
    put(root, "Users/ana.json", {"customWorkflowOverride": True, "customWorkflow": "Main"})
    set_launch_facts(LaunchFacts(config_directory=root, users=(name,)))
    assert validate.Validate().run(Namespace()) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"Users: error: {name!r} cannot be the name of a user; it must be a plain file name",
        f"{root}, what {name} can reach: 1 error, 0 warnings, 0 notes",
    ]


def test_a_folder_that_is_no_config_tree(root, capsys):
    """One level too high, for example: no all-clear for it."""
    put(root, "Configs/Users/ana.json", {})
    assert validate.Validate().run(Namespace()) == 1
    assert (
        capsys.readouterr().out
        == f"{root}: error: there is no user file in Users/; is this the folder Public/Configs?\n"
    )


def test_prompts_that_are_read_again_are_a_note_for_each_user(root, capsys):
    """Of those whose windows move; the exit status stays 0."""
    put(root, "ApiTypes/Api.json", {"type": "openAIChatCompletion"})
    put(root, "Endpoints/Main.json", {"endpoint": "http://h", "apiTypeConfigFileName": "Api"})
    node = {"type": "Standard", "endpointName": "Main", "lastMessagesToSendInsteadOfPrompt": 30}
    for name, steady in (("ana", True), ("tom", False), ("zoe", False)):
        user = {"customWorkflowOverride": True, "customWorkflow": "Main", "steadyWindow": steady}
        put(root, f"Users/{name}.json", user)
        put(root, f"Workflows/{name}/Main.json", [node])
    assert validate.Validate().run(Namespace()) == 0
    notes = [line for line in capsys.readouterr().out.splitlines() if "--reuse" in line]
    assert [note.partition(": each turn has ")[0] for note in notes] == [
        "Users/tom.json: note",
        "Users/zoe.json: note",
    ]
