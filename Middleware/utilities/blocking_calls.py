"""Work that would hold up an event loop is done beside it. Knows nothing of what the work is."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def beside_the_loop(work: Callable[[], T]) -> T:
    """The result of `work`: under gevent from a real thread, while other greenlets run; else made here.

    `work` takes no lock and logs nothing: those belong to the loop.
    """
    monkey = sys.modules.get("gevent.monkey")
    if monkey is None or not monkey.is_module_patched("threading"):
        return work()
    hub = sys.modules["gevent"].get_hub()
    result: T = hub.threadpool.apply(work)
    return result
