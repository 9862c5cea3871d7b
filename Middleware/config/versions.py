"""The states of one config file that running requests may still see. Values; nothing here reads a file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from Middleware.common.errors import ConfigError


@dataclass(slots=True)
class Version:
    """One state of one file. `since`: from when (ns) requests see it. Neither document nor error: it is
    gone.
    """

    since: int
    document: Any = None
    parsed: bool = False
    error: ConfigError | None = None
    missing: bool = False
    fingerprint: int = 0
    derived: dict[Any, Any] = field(default_factory=dict)

    @property
    def is_good(self) -> bool:
        return self.error is None and not self.missing


GONE = Version(0, missing=True)


@dataclass(slots=True)
class History:
    """The versions of one file that a running request may still see, oldest first."""

    key: tuple[int, ...] | None
    settled: bool
    versions: tuple[Version, ...]

    def at(self, since: int) -> Version:
        """What a request that began at `since` uses: its own version, or the last good one before it."""
        last = self._own(since)
        if self.versions[last].error is not None:
            return next((v for v in reversed(self.versions[:last]) if v.is_good), self.versions[last])
        return self.versions[last]

    def refusal_of_edit(self, since: int) -> ConfigError | None:
        """Why a request that began at `since` uses an older version than its own; None: it does not."""
        own = self.versions[self._own(since)]
        return None if self.at(since) is own else own.error

    def _own(self, since: int) -> int:
        """The index of the version that a request which began at `since` would see, good or not."""
        last = len(self.versions) - 1
        while last > 0 and self.versions[last].since > since:
            last -= 1
        return last
