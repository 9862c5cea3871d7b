"""Files that stay whole, reads from the end, and paths that stay below their folder."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from Middleware.utilities import file_utils
from Middleware.utilities.file_utils import (
    PathLeaves,
    PathRefused,
    atomic_write,
    confined_path,
    find_file,
    read_tail,
    read_text,
    refuse_special,
    remove_stale_temporaries,
)


class TestAtomicWrite:
    """One step from the old bytes to the new ones."""

    def test_a_new_file_gets_its_bytes_and_nothing_stays_beside_it(self, tmp_path):
        atomic_write(tmp_path / "a.txt", b"one", new_mode=0o600)
        assert (tmp_path / "a.txt").read_bytes() == b"one"
        assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o600
        assert os.listdir(tmp_path) == ["a.txt"]

    def test_a_name_as_long_as_names_may_be_is_written(self, tmp_path):
        """In bytes: a character may have four of them."""
        file = tmp_path / ("\U0001f30a" * 63)
        atomic_write(file, b"one")
        assert file.read_bytes() == b"one"

    def test_the_mode_of_an_existing_file_stays(self, tmp_path):
        file = tmp_path / "a.txt"
        file.write_bytes(b"old")
        file.chmod(0o640)
        atomic_write(file, b"new", new_mode=0o600)
        assert stat.S_IMODE(file.stat().st_mode) == 0o640

    def test_a_link_stays_a_link(self, tmp_path):
        (tmp_path / "real.txt").write_bytes(b"old")
        link = tmp_path / "link.txt"
        link.symlink_to(tmp_path / "real.txt")
        atomic_write(link, b"new")
        assert link.is_symlink() and (tmp_path / "real.txt").read_bytes() == b"new"

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes in folders")
    def test_what_is_no_file_is_never_replaced(self, tmp_path):
        """A pipe as little as a device: `/dev/null` was a file afterwards."""
        os.mkfifo(tmp_path / "pipe")
        (tmp_path / "link").symlink_to(tmp_path / "pipe")
        for name in ("pipe", "link"):
            with pytest.raises(OSError, match="not a regular file") as refused:
                atomic_write(tmp_path / name, b"x")
            assert refused.value.filename == str(tmp_path / "pipe")
        assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
        assert sorted(file.name for file in tmp_path.iterdir()) == ["link", "pipe"]

    def test_a_failed_write_leaves_the_old_file_and_no_rest(self, tmp_path, monkeypatch):
        file = tmp_path / "a.txt"
        file.write_bytes(b"old")

        def full(*_):
            raise OSError(28, "no space")

        monkeypatch.setattr(file_utils.os, "replace", full)
        with pytest.raises(OSError, match="no space"):
            atomic_write(file, b"new")
        assert file.read_bytes() == b"old" and os.listdir(tmp_path) == ["a.txt"]

    def test_rests_of_killed_processes_go_after_an_hour(self, tmp_path):
        (tmp_path / "d").mkdir()
        rest = tmp_path / "d" / ".memories.json.0123.tmp"
        rest.write_bytes(b"half")
        (tmp_path / "kept.tmp").write_bytes(b"")
        assert remove_stale_temporaries(tmp_path) == 0
        assert remove_stale_temporaries(tmp_path, now=time.time() + 3700) == 1
        assert not rest.exists() and (tmp_path / "kept.tmp").exists()


class TestReading:
    """Text files, whole and from the end."""

    def test_line_ends_are_made_one(self, tmp_path):
        (tmp_path / "a").write_bytes(b"a\r\nb\rc\n")
        assert read_text(tmp_path / "a") == "a\nb\nc\n"

    @pytest.mark.skipif(os.name == "nt", reason="no pipes in folders")
    def test_a_pipe_is_refused_and_not_waited_for(self, tmp_path):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(PathRefused, match="regular"):
            refuse_special(tmp_path / "pipe")

    @settings(max_examples=150)
    @given(
        text=st.text(alphabet="ab\né\r", max_size=60),
        delimiter=st.sampled_from(["\n", "\n\n", "a", "ab", "aa", "aba", "é"]),
        count=st.integers(1, 6),
        block=st.integers(1, 20),
    )
    @example(text="aaabaac", delimiter="aa", count=1, block=6)
    def test_the_tail_is_what_splitting_the_whole_text_gives(
        self, tmp_path_factory, text, delimiter, count, block
    ):
        """However little is read at a time, whatever the delimiter overlaps with."""
        file = tmp_path_factory.mktemp("tail") / "f"
        file.write_bytes(text.encode())
        old, file_utils._BLOCK = file_utils._BLOCK, block
        try:
            tail = read_tail(file, delimiter, count)
        finally:
            file_utils._BLOCK = old
        assert tail == delimiter.join(read_text(file).split(delimiter)[-count:])

    def test_the_tail_of_a_large_file_is_read_from_its_end(self, tmp_path):
        """A byte that is no UTF-8 at the beginning is never seen."""
        file = tmp_path / "log"
        file.write_bytes(b"\xff\n" + b"line\n" * 100_000 + b"last")
        assert read_tail(file, "\n", 2) == "line\nlast"


class TestFinding:
    """Exact names first, then another case."""

    def test_a_name_in_another_case_is_found(self, tmp_path):
        (tmp_path / "Notes.TXT").write_text("x")
        assert find_file(tmp_path / "notes.txt") == tmp_path / "Notes.TXT"

    def test_the_exact_name_wins(self, tmp_path):
        (tmp_path / "A.txt").write_text("x")
        (tmp_path / "a.txt").write_text("x")
        assert find_file(tmp_path / "a.txt") == tmp_path / "a.txt"

    def test_nothing_is_found_where_nothing_is(self, tmp_path):
        assert find_file(tmp_path / "a.txt") is None
        assert find_file(tmp_path / "no" / "a.txt") is None


class TestConfinement:
    """A run-time value cannot lead a path out of its base."""

    @pytest.mark.parametrize("name", ["a.txt", "sub/a.txt", "sub/../a.txt", "."])
    def test_paths_below_the_base_pass(self, tmp_path, name):
        assert confined_path(f"{tmp_path}/{name}", str(tmp_path)) == Path(f"{tmp_path}/{name}")

    @pytest.mark.parametrize("name", ["../x", "sub/../../x", "..", "/../etc/passwd"])
    def test_paths_out_of_the_base_are_refused_by_name(self, tmp_path, name):
        base = tmp_path / "notes"
        base.mkdir()
        with pytest.raises(PathLeaves) as caught:
            confined_path(f"{base}/{name}", str(base))
        assert str(caught.value) == f"path leaves {base}"

    def test_a_neighbour_with_the_same_beginning_is_outside(self, tmp_path):
        with pytest.raises(PathLeaves):
            confined_path(f"{tmp_path}/notes2/a", f"{tmp_path}/notes")

    def test_a_link_out_of_the_base_is_refused(self, tmp_path):
        base = tmp_path / "notes"
        base.mkdir()
        (base / "out").symlink_to(tmp_path)
        with pytest.raises(PathLeaves):
            confined_path(f"{base}/out/a.txt", str(base))

    def test_the_root_and_the_working_directory_can_be_bases(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert confined_path("/etc/hosts", "/") == Path("/etc/hosts")
        assert confined_path("a.txt", "") == confined_path("a.txt", ".") == Path("a.txt")
        with pytest.raises(PathLeaves):
            confined_path("../a.txt", ".")

    def test_without_a_base_any_path_passes(self, tmp_path):
        assert confined_path(f"{tmp_path}/../x", None) == Path(f"{tmp_path}/../x")

    def test_a_tilde_is_the_home_folder(self, tmp_path, monkeypatch):
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("USERPROFILE", str(tmp_path))
        assert confined_path("~/a.txt", "~") == tmp_path / "a.txt"

    @pytest.mark.parametrize(
        ("text", "base", "why"),
        [
            ("a\0b", None, "NUL"),
            ("a", "b\0", "NUL"),
            ("  ", None, "empty"),
            ("/n/CON.txt", "/n", "device"),
            ("/n/lpt1", "/n", "device"),
            ("/n/COM\u00b9.txt", "/n", "device"),
        ],
        ids=["nul", "nul-in-base", "blank", "device-with-suffix", "device", "superscript-device"],
    )
    def test_some_names_are_never_used(self, text, base, why):
        with pytest.raises(PathRefused, match=why):
            confined_path(text, base)
