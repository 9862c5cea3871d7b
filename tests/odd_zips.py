"""Zip files that no program writes who means well, each made of one that can be read."""

from __future__ import annotations

import copy
import stat
import warnings
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

BOMB_BYTES = 64 * 1024 * 1024

Change = Callable[[zipfile.ZipFile], None]


def first_file(archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    return max(archive.infolist(), key=lambda info: info.file_size)


def twice(archive: zipfile.ZipFile) -> None:
    """Two programs may see two different files."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        archive.writestr(first_file(archive).filename, b"{}")


def link(archive: zipfile.ZipFile) -> None:
    first_file(archive).external_attr = (stat.S_IFLNK | 0o777) << 16


def device(archive: zipfile.ZipFile) -> None:
    first_file(archive).external_attr = (stat.S_IFCHR | 0o666) << 16


def name_with_nul(archive: zipfile.ZipFile) -> None:
    info = first_file(archive)
    info.filename += "\0.exe"


def overlap(archive: zipfile.ZipFile) -> None:
    """A second name for bytes that another file has already."""
    info = copy.copy(first_file(archive))
    info.filename += ".json"
    archive.filelist.append(info)


def larger_than_it_says(archive: zipfile.ZipFile) -> None:
    """The bytes of the largest file are those of a bomb that says that it is small."""
    info, raw = first_file(archive), zlib.compressobj(wbits=-15)
    data = raw.compress(bytes(BOMB_BYTES)) + raw.flush()
    assert archive.fp is not None
    archive.fp.seek(archive.start_dir)
    header = copy.copy(info)
    header.header_offset, header.compress_size = archive.start_dir, len(data)
    header.compress_type, header.flag_bits = zipfile.ZIP_DEFLATED, 0
    archive.fp.write(header.FileHeader(zip64=False) + data)
    archive.start_dir = archive.fp.tell()
    archive.filelist[archive.filelist.index(info)] = header


def smaller_than_it_says(archive: zipfile.ZipFile) -> None:
    first_file(archive).file_size += 100


def outside(name: str) -> Change:
    return lambda archive: archive.writestr(name, b"{}")


ODD: dict[str, Change] = {
    "two-files-of-one-name": twice,
    "a-link": link,
    "a-device": device,
    "a-nul-in-a-name": name_with_nul,
    "entries-that-overlap": overlap,
    "larger-than-it-says": larger_than_it_says,
    "smaller-than-it-says": smaller_than_it_says,
    "a-way-out": outside("../../evil.json"),
    "an-absolute-name": outside("/tmp/evil.json"),
    "a-drive": outside("C:\\evil.json"),
    "a-device-name": outside("config/CON.json"),
    "a-twin-by-case": lambda archive: outside(first_file(archive).filename.swapcase())(archive),
    "a-file-too-many": outside("evil.json"),
}
"""Name of the case -> what makes a good zip file such a one."""


def make_odd(good: Path, target: Path, change: Change) -> Path:
    """A copy of a zip file that `change` has altered; its directory is written anew."""
    target.write_bytes(good.read_bytes())
    with zipfile.ZipFile(target, "a", zipfile.ZIP_DEFLATED) as archive:
        change(archive)
        archive._didModify = True
    return target
