"""What the command line says about the doors of the application, as one value."""

from __future__ import annotations

from dataclasses import dataclass, field

from Middleware.api.requests.access import AccessRules

MOST_BODY_BYTES = 64 * 1024 * 1024
"""How large the body of a request may be, where the command line says nothing."""
NEEDS_KEY = "the console is off: --require-api-key needs --console-key beside it"


@dataclass(frozen=True, slots=True)
class ConsoleWish:
    """What was said of the console. `mode`: `off`, `view`, `edit`, None: nothing. `key`: of the command line
    or the environment, `""`: none. `memory_mb`: for the texts of runs.
    """

    mode: str | None = None
    key: str = field(default="", repr=False)
    memory_mb: int = 16


@dataclass(frozen=True, slots=True)
class ServerRules:
    """`max_queue`: how many requests may wait for the gate; 0: any number. `most_body_bytes`: how large the
    body of one may be.
    """

    access: AccessRules = field(default_factory=AccessRules)
    max_queue: int = 0
    console: ConsoleWish = field(default_factory=ConsoleWish)
    most_body_bytes: int = MOST_BODY_BYTES
