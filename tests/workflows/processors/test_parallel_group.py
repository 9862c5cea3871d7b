"""Nodes of one `parallelGroup` run at the same time, when nothing stands against it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from Middleware.common.errors import RequestCancelled, WorkflowError
from Middleware.common.request_context import current_request, enter_request
from Middleware.services.cancellation_service import cancellation_service
from Middleware.workflows.processors.parallel_group import group_end, obstacle
from Middleware.workflows.variables.workflow_variable_manager import LiveValues
from tests.patience import PATIENCE_S


def say(content: str, **fields: Any) -> dict[str, Any]:
    return {"type": "StaticResponse", "content": content, **fields}


def member(prompt: str, **fields: Any) -> dict[str, Any]:
    return {"type": "Standard", "endpointName": "chat", "prompt": prompt, "parallelGroup": "g", **fields}


LOCK = {"type": "WorkflowLock", "workflowLockId": "l", "parallelGroup": "g"}


VALUES = {"notes": "see {agent1Output}", "more": "{notes}", "town": "Brest"}

OBSTACLES = [
    ("independent", [member("a"), member("b"), say("x")], None),
    ("reference-to-an-earlier-node", [say("x"), member("{agent1Output}"), member("b"), say("x")], None),
    ("reference-to-a-member", [member("a"), member("{agent1Output}"), say("x")], "uses the output of node 1"),
    (
        "reference-to-a-members-thoughts",
        [member("{agent2Thinking}"), member("b"), say("x")],
        "uses the output",
    ),
    ("through-a-variable", [member("a"), member("{town} {more}"), say("x")], "uses the output of node 1"),
    (
        "through-a-second-pass",
        [member("a"), member("{{town}} {{more}}"), say("x")],
        "uses the output of node 1",
    ),
    ("a-variable-without-any", [member("a"), member("{town}"), say("x")], None),
    ("the-last-node-answers", [member("a"), member("b")], "node 2 answers"),
    ("a-lock", [member("a"), LOCK, say("x")], "node 2 is of a type or has a setting that must run alone"),
]


@pytest.mark.parametrize(("nodes", "why"), [o[1:] for o in OBSTACLES], ids=[o[0] for o in OBSTACLES])
def test_obstacles(house, nodes, why):
    """What may not stand in a group, and who says so."""
    start = next(i for i, node in enumerate(nodes) if "parallelGroup" in node)
    said = obstacle(nodes, start, group_end(nodes, start), len(nodes) - 1, LiveValues(VALUES))
    assert (said is None) if why is None else (why in said)


class TestGroups:
    def test_members_run_at_the_same_time(self, house):
        """Each waits for the other; one after the other they would never end."""
        meeting = threading.Barrier(3, timeout=PATIENCE_S)

        def reply(call: Any) -> str:
            meeting.wait()
            return call.conversation[0]["content"].upper()

        house.model.replies = [reply]
        nodes = [member("a"), member("b"), member("c"), say("{agent1Output}{agent2Output}{agent3Output}")]
        assert house.ask(*nodes).text == "ABC"

    def test_ten_run_at_the_same_time(self, house):
        """With a limit of ten; each waits for the other nine."""
        house.user["maxParallelNodes"] = 10
        meeting = threading.Barrier(10, timeout=PATIENCE_S)

        def reply(call: Any) -> str:
            meeting.wait()
            return call.conversation[0]["content"].upper()

        house.model.replies = [reply]
        outputs = "".join(f"{{agent{number}Output}}" for number in range(1, 11))
        assert house.ask(*map(member, "abcdefghij"), say(outputs)).text == "ABCDEFGHIJ"

    def test_ten_are_cancelled_as_one(self, house):
        """All are at work when the request is cancelled; all end, and nothing comes after them."""
        house.user["maxParallelNodes"] = 10
        at_work, stopped = threading.Barrier(11, timeout=PATIENCE_S), threading.Event()
        ended = []

        def reply(_: Any) -> str:
            cancellation_service.register_abort_callback("r1", stopped.set)
            at_work.wait()
            ended.append(stopped.wait(PATIENCE_S))
            return "too late"

        house.model.replies = [reply]
        house.workflow(
            "Main", *[member("a") for _ in range(10)], say("x"), {"type": "Standard", "endpointName": "chat"}
        )
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(lambda: list(house.open()))
            at_work.wait()
            cancellation_service.request_cancellation("r1")
            with pytest.raises(RequestCancelled):
                asked.result(PATIENCE_S)
        assert ended == [True] * 10
        assert len(house.model.calls) == 10

    def test_the_user_limits_the_threads(self, house):
        """With one, nothing runs beside anything."""
        house.user["maxParallelNodes"] = 1
        names = set()
        house.model.replies = [lambda _: names.add(threading.current_thread().name) or "x"]
        house.ask(member("a"), member("b"), say("x"))
        assert names == {threading.current_thread().name}

    def test_nested_groups_cannot_starve(self, house):
        """Members that have groups of their own end, with two threads in all."""
        house.user["maxParallelNodes"] = 2
        house.workflow("Child", member("a"), member("b"), say("{agent1Output}{agent2Output}"))
        call = {"type": "CustomWorkflow", "workflowName": "Child", "parallelGroup": "g"}
        house.model.replies = ["x"]
        assert house.ask(call, call, call, say("{agent1Output}{agent2Output}{agent3Output}")).text == "xxxxxx"

    def test_all_are_waited_for_and_the_first_failure_counts(self, house):
        """The lowest node number, whoever failed first."""
        house.model.replies = ["x"]
        nodes = [member("a"), member("a", endpointName="no1"), member("a", endpointName="no2"), say("x")]
        with pytest.raises(WorkflowError, match="no1"):
            house.ask(*nodes)
        assert len(house.model.calls) == 1

    def test_on_node_error_acts_on_its_member(self, house):
        """The others give what they give."""
        bad = member("a", endpointName="no", onNodeError="continue", errorText="e")
        house.model.replies = ["x"]
        assert house.ask(member("a"), bad, say("{agent1Output}{agent2Output}")).text == "xe"

    def test_a_group_with_an_obstacle_runs_in_order(self, house, caplog):
        """With a warning; results are the same."""
        house.model.replies = [lambda call: call.conversation[0]["content"] + "!"]
        assert house.ask(member("a"), member("{agent1Output}"), say("{agent2Output}")).text == "a!!"
        assert "one node after the other" in caplog.text

    @pytest.mark.parametrize("whose", ["file", "user"])
    def test_a_variable_that_brings_another_members_output_is_an_obstacle(self, house, caplog, whose):
        """Running together, the second would find no output to fill in."""
        variables = {"notes": "<{agent1Output}>"}
        if whose == "user":
            house.user["userWideWorkflowVariables"] = variables
        house.model.replies = [lambda call: call.conversation[0]["content"] + "!"]
        nodes = [member("a"), member("{notes}"), say("{agent2Output}")]
        house.workflow("Main", *nodes, **(variables if whose == "file" else {}))
        assert house.ask().text == "<a!>!"
        assert "node 2 uses the output of node 1 of its own group" in caplog.text

    def test_an_obstacle_holds_for_the_whole_group(self, house, caplog):
        """The members behind the obstacle do not run together either; one warning tells it."""
        names = set()
        house.model.replies = [lambda _: names.add(threading.current_thread().name) or "x"]
        house.ask(member("a"), member("{agent1Output}"), member("b"), member("c"), say("x"))
        assert names == {threading.current_thread().name}
        assert caplog.text.count("one node after the other") == 1

    def test_members_know_the_request(self, house):
        """Threads run in the request's context."""
        seen = set()
        house.model.replies = [lambda _: seen.add(current_request().request_id) or "x"]
        house.workflow("Main", member("a"), member("b"), member("c"), say("x"))
        with enter_request(house.manager().request):
            list(house.open())
        assert seen == {"r1"}
