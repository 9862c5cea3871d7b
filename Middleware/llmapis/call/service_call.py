"""One call that may be put to several endpoints, and what it knows of the service that it is put to."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from Middleware.common.types import Message, Messages
from Middleware.config.endpoints import EndpointConfig
from Middleware.llmapis.call.call_arguments import CallArguments
from Middleware.llmapis.handlers.base.base_llm_api_handler import LlmApiHandler


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
