"""OpenAI text completions: one flat prompt, no tools, no images. Source: spec backends.md 9.2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from Middleware.common.types import Chunk, JsonObject
from Middleware.llmapis.call.call_arguments import CallArguments, StreamState
from Middleware.llmapis.dialects.event_mapping import finish_fields, standard_finish, text_of
from Middleware.llmapis.dialects.model_lists import ModelList, joined_url, openai_models
from Middleware.llmapis.dialects.openai_messages import answer_form
from Middleware.llmapis.handlers.backends import BACKENDS
from Middleware.llmapis.handlers.base.base_completions_handler import BaseCompletionsHandler
from Middleware.llmapis.handlers.impl.openai_api_handler import (
    ask_for_usage,
    first_choice,
    reported_usage,
    without_usage_request,
)
from Middleware.llmapis.llm_text import LlmText


@BACKENDS.register("openAIV1Completion")
class OpenAICompletionsBackend(BaseCompletionsHandler):
    """`POST {base}/v1/completions`, Server-Sent Events."""

    answer_fields: ClassVar[Mapping[str, type]] = {"choices": list}

    def _get_api_endpoint_url(self) -> str:
        return joined_url(self.base_url, "/v1/completions")

    def can_show(self, source: str) -> bool:
        """Images are not sent at all."""
        return False

    def model_list(self) -> ModelList | None:
        return openai_models(self._get_api_endpoint_url())

    def _payload(self, call: CallArguments) -> JsonObject:
        payload: JsonObject = {
            "prompt": self._flat_prompt(call),
            **self._generation_fields(),
        }
        if not self.settings.endpoint.dont_include_model:
            payload["model"] = self.settings.endpoint.model
        ask_for_usage(payload, self.settings)
        return payload

    def _amend_payload(self, payload: JsonObject, refused: str) -> JsonObject | None:
        return without_usage_request(payload, refused)

    def _map_event(self, event: str, data: JsonObject, state: StreamState) -> Chunk | None:
        if state.model is None:
            state.model = data.get("model")
        choices = data.get("choices")
        if not choices:
            counted = reported_usage(data)
            return None if counted is None else {"token": "", "finish_reason": None, "usage": counted}
        choice = choices[0]
        reason = choice.get("finish_reason")
        chunk: Chunk = {"token": _text_of(choice), "finish_reason": None}
        if reason is not None:
            chunk.update(finish_fields(reason))  # type: ignore[typeddict-item]
        if (counted := reported_usage(data)) is not None:
            chunk["usage"] = counted
        return chunk

    def _parse_non_stream_response(self, body: JsonObject) -> LlmText | JsonObject:
        choice = first_choice(body, {"text": ""})
        if "text" not in choice and standard_finish(choice.get("finish_reason")) is None:
            raise LookupError("neither a text nor a reason to have none")
        return answer_form(
            _text_of(choice),
            finish=choice.get("finish_reason"),
            facts={"usage": reported_usage(body), "model": body.get("model")},
        )


def _text_of(choice: JsonObject) -> str:
    """Empty where the choice only says why the answer ended. Raises LookupError for the choice of a chat:
    the endpoint has the wrong API type."""
    if "text" not in choice and ("delta" in choice or "message" in choice):
        raise LookupError("a choice of a chat")
    return text_of(choice.get("text"))
