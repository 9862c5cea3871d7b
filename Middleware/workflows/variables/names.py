"""Which value a name has: configured names and `providers.py`, in the order of precedence of workflows.md
7.5.

Values are made when they are asked for, once a substitution.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from Middleware.workflows.variables.format_text import Found, Origin
from Middleware.workflows.variables.providers import VARIABLES, Layer, View
from Middleware.workflows.variables.source import VariableSource


class AllNames:
    """Every variable of a node, for its format and Jinja texts."""

    def __init__(self, source: VariableSource) -> None:
        self._source = source
        self._view = View(source)
        self._found: dict[str, Found | None] = {}

    def find(self, name: str) -> Found | None:
        if name not in self._found:
            self._found[name] = self._look_up(name)
        return self._found[name]

    def _look_up(self, name: str) -> Found | None:
        source = self._source
        rank = self._rank(name)
        if rank < Layer.NODES and (made := _find_made(name, _of_nodes(source))):
            return made
        if rank > Layer.WORKFLOW:
            return self._find_provided(name, Origin.RUN)
        if name in source.workflow_variables:
            return _find_configured(name, source.workflow_variables)
        if rank == Layer.DATE:
            return self._find_provided(name, Origin.STATIC)
        return _find_configured(name, source.user.user_wide_workflow_variables)

    def _rank(self, name: str) -> int:
        """The layer of a name of `providers.py` that exists for this node, else 0."""
        provider = VARIABLES.get(name)
        return provider.layer if provider is not None and self._view.has(provider.layer) else 0

    def _find_provided(self, name: str, origin: Origin) -> Found:
        return Found(VARIABLES[name].value(self._view), live=False, origin=origin)


class EarlyNames:
    """Workflow variables and agent inputs (which win), for fields read before the model is loaded."""

    def __init__(self, source: VariableSource, *, with_outputs: bool) -> None:
        self._source = source
        self._of_nodes = _of_nodes(source) if with_outputs else (source.agent_inputs,)

    def find(self, name: str) -> Found | None:
        return _find_made(name, self._of_nodes) or _find_configured(name, self._source.workflow_variables)


def _of_nodes(source: VariableSource) -> tuple[Mapping[str, Any], ...]:
    return (source.agent_outputs, source.agent_inputs, source.thoughts)


def _find_made(name: str, of_nodes: tuple[Mapping[str, Any], ...]) -> Found | None:
    for values in of_nodes:
        if name in values:
            return Found(values[name], live=False, origin=Origin.RUN)
    return None


def _find_configured(name: str, values: Mapping[str, Any]) -> Found | None:
    return Found(values[name], live=True, origin=Origin.STATIC) if name in values else None
