"""The characters of a page: which coding its bytes are in. Pure.

Source: spec tools.md 11.3; WHATWG Encoding.
"""

from __future__ import annotations

import codecs
import re

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_IN_HEADER = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_IN_META = re.compile(rb"<meta[^>]{1,200}?charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_HEAD_BYTES = 1024
_OF_PAGES = re.compile(
    r"utf-8(-sig)?|utf-(16|32)(-[bl]e)?|ascii|iso8859-\d+|cp\d+|koi8-[rtu]|mac-\w+|gb\w+|hz|big5\w*|euc_\w+"
    r"|iso2022_\w+|shift_jis\w*|tis-620|johab|kz1048|ptcp154"
)
"""Python's names of codings that pages are in. Others (UTF-7, Punycode, escapes) are slow, or hide markup."""


def decode_body(body: bytes, content_type: str = "") -> str:
    """The text of a body: by the header, else the byte-order mark, else `<meta charset>`, else UTF-8 if it is
    valid, else Windows-1252. Bytes that do not fit are replaced.
    """
    mark, marked = next((pair for pair in _MARKS if body.startswith(pair[0])), (b"", None))
    named = _IN_HEADER.search(content_type)
    name = (_known_codec(named[1]) if named else None) or marked or _of_meta(body) or _guess_encoding(body)
    text = body.decode(name, "replace")
    return text.removeprefix("\ufeff") if mark else text


def _of_meta(body: bytes) -> str | None:
    found = _IN_META.search(body[:_HEAD_BYTES])
    name = _known_codec(found[1].decode("ascii", "replace")) if found else None
    # A page whose meta tag could be read as ASCII is not in UTF-16, whatever it says.
    return "utf-8" if name and name.startswith(("utf-16", "utf-32")) else name


def _known_codec(name: str) -> str | None:
    """Python's name of a text coding; browsers read Latin-1 and ASCII as Windows-1252."""
    try:
        found = codecs.lookup(name)
    except (LookupError, ValueError):
        return None
    if not _OF_PAGES.fullmatch(found.name):
        return None
    return "cp1252" if found.name in ("iso8859-1", "ascii") else found.name


def _guess_encoding(body: bytes) -> str:
    try:
        body.decode("utf-8")
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8"
