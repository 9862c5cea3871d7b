"""OpenAI chat completions, and every server that speaks them. Source: spec backends.md 9.1, 12."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from Middleware.common.request_context import current_request
from Middleware.common.types import Chunk, JsonObject, Messages
from Middleware.config.endpoints import PROMPT_CACHE_MARKS
from Middleware.llmapis.call.call_arguments import HandlerSettings, StreamState
from Middleware.llmapis.dialects.event_mapping import (
    MILLISECOND_NS,
    count_of,
    durations,
    finish_fields,
    known_count,
    openai_usage,
    standard_finish,
    text_of,
    usage_of,
)
from Middleware.llmapis.dialects.image_injection import content_parts, openai_image, with_images
from Middleware.llmapis.dialects.loop_turns import thoughts_beside
from Middleware.llmapis.dialects.model_lists import ModelList, joined_url, openai_models
from Middleware.llmapis.dialects.openai_messages import (
    GoogleThoughts,
    answer_form,
    pieces_in,
    read_message,
    thoughts_in,
    tool_calls_of,
)
from Middleware.llmapis.handlers.backends import BACKENDS
from Middleware.llmapis.handlers.base.base_chat_completions_handler import BaseChatCompletionsHandler
from Middleware.llmapis.llm_text import LlmText

TEXT_GENERATION_WEBUI = "Text-Generation-WebUI"

_USAGE_REFUSED = re.compile("stream_options|include_usage", re.IGNORECASE)
_ROUTE = re.compile(r"/chat/completions(?=\?|$)")


@BACKENDS.register("openAIChatCompletion", "openAIApiChatImageSpecific")
class OpenAIBackend(BaseChatCompletionsHandler):
    """`POST {base}/v1/chat/completions`, Server-Sent Events."""

    answer_fields: ClassVar[Mapping[str, type]] = {"choices": list}
    cache_marks: ClassVar[tuple[str, ...]] = PROMPT_CACHE_MARKS

    def _get_api_endpoint_url(self) -> str:
        return joined_url(self.base_url, "/v1/chat/completions")

    def model_list(self) -> ModelList | None:
        return openai_models(self._get_api_endpoint_url())

    def can_show(self, source: str) -> bool:
        return openai_image(source) is not None

    def _convert_messages(self, messages: Messages) -> Messages:
        return with_images(messages, content_parts(openai_image))

    def _payload_head(self, messages: Messages) -> JsonObject:
        payload = super()._payload_head(messages)
        ask_for_usage(payload, self.settings)
        return payload

    def _allow_parallel_calls(self, payload: JsonObject, allowed: bool) -> None:
        payload["parallel_tool_calls"] = allowed

    def _amend_payload(self, payload: JsonObject, refused: str) -> JsonObject | None:
        return without_usage_request(payload, refused)

    def abort_request(self) -> tuple[str, JsonObject] | None:
        """Text-Generation-WebUI is told to stop; others stop when the connection closes."""
        endpoint = self.settings.endpoint
        if TEXT_GENERATION_WEBUI in (endpoint.api_type_name, endpoint.preset_type):
            return _ROUTE.sub("/internal/stop-generation", self._get_api_endpoint_url()), {}
        return None

    def _map_event(self, event: str, data: JsonObject, state: StreamState) -> Chunk | None:
        if state.model is None:
            state.model = data.get("model")
        choices = data.get("choices")
        if not choices:
            return _without_choices(data)
        choice = choices[0]
        delta = choice.get("delta") or _text_message(choice)
        if len(delta) == 1 and choice.get("finish_reason") is None and not _has_numbers(data):
            content = delta.get("content")
            if type(content) is str and state.held is None:
                return {"token": content, "finish_reason": None}
        if state.thoughts is not None:
            state.thoughts.note(delta)
        if state.held is not None or "extra_content" in delta:
            state.held = thoughts_in(delta, state.held)
        return _rich_chunk(data, choice, delta, state.held)

    def _parse_non_stream_response(self, body: JsonObject) -> LlmText | JsonObject:
        choice = first_choice(body, {"message": {}})
        message = _whole_message(choice)
        token, thinking, refused = read_message(message)
        return answer_form(
            token,
            thinking=thinking,
            tool_calls=tool_calls_of(message),
            finish=choice.get("finish_reason"),
            facts={
                "usage": reported_usage(body),
                "model": body.get("model"),
                "refusal": refused,
                "native_finish_reason": text_of(choice.get("native_finish_reason")),
                "beside": thoughts_beside(message),
                "pieces": pieces_in(message),
            },
        )


def first_choice(body: JsonObject, empty: JsonObject) -> JsonObject:
    """The choice that counts; `empty` where the list holds none, which is an empty answer."""
    choices = body["choices"]
    choice: JsonObject = choices[0] if choices else empty
    return choice


def _whole_message(choice: JsonObject) -> JsonObject:
    """The message of a whole answer. Empty where the choice only says why the answer ended, as Google's does
    of what a filter stopped. Raises LookupError for what is no answer."""
    message: JsonObject | None = choice.get("message")
    if message is not None:
        return message
    message = _text_message(choice)
    has_ended = standard_finish(choice.get("finish_reason")) is not None
    if choice.get("delta") is not None or not (message or has_ended):
        raise LookupError("neither a message nor a reason to have none")
    return message


def _text_message(choice: JsonObject) -> JsonObject:
    """The message or delta that the text of a choice is, from a server that answers as on the route for
    texts."""
    text = choice.get("text")
    return {"content": text} if isinstance(text, str) and choice.get("message") is None else {}


def ask_for_usage(payload: JsonObject, settings: HandlerSettings) -> None:
    """`stream_options` that ask for a usage chunk: when `requestStreamUsage` wants one, and when the client
    asked for one and nothing says that this server does not know them."""
    wanted = settings.endpoint.request_stream_usage
    request = current_request()
    if wanted is None:
        wanted = request is not None and request.include_usage
    if settings.stream and wanted is True:
        payload.setdefault("stream_options", {"include_usage": True})


def without_usage_request(payload: JsonObject, refused: str) -> JsonObject | None:
    """What to send to a server that refuses `stream_options`; None when it refuses something else."""
    if "stream_options" not in payload or not _USAGE_REFUSED.search(refused):
        return None
    return {key: value for key, value in payload.items() if key != "stream_options"}


def reported_usage(data: JsonObject) -> JsonObject | None:
    """The numbers of a chunk or a body: `usage`, and llama.cpp's `timings`, which stand in for it and tell
    what was held and how long it took; None when nothing is told."""
    usage, timings = openai_usage(data.get("usage")), data.get("timings")
    if not isinstance(timings, Mapping):
        return usage
    held = known_count("cached_tokens", timings.get("cache_n"))
    read = count_of(timings.get("prompt_n"))
    prompt = None if read is None else read + sum(held.values())
    usage = usage or usage_of(prompt, timings.get("predicted_n"))
    if usage is None:
        return None
    times = durations(timings.get("prompt_ms"), timings.get("predicted_ms"), MILLISECOND_NS)
    return {**usage, **held, **times}


def _has_numbers(data: JsonObject) -> bool:
    return bool(data.get("usage")) or "timings" in data


def _without_choices(data: JsonObject) -> Chunk | None:
    """A chunk that says nothing of the answer: usage, or a preamble."""
    usage = reported_usage(data)
    if usage is not None:
        return {"token": "", "finish_reason": None, "usage": usage}
    return None if "choices" in data else {"token": "", "finish_reason": None}


def _rich_chunk(
    data: JsonObject, choice: JsonObject, delta: JsonObject, thoughts: GoogleThoughts | None
) -> Chunk:
    """A chunk that is more than a piece of text."""
    token, thinking, refused = read_message(delta, thoughts)
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
    if (usage := reported_usage(data)) is not None:
        chunk["usage"] = usage
    if chunk["finish_reason"] == "error":
        message = "the backend ended the answer with an error"
        chunk["error"] = {"kind": "stream_error", "message": message, "status": 200, "native": data}
    return chunk
