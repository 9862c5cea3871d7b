"""Folders on other machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from Middleware.utilities.file_utils import network_file_system

TABLE = """/dev/sda / ext4 rw 0 0
server:/home /srv nfs4 rw 0 0
/dev/sdb /srv/local ext4 rw 0 0
//box/my\\040share /mnt/my\\040share cifs rw 0 0
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/srv/talks", "nfs4"),
        ("/srv", "nfs4"),
        ("/srvx", None),
        ("/srv/local/talks", None),
        ("/mnt/my share/talks", "cifs"),
        ("/nowhere/yet", None),
    ],
)
def test_the_nearest_mount_decides(tmp_path, folder, kind):
    (tmp_path / "mounts").write_text(TABLE)
    assert network_file_system(Path(folder), tmp_path / "mounts") == kind


def test_without_a_table_every_folder_is_local(tmp_path):
    """Other systems."""
    assert network_file_system(Path("/srv"), tmp_path / "none") is None
