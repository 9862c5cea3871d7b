"""How far the summary of a compactor reaches."""

from __future__ import annotations

import pytest

from Middleware.common.errors import Forbidden
from Middleware.services.compacted_messages import OLD_END, OLD_FILE, REACH_FILE, summary_end
from Middleware.services.discussion_store import ChunkList, DiscussionStore, Entry
from Middleware.utilities.encryption_utils import derive_key


@pytest.fixture
def store(tmp_path):
    return DiscussionStore(tmp_path / "DiscussionIds", "d", install=tmp_path / "install")


def test_its_last_message(store):
    """By its hash; what stands behind the summary is its boundary."""
    ChunkList(store, OLD_FILE).replace(Entry("They met.", "h1"), Entry("", "h2"))
    assert summary_end(store) == "h1"


@pytest.mark.parametrize(("stored", "end"), [("7:h1", "7:h1"), ("7:h0", "h1")])
def test_its_place(store, stored, end):
    """Where it is that of this summary: a crash may have left that of the one before."""
    ChunkList(store, OLD_FILE).replace(Entry("They met.", "h1"), Entry("", "h2"))
    ChunkList(store, REACH_FILE).replace(Entry("digest", "3:h0"), Entry(OLD_END, stored))
    assert summary_end(store) == end


def test_without_a_summary_nowhere(store):
    assert summary_end(store) == ""


def test_what_the_disk_does_not_give_is_none(store, caplog):
    """The answer goes on; the log says what is missing."""
    store.make_folder()
    (store.folder / OLD_FILE).mkdir()
    assert summary_end(store) == ""
    assert "the window cannot follow the summary" in caplog.text


def test_another_keys_summary_is_not_read(tmp_path):
    facts = {"key_hash": "62af8704764faf8e", "install": tmp_path / "install"}
    stores = [
        DiscussionStore(tmp_path, "d", encryption_key=derive_key(key, "ana"), **facts) for key in ("a", "b")
    ]
    ChunkList(stores[0], OLD_FILE).replace(Entry("They met.", "h1"))
    with pytest.raises(Forbidden):
        summary_end(stores[1])
