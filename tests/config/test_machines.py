"""`Machines.json` beside the folders of the config tree (prompt-reuse.md 7.1)."""

from __future__ import annotations

import json

import pytest

from Middleware.common.errors import ConfigError
from Middleware.config.loader import ConfigTree
from Middleware.config.machines import machine_limit, machine_names
from Middleware.config.validation import check_file


@pytest.fixture
def said(tmp_path):
    """A snapshot of a tree whose Machines.json says this."""

    def made(content):
        (tmp_path / "Machines.json").write_text(json.dumps(content))
        return ConfigTree(tmp_path).snapshot()

    return made


def test_without_the_file_no_machine_has_a_limit(tmp_path):
    snapshot = ConfigTree(tmp_path).snapshot()
    assert machine_limit(snapshot, "desk") is None and machine_names(snapshot) == []


def test_the_limit_of_a_machine(said):
    """A machine without an entry, or with an empty one, has none."""
    snapshot = said({"desk": {"maxConcurrentRequests": 2}, "attic": {}})
    assert [machine_limit(snapshot, name) for name in ("desk", "attic", "cellar")] == [2, None, None]
    assert machine_names(snapshot) == ["desk", "attic"]


@pytest.mark.parametrize(
    ("content", "levels"),
    [
        ({"desk": {"maxConcurrentRequests": 1}}, []),
        ({}, []),
        ({"desk": {"maxConcurrentRequests": 0}}, ["error"]),
        ({"desk": {"maxConcurrentRequests": 2**31}}, ["error"]),
        ({"desk": {"maxConcurrentRequests": "1"}}, ["error"]),
        ({"desk": 1}, ["error"]),
        ({"desk": {"maxRequests": 1}}, ["warning"]),
        ([], ["error"]),
    ],
    ids=["limit", "empty", "none-at-once", "too-many", "text", "no-object", "unknown-key", "list"],
)
def test_the_file_is_checked(content, levels):
    assert [finding.level for finding in check_file("Machines.json", content)] == levels


def test_a_faulty_file_is_named(said):
    with pytest.raises(ConfigError, match=r"Machines\.json.*maxConcurrentRequests"):
        machine_limit(said({"desk": {"maxConcurrentRequests": 0}}), "desk")
