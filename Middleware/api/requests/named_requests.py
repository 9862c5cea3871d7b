"""Running requests by a name that their client gave them, so that another request of it can speak of them.

Knows ids only: what a name is made of, and what is done with what it names, is said by whoever asks.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from dataclasses import dataclass, field

from flask import current_app

from Middleware.api.requests.request_life import RequestLife
from Middleware.services.cancellation_service import ASKED_TO, cancellation_service


@dataclass(frozen=True, slots=True)
class NamedRequest:
    """`sent`: the texts of its answer that went out so far."""

    life: RequestLife
    sent: list[str] = field(default_factory=list, repr=False)


class NamedRequests:
    """Name -> the requests that run under it. A name may be given more than once. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[Hashable, list[NamedRequest]] = {}

    def add(self, name: Hashable, life: RequestLife) -> NamedRequest:
        """The request has this name until its life ends."""
        named = NamedRequest(life)
        with self._lock:
            self._running.setdefault(name, []).append(named)
        life.at_end(lambda: self._remove(name, named))
        return named

    def _remove(self, name: Hashable, named: NamedRequest) -> None:
        with self._lock:
            rest = [one for one in self._running[name] if one is not named]
            if rest:
                self._running[name] = rest
            else:
                del self._running[name]

    def of(self, name: Hashable) -> list[NamedRequest]:
        """Those whose answer is not complete, oldest first."""
        with self._lock:
            return [one for one in self._running.get(name, ()) if not one.life.answered]

    def cancel(self, name: Hashable) -> bool:
        """Cancel them. False: there was none."""
        found = self.of(name)
        for one in found:
            cancellation_service.request_cancellation(one.life.request_id, ASKED_TO)
        return bool(found)

    def __len__(self) -> int:
        return len(self._running)


def named_of(front_end: str) -> NamedRequests:
    """Those of the current application that came through this front end."""
    made: NamedRequests = current_app.extensions.setdefault(f"headrace.named.{front_end}", NamedRequests())
    return made
