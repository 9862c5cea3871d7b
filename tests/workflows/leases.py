"""Long work that somebody else does in a discussion."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from Middleware.services.discussion_store import DiscussionStore
from tests.patience import PATIENCE_S


@contextmanager
def leased_by_another(store: DiscussionStore, name: str) -> Iterator[None]:
    """Another thread holds the lease until the block ends."""
    held, done = threading.Event(), threading.Event()

    def holder() -> None:
        with store.lease(name, None):
            held.set()
            done.wait(PATIENCE_S)

    thread = threading.Thread(target=holder)
    thread.start()
    held.wait(PATIENCE_S)
    yield
    done.set()
    thread.join()
