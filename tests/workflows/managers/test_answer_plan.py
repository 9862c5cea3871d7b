"""Which workflow answers a request, as far as the files say it. Source: spec workflows.md 3.4, 4."""

from __future__ import annotations

from typing import Any

import pytest

from Middleware.common.errors import ConfigError, NotFound
from Middleware.config.users import load_user
from Middleware.workflows.managers.answer_plan import AnswerPlan, named_by, plan_answer
from tests.workflows.checks.conftest import CheckedConfigs

ROUTED = {"customWorkflowOverride": False, "routingConfig": "r", "categorizationWorkflow": "Choose"}
ONE = {"A": {"description": "a", "workflow": "First"}}
TWO = {**ONE, "B": {"description": "b", "workflow": "Second"}}


class Tree(CheckedConfigs):
    """`plan`: what answers the user `ana`, whose file has these fields."""

    def given(self, **fields: Any) -> Any:
        self.change("Users/ana.json", **fields)
        snapshot = self.tree.snapshot()
        return snapshot, load_user(snapshot, "ana")

    def plan(self, picked: str | None = None, **fields: Any) -> AnswerPlan:
        return plan_answer(*self.given(**fields), picked)


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path / "Configs")


class TestWhatAnswers:
    def test_the_users_own(self, tree):
        plan = tree.plan()
        assert plan == AnswerPlan("Main", setting="customWorkflow")
        assert not plan.chooses

    def test_what_the_model_name_picks(self, tree):
        """Whatever the user file says."""
        plan = tree.plan("talk")
        assert (plan.workflow, plan.folder, plan.setting) == ("_DefaultWorkflow", "_shared/talk", "")

    def test_one_category_needs_no_choice(self, tree):
        tree.put("Routing/r.json", ONE)
        plan = tree.plan(**ROUTED)
        assert (plan.workflow, plan.folder, plan.setting, plan.chooses) == ("First", None, "", False)
        assert [each.name for each in plan.routing.categories] == ["A"]

    def test_of_several_a_workflow_chooses(self, tree):
        tree.put("Routing/r.json", TWO)
        plan = tree.plan(**ROUTED)
        assert (plan.workflow, plan.setting, plan.chooses) == ("Choose", "categorizationWorkflow", True)
        assert [each.name for each in plan.routing.categories] == ["A", "B"]

    @pytest.mark.parametrize("missing", ["routingConfig", "categorizationWorkflow"])
    def test_half_a_routing_is_none(self, tree, missing):
        """The default answers, if there is one."""
        tree.put("Routing/r.json", TWO)
        tree.flow(name="_DefaultWorkflow")
        assert tree.plan(**{**ROUTED, missing: ""}) == AnswerPlan("_DefaultWorkflow")


class TestWhatDoesNot:
    def test_no_workflow_is_named(self, tree):
        """The error is at the field."""
        with pytest.raises(ConfigError) as caught:
            tree.plan(customWorkflow="")
        assert (caught.value.file, caught.value.pointer) == ("Users/ana.json", "/customWorkflow")

    def test_no_such_routing(self, tree):
        """It is told where the user names it."""
        with pytest.raises(ConfigError) as caught:
            tree.plan(**ROUTED)
        assert (caught.value.file, caught.value.pointer) == ("Users/ana.json", "/routingConfig")

    def test_there_is_nothing(self, tree):
        """The models that there are are named."""
        tree.flow(name="_DefaultWorkflow", folder="_shared/talk")
        with pytest.raises(NotFound) as caught:
            tree.plan(customWorkflowOverride=False)
        assert (caught.value.param, caught.value.code) == ("model", "model_not_found")
        assert "_DefaultWorkflow in Workflows/ana; models: ana" in str(caught.value)


class TestWhereItIsNamed:
    """An error of a name that leads nowhere says which file and field hold the name."""

    PLACES = (
        ({}, None, "Users/ana.json", "/customWorkflow"),
        (ROUTED, ONE, "Routing/r.json", "/A/workflow"),
        (ROUTED, TWO, "Users/ana.json", "/categorizationWorkflow"),
    )

    @pytest.mark.parametrize(("fields", "routing", "file", "pointer"), PLACES, ids=["own", "one", "chosen"])
    def test_by_a_plan(self, tree, fields, routing, file, pointer):
        tree.put("Routing/r.json", routing or {})
        snapshot, user = tree.given(**fields)
        plan = plan_answer(snapshot, user, None)
        with pytest.raises(ConfigError) as caught, plan.named(snapshot, user):
            raise ConfigError("no such workflow")
        error = caught.value
        assert (error.message, error.file, error.pointer) == ("no such workflow", file, pointer)
        assert error.position.line == 1

    def test_by_nobody(self, tree):
        """What is picked, or the default, is named in no file."""
        snapshot, user = tree.given()
        fault = ConfigError("no such workflow")
        with pytest.raises(ConfigError) as caught, plan_answer(snapshot, user, "talk").named(snapshot, user):
            raise fault
        assert caught.value is fault

    def test_by_no_category(self, tree):
        """Then it is the default, which stands for the routing."""
        snapshot, user = tree.given(**ROUTED)
        with pytest.raises(ConfigError) as caught, named_by(snapshot, user, None):
            raise ConfigError("no such workflow")
        assert (caught.value.file, caught.value.pointer) == ("Users/ana.json", "/routingConfig")

    def test_a_fault_of_a_file_has_its_own_place(self, tree):
        snapshot, user = tree.given()
        fault = ConfigError("wrong", file="Workflows/ana/Main.json")
        with pytest.raises(ConfigError) as caught, plan_answer(snapshot, user, None).named(snapshot, user):
            raise fault
        assert caught.value is fault
