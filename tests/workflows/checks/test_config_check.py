"""The whole tree is checked, and each fault is told with file, pointer, what was found and a way out."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from Middleware.common.errors import NOWHERE, ConfigError
from Middleware.config.loader import tree_of
from Middleware.config.users import load_user
from Middleware.config.validation import WARNING
from Middleware.workflows.checks import config_check
from Middleware.workflows.checks.config_check import short_of_tokens
from Middleware.workflows.checks.user_walk import UserWalk
from tests.workflows.checks.conftest import ABSENT, GOOD, llm

MEMORY = {"discussionIdMemoryFileWorkflowSettings": "Mem"}
COMPACTOR = {"contextCompactorSettingsFile": "Com"}

# id, file, its good content, the content with a typo, the line that tells of it. Errors keep the last good version.
TYPOS = [
    ("user", "Users/ana.json", None, {"customWorkflowOverride": True, "customWorkflow": ["Main"]},
     'Users/ana.json: error: customWorkflow: found a list, allowed: a string'),
    ("pointer", "Users/_current-user.json", None, {"currentUsr": "ana"},
     "Users/_current-user.json: error: 'currentUser' is missing (is 'currentUsr' meant to be it?)"),
    ("endpoint", "Endpoints/lan/small-model.json", None, {"endpoint": "http://h", "apiTypeConfigFileNam": "Api"},
     "Endpoints/lan/small-model.json: error: 'apiTypeConfigFileName' is missing (is 'apiTypeConfigFileNam' meant to be it?)"),
    ("api-type", "ApiTypes/Api.json", None, {"type": "openAIChatCompletion", "samplerFieldMap": {"top_p": 5}},
     "ApiTypes/Api.json: error: samplerFieldMap.top_p: found 5, allowed: a string"),
    ("preset", "Presets/T/cold.json", None, ["temperature", 0],
     "Presets/T/cold.json: error: found a list, allowed: an object"),
    ("template", "PromptTemplates/plain.json", None, {"promptTemplateEndToken": 0},
     "PromptTemplates/plain.json: error: promptTemplateEndToken: found 0, allowed: a string"),
    ("routing", "Routing/r.json", {"A": {"description": "d", "workflow": "Main"}}, {"A": {"description": "d", "workfow": "Main"}},
     "Routing/r.json: error: A: 'workflow' is missing (is 'workfow' meant to be it?)"),
    ("mcp-server", "MCPServers/m.json", {"transport": "sse", "url": "http://u"}, {"transport": "see", "url": "http://u"},
     "MCPServers/m.json: error: transport: found \"see\", allowed: \"stdio\", \"sse\", \"streamable_http\" (did you mean 'sse'?)"),
    ("structured-output", "StructuredOutputs/s.json", {"type": "object"}, "{\n\"type\": objct}",
     "StructuredOutputs/s.json: error: not JSON: a value is missing here"),
    ("tool", "Workflows/_shared/p/_mcpTool.json", {"description": ""}, {"descripton": "x"},
     "Workflows/_shared/p/_mcpTool.json: error: 'description' is missing (is 'descripton' meant to be it?)"),
    ("workflow", "Workflows/ana/Main.json", None, [{"type": "Standard", "endpointNme": "small-model"}],
     "Workflows/ana/Main.json: error: node 1: 'endpointName' is missing (is 'endpointNme' meant to be it?)"),
    ("workflow-shape", "Workflows/ana/Main.json", None, {"nodes": {"type": "Standard"}},
     "Workflows/ana/Main.json: error: nodes: found an object, allowed: a list of nodes"),
]  # fmt: skip


@pytest.mark.parametrize(("file", "good", "typo", "line"), [c[1:] for c in TYPOS], ids=[c[0] for c in TYPOS])
def test_a_typo_in_each_kind_of_file(checked, caplog, file, good, typo, line):
    """The checker tells it; requests go on with the last good version, and the log says so once."""
    if good is not None:
        checked.put(file, good)
    assert [f for f in checked.findings() if f.level == "error"] == []
    before = checked.tree.snapshot().read(file)
    checked.put(file, typo)
    assert line in [told.partition("\n")[0] for told in checked.lines()]
    assert checked.tree.snapshot().read(file) == before
    kept = [r for r in caplog.records if r.levelno == logging.ERROR and "last good version" in r.getMessage()]
    assert len(kept) == 1


def test_a_tree_without_faults_has_no_findings(checked):
    assert checked.lines() == []


# id, what is changed, the line that tells of it
REFERENCES = [
    ("custom-workflow", {"Users/ana.json": {"customWorkflow": "Mian"}},
     'Users/ana.json: error: customWorkflow: no workflow "Mian" (did you mean "Main"?); tried Workflows/ana/Mian.json'),
    ("custom-workflow-empty", {"Users/ana.json": {"customWorkflow": ""}},
     "Users/ana.json: error: customWorkflow: is empty, but customWorkflowOverride is true"),
    ("template-of-user", {"Users/ana.json": {"chatPromptTemplateName": "plian"}},
     'Users/ana.json: error: chatPromptTemplateName: no prompt template "plian" in PromptTemplates (did you mean "plain"?); '
     "tried PromptTemplates/plian.json"),
    ("no-default-workflow", {"Users/ana.json": {"customWorkflowOverride": False}},
     'Users/ana.json: error: customWorkflowOverride: no workflow "_DefaultWorkflow"; tried Workflows/ana/_DefaultWorkflow.json'),
    ("routing-missing", {"Users/ana.json": {"customWorkflowOverride": False, "routingConfig": "r", "categorizationWorkflow": "Main"}},
     'Users/ana.json: error: routingConfig: no routing file "r"; tried Routing/r.json'),
    ("no-default-beside-routing", {"Users/ana.json": {"customWorkflowOverride": False, "routingConfig": "r", "categorizationWorkflow": "Main"}},
     'Users/ana.json: warning: routingConfig: no workflow "_DefaultWorkflow"; tried Workflows/ana/_DefaultWorkflow.json'),
    ("tool-workflow", {"Users/ana.json": {"recentMemoryToolWorkflow": "Mem"}},
     'Users/ana.json: error: recentMemoryToolWorkflow: no workflow "Mem"; tried Workflows/ana/Mem.json'),
    ("settings-file", {"Users/ana.json": MEMORY},
     'Users/ana.json: error: discussionIdMemoryFileWorkflowSettings: no settings file "Mem"; tried Workflows/ana/Mem.json'),
    ("api-type", {"Endpoints/lan/small-model.json": {"apiTypeConfigFileName": "Apii"}},
     'Endpoints/lan/small-model.json: error: apiTypeConfigFileName: no API type "Apii" in ApiTypes (did you mean "Api"?)'),
    ("api-type-type", {"ApiTypes/Api.json": {"type": "openAIChatCompletions"}},
     "(did you mean 'openAIChatCompletion'?)"),
    ("template-of-endpoint", {"Endpoints/lan/small-model.json": {"promptTemplate": "x"}},
     'Endpoints/lan/small-model.json: error: promptTemplate: no prompt template "x"'),
    ("appended-preset", {"Endpoints/lan/small-model.json": {"appendPresetName": "clod"}},
     'Endpoints/lan/small-model.json: error: appendPresetName: no preset "clod"'),
    ("backup", {"Endpoints/lan/small-model.json": {"backupEndpointName": "big"}},
     'Endpoints/lan/small-model.json: error: backupEndpointName: no endpoint "big" in Endpoints/lan'),
    ("backup-circle", {"Endpoints/lan/small-model.json": {"backupEndpointName": "small-model"}},
     "Endpoints/lan/small-model.json: warning: backupEndpointName: the backups form a circle: small-model > small-model"),
    ("folder-that-leaves", {"Users/ana.json": {"endpointConfigsSubDirectory": "../../etc"}},
     'Users/ana.json: error: endpointConfigsSubDirectory: found "../../etc", allowed: a folder name'),
    ("shared-folder-that-leaves", {"Users/ana.json": {"sharedWorkflowsSubDirectoryOverride": ".."}},
     'Users/ana.json: error: sharedWorkflowsSubDirectoryOverride: found "..", allowed: a folder name'),
    ("preset-type-that-leaves", {"ApiTypes/Api.json": {"presetType": "../x"}},
     "Workflows/ana/Main.json: error: node 1, preset: '../x' cannot be the name of a preset type"),
    ("pointer-to-nobody", {"Users/_current-user.json": {"currentUser": "anna"}},
     "Users/_current-user.json: error: currentUser: no user 'anna'"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "line"), [c[1:] for c in REFERENCES], ids=[c[0] for c in REFERENCES])
def test_a_name_that_leads_nowhere(checked, changes, line):
    """Told at the file that names it, with the nearest name that exists."""
    for file, fields in changes.items():
        checked.change(file, **fields)
    assert any(line in told for told in checked.lines()), checked.lines()


class TestSettingsFiles:
    def test_they_are_checked_as_such(self, checked):
        """An object that a user names as settings is no workflow."""
        checked.change("Users/ana.json", **MEMORY, **COMPACTOR)
        checked.put(
            "Workflows/ana/Mem.json",
            {"lookbackStartTrun": 3, "endpointName": "smal-model", "vectorMemoryWorkflowName": "V"},
        )
        checked.put("Workflows/ana/Com.json", {"wilmerContextEstimationLevel": "bold"})
        lines = checked.lines()
        assert any(told.startswith("Workflows/ana/Mem.json: warning: lookbackStartTrun") for told in lines)
        assert any(
            told.startswith("Workflows/ana/Com.json: warning: wilmerContextEstimationLevel") for told in lines
        )
        assert any(
            told.startswith('Workflows/ana/Mem.json: error: endpointName: no endpoint "smal-model"')
            for told in lines
        )
        assert any(
            told.startswith('Workflows/ana/Mem.json: error: vectorMemoryWorkflowName: no workflow "V"')
            for told in lines
        )

    def test_an_object_that_nobody_names_is_left_alone(self, checked):
        checked.put("Workflows/ana/Old.json", {"endpoint": 5})
        assert checked.lines() == []


class TestReach:
    def test_unnamed_workflows_are_a_note(self, checked):
        checked.flow(name="Old")
        assert checked.lines() == [
            "Workflows/ana/Old.json: note: no setting, route or node names this workflow"
        ]

    @pytest.mark.parametrize(
        ("node", "told"),
        [
            ({"endpointName": "none"}, 'error: node 1, endpointName: no endpoint "none"'),
            ({"endpointName": "small-model", "preset": "warm"}, 'error: node 1, preset: no preset "warm"'),
            (
                {"type": "CustomWorkflow", "workflowName": "Gone"},
                'error: node 1, workflowName: no workflow "Gone"',
            ),
            (
                {"type": "StaticResponse", "content": "{nothing}"},
                "warning: node 1, content: unknown variable {nothing}",
            ),
        ],
        ids=["endpoint", "preset", "child", "variable"],
    )
    def test_unnamed_workflows_are_checked_as_if_the_user_of_their_folder_named_them(
        self, checked, node, told
    ):
        """Their names, presets, children and variables (workbench.md 16.4); they stay unnamed."""
        checked.flow(node, name="Old")
        note, fault = sorted(checked.lines(), key=lambda line: ": note: " not in line)
        assert note == "Workflows/ana/Old.json: note: no setting, route or node names this workflow"
        assert fault.startswith(f"Workflows/ana/Old.json: {told}")

    def test_who_will_call_an_unnamed_workflow_is_not_known(self, checked):
        """So it may get any input, and may be the one that categorises."""
        checked.flow(
            {"type": "StaticResponse", "content": "{agent7Input} {categoryNameBulletpoints}"}, name="Old"
        )
        assert [line for line in checked.lines() if ": note: " not in line] == []

    def test_what_an_unnamed_workflow_calls_is_checked_with_what_it_is_given(self, checked):
        """A child that only it names is reached by it."""
        child = {"type": "CustomWorkflow", "workflowName": "Child", "scoped_variables": ["a"]}
        checked.flow(child, name="Old")
        checked.put(
            "Workflows/_common/Child.json", [{"type": "StaticResponse", "content": "{agent1Input} {nothing}"}]
        )
        told = [line for line in checked.lines() if ": note: " not in line]
        assert len(told) == 1
        assert told[0].startswith(
            "Workflows/_common/Child.json: warning: node 1, content: unknown variable {nothing}"
        )

    def test_a_file_in_a_folder_of_nobody_has_no_names_to_follow(self, checked):
        checked.put("Workflows/lost/Old.json", [{"endpointName": "none"}])
        assert [line for line in checked.lines() if ": note: " not in line] == []

    def test_a_file_of_a_shared_folder_is_checked_for_who_shares_it(self, checked):
        checked.put("Workflows/_shared/novel/Draft.json", [{"endpointName": "none"}])
        assert any(
            line.startswith(
                'Workflows/_shared/novel/Draft.json: error: node 1, endpointName: no endpoint "none"'
            )
            for line in checked.lines()
        )

    def test_shared_workflows_are_reached(self, checked):
        checked.put("Workflows/_shared/pick/_DefaultWorkflow.json", [{"endpointName": "none"}])
        (line,) = checked.lines()
        assert line.startswith("Workflows/_shared/pick/_DefaultWorkflow.json: error: node 1, endpointName")

    def test_inputs_of_a_tool_are_given_to_its_workflow(self, checked):
        """By place: one more than there are leads nowhere."""
        said = {"type": "StaticResponse", "content": "{agent1Input} {agent2Input} {agent3Input}"}
        checked.put("Workflows/_shared/pick/_DefaultWorkflow.json", [said])
        tool = {"description": "x", "inputs": {"a": {}, "b": {}}}
        checked.put("Workflows/_shared/pick/_mcpTool.json", tool)
        (line,) = checked.lines()
        assert "agent3Input" in line and "agent2Input" not in line

    def test_a_tool_that_is_none_is_told(self, checked):
        """Its file is good, but something else keeps it from being one."""
        for folder in ("a", "b"):
            answer = [{"type": "StaticResponse", "content": "x"}]
            checked.put(f"Workflows/_shared/{folder}/_DefaultWorkflow.json", answer)
            checked.put(f"Workflows/_shared/{folder}/_mcpTool.json", {"description": "x", "name": "t"})
        checked.put("Workflows/_shared/c/_mcpTool.json", {"description": "x"})
        assert checked.lines() == [
            "Workflows/_shared/b/_mcpTool.json: warning: is not offered as a tool, because another folder already uses the name 't'; set `name`",
            "Workflows/_shared/c/_mcpTool.json: warning: is not offered as a tool, because there is no _DefaultWorkflow.json beside it",
        ]

    def test_routes_are_followed(self, checked):
        checked.change(
            "Users/ana.json", customWorkflowOverride=False, routingConfig="r", categorizationWorkflow="Main"
        )
        checked.put(
            "Routing/r.json",
            {"A": {"description": "d", "workflow": "A"}, "B/C": {"description": "d", "workflow": "X"}},
        )
        checked.flow(name="A")
        checked.flow(name="_DefaultWorkflow")
        (line,) = checked.lines()
        expected = 'Routing/r.json: error: B/C.workflow: no workflow "X"; tried Workflows/ana/X.json'
        assert line == expected

    def test_a_route_that_is_never_taken_is_told(self, checked):
        checked.change(
            "Users/ana.json", customWorkflowOverride=False, routingConfig="r", categorizationWorkflow="Main"
        )
        route = {"description": "d", "workflow": "Main"}
        checked.put("Routing/r.json", {"CHAT": route, "SMALL_CHAT": route})
        checked.flow(name="_DefaultWorkflow")
        expected = "can never be chosen, because 'CHAT' comes first and matches wherever this one does"
        assert checked.lines() == [f"Routing/r.json: warning: SMALL_CHAT: {expected}"]

    def test_a_broken_user_file_is_told_once(self, checked):
        checked.put("Users/bob.json", "{")
        assert checked.lines() == [
            "Users/bob.json: error: not JSON: the file ends here; a closing ] or } is missing\n    {\n     ^"
        ]

    def test_a_broken_pointer_is_told_once(self, checked):
        checked.put("Users/_current-user.json", "{")
        assert [told.split(":")[0] for told in checked.lines()] == ["Users/_current-user.json"]

    def test_without_a_pointer_nothing_is_said(self, checked):
        (checked.root / "Users/_current-user.json").unlink()
        assert checked.lines() == []


class TestServedUsers:
    def check(self, checked, *names):
        return [
            str(replace(f, position=NOWHERE))
            for f in config_check.check_users(checked.tree.snapshot(), names)
        ]

    def test_what_they_reach_is_checked(self, checked):
        """And nothing else."""
        checked.put("Endpoints/lan/other.json", {"endpoint": 5})
        assert self.check(checked, "ana") == []
        checked.change("Endpoints/lan/small-model.json", removeThinkng=True)
        (line,) = self.check(checked, "ana")
        assert line.startswith("Endpoints/lan/small-model.json: warning: removeThinkng")

    def test_a_name_that_differs_in_case_is_told_where_it_stands(self, checked):
        """Once: not at the node that names the endpoint."""
        checked.change("Endpoints/lan/small-model.json", apiTypeConfigFileName="api")
        assert [line.split(" does not")[0] for line in checked.lines()] == [
            "Endpoints/lan/small-model.json: note: apiTypeConfigFileName: ApiTypes/api.json"
        ]

    def test_a_backend_that_does_not_exist_is_told(self, checked):
        """Also where the name of the API type differs in case."""
        checked.change("Endpoints/lan/small-model.json", apiTypeConfigFileName="api")
        checked.put("ApiTypes/Api.json", {"type": "openAIChatCompletoin", "presetType": "T"})
        line = self.check(checked, "ana")[0]
        assert line.startswith('ApiTypes/Api.json: error: type: found "openAIChatCompletoin", allowed: ')
        assert line.endswith("(did you mean 'openAIChatCompletion'?)")

    @pytest.mark.parametrize(
        ("file", "document", "line"),
        [
            ("PromptTemplates/own.json", {"promptTemplateSystemPrefix": 5}, "error: promptTemplateSystemPrefix"),
            ("Presets/T/more.json", ["x"], "error: found a list"),
            ("Endpoints/lan/spare.json", {"endpoint": 5, "apiTypeConfigFileName": "Api"}, "error: endpoint: found 5"),
            ("Presets/T/cold.json", '{"seed": 1, "seed": 2}', "warning: seed: the key 'seed' occurs twice"),
            ("PromptTemplates/plain.json", {"promptTemplateSystemPrefx": ""}, "note: promptTemplateSystemPrefx"),
        ],
        ids=["template", "appended-preset", "backup", "preset", "template-of-the-user"],
    )  # fmt: skip
    def test_files_that_endpoints_and_nodes_name_are_looked_into(self, checked, file, document, line):
        """However they are named, and faulty or not."""
        named = {"promptTemplate": "own", "appendPresetName": "more", "backupEndpointName": "spare"}
        checked.put("PromptTemplates/own.json", {})
        checked.put("Presets/T/more.json", {})
        checked.put("Endpoints/lan/spare.json", GOOD["Endpoints/lan/small-model.json"])
        checked.change("Endpoints/lan/small-model.json", **named)
        assert self.check(checked, "ana") == []
        checked.put(file, document)
        assert [told[: len(file) + 2 + len(line)] for told in self.check(checked, "ana")] == [
            f"{file}: {line}"
        ]

    def test_what_a_backup_names_is_followed(self, checked):
        """As far as the chain goes."""
        spare = GOOD["Endpoints/lan/small-model.json"] | {"backupEndpointName": "last"}
        checked.change("Endpoints/lan/small-model.json", backupEndpointName="spare")
        checked.put("Endpoints/lan/spare.json", spare)
        checked.put("Endpoints/lan/last.json", spare | {"backupEndpointName": "", "promptTemplate": "none"})
        (line,) = self.check(checked, "ana")
        assert line.startswith('Endpoints/lan/last.json: error: promptTemplate: no prompt template "none"')

    def test_faults_on_the_way_are_told(self, checked):
        checked.change("Users/ana.json", **MEMORY)
        checked.put("Workflows/ana/Mem.json", "[")
        checked.put("Workflows/ana/Main.json", "[")
        lines = self.check(checked, "ana", "nobody")
        assert [told.split(":")[0] for told in lines] == [
            "Users/nobody.json",
            "Workflows/ana/Main.json",
            "Workflows/ana/Mem.json",
        ]

    def test_a_missing_api_type_is_told(self, checked):
        checked.put("ApiTypes/Api.json", "[")
        assert [told.split(":")[0] for told in self.check(checked, "ana")] == ["ApiTypes/Api.json"]

    def test_a_broken_routing_file_is_told(self, checked):
        checked.change(
            "Users/ana.json", customWorkflowOverride=False, routingConfig="r", categorizationWorkflow="Main"
        )
        checked.flow(name="_DefaultWorkflow")
        checked.put("Routing/r.json", "[")
        assert [told.split(":")[0] for told in self.check(checked, "ana")] == ["Routing/r.json"]


def test_the_processes_tree_checks_nodes(checked):
    """What the loader refuses is what the checker calls an error."""
    tree = config_check.checked_tree(checked.root)
    assert tree is tree_of(checked.root)
    checked.put("Workflows/ana/Main.json", [{"type": "Standard"}])
    with pytest.raises(ConfigError, match="'endpointName' is missing"):
        tree.snapshot().read("Workflows/ana/Main.json")


def test_the_pointer_spells_the_name_of_its_user(checked, caplog):
    """Folders are looked for as at a request, so nothing is said of their upper and lower case."""
    (checked.root / "Workflows/ana").rename(checked.root / "Workflows/Ana")
    checked.put("Users/_current-user.json", {"currentUser": "Ana"})
    assert checked.lines() == []
    assert caplog.messages == []


class TestLinks:
    """Folders and files may be links; the check ends whatever they lead to."""

    def test_a_linked_folder_is_checked(self, checked, tmp_path_factory):
        elsewhere = tmp_path_factory.mktemp("elsewhere")
        (elsewhere / "Bad.json").write_text("[5]", "utf-8")
        (checked.root / "Workflows" / "more").symlink_to(elsewhere)
        assert any(line.startswith("Workflows/more/Bad.json") for line in checked.lines())

    def test_a_link_that_leads_nowhere(self, checked):
        """It is as if it were not there."""
        (checked.root / "Workflows" / "ana" / "Gone.json").symlink_to("gone")
        assert checked.lines() == []

    def test_links_in_circles(self, checked):
        """Each folder is visited once, not as often as the links allow."""
        workflows = checked.root / "Workflows"
        (workflows / "ana" / "again").symlink_to(workflows)
        (workflows / "ana" / "self").symlink_to(workflows / "ana")
        (workflows / "bea").mkdir()
        (workflows / "bea" / "ana").symlink_to(workflows / "ana")
        (workflows / "ana" / "bea").symlink_to(workflows / "bea")
        checked.flow({"type": "Standard", "endpointNme": "small-model"}, name="Bad")
        assert {line.split(":")[0] for line in checked.lines() if "error" in line} == {
            "Workflows/ana/Bad.json",
            "Workflows/bea/ana/Bad.json",
        }


class TestSharedWorkflowsAlone:
    """A user who lives on shared workflows has no workflow of their own: that is no fault."""

    @pytest.mark.parametrize(
        ("settings", "pointer"),
        [
            ({"customWorkflowOverride": False, "customWorkflow": ABSENT}, "/customWorkflowOverride"),
            ({"customWorkflow": ABSENT}, "/customWorkflow"),
        ],
        ids=["no-workflow", "none-named"],
    )
    def test_a_note_where_the_shared_folder_offers_something(self, checked, settings, pointer):
        checked.change("Users/ana.json", **settings)
        checked.put("Workflows/_shared/pick/_DefaultWorkflow.json", [llm()])
        (finding,) = [f for f in config_check.check_users(checked.tree.snapshot(), ["ana"])]
        assert (finding.level, finding.pointer) == ("note", pointer)

    def test_an_error_where_it_offers_nothing(self, checked):
        """A folder without `_DefaultWorkflow` can be picked, but does not answer."""
        checked.change("Users/ana.json", customWorkflowOverride=False)
        checked.put("Workflows/_shared/pick/Other.json", [llm()])
        (finding,) = config_check.check_users(checked.tree.snapshot(), ["ana"])
        assert finding.level == "error"


class TestUnderscores:
    def test_a_user_may_begin_with_one(self, checked):
        """It is checked as a user, and an archive below `Users/` is not checked at all."""
        checked.put("Users/_bo.json", {"customWorkflowOverride": True, "customWorkflow": "None"})
        checked.put("Users/old/tom.json", {"customWorkflow": 5})
        assert [line.partition(": no")[0] for line in checked.lines() if "error" in line] == [
            "Users/_bo.json: error: customWorkflow"
        ]


class TestPositions:
    """File, line and column, then the node with its title, then the field."""

    def test_of_a_finding_in_a_node(self, checked):
        checked.put(
            "Workflows/ana/Main.json",
            '[\n  {\n    "title": "Recall", // says it\n    "endpointName": "smal-model"\n  }\n]',
        )
        (finding,) = checked.findings()
        said = 'Workflows/ana/Main.json:4:21: error: node 1 "Recall", endpointName: no endpoint "smal-model"'
        assert str(finding).startswith(said)

    def test_findings_of_a_file_stand_from_top_to_bottom(self, checked):
        nodes = [{"type": "StaticResponse", "content": n} for n in range(12)]
        checked.put("Workflows/ana/Main.json", nodes)
        columns = [finding.position.column for finding in checked.findings()]
        assert columns == sorted(columns) and len(columns) == 12

    def test_a_request_is_told_all_of_them(self, checked):
        checked.put("Users/bob.json", '{\n "port": "x",\n "maxWorkflowDepth": 0\n}')
        with pytest.raises(ConfigError) as caught:
            checked.tree.snapshot().read("Users/bob.json")
        assert str(caught.value) == (
            "Users/bob.json:3:22: maxWorkflowDepth: found 0, allowed: 1 or more; "
            'also 2:10: port: found "x", allowed: a whole number'
        )


# id, file, its document, what is said of it
SLIPS = [
    ("key-twice", "Endpoints/lan/x.json", '{"endpoint": "http://h", "endpoint": "http://i", "apiTypeConfigFileName": "Api"}',
     "Endpoints/lan/x.json: warning: endpoint: the key 'endpoint' occurs twice in this object; the last one is used"),
    ("key-twice-in-a-node", "Workflows/ana/Main.json", '[{"type": "StaticResponse", "content": "a", "content": "b"}]',
     "Workflows/ana/Main.json: warning: node 1, content: the key 'content' occurs twice in this object; the last one is used"),
    ("no-scheme", "Endpoints/lan/x.json", {"endpoint": "localhost:80", "apiTypeConfigFileName": "Api"},
     'Endpoints/lan/x.json: error: endpoint: found "localhost:80", allowed: an address such as http://127.0.0.1:11434 '
     "(it does not begin with http:// or https://)"),
    ("impossible-port", "MCPServers/m.json", {"transport": "sse", "url": "http://h:70000"},
     'MCPServers/m.json: error: url: found "http://h:70000", allowed: an address such as http://127.0.0.1:11434 '
     "(its port is no number from 1 to 65535)"),
    ("wiki-address", "Users/bob.json", {"customWorkflowOverride": True, "customWorkflow": "Main", "workflowConfigsSubDirectoryOverride": "ana", "endpointConfigsSubDirectory": "lan",
                                        "offlineWikiApiUrl": "wiki"},
     'Users/bob.json: error: offlineWikiApiUrl: found "wiki", allowed: an address such as http://127.0.0.1:11434 '
     "(it does not begin with http:// or https://)"),
    ("default-of-a-tool", "Workflows/_shared/_p/_mcpTool.json", {"description": "x", "inputs": {"a": {"enum": ["m"], "default": "k"}}},
     "Workflows/_shared/_p/_mcpTool.json: error: inputs.a.default: does not fit: 'a' must be one of: m"),
    ("half-a-pair", "Endpoints/lan/x.json", {"endpoint": "http://h", "apiTypeConfigFileName": "Api", "startThinkTag": "<t>"},
     "Endpoints/lan/x.json: warning: startThinkTag: needs `endThinkTag`; without it no thoughts are removed"),
    ("variable-not-set", "Endpoints/lan/x.json", {"endpoint": "http://h", "apiTypeConfigFileName": "Api", "apiKeyEnv": "HEADRACE_NO_SUCH"},
     "Endpoints/lan/x.json: note: apiKeyEnv: environment variable 'HEADRACE_NO_SUCH' is not set"),
    ("variable-in-a-header", "MCPServers/m.json", {"transport": "sse", "url": "http://h", "headers": {"A": "b ${ENV:HEADRACE_NO_SUCH}", "C": 5}},
     "MCPServers/m.json: error: headers.C: found a number, allowed: a string"),
    ("variable-in-an-address", "MCPServers/m.json", {"transport": "sse", "url": "${ENV:HEADRACE_NO_SUCH}"},
     "MCPServers/m.json: note: url: environment variable 'HEADRACE_NO_SUCH' is not set"),
    ("variable-in-an-argument", "MCPServers/m.json", {"transport": "stdio", "command": "x", "args": ["a", "${ENV:HEADRACE_NO_SUCH}"]},
     "MCPServers/m.json: note: args[1]: environment variable 'HEADRACE_NO_SUCH' is not set"),
    ("variable-in-extra-headers", "Endpoints/lan/x.json",
     {"endpoint": "http://h", "apiTypeConfigFileName": "Api", "extraHeaders": {"A": "${ENV:HEADRACE_NO_SUCH}"}},
     "Endpoints/lan/x.json: note: extraHeaders.A: environment variable 'HEADRACE_NO_SUCH' is not set"),
]  # fmt: skip


@pytest.mark.parametrize(("file", "document", "line"), [c[1:] for c in SLIPS], ids=[c[0] for c in SLIPS])
def test_slips_that_no_schema_shows(checked, file, document, line):
    """Each is the only finding."""
    checked.put(file, document)
    assert checked.lines() == [line]


def test_a_variable_that_a_served_user_needs_is_a_warning(checked, monkeypatch):
    """The whole tree may be checked on another machine; a server that starts lacks it. Set, nothing is said."""
    checked.change("Endpoints/lan/small-model.json", apiKeyEnv="HEADRACE_KEY", addGenerationPrompt=False)
    snapshot = checked.tree.snapshot()
    (finding,) = config_check.check_users(snapshot, ["ana"])
    assert (finding.level, finding.pointer) == ("warning", "/apiKeyEnv")
    monkeypatch.setenv("HEADRACE_KEY", "k")
    assert config_check.check_users(snapshot, ["ana"]) == []


def test_an_endpoint_of_the_demo_needs_no_address(checked):
    checked.put("ApiTypes/Demo.json", {"type": "builtInDemo"})
    checked.change("Endpoints/lan/small-model.json", endpoint="", apiTypeConfigFileName="Demo")
    assert [line for line in checked.lines() if "endpoint:" in line] == []


class TestShortAnswers:
    """Nodes whose answers are too short for a model that thinks."""

    @pytest.fixture
    def short(self, checked):
        """`short(node, thinking=...)`: what is said of a workflow with this node."""

        def look(*, thinking=("small-model",), variables=None, **fields):
            checked.flow(
                {"type": "Standard", "endpointName": "small-model", "prompt": "x", **fields},
                **(variables or {}),
            )
            snapshot = checked.tree.snapshot()
            user = load_user(snapshot, "ana")
            found = short_of_tokens(snapshot, user, UserWalk(snapshot, user), thinking)
            return [(finding.file, finding.pointer, finding.level, finding.message) for finding in found]

        return look

    @pytest.mark.parametrize("limit", [999, "999", 1])
    def test_a_limit_that_is_too_low(self, short, limit):
        """Said at the limit, with the key and what is enough."""
        ((file, pointer, level, message),) = short(maxResponseSizeInTokens=limit)
        assert (file, pointer, level) == (
            "Workflows/ana/Main.json",
            "/nodes/0/maxResponseSizeInTokens",
            WARNING,
        )
        assert message == (
            f"{limit} tokens may be too few for endpoint 'small-model', whose model thinks: the thoughts can use "
            "them up and leave the answer empty. Set `maxResponseSizeInTokens` to at least 1000"
        )

    def test_the_default_may_be_too_low(self, short):
        """Said at the node."""
        ((_, pointer, _, message),) = short()
        assert pointer == "/nodes/0" and message.startswith("400 tokens may be too few")

    @pytest.mark.parametrize("limit", [1000, "1000", 4000, "{agent1Output}"])
    def test_what_is_enough(self, short, limit):
        """And a limit that only a run knows."""
        assert short(maxResponseSizeInTokens=limit) == []

    @pytest.mark.parametrize("limit", ["many", "many tokens"])
    def test_no_number_is_the_default(self, short, limit):
        ((*_, message),) = short(maxResponseSizeInTokens=limit)
        assert message.startswith("400 tokens")

    def test_a_limit_in_a_variable(self, short):
        ((*_, message),) = short(maxResponseSizeInTokens="{most}", variables={"most": 300})
        assert message.startswith("300 tokens")

    def test_a_model_that_does_not_think(self, short):
        assert short(thinking=("another",), maxResponseSizeInTokens=5) == []

    def test_an_endpoint_that_only_a_run_knows(self, short):
        assert short(endpointName="{agent1Output}", maxResponseSizeInTokens=5) == []

    @pytest.mark.parametrize(("field", "said"), [("think", 0), ("other", 1), (None, 1)])
    @pytest.mark.parametrize("native", [True, False], ids=["of-the-backend", "canonical"])
    def test_a_preset_that_turns_thinking_off(self, checked, short, field, said, native):
        """In the words of the backend or in ours; then the answer has all tokens."""
        api_type = {
            "type": "openAIChatCompletion",
            "presetType": "T",
            "thinking": {"mode": "bool", "field": "think"},
        }
        checked.put("ApiTypes/Api.json", api_type)
        preset = {} if field is None else {field: False}
        if native:
            checked.put("Presets/T/quick.json", preset)
        else:
            samplers = {"thinkingMode": "off"} if field == "think" else {}
            checked.change("Endpoints/lan/small-model.json", presetSamplers=samplers)
        found = short(preset="quick" if native else None, maxResponseSizeInTokens=5)
        assert len(found) == said

    def test_a_preset_that_is_not_there_turns_nothing_off(self, short):
        """That it is missing is said elsewhere."""
        assert len(short(preset="gone", maxResponseSizeInTokens=5)) == 1
