"""From one node's texts and the conversation to what a backend is sent: messages, or a flat prompt. Pure.

Windows, merging, inserted turns, image limits, the clamp, the late prompt, templates, generation prompts.
Messages are handed on, never changed; what the log should say is collected in the `Clamp`. Source: spec
nodes.md 3.1; backends.md 13.1-13.4, 14; workflows.md 6.7, 7.8; prompt-reuse.md 1, 2.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from Middleware.common.types import Message, Messages, NodeConfig
from Middleware.config.endpoints import EndpointConfig, InjectedTexts
from Middleware.config.users import means_true
from Middleware.llmapis.call.call_arguments import CallArguments
from Middleware.llmapis.llm_handler import LlmHandler
from Middleware.services.token_ratios import level_factor
from Middleware.utilities import prompt_template_utils as templates
from Middleware.utilities.prompt_extraction_utils import (
    answered_length,
    clamped_cost,
    exchange_length,
    leading_system_count,
    leading_system_messages,
    message_cost,
    newest_within,
    sent_cost,
    without_system,
)
from Middleware.utilities.steady_window import SteadyWindow, newest_steady
from Middleware.utilities.text_utils import (
    ESTIMATION_FACTORS,
    estimate_json_tokens,
    estimate_tokens,
)
from Middleware.workflows.dispatch.late_prompt import (
    NO_LATE_PROMPT,
    LateMessages,
    LatePrompt,
    add_late,
)
from Middleware.workflows.models.node_keys import common_value

RESERVE = 512


@dataclass(frozen=True, slots=True)
class Parts:
    """What a node wants to send, before a shape is chosen: texts are filled, nothing is formatted.

    `authored`: the user turn, or None: the conversation is sent. `exchange`: tool turns that follow an
    authored turn. `demand`: the text that asks for a call in place of the `tools`, which are then not sent.
    `wants_generation_prompt`: the endpoint decides whether it gets one. `user_clamp`: the user's setting.
    `steady`: how windows stand, None: they move with each turn. `late`: text behind the conversation.
    `whole`: the conversation is sent as the client sent it; `system` is its own. `turns`: what an agent's
    loop has added behind all of it, None: no agent asks. `question_form(text)`: what becomes of the newest
    user message's text, None: it stays.
    """

    node: NodeConfig
    system: str
    authored: str | None
    messages: Messages
    exchange: Sequence[Message] = ()
    takes_images: bool = False
    max_images: int = 0
    tools: Sequence[Any] = ()
    demand: str = ""
    max_tokens: int = 0
    wants_generation_prompt: bool = False
    user_clamp: Any = None
    steady: SteadyWindow | None = None
    late: LatePrompt = NO_LATE_PROMPT
    whole: bool = False
    turns: Messages | None = None
    question_form: Callable[[str], str] | None = None

    @property
    def sent_tools(self) -> Sequence[Any]:
        return () if self.demand else self.tools

    @property
    def system_text(self) -> str:
        """The node's system text, and the demand behind it."""
        return "\n\n".join(filter(None, (self.system, self.demand)))


MakeCall = Callable[..., CallArguments]
"""Makes a call from its prompt, by the fields' names: `CallArguments` with all else given, or another call's
copy."""


def assemble(
    parts: Parts, model: LlmHandler, make: MakeCall, clamp: Clamp | None = None
) -> tuple[CallArguments, Clamp]:
    """The call with the prompt that `model` is sent for `parts`, and the clamp that it was cut to.

    Chat: `conversation`. Flat: the two texts, and a conversation only if images go along. `clamp`: that of an
    earlier call of the same parts, which is to begin alike. Never raises on any conversation.
    """
    clamp = clamp or Clamp.of(parts, model.llm.endpoint)
    if model.takes_message_collection:
        messages = with_question_form(_chat(parts, clamp), parts)
        sent = add_late(messages, parts.late, system_stays=not model.llm.lifts_system_messages)
        chat = make(
            conversation=sent.messages,
            system_prompt=None,
            prompt=None,
            late_text=sent.text,
            late_place=sent.place,
            turns=parts.turns,
        )
        return chat, clamp
    turns = None if parts.authored is not None else _flat_turns(parts, clamp)
    images = gathered_images(parts, turns if parts.steady is not None or parts.whole else None)
    pictures = [{"role": "user", "content": "", "images": images}] if images else None
    sent = LateMessages([])
    if turns is not None:
        sent = add_late(with_question_form(turns, parts), parts.late, system_stays=False)
    system, text = _flat(parts, sent.messages, model, clamp)
    flat = make(
        conversation=pictures,
        system_prompt=system,
        prompt=text,
        late_text=sent.text,
        late_place=sent.place,
        turns=None if parts.turns is None else [],
    )
    return flat, clamp


