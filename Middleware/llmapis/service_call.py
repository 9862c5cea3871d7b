"""One call that may be put to several endpoints, and what it knows of the service that it is put to."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from Middleware.common.request_context import current_request
from Middleware.common.types import Batches, Chunk, JsonObject, Message, Messages, close_batches
from Middleware.config.endpoints import EndpointConfig
from Middleware.llmapis.call.call_arguments import CallArguments
from Middleware.llmapis.handlers.base.base_llm_api_handler import LlmApiHandler
from Middleware.llmapis.llm_text import LlmText, count_call, join_batches, note_answer
from Middleware.services.cancellation_service import cancellation_service
from Middleware.services.run_trace import TracedNode
from Middleware.utilities.text_utils import estimate_tokens


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


_CHANGEABLE = (list, dict)

Rebuild = Callable[[Service], CallArguments]
"""The same call in the shape of another endpoint."""


@dataclass(frozen=True, slots=True, eq=False)
class ServiceCall:
    """`asked`: in the shape of the first endpoint; nothing in it is ever changed. Images are sent only where
    `llm_takes_images`. `rebuild`: how a backup gets it; None: as it stands in `asked`."""

    asked: CallArguments
    llm_takes_images: bool = False
    rebuild: Rebuild | None = None

    @property
    def request_id(self) -> str | None:
        return self.asked.request_id

    def of_request(self, request_id: str | None) -> ServiceCall:
        """The call as one of this request, unless it says whose it is."""
        if self.asked.request_id or not request_id:
            return self
        return replace(self, asked=replace(self.asked, request_id=request_id))

    def arguments(self, service: Service, *, is_backup: bool, backup_of: str = "") -> CallArguments:
        """For one endpoint's handler: with its own copy of the messages, without images unless they are
        wanted. `backup_of`: the endpoint that failed before."""
        asked = self.asked
        if is_backup and self.rebuild is not None:
            asked = self.rebuild(service)
        own = _copy_conversation(asked.conversation, with_images=self.llm_takes_images)
        return replace(asked, conversation=own, backup_of=backup_of)


def _copy_conversation(conversation: Messages | None, *, with_images: bool) -> Messages | None:
    """Copies that a handler may change."""
    if conversation is None:
        return None
    return [_copy_message(message, with_images) for message in conversation]


def _copy_message(message: Message, with_images: bool) -> Message:
    own = message.copy()
    if not with_images:
        own.pop("images", None)
    for key, value in own.items():
        if isinstance(value, _CHANGEABLE):
            own[key] = copy.deepcopy(value)
    return own


# --------------------------------------------------------------------------
# Calls that a user's script makes through `LlmApiService`: the node that it belongs to is told of them,
# and its request counts them. Source: spec console.md 3.3, more-fronts.md 9.


def calling_node() -> TracedNode | None:
    """The node whose script runs here; None: no script does, or nobody observes."""
    request = current_request()
    node: TracedNode | None = request.node if request is not None else None
    return node


def count_answer(asked: CallArguments, result: LlmText | JsonObject) -> LlmText | JsonObject:
    """The whole answer of such a call, counted. A call that was cancelled gave none."""
    request = current_request()
    if request is not None and not cancellation_service.is_cancelled(request.request_id):
        count_call(request, result, lambda: _estimate(asked))
    return result


def counted_stream(asked: CallArguments, endpoint: str, batches: Batches) -> Iterator[Chunk]:
    """The chunks of such a call; counted when its finishing dict has come."""
    chunks: list[Chunk] = []
    try:
        for batch in batches:
            chunks += batch
            if batch and batch[-1]["finish_reason"] is not None and "error" not in batch[-1]:
                count_answer(asked, note_answer(asked.trace, join_batches(endpoint, [chunks])))
            yield from batch
    finally:
        close_batches(batches)


def _estimate(asked: CallArguments) -> int:
    texts = [asked.system_prompt, asked.prompt, *(m["content"] for m in asked.conversation or ())]
    return sum(estimate_tokens(text) for text in texts if isinstance(text, str))
