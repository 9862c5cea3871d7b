"""Facts of the process, and the one name that follows the request."""

from __future__ import annotations

import pytest

from Middleware.common import instance_global_variables as facts
from Middleware.common.request_context import RequestContext, entered


@pytest.fixture(autouse=True)
def _put_back():
    before = facts.launch_facts()
    yield
    facts.set_launch_facts(before)


def test_the_facts_of_the_launch():
    """Set once, read everywhere; each process is an instance of its own."""
    made = facts.LaunchFacts(users=("ana",))
    facts.set_launch_facts(made)
    assert facts.launch_facts() is made
    assert made.instance_id != facts.LaunchFacts().instance_id
    assert made.config_directory == facts.INSTALL_DIRECTORY / "Public" / "Configs"


def test_the_wire_format_is_the_requests():
    """`openai` outside of one."""
    assert facts.API_TYPE == "openai"
    with entered(RequestContext("r", "ana", "ollamachat")):
        assert facts.API_TYPE == "ollamachat"


def test_there_is_nothing_else():
    """A mistyped name is an error."""
    with pytest.raises(AttributeError, match="API_TIPE"):
        _ = facts.API_TIPE
