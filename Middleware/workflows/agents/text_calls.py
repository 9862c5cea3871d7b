"""Calls of tools that a model wrote as text, because its server has no parser for them.

Pure: text in, text out; what can still become a call is held. Source: spec agents.md 4, "Calls as text".
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TextCall:
    """A call as it was written. `arguments`: JSON text, as `read_call` takes it."""

    name: str
    arguments: str


class TextCallReader:
    """`names`: the tools that there are. `think_tags`: calls inside of a thought are no calls."""

    def __init__(self, names: Collection[str], think_tags: tuple[str, str] = ("<think>", "</think>")) -> None:
        self._names = names

    def feed(self, text: str) -> str:
        """What of the text so far may be shown now."""
        raise NotImplementedError

    def finish(self) -> tuple[str, list[TextCall] | None]:
        """The rest of the text, and the calls that stood at its end; None: there are none."""
        raise NotImplementedError
