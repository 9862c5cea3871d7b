"""The log's lines of the nodes that ran: which, when, and that nobody pays for them where nobody reads them."""

from __future__ import annotations

import json
import logging
import re

import pytest

from Middleware.common.errors import BackendError, WorkflowError
from Middleware.common.request_context import RequestContext
from Middleware.services.node_trace import NodeTrace
from Middleware.services.run_trace import Observers
from Middleware.workflows.processors.node_lines import NodeLines

LOOP = "Middleware.workflows.processors.workflows_processor"
MANAGER = "Middleware.workflows.managers.workflow_manager"


def say(content="a", **fields):
    return {"type": "StaticResponse", "content": content, **fields}


def child(name="Child"):
    return {"type": "CustomWorkflow", "workflowName": name}


@pytest.fixture
def lines(caplog):
    """What has been written so far: one text a record, times as `T`."""
    caplog.set_level(logging.INFO, LOOP)

    def written():
        texts = [r.getMessage() for r in caplog.records if (r.name, r.levelname) == (LOOP, "INFO")]
        return [re.sub(r"\d+\.\d{3} s", "T", text) for text in texts]

    return written


class TestOfTheEngine:
    def test_the_form(self, house, lines):
        """The file, how many ran, and a line a node: number, type, title, endpoint and address, time, tokens, how
        it ended."""
        house.model.replies = [BackendError("chat", "timeout", "too slow"), "yes"]
        ask = {"type": "Standard", "endpointName": "chat"}
        house.ask({**ask, "title": "Draft", "onNodeError": "continue", "errorText": "sorry"}, ask)
        assert lines() == [
            "Workflows/ana/Main.json: 2 of 2 nodes ran\n"
            "  1 Standard 'Draft' chat http://model.test T, 1 tokens, failed\n"
            "  2 Standard 'N/A' chat http://model.test T, 1 tokens"
        ]

    def test_a_backend_inside_this_program_has_no_address(self, house, lines):
        """Whatever its file says."""
        house.write("ApiTypes/Demo", {"type": "builtInDemo", "presetType": "any"})
        house.endpoint("demo", apiTypeConfigFileName="Demo", endpoint="http://127.0.0.1:11434")
        house.ask({"type": "Standard", "endpointName": "demo"})
        assert "  1 Standard 'N/A' demo  T, " in lines()[0]

    @pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
    def test_a_nested_run_has_its_own_before_its_parent_s(self, house, lines, stream):
        """Each run of a file once, also when the same file runs twice."""
        house.workflow("Child", say(), say())
        house.ask(child(), child(), stream=stream)
        heads = [text.splitlines()[0] for text in lines()]
        assert heads == [
            "Workflows/ana/Child.json: 2 of 2 nodes ran",
            "Workflows/ana/Child.json: 2 of 2 nodes ran",
            "Workflows/ana/Main.json: 2 of 2 nodes ran",
        ]

    def test_a_run_that_fails_has_lines_of_what_ran(self, house, lines):
        """Down to the node that failed."""
        house.model.replies = [BackendError("chat", "timeout", "too slow")]
        house.workflow("Child", say(), {"type": "Standard", "endpointName": "chat"}, say())
        with pytest.raises(WorkflowError, match="too slow"):
            house.ask(say(), child(), say())
        assert [(text.splitlines()[0], text[-8:]) for text in lines()] == [
            ("Workflows/ana/Child.json: 2 of 3 nodes ran", ", failed"),
            ("Workflows/ana/Main.json: 2 of 3 nodes ran", ", failed"),
        ]

    def test_of_a_group(self, house, lines):
        """In the order of the file, whichever began first."""
        house.ask(*[say(f"{i}", title=f"{i}", parallelGroup="g") for i in range(6)], say())
        [text] = lines()
        assert [line.split()[0] for line in text.splitlines()[1:]] == list("1234567")

    def test_a_workflow_without_nodes(self, house, lines):
        """Is told as well: nothing ran."""
        house.workflow("Main")
        house.ask()
        assert lines() == ["Workflows/ana/Main.json: 0 of 0 nodes ran"]

    def test_all_of_a_request_as_json(self, house, caplog, lines):
        """At DEBUG, for programs; children before their parents."""
        caplog.set_level(logging.DEBUG, MANAGER)
        house.workflow("Child", say())
        house.ask(child())
        [told] = [text for text in caplog.messages if text.startswith("trace ")]
        shown = json.loads(told.removeprefix("trace "))
        assert shown["request"] == "r1"
        assert [(node["workflow"], node["number"]) for node in shown["nodes"]] == [
            ("Workflows/ana/Child.json", 1),
            ("Workflows/ana/Main.json", 1),
        ]
        assert list(shown["nodes"][0]) == [
            *("workflow", "number", "type", "title", "endpoint", "url", "seconds", "tokens", "ended"),
        ]

    def test_nobody_reads_them(self, house):
        """Then there is no trace at all."""
        assert house.manager().state.run_trace is None


class TestOfARun:
    """Told event by event."""

    @pytest.fixture
    def run(self):
        observers = Observers()
        observers.observe(NodeLines())
        run = observers.begin("r1", "/api/chat")
        run.name(RequestContext("r1", "ana", "x"), front="x", stream=True, asked=b"")
        return run

    @staticmethod
    def node(run, number, of=3, file="A.json", **fields):
        made = NodeTrace(file, number, "Standard", of=of, **fields)
        run.node(made)
        return made

    @staticmethod
    def ended(run, node, state="running"):
        node.state = state
        node.end()
        run.tell("node_ended", node)

    def test_when_the_last_node_has_ended(self, run, lines):
        """Not before, and not again at the end of the request."""
        seen = []
        for number in (1, 2, 3):
            self.ended(run, self.node(run, number))
            seen.append(len(lines()))
        run.end("done")
        assert [*seen, len(lines())] == [0, 0, 1, 1]

    @pytest.mark.parametrize(
        ("state", "group", "count"),
        [
            ("failed", None, 1),
            ("cancelled", None, 1),
            ("stopped", None, 1),
            ("went_on", None, 0),
            ("failed", "g", 0),
        ],
    )
    def test_when_a_node_ends_it_early(self, run, lines, state, group, count):
        """A member of a group does not: others of it may still begin."""
        self.ended(run, self.node(run, 1, group=group), state)
        before = len(lines())
        run.end("failed")
        assert (before, len(lines())) == (count, 1)

    def test_when_another_workflow_begins(self, run, lines):
        """As the one that answers does behind the one that chose it."""
        self.ended(run, self.node(run, 1))
        self.node(run, 1, file="B.json")
        assert [text.splitlines()[0] for text in lines()] == ["A.json: 1 of 3 nodes ran"]

    def test_when_the_same_workflow_begins_again(self, run, lines):
        """As in a loop: its first node is not one more of the run before."""
        for number in (1, 2):
            self.ended(run, self.node(run, number))
        self.node(run, 1)
        assert [text.splitlines()[0] for text in lines()] == ["A.json: 2 of 3 nodes ran"]

    def test_nothing_is_kept_of_a_request_that_has_ended(self, run):
        """However it ended."""
        [(watching, _)] = run.observers._all
        self.node(run, 1)
        run.end("cancelled")
        assert watching._of == {}
