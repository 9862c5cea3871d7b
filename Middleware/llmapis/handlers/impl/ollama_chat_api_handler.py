"""Ollama's chat API. Source: spec backends.md 9.3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from Middleware.common.types import Chunk, JsonObject, Message, Messages
from Middleware.llmapis.call.call_arguments import StreamState
from Middleware.llmapis.dialects.event_mapping import (
    MAX_COUNT,
    arguments_object,
    durations,
    known_count,
    new_call_id,
    text_of,
    usage_of,
    whole_arguments,
)
from Middleware.llmapis.dialects.image_injection import bare_base64, bare_images, with_images
from Middleware.llmapis.dialects.loop_turns import thoughts_beside
from Middleware.llmapis.dialects.model_lists import ModelList, ollama_models, ollama_url
from Middleware.llmapis.dialects.openai_messages import answer_form
from Middleware.llmapis.handlers.backends import BACKENDS
from Middleware.llmapis.handlers.base.base_chat_completions_handler import BaseChatCompletionsHandler
from Middleware.llmapis.llm_text import LlmText

TOP_LEVEL_FIELDS = ("think", "keep_alive", "format", "logprobs", "top_logprobs")
"""Preset values that Ollama reads beside `options`, not in it."""
SECOND_NS = 1_000_000_000


@BACKENDS.register("ollamaApiChat", "ollamaApiChatImageSpecific")
class OllamaChatBackend(BaseChatCompletionsHandler):
    """`POST {base}/api/chat`, one JSON object a line."""

    _iterate_by_lines: ClassVar[bool] = True
    stop_field: ClassVar[str] = "stop"
    answer_fields: ClassVar[Mapping[str, type]] = {"message": dict, "done": bool}

    def _get_api_endpoint_url(self) -> str:
        return ollama_url(self.base_url, "/api/chat")

    def can_show(self, source: str) -> bool:
        return bare_base64(source) is not None

    def model_list(self) -> ModelList | None:
        return ollama_models(self.base_url)

    def _convert_messages(self, messages: Messages) -> Messages:
        return _tool_turns(with_images(messages, _shape_images))

    def _payload_head(self, messages: Messages) -> JsonObject:
        stream_key = self.settings.endpoint.api_type.get("streamPropertyName")
        options, lifted = split_options(self._generation_fields(), stream_key)
        return {
            "model": self.settings.endpoint.model,
            "messages": messages,
            "options": options,
            **lifted,
            "stream": self.settings.stream,
        }

    def _add_tools(self, payload: JsonObject, tools: list[JsonObject] | None, tool_choice: Any) -> None:
        if tools and tool_choice != "none":
            payload["tools"] = tools

    def _map_event(self, event: str, data: JsonObject, state: StreamState) -> Chunk | None:
        if state.model is None:
            state.model = data.get("model")
        message = data.get("message") or {}
        token = text_of(message.get("content"))
        if not data.get("done") and len(message) == 2 and "role" in message and "content" in message:
            return {"token": token, "finish_reason": None}
        chunk: Chunk = {"token": token, "finish_reason": None}
        if thinking := text_of(message.get("thinking")):
            chunk["thinking"] = thinking
            if state.thoughts is not None:
                state.thoughts.note(message)
        if calls := message.get("tool_calls"):
            first = state.memo.get("calls", 0)
            chunk["tool_calls"] = openai_calls(calls, first)
            state.memo["calls"] = first + len(chunk["tool_calls"])
        if data.get("done"):
            state.ended = True
            state.load_s = self.load_seconds(data)
            add_ending(chunk, data, called=bool(state.memo.get("calls")))
        return chunk

    def load_seconds(self, data: JsonObject) -> float | None:
        return load_seconds(data)

    def _parse_non_stream_response(self, body: JsonObject) -> LlmText | JsonObject:
        message = body.get("message") or {}
        calls = openai_calls(message.get("tool_calls") or [], 0)
        ending: Chunk = {"token": "", "finish_reason": None}
        add_ending(ending, body, called=bool(calls))
        return answer_form(
            text_of(message.get("content")),
            thinking=text_of(message.get("thinking")),
            tool_calls=calls,
            finish=ending["finish_reason"],
            facts={
                "usage": ending.get("usage"),
                "model": body.get("model"),
                "native_finish_reason": ending.get("native_finish_reason"),
                "beside": thoughts_beside(message),
            },
        )


def split_options(fields: JsonObject, stream_key: str | None) -> tuple[JsonObject, JsonObject]:
    """`(options, lifted)`: what Ollama reads nested, and at the top; the stream flag is in neither."""
    lifted = {key: fields[key] for key in TOP_LEVEL_FIELDS if fields.get(key) is not None}
    outside = {*TOP_LEVEL_FIELDS, "stream", stream_key}
    return {key: value for key, value in fields.items() if key not in outside}, lifted


def load_seconds(data: JsonObject) -> float | None:
    """`load_duration` of a `done` object, in seconds; also a model that was loaded has a small one."""
    told = data.get("load_duration")
    return told / SECOND_NS if type(told) is int and 0 < told < MAX_COUNT else None


def add_ending(chunk: Chunk, data: JsonObject, *, called: bool) -> None:
    """What the `done` object says: how it ended (`length`, `tool_calls`, else `stop`) and the counts."""
    native = data.get("done_reason")
    reason = "length" if native == "length" else "tool_calls" if called else "stop"
    chunk["finish_reason"] = reason
    if isinstance(native, str) and native and native != reason:
        chunk["native_finish_reason"] = native
    if (usage := usage_of(data.get("prompt_eval_count"), data.get("eval_count"))) is not None:
        held = known_count("cached_tokens", data.get("prompt_eval_cached_count"))
        times = durations(data.get("prompt_eval_duration"), data.get("eval_duration"))
        chunk["usage"] = {**usage, **held, **times}


def openai_calls(calls: Any, first_index: int) -> list[JsonObject]:
    """Ollama's complete calls as OpenAI deltas, numbered from `first_index`; a missing id is made."""
    made: list[JsonObject] = []
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping):
            continue
        arguments = whole_arguments(function.get("arguments"))
        told = {"name": text_of(function.get("name")), "arguments": arguments}
        call_id = call.get("id") or new_call_id()
        made.append(
            {"index": first_index + len(made), "id": call_id, "type": "function", "function": told},
        )
    return made


def _shape_images(message: Message, sources: list[str]) -> Message:
    images = bare_images(sources)
    return {**message, "images": images} if images else message


def _tool_turns(messages: Messages) -> Messages:
    """OpenAI tool turns in Ollama's form: arguments as objects, results that name their tool."""
    names: dict[Any, str] = {}
    turned: Messages = []
    for message in messages:
        calls = message.get("tool_calls")
        if isinstance(calls, list):
            ours = [_ollama_call(call) for call in calls]
            names.update((call["id"], call["function"]["name"]) for call in ours)
            message = {**message, "tool_calls": ours}
        elif message.get("role") == "tool":
            name = names.get(message.get("tool_call_id")) or message.get("name")
            message = {**message, "tool_name": name} if name else message
        turned.append(message)
    return turned


def _ollama_call(call: Mapping[str, Any]) -> JsonObject:
    function = call["function"]
    kept = {key: value for key, value in call.items() if key not in ("type", "index", "function")}
    told = {"name": function["name"], "arguments": arguments_object(function["arguments"])}
    return {**kept, "function": told}
