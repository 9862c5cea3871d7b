"""How a rule states a key that it reads: what may stand there, what holds without it, what it means.

    @rule(order=350, endpoint={"removeDiagnosticPrefix": FLAG("Remove `[DIAGNOSTIC]:` from the start.")})

The check of config files, the schemas of editors and the tests of the pages read this, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class CleaningKey:
    """One key of an endpoint file, of a node or of a user file.

    `shape`: JSON Schema (draft 2020-12) of its value. `default`: what holds without the key; None: nothing
    is stated. `strict`: a value of another shape is an error, else a warning. `of_models`: the key of a node
    means something only where a model is called.
    """

    shape: Mapping[str, Any]
    description: str = ""
    default: Any = None
    strict: bool = True
    of_models: bool = False

    def __call__(self, description: str, **changed: Any) -> CleaningKey:
        """The same kind of key with a description; by name any other field, e.g. `default=100`."""
        return replace(self, description=description, **changed)

    @property
    def is_switch(self) -> bool:
        """Whether the key turns something on."""
        return self.shape.get("type") == "boolean"


FLAG = CleaningKey({"type": "boolean"}, default=False, strict=False)
TEXT = CleaningKey({"type": "string"})
TEXTS = CleaningKey({"type": "array", "items": {"type": "string"}}, default=[])
TEXT_OR_TEXTS = CleaningKey({"type": ["array", "string"], "items": {"type": "string"}}, default=[])
"""A list of texts; a bare text counts as a list of one."""
COUNT = CleaningKey({"type": "integer", "minimum": 0})


def one_of(*words: str) -> CleaningKey:
    """A key that holds one of these words."""
    return CleaningKey({"enum": list(words)})
