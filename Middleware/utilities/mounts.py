"""Which folders lie on another machine. Known on Linux only; elsewhere none does."""

from __future__ import annotations

import os
from pathlib import Path

NETWORK_KINDS = frozenset(
    ["nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "9p", "ceph", "fuse.sshfs", "fuse.glusterfs"]
)


def network_file_system(folder: Path, table: Path = Path("/proc/self/mounts")) -> str | None:
    """The kind of network file system that holds `folder` (which need not exist yet); None: it is local."""
    try:
        lines = table.read_text("utf-8", "replace").splitlines()
    except OSError:
        return None
    real = os.path.realpath(folder)
    mounts = [line.split() for line in lines]
    holding = [(point, kind) for _, point, kind, *_ in mounts if _is_in(real, point.replace("\\040", " "))]
    kind = max(holding, key=lambda mount: len(mount[0]), default=("", ""))[1]
    return kind if kind in NETWORK_KINDS else None


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(os.path.join(folder, ""))
