"""What a process holds of the system: threads, files, sockets, children. Read from /proc, where there is one."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

from tests.e2e.conftest import Gunicorn

HAS_PROC = Path("/proc/self/status").exists()


def worker_of(server: Any) -> int:
    """The id of the process that serves."""
    if not isinstance(server, Gunicorn):
        return int(server.process.pid)
    return int(Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()[0])


def counts(pid: int) -> dict[str, int]:
    """{threads, open files, children, zombies} of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    threads = int(status.partition("Threads:")[2].split()[0])
    children = _children(pid)
    states = [Path(f"/proc/{child}/stat").read_text().rpartition(") ")[2][0] for child in children]
    return {
        "threads": threads,
        "files": len(_open_files(pid)),
        "children": len(children),
        "zombies": states.count("Z"),
    }


def files_by_kind(pid: int) -> Counter[str]:
    """`socket`, `pipe`, `anon_inode` or the path of a file -> how many are open."""
    return Counter(name.partition(":")[0] for name in _open_files(pid))


def sockets_to(pid: int, port: int) -> int:
    """How many connections of the process lead to this port, whatever their state."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    there = {f"socket:[{row[9]}]" for row in rows if row[2].endswith(f":{port:04X}")}
    return sum(name in there for name in _open_files(pid))


def _open_files(pid: int) -> list[str]:
    found = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found.append(os.readlink(entry))
        except FileNotFoundError:  # closed meanwhile
            continue
    return found


def _children(pid: int) -> list[str]:
    found: list[str] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            found += (task / "children").read_text().split()
        except (FileNotFoundError, ProcessLookupError):  # a thread that ended meanwhile
            continue
    return found
