"""Bytes of config files: decoded, made again, kept."""

from __future__ import annotations

import os

import pytest

from Middleware.api.console import config_files
from Middleware.api.console.config_files import (
    ConfigFile,
    ConfigText,
    NotKept,
    backups_of,
    keep_old,
    version_of,
    why_not_writable,
)
from Middleware.utilities.config_text import like_old, text_of

MARK = b"\xef\xbb\xbf"
FILE = "Workflows/mira/Main.json"
NOON = 1795867471.0  # 2026-11-28 12:04:31 UTC


@pytest.fixture
def text(tmp_path):
    """A file of a tree, and its text."""
    path = tmp_path / "Configs" / FILE
    path.parent.mkdir(parents=True)
    path.write_bytes(b"[1]")
    return ConfigText(ConfigFile(FILE, path, "Workflows"), b"[1]")


class TestVersion:
    def test_it_is_sixteen_digits(self):
        """Spec 16.10: of the empty file."""
        assert version_of(b"") == "e3b0c44298fc1c14"


class TestTextOf:
    @pytest.mark.parametrize(
        ("raw", "text"),
        [
            (b"", ""),
            (MARK + b"a\r\nb\r\n", "a\nb\n"),
            (b"a\rb", "a\nb"),
            ("ü".encode(), "ü"),
            (b"\xff\xfea\0", "a"),
            (b"a\xff", "a\ufffd"),
            (b"\xff\xfe\0", "\ufffd"),
        ],
    )
    def test_any_bytes_have_one(self, raw, text):
        """Without mark, with line feeds; what is no UTF-8 can still be looked at."""
        assert text_of(raw) == text


class TestLikeOld:
    @pytest.mark.parametrize(
        ("text", "old", "new"),
        [
            ("[2]\n", b"[1]\n", b"[2]\n"),
            ("[2]", b"[1]\n", b"[2]\n"),
            ("[2]\n\n", b"[1]", b"[2]"),
            ("[\n2]\n", MARK + b"[\r\n1]\r\n", MARK + b"[\r\n2]\r\n"),
            ("a\nb\nc", b"a\r\nb\nd", b"a\nb\nc"),
            ("a\nb\nc\n", b"a\r\nb\nd\r\n", b"a\r\nb\r\nc\r\n"),
            ("[2]\n", b"", b"[2]\n"),
            ("ü", b"\xff\xfea\0", "ü".encode()),
            ("[\n2]\n", "[\r\n1]\r\n".encode("utf-16"), b"[\r\n2]\r\n"),
            ("[2]\n", "[1]\n".encode("utf-16-be"), b"[2]\n"),
        ],
    )
    def test_mark_line_ends_and_last_line_stay(self, text, old, new):
        """As most lines of the old file have it."""
        assert like_old(text, old) == new

    @pytest.mark.parametrize("old", [b"a\r\nb\nc\rd", MARK + b"\r\n\r\nx", b"", b"\n"])
    def test_the_old_text_gives_the_old_bytes(self, old):
        """Also where its line ends are mixed."""
        assert like_old(text_of(old), old) == old

    def test_half_a_character_is_no_text(self):
        """It has no bytes."""
        with pytest.raises(UnicodeEncodeError):
            like_old("\ud800", b"a")


class TestKeepOld:
    def test_the_copy_lies_beside_the_tree(self, text, tmp_path):
        """Below `ConfigBackups`, in the folders of the file, with the time in UTC."""
        copy = keep_old(tmp_path / "Configs", text, now=NOON)
        assert copy == tmp_path / "ConfigBackups/Workflows/mira/Main.20261128T120431Z.json"
        assert copy.read_bytes() == b"[1]"

    def test_the_newest_twenty_stay(self, text, tmp_path):
        """Those of one second are numbered in their order, and no number comes again."""
        root = tmp_path / "Configs"
        for number in range(1, 26):
            keep_old(root, ConfigText(text.place, b"[%d]" % number), now=NOON)
        kept = backups_of(root, FILE)
        assert [path.read_bytes() for path in kept] == [b"[%d]" % number for number in range(25, 5, -1)]
        assert kept[0].name == "Main.20261128T120431Z-25.json"

    def test_a_clock_that_goes_back_loses_nothing_new(self, text, tmp_path):
        """What was copied just now stays, whatever its time."""
        root = tmp_path / "Configs"
        for second in range(20):
            keep_old(root, text, now=NOON + second)
        copy = keep_old(root, text, now=NOON - 86400)
        assert copy.is_file() and len(backups_of(root, FILE)) == 20

    def test_after_a_clock_that_was_ahead_later_copies_still_come_first(self, text, tmp_path):
        """Else each of them would push out the one before."""
        root = tmp_path / "Configs"
        for number in range(20):
            keep_old(root, text, now=NOON + 86400 + number)
        for number in range(3):
            keep_old(root, ConfigText(text.place, b"[%d]" % number), now=NOON + number)
        assert [path.read_bytes() for path in backups_of(root, FILE)[:3]] == [b"[2]", b"[1]", b"[0]"]

    def test_copies_of_other_files_are_left_alone(self, text, tmp_path):
        """Also of one whose name begins alike."""
        root = tmp_path / "Configs"
        folder = tmp_path / "ConfigBackups/Workflows/mira"
        folder.mkdir(parents=True)
        others = ("Main.old.20261128T120431Z.json", "Mainly.20261128T120431Z.json", "Main.json", "notes.txt")
        for name in others:
            (folder / name).write_text("x")
        for second in range(25):
            keep_old(root, text, now=NOON + second)
        assert all((folder / name).is_file() for name in others)

    def test_a_copy_is_as_closed_as_its_file(self, text, tmp_path):
        """It may hold keys."""
        os.chmod(text.place.real, 0o600)
        assert keep_old(tmp_path / "Configs", text).stat().st_mode & 0o777 == 0o600

    def test_what_cannot_be_kept_is_told(self, text, tmp_path):
        """A file stands where the folder should."""
        (tmp_path / "ConfigBackups").write_text("")
        with pytest.raises(NotKept, match=r"\w"):
            keep_old(tmp_path / "Configs", text)


class TestWritable:
    def test_a_file_of_ours_is(self, text):
        """No reason against it."""
        assert why_not_writable(text.place) == ""

    def test_a_file_that_is_only_for_reading_is_not(self, text, monkeypatch):
        """The account has no right, as the system tells."""
        monkeypatch.setattr(config_files.os, "access", lambda path, mode: path != text.place.real)
        assert why_not_writable(text.place) == "the server has no permission to write to this file"

    def test_a_file_of_the_program_is_not(self, text, monkeypatch):
        """Its folder belongs to the installer."""
        monkeypatch.setattr(config_files, "is_installed", lambda: True)
        monkeypatch.setattr(config_files, "SHIPPED_DIRECTORY", text.place.real.parents[2])
        assert why_not_writable(text.place).startswith("the examples that came with the program")
