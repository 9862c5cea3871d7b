"""One workflow file is checked as the whole tree is, without a look into the other files."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from Middleware.config.drafts import FreshTree
from Middleware.config.loader import ConfigTree
from Middleware.workflows.checks import workflow_check
from Middleware.workflows.checks.config_check import check_tree, check_workflow_file
from tests.workflows.checks.conftest import GOOD, CheckedConfigs

FLOWS = [
    "Workflows/ana/Main.json",
    "Workflows/ana/main.json",
    "Workflows/ana/Other.json",
    "Workflows/_common/Other.json",
    "Workflows/_shared/novel/_DefaultWorkflow.json",
    "Workflows/_shared/novel/_mcpTool.json",
    "Workflows/lost/Mem.json",
]
NODES = st.fixed_dictionaries(
    {"type": st.sampled_from(["Standard", "Standrad", "CustomWorkflow", "WorkflowLock", 5])},
    optional={
        "title": st.sampled_from(["A", 5]),
        "endpointName": st.sampled_from(["small-model", "Small-Model", "none", "{e}", 5]),
        "preset": st.sampled_from(["cold", "COLD", "warm"]),
        "prompt": st.sampled_from(["x", "{agent1Output}", "{foo}", "{agent1Input}", "{agent9Output}"]),
        "workflowName": st.sampled_from(["Main", "main", "Other", "Lost", "../lost/Mem", "../../x"]),
        "scoped_variables": st.just(["a"]),
        "returnToUser": st.booleans(),
        "parallelGroup": st.just("g"),
        "workflowLockId": st.just("l"),
    },
)
DOCUMENTS = (
    st.lists(NODES, max_size=3)
    | st.fixed_dictionaries({"nodes": st.lists(NODES, max_size=3), "e": st.just("small-model")})
    | st.sampled_from(["[{", '[{"a": 1, "a": 2}]', "{}", '{"size": 4}', "7", '{"description": "x"}'])
)
USERS = st.fixed_dictionaries(
    {},
    optional={
        "customWorkflow": st.sampled_from(["Main", "main", "Other", "Lost"]),
        "customWorkflowOverride": st.booleans(),
        "outboundPolicy": st.just("off"),
        "discussionIdMemoryFileWorkflowSettings": st.sampled_from(["Other", "Mem"]),
        "workflowConfigsSubDirectoryOverride": st.sampled_from(["ana", "lost", "ANA"]),
        "sharedWorkflowsSubDirectoryOverride": st.just("_SHARED"),
        "recentMemoryToolWorkflow": st.just("Other"),
    },
)


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.dictionaries(st.sampled_from(FLOWS), DOCUMENTS, max_size=5), USERS),
        min_size=1,
        max_size=2,
    )
)
def test_its_findings_are_those_of_the_whole_tree(edits):
    """However files are edited: the tree is read again, as by a process that begins now."""
    with tempfile.TemporaryDirectory() as folder:
        configs = CheckedConfigs(Path(folder))
        fresh = FreshTree(configs.root, workflow_check.own_errors)
        for files, user in edits:
            configs.put("Users/ana.json", GOOD["Users/ana.json"] | user)
            for file, document in files.items():
                configs.put(file, document)
            whole = check_tree(ConfigTree(configs.root, workflow_check.own_errors).snapshot())
            for file in {"Workflows/ana/Main.json", *files}:
                one = check_workflow_file(fresh.snapshot(), file)
                assert one == [finding for finding in whole if finding.file == file]
                assert list(map(str, one)) == [str(finding) for finding in whole if finding.file == file]


@pytest.mark.parametrize("file", ["Workflows/ana/None.json", "Workflows/none/None.json"])
def test_a_file_that_is_not_there_has_no_finding(checked, file):
    assert check_workflow_file(checked.tree.snapshot(), file) == []
