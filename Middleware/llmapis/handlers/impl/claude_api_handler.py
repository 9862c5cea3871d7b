"""Anthropic's messages API. Source: spec backends.md 9.6."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from Middleware.common.request_context import current_request
from Middleware.common.types import Chunk, JsonObject, Messages
from Middleware.config.endpoints import CACHE_CONTROL
from Middleware.llmapis.call.call_arguments import CallArguments, StreamState
from Middleware.llmapis.dialects.claude_events import (
    EVENT_TYPES,
    THOUGHT_BLOCKS,
    ClaudeEvents,
    claude_usage,
)
from Middleware.llmapis.dialects.claude_messages import (
    CLAUDE_TURNS,
    ThinkingOwner,
    claude_messages,
    claude_tool_choice,
    claude_tools,
    has_prefill,
    holds_tool_blocks,
    split_system,
    thinking_replay,
    without_prefill,
)
from Middleware.llmapis.dialects.event_mapping import arguments_text, standard_finish, text_of
from Middleware.llmapis.dialects.image_injection import claude_image
from Middleware.llmapis.dialects.message_building import structured_output_block
from Middleware.llmapis.dialects.model_lists import joined_url
from Middleware.llmapis.dialects.openai_messages import answer_form
from Middleware.llmapis.dialects.prompt_caching import CacheMark, LateText, mark_last, text_blocks
from Middleware.llmapis.dialects.tool_turns import TurnRules
from Middleware.llmapis.handlers.backends import BACKENDS
from Middleware.llmapis.handlers.base.base_chat_completions_handler import BaseChatCompletionsHandler
from Middleware.llmapis.llm_text import LlmText, pieces_of
from Middleware.services.answers import CUTTING_REASONS

logger = logging.getLogger(__name__)

ANTHROPIC_VERSION = "2023-06-01"
NEEDED_LIMIT = 4096
"""Tokens. The API refuses a request without a limit; where nobody said one it is what each model takes."""
ALLOWED_KEYS = frozenset(
    "model messages max_tokens system temperature top_p top_k stream stop_sequences metadata thinking tools "  # noqa: SIM905
    "tool_choice output_config service_tier container context_management mcp_servers cache_control "
    "inference_geo".split()
)


@BACKENDS.register("claudeMessages")
class ClaudeBackend(BaseChatCompletionsHandler):
    """`POST {base}/v1/messages`, Server-Sent Events whose names repeat `data.type`."""

    lifts_system_messages: ClassVar[bool] = True
    can_leave_tools_out: ClassVar[bool] = False
    stop_field: ClassVar[str] = "stop_sequences"
    takes_blank_stops: ClassVar[bool] = False
    turn_rules: ClassVar[TurnRules] = CLAUDE_TURNS
    cache_marks: ClassVar[tuple[str, ...]] = (CACHE_CONTROL,)

    def _get_api_endpoint_url(self) -> str:
        return joined_url(self.base_url, "/v1/messages")

    def _auth_headers(self) -> dict[str, str]:
        key = {"x-api-key": self.settings.api_key} if self.settings.api_key else {}
        return {**key, "anthropic-version": ANTHROPIC_VERSION}

    def _payload(self, call: CallArguments) -> JsonObject:
        if call.schema and structured_output_block(self.settings.endpoint.api_type) is None:
            call = replace(call, schema=None)
        return super()._payload(call)

    def _payload_head(self, messages: Messages) -> JsonObject:
        system, rest = split_system(messages)
        turns = claude_messages(rest, self._thoughts_of)
        if has_prefill(turns) and not self.settings.endpoint.claude_prefill:
            turns = without_prefill(turns)
        payload = super()._payload_head(turns)
        dropped = [key for key in payload if key not in ALLOWED_KEYS]
        if dropped:
            logger.warning(
                "dropped, because they are not parameters of the Claude API: %s", ", ".join(dropped)
            )
        payload = {key: value for key, value in payload.items() if key in ALLOWED_KEYS}
        if system:
            payload["system"] = system
        if self.settings.max_tokens is None:
            payload.setdefault("max_tokens", NEEDED_LIMIT)
        return payload

    def _set_marks(self, payload: JsonObject, mark: CacheMark, late: LateText | None) -> None:
        super()._set_marks(payload, mark, late)
        for name, blocks in (("system", text_blocks(payload.get("system"))), ("tools", payload.get("tools"))):
            if blocks:
                payload[name] = mark_last(blocks, mark)

    def can_show(self, source: str) -> bool:
        return claude_image(source) is not None

    def _convert_messages(self, messages: Messages) -> Messages:
        return messages

    def _thoughts_of(self, use: JsonObject) -> list[JsonObject]:
        """The signed blocks that came with a call; wanted only where this request thinks too."""
        thinking = self.settings.samplers.get("thinking")
        if not isinstance(thinking, Mapping) or thinking.get("type") == "disabled":
            return []
        return thinking_replay.of(self._thinking_owner(), use["id"], use["input"])

    def _thinking_owner(self) -> ThinkingOwner:
        request = current_request()
        asker, user = (request.asker.owner, request.user) if request is not None else ("", "")
        return ThinkingOwner(asker, user, self.settings.endpoint.name)

    def _add_tools(self, payload: JsonObject, tools: list[JsonObject] | None, tool_choice: Any) -> None:
        if not tools:
            return
        if tool_choice == "none":
            if holds_tool_blocks(payload["messages"]):
                payload.update(tools=claude_tools(tools), tool_choice={"type": "none"})
            return
        payload["tools"] = claude_tools(tools)
        if (choice := claude_tool_choice(tool_choice)) is not None:
            payload["tool_choice"] = choice

    def _allow_parallel_calls(self, payload: JsonObject, allowed: bool) -> None:
        choice = payload.get("tool_choice") or {"type": "auto"}
        if not allowed and choice.get("type") != "none":
            payload["tool_choice"] = {**choice, "disable_parallel_tool_use": True}

    def _amend_payload(self, payload: JsonObject, refused: str) -> JsonObject | None:
        """A model that takes no prefill is asked once more, with the prefill in a user turn."""
        if "prefill" not in refused.lower() or not has_prefill(payload["messages"]):
            return None
        return {**payload, "messages": without_prefill(payload["messages"])}

    def _is_answer(self, data: JsonObject) -> bool:
        return text_of(data.get("type")) in EVENT_TYPES or isinstance(data.get("content"), list)

    def _map_event(self, event: str, data: JsonObject, state: StreamState) -> Chunk | None:
        if data.get("type") == "content_block_delta":
            delta = data["delta"]
            if delta.get("type") == "text_delta":
                return {"token": text_of(delta.get("text")), "finish_reason": None}
        events: ClaudeEvents = state.memo.setdefault("events", ClaudeEvents())
        chunk = events.chunk(data)
        if data.get("type") == "message_start":
            state.usage.update(events.usage or {})
        state.model = state.model or events.model
        state.ended = events.ended
        if chunk is not None and chunk["finish_reason"] is not None:
            thinking_replay.keep(self._thinking_owner(), events.calls, events.thought_blocks)
        return chunk

    def _parse_non_stream_response(self, body: JsonObject) -> LlmText | JsonObject:
        blocks = [block for block in body["content"] if isinstance(block, dict)]
        whole = _without_cut_call(blocks, body)
        uses = [block for block in whole if block.get("type") == "tool_use"]
        answer = answer_form(
            _join_blocks(blocks, "text"),
            thinking=_join_blocks(blocks, "thinking"),
            tool_calls=[_openai_call(use) for use in uses],
            finish=body.get("stop_reason"),
            facts={
                "usage": claude_usage(body.get("usage")),
                "model": body.get("model"),
                "pieces": pieces_of(
                    (_text_in(block, "thinking"), _text_in(block, "text")) for block in blocks
                ),
                "cut_call": len(whole) < len(blocks),
                "cut_calls": [_openai_call(block) for block in blocks[len(whole) :]],
            },
        )
        thoughts = [block for block in blocks if block.get("type") in THOUGHT_BLOCKS]
        if isinstance(answer, dict) and thoughts:
            answer["thinking_blocks"] = thoughts
            calls = [(use["id"], use.get("input")) for use in uses if text_of(use.get("id"))]
            thinking_replay.keep(self._thinking_owner(), calls, thoughts)
        return answer


def _without_cut_call(blocks: list[JsonObject], body: JsonObject) -> list[JsonObject]:
    """A call at the very end of an answer that was cut is not whole, though its input is an object.

    Source: Anthropic's guide to stop reasons, `max_tokens`."""
    was_cut = standard_finish(body.get("stop_reason")) in CUTTING_REASONS
    return blocks[:-1] if was_cut and blocks and blocks[-1].get("type") == "tool_use" else blocks


def _openai_call(use: JsonObject) -> JsonObject:
    function = {"name": text_of(use.get("name")), "arguments": arguments_text(use.get("input") or {})}
    return {"id": use.get("id"), "type": "function", "function": function}


def _join_blocks(blocks: list[JsonObject], kind: str) -> str:
    """The texts of all blocks of one type; block and field share their name (`text`, `thinking`)."""
    return "".join(_text_in(block, kind) for block in blocks)


def _text_in(block: JsonObject, kind: str) -> str:
    return text_of(block.get(kind)) if block.get("type") == kind else ""
