"""Which endpoints play the roles of a pack, and where its files go. What unpacking writes: tests/api/commands/test_unpack.py."""

from __future__ import annotations

import json

import pytest

from Middleware.services.pack_archive import Pack, PackNeeds, PackRefused
from Middleware.workflows.checks.pack_plan import Cast, best_cast, cast_of, plan_unpack


@pytest.mark.parametrize(
    ("found", "best"),
    [
        ({}, {}),
        ({"Main": ["a/X", "b/Main"]}, {"Main": "b/Main"}),
        ({"Main": ["a/X", "b/Y"]}, {"Main": "a/X"}),
        ({"Main": ["a/Main", "b/X"], "Vec": ["b/V"]}, {"Main": "b/X", "Vec": "b/V"}),
        ({"Main": ["a/Main"], "Vec": ["b/Vec"]}, {"Main": "a/Main", "Vec": "b/Vec"}),
        ({"Main": ["Main", "a/X"], "Vec": ["Vec"]}, {"Main": "Main", "Vec": "Vec"}),
    ],
    ids=["no-role", "by-name", "the-first", "one-folder-before-names", "no-such-folder", "the-top-folder"],
)
def test_the_best_cast(found, best):
    """One folder for all comes first, then the names of the roles, then the order."""
    assert best_cast(found) == best


def test_a_cast_has_one_folder():
    assert cast_of({"Main": "a/b/X", "Vec": "a/b/V"}) == Cast("a/b/", {"Main": "X", "Vec": "V"})
    assert cast_of({"Main": "X"}) == Cast("", {"Main": "X"})
    assert cast_of({}) == Cast("", {})
    with pytest.raises(PackRefused, match="Main=a/X, Vec=V are in different folders"):
        cast_of({"Main": "a/X", "Vec": "V"})


USER = {
    "customWorkflowOverride": True,
    "customWorkflow": "Main",
    "routingConfig": "r",
    "chatPromptTemplateName": "neat",
}
PACKED = {
    "Workflows/eve/Main.json": [
        {"type": "Standard", "endpointName": "small-model", "preset": "cold"},
        {"type": "Standard", "endpointName": "small-model", "preset": "warm"},
        {"type": "CustomWorkflow", "workflowName": "Tidy"},
    ],
    "Workflows/_shared/novel/Main.json": [{"type": "StaticResponse", "content": "x"}],
    "Workflows/_common/Tidy.json": [{"type": "StaticResponse", "content": "x"}],
    "Workflows/tools/Count.json": [{"type": "StaticResponse", "content": "x"}],
    "Routing/r.json": {"A": {"description": "a", "workflow": "Main"}},
    "MCPServers/notes.json": {"transport": "stdio", "command": "npx"},
    "PromptTemplates/neat.json": {"promptTemplateEndToken": "</s>"},
    "StructuredOutputs/Date.json": {"type": "object"},
    "StructuredOutputs/eve/Event.json": {"type": "object"},
    "Presets/T/eve/cold.json": {"temperature": 1},
    "Presets/T/warm.json": {"temperature": 2},
}


