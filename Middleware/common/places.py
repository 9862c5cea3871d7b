"""How messages name a place in a config file: `file:line:column`, then the node, then the field. Pure.

Workflows/ana/Main.json:14:21: node 3 "Recall", endpointName: no endpoint "smal-model"
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Position:
    """Where a value stands in the text of its file, from 1; 0: not known. `title`: of the node around it."""

    line: int = 0
    column: int = 0
    title: str = ""


NOWHERE = Position()
_LONGEST_INDEX = 9
"""Digits. What is longer is a key: no list is that long, and Python reads no thousands of digits."""


def file_place(file: str, position: Position = NOWHERE) -> str:
    """`Users/ana.json:3:11`, or the file alone."""
    return f"{file}:{position.line}:{position.column}" if position.line else file


def subject(file: str, pointer: str, position: Position = NOWHERE) -> str:
    """`node 3 "Recall", endpointName` of a JSON pointer; empty for a whole file."""
    parts = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
    index = node_index(file, pointer)
    if index is None:
        return _field(parts)
    named = f' "{position.title}"' if position.title else ""
    return ", ".join(filter(None, [f"node {index + 1}{named}", _field(parts[_depth(parts) :])]))


def node_index(file: str, pointer: str) -> int | None:
    """The index of the node that a pointer leads to or into; None: to none."""
    parts = pointer.split("/")[1:]
    depth = _depth(parts) if file.startswith("Workflows/") else len(parts) + 1
    part = parts[depth - 1] if len(parts) >= depth else ""
    return int(part) if part.isdecimal() and len(part) <= _LONGEST_INDEX else None


def where(file: str, pointer: str, position: Position = NOWHERE) -> str:
    """The whole place, as it begins a message."""
    return ": ".join(filter(None, [file_place(file, position), subject(file, pointer, position)]))


def _depth(parts: list[str]) -> int:
    """How many parts of a workflow pointer lead to its node: `/nodes/2` or `/2`."""
    return 2 if parts[:1] == ["nodes"] else 1


def _field(parts: list[str]) -> str:
    """`routeOverrides.small.prompt`, `scoped_variables[0]`."""
    words = "".join(f"[{part}]" if part.isdecimal() and at else f".{part}" for at, part in enumerate(parts))
    return words.removeprefix(".")
