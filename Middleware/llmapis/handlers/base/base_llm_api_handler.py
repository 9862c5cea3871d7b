"""The contract of a backend: what a subclass says, and the machinery that every backend shares.

A subclass gives the URL, the payload, the mapping of one event to a standard dict, and the reading of a whole
body:

    @BACKENDS.register("fooChat")
    class FooHandler(LlmApiHandler):
        def _get_api_endpoint_url(self):
            return f"{self.base_url}/chat"

        def _payload(self, call):
            return {"messages": call.conversation, **self._generation_fields()}

        def _map_event(self, event, data, state):
            return {"token": data.get("text") or "", "finish_reason": None}

        def _parse_non_stream_response(self, body):
            return LlmText(body["text"], finish_reason="stop")

Transport, cancellation, retries, decoding, errors and the end of a stream are done here, once. Never cleans
text."""

from __future__ import annotations

import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from Middleware.common.constants import USER_AGENT
from Middleware.common.errors import BackendError, RequestCancelled
from Middleware.common.request_context import current_request
from Middleware.common.types import Batches, Chunk, JsonObject, Messages, close_batches
from Middleware.llmapis.backend_errors import (
    bad_call,
    error_chunk,
    failed_by_word,
    told_failure,
    unrecognised_answer_error,
)
from Middleware.llmapis.call.call_arguments import (
    CallArguments,
    HandlerSettings,
    StreamState,
    ThoughtSplitter,
)
from Middleware.llmapis.call.call_log import one_chunk
from Middleware.llmapis.call.outgoing_call import BAD_ANSWERS, OpenStream, OutgoingCall
from Middleware.llmapis.call.stream_reader import StreamReader, split_in_order
from Middleware.llmapis.dialects.model_lists import ModelList
from Middleware.llmapis.dialects.prompt_caching import chat_key
from Middleware.llmapis.llm_text import LlmText, Piece, in_order, join_batches, pieces_of
from Middleware.llmapis.reasoning_parser import reasoning_splitter
from Middleware.llmapis.sampler_translation import (
    apply_structural_fields,
    normalize_gen_input,
    stop_texts_listed,
)
from Middleware.utilities.model_json import object_of

__all__ = ["HandlerSettings", "LlmApiHandler"]

logger = logging.getLogger(__name__)


