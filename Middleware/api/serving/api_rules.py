"""What the command line says about the doors of the application, as one value."""

from __future__ import annotations

from dataclasses import dataclass, field

from Middleware.api.requests.access import AccessRules


@dataclass(frozen=True, slots=True)
class ServerRules:
    """`max_queue`: how many requests may wait for the gate; 0: any number."""

    access: AccessRules = field(default_factory=AccessRules)
    max_queue: int = 0
