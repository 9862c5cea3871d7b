"""How much work something is, whatever the machine does beside it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def calls_in(work: Callable[[], Any]) -> int:
    """How many functions `work()` calls, those of C too: the same number on every run."""
    count = 0

    def counted(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count
