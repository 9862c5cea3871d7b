"""Which workflow answers: picked by the model field, the user's own, or one by category."""

from __future__ import annotations

from typing import Any

import pytest

from Middleware.common.errors import ConfigError, ConfigMissing, NotFound
from Middleware.config.workflows import Category
from Middleware.workflows.managers.categorization import matching_category


def say(content: str, **fields: Any) -> dict[str, Any]:
    return {"type": "StaticResponse", "content": content, **fields}


def categories(*names: str) -> list[Category]:
    return [Category(name, "d", name.lower()) for name in names]


V13 = ("CODING", "GENERAL_CHAT", "WIKI", "GENERAL")
ANSWERS = [
    (V13, "I think it's GENERAL_CHAT", "GENERAL_CHAT"),
    (V13, "general chat", "GENERAL"),
    (V13, "WIKI/GENERAL", "WIKI"),
    (V13, "The CODE", None),
    (("RECIPES", "BUG_HUNT"), "**bug_hunt**", "BUG_HUNT"),
    (("RECIPES", "BUG_HUNT"), "bug hunt", None),
    (("RECIPES", "BUG_HUNT"), "RECIPES/BUG_HUNT", "RECIPES"),
    (("GENERAL", "GENERAL_CHAT"), "GENERAL_CHAT", "GENERAL"),
    (("TWO WORDS",), "TWO WORDS", None),
    (("***", "A"), "A", "***"),
    (("A",), "", None),
]


@pytest.mark.parametrize(("names", "text", "found"), ANSWERS, ids=[a[1] or "nothing" for a in ANSWERS])
def test_matching(names, text, found):
    """Word by word, category by category in file order, a name inside a word counts."""
    category = matching_category(text, categories(*names))
    assert (category and category.name) == found


@pytest.mark.parametrize("fields", [{"customWorkflow": ""}, {}], ids=["empty", "absent"])
def test_a_custom_workflow_without_a_name_is_told_at_the_user_file(house, fields):
    house.user = {name: value for name, value in house.user.items() if name != "customWorkflow"} | fields
    house.user |= {"customWorkflowOverride": True}
    with pytest.raises(
        ConfigError,
        match=r"^Users/ana.json(:1:\d+)?: customWorkflow: is empty, but customWorkflowOverride is",
    ):
        house.route()


@pytest.fixture
def routed(house):
    """A user with two categories; the categorisation asks the model."""
    house.user |= {
        "customWorkflowOverride": False,
        "routingConfig": "routes",
        "categorizationWorkflow": "Pick",
    }
    house.write(
        "Routing/routes",
        {
            "RECIPES": {"description": "Cooking", "workflow": "Cook"},
            "BUG_HUNT": {"description": "Faults", "workflow": "Debug"},
        },
    )
    pick = {"type": "Standard", "endpointName": "chat", "prompt": "{categoriesSeparatedByOr}"}
    house.workflow("Pick", pick)
    for name in ("Cook", "Debug", "_DefaultWorkflow"):
        house.workflow(name, say(f"{name}: {{chat_user_prompt_last_one}}"))
    return house


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
class TestRouting:
    @pytest.mark.parametrize(
        ("said", "answer"), [("bug_hunt!", "Debug: hi"), ("no idea", "_DefaultWorkflow: hi")]
    )
    def test_the_model_names_a_category(self, routed, stream, said, answer):
        """Its workflow answers; without one the default does."""
        routed.model.replies = [said]
        assert routed.route(stream=stream).text == answer
        assert routed.model.calls[0].conversation[0]["content"] == "RECIPES or BUG_HUNT"

    def test_it_is_asked_again(self, routed, stream):
        """As often as the user allows."""
        routed.user["maxCategorizationAttempts"] = 3
        routed.model.replies = ["?", "?", "recipes"]
        assert routed.route(stream=stream).text == "Cook: hi"

    def test_null_is_unknown(self, routed, stream):
        """A run without a value names nothing."""
        routed.write("Workflows/ana/Pick", [])
        assert routed.route(stream=stream).text == "_DefaultWorkflow: hi"

    def test_one_category_needs_no_model(self, routed, stream):
        """There is nothing to choose."""
        routed.write("Routing/routes", {"X": {"description": "d", "workflow": "Cook"}})
        assert routed.route(stream=stream).text == "Cook: hi"
        assert routed.model.calls == []

    def test_a_lock_in_the_categorisation_ends_the_request(self, routed, stream):
        """With its message."""
        lock = {"type": "WorkflowLock", "workflowLockId": "l"}
        routed.workflow("Pick", lock, {**lock, "lockedMessage": "busy"})
        assert routed.route(stream=stream).text == "busy"

    def test_category_names_end_with_the_run(self, routed, stream):
        """The routed workflow does not know them."""
        routed.model.replies = ["recipes"]
        routed.workflow("Cook", say("{categoriesSeparatedByOr}"))
        assert routed.route(stream=stream).text == "{categoriesSeparatedByOr}"


