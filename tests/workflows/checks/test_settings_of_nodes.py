"""A memory node whose user file lacks what it needs is told by the check. Source: spec memory.md 18.2 (4)."""

from __future__ import annotations

import pytest

from Middleware.workflows.checks.config_check import check_users

SETTINGS = "discussionIdMemoryFileWorkflowSettings"


@pytest.fixture
def complaints(house):
    """What the check says of a workflow of one node, by the keys that it names."""

    def of(node, **user):
        house.user |= {"customWorkflow": "Main", **user}
        house.workflow("Main", {"type": node} if isinstance(node, str) else node)
        house.workflow("Tool", {"type": "StaticResponse", "content": "x"})
        house.write("Workflows/ana/Settings", {"endpointName": "chat"})
        findings = check_users(house.manager().snapshot, ["ana"])
        return sorted(f.message.split("`")[1] for f in findings if "this node needs `" in f.message)

    return of


@pytest.mark.parametrize(
    ("node", "keys"),
    [
        ("QualityMemory", [SETTINGS]),
        ("RecentMemory", [SETTINGS, "recentMemoryToolWorkflow"]),
        ("ConversationMemory", ["conversationMemoryToolWorkflow"]),
        ("FullChatSummary", ["chatSummaryToolWorkflow", SETTINGS]),
        ({"type": "FullChatSummary", "isManualConfig": True}, []),
        ("ContextCompactor", ["contextCompactorSettingsFile"]),
        ("GetCurrentMemoryFromFile", []),
    ],
    ids=str,
)
def test_what_is_missing_is_named(complaints, node, keys):
    assert complaints(node) == keys


def test_what_is_there_is_fine(complaints):
    assert complaints("RecentMemory", recentMemoryToolWorkflow="Tool", **{SETTINGS: "Settings"}) == []