def with_question_form(messages: Messages, parts: Parts) -> Messages:
    """The messages with the newest user message's text in the form that the parts want; none there: one of
    its own at the end."""
    if parts.question_form is None:
        return messages
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if message.get("role") == "user":
            asked = {**message, "content": parts.question_form(message["content"])}
            return [*messages[:index], asked, *messages[index + 1 :]]
    return [*messages, {"role": "user", "content": parts.question_form("")}]


def assemble_next_turn(parts: Parts, model: LlmHandler, make: MakeCall, answer: str) -> CallArguments:
    """The call with what the prompt of the next turn will begin with, once this turn is answered: for reading
    ahead, by a backend that takes messages.

    The system prompt, the window as the next turn will begin it, `answer` (as the user sees it) at its end;
    no new message, no late prompt but room for it. `parts`: of this turn, nothing authored. Source:
    prompt-reuse.md 6.
    """
    said: Message = {"role": "assistant", "content": answer}
    new: Message = {"role": "user", "content": ""}
    late = replace(parts.late, comes_later=True)
    next_turn = replace(parts, messages=[*parts.messages, said, new], late=late)
    call, _ = assemble(next_turn, model, make)
    return replace(call, conversation=(call.conversation or [])[:-1])


@dataclass(slots=True)
class Clamp:
    """The context-window clamp of one call, and what the log should say of it.

    `budget` None: nothing is dropped. `factor`: 1.0 while it is off. `dropped`: messages that did not fit.
    `costly_tools`: a sentence when the tools fill the window; true of each message of such a client, so
    whoever logs it does so now and then. `steady`: whether what it leaves begins at a place that stays.
    """

    on: bool = False
    budget: int | None = None
    factor: float = 1.0
    warnings: list[str] = field(default_factory=list)
    costly_tools: str = ""
    dropped: int = 0
    steady: bool = False

    @classmethod
    def of(cls, parts: Parts, endpoint: EndpointConfig) -> Clamp:
        clamp = cls._of_settings(parts, endpoint)
        clamp.steady = parts.steady is not None
        return clamp

    @classmethod
    def _of_settings(cls, parts: Parts, endpoint: EndpointConfig) -> Clamp:
        settings = (
            parts.node.get("clampPromptToContextWindow"),
            endpoint.clamp_prompt_to_context_window,
            parts.user_clamp,
        )
        if not means_true(next((setting for setting in settings if setting is not None), None)):
            return cls()
        factor, warnings = _factor_of(endpoint)
        window = endpoint.max_context_token_size
        if window is None:
            return cls(True, None, factor, warnings)
        room = (window - max(0, parts.max_tokens)) * factor
        budget = int(room) - RESERVE - estimate_tokens(parts.system) - parts.late.counted_tokens
        tools = _tool_tokens(parts)
        if tools * 2 > room:
            told = _costly_tools(parts, tools, int(window))
            return cls(True, budget, factor, warnings, told)
        return cls(True, budget - tools, factor, warnings)

    @property
    def cost(self) -> Callable[[Message], int]:
        """What a message's content counts in a limit of the node."""
        return clamped_cost if self.on else message_cost

    def within(self, messages: Messages, budget: int, keep: int, cost: Callable[[Message], int]) -> Messages:
        """The newest messages within a token budget; the newest `keep` stay, whatever they cost."""
        cut = newest_steady if self.steady else newest_within
        return cut(reversed(messages), budget=budget, minimum=keep, cost=cost)

    def fit(self, messages: Messages, keep: int) -> Messages:
        """`messages` without the oldest ones that do not fit. The newest `keep` stay, whatever they cost."""
        if self.budget is None or not messages:
            return messages
        keep = max(1, keep)
        kept = self.within(messages, self.budget, keep, sent_cost)
        self.dropped += len(messages) - len(kept)
        if self.budget <= 0:
            self.warnings.append(f"the context window leaves a budget of {self.budget} tokens for messages")
        elif len(kept) <= keep and (tokens := sum(map(sent_cost, kept))) > self.budget:
            what = "the newest message" if keep == 1 else f"what is being answered ({keep} messages)"
            self.warnings.append(
                f"{what} takes {tokens} tokens, over the budget of {self.budget}; it is sent whole"
            )
        return kept

    def warn_of_length(self, text: str) -> None:
        """An authored prompt is never cut: the log says that it is too long."""
        if self.budget is not None and (tokens := estimate_tokens(text)) > self.budget:
            self.warnings.append(
                f"the prompt ({tokens} tokens) is over the budget of {self.budget} tokens; it is sent whole"
            )


