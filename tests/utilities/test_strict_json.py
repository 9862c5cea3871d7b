"""JSON that can be written again (RFC 8259, 6)."""

from __future__ import annotations

import json

import pytest

from Middleware.utilities.model_json import NoNumber, strict_loads


@pytest.mark.parametrize("text", ['{"a": [1, -2.5e3, 1e308, null, true, "NaN"]}', b"[0.1]", "1" * 400])
def test_what_json_has(text):
    """Is read as ever."""
    assert strict_loads(text) == json.loads(text)


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "9" * 400 + ".5"])
def test_what_is_no_number(word):
    """Is refused, wherever it stands, and the sentence stays short."""
    with pytest.raises(NoNumber) as caught:
        strict_loads(f'{{"a": [{word}]}}')
    assert len(str(caught.value)) < 100


@pytest.mark.parametrize("text", ["", "{", b"\xff"])
def test_what_is_no_json(text):
    """Is a ValueError of Python's own."""
    with pytest.raises(ValueError):
        strict_loads(text)
