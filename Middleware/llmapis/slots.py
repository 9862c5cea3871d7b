"""Slots of outgoing calls: the gate of all of them, and one for each endpoint that sets
`maxConcurrentRequests`.

Both hold over all processes and are fair; a waiter that is cancelled leaves at once. Source: spec
backends.md 15.5.
"""

from __future__ import annotations

from functools import lru_cache

from Middleware.common.errors import SlotTimeout
from Middleware.common.instance_global_variables import launch_facts
from Middleware.config.endpoints import EndpointConfig
from Middleware.services.fair_gate import FairGate, outgoing_gate


class Slots:
    """The slots that one outgoing call holds. `release` may be called more than once."""

    def __init__(self, gates: list[FairGate]) -> None:
        self._gates = gates

    def release(self) -> None:
        while self._gates:
            self._gates.pop().release()


def take_slots(endpoint: EndpointConfig, request_id: str | None, *, whole_process: bool = True) -> Slots:
    """Wait for a slot of the endpoint, then (`whole_process`) for one of the process.

    Raises SlotTimeout after the time-out of the command line, RequestCancelled when the request is cancelled
    meanwhile."""
    wait_s = launch_facts().concurrency_timeout_s
    taken = Slots([])
    for gate in (endpoint_gate(endpoint), outgoing_gate() if whole_process else None):
        if gate is None:
            continue
        try:
            admitted = gate.acquire(timeout=wait_s, request_id=request_id or "")
        except BaseException:
            taken.release()
            raise
        if not admitted:
            taken.release()
            message = f"no free slot for an outgoing call within {wait_s:g} s (limit {gate.limit})"
            raise SlotTimeout(endpoint.name, message)
        taken._gates.append(gate)
    return taken


def endpoint_gate(endpoint: EndpointConfig) -> FairGate | None:
    """The endpoint's own gate; None: it gets any number of calls at once."""
    limit = endpoint.max_concurrent_requests
    return _gate(endpoint.file, endpoint.url, limit) if limit else None


@lru_cache(maxsize=1024)
def _gate(file: str, url: str, limit: int) -> FairGate:
    """An edited limit makes a new gate; calls that hold the old one end by themselves."""
    return FairGate(limit, name=f"endpoint {file} {url}, at most {limit}")
