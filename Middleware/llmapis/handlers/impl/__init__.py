"""Every backend, one module each. Importing the package registers them all."""

from __future__ import annotations

import sys

from Middleware.common.registry import load_all

load_all(sys.modules[__name__])