class LlmApiHandler(ABC):
    """One backend, for one call or many."""

    takes_messages: ClassVar[bool] = True
    lifts_system_messages: ClassVar[bool] = False
    """True: its API has one place for system messages, in front; those from among the others go there."""
    can_leave_tools_out: ClassVar[bool] = True
    """False: its API refuses turns with calls in a request without tools."""
    generates: ClassVar[bool] = True
    """False: not for text generation (embeddings)."""
    calls_out: ClassVar[bool] = True
    """False: it answers by itself, and its endpoints need no address."""
    eof_is_end: ClassVar[bool] = False
    """True: this dialect has no end mark, a plain end of the body is a good end (`stop`)."""
    _iterate_by_lines: ClassVar[bool] = False
    """True: NDJSON. False: Server-Sent Events."""
    _required_event_name: ClassVar[str | None] = None
    stop_field: ClassVar[str] = ""
    """Name of the field whose stop texts this API takes as a list alone; empty: it takes one text, too."""
    takes_blank_stops: ClassVar[bool] = True
    """False: it refuses a stop text of nothing but white space."""
    cache_marks: ClassVar[tuple[str, ...]] = ()
    """Fields of content blocks that this API reads as marks of a prompt cache (`promptCacheMark`)."""
    answer_fields: ClassVar[Mapping[str, type]] = {}
    """Name and type of the fields by which an answer is known, streamed or whole: one of them is enough. An
    answer without any of them is a failure, told in the backend's words. None named: all is an answer."""

    def __init__(self, settings: HandlerSettings) -> None:
        self.settings = settings
        self.base_url = settings.url

    # What a backend says

    @abstractmethod
    def _get_api_endpoint_url(self) -> str:
        """The URL of a generation call; may look at `self.settings.stream`."""

    @abstractmethod
    def _payload(self, call: CallArguments) -> JsonObject:
        """The body. The messages are the handler's own copies (changing them is allowed); `images` keys have
        been taken out already when the node does not want images."""

    @abstractmethod
    def _map_event(self, event: str, data: JsonObject, state: StreamState) -> Chunk | None:
        """One decoded event -> one standard dict, or None for nothing. Called for each token: keep it short.

        `event`: name of the SSE event (`message` when it has none, and for NDJSON). Errors in band (a
        top-level `error`, an event named `error`) never come here. Tool-call deltas may be raw: index, id,
        type and text arguments are put right by the reader. `usage` may be given in parts, in any dict; the
        reader collects it and fills the total."""

    @abstractmethod
    def _parse_non_stream_response(self, body: JsonObject) -> LlmText | JsonObject:
        """A whole body -> text, or `{"content", "tool_calls", "finish_reason", ...}` when there are tool
        calls.

        A body that is not understood: let LookupError, TypeError, ValueError or AttributeError out; the base
        makes the error of it."""

    def _auth_headers(self) -> dict[str, str]:
        """Headers that carry the key; none when the key is empty."""
        return {"Authorization": f"Bearer {self.settings.api_key}"} if self.settings.api_key else {}

    def can_show(self, source: str) -> bool:
        """Whether the model gets to see an image from this source (data URI, bare base64, URL). Said by every
        backend that leaves some of them out."""
        return True

    def _amend_payload(self, payload: JsonObject, refused: str) -> JsonObject | None:
        """After a 400 with the text `refused`: another payload to send once more, or None."""
        return None

    def model_list(self) -> ModelList | None:
        """Where the server tells which models it has; None: nowhere. Asked by the doctor only."""
        return None

    def abort_request(self) -> tuple[str, JsonObject] | None:
        """A further POST (URL, body) that makes the backend stop after a cancelled call; sent in the
        background."""
        return None

    def _reasoning_splitter(self) -> ThoughtSplitter | None:
        """What splits reasoning out of the text (`reasoningParser`), made new for each stream; None = nothing
        does."""
        return reasoning_splitter(self.settings.endpoint.reasoning_parser)

    # What a backend may use

    def _generation_fields(self) -> JsonObject:
        """`gen` with the structural fields set and nulls normalised (spec backends.md 4), a new dict."""
        settings = self.settings
        size = settings.endpoint.max_context_token_size
        fields = apply_structural_fields(
            settings.samplers,
            settings.endpoint.api_type,
            stream=settings.stream,
            context_size=size if isinstance(size, int) else None,
            max_tokens=settings.max_tokens,
        )
        return stop_texts_listed(normalize_gen_input(fields), self.stop_field, self.takes_blank_stops)

    def _is_answer(self, data: JsonObject) -> bool:
        """Whether an event or a body has the form of this backend's answers."""
        fields = self.answer_fields
        return not fields or any(isinstance(data.get(name), kind) for name, kind in fields.items())

    # The faces

    def _prepare_payload(
        self,
        conversation: Messages | None,
        system_prompt: str | None = None,
        prompt: str | None = None,
        *,
        tools: list[JsonObject] | None = None,
        tool_choice: Any = None,
        schema: JsonObject | None = None,
    ) -> JsonObject:
        """The body of a call whose arguments are told one by one."""
        return self.whole_payload(
            CallArguments(
                conversation=conversation,
                system_prompt=system_prompt,
                prompt=prompt,
                tools=tools,
                tool_choice=tool_choice,
                schema=schema,
            )
        )

    def whole_payload(self, call: CallArguments) -> JsonObject:
        """The body, and the key of the chat beside it where the endpoint sends one. Source: prompt-reuse.md
        5."""
        payload = self._payload(call)
        if name := self.settings.endpoint.cache_key_name:
            request = current_request()
            payload.setdefault(name, chat_key(request.user if request is not None else "", call.steady_name))
        return payload

    def _process_stream_data(self, data: str) -> Chunk | None:
        """One event's data text -> one standard dict, without memory of other events. None: nothing to
        say."""
        try:
            event = json.loads(data, strict=False)
        except (ValueError, RecursionError):
            return None
        if not isinstance(event, dict):
            return None
        error = told_failure(self.settings.endpoint, event, secrets=self.settings.secrets)
        if error is not None:
            return {"token": "", "finish_reason": "error", "error": error_chunk(error)}
        return self._map_event(self._required_event_name or "message", event, StreamState())

    def new_stream(self, content_type: str = "") -> StreamReader:
        """The reader for one streamed body. `content_type`: lower case, without parameters."""
        return StreamReader(self, content_type)

    def load_seconds(self, data: JsonObject) -> float | None:
        """How long the backend loaded the model for this answer, as a whole body or the last event of a
        stream says; None: it does not."""
        return None

    def read_whole(self, body: JsonObject, *, for_agent: bool = False) -> LlmText | JsonObject:
        """A whole body with reasoning split out of its text. Raises BackendError `protocol_error` for a body
        that holds no answer, and for a tool call whose arguments are no JSON object (`for_agent`: that call
        is the caller's matter); `stream_error` for one whose finish reason is a failure."""
        settings = self.settings
        try:
            if not self._is_answer(body):
                raise LookupError
            answer = self._parse_non_stream_response(body)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise unrecognised_answer_error(settings.endpoint, body, secrets=settings.secrets) from error
        takes_any_call = for_agent and isinstance(answer, dict)
        if not takes_any_call and (failure := _failure_of(answer, settings.endpoint.name)) is not None:
            raise failure
        splitter = self._reasoning_splitter()
        return answer if splitter is None else _split(answer, splitter)

    def stream_batches(self, call: CallArguments) -> Batches:
        """Open the backend's stream; returns when its headers are here. `[]` is a tick, at least every
        TICK_S.

        Raises BackendError here, and later only while nothing visible has come out. A cancelled call ends the
        stream."""
        outgoing = OutgoingCall(self, call)
        try:
            with outgoing.ended_by_failures():
                answer = outgoing.post()
        except RequestCancelled:
            return iter(())
        return OpenStream(outgoing, answer)

    def handle_streaming(self, call: CallArguments) -> Iterator[Chunk]:
        """`stream_batches`, one dict at a time; the backend is opened by the first `next`."""
        batches = self.stream_batches(call)
        try:
            for batch in batches:
                yield from batch
        finally:
            close_batches(batches)

    def handle_non_streaming(self, call: CallArguments) -> LlmText | JsonObject:
        """The whole answer. Raises BackendError; a cancelled call gives the empty text."""
        outgoing = OutgoingCall(self, call)
        try:
            with outgoing.ended_by_failures():
                answer = outgoing.whole_answer()
        except RequestCancelled:
            return LlmText("")
        outgoing.end(str(answer["finish_reason"] if isinstance(answer, dict) else answer.finish_reason))
        return answer

    def handle_joined(self, call: CallArguments) -> LlmText | JsonObject:
        """As `handle_non_streaming`, of a backend that streams: a bad answer is asked for twice."""
        if not self.settings.suppress_retries:
            try:
                return self._joined_stream(replace(call, asks_again=False))
            except BackendError as error:
                if error.kind not in BAD_ANSWERS:
                    raise
                logger.warning("%s; trying once more", error)
        return self._joined_stream(replace(call, asks_again=False))

    def _joined_stream(self, call: CallArguments) -> LlmText | JsonObject:
        batches = self.stream_batches(call)
        try:
            return join_batches(self.settings.endpoint.name, batches)
        finally:
            close_batches(batches)

    def request_headers(self) -> dict[str, str]:
        """All headers of a call; `extraHeaders` replace others without regard to case."""
        accept = "application/json"
        if self.settings.stream:
            accept = "application/x-ndjson" if self._iterate_by_lines else "text/event-stream"
        headers = {
            "Content-Type": "application/json",
            "Accept": accept,
            "Accept-Encoding": "identity" if self.settings.stream else "gzip, deflate",
            "User-Agent": USER_AGENT,
            **self._auth_headers(),
        }
        for name, value in self.settings.headers.items():
            for taken in [taken for taken in headers if taken.lower() == name.lower()]:
                del headers[taken]
            headers[name] = value
        return headers


