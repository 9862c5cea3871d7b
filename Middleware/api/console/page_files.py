"""The files of the console's page: a list made once, so that no path is ever joined with what a client asks.

Apart from Help, whose index needs every node type: the door is there before the first request, Help need not
be. Source: spec console.md 2.5, 5.1.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from werkzeug.http import parse_accept_header

FOLDER = Path(__file__).parent / "static"
PAGE = "index.html"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}


class PageFile(NamedTuple):
    """What is sent, as it is or packed. `etag`: of this form, as the header says it."""

    content_type: str
    body: bytes
    etag: str
    is_packed: bool = False

    @property
    def headers(self) -> Mapping[str, str]:
        """Those that say which form this is."""
        return {"Vary": "Accept-Encoding", **({"Content-Encoding": "gzip"} if self.is_packed else {})}


class PageFiles:
    """The files of `folder` that a browser can use. Each is packed once, at the first look at it, and anew
    when it has changed. Source: spec workbench.md 16.9.
    """

    def __init__(self, folder: Path = FOLDER) -> None:
        self._packed: dict[Path, tuple[bytes, PageFile]] = {}
        self._files = {
            file.relative_to(folder).as_posix(): file
            for file in sorted(folder.rglob("*"))
            if file.suffix in _TYPES and file.is_file()
        }

    @property
    def names(self) -> list[str]:
        """All but the page itself."""
        return [name for name in self._files if name != PAGE]

    def page(self, accepted: str = "") -> PageFile | None:
        """`accepted`: what the browser's `Accept-Encoding` says."""
        return self._read_page_file(PAGE, accepted)

    def get(self, name: str, accepted: str = "") -> PageFile | None:
        """The file of a name of the list; None for any other."""
        return self._read_page_file(name, accepted) if name != PAGE else None

    def _read_page_file(self, name: str, accepted: str) -> PageFile | None:
        file = self._files.get(name)
        try:
            raw = None if file is None else file.read_bytes()
        except OSError:  # an update of the program takes files away while it runs
            return None
        if file is None or raw is None:
            return None
        kind = _TYPES[file.suffix]
        if not parse_accept_header(accepted).quality("gzip"):
            return PageFile(kind, raw, _etag_of(raw))
        known = self._packed.get(file)
        if known is None or known[0] != raw:
            packed = packed_form(file, raw)
            known = self._packed[file] = raw, PageFile(kind, packed, _etag_of(packed), is_packed=True)
        return known[1]


_COMMENT = re.compile(rb"^[ \t]*(?://.*|/\*(?:[^*]|\*(?!/))*\*/[ \t]*)$", re.M)
"""One that has its lines to itself."""
_TYPE = re.compile(rb"/\*\* @(?:type|param) \{(?:[^*]|\*(?!/))*\*/ ?")
"""One that says a type, within a line."""
_INDENT = re.compile(rb"^[ \t]+", re.M)
_IMPORT = re.compile(rb"""^import \{[^}"]*\} from(?= ")""", re.M)
_IMPORT_BLANK = re.compile(rb" ?([{},]) ?")
_STYLE_BLANK = re.compile(rb"""("[^"\n]*")|[ ]?([{};,>])[ ]?|(:)[ ]""")
"""Blanks that mean nothing in a style sheet, beside its signs; a text in quotes stays as it is. (One behind a
selector, `a :hover`, means something.)"""


def packed_form(file: Path, raw: bytes) -> bytes:
    """What is sent to a browser that unpacks. Our own scripts and style go without comments and indents,
    which are a third of them, the style and the names of imports without needless blanks too; each line stays
    where it is, as errors tell of it. Foreign code goes as it is: its comments are licences.
    """
    is_ours = file.suffix in (".js", ".css") and file.parent.name != "vendor"
    if is_ours:
        for comment in (_COMMENT, _TYPE):
            raw = comment.sub(lambda found: b"\n" * found[0].count(b"\n"), raw)
        raw = _INDENT.sub(b"", raw)
        raw = _IMPORT.sub(lambda found: _IMPORT_BLANK.sub(rb"\1", found[0]), raw)
    if is_ours and file.suffix == ".css":
        raw = _STYLE_BLANK.sub(lambda found: found[1] or found[2] or found[3], raw)
    return gzip.compress(raw, 9, mtime=0)


def _etag_of(body: bytes) -> str:
    return f'"{hashlib.sha256(body).hexdigest()[:16]}"'


def matches_etag(etag: str, if_none_match: str) -> bool:
    """Whether a browser has this version. Source: RFC 9110, 13.1.2."""
    held = [one.strip().removeprefix("W/") for one in if_none_match.split(",")]
    return etag in held or held == ["*"]
