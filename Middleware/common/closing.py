"""Ending an iterator before its end."""

from __future__ import annotations

from collections.abc import Iterable


def close_batches(batches: Iterable[object]) -> None:
    """Close a stream that can be closed: its backend stops. A plain iterator (a demo model's, an empty one)
    needs nothing."""
    close = getattr(batches, "close", None)
    if close is not None:
        close()
