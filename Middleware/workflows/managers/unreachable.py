"""What can never have its turn, as a file shows: nodes behind a lock of their own run, lost categories.

Pure; reads no file. Source: spec workflows.md 4.3 and 11.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from Middleware.common.types import NodeConfig
from Middleware.config.workflows import Category
from Middleware.workflows.handlers.registry import node_handler
from Middleware.workflows.managers.categorization import matching_name


def repeated_locks(nodes: Sequence[NodeConfig]) -> Iterator[tuple[int, str]]:
    """(index, why) of each node that asks for a lock which its own run holds: the run ends there."""
    holders: dict[str, int] = {}
    for index, node in enumerate(nodes):
        lock = node_handler(node.get("type")).takes_lock(node)
        if lock is None:
            continue
        if lock in holders:
            yield index, f"node {holders[lock] + 1} holds this lock already, so the run always ends here"
        holders.setdefault(lock, index)


def lost_categories(categories: Sequence[Category]) -> Iterator[tuple[Category, str]]:
    """Categories that no answer can pick, and why."""
    earlier: list[tuple[str, str]] = []
    for category in categories:
        name = matching_name(category.name)
        winner = next((label for label, word in earlier if word in name), None)
        if len(name.split()) > 1:
            yield (
                category,
                "can never be picked: an answer is compared word by word, and this name has a blank",
            )
        elif winner is not None:
            yield category, f"can never be picked: {winner!r} stands earlier and fits wherever this one does"
        earlier.append((category.name, name))
