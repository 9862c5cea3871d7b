"""The offered tools and what a call of one asks (more-fronts.md 6.3, 6.4)."""

from __future__ import annotations

import pytest

from Middleware.api.requests.request_fields import arguments_fault, describe_tool, offered_tools, question_of
from Middleware.config.loader import default_snapshot

TIDE = {
    "description": "Height of the tide.",
    "inputs": {
        "port": {"type": "string", "description": "Which port.", "required": True},
        "hours": {"type": "integer", "default": 6},
        "unit": {"enum": ["m", "ft"]},
        "depth": {"type": "number"},
        "brief": {"type": "boolean"},
    },
    "message": "Tide in {port}, {unit} {other} {",
}


@pytest.fixture
def offer(configs):
    """`offer(folder, file)` makes a shared workflow a tool."""

    def write(folder, file, root="_shared"):
        configs(f"Workflows/{root}/{folder}/_DefaultWorkflow.json", [{"type": "StaticResponse"}])
        configs(f"Workflows/{root}/{folder}/_mcpTool.json", file)

    return write


@pytest.fixture
def tide(offer):
    offer("tide", TIDE)
    return offered_tools(default_snapshot())["tide"]


def told(caplog):
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


class TestOffered:
    def test_an_entry_of_the_list(self, offer):
        """11.9."""
        offer("tide", {**TIDE, "inputs": {name: TIDE["inputs"][name] for name in ("port", "hours")}})
        assert describe_tool(offered_tools(default_snapshot())["tide"]) == {
            "name": "tide",
            "description": "Height of the tide.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "port": {"type": "string", "description": "Which port."},
                    "hours": {"type": "integer", "default": 6},
                },
                "required": ["port"],
                "additionalProperties": False,
            },
        }

    def test_without_inputs(self, offer):
        """One text, which is the message; a title stands behind the name."""
        offer("ask it", {"description": "Asks.", "title": "Ask"})
        [tool] = offered_tools(default_snapshot()).values()
        entry = describe_tool(tool)
        assert list(entry) == ["name", "title", "description", "inputSchema"]
        assert (entry["name"], entry["title"]) == ("ask_it", "Ask")
        assert entry["inputSchema"]["properties"] == {
            "message": {"type": "string", "description": "What to do."}
        }
        assert entry["inputSchema"]["required"] == ["message"]

    def test_sorted_by_folder(self, offer):
        """Whatever their names are; folders with `_` in front are not looked at."""
        offer("b", {"description": "x", "name": "a"})
        offer("a", {"description": "x", "name": "z"})
        offer("_c", {"description": "x"})
        assert list(offered_tools(default_snapshot())) == ["z", "a"]

    def test_a_blank_description_is_no_tool(self, offer, caplog):
        """And nothing to tell of."""
        offer("a", {"description": " "})
        assert offered_tools(default_snapshot(), tell=True) == {} and told(caplog) == []

    @pytest.mark.parametrize(
        ("file", "says"),
        [
            ({}, "'description' is missing"),
            ({"description": "x", "name": "a b"}, "1 to 64 letters"),
            ({"description": "x", "inputs": {"a": {"type": "text"}}}, '"text", allowed: "string"'),
            ({"description": "x", "inputs": {"a": {"type": "integer", "default": "6"}}}, "whole number"),
            ({"description": "x", "inputs": {"a": {"enum": ["m", 1]}}}, "must be a string"),
            ({"description": "x", "inputs": {"a": {"enum": ["m"], "default": "k"}}}, "one of: m"),
            ("{", "not JSON"),
        ],
    )
    def test_a_faulty_file_is_left_out(self, offer, caplog, file, says):
        """With a warning when the list is made, and silently when a tool is looked for."""
        offer("bad", file)
        offer("good", {"description": "x"})
        assert list(offered_tools(default_snapshot())) == ["good"] and told(caplog) == []
        assert list(offered_tools(default_snapshot(), tell=True)) == ["good"]
        [warning] = told(caplog)
        assert says in warning and "Workflows/_shared/bad/_mcpTool.json" in warning

    def test_a_second_tool_of_one_name(self, offer, caplog):
        """The first stays."""
        offer("a", {"description": "1", "name": "x"})
        offer("b", {"description": "2", "name": "x"})
        assert offered_tools(default_snapshot(), tell=True)["x"].tool.folder == "a"
        assert "another folder already uses the name 'x'" in told(caplog)[0]

    def test_a_name_that_is_too_long(self, offer, caplog):
        """Where the folder's is one."""
        offer("a" * 65, {"description": "x"})
        assert offered_tools(default_snapshot(), tell=True) == {} and "64 characters" in told(caplog)[0]

    def test_without_a_workflow(self, configs, caplog):
        """There is nothing to run."""
        configs("Workflows/_shared/a/_mcpTool.json", {"description": "x"})
        assert offered_tools(default_snapshot(), tell=True) == {}
        assert "no _DefaultWorkflow.json beside it" in told(caplog)[0]

    def test_several_users(self, offer, configs, facts, caplog):
        """Each tool has its user in front; a user whose file is broken has none."""
        configs("Users/ann.json", {"sharedWorkflowsSubDirectoryOverride": "ann"})
        configs("Users/bad.json", "{")
        facts(users=("mira", "bad", "ann"))
        offer("tide", {"description": "x"})
        offer("moon", {"description": "x"}, root="ann")
        tools = offered_tools(default_snapshot(), tell=True)
        assert [(tool.name, tool.user) for tool in tools.values()] == [
            ("mira.tide", "mira"),
            ("ann.moon", "ann"),
        ]
        assert any("the tools of user bad cannot be listed" in one for one in told(caplog))


