"""Anthropic's messages API. Source: spec backends.md 9.6."""

from __future__ import annotations

import logging
from typing import Any

from Middleware.common.types import Chunk, JsonObject, Messages
from Middleware.llmapis.handlers.base.base_chat_completions_handler import (
    BaseChatCompletionsHandler,
    joined_url,
)
from Middleware.llmapis.handlers.base.claude_messages import (
    claude_messages,
    claude_tool_choice,
    claude_tools,
    has_prefill,
    holds_tool_blocks,
    split_system,
    without_prefill,
)
from Middleware.llmapis.handlers.base.event_mapping import arguments_text, finish_fields, usage_of
from Middleware.llmapis.handlers.base.message_building import structured_output_block
from Middleware.llmapis.handlers.base.stream_state import StreamState
from Middleware.llmapis.handlers.base.thinking_replay import thinking_replay
from Middleware.llmapis.handlers.base.whole_answer import whole_answer
from Middleware.llmapis.handlers.registry import BACKENDS
from Middleware.llmapis.llm_text import LlmText

logger = logging.getLogger(__name__)

ANTHROPIC_VERSION = "2023-06-01"
ALLOWED_KEYS = frozenset(
    "model messages max_tokens system temperature top_p top_k stream stop_sequences metadata thinking tools "  # noqa: SIM905
    "tool_choice output_config service_tier container context_management mcp_servers cache_control "
    "inference_geo".split()
)
THOUGHT_BLOCKS = ("thinking", "redacted_thinking")


@BACKENDS.register("claudeMessages")
class ClaudeApiHandler(BaseChatCompletionsHandler):
    """`POST {base}/v1/messages`, Server-Sent Events whose names repeat `data.type`."""

    def _get_api_endpoint_url(self) -> str:
        return joined_url(self.base_url, "/v1/messages")

    def _auth_headers(self) -> dict[str, str]:
        key = {"x-api-key": self.settings.api_key} if self.settings.api_key else {}
        return {**key, "anthropic-version": ANTHROPIC_VERSION}

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
        if schema and structured_output_block(self.settings.endpoint.api_type) is None:
            schema = None
        return super()._prepare_payload(
            conversation, system_prompt, prompt, tools=tools, tool_choice=tool_choice, schema=schema
        )

    def _payload_head(self, messages: Messages) -> JsonObject:
        system, rest = split_system(messages)
        turns = claude_messages(
            rest, lambda call_id: thinking_replay.of(self.settings.endpoint.name, call_id)
        )
        if has_prefill(turns) and self.settings.endpoint.raw.get("claudePrefill") is False:
            turns = without_prefill(turns)
        payload = super()._payload_head(turns)
        dropped = [key for key in payload if key not in ALLOWED_KEYS]
        if dropped:
            logger.warning("not parameters of the Claude API, dropped: %s", ", ".join(dropped))
        payload = {key: value for key, value in payload.items() if key in ALLOWED_KEYS}
        if system:
            payload["system"] = system
        return payload

    def _convert_messages(self, messages: Messages) -> Messages:
        return messages

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

    def _amend_payload(self, payload: JsonObject, refused: str) -> JsonObject | None:
        """A model that takes no prefill is asked once more, with the prefill in a user turn."""
        if "prefill" not in refused.lower() or not has_prefill(payload["messages"]):
            return None
        return {**payload, "messages": without_prefill(payload["messages"])}

    def _map_event(self, event: str, data: JsonObject, state: StreamState) -> Chunk | None:
        kind = data.get("type")
        if kind == "content_block_delta":
            delta = data["delta"]
            if delta.get("type") == "text_delta":
                return {"token": delta.get("text") or "", "finish_reason": None}
            return _other_delta(data, delta, state)
        if kind == "content_block_start":
            return _block_start(data, state)
        if kind == "content_block_stop":
            return _block_stop(data, state)
        if kind == "message_start":
            message = data.get("message") or {}
            state.model = state.model or message.get("model")
            state.memo["usage"] = dict(message.get("usage") or {})
        elif kind == "message_delta":
            return self._ending(data, state)
        elif kind == "message_stop":
            state.ended = True
        return None

    def _ending(self, data: JsonObject, state: StreamState) -> Chunk:
        counts = {**state.memo.get("usage", {}), **(data.get("usage") or {})}
        reason = (data.get("delta") or {}).get("stop_reason")
        chunk: Chunk = {"token": "", **finish_fields(reason)}  # type: ignore[typeddict-item]
        if (usage := _usage(counts)) is not None:
            chunk["usage"] = usage
        calls = state.memo.get("calls")
        if calls and reason is not None:
            blocks = list(state.memo.get("thoughts", {}).values())
            thinking_replay.keep(self.settings.endpoint.name, calls.ids, blocks)
        return chunk

    def _parse_non_stream_response(self, body: JsonObject) -> LlmText | JsonObject:
        blocks = [block for block in body["content"] if isinstance(block, dict)]
        uses = [block for block in blocks if block.get("type") == "tool_use"]
        answer = whole_answer(
            _joined(blocks, "text"),
            thinking=_joined(blocks, "thinking"),
            tool_calls=[_openai_call(use) for use in uses],
            finish=body.get("stop_reason"),
            facts={"usage": _usage(body.get("usage") or {}), "model": body.get("model")},
        )
        thoughts = [block for block in blocks if block.get("type") in THOUGHT_BLOCKS]
        if isinstance(answer, dict) and thoughts:
            answer["thinking_blocks"] = thoughts
            ids = [str(use["id"]) for use in uses if use.get("id")]
            thinking_replay.keep(self.settings.endpoint.name, ids, thoughts)
        return answer


