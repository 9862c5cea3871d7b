"""Zip files that somebody else may have made: which entries are plain files, and how one is read.

Nothing is believed that such a file says of itself. What may be in it, and how much, its reader knows.
Source: spec operate.md 3, workbench.md 17.
"""

from __future__ import annotations

import lzma
import stat
import struct
import zipfile
import zlib

BROKEN_ZIP = (
    zipfile.BadZipFile,
    NotImplementedError,
    RuntimeError,
    EOFError,
    KeyError,
    ValueError,
    struct.error,
    zlib.error,
    lzma.LZMAError,
)
"""What reading a zip file raises that is damaged, forged, encrypted or compressed in an unknown way."""
_HEADER_BYTES = 30
"""The least that stands before the name of an entry. Source: PKWARE, APPNOTE.TXT 4.3.7."""


class OddEntry(ValueError):
    """An entry that no program writes who means well; the text says which."""


def plain_entries(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """Name -> entry of every file; folders count for nothing. Names are those that are written there.

    Raises OddEntry for two entries of one name, links and devices, names with a NUL (Python ends them there,
    other programs don't), and entries that share their bytes: few bytes would be files without end.
    """
    found: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        name = info.orig_filename
        if "\0" in name:
            raise OddEntry(f"{name!r} cannot be the name of a file")
        if name.endswith("/"):
            continue
        if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG):
            raise OddEntry(f"{name!r} is not a plain file")
        if name in found:
            raise OddEntry(f"it holds two files of the name {name!r}")
        found[name] = info
    _refuse_overlaps(archive)
    return found


def _refuse_overlaps(archive: zipfile.ZipFile) -> None:
    """Python before 3.12.2 reads such entries."""
    end, before = 0, ""
    for info in sorted(archive.infolist(), key=lambda each: each.header_offset):
        if info.header_offset < end:
            raise OddEntry(f"{info.orig_filename!r} lies in {before!r}")
        end = info.header_offset + _HEADER_BYTES + len(info.orig_filename) + info.compress_size
        before = info.orig_filename


def read_entry(archive: zipfile.ZipFile, info: zipfile.ZipInfo, most: int) -> bytes | None:
    """The bytes of an entry; None: they are more than `most`.

    However much it would unpack to, no more is unpacked than it says of itself. Raises one of BROKEN_ZIP
    where that is another size.
    """
    if info.file_size > most:
        return None
    with archive.open(info) as file:
        data = file.read(info.file_size + 1)
    if len(data) != info.file_size:
        raise zipfile.BadZipFile(f"{info.orig_filename!r} has another size than it says")
    return data
