"""Findings at their places in a file's bytes, and the keys that it holds twice. Pure.

Nothing here is asked while all is well: positions are worked out when there is something to tell.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from Middleware.common.errors import ConfigError
from Middleware.common.places import NOWHERE, Position, node_index
from Middleware.config.json_positions import Positions, positions
from Middleware.config.tolerant_json import parse
from Middleware.config.validation import WARNING, Finding

_REMARK = re.compile(r"_|//|comment|displayOnlyComment|description", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Layout:
    """A file's document and the map of its text."""

    document: Any
    map: Positions

    def position(self, file: str, pointer: str) -> Position:
        """Of the value, or of the nearest that holds it."""
        if isinstance(self.document, list):
            pointer = pointer.removeprefix("/nodes")
        title = self._title(node_index(file, pointer))
        return Position(*self.map.line_column(self.map.value(pointer)[0]), title)

    def _title(self, index: int | None) -> str:
        nodes = self.document.get("nodes") if isinstance(self.document, Mapping) else self.document
        if index is None or not isinstance(nodes, list) or index >= len(nodes):
            return ""
        node = nodes[index]
        return str(node.get("title") or node.get("agentName") or "") if isinstance(node, Mapping) else ""


@lru_cache(maxsize=32)
def layout(raw: bytes) -> Layout | None:
    """The layout of a file's bytes; None for what is no JSON."""
    try:
        document = parse(raw, "")
    except ConfigError:
        return None
    return Layout(document, positions(raw.decode("utf-8-sig")))


def position_in(raw: bytes, file: str, pointer: str) -> Position:
    """Where a pointer leads in a file's bytes; nowhere in what is no JSON."""
    found = layout(raw)
    return found.position(file, pointer) if found else NOWHERE


def place_findings(findings: Iterable[Finding], raw: bytes) -> list[Finding]:
    """The findings of one file with their positions; those that have one keep it."""
    return [
        finding
        if finding.position.line
        else replace(finding, position=position_in(raw, finding.file, finding.pointer))
        for finding in findings
    ]


def repeated_keys(raw: bytes, file: str) -> list[Finding]:
    """A warning for each key that stands twice in one object; a remark may."""
    found = layout(raw)
    keys = [(pointer, pointer.rpartition("/")[2]) for pointer in (found.map.twice() if found else ())]
    return [
        Finding(file, pointer, WARNING, f"the key {key!r} stands twice in this object; the last one counts")
        for pointer, key in keys
        if not _REMARK.match(key)
    ]
