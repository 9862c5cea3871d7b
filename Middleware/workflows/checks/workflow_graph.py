"""What a workflow does, as a graph: its nodes in rows, who uses whose output, where branches lead. Pure.

Made from the document and the handlers of its nodes; knows no node type by name and reads no file: where
names lead is asked of `Lookups`. Never raises, however wrong the document is. Source: spec console.md 9.3.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from Middleware.common.types import JsonObject, NodeConfig
from Middleware.config.validation import NOTE, WARNING, Finding
from Middleware.workflows.checks.workflow_check import (
    OVERRIDES,
    NodePlace,
    Written,
    names_filled,
    node_places,
    output_named,
    responder,
)
from Middleware.workflows.handlers.base.base_workflow_node_handler import ChildName
from Middleware.workflows.handlers.node_types import OLD_NAMES, known_type, node_handler
from Middleware.workflows.models.node_keys import DEFAULT_TYPE
from Middleware.workflows.processors.parallel_group import group_end, obstacles
from Middleware.workflows.variables.format_text import Found, Origin, fill_pieces, join_pieces
from Middleware.workflows.variables.workflow_variable_manager import LiveValues

# --------------------------------------------------------------------------
# What a text that may hold placeholders says before any run, by the values of its workflow file. Pure.


class _KnownValues:
    """The variables of a workflow file, and no others."""

    def __init__(self, variables: Mapping[str, Any]) -> None:
        self._variables = variables

    def find(self, name: str) -> Found | None:
        if name not in self._variables or name == "nodes":
            return None
        return Found(self._variables[name], live=True, origin=Origin.STATIC)


def known_text(value: object, variables: Mapping[str, Any]) -> str | None:
    """A name as it will be: as written, its variables filled, and those in their values; None: only a run can
    tell.
    """
    if not isinstance(value, str) or not value or "{" not in value:
        return value if isinstance(value, str) and value else None
    text = join_pieces(fill_pieces(value, _KnownValues(variables), second_pass=False).pieces)
    return text if text and "{" not in text else None


# --------------------------------------------------------------------------

IN_ORDER = "its group runs one node after the other"
ONE_AT_A_TIME = "the user's maxParallelNodes is 1"


class EndpointFacts(NamedTuple):
    """What is known of an endpoint by its name. None: it leads nowhere, or its file has faults. `addresses`:
    of its server, without secrets; empty for one that stays inside this program.
    """

    file: str | None = None
    model: str | None = None
    addresses: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Lookups:
    """Where the names of one file lead, for a user.

    `child`: the file of a workflow that a node names, None for none. `lines(pointer)`: first and last line.
    `user_variables`: the user's variables for all workflows. `max_parallel`: how many nodes run at once.
    """

    endpoint: Callable[[str], EndpointFacts]
    child: Callable[[ChildName], str | None]
    lines: Callable[[str], tuple[int, int]]
    user_variables: Mapping[str, Any] = field(default_factory=dict)
    max_parallel: int = 4


def workflow_graph(
    file: str, document: Any, lookups: Lookups, problems: Sequence[int | None] = ()
) -> JsonObject | None:
    """`{"responder", "rows", "nodes"}`; None for what has no nodes.

    `problems`: of each finding of the file the number of the node that it is about; nodes refer to them by
    index. What stands in the list of nodes and is no object is left out, but counts.
    """
    places = node_places(file, document)
    answering = responder(places)
    if answering is None:
        return None
    variables = document if isinstance(document, Mapping) else {}
    values = LiveValues(variables, lookups.user_variables)
    rows, alone = _rows(places, answering, values, lookups.max_parallel)
    numbers = {place.number for place in places}
    by_node: defaultdict[int | None, list[int]] = defaultdict(list)
    for index, number in enumerate(problems):
        by_node[number].append(index)
    nodes = []
    for place in places:
        written = list(names_filled(place.config, values))
        node = _node(place, answering.number, _Names(variables, lookups))
        node["alone"] = alone.get(place.number)
        node["uses"] = _uses(place.number, written, numbers)
        node["variables"] = _variables(written, variables)
        node["lines"] = list(lookups.lines(place.pointer))
        node["problems"] = by_node[place.number]
        nodes.append(node)
    return {"responder": answering.number, "rows": rows, "nodes": nodes}


@dataclass(frozen=True, slots=True)
class _Names:
    """What fills the names in a node: the file's own variables, then the lookups."""

    variables: Mapping[str, Any]
    lookups: Lookups

    def find_name(self, value: object) -> str | None:
        return known_text(value, self.variables)


def _node(place: NodePlace, answering: int, names: _Names) -> JsonObject:
    """The facts of one node that need no other node."""
    config = place.config
    written = config.get("type")
    group = config.get("parallelGroup")
    return {
        "n": place.number,
        "title": str(config.get("title") or config.get("agentName") or _type(written)),
        "type": _type(written),
        "known": written in (None, known_type(written), *OLD_NAMES),
        "endpoint": _endpoint(config.get("endpointName"), names),
        "preset": _preset(config, names),
        "answers": place.number == answering,
        "after": place.number > answering,
        "group": group if isinstance(group, str) and group else None,
        "alone": None,
        "children": _child_workflows(config, names.lookups),
        "uses": [],
        "variables": [],
    }


