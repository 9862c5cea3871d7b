"""How long a test waits for what must come, and how it waits.

Only a test that fails ever waits so long: on a machine under load the same tests take longer and pass. A test
judges by order, counts and events, never by how long something took.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

PATIENCE_S = 600.0
"""More than any load makes of a second, and less than the limit of one test (`timeout` in setup.cfg)."""

_STEP_S = 0.02


def growing_limits() -> Iterator[float]:
    """Limits to try one after the other, in seconds, for what must begin within a limit and then be ended by it: a
    machine under load may need a longer one."""
    limit_s = 2.0
    while limit_s < PATIENCE_S:
        yield limit_s
        limit_s *= 2


def wait_until(
    claim: Callable[[], Any],
    process: subprocess.Popen[Any] | None = None,
    said: Callable[[], str] = lambda: "",
) -> Any:
    """What `claim()` gives, once that is true.

    `process`: the one that must make it true; when it ends first, the test fails at once. `said()`: what a
    failure shows.
    """
    end = time.monotonic() + PATIENCE_S
    while not (given := claim()):
        ended = process is not None and process.poll() is not None
        if ended and not (given := claim()):
            raise AssertionError(f"the process ended with {process and process.returncode}: {said()[-2000:]}")
        if given:
            break
        assert time.monotonic() < end, f"it never came: {said()[-2000:]}"
        time.sleep(_STEP_S)
    return given
