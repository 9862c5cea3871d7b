"""Who sends a request, as its key says: made at the front door, read by gates, runs and lists.

The context variable mirrors it for what is asked before a request has a context: which users are there.
Source: spec keys.md 2, 5.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

NO_NAME = "-"
"""The name of all whom no entry of a keys file names: `--require-api-key` keys, the console, nobody."""
PEOPLE, BACKGROUND = "people", "background"
"""The classes of turns."""


@dataclass(frozen=True, slots=True)
class Asker:
    """One request's. `name`: of its key's entry, for logs, metrics and pages. `owner`: whose its ids,
    cancels and stored responses are, `key <name>` or `hash <hash>`; empty: there is no keys file, and nobody
    asks. `key`: what the client sent, a secret. `entry`: of the keys file (a `KeyEntry`; `common` does not
    look into it), None: no file names the key. `turns_value`: the SHA-256 of the value of the header that the
    entry's `turnsBy` names.
    """

    name: str = NO_NAME
    owner: str = ""
    key: str | None = field(default=None, repr=False)
    entry: Any = field(default=None, repr=False)
    turns_value: str = field(default="", repr=False)

    @property
    def turn_name(self) -> str:
        """Whose turn it is in a fair queue: the key's name, with `turnsBy` the name and the value. A value
        cannot look like a key's name: names have no blank.
        """
        return f"{self.name} {self.turns_value}" if self.turns_value else self.name

    @property
    def shown_name(self) -> str:
        """The name for logs, traces, pages and the history: of the key, with `turnsBy` also the beginning of
        the value's SHA-256; empty: no file names the key. Source: spec operate.md 5.
        """
        if self.entry is None:
            return ""
        return f"{self.name}/{self.turns_value[:8]}" if self.turns_value else self.name

    @property
    def folder(self) -> str | None:
        """Where the key's entry says that its discussions lie, `""` with those of no key; None: it does not
        say.
        """
        folder: str | None = self.entry.folder if self.entry is not None else None
        return folder

    @property
    def is_background(self) -> bool:
        """Whether it lets people go first."""
        return self.entry is not None and self.entry.priority == BACKGROUND


ANYBODY = Asker()
"""Who asks where no key is needed and none was sent, and the console."""

AT_CONSOLE = Asker(owner="console")
"""Who runs something from the console, where there is a keys file."""

_CURRENT: ContextVar[Asker | None] = ContextVar("asker", default=None)


def current_asker() -> Asker | None:
    """Who sends the request that is worked on; None: no keys file, or no request."""
    return _CURRENT.get()


def set_asker(asker: Asker | None) -> None:
    """From here on it is the current one, until the block of the one before ends; None: there is none."""
    _CURRENT.set(asker)


@contextmanager
def enter_asker(asker: Asker) -> Iterator[Asker]:
    """Inside the block `asker` is the current one."""
    token = _CURRENT.set(asker)
    try:
        yield asker
    finally:
        _CURRENT.reset(token)
