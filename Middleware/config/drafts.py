"""The config tree with the texts of some files replaced by ones that are not saved: what a check or a dry run
of them sees.

Everything else is read through the tree itself, so nothing is read twice and nothing is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from Middleware.config.loader import ConfigSnapshot, ConfigTree, Version
from Middleware.config.validation import has_nodes


def draft_snapshot(snapshot: ConfigSnapshot, file: str, raw: bytes) -> ConfigSnapshot:
    """The tree as it is now, with these bytes in one file, which may be a new one."""
    return drafts_snapshot(snapshot, {file: raw})


def drafts_snapshot(snapshot: ConfigSnapshot, files: Mapping[str, bytes]) -> ConfigSnapshot:
    """The same for several files: path below the config root -> bytes."""
    return _DraftTree(snapshot.tree, files).snapshot()


class _DraftTree(ConfigTree):
    """A tree over another. `said`: what is told of files is told once for both."""

    def __init__(self, base: ConfigTree, files: Mapping[str, bytes]) -> None:
        super().__init__(base.root, base.check_workflow)
        self._base, self._raw = base, files
        self.said = base.said
        self._drafts = {file: Version(0) for file in files}
        for file, draft in self._drafts.items():
            self.fill(draft, file, files[file])

    def snapshot(self) -> ConfigSnapshot:
        snapshot = super().snapshot()
        self._base.keep_for(snapshot)
        return snapshot

    def version(self, relative: str, since: int) -> Version:
        return self._drafts.get(relative) or self._base.version(relative, since)

    def newest(self, relative: str) -> Version:
        return self._drafts.get(relative) or self._base.newest(relative)

    def listing(self, folder: str) -> tuple[list[str], list[str]]:
        """New files, and the folders that they bring, stand in the list."""
        folders, files = self._base.listing(folder)
        below = f"{folder}/" if folder else ""
        new = [file.removeprefix(below).partition("/") for file in self._drafts if file.startswith(below)]
        if not new:
            return folders, files
        new_folders = {name for name, deeper, _ in new if deeper}
        new_files = {name for name, deeper, _ in new if not deeper}
        return sorted({*folders, *new_folders}), sorted({*files, *new_files})

    def bytes_of(self, relative: str) -> bytes:
        raw = self._raw.get(relative)
        return self._base.bytes_of(relative) if raw is None else raw

    def is_folder(self, relative: str) -> bool:
        below = f"{relative.rstrip('/')}/"
        return self._base.is_folder(relative) or any(file.startswith(below) for file in self._drafts)

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
