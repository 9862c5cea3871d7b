"""What a text that may hold placeholders says before any run, by the values of its workflow file. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from Middleware.workflows.variables.format_text import Found, Origin, fill_pieces, join_pieces


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
