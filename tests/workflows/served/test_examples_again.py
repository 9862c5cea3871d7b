"""Every example workflow, run again from each of its nodes: no node before the start calls anything, and with no
box ticked no file changes. Source: spec workbench.md 11 (row 6).
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from Middleware.common.instance_global_variables import LaunchFacts, launch_facts, set_launch_facts
from Middleware.llmapis.handlers.backends import BACKENDS
from tests.shipped import CONFIGS, copy_configs
from tests.workflows.conftest import House
from tests.workflows.served.test_runs_again import Again, files_of

USERS = sorted(path.stem for path in (CONFIGS / "Users").glob("[!_]*.json"))
CHATS = ("openAIChatCompletion", "ollamaApiChat", "builtInDemo")


class Examples(House):
    """The shipped config files in place of those of a test."""

    def __init__(self, root: Path, model: object) -> None:
        self.root, self.model, self.user, self.request = root / "Configs", model, {}, {}
        copy_configs(self.root)
        for example in (self.root / "Endpoints").glob("*.example.json"):
            shutil.copy(example, example.with_name(example.name.replace(".example", "")))


@pytest.fixture
def examples(tmp_path, model, monkeypatch):
    before = launch_facts()
    house = Examples(tmp_path, model)
    for name in BACKENDS._table.keys() & set(CHATS):
        monkeypatch.setitem(BACKENDS._table, name, BACKENDS._table["scriptedChat"])
    set_launch_facts(LaunchFacts(public_directory=tmp_path, config_directory=house.root, users=tuple(USERS)))
    set_launch_facts(replace(launch_facts(), concurrency=0))
    yield Again(house)
    set_launch_facts(before)


def data_of(root):
    """All files but the config files, and the databases of locks, which hold nothing between runs."""
    return {
        name: data
        for name, data in files_of(root).items()
        if "/Configs/" not in name and "/SqlLiteDBs/" not in name
    }


def first_of(nodes, start):
    """Where a start lies: of a parallel group at its first member; the whole run has nothing before it."""
    groups = {node["number"]: node["group"] for node in nodes}
    while start and groups.get(start) and groups.get(start - 1) == groups[start]:
        start -= 1
    return start or 0


@pytest.mark.parametrize("user", USERS)
def test_an_example(examples, tmp_path, user):
    examples.ask(user, "Hello [DiscussionId]trip[/DiscussionId]")
    first = examples.newest()
    assert examples.may(first)["may"], examples.may(first)
    files = data_of(tmp_path)
    outer = [node for node in first["nodes"] if node["parent"] is None]
    own = [node for node in outer if node["workflow"] == outer[-1]["workflow"]]
    for start in [None, *(node["number"] for node in own)]:
        may = examples.may(first, start)
        if not may["may"]:
            assert may["why"], start
            continue
        assert examples.post("again", {"run": first["id"], "from": start, "writes": []})[0] in (200, 502, 500)
        run = examples.newest()
        assert run["again_of"]["id"] == first["id"]
        before = [n for n in run["nodes"] if n["parent"] is None and n["number"] < first_of(own, start)]
        assert all(node["calls"] == [] and node["state"] == "kept" for node in before), (start, before)
        assert data_of(tmp_path) == files, start
