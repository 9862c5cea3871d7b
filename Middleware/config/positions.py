"""Where the values of a JSON text stand, and which keys it holds twice. Pure.

Nothing here is asked while all is well: positions are worked out when there is something to tell.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from Middleware.common.errors import ConfigError
from Middleware.common.places import NOWHERE, Position, node_index
from Middleware.config.tolerant_json import parse, without_comments
from Middleware.config.validation import WARNING, Finding, json_pointer

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
_REMARK = re.compile(r"_|//|comment|displayOnlyComment|description", re.IGNORECASE)


@dataclass(slots=True)
class _Holder:
    """An object or list whose end is not reached. `key`: of the value that comes next."""

    pointer: str
    is_object: bool
    key: str | int | None = 0
    seen: set[str] = field(default_factory=set)

    def member(self) -> str:
        return self.pointer + json_pointer([self.key])

    def next(self) -> None:
        """A comma: the next member begins."""
        self.key = None if self.is_object else self.key + 1 if isinstance(self.key, int) else 0


@dataclass(frozen=True, slots=True)
class Layout:
    """JSON pointer -> offset of the value; the pointers of keys that stand twice in one object."""

    text: str
    document: Any
    offsets: dict[str, int]
    twice: tuple[str, ...]

    def position(self, file: str, pointer: str) -> Position:
        """Of the value, or of the nearest that holds it."""
        if isinstance(self.document, list):
            pointer = pointer.removeprefix("/nodes")
        title = self._title(node_index(file, pointer))
        while pointer and pointer not in self.offsets:
            pointer = pointer.rpartition("/")[0]
        at = self.offsets.get(pointer, 0)
        return Position(self.text.count("\n", 0, at) + 1, at - self.text.rfind("\n", 0, at), title)

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
    text = raw.decode("utf-8-sig")
    offsets: dict[str, int] = {}
    twice: list[str] = []
    holders: list[_Holder] = []
    for match in _TOKEN.finditer(without_comments(text)):
        _take(match, holders, offsets, twice)
    return Layout(text, document, offsets, tuple(twice))


def _take(match: re.Match[str], holders: list[_Holder], offsets: dict[str, int], twice: list[str]) -> None:
    """One token, in its place."""
    token, holder = match.group(), holders[-1] if holders else None
    if token in "]}":
        holders.pop()
    elif token == "," and holder:
        holder.next()
    elif holder and holder.key is None:
        holder.key = str(json.loads(token, strict=False))
        if holder.key in holder.seen:
            twice.append(holder.member())
        holder.seen.add(holder.key)
    elif token != ":":
        pointer = holder.member() if holder else ""
        offsets[pointer] = match.start()
        if token in "{[":
            holders.append(_Holder(pointer, token == "{", None if token == "{" else 0))


def position_in(raw: bytes, file: str, pointer: str) -> Position:
    """Where a pointer leads in a file's bytes; nowhere in what is no JSON."""
    found = layout(raw)
    return found.position(file, pointer) if found else NOWHERE


def placed(findings: Iterable[Finding], raw: bytes) -> list[Finding]:
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
    keys = [(pointer, pointer.rpartition("/")[2]) for pointer in (found.twice if found else ())]
    return [
        Finding(file, pointer, WARNING, f"the key {key!r} stands twice in this object; the last one counts")
        for pointer, key in keys
        if not _REMARK.match(key)
    ]
