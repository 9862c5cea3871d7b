"""Names that differ from a file on disk in upper and lower case alone: who names them, told once.

A request logs a warning; the check of a tree keeps notes instead, for such a tree works. Source: workflows.md
16.3.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from Middleware.common.places import where
from Middleware.config.validation import NOTE, Finding

logger = logging.getLogger(__name__)


class Spelling:
    """One snapshot's teller. `said`: what the process has logged; `notes`: what a check keeps, or None."""

    __slots__ = ("_place", "notes", "said")

    def __init__(self, said: set[str]) -> None:
        self.said = said
        self.notes: list[Finding] | None = None
        self._place: tuple[str, str] = ("", "")

    @contextmanager
    def named_at(self, file: str, pointer: str) -> Iterator[None]:
        """What is found within is named there (a check knows; a request does not always)."""
        before, self._place = self._place, (file, pointer)
        try:
            yield
        finally:
            self._place = before

    def tell(self, wanted: str, found: str, named_at: tuple[str, str] | None = None) -> None:
        """`named_at`: file and JSON pointer of the name, where the caller knows it better."""
        file, pointer = named_at or self._place
        message = f"{wanted} does not exist; {found} is used, which differs in upper and lower case"
        if self.notes is not None:
            self.notes.append(Finding(file or found, pointer, NOTE, message))
        elif wanted not in self.said:
            logger.warning("%s", f"{where(file, pointer)}: {message}" if file else message)
        self.said.add(wanted)
