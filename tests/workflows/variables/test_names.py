"""Who wins when a name has several meanings (workflows.md 7.5)."""

from __future__ import annotations

import pytest

from Middleware.workflows.variables.format_text import Origin
from Middleware.workflows.variables.workflow_variable_manager import AllNames, EarlyNames


@pytest.mark.parametrize(
    ("name", "winner"),
    [
        pytest.param("todays_date_iso", "workflow", id="a-workflow-variable-beats-a-date"),
        pytest.param("YYYY_MM_DD", "2026_03_05", id="a-date-beats-a-user-wide-variable"),
        pytest.param("mine", "workflow", id="a-workflow-variable-beats-a-user-wide-one"),
        pytest.param("wide", "user-wide", id="a-user-wide-variable"),
        pytest.param("Discussion_Id", "d1", id="the-discussion-beats-a-workflow-variable"),
        pytest.param("chat_user_prompt_last_one", "u2", id="the-conversation-beats-a-workflow-variable"),
        pytest.param("agent1Output", "out", id="an-output-beats-a-workflow-variable"),
        pytest.param("agent1Input", "in", id="an-input-beats-a-workflow-variable"),
        pytest.param("categoriesSeparatedByOr", "A or B", id="categories-beat-a-workflow-variable"),
    ],
)
def test_precedence(name, winner, make_source):
    """All names are configured in the workflow and by the user as well, as far as the case needs it."""
    workflow = dict.fromkeys(
        ("todays_date_iso", "mine", "Discussion_Id", "chat_user_prompt_last_one", "agent1Output", "agent1Input",
         "categoriesSeparatedByOr"), "workflow",
    )  # fmt: skip
    user_wide = dict.fromkeys((*workflow, "YYYY_MM_DD", "wide"), "user-wide")
    source = make_source(
        workflow=workflow,
        user_wide=user_wide,
        inputs={1: "in"},
        outputs={1: "out"},
        discussion_id="d1",
        categories={"A": "", "B": ""},
    )
    assert AllNames(source).find(name).value == winner


def test_messages_beat_everything(make_source):
    """Even an output of that name."""
    source = make_source(workflow={"messages": 1})
    source.agent_outputs["messages"] = 2
    assert AllNames(source).find("messages").value is source.messages


def test_without_messages_a_workflow_may_define_the_name(make_source):
    """A name that does not exist here is free."""
    source = make_source(messages=[], workflow={"chat_system_prompt": "mine"})
    assert AllNames(source).find("chat_system_prompt").value == "mine"


@pytest.mark.parametrize(
    ("name", "origin", "live"),
    [
        ("wide", Origin.STATIC, True),
        ("mine", Origin.STATIC, True),
        ("todays_date_iso", Origin.STATIC, False),
        ("Discussion_Id", Origin.RUN, False),
        ("agent1Output", Origin.RUN, False),
        ("messages", Origin.RUN, False),
    ],
)
def test_origins(name, origin, live, make_source):
    """Only configured texts may hold placeholders; only they and dates are known before the run."""
    found = AllNames(make_source(workflow={"mine": 1}, user_wide={"wide": 1}, outputs={1: ""})).find(name)
    assert (found.origin, found.live) == (origin, live)


def test_a_value_is_made_once(make_source):
    """Within one substitution."""
    names = AllNames(make_source())
    assert names.find("chat_user_prompt_last_one") is names.find("chat_user_prompt_last_one")
    assert names.find("nope") is names.find("nope") is None


def test_early_names(make_source):
    """Inputs, workflow variables; outputs only for numbers."""
    source = make_source(inputs={1: "in"}, outputs={1: "out"}, workflow={"mine": 1}, user_wide={"wide": 1})
    early, numbers = EarlyNames(source, with_outputs=False), EarlyNames(source, with_outputs=True)
    assert [early.find(name) is not None for name in ("agent1Input", "mine", "agent1Output", "wide", "messages")] == [
        True, True, False, False, False,
    ]  # fmt: skip
    assert numbers.find("agent1Output").value == "out"
