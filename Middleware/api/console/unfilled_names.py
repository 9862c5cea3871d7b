"""What is known besides a run, for the sentences about it: the gate, earlier calls, names that nobody fills.

Source: spec console.md 8.4.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property, partial
from typing import Any

from Middleware.api.console.left_places import left_placeholder
from Middleware.api.console.stood_out import Around, no_calls
from Middleware.api.console.view_contract import Hub
from Middleware.common.errors import ConfigError
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.users import load_user
from Middleware.services.node_trace import NodeTrace
from Middleware.workflows.checks.workflow_check import WorkflowReach, variable_findings

_NAME = re.compile(r"\{([^{}]+)\}")
_HINT = re.compile(r" \(did you mean .+\?\)$")
_LATE = "is not known yet"
_EARLY = "is not known here"


def around_of(hub: Hub) -> Around:
    """What the server knows now. Configs are read when they are asked for."""
    calls = hub.hour.calls if hub.hour is not None else no_calls

    def model_before(where: str, unix: float) -> str:
        return hub.hour.model_before(where, unix) if hub.hour is not None else ""

    place = partial(left_placeholder, hub.recorder.runs)
    return Around(hub.gate()["limit"], calls, Unfilled(hub), place, model_before)


class Unfilled:
    """The names in a node's texts that look like variables and are none, each once with why.

    The check of the files (`variable_findings`), asked about a node that ran: what a caller may pass is
    taken to be there, and of a file that was changed since only what the node itself shows is told.
    """

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._known: dict[tuple[str, int, int], tuple[NodeTrace, dict[str, str]]] = {}

    def __call__(self, user: str, node: NodeTrace) -> Iterable[tuple[str, str]]:
        """Runs of one file share its nodes: each is looked at once."""
        key = (user, id(node.fields), node.number)
        if key not in self._known:
            self._known[key] = (node, self._names(user, node))  # with the node, whose id it is
        return self._known[key][1].items()

    def _names(self, user: str, node: NodeTrace) -> dict[str, str]:
        """Name -> why it has no value."""
        told: dict[str, str] = {}
        for message in self._messages(user, node):
            found = _NAME.search(message)
            if found is not None:
                told.setdefault(found[1], _why(message))
        return told

    def _messages(self, user: str, node: NodeTrace) -> Iterator[str]:
        document = self._document(node)
        nodes: list[Mapping[str, Any]] = [{}] * (node.number - 1) + [node.fields]
        reach = WorkflowReach(self._user_variables(user), inputs=None, categorises=True)
        own = {key: value for key, value in document.items() if key != "nodes"} if document else {}
        for finding in variable_findings(node.workflow, {**own, "nodes": nodes}, reach):
            if document is not None or _LATE in finding.message:
                yield finding.message

    def _document(self, node: NodeTrace) -> Mapping[str, Any] | None:
        """The node's file, if the node still stands in it as it ran. A bare list has no variables."""
        try:
            read = self._snapshot.read(node.workflow)
        except ConfigError:
            return None
        document = read if isinstance(read, Mapping) else {"nodes": read}
        nodes = document.get("nodes")
        here = nodes[node.number - 1 : node.number] if isinstance(nodes, list) else []
        return document if here == [node.fields] else None

    def _user_variables(self, user: str) -> frozenset[str]:
        try:
            return frozenset(load_user(self._snapshot, user).user_wide_workflow_variables)
        except ConfigError:
            return frozenset()

    @cached_property
    def _snapshot(self) -> ConfigSnapshot:
        return self._hub.snapshot()


def _why(message: str) -> str:
    """The check's sentence as a half one: `is not known yet`."""
    for known in (_LATE, _EARLY):
        if known in message:
            return known
    hint = _HINT.search(message)
    return "is not a variable" + (hint[0] if hint else "")
