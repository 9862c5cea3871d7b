"""The config tree of a check: the newest version of each file, however wrong."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from Middleware.common.errors import ConfigError
from Middleware.config.drafts import FreshTree

FILE = "Workflows/ana/Main.json"


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "Workflows" / "ana").mkdir(parents=True)
    return FreshTree(tmp_path)


def put(tree: FreshTree, text: str) -> Path:
    path = tree.root / FILE
    path.write_text(text, encoding="utf-8")
    return path


def test_a_broken_edit_is_what_counts(tree, caplog):
    """A server would go on with the version before, and say so in its log."""
    caplog.set_level(logging.INFO)
    put(tree, '[{"type": "Standard"}]')
    assert tree.snapshot().read(FILE) == [{"type": "Standard"}]
    put(tree, "[{")
    with pytest.raises(ConfigError, match="not JSON"):
        tree.snapshot().read(FILE)
    assert caplog.text == ""


def test_a_file_that_lost_its_nodes_is_read(tree):
    put(tree, '[{"type": "Standard"}]')
    tree.snapshot().read(FILE)
    put(tree, "[]")
    assert tree.snapshot().read(FILE) == []


def test_names_in_another_case_are_noted_not_logged(tree, caplog):
    put(tree, "[]")
    snapshot = tree.snapshot()
    assert snapshot.find(FILE.lower()) == FILE
    assert [note.file for note in snapshot.spelling.notes or ()] == [FILE]
    assert caplog.text == ""


def test_marks_change_with_the_files(tree):
    """Content, name and absence; what changed just now may change again unseen."""
    put(tree, "[]")
    before = tree.marks([FILE])
    assert tree.marks([FILE]) == before
    put(tree, "[1]")
    assert tree.marks([FILE]) != before
    assert tree.marks(["Workflows/none.json"]) == (("Workflows/none.json", None),)
    assert not tree.is_settled(tree.marks([FILE]))


@pytest.mark.parametrize(("age_ns", "settled"), [(1_000_000_000, False), (1_000_000_001, True)])
@pytest.mark.parametrize("moved", [-(10**10), 0, 10**10], ids=["set-back", "as-written", "set-ahead"])
def test_files_are_settled_when_more_than_a_second_old(tree, age_ns, settled, moved):
    """The later of the two times of the youngest of them counts; one that is not there counts for nothing."""
    path = put(tree, "[]")
    os.utime(path, ns=(written := os.stat(path).st_mtime_ns + moved, written))
    newest = max(written, os.stat(path).st_ctime_ns)
    later = FreshTree(tree.root, clock=lambda: newest + age_ns)
    assert later.is_settled(later.marks([FILE, "Workflows/none.json"])) is settled
    assert later.is_settled(later.marks(["Workflows/none.json"]))
