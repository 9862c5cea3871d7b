"""The arguments of one call to a backend, as one value."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from Middleware.common.copies import copy_with
from Middleware.common.secrets import SECRET_NAME, secrets_of_url
from Middleware.common.types import Chunk, JsonObject, Message, Messages
from Middleware.config.endpoints import READ_TIMEOUT_S, EndpointConfig
from Middleware.config.users import CONNECT_TIMEOUT_S
from Middleware.llmapis.call.sent_prompt import BuiltPayload
from Middleware.llmapis.dialects.loop_turns import ThoughtFields
from Middleware.llmapis.dialects.openai_messages import GoogleThoughts
from Middleware.llmapis.dialects.prompt_caching import LateText, system_text
from Middleware.llmapis.llm_text import LlmText
from Middleware.services.run_trace import TracedNode
from Middleware.services.token_ratios import Model, is_measured, model_of
from Middleware.utilities.prompt_extraction_utils import sent_cost
from Middleware.utilities.text_utils import estimate_tokens


@dataclass(frozen=True, slots=True)
class CallArguments:
    """What is asked. `conversation` for backends that take messages; `system_prompt` and `prompt` are the
    formatted parts for flat ones (or a conversation's substitute). `request_id`: whose cancellation ends the
    call. `parallel_tool_calls`: whether the model may call several tools at once; None: as it likes.
    `trace`: the node that calls, None: nobody observes. `backup_of`: the endpoint that failed before.
    `asks_again`: an answer that is no good is asked for once more; False: the caller does so itself.
    `reads_ahead`: nobody waits for the answer: the prompt is to be held by the server.
    `llm_takes_images`: images go along only then. `late_text`: exactly the text that was added to the newest
    user message (`late_place` `after`: at its end, `before`: at its start; the joint is part of it), or the
    content of a message of its own (`alone`); empty: there is no late prompt. `turns`: what an agent's loop
    has added behind the conversation (`loop_turns.py`); None: no agent calls. `discussion_id`: None: the chat
    has none. `rebuild(call, service)`: the same call in the shape of a backup endpoint; None: as it is.
    `chat`: what its conversation is known by, the discussion id or the user's first message; "": the first
    one that is sent. `built`: the payload, where it was needed before the handler is called; the handler's
    own. Nothing else in it is ever changed: each handler gets what `of_endpoint` gives.
    """

    conversation: Messages | None = None
    system_prompt: str | None = None
    prompt: str | None = None
    tools: list[JsonObject] | None = None
    tool_choice: Any = None
    schema: JsonObject | None = None
    request_id: str | None = None
    parallel_tool_calls: bool | None = None
    trace: TracedNode | None = field(default=None, repr=False, compare=False)
    backup_of: str = ""
    asks_again: bool = True
    reads_ahead: bool = False
    llm_takes_images: bool = False
    late_text: str = ""
    late_place: str = ""
    turns: Messages | None = None
    discussion_id: str | None = None
    chat: str = field(default="", repr=False)
    built: BuiltPayload | None = field(default=None, repr=False, compare=False)
    rebuild: Callable[[CallArguments, Any], CallArguments] | None = field(
        default=None, repr=False, compare=False
    )

    @property
    def late(self) -> LateText | None:
        """The late text in the conversation; None: there is none."""
        return LateText.of(self.conversation or [], self.late_text, self.late_place)

    @property
    def steady_name(self) -> str:
        """What stays the same in all calls of a chat: the discussion id, else the system prompt."""
        if self.discussion_id or self.conversation is None:
            return self.discussion_id or self.system_prompt or ""
        return system_text(self.conversation, self.late)

    def of_request(self, request_id: str | None) -> CallArguments:
        """The call as one of this request, unless it says whose it is."""
        if self.request_id or not request_id:
            return self
        return copy_with(self, request_id=request_id)

    def of_endpoint(self, service: Any, *, is_backup: bool, backup_of: str = "") -> CallArguments:
        """For one endpoint's handler: with its own copy of the messages, without images unless they are
        wanted. `backup_of`: the endpoint that failed before."""
        asked = self.rebuild(self, service) if is_backup and self.rebuild is not None else self
        own = _copy_conversation(asked.conversation, with_images=self.llm_takes_images)
        turns = _copy_conversation(asked.turns, with_images=self.llm_takes_images)
        return copy_with(asked, conversation=own, turns=turns, backup_of=backup_of)

    def clamped_tokens(self) -> int:
        """Estimate of the prompt as the clamp counts it, so that both can be compared. Source: workflows.md
        7.8."""
        texts = estimate_tokens((self.system_prompt or "") + (self.prompt or ""))
        return texts + sum(map(sent_cost, self.messages()))

    def estimate_for(self, endpoint: EndpointConfig) -> tuple[Model, int] | None:
        """The model and our estimate of this prompt, to be compared with what the server counts; None: the
        clamp does not go by that, or pictures or tools, which are not estimated alike, are in it."""
        if not is_measured(endpoint) or self.tools:
            return None
        if any(message.get("images") for message in self.conversation or ()):
            return None
        return model_of(endpoint), self.clamped_tokens()

    def prompt_tokens(self) -> int:
        """Estimate of the prompt."""
        texts = estimate_tokens((self.system_prompt or "") + (self.prompt or ""))
        return texts + sum(estimate_tokens(message["content"]) for message in self.messages())

    def messages(self) -> Messages:
        """The conversation, and the turns of a loop behind it."""
        return [*(self.conversation or ()), *(self.turns or ())]


_CHANGEABLE = (list, dict)


def _copy_conversation(conversation: Messages | None, *, with_images: bool) -> Messages | None:
    """Copies that a handler may change."""
    if conversation is None:
        return None
    return [_copy_message(message, with_images) for message in conversation]


def _copy_message(message: Message, with_images: bool) -> Message:
    own = message.copy()
    if len(own) == 2 and own.get("content").__class__ is str and "role" in own:
        return own  # nearly every message of a long chat
    if not with_images:
        own.pop("images", None)
    for key, value in own.items():
        if isinstance(value, _CHANGEABLE):
            own[key] = copy.deepcopy(value)
    return own


# --------------------------------------------------------------------------
# What a backend's handler and the stream reader tell each other about one stream.


@dataclass(slots=True)
class StreamState:
    """One stream. `_map_event` may set `model` and `ended` and keep its own notes in `memo`; the rest is the
    reader's.

    `ended`: the end mark of this dialect was seen (`done: true`, `message_stop`); `[DONE]` is seen by the
    reader. `load_s`: how long the backend loaded the model, where it says so. `thoughts`: of a call of an
    agent, gathers them in the fields they come in; None: no agent calls. `held`: may hold text back, so the
    events are read in full and its rest is asked for at the end; None: nothing is held."""

    model: str | None = None
    load_s: float | None = None
    ended: bool = False
    saw_tool_calls: bool = False
    thoughts: ThoughtFields | None = None
    held: GoogleThoughts | None = None
    usage: JsonObject = field(default_factory=dict)
    memo: dict[str, Any] = field(default_factory=dict)


class ThoughtSplitter(Protocol):
    """Takes reasoning that stands inside the text out of it. Both give `(thinking, text)`; what is undecided
    is held. `in_thought`: what comes next is thought until a mark says otherwise."""

    @property
    def in_thought(self) -> bool: ...

    def feed(self, text: str) -> tuple[str, str]: ...

    def finish(self) -> tuple[str, str]: ...


# --------------------------------------------------------------------------
# What the shared machinery knows of a backend's handler: its settings and the methods that it calls.


@dataclass(frozen=True, slots=True)
class HandlerSettings:
    """All that a handler needs to know beside its endpoint. `api_key`, `headers`: those of the endpoint, read
    once, since the environment may hold them. `samplers`: the resolved `gen` (translated, append preset
    merged), before the structural fields. `stream`: whether the backend is asked to stream. `max_tokens`:
    None = no limit is sent. `suppress_retries`: the endpoint has a backup. `pinned`: addresses to connect to
    instead of asking DNS (egress guard), empty = ask. `address`: which of the endpoint's addresses is asked,
    empty = its first."""

    endpoint: EndpointConfig
    api_key: str = field(default="", repr=False)
    samplers: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    stream: bool = False
    max_tokens: int | None = 0
    suppress_retries: bool = False
    connect_timeout_s: float = CONNECT_TIMEOUT_S
    read_timeout_s: float = READ_TIMEOUT_S
    pinned: tuple[str, ...] = ()
    address: str = ""

    @property
    def url(self) -> str:
        """Where the call goes."""
        return self.address or self.endpoint.url

    @property
    def secrets(self) -> tuple[str, ...]:
        """What no message may show: the key, the values of headers that carry one, and what the URL holds."""
        values = [value for name, value in self.headers.items() if SECRET_NAME.search(name)]
        in_headers = (value.split()[-1] for value in values if value.strip())
        return (self.api_key, *in_headers, *secrets_of_url(self.url))


class HandlerFace(Protocol):
    """`LlmApiHandler`, seen from the machinery that it uses. Each member is described there."""

    settings: HandlerSettings
    generates: ClassVar[bool]
    eof_is_end: ClassVar[bool]
    _iterate_by_lines: ClassVar[bool]
    _required_event_name: ClassVar[str | None]

    def _get_api_endpoint_url(self) -> str: ...

    def whole_payload(self, call: CallArguments) -> JsonObject: ...

    def _map_event(self, event: str, data: JsonObject, state: StreamState) -> Chunk | None: ...

    def _is_answer(self, data: JsonObject) -> bool: ...

    def load_seconds(self, data: JsonObject) -> float | None: ...

    def _amend_payload(self, payload: JsonObject, refused: str) -> JsonObject | None: ...

    def _reasoning_splitter(self) -> ThoughtSplitter | None: ...

    def abort_request(self) -> tuple[str, JsonObject] | None: ...

    def request_headers(self) -> dict[str, str]: ...

    def _parse_non_stream_response(self, body: JsonObject) -> LlmText | JsonObject: ...

    def read_whole(self, body: JsonObject, *, for_agent: bool = False) -> LlmText | JsonObject: ...