class TestPlaces:
    """Where the files of a pack go."""

    @pytest.fixture
    def plan(self, checked):
        """The new places of PACKED. `there`: what this machine has already."""

        def make(prefix, there=None, **user):
            for file, document in (there or {}).items():
                checked.put(file, document)
            files = {"Users/eve.json": {**USER, **user}, **PACKED}
            raw = {f"config/{file}": json.dumps(document).encode() for file, document in files.items()}
            needs = PackNeeds({"small-model": ("text",)})
            pack = Pack("eve", "eve", "1.0.0", needs, raw)
            cast = Cast("lan/", {"small-model": "small-model"})
            return plan_unpack(checked.tree.snapshot(), pack, cast, prefix, {})

        return make

    def test_without_a_prefix_they_keep_their_names(self, plan):
        """The user file comes last: until then nothing leads to the others."""
        made = plan("")
        assert sorted(made.files) == sorted([*PACKED, "Users/eve.json"])
        assert list(made.files)[-1] == "Users/eve.json"
        assert (made.in_the_way, made.unchanged) == ([], [])

    def test_with_a_prefix_what_is_the_users_gets_it(self, plan):
        """Folders of workflows, routes and schemas do; servers, templates and presets of everybody keep their
        names as long as nothing is in the way."""
        made = plan("new-")
        assert sorted(made.files) == [
            "MCPServers/notes.json",
            "Presets/T/new-eve/cold.json",
            "Presets/T/warm.json",
            "PromptTemplates/neat.json",
            "Routing/new-r.json",
            "StructuredOutputs/new-eve/Date.json",
            "StructuredOutputs/new-eve/Event.json",
            "Users/new-eve.json",
            "Workflows/new-_shared/novel/Main.json",
            "Workflows/new-eve/Main.json",
            "Workflows/new-eve/Tidy.json",
            "Workflows/new-tools/Count.json",
        ]
        assert made.user == "new-eve"
        user = json.loads(made.files["Users/new-eve.json"])
        assert user == {
            **USER,
            "endpointConfigsSubDirectory": "lan",
            "workflowConfigsSubDirectoryOverride": "new-eve",
            "sharedWorkflowsSubDirectoryOverride": "new-_shared",
            "presetConfigsSubDirectoryOverride": "new-eve",
            "structuredOutputConfigsSubDirectory": "new-eve",
            "routingConfig": "new-r",
        }

    @pytest.mark.parametrize("prefix", ["", "new-"])
    def test_a_name_that_only_a_run_knows_takes_no_prefix(self, plan, monkeypatch, prefix):
        """Nobody could change it; without a prefix it stays as it is."""
        made_in_run = [{"type": "CustomWorkflow", "workflowName": "{agent1Output}"}]
        monkeypatch.setitem(PACKED, "Workflows/eve/Main.json", made_in_run)
        if not prefix:
            assert "Workflows/eve/Main.json" in plan(prefix).files
            return
        with pytest.raises(
            PackRefused, match=r"only a run knows this name, so no name in the pack can be changed"
        ):
            plan(prefix)

    def test_what_is_in_the_way_is_gone_around(self, plan):
        """Each by a name of its own."""
        taken = {
            "MCPServers/notes.json": {"transport": "stdio", "command": "mine"},
            "PromptTemplates/neat.json": {},
            "Presets/T/warm.json": {"temperature": 9},
        }
        made = plan("new-", taken)
        assert {
            "MCPServers/new-notes.json",
            "PromptTemplates/new-neat.json",
            "Presets/T/new-eve/warm.json",
        } <= set(made.files)
        assert not set(taken) & {*made.files, *made.in_the_way}
        assert json.loads(made.files["Users/new-eve.json"])["chatPromptTemplateName"] == "new-neat"

    def test_without_a_prefix_it_is_named(self, plan):
        """Nothing is ever written over; what is exactly so need not be written."""
        there = {"Routing/r.json": {}, "Presets/T/warm.json": PACKED["Presets/T/warm.json"]}
        made = plan("", there)
        assert made.in_the_way == ["Routing/r.json"]
        assert made.unchanged == ["Presets/T/warm.json"]
        assert not {*made.in_the_way, *made.unchanged} & set(made.files)

    @pytest.mark.parametrize(
        "key",
        [
            *("discussionDirectory", "sqlLiteDirectory", "pythonModuleRoots"),
            *("endpointConfigsSubDirectory", "exposeEndpoints"),
        ],
    )
    def test_a_user_file_that_names_places_of_a_machine(self, plan, key):
        """None that was packed does: it would say where this machine writes, and which scripts it may run."""
        with pytest.raises(PackRefused, match=f"its user file sets {key}: folders and endpoints"):
            plan("new-", **{key: ""})
