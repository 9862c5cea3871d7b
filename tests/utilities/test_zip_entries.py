"""Which entries of a zip file are plain files, and that no more is unpacked than an entry says."""

from __future__ import annotations

import tracemalloc
import zipfile

import pytest

from Middleware.utilities.zip_entries import BROKEN_ZIP, OddEntry, plain_entries, read_entry
from tests.odd_zips import BOMB_BYTES, ODD, first_file, make_odd


@pytest.fixture
def good(tmp_path):
    """Two files and a folder."""
    path = tmp_path / "good.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/", b"")
        archive.writestr("a/one.json", b"[1]")
        archive.writestr("a/two.json", b'{"largest": true}')
    return path


def test_folders_count_for_nothing(good):
    with zipfile.ZipFile(good) as archive:
        assert list(plain_entries(archive)) == ["a/one.json", "a/two.json"]


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("two-files-of-one-name", "it holds two files of the name 'a/two.json'"),
        ("a-link", "'a/two.json' is not a plain file"),
        ("a-device", "'a/two.json' is not a plain file"),
        ("a-nul-in-a-name", r"'a/two.json\\x00.exe' cannot be the name of a file"),
        ("entries-that-overlap", "'a/two.json.json' lies in 'a/two.json'"),
    ],
)
def test_what_nobody_writes_who_means_well(good, tmp_path, case, said):
    with (
        zipfile.ZipFile(make_odd(good, tmp_path / "odd.zip", ODD[case])) as archive,
        pytest.raises(OddEntry, match=said),
    ):
        plain_entries(archive)


def test_a_file_is_read_up_to_a_size(good):
    with zipfile.ZipFile(good) as archive:
        info = archive.getinfo("a/two.json")
        assert read_entry(archive, info, info.file_size) == b'{"largest": true}'
        assert read_entry(archive, info, info.file_size - 1) is None


@pytest.mark.parametrize("case", ["larger-than-it-says", "smaller-than-it-says"])
def test_a_size_that_lies_is_refused_and_costs_nothing(good, tmp_path, case):
    """A bomb isn't unpacked to find out that it is one."""
    with zipfile.ZipFile(make_odd(good, tmp_path / "odd.zip", ODD[case])) as archive:
        info = first_file(archive)
        tracemalloc.start()
        try:
            with pytest.raises(BROKEN_ZIP):
                read_entry(archive, info, BOMB_BYTES)
            assert tracemalloc.get_traced_memory()[1] < BOMB_BYTES / 8
        finally:
            tracemalloc.stop()
