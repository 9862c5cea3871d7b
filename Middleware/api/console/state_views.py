"""What the console shows of the server itself. Source: spec console.md 6.1."""

from __future__ import annotations

import os

from Middleware.api.console.view_contract import ApiRoute, Ask, Hub
from Middleware.common.constants import VERSION
from Middleware.common.types import JsonObject


def state(ask: Ask) -> JsonObject:
    """GET `state` (6.1)."""
    ask.words()
    return state_of(ask.hub, ask.rights)


def state_of(hub: Hub, rights: tuple[str, ...]) -> JsonObject:
    """The state of the server, as a reader with these rights sees it."""
    return {
        "version": VERSION,
        "mode": hub.mode,
        "rights": list(rights),
        "pid": os.getpid(),
        "processes": hub.processes,
        "started": hub.started,
        "users": hub.served_users(),
        "gate": hub.gate(),
        "kept": hub.recorder.kept(),
        "seq": hub.recorder.seq,
    }


STATE_ROUTES = (ApiRoute("GET", "state", "look", state),)
