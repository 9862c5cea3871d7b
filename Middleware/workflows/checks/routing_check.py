"""A routing file by itself: categories that no answer can pick, and examples that say nothing. Pure; reads no
file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from Middleware.config.validation import json_pointer
from Middleware.config.workflows import BY_MEANING, Category, Routing
from Middleware.workflows.managers.categorization import matching_name


def lost_categories(categories: Sequence[Category]) -> Iterator[tuple[Category, str]]:
    """Categories that no answer can pick, and why."""
    earlier: list[tuple[str, str]] = []
    for category in categories:
        name = matching_name(category.name)
        winner = next((label for label, word in earlier if word in name), None)
        if len(name.split()) > 1:
            yield (
                category,
                "can never be chosen, because answers are compared word by word and this name "
                "contains a space",
            )
        elif winner is not None:
            yield (
                category,
                f"can never be chosen, because {winner!r} comes first and matches wherever this one does",
            )
        earlier.append((category.name, name))


def meaning_remarks(routing: Routing) -> Iterator[tuple[str, str]]:
    """(JSON pointer, what is odd) of a file that routes by meaning. Source: spec agents.md 8."""
    if routing.by_meaning is None:
        return
    known = [category for category in routing.categories if category.texts]
    if len(known) < 2:
        yield (
            json_pointer([BY_MEANING]),
            "has no effect, because it needs two categories that have a description or examples",
        )
    owners: dict[str, str] = {}
    for category in routing.categories:
        for index, example in enumerate(category.examples):
            pointer = json_pointer([category.name, "examples", index])
            owner = owners.setdefault(example.strip(), category.name)
            if not example.strip():
                yield pointer, "is blank and is ignored"
            elif owner != category.name:
                yield pointer, f"is also an example of {owner!r}, so it speaks for neither"
