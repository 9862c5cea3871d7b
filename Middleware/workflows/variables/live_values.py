"""What stands behind a placeholder: texts of workflow and user-wide variables may hold placeholders
themselves.

For whoever looks at a file before it runs. Reads nothing. Source: workflows.md 7.2, 7.5, 16.1 (c).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from Middleware.workflows.variables.format_text import MAX_DEPTH, Placeholder, placeholders
from Middleware.workflows.variables.providers import VARIABLES, Layer

MOST_NAMES = 50_000
"""How many names are followed in all: texts that name each other over and over hold nobody up."""
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_NOT_ALWAYS_THERE = (Layer.CATEGORY,)


class LiveValues:
    """The variables of a file and of its user, without those that one of the program's own goes before.

    `own`: the document of the file, or its variables alone. One serves one look at a file.
    """

    def __init__(self, own: Mapping[str, Any], of_user: Mapping[str, Any] = _NOTHING) -> None:
        theirs = {name: value for name, value in of_user.items() if not _is_hidden(name, Layer.USER_WIDE)}
        ours = {name: value for name, value in own.items() if not _is_hidden(name, Layer.WORKFLOW)}
        self.values = {**theirs, **ours}
        self.values.pop("nodes", None)
        self._inside: dict[Placeholder, tuple[Placeholder, ...]] = {}
        self._left = MOST_NAMES

    def names_behind(self, placeholder: Placeholder) -> Iterator[str]:
        """The names that filling a placeholder looks up besides its own, each once; those of its value first,
        then theirs.

        As deep as a run follows them; a circle is left where a run leaves it.
        """
        seen, told = {placeholder}, {placeholder.name}
        level = [(placeholder, frozenset({placeholder.name}))]
        for _ in range(MAX_DEPTH):
            deeper = []
            for one, within in level:
                for other in self._placeholders_of(one):
                    self._left -= 1
                    if self._left < 0:
                        return
                    if other.name not in told:
                        told.add(other.name)
                        yield other.name
                    if other not in seen and other.name not in within:
                        seen.add(other)
                        deeper.append((other, within | {other.name}))
            level = deeper

    def _placeholders_of(self, placeholder: Placeholder) -> tuple[Placeholder, ...]:
        """Those of the text that is filled in turn; none for a value that holds nothing to fill."""
        if placeholder not in self._inside:
            text = _text_at(placeholder, self.values)
            self._inside[placeholder] = tuple(dict.fromkeys(placeholders(text))) if text else ()
        return self._inside[placeholder]

    def names_looked_up(self, value: Any) -> Iterator[str]:
        """The names behind every placeholder in the texts of a JSON value."""
        if isinstance(value, str):
            for placeholder in dict.fromkeys(placeholders(value)) if "{" in value else ():
                yield from self.names_behind(placeholder)
        elif isinstance(value, Mapping):
            for item in value.values():
                yield from self.names_looked_up(item)
        elif isinstance(value, list):
            for item in value:
                yield from self.names_looked_up(item)


def _is_hidden(name: str, layer: Layer) -> bool:
    provider = VARIABLES.get(name)
    return provider is not None and provider.layer > layer and provider.layer not in _NOT_ALWAYS_THERE


def _text_at(placeholder: Placeholder, values: Mapping[str, Any]) -> str:
    value = values.get(placeholder.name, "")
    for key in placeholder.path:
        try:
            value = value[key]
        except (LookupError, TypeError):
            return ""
    return value if isinstance(value, str) and "{" in value else ""
