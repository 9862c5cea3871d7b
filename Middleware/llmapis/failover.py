"""A call that may move on to another address of its endpoint, then to a backup endpoint, until the first
visible output. Source: spec backends.md 15.5, 15.6, prompt-reuse.md 7.

Holds the slots of the endpoint that is being called, and only those. A cancelled call never moves on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import lru_cache, partial
from typing import Protocol

from Middleware.common.copies import copy_with
from Middleware.common.errors import BackendError, MiddlewareError, RequestCancelled, SlotTimeout
from Middleware.common.instance_global_variables import launch_facts
from Middleware.common.request_context import current_request
from Middleware.common.types import Batch, Batches, JsonObject, close_batches
from Middleware.config.endpoints import EndpointConfig
from Middleware.config.loader import default_snapshot
from Middleware.config.machines import machine_limit
from Middleware.config.users import UserSettings
from Middleware.llmapis.addresses import AddressRoute, ChatAsker, Stop, servers_of
from Middleware.llmapis.call.call_arguments import CallArguments
from Middleware.llmapis.call.call_log import is_visible
from Middleware.llmapis.call.sent_prompt import BuiltPayload, digest_payload
from Middleware.llmapis.egress import place_of
from Middleware.llmapis.handlers.base.base_llm_api_handler import LlmApiHandler
from Middleware.llmapis.llm_text import LlmText, note_answer
from Middleware.services.cancellation_service import cancellation_service
from Middleware.services.fair_gate import NO_LIMIT, FairGate, gate_of_machine, outgoing_gate
from Middleware.services.key_limits import ask_of_request
from Middleware.services.readings_ahead import readings_ahead
from Middleware.services.run_trace import TracedNode
from Middleware.services.shared_state.turns import Ask

logger = logging.getLogger(__name__)


# --------------------------------------------------------------------------
# Slots of outgoing calls: the gate of the machine, one for each endpoint that sets `maxConcurrentRequests`,
# and the gate of all calls. In this order: who waits for a machine holds nothing that others wait for, and a
# machine sees all who want it (prompt-reuse.md 7.1).


Choose = Callable[[], Stop]
"""Chooses one of an endpoint's addresses, whose gate it is then."""


def take_slots(
    endpoint: EndpointConfig,
    request_id: str | None,
    *,
    whole_process: bool = True,
    choose: Choose | None = None,
    trace: TracedNode | None = None,
) -> ExitStack:
    """Wait for a turn at the endpoint's machine, a slot of the endpoint, then (`whole_process`) for one of
    the process. To be closed. `choose`: of an endpoint with several addresses; it is asked when the machine's
    turn has come. `trace`: the node that calls, None: nobody observes.

    Raises SlotTimeout after the time-out of the command line, RequestCancelled when the request is cancelled
    meanwhile, ConfigError for a faulty Machines.json, and what `choose` raises."""
    wait_s, readings = launch_facts().concurrency_timeout_s, readings_ahead()
    with ExitStack() as taken:
        taken.callback(readings.end_call, readings.begin_call(places_of(endpoint, whole_process, choose)))
        for gate, ask in _gates(endpoint, whole_process, choose):
            if isinstance(gate, Stop):
                taken.callback(readings.end_call, readings.begin_call([gate.url]))
            named = ask_of_request(ask)
            try:
                admitted = gate.acquire(
                    timeout=wait_s,
                    request_id=request_id or "",
                    ask=named,
                    behind=_lets_people_go_first(gate, ask, named) and _is_task(),
                    learn=None if trace is None else partial(_note_wait, trace, endpoint, gate, ask),
                )
            finally:
                if trace is not None:
                    trace.end_wait()
            if not admitted:
                raise SlotTimeout(endpoint.name, _no_slot(gate, ask, wait_s))
            taken.callback(gate.release, "" if named is None else named.name)
        return taken.pop_all()


def _lets_people_go_first(gate: FairGate | Stop, ask: Ask | None, named: Ask | None) -> bool:
    """Whether calls of tasks stand behind: at a machine, and with a keys file where there is a limit."""
    return ask is not None or (named is not None and gate.limit < NO_LIMIT)


