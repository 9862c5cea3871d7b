"""A pipe for the standard error of a process: each line is handed to a function, in a thread of its own."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

LONGEST_LINE = 64 * 1024
"""Characters of a line that are handed on; the rest of it is dropped."""


@contextmanager
def error_pipe(
    take: Callable[[str], None], name: str, silent: threading.Event | None = None
) -> Iterator[TextIO]:
    """The end to write to; it is closed here after the block, the process has its own copy.

    The thread ends, and `silent` is set, when the last process that holds the pipe has ended.
    """
    reading, writing = os.pipe()

    def read_lines() -> None:
        is_new = True
        with os.fdopen(reading, encoding="utf-8", errors="replace") as lines:
            while line := lines.readline(LONGEST_LINE):
                if is_new and line.strip():
                    take(line.rstrip())
                is_new = line.endswith("\n")
        if silent is not None:
            silent.set()

    threading.Thread(target=read_lines, name=name, daemon=True).start()
    with os.fdopen(writing, "w") as end:
        yield end
