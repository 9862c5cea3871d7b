"""Ollama's generate API, raw: without Ollama's own template. Source: spec backends.md 9.4."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from Middleware.common.types import Chunk, JsonObject
from Middleware.llmapis.call.call_arguments import CallArguments, StreamState
from Middleware.llmapis.dialects.event_mapping import text_of
from Middleware.llmapis.dialects.image_injection import bare_base64
from Middleware.llmapis.dialects.model_lists import ModelList, ollama_models, ollama_url
from Middleware.llmapis.dialects.openai_messages import answer_form
from Middleware.llmapis.handlers.backends import BACKENDS
from Middleware.llmapis.handlers.base.base_completions_handler import BaseCompletionsHandler, flat_images
from Middleware.llmapis.handlers.impl.ollama_chat_api_handler import add_ending, load_seconds, split_options
from Middleware.llmapis.llm_text import LlmText


@BACKENDS.register("ollamaApiGenerate")
class OllamaGenerateBackend(BaseCompletionsHandler):
    """`POST {base}/api/generate`, one JSON object a line."""

    _iterate_by_lines: ClassVar[bool] = True
    stop_field: ClassVar[str] = "stop"
    answer_fields: ClassVar[Mapping[str, type]] = {"response": str, "done": bool}

    def _get_api_endpoint_url(self) -> str:
        return ollama_url(self.base_url, "/api/generate")

    def can_show(self, source: str) -> bool:
        return bare_base64(source) is not None

    def model_list(self) -> ModelList | None:
        return ollama_models(self.base_url)

    def _payload(self, call: CallArguments) -> JsonObject:
        stream_key = self.settings.endpoint.api_type.get("streamPropertyName")
        options, lifted = split_options(self._generation_fields(), stream_key)
        payload: JsonObject = {
            "model": self.settings.endpoint.model,
            "prompt": self._flat_prompt(call),
            "stream": self.settings.stream,
            "raw": True,
            "options": options,
            **lifted,
        }
        if images := flat_images(call.conversation):
            payload["images"] = images
        return payload

    def _map_event(self, event: str, data: JsonObject, state: StreamState) -> Chunk | None:
        if state.model is None:
            state.model = data.get("model")
        chunk: Chunk = {"token": text_of(data.get("response")), "finish_reason": None}
        if thinking := text_of(data.get("thinking")):
            chunk["thinking"] = thinking
        if data.get("done"):
            state.ended = True
            state.load_s = self.load_seconds(data)
            add_ending(chunk, data, called=False)
        return chunk

    def load_seconds(self, data: JsonObject) -> float | None:
        return load_seconds(data)

    def _parse_non_stream_response(self, body: JsonObject) -> LlmText | JsonObject:
        ending: Chunk = {"token": "", "finish_reason": None}
        add_ending(ending, body, called=False)
        return answer_form(
            text_of(body.get("response")),
            thinking=text_of(body.get("thinking")),
            finish=ending["finish_reason"],
            facts={
                "usage": ending.get("usage"),
                "model": body.get("model"),
                "native_finish_reason": ending.get("native_finish_reason"),
            },
        )
