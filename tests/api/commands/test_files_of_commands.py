"""Files that commands are given."""

from __future__ import annotations

import pytest

from Middleware.api.command_registry import document_of
from Middleware.common.errors import ConfigError


def test_it_is_read_as_a_config_file_is(tmp_path):
    """With a byte order mark, comments and commas at the end."""
    (tmp_path / "m.json").write_bytes(b'\xef\xbb\xbf// mine\n["a",]')
    assert document_of(str(tmp_path / "m.json")) == ["a"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gone.json", "gone.json: cannot be read: No such file or directory"),
        ("bad.json", "bad.json:1:2: not JSON"),
    ],
)
def test_the_error_names_the_file_and_the_place(tmp_path, name, said):
    """Once, and without Python's words."""
    (tmp_path / "bad.json").write_text("[")
    with pytest.raises(ConfigError) as caught:
        document_of(str(tmp_path / name))
    assert str(caught.value).startswith(str(tmp_path / said))