class _Calls:
    """The tool calls of one stream: block index -> call index, ids, and input not said yet."""

    def __init__(self) -> None:
        self.index_of: dict[Any, int] = {}
        self.ids: list[str] = []
        self.unsaid: dict[Any, JsonObject] = {}

    def begin(self, block_index: Any, block: JsonObject) -> int:
        index = len(self.ids)
        self.index_of[block_index] = index
        self.ids.append(str(block.get("id") or ""))
        self.unsaid[block_index] = block.get("input") or {}
        return index


def _block_start(data: JsonObject, state: StreamState) -> Chunk | None:
    block = data.get("content_block") or {}
    kind = block.get("type")
    if kind == "tool_use":
        calls: _Calls = state.memo.setdefault("calls", _Calls())
        index = calls.begin(data.get("index"), block)
        function = {"name": block.get("name") or "", "arguments": ""}
        call = {"index": index, "id": block.get("id"), "type": "function", "function": function}
        return {"token": "", "finish_reason": None, "tool_calls": [call]}
    if kind in THOUGHT_BLOCKS:
        state.memo.setdefault("thoughts", {})[data.get("index")] = dict(block)
        return _thought(block.get("thinking"))
    text = block.get("text") if kind == "text" else ""
    return {"token": text, "finish_reason": None} if text else None


def _block_stop(data: JsonObject, state: StreamState) -> Chunk | None:
    """Input that did not come in pieces (whole at the start of the call, or none) is said here."""
    calls: _Calls | None = state.memo.get("calls")
    unsaid = calls.unsaid.pop(data.get("index"), None) if calls else None
    if calls is None or unsaid is None:
        return None
    return _arguments(calls.index_of[data.get("index")], arguments_text(unsaid))


def _other_delta(data: JsonObject, delta: JsonObject, state: StreamState) -> Chunk | None:
    kind, block_index = delta.get("type"), data.get("index")
    if kind == "input_json_delta":
        calls: _Calls | None = state.memo.get("calls")
        piece = delta.get("partial_json")
        if calls is None or block_index not in calls.index_of or not piece:
            return None
        calls.unsaid.pop(block_index, None)
        return _arguments(calls.index_of[block_index], piece)
    thoughts = state.memo.setdefault("thoughts", {})
    if kind == "thinking_delta":
        block = thoughts.setdefault(block_index, {"type": "thinking"})
        block["thinking"] = (block.get("thinking") or "") + (delta.get("thinking") or "")
        return _thought(delta.get("thinking"))
    if kind == "signature_delta":
        block = thoughts.setdefault(block_index, {"type": "thinking", "thinking": ""})
        block["signature"] = (block.get("signature") or "") + (delta.get("signature") or "")
    return None


def _thought(text: Any) -> Chunk | None:
    return {"token": "", "finish_reason": None, "thinking": text} if text else None


def _arguments(index: int, text: str) -> Chunk:
    call = {"index": index, "function": {"arguments": text}}
    return {"token": "", "finish_reason": None, "tool_calls": [call]}


def _openai_call(use: JsonObject) -> JsonObject:
    function = {"name": use.get("name"), "arguments": arguments_text(use.get("input") or {})}
    return {"id": use.get("id"), "type": "function", "function": function}


def _joined(blocks: list[JsonObject], kind: str) -> str:
    """The texts of all blocks of one type; block and field share their name (`text`, `thinking`)."""
    return "".join(str(block.get(kind) or "") for block in blocks if block.get("type") == kind)


def _usage(counts: JsonObject) -> JsonObject | None:
    """The standard usage; what came from or went into the prompt cache counts as prompt."""
    read = counts.get("cache_read_input_tokens") or 0
    prompt = counts.get("input_tokens")
    if prompt is not None:
        prompt += read + (counts.get("cache_creation_input_tokens") or 0)
    usage = usage_of(prompt, counts.get("output_tokens"))
    if usage is not None and read:
        usage["cached_tokens"] = read
    return usage
