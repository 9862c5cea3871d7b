"""KoboldCpp's own API: one flat prompt, named events, an abort call. Source: spec backends.md 9.5, 17."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import lru_cache
from typing import ClassVar

from Middleware.common.types import Chunk, JsonObject
from Middleware.llmapis.call.call_arguments import CallArguments, StreamState
from Middleware.llmapis.dialects.event_mapping import finish_fields, standard_finish, text_of, usage_of
from Middleware.llmapis.dialects.image_injection import bare_base64
from Middleware.llmapis.dialects.model_lists import ModelList, koboldcpp_model, koboldcpp_url
from Middleware.llmapis.dialects.openai_messages import answer_form
from Middleware.llmapis.handlers.backends import BACKENDS
from Middleware.llmapis.handlers.base.base_completions_handler import (
    BaseCompletionsHandler,
    flat_images,
    without_begin_token,
)
from Middleware.llmapis.llm_text import LlmText

logger = logging.getLogger(__name__)


@BACKENDS.register("koboldCppGenerate", "koboldCppGenerateImageSpecific")
class KoboldCppBackend(BaseCompletionsHandler):
    """`POST {base}/api/extra/generate/stream` (Server-Sent Events), or `/api/v1/generate` (whole)."""

    eof_is_end: ClassVar[bool] = True
    stop_field: ClassVar[str] = "stop_sequence"
    _required_event_name: ClassVar[str | None] = "message"
    answer_fields: ClassVar[Mapping[str, type]] = {"token": str, "finish_reason": str, "results": list}

    def _get_api_endpoint_url(self) -> str:
        path = "/api/extra/generate/stream" if self.settings.stream else "/api/v1/generate"
        return koboldcpp_url(self.base_url, path)

    def can_show(self, source: str) -> bool:
        return bare_base64(source) is not None

    def model_list(self) -> ModelList | None:
        return koboldcpp_model(self.base_url)

    def abort_request(self) -> tuple[str, JsonObject] | None:
        """Closing the connection does not stop a prefill or a whole answer. `genkey`: the preset's."""
        key = self.settings.samplers.get("genkey")
        return koboldcpp_url(self.base_url, "/api/extra/abort"), {"genkey": key} if key else {}

    def _payload(self, call: CallArguments) -> JsonObject:
        text = self._flat_prompt(call)
        bare = without_begin_token(text)
        if self.settings.endpoint.strict_prompt_template:
            text = bare
        elif bare != text:
            _tell_of_begin_token(self.settings.endpoint.name)
        fields = self._generation_fields()
        fields.pop("images", None)
        payload: JsonObject = {"prompt": text, **fields}
        if images := flat_images(call.conversation):
            payload["images"] = images
        return payload

    def _map_event(self, event: str, data: JsonObject, state: StreamState) -> Chunk | None:
        token = text_of(data.get("token"))
        reason = data.get("finish_reason")
        if reason is None or reason == "null":
            return {"token": token, "finish_reason": None}
        chunk: Chunk = {"token": token, **finish_fields(reason)}  # type: ignore[typeddict-item]
        return chunk

    def _parse_non_stream_response(self, body: JsonObject) -> LlmText | JsonObject:
        results = body["results"]
        result = results[0] if results else {"text": ""}
        if "text" not in result and standard_finish(result.get("finish_reason")) is None:
            raise LookupError("neither a text nor a reason to have none")
        return answer_form(
            text_of(result.get("text")),
            finish=result.get("finish_reason"),
            facts={"usage": usage_of(result.get("prompt_tokens"), result.get("completion_tokens"))},
        )


@lru_cache(maxsize=256)
def _tell_of_begin_token(endpoint: str) -> None:
    """Said once for each endpoint."""
    logger.debug(
        "endpoint '%s': the prompt template begins with a begin-of-text token, and KoboldCpp adds its own; "
        "set strictPromptTemplate to leave it out",
        endpoint,
    )
