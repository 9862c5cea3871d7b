"""What the calls of a run used, summed up (spec console.md 6.3)."""

from __future__ import annotations

from types import MappingProxyType

import pytest

from Middleware.api.console.run_sums import all_nodes_usage, count_of
from tests.api.console.traced import call_of, node_of, run_of

KEY = "completion_tokens"


class TestCountOf:
    @pytest.mark.parametrize(
        ("usage", "count"),
        [
            ({KEY: 7}, 7),
            ({KEY: 0}, 0),
            (MappingProxyType({KEY: 7}), 7),
            ({KEY: -1}, None),
            ({KEY: True}, None),
            ({KEY: 7.5}, None),
            ({KEY: "7"}, None),
            ({KEY: None}, None),
            ({"prompt_tokens": 7}, None),
            (None, None),
            ([KEY], None),
        ],
    )
    def test_only_a_count_is_one(self, usage, count):
        """Backends report what they like."""
        assert count_of(usage, KEY) == count


def usage(prompt, completion):
    return {"prompt_tokens": prompt, "completion_tokens": completion}


class TestAllNodes:
    def test_as_the_client_was_told(self):
        """Once it was told: whatever the calls say."""
        run = run_of(node_of(1, "", call_of(usage=usage(5, 2))), all_usage={**usage(9, 8), "calls": 2})
        assert all_nodes_usage(run) == {**usage(9, 8), "calls": 2}

    def test_before_that_what_was_reported_so_far(self):
        """Of all nodes, nested ones too; a call that has no numbers yet is a call."""
        run = run_of(
            node_of(1, "", call_of(usage=usage(5, 2)), call_of(usage=usage(10, 4))),
            node_of(2, "", call_of()),
            node_of(1, "", call_of(usage=usage(20, 8)), depth=1),
            state="running",
        )
        assert all_nodes_usage(run) == {**usage(35, 14), "calls": 4}

    @pytest.mark.parametrize("kind", ["embedding", "http", "command", "mcp", "script"])
    def test_only_calls_to_models_count(self, kind):
        calls = [call_of(usage=usage(5, 2)), call_of(kind=kind, usage=usage(100, 100))]
        assert all_nodes_usage(run_of(node_of(1, "", *calls))) == {**usage(5, 2), "calls": 1}

    def test_a_call_that_failed_is_none(self):
        """As the client is told it: a run whose only call failed has asked no model."""
        calls = [call_of(outcome="connect_error", error="cannot connect"), call_of(usage=usage(5, 2))]
        assert all_nodes_usage(run_of(node_of(1, "", *calls))) == {**usage(5, 2), "calls": 1}
        assert all_nodes_usage(run_of(node_of(1, "", calls[0]))) == {**usage(0, 0), "calls": 0}

    def test_odd_numbers_count_as_nothing(self):
        calls = [call_of(usage=usage("many", -3)), call_of(usage=usage(5, None))]
        assert all_nodes_usage(run_of(node_of(1, "", *calls))) == {**usage(5, 0), "calls": 2}

    def test_odd_numbers_that_the_client_was_told_are_unknown(self):
        run = run_of(all_usage={"prompt_tokens": "many", "calls": 1})
        assert all_nodes_usage(run) == {"prompt_tokens": None, "completion_tokens": None, "calls": 1}

    def test_a_run_without_a_call(self):
        assert all_nodes_usage(run_of(node_of(1))) == {**usage(0, 0), "calls": 0}
