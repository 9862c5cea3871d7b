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
    def good(self) -> bool:
        return self.error is None and not self.missing


GONE = Version(0, missing=True)


@dataclass(slots=True)
class History:
    """The versions of one file that a running request may still see, oldest first."""

    key: tuple[int, ...] | None
    settled: bool
    versions: tuple[Version, ...]

    def at(self, since: int) -> Version:
        versions = self.versions
        last = len(versions) - 1
        while last > 0 and versions[last].since > since:
            last -= 1
        if versions[last].error is not None:
            return next((v for v in reversed(versions[:last]) if v.good), versions[last])
        return versions[last]
