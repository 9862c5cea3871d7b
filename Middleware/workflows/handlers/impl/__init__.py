"""The node types. Importing this package loads every module of it; each registers its classes in NODES."""

from __future__ import annotations

import sys

from Middleware.common.registry import load_all

load_all(sys.modules[__name__])
