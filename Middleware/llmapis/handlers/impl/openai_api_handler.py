"""OpenAI chat completions, and every server that speaks them. Source: spec backends.md 9.1, 12."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from Middleware.common.types import Chunk, JsonObject, Messages
from Middleware.llmapis.handlers.base.base_chat_completions_handler import (
    BaseChatCompletionsHandler,
    joined_url,
)
from Middleware.llmapis.handlers.base.event_mapping import finish_fields, openai_usage, text_of
from Middleware.llmapis.handlers.base.image_injection import content_parts, openai_image, with_images
from Middleware.llmapis.handlers.base.message_building import without_empty_tool_calls
from Middleware.llmapis.handlers.base.model_lists import ModelList, openai_models
from Middleware.llmapis.handlers.base.openai_messages import read_message, tool_calls_of
from Middleware.llmapis.handlers.base.stream_state import StreamState
from Middleware.llmapis.handlers.base.tool_turns import openai_calls
from Middleware.llmapis.handlers.base.whole_answer import whole_answer
from Middleware.llmapis.handlers.registry import BACKENDS
from Middleware.llmapis.llm_text import LlmText

TEXT_GENERATION_WEBUI = "Text-Generation-WebUI"

_ROUTE = re.compile(r"/chat/completions(?=\?|$)")


@BACKENDS.register("openAIChatCompletion", "openAIApiChatImageSpecific")
class OpenAiApiHandler(BaseChatCompletionsHandler):
    """`POST {base}/v1/chat/completions`, Server-Sent Events."""

    def _get_api_endpoint_url(self) -> str:
        return joined_url(self.base_url, "/v1/chat/completions")

    def model_list(self) -> ModelList | None:
        return openai_models(self._get_api_endpoint_url())

    def _convert_messages(self, messages: Messages) -> Messages:
        return with_images(openai_calls(without_empty_tool_calls(messages)), content_parts(openai_image))

    def _payload_head(self, messages: Messages) -> JsonObject:
        payload = super()._payload_head(messages)
        ask_for_usage(payload, self.settings.endpoint.raw, self.settings.stream)
        return payload

    def abort_request(self) -> tuple[str, JsonObject] | None:
        """Text-Generation-WebUI is told to stop; others stop when the connection closes."""
        endpoint = self.settings.endpoint
        if TEXT_GENERATION_WEBUI in (endpoint.api_type_name, endpoint.api_type.get("presetType")):
            return _ROUTE.sub("/internal/stop-generation", self._get_api_endpoint_url()), {}
        return None

    def _map_event(self, event: str, data: JsonObject, state: StreamState) -> Chunk | None:
        if state.model is None:
            state.model = data.get("model")
        choices = data.get("choices")
        if not choices:
            return _without_choices(data)
        choice = choices[0]
        delta = choice.get("delta") or {}
        if len(delta) == 1 and choice.get("finish_reason") is None and not data.get("usage"):
            content = delta.get("content")
            if type(content) is str:
                return {"token": content, "finish_reason": None}
        return _rich_chunk(data, choice, delta)

    def _parse_non_stream_response(self, body: JsonObject) -> LlmText | JsonObject:
        choice = body["choices"][0]
        message = choice["message"]
        token, thinking, refused = read_message(message)
        return whole_answer(
            token,
            thinking=thinking,
            tool_calls=tool_calls_of(message),
            finish=choice.get("finish_reason"),
            facts={
                "usage": openai_usage(body.get("usage")),
                "model": body.get("model"),
                "refusal": refused,
                "native_finish_reason": text_of(choice.get("native_finish_reason")),
            },
        )


def ask_for_usage(payload: JsonObject, endpoint: Mapping[str, Any], stream: bool) -> None:
    """`stream_options` that ask for a usage chunk, when the endpoint's `requestStreamUsage` wants one."""
    if stream and endpoint.get("requestStreamUsage") is True:
        payload.setdefault("stream_options", {"include_usage": True})


def _without_choices(data: JsonObject) -> Chunk | None:
    """A chunk that says nothing of the answer: usage, or a preamble."""
    usage = openai_usage(data.get("usage"))
    if usage is not None:
        return {"token": "", "finish_reason": None, "usage": usage}
    return None if "choices" in data else {"token": "", "finish_reason": None}


def _rich_chunk(data: JsonObject, choice: JsonObject, delta: JsonObject) -> Chunk:
    """A chunk that is more than a piece of text."""
    token, thinking, refused = read_message(delta)
    chunk: Chunk = {"token": token, **finish_fields(choice.get("finish_reason"))}  # type: ignore[typeddict-item]
    native = text_of(choice.get("native_finish_reason"))
    if native and native != chunk["finish_reason"] and chunk["finish_reason"] is not None:
        chunk["native_finish_reason"] = native
    if thinking:
        chunk["thinking"] = thinking
    if calls := tool_calls_of(delta):
        chunk["tool_calls"] = calls
    if refused:
        chunk["refusal"] = True
    if (usage := openai_usage(data.get("usage"))) is not None:
        chunk["usage"] = usage
    if chunk["finish_reason"] == "error":
        message = "the backend ended the answer with an error"
        chunk["error"] = {"kind": "stream_error", "message": message, "status": 200, "native": data}
    return chunk
