"""QualityMemory: remembers, says nothing, and never costs the chat. Source: spec memory.md 9.3, 18.2 (4)."""

from __future__ import annotations

import pytest

LITERAL = "No discussionId on this request; memories were not generated."


def test_without_a_discussion_it_says_so(bench):
    assert bench("QualityMemory") == LITERAL


def test_without_a_discussion_the_users_workflow_answers_instead(bench, user_with):
    """Stateless chats get their recent messages that way."""
    bench.user = user_with(recent_memory_tool_workflow="Recent")
    assert bench("QualityMemory") == "value of Recent"


def test_without_settings_the_chat_goes_on_with_an_error_in_the_log(bench, caplog):
    bench.discussion_id = "d"
    bench.messages = [{"role": "user", "content": str(i)} for i in range(3)]
    assert bench("QualityMemory") is None
    assert "Users/ana.json: discussionIdMemoryFileWorkflowSettings: no settings file is set" in caplog.text


@pytest.mark.parametrize(("discussion", "notes"), [("d", 1), (None, 0)], ids=str)
def test_a_dry_run_tells_what_would_be_written(bench, discussion, notes):
    bench.discussion_id = discussion
    assert len(bench.notes("QualityMemory")) == notes
