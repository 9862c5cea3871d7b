"""Numbers follow their nodes: what is written anew in a workflow's text when a node comes in, moves or goes.

Gives changes of the text, not a text, so that an editor keeps its caret and its history. Pure; reads no file.
Source: spec workbench.md 2.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from Middleware.common.errors import ConfigError
from Middleware.common.types import JsonObject
from Middleware.config.json_positions import parse, positions
from Middleware.workflows.checks.output_places import (
    OutputPlace,
    names_in_variable,
    output_places,
    outputs_of_user,
    placeholders_filled,
)
from Middleware.workflows.checks.workflow_check import NodePlace, node_places
from Middleware.workflows.variables.workflow_variable_manager import LiveValues

NO_NODES = "this file has no list of nodes"
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_WORDS = {
    "Output": "the output",
    "Thinking": "the thoughts",
    "ToolCalls": "the tool calls",
    "Candidates": "the candidates",
}
_LETTER = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|.", re.DOTALL
)
_OUTSIDE_THE_PLANE = re.compile("[\U00010000-\U0010ffff]")


class TextChange(NamedTuple):
    """`insert` stands from `start` to `end` of the old text; offsets in UTF-16 units."""

    start: int
    end: int
    insert: str


@dataclass(frozen=True, slots=True)
class Renumbering:
    """`changes`: by place, none touches another. `changed`: the names, each once for each field:
    `{"node": <number before, null: a variable>, "field", "from", "to"}`. `lost`: sentences.
    """

    changes: list[TextChange] = field(default_factory=list)
    changed: list[JsonObject] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)


Moves = Mapping[int, int]
"""Number of a node -> its new number. Absent: it is removed."""


def node_count(text: str) -> int:
    """How many nodes stand in a workflow's text. Raises ConfigError for one that is no workflow."""
    return len(_nodes(_document(text)))


def moves_of_insert(count: int, at: int) -> Moves:
    """`at`: the number of the new node, from 1 to `count + 1`."""
    return {n: n + (n >= at) for n in range(1, count + 1)}


def moves_of_remove(count: int, at: int) -> Moves:
    return {n: n - (n > at) for n in range(1, count + 1) if n != at}


def moves_of_move(count: int, start: int, end: int) -> Moves:
    """The node `start` gets the number `end`."""
    order = [n for n in range(1, count + 1) if n != start]
    order.insert(end - 1, start)
    return {old: new for new, old in enumerate(order, 1)}


def renumber(text: str, moves: Moves, of_user: Mapping[str, Any] = _NOTHING) -> Renumbering:
    """What becomes of the names of outputs in a workflow's text. Raises ConfigError for one that is none.

    `of_user`: the user's variables for all workflows, which are told of and never changed. A reference that
    would lead nowhere stays as it is and is told in `lost`.
    """
    document = _document(text)
    nodes = len(_nodes(document))
    kept, lost = _sort_places([*output_places("", document, of_user)], moves, nodes)
    changed = {
        (place.node, _field(place), place.found.name): f"agent{moves[place.found.number]}{place.found.what}"
        for place in kept
    }
    return Renumbering(
        list(_text_changes(text, kept, moves)),
        [{"node": n, "field": where, "from": old, "to": new} for (n, where, old), new in changed.items()],
        [
            *dict.fromkeys(
                [*lost, *_lost_through_variables(document, moves), *_of_user(document, moves, of_user)]
            )
        ],
    )


def _document(text: str) -> Any:
    return parse(text.encode("utf-8", "replace"), "", half_characters=True)


def _nodes(document: Any) -> list[Any]:
    nodes = document.get("nodes") if isinstance(document, Mapping) else document
    if not isinstance(nodes, list):
        raise ConfigError(NO_NODES)
    return nodes


