"""A call that may move on to a backup endpoint, until the first visible output. Source: spec backends.md
15.5, 15.6.

Holds the slots of the endpoint that is being called, and only those. A cancelled call never moves on.
"""

from __future__ import annotations

import ipaddress
import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol
from urllib.parse import urlsplit

from Middleware.common.errors import BackendError, MiddlewareError, RequestCancelled, SlotTimeout
from Middleware.common.instance_global_variables import launch_facts
from Middleware.common.types import Batch, Batches, JsonObject, close_batches
from Middleware.config.endpoints import EndpointConfig
from Middleware.llmapis.call.call_arguments import CallArguments
from Middleware.llmapis.call.call_log import is_visible
from Middleware.llmapis.handlers.base.base_llm_api_handler import LlmApiHandler
from Middleware.llmapis.llm_text import LlmText, note_answer
from Middleware.services.cancellation_service import cancellation_service
from Middleware.services.fair_gate import FairGate, outgoing_gate

logger = logging.getLogger(__name__)


# --------------------------------------------------------------------------
# Where a host is: on this machine or its private networks, or out on the public ones. Asks DNS, opens
# nothing.


Resolve = Callable[[str], list[str]]


@dataclass(frozen=True, slots=True)
class EgressTarget:
    """`where`: `local`, `remote` or `unknown` (no DNS answer, no readable URL). `addresses`: those that were
    looked at, to connect to without a second DNS answer; empty: the URL names an address itself, or nothing
    is known."""

    where: str
    addresses: tuple[str, ...] = ()


def resolve(host: str) -> list[str]:
    """All addresses of a host name. Raises OSError."""
    found: list[Any] = socket.getaddrinfo(host, None, 0, socket.SOCK_STREAM)
    return list(dict.fromkeys(str(info[4][0]) for info in found))


