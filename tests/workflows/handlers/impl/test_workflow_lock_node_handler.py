"""WorkflowLock: one run at a time."""

from __future__ import annotations

import pytest

from Middleware.common.errors import ConfigError, EarlyTermination
from Middleware.workflows.handlers.impl.workflow_lock_node_handler import WorkflowLockNode


def test_a_free_lock_lets_the_run_go_on(bench):
    """The id is literal, the output nothing."""
    bench.engine.values["x"] = "filled"
    assert bench("WorkflowLock", workflowLockId="night-{x}") is None
    assert bench.engine.locks == ["night-{x}"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [({}, ""), ({"lockedMessage": None}, ""), ({"lockedMessage": "{who} works"}, "Ana works")],
    ids=["none", "null", "filled"],
)
def test_a_held_lock_ends_the_run_with_its_message(bench, fields, message):
    """Not a failure."""
    bench.engine.held = True
    bench.engine.values["who"] = "Ana"
    with pytest.raises(EarlyTermination) as caught:
        bench("WorkflowLock", workflowLockId="night", **fields)
    assert caught.value.locked_message == message


@pytest.mark.parametrize("fields", [{}, {"workflowLockId": ""}, {"workflowLockId": None}], ids=repr)
def test_without_an_id_it_is_an_error(bench, fields):
    """At validation, too."""
    with pytest.raises(ConfigError, match="workflowLockId"):
        bench("WorkflowLock", **fields)
    assert bench.findings("WorkflowLock", **fields)[0] != []


def test_it_never_runs_beside_other_nodes():
    """A lock in a parallel group would not guard what stands before it."""
    assert WorkflowLockNode().fits_in_parallel_group({}) is False
