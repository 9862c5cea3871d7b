"""Loads every front end: importing this package fills FRONT_ENDS."""

from __future__ import annotations

import sys

from Middleware.common.registry import load_all

load_all(sys.modules[__name__])