def window_budget(endpoint: EndpointConfig, max_tokens: int) -> int | None:
    """Tokens that a whole prompt may have, clamped or not; None: the window is not known.

    Source: workflows.md 7.8.
    """
    window = endpoint.max_context_token_size
    if window is None:
        return None
    return int((window - max(0, max_tokens)) * _factor_of(endpoint)[0]) - RESERVE


def _tool_tokens(parts: Parts) -> int:
    if parts.demand:
        return estimate_json_tokens(parts.demand)
    return estimate_json_tokens(json.dumps(parts.tools, ensure_ascii=False)) if parts.tools else 0


def _costly_tools(parts: Parts, tokens: int, window: int) -> str:
    count = len(parts.tools)
    tools = "tool takes" if count == 1 else "tools take"
    if parts.turns is not None:
        return (
            f"the agent's {count} {tools} about {max(100, round(tokens, -2)):,} of {window:,} tokens: raise "
            "maxContextTokenSize, or name fewer in agentTools"
        )
    return (
        f"the client's {count} {tools} about {max(100, round(tokens, -2)):,} of {window:,} tokens: raise "
        "maxContextTokenSize, switch tools off in the client, or turn allowTools off"
    )


def _factor_of(endpoint: EndpointConfig) -> tuple[float, list[str]]:
    """Budget factor of an endpoint's `wilmerContextEstimationLevel`, and what to warn of."""
    factor = level_factor(endpoint)
    if factor is None:
        level, known = endpoint.wilmer_context_estimation_level, ", ".join(ESTIMATION_FACTORS)
        return 1.0, [f"wilmerContextEstimationLevel {level!r} counts as conservative; known: {known}"]
    return factor, []


def window_size(node: NodeConfig) -> int:
    """`lastMessagesToSendInsteadOfPrompt`, never negative."""
    return max(0, int(common_value(node, "lastMessagesToSendInsteadOfPrompt")))


# --- the conversation, cut to size ---


def _last(messages: Messages, count: int) -> Messages:
    return messages[-count:] if count > 0 else []


def _conversation_window(parts: Parts, clamp: Clamp) -> Messages:
    """The last N messages, within the node's token ceiling if it has one."""
    return _window(parts) if _ceiling(parts) is None else _capped_window(parts, clamp)


def _ceiling(parts: Parts) -> int | None:
    cap = common_value(parts.node, "lastMessagesToSendInsteadOfPromptMaxTokenSize")
    return None if cap is None or cap <= 0 else int(cap)


def _capped_window(parts: Parts, clamp: Clamp) -> Messages:
    window = _window(parts)
    budget = int((_ceiling(parts) or 0) * clamp.factor)
    return clamp.within(window, budget, answered_length(window), clamp.cost)


def _window(parts: Parts) -> Messages:
    front = leading_system_count(parts.messages)
    places = range(front, len(parts.messages))
    return _newest(parts.messages[front:], window_size(parts.node), parts.steady, places)


def _newest(messages: Messages, count: int, steady: SteadyWindow | None, places: Sequence[int]) -> Messages:
    """The window of `count` messages; an open tool exchange is whole in it. `places`: where they stand in the
    conversation.
    """
    if steady is not None:
        count = len(messages) - steady.begin(messages, count, places)
    return _last(messages, max(count, exchange_length(reversed(messages))))


def _without_orphaned_results(messages: Messages) -> Messages:
    """Tool results at the front have lost the call that they answer; backends refuse them. System messages
    before, between and after them stay.
    """
    end = 0
    while end < len(messages) and messages[end].get("role") in ("system", "tool"):
        end += 1
    front = [message for message in messages[:end] if message.get("role") == "system"]
    return messages if len(front) == end else front + messages[end:]


