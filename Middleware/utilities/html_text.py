"""The text of an HTML page. Pure, and linear in the page's length, however bad its HTML is.

The standard library's parser looks again and again to the end of a page with unclosed comments or tags, which
a hostile page can use; what is unclosed here takes the rest of the page, as browsers do. Source: spec
tools.md 3.4 and 11.3.
"""

from __future__ import annotations

import codecs
import html
import re
from collections import Counter
from collections.abc import Iterator

_SKIPPED = frozenset(["script", "style", "head", "noscript", "iframe"])
_SKIPPED_IN_BLOCKS = _SKIPPED | {"template", "svg", "object"}
_RAW = frozenset(["script", "style", "iframe"])
"""Their content holds no tags but their own end."""
_INLINE = frozenset(
    [
        "a",
        "abbr",
        "acronym",
        "b",
        "bdi",
        "bdo",
        "big",
        "cite",
        "code",
        "data",
        "del",
        "dfn",
        "em",
        "font",
        "i",
        "img",
        "ins",
        "kbd",
        "label",
        "mark",
        "q",
        "s",
        "samp",
        "small",
        "span",
        "strike",
        "strong",
        "sub",
        "sup",
        "time",
        "tt",
        "u",
        "var",
        "wbr",
    ]
)
_OPENING = re.compile(r"<(?:(/?)([A-Za-z][^\s/>]*+)|!--|[!/?])")
_TAG_REST = re.compile(r"(?:=\s*+(?:\"[^\"]*+\"|'[^']*+'|)|[^>=])*+>")
_RAW_END = {name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE) for name in _RAW}
_FEW_DIGITS = 8
_LONG_NUMBER = re.compile(r"&#([0-9]{8,}+)")
"""A reference to a character that Python may refuse to read as a number."""

Token = tuple[str, str]
"""(`text`, its text), (`start` or `end` or `empty`, name in lower case), or (`comment`, "")."""


def html_to_text(page: str, layout: str = "lines") -> str:
    """Layout `lines`: every piece of text between two tags is a line. `blocks`: only block elements break
    lines, inline ones join with a space. Scripts, styles and the like are left out.
    """
    lines: list[str] = []
    pieces: list[str] = []
    for piece in _visible(page, _SKIPPED_IN_BLOCKS if layout == "blocks" else _SKIPPED):
        if piece is not None and layout == "blocks":
            pieces.append(piece)
        elif piece is not None:
            lines.append(piece.strip())
        elif pieces:
            lines.append(" ".join(" ".join(pieces).split()))
            pieces = []
    lines.append(" ".join(" ".join(pieces).split()))
    return "\n".join(line for line in lines if line)


def _visible(page: str, skipped: frozenset[str]) -> Iterator[str | None]:
    """Texts outside the skipped elements; None where a block begins or ends."""
    inside: Counter[str] = Counter()
    for kind, value in _tokens(page):
        if kind == "text":
            if not inside:
                yield html.unescape(_LONG_NUMBER.sub(_short_number, value))
            continue
        if kind == "start":
            if value in skipped:
                inside[value] += 1
            elif value == "body":
                inside.pop("head", None)
        elif kind == "end" and value in inside:
            inside[value] -= 1
            if not inside[value]:
                del inside[value]
        if not inside and kind != "comment" and value not in _INLINE:
            yield None


def _short_number(reference: re.Match[str]) -> str:
    """The same character with few digits, or U+FFFD. Source: WHATWG HTML, 13.2.5.80."""
    digits = reference[1].lstrip("0") or "0"
    return f"&#{digits}" if len(digits) < _FEW_DIGITS else "&#xFFFD"


def _tokens(page: str) -> Iterator[Token]:
    at = text_from = 0
    while match := _OPENING.search(page, at):
        if match.start() > text_from:
            yield "text", page[text_from : match.start()]
        at = match.end()
        if name := (match[2] or "").lower():
            rest = _TAG_REST.match(page, at)
            if rest is None:
                return
            at = rest.end()
            if match[1]:
                yield "end", name
            elif name == "svg" and rest[0].endswith("/>"):  # what comes from XML closes itself
                yield "empty", name
            else:
                yield "start", name
            if not match[1] and name in _RAW:
                end = _RAW_END[name].search(page, at)
                if end is None:
                    return
                at = end.start()
        else:
            mark = "-->" if match[0] == "<!--" else ">"
            # `<!-->` and `<!--->` are whole comments, so the mark may overlap the opening.
            end_at = page.find(mark, at - 2 if mark == "-->" else at)
            if end_at < 0:
                return
            at = end_at + len(mark)
            yield "comment", ""
        text_from = at
    if text_from < len(page):
        yield "text", page[text_from:]


# --------------------------------------------------------------------------
# The characters of a page: which coding its bytes are in. Pure.


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
