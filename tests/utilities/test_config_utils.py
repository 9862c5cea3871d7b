"""The names that users' scripts import."""

from __future__ import annotations

import json

import pytest

from Middleware.common.instance_global_variables import LaunchFacts, launch_facts, set_launch_facts
from Middleware.common.request_context import RequestContext, enter_request
from Middleware.utilities.config_utils import get_config_path, get_default_tool_prompt_path, get_user_config


@pytest.fixture
def launched(tmp_path):
    """Launch facts of a tree with two users; `ana` is the pointer user."""
    users = tmp_path / "Users"
    users.mkdir()
    for name, document in {
        "_current-user": {"currentUser": "ana"},
        "ana": {"port": 1},
        "bob": {"port": 2},
    }.items():
        (users / f"{name}.json").write_text(json.dumps(document), encoding="utf-8")
    before = launch_facts()
    yield lambda *names: set_launch_facts(LaunchFacts(config_directory=tmp_path, users=names))
    set_launch_facts(before)


def test_paths(launched, tmp_path):
    launched()
    assert get_config_path("Endpoints", "x") == str(tmp_path / "Endpoints" / "x.json")
    assert get_default_tool_prompt_path() == str(tmp_path / "default_tool_prompt.txt")


def test_the_users_object_is_that_of_the_request(launched):
    launched("ana", "bob")
    with enter_request(RequestContext("r", "bob", "openai")):
        assert get_user_config() == {"port": 2}


def test_else_that_of_the_single_or_the_pointer_user(launched):
    launched("bob")
    assert get_user_config() == {"port": 2}
    launched()
    assert get_user_config() == {"port": 1}


def test_a_script_gets_a_copy(launched):
    launched()
    get_user_config()["port"] = 9
    assert get_user_config() == {"port": 1}
