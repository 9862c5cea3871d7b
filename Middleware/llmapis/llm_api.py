"""LlmApiService: from the name of an endpoint and a preset to an answer of its backend, or of its backup's.

Loads the configs, builds the handler, takes a slot, calls. Failover ends with the first visible output. Never
formats a prompt, never cleans text. Source: spec backends.md 7, 8.1, 15.5, 15.6."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any
from weakref import WeakSet

from Middleware.common.constants import TICK_S
from Middleware.common.instance_global_variables import launch_facts
from Middleware.common.request_context import current_request
from Middleware.common.types import Batches, Chunk, JsonObject, Messages
from Middleware.config.endpoints import READ_TIMEOUT_S, EndpointConfig, ensure_generates, load_endpoint
from Middleware.config.loader import ConfigSnapshot, default_snapshot
from Middleware.config.samplers import load_samplers
from Middleware.config.users import UserSettings, load_user, pointer_user
from Middleware.llmapis.addresses import Stop
from Middleware.llmapis.call.call_arguments import CallArguments
from Middleware.llmapis.failover import ServiceStream, ask_whole
from Middleware.llmapis.handlers import impl
from Middleware.llmapis.handlers.backends import backend_of
from Middleware.llmapis.handlers.base.base_llm_api_handler import HandlerSettings, LlmApiHandler
from Middleware.llmapis.llm_text import LlmText, join_batches, note_answer
from Middleware.llmapis.sampler_translation import deep_merge, translate
from Middleware.llmapis.script_calls import calling_node, count_answer, counted_stream

__all__ = ["TICK_S", "LlmApiService", "LlmText"]

_ = impl  # importing the package fills the table of backends

MIN_CONNECT_TIMEOUT_S = 1.0


class LlmApiService:
    """One endpoint with one preset. May be used for several calls, also at the same time.

    `user` None: the current request's, else the process's. `snapshot` None: the current request's, else a new
    one. `max_tokens` None: no limit is sent. `pinned`: the addresses to connect to. `wished`: canonical
    samplers of the client, laid over the preset, the backup's too; `without_preset`: they alone, whatever the
    endpoint's file has. Raises ConfigError (also ConfigMissing), ValueError for an
    unknown API type."""

    _answering: EndpointConfig | None = None

    def __init__(
        self,
        endpoint: str,
        presetname: str | None,
        max_tokens: int | None,
        stream: bool = False,
        *,
        user: UserSettings | None = None,
        snapshot: ConfigSnapshot | None = None,
        pinned: tuple[str, ...] = (),
        wished: Mapping[str, Any] | None = None,
        without_preset: bool = False,
    ) -> None:
        self.snapshot = snapshot if snapshot is not None else current_snapshot()
        self.user = user if user is not None else current_user(self.snapshot)
        self.endpoint: EndpointConfig = load_endpoint(self.snapshot, self.user, endpoint)
        ensure_generates(self.endpoint)
        self.presetname, self.max_tokens, self.stream = presetname, max_tokens, stream
        self._pinned, self._wished, self._without_preset = pinned, wished or {}, without_preset
        self._running: set[object] = set()
        self._streams: WeakSet[ServiceStream] = WeakSet()
        self._class = backend_of(self.endpoint)
        self._samplers = self._resolved_samplers()
        self._handlers: dict[bool, LlmApiHandler] = {}
        self.handler = self.create_api_handler()

    @property
    def takes_messages(self) -> bool:
        return self._class.takes_messages

    @property
    def lifts_system_messages(self) -> bool:
        """Whether system messages from among the others are sent in front of them."""
        return self._class.lifts_system_messages

    @property
    def can_leave_tools_out(self) -> bool:
        """Whether its API takes turns with calls in a request that offers no tools."""
        return self._class.can_leave_tools_out

    @property
    def address(self) -> str:
        """Where the endpoint's server is; empty for a backend that stays inside this program."""
        return self.endpoint.url if self._class.calls_out else ""

    @property
    def addresses(self) -> tuple[str, ...]:
        """Those that a call may be put to; empty for a backend that stays inside this program."""
        return self.endpoint.addresses if self._class.calls_out else ()

    @property
    def answering(self) -> EndpointConfig:
        """The endpoint that answered the last call, so the one whose rules its text is cleaned by: this
        service's own, or a backup."""
        return self._answering or self.endpoint

    def note_answering(self, endpoint: EndpointConfig) -> None:
        self._answering = endpoint

    @property
    def backup_name(self) -> str:
        """The endpoint to fail over to; "" for none."""
        return self.endpoint.backup_endpoint_name

    def can_show(self, image: str) -> bool:
        """Whether the endpoint's model gets to see an image from this source. Addresses are not fetched for
        backends that do not fetch them themselves."""
        return self.handler.can_show(image)

    def create_api_handler(self, at: Stop | None = None) -> LlmApiHandler:
        """The handler of the endpoint's type for the way in which the backend is called."""
        return self.handler_for(self.stream or self.endpoint.backend_stream == "always", at)

    def handler_for(self, stream: bool, at: Stop | None = None) -> LlmApiHandler:
        """The handler that asks the backend to stream, or not to. `at`: which of several addresses it calls;
        None: the first one."""
        if at is not None:
            return self._class(settings_at(self._settings(stream), at))
        if stream not in self._handlers:
            self._handlers[stream] = self._class(self._settings(stream))
        return self._handlers[stream]

    def handler_to_read(self, at: Stop | None = None) -> LlmApiHandler:
        """The handler of a call that has a prompt read and makes nothing of the answer: one token, whole
        unless the backend always streams, tried once. `at`: as for `handler_for`."""
        settings = self._settings(self.endpoint.backend_stream == "always")
        settings = settings if at is None else settings_at(settings, at)
        return self._class(replace(settings, max_tokens=1, suppress_retries=True))

    def get_response_from_llm(
        self,
        conversation: Messages | None = None,
        system_prompt: str | None = None,
        prompt: str | None = None,
        llm_takes_images: bool = False,
        request_id: str | None = None,
        tools: list[JsonObject] | None = None,
        tool_choice: Any = None,
        structured_output_schema: JsonObject | None = None,
    ) -> LlmText | JsonObject | Iterator[Chunk]:
        """A streaming service: a generator of standard dicts, which opens the backend at the first `next`.
        Else as `whole`. Raises as `whole`."""
        asked = CallArguments(
            conversation=conversation,
            system_prompt=system_prompt,
            prompt=prompt,
            tools=tools,
            tool_choice=tool_choice,
            schema=structured_output_schema,
            request_id=request_id or current_id(),
            trace=calling_node(),
            llm_takes_images=llm_takes_images,
        )
        return self._one_by_one(asked) if self.stream else count_answer(asked, self.whole_answer(asked))

    def whole_answer(self, call: CallArguments) -> LlmText | JsonObject:
        """The whole answer: `LlmText`, or a dict with `content`, `tool_calls`, `finish_reason`; also of a
        service that streams.

        Raises BackendError; SlotTimeout when no slot came free. Cancelled: the text is empty."""
        call = call.of_request(current_id())
        if self.stream:
            return note_answer(call.trace, join_batches(self.endpoint.name, self._open_stream(call)))
        running = object()
        self._running.add(running)
        try:
            return ask_whole(self, call)
        finally:
            self._running.discard(running)

    def stream_batches(self, call: CallArguments) -> Batches:
        """The answer as batches: what one read brought, `[]` at least every TICK_S. The backend (or its
        backup) has answered when this returns. Close what it gives from the thread that pulls it.

        Raises as `whole`, here or (while nothing visible came) later. Cancelled: it ends without a finishing
        dict."""
        return self._open_stream(call.of_request(current_id()))

    def is_busy(self) -> bool:
        """Whether a call is running."""
        return bool(self._running) or len(self._streams) > 0

    def close(self) -> None:
        """End the streams that are open. Connections belong to the process's pool, so nothing else is
        held."""
        for stream in list(self._streams):
            stream.close()

    def backup(self, pinned: tuple[str, ...]) -> LlmApiService:
        """The service of the backup endpoint, with its own configs, the same limit and way of answering."""
        preset = self.endpoint.backup_preset_name or self.presetname
        return LlmApiService(
            self.backup_name,
            preset,
            self.max_tokens,
            self.stream,
            user=self.user,
            snapshot=self.snapshot,
            pinned=pinned,
            wished=self._wished,
            without_preset=self._without_preset,
        )

    def _open_stream(self, call: CallArguments) -> ServiceStream:
        stream = ServiceStream(self, call, self._streams.discard)
        if not stream.is_over:
            self._streams.add(stream)
        return stream

    def _one_by_one(self, call: CallArguments) -> Iterator[Chunk]:
        yield from counted_stream(call, self.endpoint.name, self._open_stream(call))

    def _resolved_samplers(self) -> JsonObject:
        gen = {} if self._without_preset else self._preset_samplers()
        if not self._wished:
            return gen  # nearly every call: a long logit_bias is not copied for nothing
        return deep_merge(gen, translate(self._wished, self.endpoint.api_type, of="clientParameters"))

    def _preset_samplers(self) -> JsonObject:
        samplers = load_samplers(self.snapshot, self.user, self.endpoint, self.presetname)
        gen = (
            translate(samplers.block, self.endpoint.api_type) if samplers.canonical else dict(samplers.block)
        )
        if samplers.append:
            gen = deep_merge(gen, samplers.append)
        return gen

    def _settings(self, stream: bool) -> HandlerSettings:
        endpoint = self.endpoint
        connect_s, read_s = timeouts(endpoint, self.user, READ_TIMEOUT_S)
        return HandlerSettings(
            endpoint=endpoint,
            api_key=endpoint.api_key,
            samplers=self._samplers,
            headers=endpoint.extra_headers,
            stream=stream,
            max_tokens=self.max_tokens,
            suppress_retries=bool(self.backup_name),
            connect_timeout_s=connect_s,
            read_timeout_s=read_s,
            pinned=self._pinned,
        )


