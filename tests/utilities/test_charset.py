"""The characters of a page, whatever its server says of them."""

from __future__ import annotations

import codecs

import pytest

from Middleware.utilities.charset import decoded

U = "\u00fc\u20ac"


@pytest.mark.parametrize(
    ("body", "content_type", "text"),
    [
        (U.encode(), "", U),
        (U.encode("cp1252"), "", U),
        (U.encode("cp1252"), "text/html; charset=ISO-8859-1", U),
        (U.encode(), "text/html; charset=utf-8", U),
        (U.encode("utf-16-le"), "text/html; charset='utf-16-le'", U),
        (b"\xff", "text/html; charset=utf-8", "\ufffd"),
        (codecs.BOM_UTF8 + U.encode(), "", U),
        (codecs.BOM_UTF16_LE + U.encode("utf-16-le"), "text/plain", U),
        (codecs.BOM_UTF16_BE + U.encode("utf-16-be"), "text/plain", U),
        (codecs.BOM_UTF32_LE + U.encode("utf-32-le"), "text/plain", U),
        (codecs.BOM_UTF8 + U.encode(), "text/plain; charset=utf-8", U),
        (b"<meta charset=koi8-r>\xc1", "text/html", "<meta charset=koi8-r>\u0430"),
        (
            b'<meta content="text/html; charset=koi8-r">\xc1',
            "",
            '<meta content="text/html; charset=koi8-r">\u0430',
        ),
        (b"<meta charset=utf-16>\xc3\xbc", "", "<meta charset=utf-16>\u00fc"),
        (b"<meta charset=nonsense>\xc3\xbc", "text/html; charset=nonsense", "<meta charset=nonsense>\u00fc"),
        (b"x" * 1024 + b"<meta charset=koi8-r>\xc3\xbc", "", "x" * 1024 + "<meta charset=koi8-r>\u00fc"),
        (b"abc", "text/plain; charset=hex", "abc"),
        (b"", "", ""),
    ],
)
def test_a_body(body, content_type, text):
    """Header, byte-order mark, meta tag, UTF-8, Windows-1252, in this order."""
    assert decoded(body, content_type) == text
