"""A log file that is made at its first line and rotated."""

from __future__ import annotations

import logging

import pytest

from Middleware.utilities.file_utils import LogFile


@pytest.fixture
def file(tmp_path):
    made = LogFile(tmp_path / "a" / "b.log", max_bytes=100, backups=2)
    yield made
    made.close()


def write(file, text):
    file.handle(logging.makeLogRecord({"msg": text}))


def test_nothing_is_made_before_the_first_line(file, tmp_path):
    assert not (tmp_path / "a").exists()
    write(file, "one")
    assert (tmp_path / "a" / "b.log").read_text() == "one\n"


def test_it_is_rotated(file, tmp_path):
    """The oldest lines go."""
    for number in range(40):
        write(file, f"line {number:02} of some length")
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["b.log", "b.log.1", "b.log.2"]
    assert "line 39" in (tmp_path / "a" / "b.log").read_text()
    assert all(path.stat().st_size <= 100 for path in (tmp_path / "a").iterdir())


def test_a_disk_that_refuses_is_told_of_once(file, tmp_path, capsys):
    """And tried again."""
    (tmp_path / "a").write_text("in the way")
    write(file, "one")
    write(file, "two")
    assert capsys.readouterr().err.count("b.log cannot be written") == 1
    (tmp_path / "a").unlink()
    write(file, "three")
    assert (tmp_path / "a" / "b.log").read_text() == "three\n"
