"""What `--validate` says of the keys file (keys.md 1, 7)."""

from __future__ import annotations

import json

import pytest

from Middleware.common.instance_global_variables import LaunchFacts, launch_facts, set_launch_facts
from Middleware.config.key_file import digest_of
from Middleware.config.loader import ConfigTree
from Middleware.services.discussion_store import ChunkList, DiscussionStore, Entry
from Middleware.workflows.checks.keys_check import keys_file_findings


class Tree:
    def __init__(self, public):
        self.public, self.configs = public, public / "Configs"
        self.write("Users/ann.json", {"customWorkflowOverride": True, "customWorkflow": "Main"})
        self.write("Users/zoe.json", {"encryptUsingApiKey": True})
        self.facts = LaunchFacts(public_directory=public, config_directory=self.configs)

    def write(self, name, content):
        path = self.configs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content, indent=1))
        path.chmod(0o600)

    def keys(self, *entries):
        self.write(
            "Keys.json",
            {"keys": [{"name": f"key-{i}", "sha256": digest_of(str(i)), **e} for i, e in enumerate(entries)]},
        )

    def said(self, facts=None):
        found = keys_file_findings(ConfigTree(self.configs).snapshot(), facts or self.facts, ["ann", "zoe"])
        return [str(one) for one in found]


@pytest.fixture
def tree(tmp_path):
    before = launch_facts()
    made = Tree(tmp_path / "Public")
    set_launch_facts(made.facts)
    yield made
    set_launch_facts(before)


def test_without_a_file_nothing(tree):
    assert tree.said() == []


def test_a_good_file_has_no_findings(tree):
    tree.keys({"users": ["ann"], "folder": "ann"}, {"users": ["*"]})
    assert tree.said() == []


def test_its_own_faults_with_their_place(tree):
    tree.keys({"users": ["ann"], "limits": {"concurent": 1}})
    (said,) = tree.said()
    assert said.startswith("Keys.json:9:") and "is 'concurrent' meant?" in said


def test_a_line_that_cannot_be_read_is_not_shown(tree):
    tree.write("Keys.json", '{"keys": [{"sha256": "' + digest_of("x") + '" "name": "a"}]}')
    (said,) = tree.said()
    assert "error" in said and digest_of("x") not in said


def test_a_pair_that_cannot_work(tree):
    """A folder beside a user whose cipher is the key."""
    tree.keys({"users": ["*"], "folder": ""}, {"users": ["ann"], "folder": "x"})
    (said,) = tree.said()
    assert "error" in said and "key-0" in said and "user zoe" in said


def test_a_folder_that_is_a_discussion(tree):
    store = DiscussionStore(tree.public / "DiscussionIds", "trip")
    ChunkList(store, "memories.json").replace(Entry("text", "1"))
    tree.keys({"users": ["ann"], "folder": "trip"})
    (said,) = tree.said()
    assert "error" in said and "'trip'" in said


def test_what_fits_nobody_and_what_has_expired(tree):
    tree.keys({"users": ["an"], "expires": "2020-01-01"})
    warning, note = tree.said()
    assert "warning" in warning and "'an'" in warning
    assert "note" in note and "has expired" in note


def test_a_file_that_was_named_and_is_not_there(tree):
    facts = LaunchFacts(
        public_directory=tree.public, config_directory=tree.configs, keys_file=tree.public / "none.json"
    )
    (said,) = tree.said(facts)
    assert "error" in said and "none.json" in said


def test_another_spelling_of_the_name(tree):
    """Where the system takes it for another file, the server would be open."""
    tree.write("keys.json", {"keys": []})
    (said,) = tree.said()
    assert "must be called Keys.json" in said
