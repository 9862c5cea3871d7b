"""The contract of a backend: what a subclass says, and the machinery that every backend shares.

A subclass gives the URL, the payload, the mapping of one event to a standard dict, and the reading of a whole body:

    @BACKENDS.register("fooChat")
    class FooHandler(LlmApiHandler):
        def _get_api_endpoint_url(self): return f"{self.base_url}/chat"
        def _prepare_payload(self, conversation, system_prompt, prompt, *, tools=None, tool_choice=None, schema=None):
            return {"messages": conversation, **self._generation_fields()}
        def _map_event(self, event, data, state): return {"token": data.get("text") or "", "finish_reason": None}
        def _parse_non_stream_response(self, body): return LlmText(body["text"], finish_reason="stop")

Transport, cancellation, retries, decoding, errors and the end of a stream are done here, once. Never cleans text.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from Middleware.common.types import Batches, Chunk, JsonObject, Messages
from Middleware.config.endpoints import EndpointConfig
from Middleware.llmapis.handlers.base.stream_state import ReasoningSplitter, StreamState
from Middleware.llmapis.llm_text import LlmText


@dataclass(frozen=True, slots=True)
class HandlerSettings:
    """All that a handler needs to know. `samplers`: the resolved `gen` (translated, append preset merged), before the
    structural fields. `stream`: whether the backend is asked to stream. `suppress_retries`: the endpoint has a backup.
    `pinned`: addresses to connect to instead of asking DNS (egress guard), empty = ask."""

    endpoint: EndpointConfig
    url: str
    api_key: str = field(default="", repr=False)
    samplers: Mapping[str, Any] = field(default_factory=dict)
    model: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    stream: bool = False
    max_tokens: int = 0
    suppress_retries: bool = False
    connect_timeout_s: float = 30.0
    read_timeout_s: float = 14400.0
    pinned: tuple[str, ...] = ()


class LlmApiHandler(ABC):
    """One backend, for one call or many."""

    takes_messages: ClassVar[bool] = True
    generates: ClassVar[bool] = True
    """False: not for text generation (embeddings)."""
    eof_is_end: ClassVar[bool] = False
    """True: this dialect has no end mark, a plain end of the body is a good end (`stop`)."""
    _iterate_by_lines: ClassVar[bool] = False
    """True: NDJSON. False: Server-Sent Events."""
    _required_event_name: ClassVar[str | None] = None

    def __init__(self, settings: HandlerSettings) -> None:
        self.settings = settings
        self.base_url = settings.url.rstrip("/")

    # What a backend says

    @abstractmethod
    def _get_api_endpoint_url(self) -> str:
        """The URL of a generation call; may look at `self.settings.stream`."""

    @abstractmethod
    def _prepare_payload(
        self,
        conversation: Messages | None,
        system_prompt: str | None,
        prompt: str | None,
        *,
        tools: list[JsonObject] | None = None,
        tool_choice: Any = None,
        schema: JsonObject | None = None,
    ) -> JsonObject:
        """The body. The messages are the handler's own copies (changing them is allowed); `images` keys have been
        taken out already when the node does not want images."""

    @abstractmethod
    def _map_event(self, event: str, data: JsonObject, state: StreamState) -> Chunk | None:
        """One decoded event -> one standard dict, or None for nothing. Called for each token: keep it short.

        `event`: name of the SSE event (`message` when it has none, and for NDJSON). Errors in band (a top-level `error`,
        an event named `error`) never come here. Tool-call deltas may be raw: index, id, type and text arguments are
        put right by the reader. `usage` may be given in parts, in any dict; the reader collects it and fills the total.
        """

    @abstractmethod
    def _parse_non_stream_response(self, body: JsonObject) -> LlmText | JsonObject:
        """A whole body -> text, or `{"content", "tool_calls", "finish_reason", ...}` when there are tool calls.

        A body that is not understood: `return self._unrecognised(body)`, or let LookupError, TypeError, ValueError or
        AttributeError out; the base does the same."""

    def _auth_headers(self) -> dict[str, str]:
        """Headers that carry the key; none when the key is empty."""
        return {"Authorization": f"Bearer {self.settings.api_key}"} if self.settings.api_key else {}

    def _amend_payload(self, payload: JsonObject, refused: str) -> JsonObject | None:
        """After a 400 with the text `refused`: another payload to send once more, or None."""
        return None

    def abort_request(self) -> tuple[str, JsonObject] | None:
        """A further POST (URL, body) that makes the backend stop after a cancelled call; sent in the background."""
        return None

    def _reasoning_splitter(self) -> ReasoningSplitter | None:
        """What splits reasoning out of the text (`reasoningParser`), made new for each stream; None = nothing does."""
        return None

    # What handlers may use

    def _generation_fields(self) -> JsonObject:
        """`gen` with the structural fields set and nulls normalised (spec backends.md 4), a new dict."""
        raise NotImplementedError

    def _unrecognised(self, body: object) -> LlmText:
        """For a body that is not understood: raises BackendError `protocol_error` when there is a backup, else logs and
        gives the empty text."""
        raise NotImplementedError

    # The faces

    def _process_stream_data(self, data: str) -> Chunk | None:
        """One event's data text -> one standard dict, without memory of other events. None: nothing to say."""
        raise NotImplementedError

    def stream_batches(self, *args: Any, **kwargs: Any) -> Batches:
        raise NotImplementedError

    def handle_streaming(self, *args: Any, **kwargs: Any) -> Iterator[Chunk]:
        raise NotImplementedError

    def handle_non_streaming(self, *args: Any, **kwargs: Any) -> LlmText | JsonObject:
        raise NotImplementedError
