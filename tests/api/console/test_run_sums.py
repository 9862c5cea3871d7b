"""What the calls of a run used, summed up (spec console.md 6.3)."""

from __future__ import annotations

from types import MappingProxyType

import pytest

from Middleware.api.console.run_sums import UsageCount, all_nodes_usage, count_of, usage_of
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


def told(prompt, completion, calls):
    """As the client is told it."""
    return {**usage(prompt, completion), "calls": calls}


class TestUsageOf:
    def test_the_answer_as_the_client_was_told_it(self):
        """Once it was told: whatever the calls say."""
        run = run_of(
            node_of(1, "", call_of(usage=usage(5, 2))), all_usage=told(9, 8, 2), whole_usage=told(9, 8, 2)
        )
        assert usage_of(run) == (UsageCount(9, 8, 2), UsageCount())

    def test_what_came_after_the_answer_stands_apart(self):
        """The client is told of what its answer took, the page of every call."""
        used = usage_of(run_of(all_usage=told(9, 8, 2), whole_usage=told(109, 58, 5)))
        assert used == (UsageCount(9, 8, 2), UsageCount(100, 50, 3))
        assert used.whole == UsageCount(109, 58, 5)

    def test_an_answer_without_a_model_took_nothing(self):
        """A fixed answer, with a model behind it."""
        assert usage_of(run_of(whole_usage=told(100, 50, 1))) == (UsageCount(), UsageCount(100, 50, 1))

    def test_before_that_what_was_reported_so_far(self):
        """Of all nodes, nested ones too; a call that has no numbers yet is a call."""
        run = run_of(
            node_of(1, "", call_of(usage=usage(5, 2)), call_of(usage=usage(10, 4))),
            node_of(2, "", call_of()),
            node_of(1, "", call_of(usage=usage(20, 8)), depth=1),
            node_of(3, "", call_of(usage=usage(7, 1)), after=True),
            state="finishing",
        )
        assert usage_of(run) == (UsageCount(35, 14, 4), UsageCount(7, 1, 1))

    def test_a_prompt_that_was_read_ahead_counts_after_the_answer(self):
        """No sum of the client has it; it is read when the run has ended."""
        ahead = call_of(kind="prefill", usage=usage(900, 1))
        run = run_of(
            node_of(1, "", call_of(usage=usage(5, 2)), ahead),
            all_usage=told(5, 2, 1),
            whole_usage=told(5, 2, 1),
        )
        assert usage_of(run) == (UsageCount(5, 2, 1), UsageCount(900, 1, 1))
        run.all_usage = run.whole_usage = None
        assert usage_of(run) == (UsageCount(5, 2, 1), UsageCount(900, 1, 1))

    @pytest.mark.parametrize("kind", ["embedding", "http", "command", "mcp", "script"])
    def test_only_calls_to_models_count(self, kind):
        calls = [call_of(usage=usage(5, 2)), call_of(kind=kind, usage=usage(100, 100))]
        assert usage_of(run_of(node_of(1, "", *calls))).whole == UsageCount(5, 2, 1)

    def test_a_call_that_failed_is_none(self):
        """As the client is told it: a run whose only call failed has asked no model."""
        calls = [call_of(outcome="connect_error", error="cannot connect"), call_of(usage=usage(5, 2))]
        assert usage_of(run_of(node_of(1, "", *calls))).whole == UsageCount(5, 2, 1)
        assert usage_of(run_of(node_of(1, "", calls[0]))).whole == UsageCount()

    def test_odd_numbers_count_as_nothing(self):
        calls = [call_of(usage=usage("many", -3)), call_of(usage=usage(5, None))]
        assert usage_of(run_of(node_of(1, "", *calls))).whole == UsageCount(5, 0, 2)

    def test_odd_numbers_that_the_client_was_told_are_unknown(self):
        run = run_of(all_usage={"prompt_tokens": "many", "calls": 1}, whole_usage=told(5, 2, 1))
        assert usage_of(run).whole == UsageCount(None, None, 1)

    def test_a_run_without_a_call(self):
        assert usage_of(run_of(node_of(1))) == (UsageCount(), UsageCount())


def test_as_json():
    """Every call, and the two parts."""
    run = run_of(all_usage=told(9, 8, 2), whole_usage=told(109, 58, 5))
    assert all_nodes_usage(run) == {**told(109, 58, 5), "to_answer": told(9, 8, 2), "after": told(100, 50, 3)}
