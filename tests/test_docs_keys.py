"""The page of keys names every field and limit that the file may have."""

from __future__ import annotations

from pathlib import Path

import pytest

from Middleware.config.key_file import ENTRY_KEYS, LIMIT_KEYS

PAGE = (Path(__file__).resolve().parents[1] / "docs/keys.md").read_text("utf-8")


@pytest.mark.parametrize("field", [*ENTRY_KEYS, *LIMIT_KEYS])
def test_each_field_has_its_line(field: str) -> None:
    assert f"\n| `{field}` |" in PAGE
