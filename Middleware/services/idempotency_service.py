"""Which request holds an idempotency key: a retry replaces the request that it repeats.

Binds keys to request ids and cancels what is displaced. Keeps no answers: streams are never joined or
replayed, and nothing survives a restart. Source: spec frontend-api.md 14.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Callable

from Middleware.services.cancellation_service import CancellationService, cancellation_service

logger = logging.getLogger(__name__)

MAX_BINDINGS = 1024
BINDING_LIFETIME_S = 900.0


def scoped_key(key: str, api_key: str | None) -> str:
    """`<hash of the API key or "anon">:<key>`: clients with different API keys do not disturb each other."""
    owner = hashlib.sha256(api_key.encode("utf-8", "surrogatepass")).hexdigest()[:16] if api_key else "anon"
    return f"{owner}:{key}"


class IdempotencyService:
    """Scoped key -> (request id, time of registration), oldest first."""

    def __init__(
        self,
        cancellation: CancellationService = cancellation_service,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cancellation, self._clock = cancellation, clock
        self._lock = threading.Lock()
        self._bindings: dict[str, tuple[str, float]] = {}

    def admit(self, key: str, request_id: str) -> str | None:
        """Bind the scoped key to the request.

        A request that held it and still runs is cancelled; its id is returned.
        """
        with self._lock:
            now = self._clock()
            self._prune(now)
            before = self._bindings.pop(key, None)
            self._bindings[key] = (request_id, now)
            if len(self._bindings) > MAX_BINDINGS:
                dropped = next(iter(self._bindings))
                del self._bindings[dropped]
                logger.warning("more than %d idempotency keys: the oldest was dropped", MAX_BINDINGS)
        if before is None or before[0] == request_id or not self._cancellation.is_running(before[0]):
            return None
        self._cancellation.request_cancellation(before[0], "a newer request with its key")
        return before[0]

    def release(self, key: str, request_id: str) -> None:
        """The request's work has ended. The binding stays when it already points at a successor."""
        with self._lock:
            if self._bindings.get(key, ("", 0.0))[0] == request_id:
                del self._bindings[key]

    def bindings(self) -> dict[str, str]:
        """A copy: scoped key -> request id."""
        with self._lock:
            return {key: request_id for key, (request_id, _) in self._bindings.items()}

    def _prune(self, now: float) -> None:
        old = [
            key
            for key, (request_id, since) in self._bindings.items()
            if now - since > BINDING_LIFETIME_S and not self._cancellation.is_running(request_id)
        ]
        for key in old:
            del self._bindings[key]


idempotency_service = IdempotencyService()
"""The process's own service."""
