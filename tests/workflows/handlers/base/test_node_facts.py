"""What each type of node says of itself, without being run: for validation, groups and dry runs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from Middleware.workflows.handlers.node_types import NODES, node_handler

MEMORY_SETTINGS = "discussionIdMemoryFileWorkflowSettings"
BRANCHES = {"conditionalWorkflows": {"a": "A"}}


def told_by(method: str, **config: Any) -> dict[str, Any]:
    """Type -> what its handler says of a node of these fields; those that say nothing or no are left out."""
    told = {name: getattr(node_handler(name), method)(config) for name in NODES}
    return {name: value for name, value in told.items() if value}


def test_which_run_beside_others():
    """All but the one that holds a lock, and the one that changes what the others see."""
    fits = "fits_in_parallel_group"
    assert {*NODES} - told_by(fits).keys() == {"WorkflowLock"}
    assert {*NODES} - told_by(fits, addAsUserMessage=True).keys() == {"WorkflowLock", "ImageProcessor"}


def test_which_take_pictures():
    """One always, one if it is told to."""
    assert told_by("takes_pictures") == {"ImageProcessor": True}
    told = dict.fromkeys(["Agent", "Candidates", "ImageProcessor", "Standard"], True)
    assert told_by("takes_pictures", acceptImages=True) == told


def test_which_give_a_text_of_their_own():
    """An empty one is one."""
    assert told_by("may_give_own_text", **BRANCHES) == {}
    field = "UseDefaultContentInsteadOfWorkflow"
    assert told_by("may_give_own_text", **BRANCHES, **{field: ""}) == {"ConditionalCustomWorkflow": True}


def test_which_need_a_setting_of_the_user():
    """By the key of the user's file."""
    told = told_by("user_settings")
    assert told["QualityMemory"] == (MEMORY_SETTINGS,)
    assert told["RecentMemory"] == (MEMORY_SETTINGS, "recentMemoryToolWorkflow")
    assert told["ConversationMemory"] == ("conversationMemoryToolWorkflow",)
    assert told["FullChatSummary"] == (MEMORY_SETTINGS, "chatSummaryToolWorkflow")
    assert "FullChatSummary" not in told_by("user_settings", isManualConfig=True)


@pytest.mark.parametrize(("lock", "told"), [("l", {"WorkflowLock": "l"}), (5, {}), (None, {})])
def test_which_take_a_lock(lock, told):
    """By its name, where it has one."""
    assert told_by("takes_lock", workflowLockId=lock) == told


@pytest.mark.parametrize(("path", "told"), [("a.txt", {"SaveCustomFile": ["a.txt"]}), (5, {}), (None, {})])
def test_which_write_files(path, told):
    """As the field names them."""
    assert told_by("files_written", filepath=path) == told


def test_which_fetch_what_nobody_guards():
    """The field that says what."""
    assert told_by("unguarded_fields") == {"CurlCommand": ["args"], "WebFetch": ["url"]}
    assert told_by("unguarded_fields", blockPrivateAddresses=True) == {}
    assert told_by("unguarded_fields", allowedHosts=["h"]) == {}


def test_branches_that_no_key_picks():
    """It has blanks around it, or a later one has the same letters."""
    branches = {"a": "A", "A": "B", " b": "C", "c": "D"}
    told = told_by("config_notes", conditionalWorkflows=branches)["ConditionalCustomWorkflow"]
    assert told == [("conditionalWorkflows", f"no key can pick the branch {name!r}") for name in ("a", " b")]


DRY_NOTES = {
    "ContextCompactor": "would bring the summaries of the older messages up to date",
    "FullChatSummary": "would make the file memories that are due and bring the summary up to date",
    "QualityMemory": "would make the memories that are due",
    "RecentMemory": "would make the file memories that are due",
    "VectorMemorySearch": "would search the vector memories",
    "WriteCurrentSummaryToFileAndReturnIt": "would store the summary",
    "chatSummarySummarizer": "would store the summary",
}


@pytest.mark.parametrize("node_type", DRY_NOTES)
def test_what_a_memory_node_would_do(node_type):
    """Nothing without a discussion, which is where memories are."""
    notes = node_handler(node_type).dry_notes
    assert notes(SimpleNamespace(store="there", value=lambda key: None)) == [DRY_NOTES[node_type]]
    assert notes(SimpleNamespace(store=None, value=lambda key: None)) == []


def test_a_summary_that_is_configured_by_hand_makes_nothing():
    """The author's own workflow does."""
    by_hand = SimpleNamespace(store="there", value=lambda key: key == "isManualConfig")
    assert node_handler("FullChatSummary").dry_notes(by_hand) == []
