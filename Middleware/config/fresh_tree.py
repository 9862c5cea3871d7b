"""Config files for those who check them while a server runs.

A server goes on with the last good version of a file (`loader.py`); a check must say what is wrong with the
newest one, as `--validate` in a process of its own does. Nothing here is logged, and nothing is written.
"""

from __future__ import annotations

from typing import Any

from Middleware.config.loader import ConfigSnapshot, ConfigTree
from Middleware.config.versions import Version

_SETTLED_NS = 1_000_000_000
"""A file that changed less than this ago may change again and look the same."""


class FreshTree(ConfigTree):
    """A tree without memory: of an edited file only the newest version counts, however wrong."""

    def snapshot(self) -> ConfigSnapshot:
        """The files as they are now. What differs in case alone is noted, not logged."""
        snapshot = super().snapshot()
        snapshot.spelling.notes = []
        return snapshot

    def marks(self, files: list[str]) -> tuple[tuple[str, tuple[int, ...] | None], ...]:
        """What changes when one of the files does: each with its times and size, None for one that is not
        there.
        """
        return tuple((file, self._key(file)) for file in files)

    def is_settled(self, marks: tuple[tuple[str, tuple[int, ...] | None], ...]) -> bool:
        """Whether none of these files can change without its mark."""
        newest = max((max(key[0], key[2]) for _, key in marks if key), default=0)
        return self._clock() - newest > _SETTLED_NS

    def _still_needed(self, versions: tuple[Version, ...]) -> tuple[Version, ...]:
        return ()

    def _report_edit(self, relative: str, versions: tuple[Version, ...]) -> None:
        """The server's own tree tells of it."""

    def _lost_its_nodes(self, relative: str, document: Any) -> bool:
        return False
