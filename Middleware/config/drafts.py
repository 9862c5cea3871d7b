"""The config tree with one file's text replaced by one that is not saved: what a check or a dry run of it
sees.

Everything else is read through the tree itself, so nothing is read twice and nothing is written.
"""

from __future__ import annotations

from typing import Any

from Middleware.config.loader import ConfigSnapshot, ConfigTree, Version
from Middleware.config.validation import has_nodes


def draft_snapshot(snapshot: ConfigSnapshot, file: str, raw: bytes) -> ConfigSnapshot:
    """The tree as it is now, with these bytes in one file, which may be a new one."""
    return _DraftTree(snapshot.tree, file, raw).snapshot()


class _DraftTree(ConfigTree):
    """A tree over another. `said`: what is told of files is told once for both."""

    def __init__(self, base: ConfigTree, file: str, raw: bytes) -> None:
        super().__init__(base.root, base.check_workflow)
        self._base, self._file, self._raw = base, file, raw
        self.said = base.said
        self._draft = Version(0)
        self.fill(self._draft, file, raw)

    def snapshot(self) -> ConfigSnapshot:
        snapshot = super().snapshot()
        self._base.keep_for(snapshot)
        return snapshot

    def version(self, relative: str, since: int) -> Version:
        return self._draft if relative == self._file else self._base.version(relative, since)

    def newest(self, relative: str) -> Version:
        return self._draft if relative == self._file else self._base.newest(relative)

    def listing(self, folder: str) -> tuple[list[str], list[str]]:
        """A new file, and the folders that it brings, stand in the list."""
        folders, files = self._base.listing(folder)
        below = f"{folder}/" if folder else ""
        if not self._file.startswith(below):
            return folders, files
        name, deeper, _ = self._file.removeprefix(below).partition("/")
        if deeper:
            return sorted({*folders, name}), files
        return folders, sorted({*files, name})

    def bytes_of(self, relative: str) -> bytes:
        return self._raw if relative == self._file else self._base.bytes_of(relative)

    def is_folder(self, relative: str) -> bool:
        return self._base.is_folder(relative) or self._file.startswith(f"{relative.rstrip('/')}/")

    def _lost_its_nodes(self, relative: str, document: Any) -> bool:
        """As for an edit of the file."""
        now = self._base.newest(relative)
        return now.is_good and has_nodes(now.document) and not has_nodes(document)


# --------------------------------------------------------------------------
# Config files for those who check them while a server runs.


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