# --- chat ---


def _chat(parts: Parts, clamp: Clamp) -> Messages:
    if parts.whole:
        return [*leading_system_messages(parts.messages), *_whole_turns(parts, clamp)]
    system = [{"role": "system", "content": text}] if (text := parts.system_text) else []
    if parts.authored is not None:
        clamp.warn_of_length(parts.authored)
        turn: Message = {"role": "user", "content": parts.authored}
        if images := gathered_images(parts):
            turn["images"] = images
        return [*system, turn, *parts.exchange]
    window = _conversation_window(parts, clamp)
    if parts.takes_images and parts.max_images > 0:
        window = _with_newest_images(window, parts.max_images)
    return _with_a_user_turn(_cut_turns(system, window, parts, clamp), parts.messages)


def _whole_turns(parts: Parts, clamp: Clamp) -> Messages:
    """All that stands behind the client's system messages, cut to the clamp alone. An open tool exchange
    stays whole.
    """
    turns = parts.messages[leading_system_count(parts.messages) :]
    if clamp.budget is None:
        return turns
    exchange = exchange_length(reversed(turns))
    kept = clamp.fit(turns, exchange or answered_length(turns))
    start = len(kept) - exchange
    return [*_without_orphaned_results(kept[:start]), *kept[start:]]


def _cut_turns(system: Messages, window: Messages, parts: Parts, clamp: Clamp) -> Messages:
    """The window in the shape that the node wants, cut to the clamp; an open tool exchange stays whole."""
    start = len(window) - exchange_length(reversed(window))
    exchange = shaped_turns(window[start:], parts.node)
    older = shaped_turns([*system, *_without_orphaned_results(window[:start])], parts.node)
    if clamp.budget is None:
        return [*older, *exchange]
    front = leading_system_count(older)
    turns = [*older[front:], *exchange]
    kept = clamp.fit(turns, len(exchange) or answered_length(turns))
    start = len(kept) - len(exchange)
    return [*older[:front], *_without_orphaned_results(kept[:start]), *kept[start:]]


def gathered_images(parts: Parts, sent: Messages | None = None) -> list[str]:
    """Images for an authored or a flat prompt: of `sent`, else of the last N messages; the newest, oldest
    first.
    """
    if not parts.takes_images:
        return []
    if sent is None:
        count = window_size(parts.node)
        if count:
            count = max(count, exchange_length(reversed(parts.messages)))
        sent = _last(parts.messages, count)
    images = [i for m in sent for i in m.get("images") or ()]
    return images[-parts.max_images :] if parts.max_images > 0 else images


def _with_newest_images(messages: Messages, limit: int) -> Messages:
    """At most `limit` images in all, the newest; messages beyond lose the key."""
    result = list(messages)
    for index in range(len(messages) - 1, -1, -1):
        images = messages[index].get("images")
        if not images:
            continue
        if len(images) > limit:
            message = {key: value for key, value in messages[index].items() if key != "images"}
            result[index] = {**message, "images": images[-limit:]} if limit else message
        limit -= min(limit, len(images))
    return result


def shaped_turns(messages: Messages, node: NodeConfig) -> Messages:
    """Neighbouring assistant messages merged, or kept apart by a user turn, as the node says."""
    if node.get("mergeConsecutiveAssistantMessages"):
        return _merge_turns(messages, common_value(node, "mergeConsecutiveAssistantMessagesDelimiter"))
    if node.get("insertUserTurnBetweenAssistantMessages"):
        return _kept_apart(messages, common_value(node, "insertedUserTurnText"))
    return messages


def _merge_turns(messages: Messages, delimiter: str) -> Messages:
    result: Messages = []
    run: Messages = []
    for message in messages:
        if message.get("role") == "assistant":
            run.append(message)
            continue
        if run:
            result.append(_as_one(run, delimiter))
            run = []
        result.append(message)
    return [*result, _as_one(run, delimiter)] if run else result


def _as_one(run: Messages, delimiter: str) -> Message:
    if len(run) == 1:
        return run[0]
    merged = {**run[0], "content": delimiter.join(message["content"] for message in run)}
    if calls := [call for message in run for call in message.get("tool_calls") or ()]:
        merged["tool_calls"] = calls
    return merged


