"""One run of the curl program: no shell, its own process group, capped output, a time limit, cancellation.

Its arguments go in on standard input (`--config -`), so that other users of the machine cannot read them.
Logs nothing of them. Source: spec tools.md 4.2 and 11.4.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, cast

from Middleware.common.errors import RequestCancelled
from Middleware.services.cancellation_service import cancellation_service

PIECE = 64 * 1024
LONGEST_LINE = 60_000
"""Older versions of curl cut longer lines of a config file."""


class Readable(Protocol):
    """What comes now, at most so much; `os.read` would fail on the pipes of a process that gevent patched."""

    def read1(self, size: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class CurlRun:
    """What came out. `returncode`: None when it was killed, then `late` or `too_large` says why."""

    stdout: bytes = field(repr=False)
    stderr: bytes = field(repr=False)
    returncode: int | None
    late: bool = False
    too_large: bool = False


class _Killer:
    """Kills the process group once, and remembers why."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._lock = threading.Lock()
        self.reason = ""

    def kill(self, reason: str) -> None:
        with self._lock:
            if self.reason or self._process.returncode is not None:
                return
            self.reason = reason
            with contextlib.suppress(ProcessLookupError):
                if hasattr(os, "killpg"):
                    os.killpg(self._process.pid, signal.SIGKILL)
                else:
                    self._process.kill()


def run_curl(
    words: Sequence[str], config: str, *, timeout_s: float, cap: int | None, request_id: str = ""
) -> CurlRun:
    """`curl <words>` with `config` on its standard input.

    Raises FileNotFoundError when there is no curl, RequestCancelled.
    """
    program = shutil.which("curl")
    if program is None:
        raise FileNotFoundError("there is no program 'curl' on the PATH of the server")
    process = subprocess.Popen(
        [program, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    killer = _Killer(process)

    def cancel() -> None:
        killer.kill("cancelled")

    timer = threading.Timer(timeout_s, killer.kill, ("late",))
    timer.daemon = True
    timer.start()
    cancellation_service.register_abort_callback(request_id, cancel)
    try:
        return _collect_output(process, killer, config, cap)
    finally:
        timer.cancel()
        cancellation_service.unregister_abort_callback(request_id, cancel)
        killer.kill("left")
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def _collect_output(
    process: subprocess.Popen[bytes], killer: _Killer, config: str, cap: int | None
) -> CurlRun:
    assert process.stdin and process.stdout and process.stderr
    output, errors = cast(Readable, process.stdout), bytearray()
    drain = threading.Thread(target=_drain, args=(process.stderr, errors, cap), daemon=True)
    drain.start()
    # A process that ends before it has read its input says why by its status.
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(config.encode("utf-8", "replace"))
        process.stdin.flush()
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    out = bytearray()
    while piece := output.read1(PIECE):
        out += piece
        if cap is not None and len(out) > cap:
            del out[cap:]
            killer.kill("too_large")
            break
    process.wait()
    drain.join()
    if killer.reason == "cancelled":
        raise RequestCancelled
    code = process.returncode if not killer.reason else None
    return CurlRun(
        bytes(out), bytes(errors), code, late=killer.reason == "late", too_large=killer.reason == "too_large"
    )


def _drain(stream: Readable, kept: bytearray, cap: int | None) -> None:
    """Read all of it, keep as much as the cap allows: a full pipe would stop the process."""
    while piece := stream.read1(PIECE):
        kept += piece if cap is None else piece[: max(0, cap - len(kept))]