def _failure_of(answer: LlmText | JsonObject, endpoint: str) -> BackendError | None:
    """The error that a whole answer is, though its form is right: as the same answer in a stream."""
    if isinstance(answer, dict):
        functions = [call["function"] for call in answer["tool_calls"]]
        bad = [function["name"] for function in functions if object_of(function["arguments"]) is None]
        return bad_call(endpoint, bad) if bad else None
    if answer.finish_reason == "error":
        return failed_by_word(endpoint, "error")
    said = answer or answer.thinking
    return None if said else failed_by_word(endpoint, answer.native_finish_reason)


def _split(answer: LlmText | JsonObject, splitter: ThoughtSplitter) -> LlmText | JsonObject:
    """A whole answer with the reasoning inside its text moved to `thinking`, in the order of a stream."""
    said: list[Piece] = []
    for chunk in in_order(one_chunk(answer), answer):
        parts = [*split_in_order(splitter, chunk), chunk]
        said += [(part.get("thinking", ""), part["token"]) for part in parts]
    said.append(splitter.finish())
    thinking, text = ("".join(part) for part in zip(*said, strict=True))
    pieces = pieces_of(said)
    if isinstance(answer, dict):
        told = {"content": text, "thinking": thinking, "pieces": pieces}
        return {**answer, **{key: value for key, value in told.items() if value or key in answer}}
    return answer.told_apart(text, thinking, pieces)
