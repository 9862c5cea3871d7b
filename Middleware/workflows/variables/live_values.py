"""What stands behind a placeholder: texts of workflow and user-wide variables may hold placeholders
themselves.

For whoever looks at a file before it runs. Pure. Source: workflows.md 7.2, 7.5, 16.1 (c).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from Middleware.workflows.variables.format_text import MAX_DEPTH, Placeholder, placeholders
from Middleware.workflows.variables.providers import VARIABLES, Layer

_NOTHING: Mapping[str, Any] = MappingProxyType({})
_NOT_ALWAYS_THERE = (Layer.CATEGORY,)


def live_values(own: Mapping[str, Any], of_user: Mapping[str, Any] = _NOTHING) -> dict[str, Any]:
    """The values of the variables of a file and of its user; none that one of the program's own goes before.

    `own`: the document of the file, or its variables alone.
    """
    ours = {
        name: value for name, value in own.items() if name != "nodes" and not _is_hidden(name, Layer.WORKFLOW)
    }
    theirs = {name: value for name, value in of_user.items() if not _is_hidden(name, Layer.USER_WIDE)}
    return {**theirs, **ours}


def _is_hidden(name: str, layer: Layer) -> bool:
    provider = VARIABLES.get(name)
    return provider is not None and provider.layer > layer and provider.layer not in _NOT_ALWAYS_THERE


def names_behind(placeholder: Placeholder, values: Mapping[str, Any]) -> Iterator[str]:
    """The names that filling a placeholder looks up besides its own; those of its value first, then theirs.

    As deep as a run follows them; a circle is left where a run leaves it.
    """
    seen = {placeholder}
    level = [(placeholder, frozenset({placeholder.name}))]
    for _ in range(MAX_DEPTH):
        deeper = []
        for one, within in level:
            for other in placeholders(_text_at(one, values)):
                if other.name in within:
                    continue
                yield other.name
                if other not in seen:
                    seen.add(other)
                    deeper.append((other, within | {other.name}))
        level = deeper


def _text_at(placeholder: Placeholder, values: Mapping[str, Any]) -> str:
    """The text that is filled in turn; empty for a value that holds nothing to fill."""
    value = values.get(placeholder.name, "")
    for key in placeholder.path:
        try:
            value = value[key]
        except (LookupError, TypeError):
            return ""
    return value if isinstance(value, str) and "{" in value else ""


def names_looked_up(value: Any, values: Mapping[str, Any]) -> Iterator[str]:
    """The names behind every placeholder in the texts of a JSON value."""
    if isinstance(value, str):
        for placeholder in placeholders(value) if "{" in value else ():
            yield from names_behind(placeholder, values)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from names_looked_up(item, values)
    elif isinstance(value, list):
        for item in value:
            yield from names_looked_up(item, values)