class TestArguments:
    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            ({}, "'port' is missing"),
            (
                {"port": "X", "deep": 1},
                "the tool has no input 'deep'; it has: port, hours, unit, depth, brief",
            ),
            ({"port": 1}, "'port' must be a string"),
            ({"port": None}, "'port' must be a string"),
            ({"port": "X", "hours": True}, "'hours' must be a whole number"),
            ({"port": "X", "hours": 1.5}, "'hours' must be a whole number"),
            ({"port": "X", "hours": float("inf")}, "'hours' must be a whole number"),
            ({"port": "X", "depth": "1"}, "'depth' must be a number"),
            ({"port": "X", "brief": 1}, "'brief' must be true or false"),
            ({"port": "X", "unit": "km"}, "'unit' must be one of: m, ft"),
            ([], "'arguments' must be an object"),
            ("x", "'arguments' must be an object"),
        ],
    )
    def test_faults(self, tide, arguments, says):
        """One sentence for the model."""
        assert arguments_fault(tide.tool, arguments) == says

    @pytest.mark.parametrize(
        "arguments",
        [
            {"port": "X"},
            {"port": "", "hours": 1.0, "unit": "ft", "depth": 2, "brief": False},
            {"port": "X", "depth": 0.5},
        ],
    )
    def test_what_fits(self, tide, arguments):
        """Absent ones are not missing unless they are required."""
        assert arguments_fault(tide.tool, arguments) is None

    def test_the_question(self, tide):
        """Inputs by place: texts, others as JSON, absent ones their default or nothing."""
        question = question_of(tide.tool, {"port": "{unit}", "unit": "m", "brief": True})
        assert question.inputs == ("{unit}", "6", "m", "", "true")
        assert question.messages == [{"role": "user", "content": "Tide in {unit}, m {other} {"}]
        assert question.tools is None

    def test_the_message_is_the_first_input(self, offer):
        """When nothing else is said; empty where there are no inputs."""
        offer("a", {"description": "x", "inputs": {"b": {}, "a": {}}})
        offer("b", {"description": "x", "inputs": {}})
        tools = offered_tools(default_snapshot())
        assert question_of(tools["a"].tool, {"b": "B", "a": "A"}).messages[0]["content"] == "B"
        assert question_of(tools["b"].tool, {}).messages[0]["content"] == ""
        assert arguments_fault(tools["b"].tool, {"a": 1}) == "the tool has no input 'a'; it has: none"
        assert len(arguments_fault(tools["b"].tool, {"a" * 1_000_000: 1})) < 2100
