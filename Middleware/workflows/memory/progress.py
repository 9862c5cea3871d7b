"""How far long work on memories is: told after each step, by default in the log."""

from __future__ import annotations

import logging
from collections.abc import Callable

logger = logging.getLogger(__name__)

Told = Callable[[int, int], None]
"""Called with the number of steps that are done, and of all."""


def log_progress(done: int, whole: int) -> None:
    logger.info("memory %d of %d", done, whole)