def _note_wait(trace: TracedNode, endpoint: EndpointConfig, gate: FairGate | Stop, ask: Ask | None) -> None:
    """There is no slot at once."""
    if ask is not None:
        trace.begin_wait(f"a turn at the machine '{ask.machine}'")
    elif gate is outgoing_gate():
        trace.begin_wait("a slot for an outgoing call")
    else:
        trace.begin_wait(f"a slot of {endpoint.name}")


def take_spare_slots(
    endpoint: EndpointConfig, *, whole_process: bool = True, choose: Choose | None = None
) -> ExitStack | None:
    """The slots of a call that can be left out (`readAhead`), to be closed; None: leave it out. Never waits:
    it gets them when nobody waits for any of them, here or in another process, and when the endpoint's model
    is the one that was asked last at its machine, so that nothing is loaded for it. `choose`: as for
    `take_slots`."""
    with ExitStack() as taken:
        for gate, ask in _gates(endpoint, whole_process, choose):
            if not gate.take_spare(ask):
                return None
            taken.callback(gate.release)
        return taken.pop_all()


def places_of(endpoint: EndpointConfig, whole_process: bool, choose: Choose | None = None) -> list[str]:
    """What a call of the endpoint may wait for, by name: its address, where it has one, its machine, a slot
    of the process. Nothing that is read ahead stays in its way there."""
    places = [endpoint.url] if choose is None else []
    if endpoint.machine:
        places.append(f"machine {endpoint.machine}")
    if whole_process and outgoing_gate() is not None:
        places.append("outgoing calls")
    return places


def _no_slot(gate: FairGate | Stop, ask: Ask | None, wait_s: float) -> str:
    if ask is not None:
        return f"no turn at the machine '{ask.machine}' within {wait_s:g} s"
    return f"no free slot for an outgoing call within {wait_s:g} s (limit {gate.limit})"


def _is_task() -> bool:
    """Whether a front end asked for itself: such calls wait for those of people. Source: frontend-api.md
    16.2."""
    request = current_request()
    return request is not None and request.task is not None


def _gates(
    endpoint: EndpointConfig, whole_process: bool, choose: Choose | None
) -> Iterator[tuple[FairGate | Stop, Ask | None]]:
    if (machine := machine_gate(endpoint)) is not None:
        yield machine, Ask(endpoint.machine, endpoint.model_on_machine)
    own = endpoint_gate(endpoint) if choose is None else choose()
    if own is not None:
        yield own, None
    of_all = outgoing_gate() if whole_process else None
    if of_all is not None:
        yield of_all, None


def machine_gate(endpoint: EndpointConfig) -> FairGate | None:
    """The gate of the endpoint's machine, with the limit that is set now; None: it names no machine."""
    if not endpoint.machine:
        return None
    request = current_request()
    snapshot = request.snapshot if request is not None else None
    limit = machine_limit(snapshot or default_snapshot(), endpoint.machine) or NO_LIMIT
    return gate_of_machine(endpoint.machine, limit)


