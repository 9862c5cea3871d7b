"""The files of the console's page: a list made once, so that no path is ever joined with what a client asks.

Apart from Help, whose index needs every node type: the door is there before the first request, Help need not
be. Source: spec console.md 2.5, 5.1.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent / "static"
PAGE = "index.html"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}


class PageFile(NamedTuple):
    """What is sent. `etag`: as the header says it."""

    content_type: str
    body: bytes

    @property
    def etag(self) -> str:
        return f'"{hashlib.sha256(self.body).hexdigest()[:16]}"'


class PageFiles:
    """The files of `folder` that a browser can use."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._files = {
            file.relative_to(folder).as_posix(): file
            for file in sorted(folder.rglob("*"))
            if file.suffix in _TYPES and file.is_file()
        }

    @property
    def names(self) -> list[str]:
        """All but the page itself."""
        return [name for name in self._files if name != PAGE]

    def page(self) -> PageFile | None:
        return self._read_page_file(PAGE)

    def get(self, name: str) -> PageFile | None:
        """The file of a name of the list; None for any other."""
        return self._read_page_file(name) if name != PAGE else None

    def _read_page_file(self, name: str) -> PageFile | None:
        file = self._files.get(name)
        try:
            return None if file is None else PageFile(_TYPES[file.suffix], file.read_bytes())
        except OSError:  # an update of the program takes files away while it runs
            return None


def matches_etag(etag: str, if_none_match: str) -> bool:
    """Whether a browser has this version. Source: RFC 9110, 13.1.2."""
    held = [one.strip().removeprefix("W/") for one in if_none_match.split(",")]
    return etag in held or held == ["*"]
