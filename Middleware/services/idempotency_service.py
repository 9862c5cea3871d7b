"""Which request holds an idempotency key: a retry replaces the request that it repeats.

Binds keys to request ids, over all processes, and cancels what is displaced. Keeps no answers: streams are
never joined or replayed, and nothing survives a restart. Source: spec frontend-api.md 14.
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
KEY = "key"
"""Kind of the record of a binding."""


def scoped_key(key: str, api_key: str | None) -> str:
    """`<hash of the API key or "anon">:<key>`: clients with different API keys do not disturb each other."""
    owner = hashlib.sha256(api_key.encode("utf-8", "surrogatepass")).hexdigest()[:16] if api_key else "anon"
    return f"{owner}:{key}"


class IdempotencyService:
    """Scoped key -> (request id, time of registration), oldest first: those of this process."""

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
            self._bindings.pop(key, None)
            self._bindings[key] = (request_id, now)
            before = self._cancellation.member().put(KEY, key, request_id)
            if len(self._bindings) > MAX_BINDINGS:
                self._drop(next(iter(self._bindings)))
                logger.warning(
                    "there are more than %d idempotency keys, so the oldest was dropped", MAX_BINDINGS
                )
        if before is None or before == request_id or not self._cancellation.is_running(before):
            return None
        self._cancellation.request_cancellation(before, "a newer request with its key")
        return before

    def is_held(self, key: str) -> bool:
        """Whether a request that runs holds the scoped key, in whatever process."""
        before = self._cancellation.member().find(KEY, key)
        return before is not None and self._cancellation.is_running(before)

    def release(self, key: str, request_id: str) -> None:
        """The request's work has ended. The binding stays when it already points at a successor."""
        with self._lock:
            if self._bindings.get(key, ("", 0.0))[0] == request_id:
                self._drop(key)

    def _drop(self, key: str) -> None:
        request_id, _ = self._bindings.pop(key)
        self._cancellation.member().remove(KEY, key, request_id)

    def bindings(self) -> dict[str, str]:
        """A copy: scoped key -> request id."""
        with self._lock:
            return {key: request_id for key, (request_id, _) in self._bindings.items()}

    def _prune(self, now: float) -> None:
        old = [
            key
            for key, (request_id, since) in self._bindings.items()
            if now - since > BINDING_LIFETIME_S and not self._cancellation.runs_here(request_id)
        ]
        for key in old:
            self._drop(key)


idempotency_service = IdempotencyService()
"""The process's own service."""