def endpoint_gate(endpoint: EndpointConfig) -> FairGate | None:
    """The endpoint's own gate, of several addresses that of the first; None: it gets any number of calls at
    once."""
    if len(endpoint.addresses) > 1:
        return servers_of(endpoint).gate(endpoint.url)
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
    user: UserSettings

    @property
    def takes_messages(self) -> bool: ...

    @property
    def addresses(self) -> tuple[str, ...]: ...

    @property
    def lifts_system_messages(self) -> bool: ...

    @property
    def backup_name(self) -> str: ...

    def note_answering(self, endpoint: EndpointConfig) -> None: ...

    def backup(self, pinned: tuple[str, ...]) -> Service: ...

    def can_show(self, image: str) -> bool: ...

    def create_api_handler(self, at: Stop | None = None) -> LlmApiHandler: ...

    def handler_for(self, stream: bool, at: Stop | None = None) -> LlmApiHandler: ...


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
    """The endpoints that one call has been put to, and the addresses of each."""

    def __init__(self, service: Service, call: CallArguments) -> None:
        self._first, self._call = service, call
        self._visited: list[str] = []
        self._visit(service)

    def _visit(self, service: Service) -> None:
        self.service = service
        self._stop: Stop | None = None
        self._arguments: CallArguments | None = None
        self._visited.append(service.endpoint.name)
        several = len(service.addresses) > 1
        self._route = AddressRoute(service.endpoint, asker_of(service.user, self._call)) if several else None

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

    def take_slots(self, stream: bool | None = None) -> ExitStack:
        """Choose the address, where there are several, and wait for its slots. To be closed. `stream`: as for
        `prepared`. Raises as `take_slots`, and what building the payload raises."""
        endpoint, route = self.service.endpoint, self._route
        if route is None:
            return take_slots(endpoint, self._call.request_id, trace=self._call.trace)
        own = self._own_arguments()
        payload = self._handler(stream, None).whole_payload(own)
        prompt = digest_payload(payload, own.system_prompt)
        self._arguments = copy_with(own, built=BuiltPayload(payload, prompt))

        def choose() -> Stop:
            self._stop = route.next_stop(prompt)
            return self._stop

        return take_slots(endpoint, self._call.request_id, choose=choose, trace=self._call.trace)

    def _own_arguments(self) -> CallArguments:
        return self._call.of_endpoint(self.service, is_backup=self.on_backup, backup_of=self.failed_endpoint)

    def _handler(self, stream: bool | None, at: Stop | None) -> LlmApiHandler:
        return self.service.create_api_handler(at) if stream is None else self.service.handler_for(stream, at)

    def prepared(self, stream: bool | None = None) -> tuple[LlmApiHandler, CallArguments]:
        """What calls the address, and with what. `stream` None: as the service calls it."""
        own = self._own_arguments() if self._arguments is None else self._arguments
        self._arguments = None
        return self._handler(stream, self._stop), own

    def note_answer(self) -> None:
        """The backend has begun to answer."""
        self._first.note_answering(self.service.endpoint)
        if self._stop is not None:
            self._stop.note_answer()

    def hop(self, error: Exception) -> None:
        """Go to the next address, else to the backup. Raises `error` when there is none, BackendError when it
        may not be called."""
        if isinstance(error, SlotTimeout):
            raise error
        if self._goes_on(error):
            return
        service = self.service
        name = service.backup_name
        if not name:
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
        self._visit(_guard_backup(service, error))

    def _goes_on(self, error: Exception) -> bool:
        """Whether another address of the endpoint is asked next."""
        if self._route is None or not self._route.goes_on_after(error):
            return False
        logger.warning("%s; asking another address of it", error)
        return True


def asker_of(user: UserSettings, call: CallArguments) -> ChatAsker:
    """Whose call it is."""
    sent = (message for message in call.conversation or () if message.get("role") == "user")
    first = next(sent, {"content": call.prompt})
    return ChatAsker(user.name, call.chat or str(first.get("content") or ""))


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
        slots = ExitStack()
        try:
            slots = chain.take_slots()
            return _ask_chain(chain)
        except RequestCancelled:
            return LlmText("")
        except HANDLER_FAULTS as error:
            if chain.cancelled:
                return LlmText("")
            slots.close()
            chain.hop(error)
        finally:
            slots.close()


def _ask_chain(chain: _Chain) -> LlmText | JsonObject:
    handler, arguments = chain.prepared()
    asked = handler.handle_joined if handler.settings.stream else handler.handle_non_streaming
    answer = asked(arguments)
    chain.note_answer()
    return note_answer(arguments.trace, answer)


class ServiceStream(Iterator[Batch]):
    """The batches of one call, from the service's endpoint or a backup. Opened when made; `closed(self)` is
    called once, when it is over. Cancelled: it just ends."""

    def __init__(
        self, service: Service, call: CallArguments, closed: Callable[[ServiceStream], None]
    ) -> None:
        self._closed = closed
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
        chain = self._chain
        while True:
            try:
                self._slots = chain.take_slots(stream=True)
                handler, arguments = chain.prepared(stream=True)
                self._batches = handler.stream_batches(arguments)
                chain.note_answer()
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