class TestNamesThatLeadNowhere:
    """Each is told with the file and the field that hold it."""

    def told(self, house):
        with pytest.raises(ConfigMissing) as caught:
            house.route()
        return str(caught.value)

    def test_the_users_own_workflow(self, house):
        house.user |= {"customWorkflowOverride": True, "customWorkflow": "Mine"}
        assert self.told(house).startswith(
            'Users/ana.json:1:87: customWorkflow: no workflow "Mine": there is no folder Workflows/ana; tried '
        )

    @pytest.mark.parametrize("field", ["routingConfig", "categorizationWorkflow"])
    def test_settings_of_the_routing(self, routed, field):
        routed.user[field] = "Nowhere"
        assert f": {field}: no " in self.told(routed)
        assert self.told(routed).startswith("Users/ana.json:1:")

    @pytest.mark.parametrize("said", ["recipes", "no idea"])
    def test_the_workflow_of_a_category_and_the_default(self, routed, said):
        """Where the category stands; for the default, where the routing is named."""
        routed.model.replies = [said]
        for name in ("Cook", "_DefaultWorkflow"):
            (routed.root / f"Workflows/ana/{name}.json").unlink()
        place = "Routing/routes.json:1:52: RECIPES.workflow" if said == "recipes" else "routingConfig"
        assert f'{place}: no workflow "' in self.told(routed)

    def test_the_workflow_of_the_only_category(self, routed):
        routed.write("Routing/routes", {"X": {"description": "d", "workflow": "Nowhere"}})
        assert self.told(routed).startswith("Routing/routes.json:1:40: X.workflow: no workflow")


class TestWithoutRouting:
    def test_the_picked_folder_comes_first(self, house):
        """Then the user's own workflow."""
        house.user["customWorkflow"] = "Mine"
        house.workflow("Mine", say("mine"))
        house.workflow("_DefaultWorkflow", say("shared"), folder="_shared/tool")
        assert house.route().text == "mine"
        house.request["workflow_folder"] = "tool"
        assert house.route().text == "shared"

    def test_no_routing_means_the_default_workflow(self, house):
        """If there is one."""
        house.user["customWorkflowOverride"] = False
        house.workflow("_DefaultWorkflow", say("default"))
        assert house.route().text == "default"

    def test_nothing_at_all_is_not_found(self, house):
        """With the models that there are."""
        house.user["customWorkflowOverride"] = False
        house.workflow("_DefaultWorkflow", say("x"), folder="_shared/tool")
        with pytest.raises(NotFound, match="models: ana:tool"):
            house.route()

    def test_a_missing_routing_file_is_named(self, house):
        """Before anything runs."""
        house.user |= {"customWorkflowOverride": False, "routingConfig": "r", "categorizationWorkflow": "c"}
        with pytest.raises(ConfigMissing, match=r"Routing/r\.json"):
            house.route()
