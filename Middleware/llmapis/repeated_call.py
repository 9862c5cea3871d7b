"""One call of a run, made once more by its endpoint's own handler: from the body that was kept back to the
arguments of a call, and a service with the samplers of then.

What cannot be told back exactly is found out by `body_of`: without an edit it gives the very body.
Source: spec workbench.md 3.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from Middleware.common.types import JsonObject, Messages
from Middleware.config.endpoints import EndpointConfig, InjectedTexts
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.users import UserSettings
from Middleware.llmapis.call.call_arguments import CallArguments, HandlerSettings
from Middleware.llmapis.dialects.message_building import structured_output_block
from Middleware.llmapis.llm_api import LlmApiService
from Middleware.utilities.json_bytes import encode_json


@dataclass(frozen=True, slots=True)
class RepeatedCall:
    """What is asked. `messages`: as the backend was sent them; None: `prompt` is a flat prompt. `preset`:
    empty: none. `samplers`: those of the call, under the backend's names; None: those of the preset.
    `changes`: laid over them; null takes one away. `stream`: whether the backend is asked to stream. `body`:
    what stood beside messages and samplers: tools, their choice, a schema.
    """

    endpoint: str
    preset: str = ""
    messages: Messages | None = field(default=None, repr=False)
    prompt: str | None = field(default=None, repr=False)
    samplers: Mapping[str, Any] | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)
    max_tokens: int | None = None
    stream: bool = True
    body: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def service(self, user: UserSettings, snapshot: ConfigSnapshot) -> LlmApiService:
        """Raises ConfigError."""
        return _RepeatingService(self, user, snapshot)

    def arguments(self, service: LlmApiService) -> CallArguments:
        """The call, as its handler takes it. Raises ValueError for an endpoint of another kind of prompt."""
        if service.takes_messages != (self.messages is not None):
            kind = "messages" if service.takes_messages else "one flat prompt"
            raise ValueError(f"endpoint '{self.endpoint}' takes {kind}")
        if self.messages is None:
            return CallArguments(prompt=self.prompt or "", llm_takes_images=True)
        tools = self.body.get("tools")
        return CallArguments(
            conversation=copy.deepcopy(self.messages),
            tools=tools if isinstance(tools, list) else None,
            tool_choice=self.body.get("tool_choice"),
            parallel_tool_calls=self.body.get("parallel_tool_calls"),
            schema=_schema_in(self.body, service.endpoint),
            llm_takes_images=True,
        )

    def body_of(self, service: LlmApiService) -> bytes:
        """What would be sent. Raises as `arguments`."""
        asked = self.arguments(service).of_endpoint(service, is_backup=False)
        return encode_json(service.handler.whole_payload(asked))


def call_in(body: bytes, endpoint: str) -> RepeatedCall | None:
    """The call of a body that was kept; None: it is no request of a model."""
    try:
        sent = json.loads(body)
    except ValueError:
        return None
    if not isinstance(sent, dict):
        return None
    messages, prompt = sent.get("messages"), sent.get("prompt")
    if isinstance(messages, list) and all(isinstance(message, dict) for message in messages):
        system = sent.get("system")
        first = [{"role": "system", "content": system}] if isinstance(system, str) and system else []
        return RepeatedCall(endpoint, messages=[*first, *messages], body=sent)
    return RepeatedCall(endpoint, prompt=prompt, body=sent) if isinstance(prompt, str) else None


def _schema_in(body: Mapping[str, Any], endpoint: EndpointConfig) -> JsonObject | None:
    """The JSON Schema that a body asks the answer to fit."""
    block = structured_output_block(endpoint.api_type)
    value: Any = body
    for step in block[0].split(".") if block is not None else ():
        value = value.get(step) if isinstance(value, Mapping) else None
    if block is None or not isinstance(value, Mapping):
        return None
    inner = value.get("json_schema", value)
    schema = inner.get("schema", inner) if isinstance(inner, Mapping) else None
    return dict(schema) if isinstance(schema, Mapping) else None


class _RepeatingService(LlmApiService):
    """A service whose endpoint adds no text of its own: that is in the messages already."""

    def __init__(self, call: RepeatedCall, user: UserSettings, snapshot: ConfigSnapshot) -> None:
        self._call = call
        super().__init__(
            call.endpoint,
            call.preset or None,
            call.max_tokens,
            call.stream,
            user=user,
            snapshot=snapshot,
        )
        bare = copy.copy(self.endpoint)
        object.__setattr__(bare, "injected_texts", InjectedTexts())
        object.__setattr__(bare, "strict_prompt_template", True)
        object.__setattr__(bare, "backup_endpoint_name", "")
        if call.samplers is not None:
            object.__setattr__(bare, "request_stream_usage", "stream_options" in call.body)
        self.endpoint = bare
        self._handlers.clear()
        self.handler = self.create_api_handler()

    def _settings(self, stream: bool) -> HandlerSettings:
        """A limit of the answer that is another one now stands in place of that of then."""
        settings, changes = super()._settings(stream), self._call.changes
        name = self.endpoint.api_type.get("maxNewTokensPropertyName")
        return replace(settings, max_tokens=changes[name]) if name and name in changes else settings

    def _resolved_samplers(self) -> JsonObject:
        own = self._call.samplers
        gen = super()._resolved_samplers() if own is None else dict(own)
        return {name: value for name, value in {**gen, **self._call.changes}.items() if value is not None}
