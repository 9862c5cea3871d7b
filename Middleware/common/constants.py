"""Numbers and texts that more than one floor uses."""

from __future__ import annotations

from Middleware.common.registry import NamesView

VERSION = "1.0.0"
USER_AGENT = f"Headrace/{VERSION}"
KEY_CHALLENGE = 'Bearer realm="headrace"'
"""`WWW-Authenticate` of a server that wants a key; another Headrace knows this program by it. Never `Basic`:
browsers would ask for a password in a window of their own, and send it along by themselves from then on, from
the pages of other sites, too."""

VALID_NODE_TYPES = NamesView()
"""The names of the node types: `workflows/handlers/node_types.py` fills this live view."""

TICK_S = 1.0
"""A stream that has nothing to say gives an empty batch at least this often: heartbeats can go out."""

MAX_LINE_BYTES = 16 * 1024 * 1024
"""A longer line of a backend stream is an error, not memory."""
HISTORY_DAYS = 90
"""For so long `--history` keeps the numbers of a run."""