def _sort_places(
    places: Iterable[OutputPlace], moves: Moves, nodes: int
) -> tuple[list[OutputPlace], list[str]]:
    """Those that follow their node, and what is to say of those that would lead nowhere."""
    follow: list[OutputPlace] = []
    lost: list[str] = []
    for place in places:
        number, owner = place.found.number, place.node
        if number > nodes or (owner is not None and owner not in moves):
            continue
        new = moves.get(number)
        if owner is None:
            is_lost, follows = False, new is not None
        elif place.for_child and number >= owner:
            lost += _told_of_child(place, owner, moves)
            continue
        else:
            is_lost = number < owner and (new is None or new >= moves[owner])
            follows = new is not None and not is_lost
        if is_lost:
            lost.append(_sentence(owner, place.found.number, place.found.what, moves))
        elif follows and new != number:
            follow.append(place)
    return follow, lost


def _told_of_child(place: OutputPlace, owner: int, moves: Moves) -> Iterator[str]:
    """A name of the child's own that this workflow would fill itself from now on."""
    if place.found.number < moves[owner]:
        yield (
            f"node {owner} passes {{{place.found.name}}} to its child workflow, "
            "but then it would be filled here, because it names a node before this one"
        )


def _sentence(owner: int | None, number: int, what: str, moves: Moves, through: str = "") -> str:
    then = "which you remove" if number not in moves else "which would no longer run before it"
    by = f" through the variable '{through}'" if through else ""
    return f"node {owner} uses {_WORDS[what]} of node {number}{by}, {then}"


def _lost_through_variables(document: Any, moves: Moves) -> Iterator[str]:
    """Nodes to which a variable of the file brought an output that it could bring no more."""
    own = document if isinstance(document, Mapping) else {}
    values = LiveValues(own)
    for place in node_places("", document):
        if place.number in moves:
            yield from _lost_of_node(place, values, moves)


def _lost_of_node(place: NodePlace, values: LiveValues, moves: Moves) -> Iterator[str]:
    reached = values.texts_behind(placeholders_filled(place.config))
    for path, text in reached.items():
        for found in names_in_variable(text):
            new = moves.get(found.number)
            if found.number < place.number and (new is None or new >= moves[place.number]):
                yield _sentence(place.number, found.number, found.what, moves, str(path[0]))


def _of_user(document: Any, moves: Moves, of_user: Mapping[str, Any]) -> Iterator[str]:
    for variable, names in outputs_of_user(document, of_user).items():
        for found in names:
            if moves.get(found.number, 0) != found.number:
                yield (
                    f"the user's variable '{variable}' for all workflows names {{{found.name}}}; "
                    "it is not changed"
                )


def _field(place: OutputPlace) -> str:
    """The field below its node, or the variable."""
    parts = place.pointer.removeprefix("/nodes" if place.node is not None else "").split("/")[1:]
    return "/".join(parts[1:] if place.node is not None else parts)


# --------------------------------------------------------------------------
# From characters of a value to places in the text.


def _text_changes(text: str, places: Iterable[OutputPlace], moves: Moves) -> Iterator[TextChange]:
    by_text: dict[str, list[OutputPlace]] = {}
    for place in places:
        by_text.setdefault(place.pointer, []).append(place)
    spans = positions(text)
    found = []
    for pointer, names in by_text.items():
        start, end = spans.value(pointer)
        offsets = _offsets(text[start + 1 : end - 1])
        found += [
            (
                start + 1 + offsets[place.found.start],
                start + 1 + offsets[place.found.end],
                str(moves[place.found.number]),
            )
            for place in names
        ]
    yield from _in_utf16(text, sorted(found))


def _offsets(written: str) -> list[int]:
    """Character of a string -> where it stands in the text between its quotes."""
    if "\\" not in written:
        return list(range(len(written) + 1))
    return [*(match.start() for match in _LETTER.finditer(written)), len(written)]


def _in_utf16(text: str, changes: Iterable[tuple[int, int, str]]) -> Iterator[TextChange]:
    """Letters outside of the basic plane count twice there."""
    at = wide = 0
    for start, end, insert in changes:
        wide += len(_OUTSIDE_THE_PLANE.findall(text, at, start))
        at = start
        yield TextChange(start + wide, end + wide, insert)
