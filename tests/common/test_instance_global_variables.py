"""Facts of the process, and the one name that follows the request."""

from __future__ import annotations

import pytest

from Middleware.common import instance_global_variables as facts
from Middleware.common.request_context import RequestContext, enter_request


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
    with enter_request(RequestContext("r", "ana", "ollamachat")):
        assert facts.API_TYPE == "ollamachat"


def test_there_is_nothing_else():
    """A mistyped name is an error."""
    with pytest.raises(AttributeError, match="API_TIPE"):
        _ = facts.API_TIPE


def test_a_wheel_is_told_by_the_examples_in_it(tmp_path, monkeypatch):
    """A clone has them beside the server; a wheel has nothing there that is ours."""
    assert not facts.is_installed()
    assert facts.LaunchFacts().public_directory == facts.INSTALL_DIRECTORY / "Public"
    monkeypatch.setattr(facts, "SHIPPED_DIRECTORY", tmp_path)
    assert facts.is_installed()
    assert facts.LaunchFacts().public_directory == tmp_path / "Public"
    assert facts.LaunchFacts().config_directory == tmp_path / "Public" / "Configs"


def test_data_lies_in_the_public_folder_or_apart(tmp_path):
    """Apart where that is only for reading."""
    assert facts.LaunchFacts(public_directory=tmp_path).data_root == tmp_path
    assert facts.LaunchFacts(data_directory=tmp_path).data_root == tmp_path
