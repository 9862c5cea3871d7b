"""Workflow files are found in the user's folder, an override, the caller's folder or `_common`."""

from __future__ import annotations

import pytest

from Middleware.common.errors import ConfigError, ConfigMissing
from Middleware.config.users import UserSettings
from Middleware.config.validation import ERROR, check_file
from Middleware.config.workflows import (
    ByMeaning,
    Category,
    child_file,
    is_workflow,
    list_workflow_files,
    load_routing,
    load_settings,
    load_workflow,
    picked_folder,
    shared_names,
    workflow_exists,
)

ANA = UserSettings("ana")


def put(configs, *files):
    for file in files:
        configs.put(f"Workflows/{file}.json", [{"title": file}])
    return configs.snapshot()


# id, files, arguments, the file that is found
LOOKUPS = [
    ("users-folder", ["ana/X", "_common/X"], {}, "ana/X"),
    ("override-alone", ["ana/X", "b/X"], {"folder": "b"}, "b/X"),
    ("nested-name", ["ana/tools/X"], {"name": "tools/X"}, "ana/tools/X"),
    ("nested-override", ["b/c/X"], {"folder": "b/c/"}, "b/c/X"),
    ("child-in-users-folder", ["ana/X", "s/X", "_common/X"], {"calling_folder": "s"}, "ana/X"),
    ("child-beside-its-caller", ["s/X", "_common/X"], {"calling_folder": "s"}, "s/X"),
    ("child-in-common", ["_common/X"], {"calling_folder": "s"}, "_common/X"),
    ("other-case", ["Ana/x"], {}, "Ana/x"),
    ("exact-common-before-other-case", ["ana/x", "_common/X"], {"calling_folder": "ana"}, "_common/X"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("files", "arguments", "found"), [c[1:] for c in LOOKUPS], ids=[c[0] for c in LOOKUPS]
)
def test_lookup(configs, files, arguments, found):
    snapshot = put(configs, *files)
    arguments = dict(arguments)
    workflow = load_workflow(snapshot, ANA, arguments.pop("name", "X"), **arguments)
    assert workflow.file == f"Workflows/{found}.json"
    assert workflow.nodes == ({"title": found},)


# id, files, arguments, words of the error
MISSES = [
    ("entry-is-not-looked-for-in-common", ["_common/X"], {}, "tried Workflows/ana/X.json"),
    ("override-has-no-fallback", ["ana/X"], {"folder": "b"}, "tried Workflows/b/X.json"),
    ("all-paths", [], {"calling_folder": "s"}, "Workflows/ana/X.json, Workflows/s/X.json, Workflows/_common/X.json"),
    ("nearest", ["ana/_X"], {}, 'did you mean "_X"'),
]  # fmt: skip


@pytest.mark.parametrize(("files", "arguments", "words"), [c[1:] for c in MISSES], ids=[c[0] for c in MISSES])
def test_what_is_not_found(configs, files, arguments, words):
    snapshot = put(configs, *files)
    with pytest.raises(ConfigMissing) as caught:
        load_workflow(snapshot, ANA, "X", **arguments)
    assert words in str(caught.value)


def test_a_miss_is_told_in_one_sentence(configs):
    """The nearest name, or else that the folder is not there; then all that was tried."""
    snapshot = put(configs, "ana/tools/Recall", "anna/Other")
    said = {}
    for name, folder in (("tools/Recal", None), ("Zzz", None), ("X", "anan"), ("X", "zzz")):
        with pytest.raises(ConfigMissing) as caught:
            load_workflow(snapshot, ANA, name, folder=folder)
        said[name, folder] = str(caught.value)
    assert said == {
        ("tools/Recal", None): 'no workflow "tools/Recal" (did you mean "Recall"?); tried Workflows/ana/tools/Recal.json',
        ("Zzz", None): 'no workflow "Zzz"; tried Workflows/ana/Zzz.json',
        ("X", "anan"): 'no workflow "X": there is no folder Workflows/anan (did you mean "ana"?); tried Workflows/anan/X.json',
        ("X", "zzz"): 'no workflow "X": there is no folder Workflows/zzz; tried Workflows/zzz/X.json',
    }  # fmt: skip


def test_the_file_of_a_child(configs):
    """Whatever is in it; None where the name leads nowhere, or out of the tree."""
    snapshot = put(configs, "s/X", "b/X")
    configs.put("Workflows/s/Bad.json", "[")
    assert child_file(snapshot, ANA, "X", folder=None, calling_folder="s") == "Workflows/s/X.json"
    assert child_file(snapshot, ANA, "X", folder="b", calling_folder="s") == "Workflows/b/X.json"
    assert child_file(snapshot, ANA, "Bad", folder=None, calling_folder="s") == "Workflows/s/Bad.json"
    assert child_file(snapshot, ANA, "Y", folder=None, calling_folder="s") is None
    assert child_file(snapshot, ANA, "../../x", folder=None, calling_folder="s") is None


def test_all_files_that_are_workflows(configs):
    """Lists, and objects with nodes; at any depth, files before folders."""
    put(configs, "ana/b/Deep", "ana/Top", "bob/Other")
    for name, document in (
        ("Object", {"nodes": []}),
        ("Settings", {"a": 1}),
        ("Text", '"nodes"'),
        ("Broken", "["),
    ):
        configs.put(f"Workflows/ana/{name}.json", document)
    snapshot = configs.snapshot()
    of_ana = ["Workflows/ana/Object.json", "Workflows/ana/Top.json", "Workflows/ana/b/Deep.json"]
    assert list(list_workflow_files(snapshot)) == [*of_ana, "Workflows/bob/Other.json"]
    assert list(list_workflow_files(snapshot, "Workflows/ana/b")) == ["Workflows/ana/b/Deep.json"]
    assert not is_workflow(snapshot, "Workflows/ana/Gone.json")


def test_paths_that_leave_the_tree_are_refused(configs):
    with pytest.raises(ConfigError, match="would be outside"):
        load_workflow(configs.snapshot(), ANA, "../../Users/ana")


def test_both_forms(configs):
    configs.put("Workflows/ana/L.json", [{"a": 1}])
    configs.put("Workflows/ana/O.json", {"nodes": [{"a": 1}], "tone": "dry", "n": 7})
    snapshot = configs.snapshot()
    as_list, as_object = (load_workflow(snapshot, ANA, name) for name in ("L", "O"))
    assert as_list.nodes == as_object.nodes == ({"a": 1},)
    assert (dict(as_list.variables), dict(as_object.variables)) == ({}, {"tone": "dry", "n": 7})
    assert (as_list.name, as_list.folder) == ("L", "ana")


@pytest.mark.parametrize(
    ("document", "words"),
    [({"tone": "dry"}, "found no nodes"), ({}, "found no nodes"), ({"node": [{"a": 1}]}, "is 'node' meant to be it"), ({"nodes": None}, "found no nodes")],
    ids=["variables", "nothing", "misspelt", "null"],
)  # fmt: skip
def test_an_object_without_nodes_is_no_workflow(configs, document, words):
    """It is a fault of the file, not a workflow that says nothing."""
    configs.put("Workflows/ana/E.json", document)
    with pytest.raises(ConfigError, match=words):
        load_workflow(configs.snapshot(), ANA, "E")


def test_the_folder_is_that_of_the_lookup(configs):
    """A nested name keeps its own part, so that siblings are found from the same folder."""
    snapshot = put(configs, "ana/tools/X", "_shared/pick/Y")
    assert load_workflow(snapshot, ANA, "tools/X").folder == "ana"
    assert load_workflow(snapshot, ANA, "Y", folder="_shared/pick").folder == "_shared/pick"


def test_existence(configs):
    snapshot = put(configs, "ana/X")
    assert workflow_exists(snapshot, ANA, "X")
    assert not workflow_exists(snapshot, ANA, "X", folder="b")


class TestShared:
    def test_folders_are_listed_and_picked(self, configs):
        snapshot = put(
            configs, "_shared/b/_DefaultWorkflow", "_shared/a/_DefaultWorkflow", "_shared/_hidden/X"
        )
        assert shared_names(snapshot, ANA) == ["a", "b"]
        assert picked_folder(snapshot, ANA, "a") == "_shared/a"
        assert picked_folder(snapshot, ANA, "_hidden") == "_shared/_hidden"

    @pytest.mark.parametrize("picked", ["none", "..", "", "a/b", "a:b"])
    def test_what_is_no_folder_is_not_picked(self, configs, picked):
        snapshot = put(configs, "_shared/a/b/X")
        assert picked_folder(snapshot, ANA, picked) is None


GOOD = {"description": "d", "workflow": "w"}
MEANING = {"embeddingEndpointName": "e"}


class TestRouting:
    def test_categories_in_file_order(self, configs):
        configs.put(
            "Routing/r.json",
            {"B": {"description": "d", "workflow": "w"}, "A": {"description": "e", "workflow": "v"}},
        )
        routing = load_routing(configs.snapshot(), "r")
        assert routing.categories == (Category("B", "d", "w"), Category("A", "e", "v"))
        assert routing.by_meaning is None

    def test_routing_by_meaning(self, configs):
        """Its key is no category; what is left out has a default, and null counts as left out."""
        configs.put(
            "Routing/r.json",
            {
                "A": {"description": "d", "workflow": "w", "examples": ["x", " ", "d", "x"]},
                "_byMeaning": {"embeddingEndpointName": "e", "margin": 0.2, "prefix": None},
                "B": {"description": "e", "workflow": "v", "examples": None},
            },
        )
        routing = load_routing(configs.snapshot(), "r")
        assert routing.by_meaning == ByMeaning("e", 0.25, 0.2, 1, "")
        assert [(one.name, one.texts) for one in routing.categories] == [("A", ("d", "x")), ("B", ("e",))]

    def test_a_missing_file_is_told(self, configs):
        configs.put("Routing/homeRoutes.json", {})
        for name, hint in (("homeRoute", ' (did you mean "homeRoutes"?)'), ("zz", "")):
            with pytest.raises(ConfigMissing) as caught:
                load_routing(configs.snapshot(), name)
            assert str(caught.value) == f'no routing file "{name}"{hint}; tried Routing/{name}.json'

    @pytest.mark.parametrize(
        ("document", "pointer"),
        [
            ({}, ""),
            ({"A": {"workflow": "w"}}, "/A"),
            ({"A": {"description": "d"}}, "/A"),
            ({"A": {"description": "d", "workflow": ""}}, "/A/workflow"),
            ({"A": {"description": 5, "workflow": "w"}}, "/A/description"),
            ({"A": "w"}, "/A"),
            ({"A": {"description": "d", "workflow": "w", "examples": "x"}}, "/A/examples"),
            ({"A": {"description": "d", "workflow": "w", "examples": [1]}}, "/A/examples/0"),
            ({"A": GOOD, "_byMeaning": {}}, "/_byMeaning"),
            ({"A": GOOD, "_byMeaning": {"embeddingEndpointName": ""}}, "/_byMeaning/embeddingEndpointName"),
            ({"A": GOOD, "_byMeaning": MEANING | {"threshold": 2}}, "/_byMeaning/threshold"),
            ({"A": GOOD, "_byMeaning": MEANING | {"margin": "0.1"}}, "/_byMeaning/margin"),
            ({"A": GOOD, "_byMeaning": MEANING | {"messages": 0}}, "/_byMeaning/messages"),
        ],
    )
    def test_a_bad_file(self, configs, document, pointer):
        """No category, or one without a description or a workflow."""
        assert [(found.level, found.pointer) for found in check_file("Routing/r.json", document)] == [
            (ERROR, pointer)
        ]
        configs.put("Routing/r.json", document)
        with pytest.raises(ConfigError):
            load_routing(configs.snapshot(), "r")


class TestSettings:
    def test_an_object_of_the_users_folder(self, configs):
        configs.put("Workflows/ana/Mem.json", {"lookbackStartTurn": 3})
        assert load_settings(configs.snapshot(), ANA, "Mem") == {"lookbackStartTurn": 3}

    def test_a_list_has_no_settings(self, configs):
        configs.put("Workflows/ana/Mem.json", [])
        assert load_settings(configs.snapshot(), ANA, "Mem") == {}

    def test_a_missing_one_is_told(self, configs):
        with pytest.raises(ConfigMissing, match=r"Workflows/ana/Mem.json"):
            load_settings(configs.snapshot(), ANA, "Mem")


def test_the_shared_folder_is_found_in_another_case(configs):
    """As every folder is (workflows.md 16.3); two that differ in case only are an error."""
    snapshot = put(configs, "_Shared/coder/_DefaultWorkflow")
    assert shared_names(snapshot, ANA) == ["coder"]
    picked = picked_folder(snapshot, ANA, "coder")
    assert load_workflow(snapshot, ANA, "_DefaultWorkflow", folder=picked).folder == "_Shared/coder"
    with pytest.raises(ConfigError, match="two spellings"):
        shared_names(put(configs, "_SHARED/x/_DefaultWorkflow"), ANA)
