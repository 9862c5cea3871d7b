"""The text of a config file: what isn't meant stays as it is written."""

from __future__ import annotations

import pytest

from Middleware.utilities.config_text import with_values


@pytest.mark.parametrize(
    ("raw", "values", "made"),
    [
        (b'{"a": "x"}', {"/a": "y"}, b'{"a": "y"}'),
        (b'[ {"a" :  "x"}, // c\n "z" ]\n', {"/0/a": "y", "/1": "w"}, b'[ {"a" :  "y"}, // c\n "w" ]\n'),
        (b'{"a": [1, 2]}', {"/a": {"b": None}}, b'{"a": {"b": null}}'),
        (b'{"a/b": "x"}', {"/a~1b": "\xc3\xa4".encode("latin-1").decode("utf-8")}, '{"a/b": "ä"}'.encode()),
        (
            b'\xef\xbb\xbf{\r\n"a": 1,\r\n"b": 2\r\n}\r\n',
            {"/b": 3},
            b'\xef\xbb\xbf{\r\n"a": 1,\r\n"b": 3\r\n}\r\n',
        ),
        (b'{"a": "x"}', {"/b": "y", "/a/0": "z"}, b'{"a": "x"}'),
        (b'{"a": "x"}', {}, b'{"a": "x"}'),
    ],
    ids=["one", "several", "an-object", "an-escaped-key", "mark-and-line-ends", "nowhere", "none"],
)
def test_values_are_exchanged_in_place(raw, values, made):
    """Byte for byte."""
    assert with_values(raw, values) == made
