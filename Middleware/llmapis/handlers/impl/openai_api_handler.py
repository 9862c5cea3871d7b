"""OpenAI chat completions, and every server that speaks them. Source: spec backends.md 9.1, 12."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from Middleware.common.types import Chunk, JsonObject, Messages
from Middleware.llmapis.handlers.base.base_chat_completions_handler import (
    BaseChatCompletionsHandler,
    joined_url,
)
from Middleware.llmapis.handlers.base.event_mapping import finish_fields, openai_usage
from Middleware.llmapis.handlers.base.image_injection import content_parts, openai_image, with_images
from Middleware.llmapis.handlers.base.message_building import without_empty_tool_calls
from Middleware.llmapis.handlers.base.stream_state import StreamState
from Middleware.llmapis.handlers.base.whole_answer import whole_answer
from Middleware.llmapis.handlers.registry import BACKENDS
from Middleware.llmapis.llm_text import LlmText

TEXT_GENERATION_WEBUI = "Text-Generation-WebUI"


@BACKENDS.register("openAIChatCompletion", "openAIApiChatImageSpecific")
class OpenAiApiHandler(BaseChatCompletionsHandler):
    """`POST {base}/v1/chat/completions`, Server-Sent Events."""

    def _get_api_endpoint_url(self) -> str:
        return joined_url(self.base_url, "/v1/chat/completions")

    def _convert_messages(self, messages: Messages) -> Messages:
        return with_images(without_empty_tool_calls(messages), content_parts(openai_image))

    def _payload_head(self, messages: Messages) -> JsonObject:
        payload = super()._payload_head(messages)
        ask_for_usage(payload, self.settings.endpoint.raw, self.settings.stream)
        return payload

    def abort_request(self) -> tuple[str, JsonObject] | None:
        """Text-Generation-WebUI is told to stop; others stop when the connection closes."""
        endpoint = self.settings.endpoint
        if TEXT_GENERATION_WEBUI in (endpoint.api_type_name, endpoint.api_type.get("presetType")):
            return joined_url(self.base_url, "/v1/internal/stop-generation"), {}
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
            tool_calls=_tool_calls(message),
            finish=choice.get("finish_reason"),
            facts={
                "usage": openai_usage(body.get("usage")),
                "model": body.get("model"),
                "refusal": refused,
                "native_finish_reason": choice.get("native_finish_reason"),
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
    native = choice.get("native_finish_reason")
    if native and native != chunk["finish_reason"] and chunk["finish_reason"] is not None:
        chunk["native_finish_reason"] = native
    if thinking:
        chunk["thinking"] = thinking
    if calls := _tool_calls(delta):
        chunk["tool_calls"] = calls
    if refused:
        chunk["refusal"] = True
    if (usage := openai_usage(data.get("usage"))) is not None:
        chunk["usage"] = usage
    if chunk["finish_reason"] == "error":
        message = "the backend ended the answer with an error"
        chunk["error"] = {"kind": "stream_error", "message": message, "status": 200, "native": data}
    return chunk


def _tool_calls(message: Mapping[str, Any]) -> list[JsonObject]:
    """The calls of a delta or message; an old `function_call` counts as the call with index 0."""
    calls = message.get("tool_calls")
    if isinstance(calls, list) and calls:
        return calls
    old = message.get("function_call")
    return [{"index": 0, "function": old}] if isinstance(old, dict) and old else []


def read_message(message: Mapping[str, Any]) -> tuple[str, str, bool]:
    """`(text, reasoning, refused)` of a delta or a whole message, in any dialect."""
    content = message.get("content")
    thinking = reasoning_of(message)
    if isinstance(content, list):
        token, extra = _split_parts(content)
        thinking += extra
    else:
        token = content if isinstance(content, str) else ""
    if token and _is_thought(message):
        token, thinking = "", thinking + token.replace("<thought>", "").replace("</thought>", "")
    refusal = message.get("refusal")
    if isinstance(refusal, str) and refusal and not token:
        return refusal, thinking, True
    return token, thinking, False


def reasoning_of(message: Mapping[str, Any]) -> str:
    """The reasoning that stands in a field of its own; the first name that has any is used."""
    for name in ("reasoning_content", "reasoning"):
        value = message.get(name)
        if isinstance(value, str) and value:
            return value
    details = message.get("reasoning_details")
    if isinstance(details, list) and (text := _text_of_details(details)):
        return text
    value = message.get("thinking")
    return value if isinstance(value, str) else ""


def _text_of_details(details: list[Any]) -> str:
    """OpenRouter's `reasoning_details`: texts and summaries; encrypted details give nothing."""
    texts = (
        part.get("text") or part.get("summary")
        for part in details
        if isinstance(part, dict) and part.get("type") != "reasoning.encrypted"
    )
    return "".join(text for text in texts if isinstance(text, str))


def _split_parts(parts: list[Any]) -> tuple[str, str]:
    """Mistral's content array: `(text, thinking)`."""
    token, thinking = "", ""
    for part in parts:
        if not isinstance(part, dict):
            continue
        if part.get("type") == "thinking":
            thoughts = part.get("thinking")
            thinking += thoughts if isinstance(thoughts, str) else _split_parts(thoughts or [])[0]
        elif isinstance(part.get("text"), str):
            token += part["text"]
    return token, thinking


def _is_thought(message: Mapping[str, Any]) -> bool:
    """Gemini's mark on a chunk whose content is reasoning."""
    extra = message.get("extra_content")
    google = extra.get("google") if isinstance(extra, dict) else None
    return isinstance(google, dict) and google.get("thought") is True
