"""What the variables of one node are made from, and the text of its newest messages.

Which names show what stands in `providers.py`. Source: workflows.md 7.7 - 7.9.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from Middleware.common.request_context import RequestContext
from Middleware.common.types import JsonObject, Message, Messages, NodeConfig
from Middleware.config.endpoints import EndpointConfig
from Middleware.config.named_files import load_prompt_template
from Middleware.config.users import UserSettings, means_true
from Middleware.services.steady_paragraphs import SystemParts, first_parts
from Middleware.services.token_ratios import level_factor
from Middleware.utilities.prompt_extraction_utils import (
    clamped_cost,
    exchange_length,
    message_cost,
    newest_first,
    newest_within,
    system_text,
    without_system,
)
from Middleware.utilities.prompt_template_utils import (
    arguments_text,
    call_function,
    call_name,
    format_messages,
    strip_marks,
    system_turn,
)
from Middleware.utilities.steady_window import SteadyWindow, newest_steady
from Middleware.workflows.models.node_keys import common_value, read_whole

if TYPE_CHECKING:
    from Middleware.llmapis.llm_handler import LlmHandler

logger = logging.getLogger(__name__)


# --------------------------------------------------------------------------
# What the variables of one node are made from: a frozen value that the engine makes once a node.


def _no_time_context() -> str:
    return ""


@dataclass(frozen=True, slots=True)
class VariableSource:
    """All that a placeholder of one node can show. `dataclasses.replace(source, messages=...)` for other
    messages.

    `workflow_variables`: top-level keys of the file without `nodes`, raw. Of this run, up to now:
    `agent_inputs` `{"agent1Input": ...}`, `agent_outputs` `{"agent1Output": ...}`, `thoughts`
    `{"agent1Thinking": str}`. `time_context()` gives `time_context_summary`; called only when a text names
    it. `system_parts(everywhere)`: the client's system text in two parts, of all its system messages or of
    the leading ones; None: as in the first turn of a chat. `llm_handler`: the node's model; None = no
    endpoint, or not loaded yet (counts as a chat model).
    `node`: the node object, numbers coerced (`jinja2`, window numbers and flags are read here).
    `categories`: category name -> description in file order; only in the categorisation run, else empty.
    `has_conversation`: the client sent messages, though none with a text may be left in `messages`.
    `drop_all_system`: memory nodes: `chat_*` slices drop every system message.
    `steady`: how slices stand that are context (`LEAST_STEADY` messages or more); None: all are exact.
    `file`, `pointer`: the workflow file below the config root, the node's JSON pointer (`/nodes/2`); for
    warnings. `now`: the clock, local time; read at most once a substitution.
    """

    request: RequestContext
    user: UserSettings
    node: NodeConfig = field(default_factory=dict)
    workflow_variables: Mapping[str, Any] = field(default_factory=dict)
    agent_inputs: Mapping[str, Any] = field(default_factory=dict)
    agent_outputs: Mapping[str, Any] = field(default_factory=dict)
    thoughts: Mapping[str, str] = field(default_factory=dict)
    messages: Messages = field(default_factory=list)
    has_conversation: bool = False
    discussion_id: str | None = None
    time_context: Callable[[], str] = _no_time_context
    system_parts: Callable[[bool], SystemParts] | None = None
    llm_handler: LlmHandler | None = None
    categories: Mapping[str, str] = field(default_factory=dict)
    drop_all_system: bool = False
    steady: SteadyWindow | None = None
    file: str = ""
    pointer: str = ""
    now: Callable[[], datetime] = datetime.now


# --------------------------------------------------------------------------
# Conversation variables: the text of the newest messages, as one node sees them. Source: workflows.md 7.7
# - 7.9.


ROLE_TAGS = {"user": "User: ", "assistant": "Assistant: ", "system": "System: ", "tool": "Tool Result: "}
SUMMARY_LENGTH = 200
WINDOW_RESERVE = 512
LEAST_STEADY = 5
"""A slice of fewer messages is a question, not context: it is exact, whatever the node says."""


class Conversation:
    """The conversation of one `VariableSource`: windows (lists of messages) and their two forms of text."""

    def __init__(self, source: VariableSource) -> None:
        self._source = source
        model = source.llm_handler
        self._chat = model is None or model.takes_message_collection
        self._endpoint: EndpointConfig | None = None if model is None else model.llm.endpoint

    def last(self, count: int, *, templated: bool) -> str:
        """The last `count` messages; with the clamp, only as many as fit the window."""
        return self._slice(templated, count=max(count, 0), budget=self._window)

    def last_n(self, *, templated: bool) -> str:
        return self.last(self._number("nMessagesToIncludeInVariable"), templated=templated)

    def token_limit(self, *, templated: bool) -> str:
        limit = self._limit("estimatedTokensToIncludeInVariable")
        return self._slice(templated, budget=limit)

    def min_messages_max_tokens(self, *, templated: bool) -> str:
        """At least so many messages, more while within the limit; with the clamp the minimum gives way."""
        least = max(1, self._number("minMessagesInVariable"))
        limit = self._limit("maxEstimatedTokensInVariable")
        return self._slice(templated, budget=limit, minimum=1 if self._is_clamped else least, keep=least)

    def system_prompt(self, *, templated: bool) -> str:
        text = system_text(self._source.messages, everywhere=not self._chat)
        return text if self._chat else strip_marks(system_turn(text, self._template(templated)))

    def system_parts(self) -> SystemParts:
        """The system text that the client sends, bare whatever the model is. Source: prompt-reuse.md 2.1."""
        if self._source.system_parts is not None:
            return self._source.system_parts(not self._chat)
        return first_parts(self._source.messages, everywhere=not self._chat)

    def without_system(self, *, templated: bool) -> str:
        messages = without_system(self._all_messages)
        if not self._chat:
            return strip_marks(format_messages(messages, self._template(templated)))
        text = "".join(message["content"] for message in messages)
        return strip_marks(text) if templated else text

    def _slice(
        self,
        templated: bool,
        *,
        count: int | None = None,
        budget: float | None = None,
        minimum: int = 1,
        keep: int = 1,
    ) -> str:
        """`count` is exact; a token `budget` never cuts an open tool exchange apart (backends.md 13.4).

        `keep`: so many messages a slice of tokens that stands holds, where they fit.
        """
        drop_all = templated or not self._chat or self._source.drop_all_system
        newest: Iterable[Message] = newest_first(self._source.messages, drop_all_system=drop_all)
        if budget is not None:
            again = newest_first(self._source.messages, drop_all_system=drop_all)
            minimum = max(minimum, exchange_length(again))
        if self._calls is not None:
            newest = (with_tool_text(message, self._calls) for message in newest)
        cost = clamped_cost if self._is_clamped else message_cost
        steady = self._source.steady
        if steady is None or (count is not None and count < LEAST_STEADY):
            messages = newest_within(newest, count=count, budget=budget, minimum=minimum, cost=cost)
        else:
            if count is not None:
                newest = reversed(steady.newest(newest, count))
            if budget is None:
                messages = [*newest][::-1]
            else:
                messages = newest_steady(newest, budget=budget, minimum=minimum, cost=cost, keep=keep)
        return self._templated_text(messages) if templated else self._chat_text(messages)

    def _chat_text(self, messages: Messages) -> str:
        tagged = bool(self._source.node.get("addUserAssistantTags"))
        user = self._source.user
        separator = (
            user.conversation_separation_delimiter if user.separate_conversation_in_variables else "\n"
        )
        return separator.join(
            (ROLE_TAGS.get(message["role"], "") if tagged else "") + message["content"]
            for message in messages
        )

    def _templated_text(self, messages: Messages) -> str:
        if self._chat:
            return strip_marks("".join(message["content"] for message in messages))
        return strip_marks(format_messages(messages, self._template(True)))

    def _template(self, templated: bool) -> Mapping[str, str]:
        """The endpoint's template for `templated_*` names, the user's for `chat_*` names."""
        model = self._source.llm_handler
        if templated and model is not None:
            template: Mapping[str, str] = model.prompt_template
            return template
        return load_prompt_template(
            self._source.request.snapshot, self._source.user.chat_prompt_template_name
        )

    @cached_property
    def _calls(self) -> Mapping[str, str] | None:
        """Tool call id -> how the call is named in its result; None when the node wants no tool calls as
        text.
        """
        if not self._source.node.get("includeToolCallsInConversation"):
            return None
        return tool_call_labels(self._source.messages)

    @property
    def _all_messages(self) -> Messages:
        calls = self._calls
        messages = self._source.messages
        return messages if calls is None else [with_tool_text(message, calls) for message in messages]

    def _number(self, key: str, *, bad: int | None = None) -> int:
        """A number of the node: its default when absent, `bad` (None: the default too) when it is no int."""
        written = self._source.node.get(key)
        if bad is not None and written is not None and read_whole(written) is None:
            return bad
        return int(common_value(self._source.node, key))

    def _limit(self, key: str) -> float:
        """The token limit of a field, with the clamp scaled by the level and not above the window."""
        limit = self._number(key)
        if not self._is_clamped:
            return limit
        scaled = int(limit * self._factor)
        return scaled if self._window is None else min(scaled, self._window)

    @cached_property
    def _is_clamped(self) -> bool:
        own = self._source.node.get("clampPromptToContextWindow")
        if own is not None:
            return means_true(own)
        of_endpoint = self._endpoint.clamp_prompt_to_context_window if self._endpoint else None
        return self._source.user.clamp_prompt_to_context_window if of_endpoint is None else of_endpoint

    @cached_property
    def _factor(self) -> float:
        if self._endpoint is None:
            return 1.0
        factor = level_factor(self._endpoint)
        if factor is None:
            logger.warning(
                "unknown wilmerContextEstimationLevel %r counts as 'conservative'",
                self._endpoint.wilmer_context_estimation_level,
            )
        return factor or 1.0

    @cached_property
    def _window(self) -> int | None:
        """Tokens of the window that the conversation may take; None: no clamp, or no known window."""
        window = self._endpoint.max_context_token_size if self._endpoint else None
        if not self._is_clamped or window is None:
            return None
        response = max(0, self._number("maxResponseSizeInTokens", bad=0))
        return int((window - response) * self._factor) - WINDOW_RESERVE


def tool_call_labels(messages: Messages) -> dict[str, str]:
    """Tool call id -> `<name> <summary>`."""
    return {
        call["id"]: _join_texts(call_name(call), call_summary(call))
        for message in messages
        for call in message.get("tool_calls") or ()
        if call.get("id")
    }


def with_tool_text(message: Message, labels: Mapping[str, str]) -> Message:
    """The message with its tool calls, or what it is a result of, as text. Source: workflows.md 7.9."""
    content = message["content"]
    if message["role"] == "tool":
        label = labels.get(message.get("tool_call_id") or "") or message.get("name") or "unknown_tool"
        return {**message, "content": f"[Tool Result: {label}] {content}"}
    if message["role"] != "assistant" or not message.get("tool_calls"):
        return message
    return {**message, "content": "\n".join(_call_lines(content, message["tool_calls"]))}


def _call_lines(content: str, calls: Iterable[JsonObject]) -> Iterator[str]:
    if content:
        yield content
    for call in calls:
        yield _join_texts(f"[Tool Call: {call_name(call)}]", call_summary(call))


def call_summary(call: JsonObject) -> str:
    """The first text among the arguments, else they all as text; cut at 200 characters."""
    arguments = call_function(call).get("arguments")
    if isinstance(arguments, str):
        arguments = _parse_json(arguments)
    texts = arguments.values() if isinstance(arguments, Mapping) else ()
    return next((text for text in texts if isinstance(text, str)), arguments_text(call))[:SUMMARY_LENGTH]


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _join_texts(first: str, second: str) -> str:
    return f"{first} {second}" if second else first
