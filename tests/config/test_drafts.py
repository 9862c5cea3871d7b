"""A tree with a text that is not saved."""

from __future__ import annotations

import gc
import json

import pytest

from Middleware.common.errors import ConfigError, ConfigMissing
from Middleware.config.drafts import draft_snapshot, drafts_snapshot
from Middleware.config.loader import ConfigTree

OLD, OTHER, NEW = "Workflows/mira/Old.json", "Workflows/mira/Other.json", "Workflows/_shared/new/Main.json"


@pytest.fixture
def tree(tmp_path):
    for file in (OLD, OTHER):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text('[{"title": "saved"}]')
    return ConfigTree(tmp_path)


class TestDrafted:
    def test_the_draft_stands_in_its_file_alone(self, tree):
        """For reading, for the checker, and for places; the disk and other views keep the old text."""
        saved = tree.snapshot()
        draft = draft_snapshot(saved, OLD, b'[{"title": "draft"}]')
        assert draft.read(OLD) == [{"title": "draft"}] == draft.inspect(OLD)[0]
        assert draft.text(OLD) == b'[{"title": "draft"}]'
        assert draft.read(OTHER) == [{"title": "saved"}] == saved.read(OLD) == tree.snapshot().read(OLD)
        assert json.loads((tree.root / OLD).read_text()) == [{"title": "saved"}]

    def test_what_is_read_already_is_not_read_again(self, tree):
        """The other files are those of the tree."""
        saved = tree.snapshot()
        assert draft_snapshot(saved, OLD, b"[]").read(OTHER) is saved.read(OTHER)

    def test_other_folders_are_those_of_the_disk(self, tree):
        """A draft brings nothing into them, whatever their names have in common."""
        draft = draft_snapshot(tree.snapshot(), NEW, b"[]")
        assert [draft.folders(each) for each in ("Endpoints", "Workflows/_sh", "Workflows/mira")] == [
            [],
            [],
            [],
        ]
        assert draft.files("Workflows/mira") == ["Old", "Other"]
        assert draft.folders("") == ["Workflows"]

    def test_several_files_stand_in_one_tree(self, tree):
        """New ones beside those that are there, each folder once."""
        beside = "Workflows/_shared/new/Child.json"
        draft = drafts_snapshot(tree.snapshot(), {OLD: b"[{}]", NEW: b"[]", beside: b"[{}, {}]"})
        assert [len(draft.read(file)) for file in (OLD, NEW, beside)] == [1, 0, 2]
        assert draft.read(OTHER) == [{"title": "saved"}]
        assert draft.folders("Workflows") == ["_shared", "mira"]
        assert draft.files("Workflows/_shared/new") == ["Child", "Main"]
        assert draft.files("Workflows/mira") == ["Old", "Other"]
        assert draft.exists("Workflows/_shared/new") and not draft.exists("Workflows/_shared/old")

    def test_a_name_in_another_case_is_logged_once_for_both(self, tree, caplog):
        """By the draft, and not again by the tree."""
        for view in (draft_snapshot(tree.snapshot(), OLD, b"[]"), tree.snapshot()):
            assert view.find(OTHER.lower()) == OTHER
        assert len(caplog.records) == 1

    def test_what_a_draft_began_with_is_kept_for_it(self, tree):
        """Though nobody else needs that version of another file any more."""
        tree.snapshot().read(OTHER)
        draft = draft_snapshot(tree.snapshot(), OLD, b'[{"title": "draft"}]')
        for number in range(2):
            (tree.root / OTHER).write_text(json.dumps([{"title": f"later {number}"}]))
            gc.collect()
            tree.snapshot().read(OTHER)
        assert draft.read(OTHER) == [{"title": "saved"}]

    def test_a_fault_of_the_draft_is_told(self, tree):
        """No older version takes its place, and the tree is not told of it."""
        tree.snapshot().read(OLD)
        draft = draft_snapshot(tree.snapshot(), OLD, b"[")
        with pytest.raises(ConfigError, match="not JSON"):
            draft.read(OLD)
        assert tree.snapshot().read(OLD) == [{"title": "saved"}]

    def test_a_draft_that_lost_its_nodes_is_a_fault(self, tree):
        """As an edit of the file would be."""
        with pytest.raises(ConfigError, match="found no nodes"):
            draft_snapshot(tree.snapshot(), OLD, b"[]").read(OLD)

    def test_a_new_file_stands_in_the_lists(self, tree):
        """With the folders that it brings."""
        draft = draft_snapshot(tree.snapshot(), NEW, b'[{"title": "new"}]')
        assert draft.folders("Workflows") == ["_shared", "mira"]
        assert draft.folders("Workflows/_shared") == ["new"]
        assert draft.files("Workflows/_shared/new") == ["Main"]
        assert draft.files("Workflows/mira") == ["Old", "Other"]
        assert (
            draft.exists("Workflows/_shared/new") and draft.exists(NEW) and not draft.exists("Workflows/_sha")
        )
        assert tree.snapshot().folders("Workflows") == ["mira"]
        with pytest.raises(ConfigMissing):
            tree.snapshot().read(NEW)
