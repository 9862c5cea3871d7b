"""A prompt that a server is given to read before anybody asks it: one token is made and thrown away.

It never waits for anything, goes to no backup, is tried once, and gives way to every call. That it did not
work is nobody's trouble: it is logged at DEBUG. Source: spec prompt-reuse.md 6.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from Middleware.common.errors import BackendError
from Middleware.llmapis.addresses import AddressRoute, Stop
from Middleware.llmapis.call.call_arguments import CallArguments
from Middleware.llmapis.call.sent_prompt import BuiltPayload, digest_payload
from Middleware.llmapis.failover import HANDLER_FAULTS, asker_of, places_of, take_spare_slots
from Middleware.llmapis.llm_api import LlmApiService
from Middleware.services.cancellation_service import cancellation_service
from Middleware.services.held_prompts import held_prompts
from Middleware.services.readings_ahead import Reading, readings_ahead

logger = logging.getLogger(__name__)

REFUSED = (400, 422)
"""How servers refuse a conversation that ends with the assistant: not all of them go on with its text."""
_A_TURN = {"role": "user", "content": "..."}


def read_ahead(service: LlmApiService, call: CallArguments, reading: Reading) -> None:
    """Have `call`, a conversation, read by the server of `service`. Returns when it has been, when it was
    stopped, or at once when the server has something else to do. Raises nothing; `reading` has ended then."""
    try:
        outcome = _read(service, replace(call, request_id=reading.id, reads_ahead=True), reading)
    except HANDLER_FAULTS as error:
        outcome = f"{type(error).__name__}: {error}"
    finally:
        readings_ahead().end(reading)
    logger.debug("endpoint '%s': reading ahead: %s", service.endpoint.name, outcome)


def _read(service: LlmApiService, call: CallArguments, reading: Reading) -> str:
    """What became of it, in words."""
    endpoint, own = service.endpoint, call.of_endpoint(service, is_backup=False)
    own = _with_payload(service, own)
    stop = None
    if len(service.addresses) > 1 and own.built is not None:
        stop = AddressRoute(endpoint, asker_of(service.user, call)).spare_stop(own.built.prompt)
        if stop is None:
            return "left out, no address answers"
    address = endpoint.url if stop is None else stop.url
    others = places_of(endpoint, whole_process=True)
    if not readings_ahead().begin(reading, address, others[1:]):
        return "left out, the server has something to do"
    choose = None if stop is None else lambda: stop
    slots = take_spare_slots(endpoint, choose=choose)
    if slots is None:
        return "left out, no slot is free"
    if not reading.hold(slots):
        return "stopped"
    try:
        return _ask(service, own, stop)
    except BackendError as error:
        if error.status not in REFUSED or not _ends_with_assistant(own):
            raise
    conversation = [*(call.conversation or ()), _A_TURN]
    again = replace(call, conversation=conversation).of_endpoint(service, is_backup=False)
    return _ask(service, _with_payload(service, again), stop)


def _with_payload(service: LlmApiService, own: CallArguments) -> CallArguments:
    payload = service.handler_to_read()._payload(own)
    return replace(own, built=BuiltPayload(payload, digest_payload(payload)))


def _ends_with_assistant(own: CallArguments) -> bool:
    return (own.conversation or [{}])[-1].get("role") == "assistant"


def _ask(service: LlmApiService, own: CallArguments, stop: Stop | None) -> str:
    """The call itself. What was not read to its end is not held."""
    handler, has_read = service.handler_to_read(stop), False
    asked = handler.handle_joined if handler.settings.stream else handler.handle_non_streaming
    try:
        asked(replace(own, asks_again=False))
        has_read = not cancellation_service.is_cancelled(own.request_id or "")
        return "done" if has_read else "stopped"
    finally:
        if not has_read and own.built is not None:
            held_prompts().forget(handler.settings.url, service.endpoint.model, own.built.prompt)
