"""What stands in a dry run for the output of a script or a service: a text that anything can be taken out of.

In earnest the output may be an object; a template that takes `x.messages` out of it goes on here as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

_ASKED_BY_JINJA = ("unsafe_callable", "alters_data")
"""Marks of what a template may not call; a stub bears none."""
_ASKED_BY_THE_ENGINE = ("prompt_tokens", "thinking")
"""What came beside a model's text; a stub is no model's. A template finds them as items."""


class StubOutput(str):
    """The text. An attribute, key, item or call of it is a stub again, told to `tell` by its path."""

    _path: str
    _tell: Callable[[str], None]

    @classmethod
    def of(cls, text: str, path: str, tell: Callable[[str], None]) -> StubOutput:
        stub = cls(text)
        stub._path, stub._tell = path, tell
        return stub

    def __getattr__(self, name: str) -> StubOutput:
        if name.startswith("_") or name in (*_ASKED_BY_JINJA, *_ASKED_BY_THE_ENGINE):
            raise AttributeError(name)
        return self._part(f".{name}")

    def __getitem__(self, key: Any) -> Any:
        return self._part(f"[{key!r}]") if isinstance(key, str) else super().__getitem__(key)

    def __iter__(self) -> Iterator[str]:
        yield self

    def __call__(self, *_: Any, **__: Any) -> StubOutput:
        return self

    def _part(self, step: str) -> StubOutput:
        path = f"{self._path}{step}"
        self._tell(path)
        return StubOutput.of(f"[{path}]", path, self._tell)