def settings_at(settings: HandlerSettings, at: Stop) -> HandlerSettings:
    """The same for another address of the endpoint. While others are left it is not tried again."""
    is_first = at.url == settings.endpoint.url
    return replace(
        settings,
        address=at.url,
        pinned=settings.pinned if is_first else at.pinned,
        suppress_retries=settings.suppress_retries or not at.is_last,
    )


def timeouts(endpoint: EndpointConfig, user: UserSettings, read_s: float) -> tuple[float, float]:
    """`(connect, read)` in seconds: the endpoint's, else the user's for the first and `read_s` for the
    second."""
    connect = endpoint.connect_timeout_in_seconds or user.connect_timeout_in_seconds
    return max(float(connect), MIN_CONNECT_TIMEOUT_S), float(endpoint.read_timeout_in_seconds or read_s)


def current_id() -> str | None:
    """The current request's id; None outside of one."""
    request = current_request()
    return request.request_id if request is not None else None


def current_snapshot() -> ConfigSnapshot:
    """The current request's view of the configs, else a new one."""
    request = current_request()
    snapshot = request.snapshot if request is not None else None
    return snapshot if isinstance(snapshot, ConfigSnapshot) else default_snapshot()


def current_user(snapshot: ConfigSnapshot) -> UserSettings:
    """The current request's user, else the process's only one, else the one of the pointer file."""
    request = current_request()
    if request is not None:
        return load_user(snapshot, request.user)
    users = launch_facts().users
    return load_user(snapshot, users[0] if len(users) == 1 else pointer_user(snapshot))
