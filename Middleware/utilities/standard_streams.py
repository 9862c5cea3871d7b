"""Standard output and standard error that never fail: whoever writes to them does its work to the end, also
when the reader has left (`| head`), the disk is full or the stream is closed (`>&-`). What can't be written
is dropped.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import TextIO

NOBODY_READS = (errno.EPIPE, errno.EBADF, errno.EINVAL)
"""Error numbers of output that nobody wants. The last: on Windows, of a pipe whose reader has left."""


class _Output(io.FileIO):
    """`lost`: why nothing is written any more."""

    lost: OSError | None = None

    def write(self, data, /):  # type: ignore[no-untyped-def]
        if self.lost is None:
            try:
                return super().write(data)
            except OSError as error:
                self.lost = error
        return len(data)


def keep_streams_from_failing() -> None:
    """Once is enough. Terminals, and what tests put there, stay as they are."""
    sys.stdout, sys.stderr = _unfailing(sys.stdout), _unfailing(sys.stderr)


def _unfailing(stream: TextIO | None) -> TextIO:
    if stream is None:  # closed when the program began
        nowhere = _Output(os.devnull, "w")
        nowhere.lost = OSError(errno.EBADF, "the standard output is closed")
        return io.TextIOWrapper(io.BufferedWriter(nowhere), "utf-8", "backslashreplace")
    if isinstance(stream, io.TextIOWrapper):  # a pipe on Windows, or the locale C, knows few characters
        stream.reconfigure(errors="backslashreplace")
    if type(stream) is not io.TextIOWrapper or stream.isatty():
        return stream
    raw = getattr(stream.buffer, "raw", stream.buffer)  # of an unbuffered stream they are one
    if type(raw) is not io.FileIO:
        return stream
    own = _Output(raw.fileno(), "w", closefd=False)
    return io.TextIOWrapper(
        own if raw is stream.buffer else io.BufferedWriter(own),
        stream.encoding,
        "backslashreplace",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def lost_output() -> OSError | None:
    """Why not all of the standard output was written; None: it was, as far as one can tell."""
    sys.stdout.flush()
    buffer = getattr(sys.stdout, "buffer", None)
    raw = getattr(buffer, "raw", buffer)
    return raw.lost if isinstance(raw, _Output) else None