def _kept_apart(messages: Messages, text: str) -> Messages:
    result: Messages = []
    for message in messages:
        if result and result[-1].get("role") == message.get("role") == "assistant":
            result.append({"role": "user", "content": text})
        result.append(message)
    return result


def _with_a_user_turn(messages: Messages, conversation: Messages) -> Messages:
    """Chat templates fail without a user turn: the newest of the conversation follows the system messages."""
    if any(message.get("role") == "user" for message in messages):
        return messages
    newest = next((m for m in reversed(conversation) if m.get("role") == "user"), None)
    if newest is None:
        return messages
    front = leading_system_count(messages)
    return [*messages[:front], dict(newest), *messages[front:]]


# --- flat ---


def _flat_turns(parts: Parts, clamp: Clamp) -> Messages:
    """The conversation of a flat prompt. A window that stands is cut to messages, then to tokens, each
    once.
    """
    if parts.whole:
        return _whole_turns(parts, clamp)
    count = window_size(parts.node) + 1
    capped = None if _ceiling(parts) is None else _capped_window(parts, clamp)
    if parts.steady is not None:
        turns = _flat_window(parts, count) if capped is None else without_system(capped)
        return clamp.fit(turns, answered_length(turns))
    turns = parts.messages if capped is None else capped
    turns = without_system(clamp.fit(turns, answered_length(turns)))
    return turns[-max(count, exchange_length(reversed(turns))) :]


def _flat_window(parts: Parts, count: int) -> Messages:
    messages = parts.messages
    places = [index for index, message in enumerate(messages) if message["role"] != "system"]
    return _newest([messages[index] for index in places], count, parts.steady, places)


def _flat(parts: Parts, turns: Messages, model: LlmHandler, clamp: Clamp) -> tuple[str, str]:
    """`(system prompt, prompt)`."""
    endpoint, template = model.llm.endpoint, model.prompt_template
    strict = endpoint.strict_prompt_template
    injected = endpoint.injected_texts if strict else InjectedTexts()
    if parts.authored is None:
        text = _render_turns(turns, template, injected.prompt if strict else None)
    else:
        clamp.warn_of_length(parts.authored)
        authored = parts.authored if parts.question_form is None else parts.question_form(parts.authored)
        text = injected.prompt + authored
    if parts.node.get("addUserTurnTemplate"):
        text = templates.user_turn(text, template)
    if parts.node.get("addOpenEndedAssistantTurnTemplate"):
        text = templates.affixes(template, "assistant")[0] + text
    text += "".join(templates.wrap(turn["content"], template, turn["role"]) for turn in parts.turns or ())
    if parts.wants_generation_prompt and endpoint.add_generation_prompt:
        text += templates.open_assistant_turn(template)
    system = templates.system_turn(injected.system + parts.system_text, template, strict=strict)
    return templates.strip_marks(system), templates.strip_marks(text)


def _render_turns(turns: Messages, template: Mapping[str, str], inside_first: str | None) -> str:
    """Messages in a template.

    `inside_first` (strict templates only): text inside the first turn; tool turns as text.
    """
    if inside_first is not None:
        turns = templates.with_tool_text(turns)
        if inside_first and turns:
            turns[0]["content"] = inside_first + turns[0]["content"]
        elif inside_first:
            return inside_first
    return templates.format_messages(turns, template)


# --------------------------------------------------------------------------
# Which warnings are due: what is true of every message of a client is logged once an hour, not each time.


HOUR_S = 3600.0
MOST = 10_000
"""How many are remembered; the oldest gives way and may be logged again early."""


class HourlyWarnings:
    """Thread-safe. `clock`: seconds that only grow. `every_s`: where an hour is too long."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, *, every_s: float = HOUR_S) -> None:
        self._clock, self._every_s = clock, every_s
        self._lock = threading.Lock()
        self._logged: dict[tuple[str, str], float] = {}

    def is_due(self, user: str, subject: str) -> bool:
        """True at most once in that time for a user and a subject; who gets True logs the warning."""
        now, key = self._clock(), (user, subject)
        with self._lock:
            last = self._logged.get(key)
            if last is not None and now - last < self._every_s:
                return False
            self._logged.pop(key, None)
            if len(self._logged) >= MOST:
                del self._logged[next(iter(self._logged))]
            self._logged[key] = now
            return True


hourly_warnings = HourlyWarnings()
