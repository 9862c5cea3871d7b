"""A user with memory settings, a discussion with messages, and what its folder holds."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any

import pytest

from Middleware.common.types import Messages
from Middleware.services.discussion_store import ChunkList, DiscussionStore, Entries
from Middleware.utilities.hashing_utils import message_hash
from Middleware.workflows.memory.vector_store import VectorDatabase
from tests.workflows.conftest import House, ScriptedModel
from tests.workflows.handlers.conftest import bench, user_with
from tests.workflows.leases import leased_by_another

__all__ = ["bench", "user_with"]

SPEAKERS = ("user", "assistant")


def talk(count: int, words: str = "word") -> Messages:
    """`count` messages in turn: `word 0`, `word 1`, ..."""
    return [{"role": SPEAKERS[i % 2], "content": f"{words} {i}"} for i in range(count)]


def hash_of(number: int, words: str = "word") -> str:
    """Hash of message `number` of `talk`."""
    return message_hash({"content": f"{words} {number}"})


class Discussion:
    """Discussion `d` of user `ana`, whose memory settings are the keywords."""

    def __init__(self, house: House, model: ScriptedModel, root: Path) -> None:
        self.house, self.model = house, model
        self.store = DiscussionStore(root / "DiscussionIds", "d", install=root / "no-old-install")
        house.user["discussionIdMemoryFileWorkflowSettings"] = "Memory"
        self.settings()

    def settings(self, **fields: Any) -> None:
        self.house.write("Workflows/ana/Memory", {"endpointName": "chat", **fields})

    def turn(self, messages: Messages, *nodes: Any, **more: Any) -> str:
        """The answer of a workflow of these nodes (none: QualityMemory alone), all nodes run."""
        built = nodes or ({"type": "QualityMemory"},)
        say = [dict(message) for message in messages]
        return self.house.ask(*built, say=say, discussion_id="d", **more).text

    def entries(self, name: str = "memories.json") -> Entries:
        return ChunkList(self.store, name).load()

    @property
    def texts(self) -> list[str]:
        return [entry.text for entry in self.entries()]

    @property
    def hashes(self) -> list[str]:
        return [entry.hash for entry in self.entries()]

    def put(self, name: str, value: Any) -> Path:
        self.store.folder.mkdir(parents=True, exist_ok=True)
        path = self.store.folder / name
        path.write_text(value if isinstance(value, str) else json.dumps(value), "utf-8")
        return path

    def put_memories(self, *pairs: tuple[str, str], name: str = "memories.json") -> Path:
        return self.put(name, [{"text_block": text, "hash": covered} for text, covered in pairs])

    def leased(self, name: str = "memory") -> AbstractContextManager[None]:
        """Another thread does long work in the discussion."""
        return leased_by_another(self.store, name)

    def prompts(self) -> list[str]:
        """The user's text of each call, in order."""
        return [call.conversation[-1]["content"] for call in self.model.calls]


@pytest.fixture
def discussion(house: House, model: ScriptedModel, tmp_path: Path) -> Discussion:
    return Discussion(house, model, tmp_path)


@pytest.fixture
def echo() -> Callable[[Any], str]:
    """A model that answers `note: <what it was asked>`."""
    return lambda call: "note: " + call.conversation[-1]["content"]


@pytest.fixture
def ask(database: VectorDatabase) -> Callable[..., list[Any]]:
    """All rows of a statement, by a connection of its own. `database`: the test file's."""

    def run(statement: str, *values: Any) -> list[Any]:
        with closing(sqlite3.connect(database.path)) as connection:
            return connection.execute(statement, values).fetchall()

    return run