def _type(written: object) -> str:
    return written if isinstance(written, str) and written else DEFAULT_TYPE


def _endpoint(written: object, names: _Names) -> JsonObject | None:
    if not isinstance(written, str) or not written:
        return None
    name = names.find_name(written)
    facts = names.lookups.endpoint(name) if name else EndpointFacts()
    return {"name": name, "written": written, **facts._asdict(), "addresses": list(facts.addresses)}


def _preset(config: NodeConfig, names: _Names) -> str | None:
    """The preset's name, as written where only a run knows it."""
    written = config.get("preset") or config.get("presetName")
    return (names.find_name(written) or written) if isinstance(written, str) else None


def _child_workflows(config: NodeConfig, lookups: Lookups) -> list[JsonObject]:
    """The workflows that the node may run, by branch, and the branch that gives a text instead."""
    handler = node_handler(config.get("type"))
    children: list[JsonObject] = [
        {
            "label": child.label or _label(child.pointer),
            "workflow": child.name,
            "path": None if "{" in child.name else lookups.child(child),
            "text": False,
        }
        for child in handler.children(config)
    ]
    if handler.may_give_own_text(config):
        children.append({"label": "else", "workflow": None, "path": None, "text": True})
    return children


def _label(pointer: str) -> str:
    """The key by which a node chooses a child; empty for an only child."""
    _, _, key = pointer[1:].partition("/")
    return key.replace("~1", "/").replace("~0", "~")


def _uses(own: int, written: list[Written], numbers: set[int]) -> list[JsonObject]:
    """The outputs of nodes that node `own` uses, by itself or through a variable, once a pair of node and
    field. In a text for a child the number of a node that comes later is one of the child's.
    """
    used: dict[tuple[int, str], str] = {}
    for one in written:
        output, key = output_named(one.name), _field(one)
        if output and output[0] in numbers and (key not in OVERRIDES or output[0] < own):
            used.setdefault((output[0], key), output[1].lower())
    return [{"n": number, "what": what, "field": key} for (number, key), what in used.items()]


def _variables(written: list[Written], own: Mapping[str, Any]) -> list[str]:
    """The other names that stand in its texts, without repeats; not what only looks like one, as the braces
    of JSON in a text. Those of a text for a child may be known there alone.
    """
    names = (
        one.name
        for one in written
        if not one.through and _field(one) not in OVERRIDES and not output_named(one.name)
    )
    return [name for name in dict.fromkeys(names) if name.isidentifier() or name in own]


def _field(written: Written) -> str:
    """The node's field whose text names something."""
    return written.pointer.split("/")[1].replace("~1", "/").replace("~0", "~")


def _rows(
    places: Sequence[NodePlace], answering: NodePlace, values: LiveValues, max_parallel: int
) -> tuple[list[list[int]], dict[int, str]]:
    """The numbers of the nodes in rows, in order: one a row, or a whole group that runs together; and of each
    member of a group that does not why.
    """
    by_number = {place.number: place.config for place in places}
    nodes = [by_number.get(number, {}) for number in range(1, max(by_number) + 1)]
    rows: list[list[int]] = []
    alone: dict[int, str] = {}
    start = 0
    while start < len(nodes):
        end = group_end(nodes, start)
        members = list(range(start + 1, end + 1))
        reasons: dict[int, str] = {}
        if end > start + 1:
            reasons = dict(obstacles(nodes, start, end, answering.number - 1, values))
            if not reasons and max_parallel == 1:
                reasons = dict.fromkeys(range(start, end), ONE_AT_A_TIME)
        if reasons:
            alone |= {number: reasons.get(number - 1, IN_ORDER) for number in members}
            rows += [[number] for number in members]
        else:
            rows.append(members)
        start = end
    return [row for row in rows if row[0] in by_number], alone


# --------------------------------------------------------------------------
# Workflows that call themselves, directly or through others. Pure. Source: workflows.md 16.6.


def cycles(children: Mapping[str, list[tuple[str, bool]]]) -> Iterator[Finding]:
    """A warning for a circle of calls that no condition can end, a note for any other."""
    certain = {file: [c for c, conditional in calls if not conditional] for file, calls in children.items()}
    possible = {file: [c for c, _ in calls] for file, calls in children.items()}
    told: set[frozenset[str]] = set()
    for graph, level, message in (
        (certain, WARNING, "calls itself without a condition"),
        (possible, NOTE, "calls itself, under a condition"),
    ):
        for circle in _circles(graph):
            if frozenset(circle) not in told:
                told.add(frozenset(circle))
                names = " > ".join([*circle, circle[0]])
                yield Finding(circle[0], "", level, f"{message}: {names}")


def _circles(graph: Mapping[str, list[str]]) -> Iterator[list[str]]:
    """One circle for each edge that leads back (depth first, without recursion)."""
    done: set[str] = set()
    for start in graph:
        path: list[str] = []
        stack: list[tuple[str, bool]] = [(start, False)]
        while stack:
            file, leaving = stack.pop()
            if leaving:
                path.pop()
                done.add(file)
            elif file in path:
                yield path[path.index(file) :]
            elif file not in done:
                path.append(file)
                stack.append((file, True))
                stack.extend((child, False) for child in graph.get(file, ()))
