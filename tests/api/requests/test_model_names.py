"""The model field and the model lists (frontend-api.md 5)."""

from __future__ import annotations

import logging

import pytest

from Middleware.api.requests.request_fields import (
    advertised_ids,
    choose,
    parse_model_field,
    served_users,
    single_user,
)
from Middleware.common.errors import ClientRequestError, NotFound
from Middleware.config.loader import default_snapshot

SINGLE = [
    ("", None), (None, None), (5, None), ("gpt-4", None), ("bob:latest", None), ("novel", "novel"), ("novel:latest", "novel"), ("x:novel", "novel"),
    ("x:novel:latest", "novel"), ("x:none", None), ("mira", None), ("novel:latest:latest", None), ("..", None), ("x:../novel", None),
]  # fmt: skip
MULTI = [
    ("mira", ("mira", None)), ("mira:latest", ("mira", None)), ("mira:novel", ("mira", "novel")), ("mira:none", ("mira", None)),
    ("Mira", (None, None)), ("jo:novel", ("jo", "novel")), ("bob:novel", (None, None)), ("novel", (None, None)), (None, (None, None)),
]  # fmt: skip


@pytest.fixture
def two(configs, facts):
    configs("Users/jo.json", {"port": 5000})
    facts(users=("mira", "jo"))


@pytest.mark.parametrize(("value", "workflow"), SINGLE, ids=lambda v: str(v))
def test_single_user(configs, value, workflow):
    """Only the workflow can be picked; an unknown name is no error."""
    assert parse_model_field(value) == (None, workflow)
    assert choose(value, default_snapshot()) == ("mira", workflow)


@pytest.mark.parametrize(("value", "expected"), MULTI, ids=lambda v: str(v))
def test_several_users(two, value, expected):
    """The user must be named, exactly."""
    assert parse_model_field(value) == expected


def test_several_users_and_none_named(two):
    """18.18: the answer names them."""
    with pytest.raises(NotFound) as caught:
        choose("gpt-4", default_snapshot())
    assert str(caught.value) == (
        "model must name a configured user, as 'user' or 'user:workflow'; users: mira, jo"
    )
    assert (caught.value.param, caught.value.code) == ("model", "model_not_found")


@pytest.mark.parametrize("value", [None, "", " ", 7])
def test_several_users_and_no_name_at_all(two, value):
    """A request without a model is a wrong one; there is nothing to be found."""
    with pytest.raises(ClientRequestError) as caught:
        choose(value, default_snapshot())
    assert (caught.value.status_hint, caught.value.param, caught.value.code) == (400, "model", None)


def test_the_pointer_user_is_read_each_time(configs, facts):
    """Without `--User`."""
    facts(users=())
    configs("Users/_current-user.json", {"currentUser": "mira"})
    assert single_user(default_snapshot()) == "mira"
    configs("Users/_current-user.json", {"currentUser": "somebody"})
    assert single_user(default_snapshot()) == "somebody"


def test_a_broken_user_file_has_no_workflows(configs):
    """The name picks nothing; the request fails later, with the file's fault."""
    configs("Users/mira.json", "{")
    assert parse_model_field("x:novel") == (None, None)


class TestLists:
    def test_the_bare_user(self, configs):
        """When shared workflows are not allowed."""
        assert advertised_ids(default_snapshot()) == ["mira"]

    def test_shared_workflows(self, configs):
        """Behind the bare user, sorted, without those that begin with `_`."""
        configs("Users/mira.json", {"allowSharedWorkflows": True})
        configs("Workflows/_shared/atlas/x.json", [])
        configs("Workflows/_shared/_hidden/x.json", [])
        assert advertised_ids(default_snapshot()) == ["mira", "mira:atlas", "mira:novel"]

    @pytest.mark.parametrize("users", [("mira",), ("mira", "jo")], ids=["one user", "several"])
    def test_tools(self, configs, facts, users):
        """A workflow that is a tool is no chat model, unless its file says so; by name it can be picked."""
        facts(users=users)
        configs("Users/mira.json", {"allowSharedWorkflows": True})
        configs("Users/jo.json", {})
        configs("Workflows/_shared/tide/_mcpTool.json", {"description": "Tide."})
        configs("Workflows/_shared/both/_mcpTool.json", {"description": "Both.", "chat": True})
        listed = [name for name in advertised_ids(default_snapshot()) if name.startswith("mira")]
        assert listed == ["mira", "mira:both", "mira:novel"]
        assert parse_model_field("mira:tide")[1] == "tide"

    def test_a_folder_that_no_model_field_can_name(self, configs):
        """It is not listed: a colon cuts a name, and `:latest` is cut away."""
        configs("Users/mira.json", {"allowSharedWorkflows": True})
        configs("Workflows/_shared/a:b/x.json", [])
        configs("Workflows/_shared/latest/x.json", [])
        assert advertised_ids(default_snapshot()) == ["mira", "mira:novel"]

    def test_no_shared_workflow_is_there(self, configs):
        """The user still is."""
        configs(
            "Users/mira.json", {"allowSharedWorkflows": True, "sharedWorkflowsSubDirectoryOverride": "none"}
        )
        assert advertised_ids(default_snapshot()) == ["mira"]

    def test_several_users(self, two, configs, caplog):
        """Each bare name before its workflows; one whose file is broken is listed, with a warning."""
        configs("Users/jo.json", {"allowSharedWorkflows": True})
        configs("Users/mira.json", "{")
        with caplog.at_level(logging.WARNING):
            assert advertised_ids(default_snapshot()) == ["mira", "jo", "jo:novel"]
        assert "user mira cannot be listed" in caplog.text


def test_a_shared_folder_that_differs_in_case(configs):
    """It is used as everywhere else: its workflows are listed and can be picked."""
    configs(
        "Users/mira.json", {"sharedWorkflowsSubDirectoryOverride": "_Tools", "allowSharedWorkflows": True}
    )
    configs("Workflows/_tools/notes/_DefaultWorkflow.json", [])
    snapshot = default_snapshot()
    assert advertised_ids(snapshot) == ["mira", "mira:notes"]
    assert parse_model_field("mira:notes", snapshot) == (None, "notes")


class TestServedUsers:
    def test_the_pointers(self, configs, facts):
        """Without `--User`."""
        facts(users=())
        configs("Users/_current-user.json", {"currentUser": "mira"})
        assert served_users() == ["mira"]

    def test_a_pointer_that_cannot_be_read(self, configs, facts, caplog):
        """Nobody, and an error in the log."""
        facts(users=())
        assert served_users() == [] and "_current-user.json" in caplog.text
