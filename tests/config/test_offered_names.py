"""Names that files offer beside users and workflows: aliases, endpoints as plain models (operate.md 4)."""

from __future__ import annotations

import json
import os

import pytest

from Middleware.config.loader import ConfigTree
from Middleware.config.offered_names import exposed_endpoints, is_exposed, load_aliases
from Middleware.config.users import for_plain_model, load_user, settings_of
from Middleware.config.validation import check_file

CHAT, VECTORS = {"type": "openAIChatCompletion"}, {"type": "openAIEmbeddings"}


class Tree:
    """`put` writes a file with a time of its own, so that each edit is seen."""

    def __init__(self, root):
        self.root, self._tree, self._time = root, ConfigTree(root), 1_700_000_000

    def put(self, name, content):
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content))
        self._time += 10
        os.utime(file, (self._time, self._time))

    @property
    def snapshot(self):
        return self._tree.snapshot()


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


class TestAliases:
    def names(self, tree):
        return [tuple(alias)[:2] for alias in load_aliases(tree.snapshot)]

    def test_without_the_file_there_are_none(self, tree):
        assert load_aliases(tree.snapshot) == ()

    def test_the_order_is_that_of_the_file(self, tree):
        tree.put("ModelAliases.json", '{"z*": "ann", /* all others */ "a": "ann:chat", "*": "bob"}')
        assert self.names(tree) == [("z*", "ann"), ("a", "ann:chat"), ("*", "bob")]

    @pytest.mark.parametrize("name", ["Claude-Sonnet", "CLAUDE-", "claude-x"])
    def test_the_case_of_letters_does_not_count(self, tree, name):
        tree.put("ModelAliases.json", {"cLaude-*": "ann"})
        [alias] = load_aliases(tree.snapshot)
        assert alias.fits(name.casefold()) and not alias.fits("gpt-4o")

    def test_an_edit_counts_at_once_and_a_broken_one_does_not(self, tree):
        """The last good file stays in force until the edit is mended."""
        tree.put("ModelAliases.json", {"a": "ann"})
        assert self.names(tree) == [("a", "ann")]
        tree.put("ModelAliases.json", {"a": "bob"})
        assert self.names(tree) == [("a", "bob")]
        for broken in ("{", '{"a": 5}', "[]"):
            tree.put("ModelAliases.json", broken)
            assert self.names(tree) == [("a", "bob")]

    def test_a_file_that_never_was_good_has_none(self, tree):
        tree.put("ModelAliases.json", "{")
        assert load_aliases(tree.snapshot) == ()

    @pytest.mark.parametrize(
        ("content", "levels"),
        [({"a*": "ann"}, []), ({}, []), ({"a": ""}, ["error"]), ({"a": 1}, ["error"]), ([], ["error"])],
        ids=["alias", "empty", "no target", "number", "list"],
    )
    def test_the_file_is_checked(self, content, levels):
        assert [finding.level for finding in check_file("ModelAliases.json", content)] == levels


class TestExposedEndpoints:
    @pytest.fixture(autouse=True)
    def endpoints(self, tree):
        tree.put("ApiTypes/Chat.json", CHAT)
        tree.put("ApiTypes/Vectors.json", VECTORS)
        for name, api_type in (("main", "Chat"), ("big", "Chat"), ("vectors", "Vectors"), ("odd", "None")):
            tree.put(
                f"Endpoints/lan/{name}.json", {"endpoint": "http://h", "apiTypeConfigFileName": api_type}
            )
        tree.put(
            "Endpoints/lan/shipped.example.json", {"endpoint": "http://h", "apiTypeConfigFileName": "Chat"}
        )
        tree.put("Endpoints/lan/broken.json", "{")
        tree.put("Endpoints/other.json", {"endpoint": "http://h", "apiTypeConfigFileName": "Chat"})

    def user(self, tree, **settings):
        tree.put("Users/ann.json", {"endpointConfigsSubDirectory": "lan", **settings})
        return load_user(tree.snapshot, "ann")

    def test_none_by_default(self, tree):
        user = self.user(tree)
        assert user.expose_endpoints is False and exposed_endpoints(tree.snapshot, user) == []
        assert not is_exposed(tree.snapshot, user, "main")

    def test_true_means_the_folder_but_embeddings(self, tree):
        """Sorted; what cannot be read is not listed, but whoever asks is told what is wrong with it."""
        user, snapshot = self.user(tree, exposeEndpoints=True), tree.snapshot
        assert exposed_endpoints(snapshot, user) == ["big", "main", "shipped"]
        names = ("main", "vectors", "broken", "odd", "other", "../other", "")
        assert [is_exposed(snapshot, user, name) for name in names] == [True, False, True, True] + [False] * 3

    def test_a_list_has_its_own_order(self, tree):
        user, snapshot = (
            self.user(tree, exposeEndpoints=["main", "big", "main", "vectors", "gone"]),
            tree.snapshot,
        )
        assert exposed_endpoints(snapshot, user) == ["main", "big"]
        assert [is_exposed(snapshot, user, n) for n in ("big", "shipped", "vectors", "gone")] == [True] + [
            False
        ] * 3

    @pytest.mark.parametrize("value", ["true", 1, {"main": True}, None])
    def test_anything_else_exposes_nothing(self, tree, value):
        """And is an error of the file; null is as good as absent."""
        file = {"exposeEndpoints": value, "port": 5000}
        levels = [finding.level for finding in check_file("Users/ann.json", file)]
        assert levels == ([] if value is None else ["error"])
        assert settings_of("ann", file).expose_endpoints is False


def test_a_plain_model_has_no_setting_that_shapes_conversations(tree):
    """What else the user says stays: folders, privacy, times to wait."""
    settings = {
        "chatCompleteAddUserAssistant": True,
        "chatCompletionAddMissingAssistantGenerator": True,
        "livenessToolCall": {"toolName": "go_on"},
        "steadyWindow": True,
        "progressOutput": "reasoning",
        "openWebUITaskWorkflow": "Titles",
        "redactLogOutput": True,
        "endpointConfigsSubDirectory": "lan",
    }
    tree.put("Users/ann.json", settings)
    plain = for_plain_model(load_user(tree.snapshot, "ann"))
    assert dict(plain.raw) == {"redactLogOutput": True, "endpointConfigsSubDirectory": "lan"}
    assert (plain.liveness_tool_call, plain.steady_window, plain.progress_output) == (None, False, "off")
    assert not plain.chat_complete_add_user_assistant and not plain.open_web_ui_task_workflow
    assert plain.redact_log_output and plain.endpoint_configs_sub_directory == "lan"
