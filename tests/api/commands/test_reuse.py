"""`--reuse` on the command line: what is printed, and the exit status."""

from __future__ import annotations

import json
import re
from argparse import ArgumentTypeError, Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from Middleware.api.commands import reuse
from Middleware.common.instance_global_variables import LaunchFacts, launch_facts, set_launch_facts


def ask(endpoint: str, **fields: Any) -> dict[str, Any]:
    front = {"systemPrompt": "{chat_system_prompt}", "lastMessagesToSendInsteadOfPrompt": 30}
    return {"type": "Standard", "endpointName": endpoint, **front, **fields}


FILES: dict[str, Any] = {
    "Users/_current-user": {"currentUser": "mira"},
    "Users/mira": {"port": 5000, "customWorkflowOverride": True, "customWorkflow": "Reviewers"},
    "Users/router": {
        "port": 5001,
        "customWorkflowOverride": False,
        "routingConfig": "r",
        "categorizationWorkflow": "Pick",
    },
    "Routing/r": {
        "CODE": {"workflow": "Code", "description": "code"},
        "TALK": {"workflow": "Talk", "description": "talk"},
    },
    "ApiTypes/Chat": {"type": "openAIChatCompletion", "presetType": "any"},
    "Endpoints/Small": {"endpoint": "http://small.test", "apiTypeConfigFileName": "Chat"},
    "Endpoints/Big": {"endpoint": "http://big.test", "apiTypeConfigFileName": "Chat"},
    "Workflows/mira/Reviewers": [
        ask("Small", title="Draft", systemPrompt="Write a draft. {chat_system_prompt}"),
        ask("Small", title="Critic", latePrompt="Criticise: {agent1Output}"),
        ask("Big", title="Answer"),
    ],
    "Workflows/mira/Text": [{"type": "StaticResponse", "content": "x"}],
    "Workflows/mira/Bad": [{"type": "Standard", "endpointName": "nope"}],
    "Workflows/mira/Behind": [ask("Big", returnToUser=True), ask("Small", prompt="Note {agent1Output}")],
    "Workflows/mira/Ahead": [
        ask("Big", title="Answer", returnToUser=True, readAhead="end"),
        ask("Big", prompt="Note", systemPrompt="You take notes."),
    ],
    "Workflows/mira/Route": [
        {
            "type": "ConditionalCustomWorkflow",
            "conditionalKey": "?",
            "conditionalWorkflows": {"one": "Text", "default": "Reviewers"},
        }
    ],
    "Workflows/router/Pick": [ask("Small", title="Pick")],
    "Workflows/router/_DefaultWorkflow": [ask("Big", title="Default")],
    "Workflows/router/Code": [ask("Big", title="Code")],
    "Workflows/router/Talk": [ask("Big", title="Talk")],
}


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Path]:
    for name, document in FILES.items():
        path = tmp_path / "Configs" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document, indent=1))
    before = launch_facts()
    set_launch_facts(LaunchFacts(public_directory=tmp_path, config_directory=tmp_path / "Configs"))
    yield tmp_path
    set_launch_facts(before)


def run(name: str, **arguments: Any) -> int:
    defaults = {"messages": None, "turns": 12, "slots": 1, "branch": False}
    return reuse.Reuse().run(Namespace(**{**defaults, **arguments, "reuse": name}))


