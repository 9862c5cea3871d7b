"""The characters of a page, whatever its server says of them."""

from __future__ import annotations

import codecs

import pytest

from Middleware.utilities.html_text import decode_body

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
        (b"a+AGE-", "text/html; charset=utf-7", "a+AGE-"),
        (b"a\\u0041", "text/html; charset=unicode_escape", "a\\u0041"),
        (b"a\\u0041", "text/html; charset=raw-unicode-escape", "a\\u0041"),
        (b"ab-c", "text/html; charset=punycode", "ab-c"),
        (b"xn--bcher-kva", "text/html; charset=idna", "xn--bcher-kva"),
        (b"<meta charset=punycode>-b", "text/html", "<meta charset=punycode>-b"),
        ("\u65e5".encode("shift_jis"), "text/html; charset=Shift_JIS", "\u65e5"),
        ("\u65e5".encode("euc_jp"), "text/html; charset=EUC-JP", "\u65e5"),
        ("\u4e2d".encode("gb18030"), "text/html; charset=GB18030", "\u4e2d"),
        ("\u4e2d".encode("big5"), "text/html; charset=Big5", "\u4e2d"),
        ("\ud55c".encode("euc_kr"), "text/html; charset=euc-kr", "\ud55c"),
        ("\u0416".encode("mac_cyrillic"), "text/html; charset=mac-cyrillic", "\u0416"),
        ("\u0416".encode("cp866"), "text/html; charset=ibm866", "\u0416"),
        ("\u017e".encode("iso8859-2"), "text/html; charset=latin2", "\u017e"),
        ("\u0e01".encode("tis-620"), "text/html; charset=TIS-620", "\u0e01"),
    ],
)
def test_a_body(body, content_type, text):
    """Header, byte-order mark, meta tag, UTF-8, Windows-1252, in this order."""
    assert decode_body(body, content_type) == text


def test_a_hostile_coding_costs_linear_time():
    """Punycode would take hours for a page of ten megabytes."""
    body = b"a" * 4_000_000 + b"-" + b"b" * 2_000_000
    assert decode_body(body, "text/html; charset=punycode") == body.decode()