def place_of(url: str, resolver: Resolve = resolve) -> EgressTarget:
    """A name with any public address among its answers is remote."""
    try:
        host = (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:
        return EgressTarget("unknown")
    if not host:
        return EgressTarget("unknown")
    if host == "localhost" or host.endswith(".localhost"):
        return EgressTarget("local")
    try:
        return EgressTarget("remote" if is_public(host) else "local")
    except ValueError:
        pass
    try:
        addresses = tuple(resolver(host))
        public = any(is_public(address) for address in addresses)
    except (OSError, UnicodeError, ValueError):
        return EgressTarget("unknown")
    if not addresses:
        return EgressTarget("unknown")
    return EgressTarget("remote" if public else "local", addresses)


def is_public(address: str) -> bool:
    """Whether an IP address (IPv4-mapped IPv6 counts as the IPv4) is none of loopback, private, link-local,
    shared.

    Raises ValueError for what is no address.
    """
    ip = ipaddress.ip_address(address)
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
    return (mapped or ip).is_global


# --------------------------------------------------------------------------
# Slots of outgoing calls: the gate of all of them, and one for each endpoint that sets
# `maxConcurrentRequests`.


def take_slots(endpoint: EndpointConfig, request_id: str | None, *, whole_process: bool = True) -> ExitStack:
    """Wait for a slot of the endpoint, then (`whole_process`) for one of the process. To be closed.

    Raises SlotTimeout after the time-out of the command line, RequestCancelled when the request is cancelled
    meanwhile."""
    wait_s = launch_facts().concurrency_timeout_s
    taken = ExitStack()
    for gate in (endpoint_gate(endpoint), outgoing_gate() if whole_process else None):
        if gate is None:
            continue
        try:
            admitted = gate.acquire(timeout=wait_s, request_id=request_id or "")
        except BaseException:
            taken.close()
            raise
        if not admitted:
            taken.close()
            message = f"no free slot for an outgoing call within {wait_s:g} s (limit {gate.limit})"
            raise SlotTimeout(endpoint.name, message)
        taken.callback(gate.release)
    return taken


def endpoint_gate(endpoint: EndpointConfig) -> FairGate | None:
    """The endpoint's own gate; None: it gets any number of calls at once."""
    limit = endpoint.max_concurrent_requests
    return _gate(endpoint.file, endpoint.url, limit) if limit else None


@lru_cache(maxsize=1024)
def _gate(file: str, url: str, limit: int) -> FairGate:
    """An edited limit makes a new gate; calls that hold the old one end by themselves."""
    return FairGate(limit, name=f"endpoint {file} {url}, at most {limit}")


# --------------------------------------------------------------------------


class Service(Protocol):
    """`LlmApiService`, as far as it is known to the calls that are put to it."""

    endpoint: EndpointConfig

    @property
    def takes_messages(self) -> bool: ...

    @property
    def backup_name(self) -> str: ...

    def backup(self, pinned: tuple[str, ...]) -> Service: ...

    def can_show(self, image: str) -> bool: ...

    def create_api_handler(self) -> LlmApiHandler: ...

    def handler_for(self, stream: bool) -> LlmApiHandler: ...


HANDLER_FAULTS = (
    MiddlewareError,
    RuntimeError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    OSError,
)
"""Whatever a handler may raise, faults of payload building included."""


class _Chain:
    """The endpoints that one call has been put to."""

    def __init__(self, service: Service, call: CallArguments) -> None:
        self.service, self._call = service, call
        self._visited = [service.endpoint.name]

    @property
    def cancelled(self) -> bool:
        return cancellation_service.is_cancelled(self._call.request_id or "")

    @property
    def on_backup(self) -> bool:
        return len(self._visited) > 1

    @property
    def failed_endpoint(self) -> str:
        """The endpoint before this one; empty for the first."""
        return self._visited[-2] if self.on_backup else ""

    def hop(self, error: Exception) -> None:
        """Go to the backup. Raises `error` when there is none, BackendError when it may not be called."""
        service = self.service
        name = service.backup_name
        if not name or isinstance(error, SlotTimeout):
            raise error
        if name in self._visited:
            names = ", ".join(sorted(self._visited))
            message = f"the backups form a circle, and all of them failed: {names}; the last error: {error}"
            raise BackendError(service.endpoint.name, "config_error", message) from error
        logger.warning(
            "endpoint '%s' failed (%s: %s); calling the backup '%s'",
            service.endpoint.name,
            type(error).__name__,
            error,
            name,
        )
        self.service = _guard_backup(service, error)
        self._visited.append(name)


def _guard_backup(service: Service, error: Exception) -> Service:
    """The backup's service, tied to the addresses that the egress guard has seen."""
    backup = service.backup(())
    place = place_of(backup.endpoint.url)
    name = backup.endpoint.name
    if place.where == "remote":
        if not backup.endpoint.allow_remote_backup:
            message = f"the backup '{name}' is on a public host and its file does not set allowRemoteBackup"
            raise BackendError(service.endpoint.name, "config_error", message) from error
        logger.warning("the backup '%s' is on a public host, which its file allows", name)
    elif place.where == "unknown":
        logger.warning("it is not known on which host the backup '%s' is; it is called anyway", name)
    return service.backup(place.addresses) if place.addresses else backup


def ask_whole(service: Service, call: CallArguments) -> LlmText | JsonObject:
    """One whole answer, from the service's endpoint or a backup. Cancelled: the empty text."""
    chain = _Chain(service, call)
    while True:
        try:
            slots = take_slots(chain.service.endpoint, call.request_id)
        except RequestCancelled:
            return LlmText("")
        try:
            return _ask_chain(chain, call)
        except RequestCancelled:
            return LlmText("")
        except HANDLER_FAULTS as error:
            if chain.cancelled:
                return LlmText("")
            slots.close()
            chain.hop(error)
        finally:
            slots.close()


def _ask_chain(chain: _Chain, call: CallArguments) -> LlmText | JsonObject:
    service = chain.service
    arguments = call.of_endpoint(service, is_backup=chain.on_backup, backup_of=chain.failed_endpoint)
    handler = service.create_api_handler()
    if not handler.settings.stream:
        return note_answer(arguments.trace, handler.handle_non_streaming(arguments))
    return note_answer(arguments.trace, handler.handle_joined(arguments))


class ServiceStream(Iterator[Batch]):
    """The batches of one call, from the service's endpoint or a backup. Opened when made; `closed(self)` is
    called once, when it is over. Cancelled: it just ends."""

    def __init__(
        self, service: Service, call: CallArguments, closed: Callable[[ServiceStream], None]
    ) -> None:
        self._call, self._closed = call, closed
        self._chain = _Chain(service, call)
        self._slots = ExitStack()
        self._batches: Batches = iter(())
        self._visible = self._over = False
        try:
            self._open_next()
        except BaseException:
            self._end()
            raise

    def __next__(self) -> Batch:
        if self._over:
            raise StopIteration
        try:
            batch = next(self._batches)
        except StopIteration:
            self._end()
            raise
        except HANDLER_FAULTS as error:
            return self._moved_on(error)
        except BaseException:
            self._end()
            raise
        if batch and not self._visible:
            self._visible = any(map(is_visible, batch))
        return batch

    @property
    def is_over(self) -> bool:
        """Whether nothing comes any more; a call that is cancelled while it is opened is over from the
        start."""
        return self._over

    def close(self) -> None:
        """Stop the backend. Before the finishing dict this is a cancellation."""
        self._end()

    def __del__(self) -> None:
        self._end()

    def _open_next(self) -> None:
        """Open the current endpoint's stream, or the next one's that can be opened."""
        chain, call = self._chain, self._call
        while True:
            try:
                self._slots = take_slots(chain.service.endpoint, call.request_id)
                arguments = call.of_endpoint(
                    chain.service, is_backup=chain.on_backup, backup_of=chain.failed_endpoint
                )
                self._batches = chain.service.handler_for(True).stream_batches(arguments)
                return
            except RequestCancelled:
                self._end()
                return
            except HANDLER_FAULTS as error:
                self._slots.close()
                if chain.cancelled:
                    self._end()
                    return
                chain.hop(error)

    def _moved_on(self, error: Exception) -> Batch:
        """After a failure in the stream: a tick while a backup takes over, or the failure goes on."""
        chain = self._chain
        if chain.cancelled or isinstance(error, RequestCancelled):
            self._end()
            raise StopIteration
        if self._visible:
            logger.error(
                "endpoint '%s' failed after output had begun: %s", chain.service.endpoint.name, error
            )
            self._end()
            raise error
        self._slots.close()
        try:
            chain.hop(error)
            self._open_next()
        except BaseException:
            self._end()
            raise
        return []

    def _end(self) -> None:
        if self._over:
            return
        self._over = True
        close_batches(self._batches)
        self._slots.close()
        self._closed(self)
