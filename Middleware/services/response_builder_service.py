"""The JSON payloads of the OpenAI and Ollama protocols, one method each. The only place that knows them.

Pure: takes the facts of the answer, gives a dict. Never frames (that is `framing.py`) and never sends. Where
`facts` is left out, the current request's are used. Source: spec frontend-api.md 10, 11 and 18.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from Middleware.common.constants import VERSION
from Middleware.common.instance_global_variables import launch_facts
from Middleware.common.types import JsonObject
from Middleware.services.answers import (
    AnswerFacts,
    WholeAnswer,
    ollama_calls,
    ollama_done_reason,
    openai_usage_object,
    usage_numbers,
    whole_openai_calls,
)

FINGERPRINT = f"hr-{VERSION}"
"""`system_fingerprint` of every answer: the same in chunks and whole answers."""
OLLAMA_VERSION = "0.9.0"
MODIFIED_AT = "2024-11-23T00:00:00Z"


def ollama_time() -> str:
    """Now, RFC 3339, UTC with microseconds and `Z`."""
    return datetime.now(UTC).isoformat(timespec="microseconds")[:-6] + "Z"


class ResponseBuilderService:
    """Stateless. `answer` may be plain text. Ids: `chatcmpl-`, `cmpl-` or `gen-` and the request id."""

    # --- lists ----------------------------------------------------------------------------------------------

    def build_openai_model(self, model_id: str) -> JsonObject:
        """One entry of the model list. `created` is the start of the process: clients cache on it."""
        created = launch_facts().started_at
        return {
            "id": model_id,
            "object": "model",
            "created": created,
            "owned_by": "headrace",
            "name": model_id,
        }

    def build_openai_models_response(self, model_ids: Iterable[str]) -> JsonObject:
        return {"object": "list", "data": [self.build_openai_model(model_id) for model_id in model_ids]}

    def build_ollama_tags_response(self, model_ids: Iterable[str]) -> JsonObject:
        return {"models": [self._ollama_model(model_id) for model_id in model_ids]}

    def build_ollama_version_response(self) -> JsonObject:
        return {"version": OLLAMA_VERSION}

    def build_ollama_show_response(
        self, model_id: str, context_length: int, capabilities: Iterable[str]
    ) -> JsonObject:
        return {
            "license": "",
            "modelfile": "",
            "parameters": "",
            "template": "",
            "details": self._ollama_details(),
            "model_info": {
                "general.architecture": "wilmer",
                "general.basename": model_id,
                "wilmer.context_length": context_length,
            },
            "capabilities": list(capabilities),
            "modified_at": MODIFIED_AT,
        }

    def _ollama_model(self, model_id: str) -> JsonObject:
        return {
            "name": model_id,
            "model": f"{model_id}:latest",
            "modified_at": MODIFIED_AT,
            "size": 1,
            "digest": hashlib.sha256(model_id.encode("utf-8", "surrogatepass")).hexdigest(),
            "details": self._ollama_details(),
        }

    def _ollama_details(self) -> JsonObject:
        return {
            "parent_model": "",
            "format": "gguf",
            "family": "wilmer",
            "families": ["wilmer"],
            "parameter_size": "N/A",
            "quantization_level": "Q8",
        }

    # --- OpenAI ---------------------------------------------------------------------------------------------

    def build_openai_chat_completion_response(
        self, answer: WholeAnswer | str, facts: AnswerFacts | None = None
    ) -> JsonObject:
        answer, facts = _as_whole_answer(answer), facts or AnswerFacts.current()
        message: JsonObject = {"role": "assistant", "content": answer.text}
        if answer.thinking:
            message["reasoning_content"] = answer.thinking
        if answer.tool_calls:
            message["content"] = answer.text or None
            message["tool_calls"] = whole_openai_calls(answer.tool_calls)
        choice = {
            "index": 0,
            "message": message,
            "logprobs": None,
            "finish_reason": answer.finish_reason,
        }
        return {
            "id": f"chatcmpl-{facts.request_id}",
            "object": "chat.completion",
            "created": facts.created,
            "model": facts.model,
            "system_fingerprint": FINGERPRINT,
            "choices": [choice],
            "usage": openai_usage_object(answer.usage, answer.text + answer.thinking),
        }

    def build_openai_completion_response(
        self, answer: WholeAnswer | str, facts: AnswerFacts | None = None
    ) -> JsonObject:
        answer, facts = _as_whole_answer(answer), facts or AnswerFacts.current()
        return {
            "id": f"cmpl-{facts.request_id}",
            "object": "text_completion",
            "created": facts.created,
            "model": facts.model,
            "system_fingerprint": FINGERPRINT,
            "choices": [_text_choice(answer.text, _text_reason(answer.finish_reason))],
            "usage": openai_usage_object(answer.usage, answer.text + answer.thinking),
        }

    def build_openai_chat_completion_chunk(
        self, delta: JsonObject | str, finish_reason: str | None = None, facts: AnswerFacts | None = None
    ) -> JsonObject:
        """`delta`: the delta object, or text (empty text: an empty delta)."""
        facts = facts or AnswerFacts.current()
        if isinstance(delta, str):
            delta = {"content": delta} if delta else {}
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return self._openai_chat_chunk([choice], facts)

    def build_openai_completion_chunk(
        self, token: str, finish_reason: str | None = None, facts: AnswerFacts | None = None
    ) -> JsonObject:
        return self._openai_text_chunk([_text_choice(token, finish_reason)], facts or AnswerFacts.current())

    def build_openai_usage_chunk(self, usage: JsonObject, facts: AnswerFacts, *, chat: bool) -> JsonObject:
        """The chunk without a choice that carries the numbers, when the client asked for it; beside them
        those of the whole workflow."""
        chunk = self._openai_chat_chunk([], facts) if chat else self._openai_text_chunk([], facts)
        return {**chunk, "usage": usage, **facts.usage_beside()}

    def build_openai_status_chunk(self, description: str, facts: AnswerFacts) -> JsonObject:
        """A chunk without a choice that Open WebUI shows as a status; others ignore it."""
        event = {"type": "status", "data": {"description": description, "done": False}}
        return {**self._openai_chat_chunk([], facts), "event": event}

    def _openai_chat_chunk(self, choices: list[JsonObject], facts: AnswerFacts) -> JsonObject:
        chunk: JsonObject = {
            "id": f"chatcmpl-{facts.request_id}",
            "object": "chat.completion.chunk",
            "created": facts.created,
            "model": facts.model,
            "system_fingerprint": FINGERPRINT,
            "choices": choices,
        }
        return {**chunk, "usage": None} if facts.include_usage else chunk

    def _openai_text_chunk(self, choices: list[JsonObject], facts: AnswerFacts) -> JsonObject:
        chunk: JsonObject = {
            "id": f"cmpl-{facts.request_id}",
            "object": "text_completion",
            "created": facts.created,
            "choices": choices,
            "model": facts.model,
            "system_fingerprint": FINGERPRINT,
        }
        return {**chunk, "usage": None} if facts.include_usage else chunk

    # --- Ollama ---------------------------------------------------------------------------------------------

    def build_ollama_chat_response(
        self, answer: WholeAnswer | str, facts: AnswerFacts | None = None
    ) -> JsonObject:
        answer, facts = _as_whole_answer(answer), facts or AnswerFacts.current()
        message: JsonObject = {"role": "assistant", "content": answer.text}
        if answer.thinking:
            message["thinking"] = answer.thinking
        if calls := ollama_calls(whole_openai_calls(answer.tool_calls)):
            message["tool_calls"] = calls
        return {
            "model": facts.model,
            "created_at": ollama_time(),
            "message": message,
            **self._ollama_end(answer, facts),
        }

    def build_ollama_generate_response(
        self, answer: WholeAnswer | str, facts: AnswerFacts | None = None
    ) -> JsonObject:
        """With the five keys of an OpenAI text completion, which some old front ends read."""
        answer, facts = _as_whole_answer(answer), facts or AnswerFacts.current()
        body: JsonObject = {"model": facts.model, "created_at": ollama_time(), "response": answer.text}
        if answer.thinking:
            body["thinking"] = answer.thinking
        return {
            **body,
            **self._ollama_end(answer, facts),
            "id": f"gen-{facts.request_id}",
            "object": "text_completion",
            "created": facts.created,
            "choices": [_text_choice(answer.text, _text_reason(answer.finish_reason))],
            "usage": openai_usage_object(answer.usage, answer.text + answer.thinking),
        }

    def build_ollama_chat_chunk(
        self, message: JsonObject | str, facts: AnswerFacts | None = None
    ) -> JsonObject:
        """An object with `done: false`. `message`: text, or what the message holds beside its role."""
        facts = facts or AnswerFacts.current()
        content = {"content": message} if isinstance(message, str) else message
        return {
            "model": facts.model,
            "created_at": ollama_time(),
            "message": {"role": "assistant", **content},
            "done": False,
            "request_id": facts.request_id,
        }

    def build_ollama_generate_chunk(
        self, token: str, facts: AnswerFacts | None = None, *, thinking: str = ""
    ) -> JsonObject:
        """An object with `done: false`."""
        facts = facts or AnswerFacts.current()
        body: JsonObject = {"model": facts.model, "created_at": ollama_time(), "response": token}
        if thinking:
            body["thinking"] = thinking
        return {**body, "done": False, "request_id": facts.request_id}

    def build_ollama_done_chunk(self, answer: WholeAnswer, facts: AnswerFacts, *, chat: bool) -> JsonObject:
        """The last object of a stream: empty text, the reason, the six numbers, those of the workflow."""
        content: JsonObject = {"message": {"role": "assistant", "content": ""}} if chat else {"response": ""}
        return {
            "model": facts.model,
            "created_at": ollama_time(),
            **content,
            **self._ollama_end(answer, facts),
            **facts.usage_beside(),
        }

    def build_ollama_load_response(self, model: str, reason: str, *, chat: bool) -> JsonObject:
        """The answer to a request that only loads or unloads (8.4). `reason`: `load` or `unload`."""
        content: JsonObject = {"message": {"role": "assistant", "content": ""}} if chat else {"response": ""}
        return {
            "model": model,
            "created_at": ollama_time(),
            **content,
            "done": True,
            "done_reason": reason,
        }

    def _ollama_end(self, answer: WholeAnswer, facts: AnswerFacts) -> JsonObject:
        usage = usage_numbers(answer.usage, answer.text + answer.thinking)
        return {
            "done": True,
            "done_reason": ollama_done_reason(answer.finish_reason),
            **answer.pace.metrics(facts, usage, answer.usage),
            "request_id": facts.request_id,
        }


def _as_whole_answer(answer: WholeAnswer | str) -> WholeAnswer:
    return WholeAnswer(text=answer) if isinstance(answer, str) else answer


def _text_choice(text: str, finish_reason: str | None) -> dict[str, Any]:
    return {"text": text, "index": 0, "logprobs": None, "finish_reason": finish_reason}


def _text_reason(reason: str) -> str:
    """Text completions know no tool calls."""
    return "stop" if reason == "tool_calls" else reason
