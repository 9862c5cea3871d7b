"""The old name of `server.py`, kept for existing service files."""

from __future__ import annotations

import sys

from server import main

if __name__ == "__main__":
    sys.exit(main())
