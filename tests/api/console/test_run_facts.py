"""Names, tokens and nodes that never began, of a run (spec console.md 3.1, 6.2)."""

from __future__ import annotations

import pytest

from Middleware.api.console.run_texts import NOT_RUN, not_run, tokens_of, workflow_of
from tests.api.console.traced import node_of, run_of


class TestTokens:
    def test_what_was_reported_is_no_estimate(self):
        assert tokens_of(run_of(usage={"completion_tokens": 9})) == (9, False)

    def test_while_it_runs_its_pieces_are_counted(self):
        assert tokens_of(run_of(counter=lambda: 4, state="answering")) == (4, True)

    def test_nothing_is_known_of_a_run_that_said_nothing(self):
        assert tokens_of(run_of()) == (None, False)


class TestNames:
    def test_a_nested_answer_names_the_way_to_it(self):
        outer = node_of(1, "Go", workflow="Workflows/mira/Outer.json", answers=True)
        inner = node_of(1, "Say", workflow="Workflows/mira/Inner.json", answers=True, parent=outer)
        assert workflow_of(run_of(outer, inner, workflow="Outer")) == "Outer > Inner"

    def test_three_names_are_the_most(self):
        nodes = [node_of(1, "", workflow="Workflows/mira/A.json", answers=True)]
        for name in "BCD":
            path = f"Workflows/mira/{name}.json"
            nodes.append(node_of(1, "", workflow=path, answers=True, parent=nodes[-1]))
        assert workflow_of(run_of(*nodes, workflow="A")) == "A > B > C > ..."

    def test_a_refused_request_has_none(self):
        assert workflow_of(run_of(workflow="", state="refused")) is None


class TestNotRun:
    def test_the_nodes_behind_a_failure(self):
        failed = node_of(1, "One", of=3, state="failed")
        assert [(node.number, node.state) for node in not_run(run_of(failed, state="failed"))] == [
            (2, NOT_RUN),
            (3, NOT_RUN),
        ]

    @pytest.mark.parametrize("state", ["waiting", "running", "answering", "finishing"])
    def test_none_while_it_runs(self, state):
        assert not_run(run_of(node_of(1, "One", of=3), state=state)) == []
