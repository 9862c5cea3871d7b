"""Chats of a user of the config house: runs that are kept, and what memory holds."""

from __future__ import annotations

import pytest

from Middleware.services.discussion_store import MEMORIES, ChunkList, DiscussionStore, Entry
from tests.api.console.config_house import house
from tests.api.console.traced import run_of

__all__ = ["chats", "house", "ran", "remembered"]

WALL = 1_760_000_000.0


class KeptRuns:
    """What stands for a recorder: the runs, newest first."""

    def __init__(self):
        self.kept, self.row_words, self.seq = [], {}, 0

    def runs(self):
        return list(reversed(self.kept))

    def note_words(self, run_id, words):
        """Nothing."""


@pytest.fixture
def chats(house, tmp_path):
    """The house, with runs and the memories of discussions."""
    house.write(
        "Users/mira.json",
        {
            "port": 5000,
            "customWorkflowOverride": True,
            "customWorkflow": "Main",
            "discussionDirectory": str(tmp_path / "chats"),
        },
    )
    house.runs = KeptRuns()
    object.__setattr__(house.hub, "recorder", house.runs)
    object.__setattr__(house.hub, "served_users", lambda: ["mira", "jo"])
    house.root_of_chats = tmp_path / "chats"
    return house


def ran(chats, discussion="trip3", turn=1, *nodes, **facts):
    """A run that was kept."""
    number = len(chats.runs.kept)
    facts = {
        "discussion": discussion,
        "turn": turn,
        "wall": WALL + number,
        "ended": 0.5,
        "answered": 0.5,
        "keeps_text": True,
        "model": "mira",
        "user": "mira",
        **facts,
    }
    run = run_of(*nodes, **facts)
    run.id = f"r{number}"
    chats.runs.kept.append(run)
    return run


def remembered(chats, *texts, discussion="trip3"):
    store = DiscussionStore(chats.root_of_chats, discussion)
    memories = ChunkList(store, MEMORIES)
    for number, text in enumerate(texts):
        known = memories.load()
        memories.append(Entry(text, f"h{number}"), after=known[-1].hash if known else None)
    return store