class TestTable:
    def test_a_line_for_each_node_then_advice(self, tree, capsys):
        """Where each prompt leaves the one before, what a turn waits for, what to change, what it brings."""
        assert run("Reviewers") == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == "workflow Reviewers of mira, 12 turns, 1 prompt held at each server"
        assert lines[1].split("  ")[0] == "node" and lines[1].endswith("leaves the one before at")
        assert lines[2].startswith("1 Draft   Small ")
        assert lines[2].endswith("100 %  systemPrompt, character 0 (node 2 was there before)")
        assert lines[4].startswith("3 Answer  Big ")
        assert lines[4].endswith("%  window: message 1 is another one each turn")
        assert lines[5].startswith("total ")
        assert lines[6].startswith("Each turn waits for ") and lines[6].endswith(" of them are new.")
        assert lines[7] == (
            '  node 1: its instruction stands before the conversation: put it into "latePrompt"  '
            "(Workflows/mira/Reviewers.json:5)"
        )
        assert lines[-1].startswith("With these changes: about ")

    def test_the_changes_are_tried(self, tree, capsys):
        """What is promised is what a changed file gives."""
        run("Reviewers")
        promised = capsys.readouterr().out.splitlines()[-1].removeprefix("With these changes: about ")[:-1]
        nodes = [
            ask("Small", latePrompt="Write a draft.", steadyWindow=True),
            ask("Small", latePrompt="Criticise: {agent1Output}", steadyWindow=True),
            ask("Big", steadyWindow=True),
        ]
        (tree / "Configs/Workflows/mira/Changed.json").write_text(json.dumps(nodes))
        assert run("Changed") == 0
        assert f"Each turn waits for {promised} tokens" in capsys.readouterr().out

    def test_what_is_read_after_the_answer_is_said(self, tree, capsys):
        assert run("Behind") == 0
        after = r"Another [\d,]+ tokens \([\d,]+ characters\) are read after the answer\."
        assert re.search(after, capsys.readouterr().out)

    def test_what_is_read_ahead_has_a_line_of_its_own(self, tree, capsys):
        """Below its node: with it, the next turn's prompt is held although another node asked meanwhile."""
        assert run("Ahead") == 0
        lines = capsys.readouterr().out.splitlines()
        assert [line.partition("  ")[0] for line in lines[2:6]] == [
            "1 Answer",
            "1 Answer, read ahead",
            "2",
            "total",
        ]

    def test_a_workflow_without_a_model(self, tree, capsys):
        assert run("Text") == 0
        assert capsys.readouterr().out.splitlines()[1] == "No node calls a model."

    @pytest.mark.parametrize(
        "talk", [[], [{"role": "assistant", "content": "Hello"}]], ids=["empty", "no-user"]
    )
    def test_a_conversation_without_a_turn(self, tree, capsys, talk):
        """The workflow is not to blame."""
        (tree / "m.json").write_text(json.dumps(talk))
        assert run("Reviewers", messages=str(tree / "m.json")) == 0
        [_, said] = capsys.readouterr().out.splitlines()
        assert said == "The conversation contains no message from a user, so there is no turn to look at."

    def test_turns_slots_and_a_conversation(self, tree, capsys):
        """As they are given."""
        talk = [{"role": ("user", "assistant")[n % 2], "content": f"text {n}"} for n in range(9)]
        (tree / "m.json").write_text(json.dumps(talk))
        assert run("Reviewers", messages=str(tree / "m.json"), turns=3, slots=2) == 0
        assert ", 3 turns, 2 prompts held at each server\n" in capsys.readouterr().out


class TestNames:
    def test_a_user(self, tree, capsys):
        """Whatever answers requests to that user: here its routing."""
        assert run("router") == 0
        assert capsys.readouterr().out.startswith("user router, 12 turns")

    def test_a_name_that_is_not_there(self, tree, capsys):
        """Status 2."""
        assert run("Nothing") == 2
        assert capsys.readouterr().err == "--reuse: user mira has no workflow 'Nothing'\n"

    def test_a_bad_conversation(self, tree, capsys):
        """Status 2, and what is wrong."""
        (tree / "m.json").write_text("no json")
        assert run("Reviewers", messages=str(tree / "m.json")) == 2
        assert capsys.readouterr().err.startswith("--messages: ")

    def test_a_node_that_fails(self, tree, capsys):
        """Status 1."""
        assert run("Bad") == 1
        assert 'no endpoint "nope"' in capsys.readouterr().out

    def test_several_users_are_a_usage_error(self, tree, capsys):
        """The walk is one user's."""
        set_launch_facts(
            LaunchFacts(public_directory=tree, config_directory=tree / "Configs", users=("mira", "router"))
        )
        assert run("Reviewers") == 2


class TestBranches:
    def test_each_branch_once(self, tree, capsys):
        """A table each, also of one without a model."""
        assert run("Route", branch=True) == 0
        printed = capsys.readouterr().out
        titles = [line for line in printed.splitlines() if line.startswith("workflow ")]
        assert [title.split(", ")[1] for title in titles] == [
            "branch 'one' of node 1 of Route",
            "branch 'default' of node 1 of Route",
        ]

    def test_each_category_once(self, tree, capsys):
        """Of the user's routing."""
        assert run("router", branch=True) == 0
        printed = capsys.readouterr().out
        assert "branch 'CODE' of the routing" in printed and "1 Talk" in printed

    def test_without_branches_there_is_one_table(self, tree, capsys):
        assert run("Reviewers", branch=True) == 0
        assert capsys.readouterr().out.count("leaves the one before at") == 1

    def test_else_the_branch_of_the_stub(self, tree, capsys):
        """Here none fits, so it is the default."""
        assert run("Route") == 0
        assert "1 Draft" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["0", "-1", "x", "1.5", ""])
def test_counts_begin_at_one(text):
    with pytest.raises(ArgumentTypeError, match="must be a number from 1 on"):
        reuse.positive_number(text)
