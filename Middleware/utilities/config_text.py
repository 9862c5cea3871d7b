"""The text of a config file and its bytes: whatever its byte order mark and its line ends are, they stay."""

from __future__ import annotations

import codecs
import json
from collections.abc import Mapping

from Middleware.config.json_positions import positions

_MARK = "\ufeff"


def text_of(raw: bytes) -> str:
    """The text of a file's bytes, whatever they are: UTF-8, else as their first bytes say."""
    text = raw.decode(json.detect_encoding(raw), "replace").removeprefix(_MARK)
    return with_line_feeds(text)


def json_bytes(document: object) -> bytes:
    """The bytes of a new config file. Half a character, which UTF-8 cannot hold, becomes an escape, of
    which whoever reads the file says what is wrong."""
    try:
        return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()
    except UnicodeEncodeError:
        return (json.dumps(document, indent=2) + "\n").encode()


def with_line_feeds(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def like_old(text: str, old: bytes) -> bytes:
    """The bytes of a text with `\\n`: byte order mark, line ends and the end of the last line as in `old`.

    A text that is the old one gives the old bytes. Raises UnicodeEncodeError for half a character.
    """
    if text == text_of(old):
        return old
    before = old.decode(json.detect_encoding(old), "replace")
    if before:
        text = text.rstrip("\n") if not before.endswith(("\n", "\r")) else text
        text = f"{text}\n" if before.endswith(("\n", "\r")) and not text.endswith("\n") else text
    if 2 * before.count("\r\n") > before.count("\n"):
        text = text.replace("\n", "\r\n")
    mark = codecs.BOM_UTF8 if old.startswith(codecs.BOM_UTF8) else b""
    return mark + text.encode("utf-8")


def with_values(raw: bytes, values: Mapping[str, object]) -> bytes:
    """The bytes of a JSON config file in which the values at these JSON pointers are others; all else stays
    as it is written. A pointer that leads nowhere changes nothing.
    """
    text = text_of(raw)
    places = positions(text)
    found = [(place, value) for pointer, value in values.items() if (place := places.find(pointer))]
    for place, value in sorted(found, key=lambda one: one[0].start, reverse=True):
        text = text[: place.start] + json.dumps(value, ensure_ascii=False) + text[place.end :]
    return like_old(text, raw)
