"""Texts to vectors, for OpenAI's and Ollama's embeddings APIs. Never generates text. Source: spec backends.md
9.7."""

from __future__ import annotations

import base64
import binascii
import math
import struct
from typing import Any, ClassVar

from Middleware.common.errors import BackendError, RequestCancelled
from Middleware.common.types import Chunk, JsonObject
from Middleware.llmapis.call.call_arguments import CallArguments, StreamState
from Middleware.llmapis.call.outgoing_call import OutgoingCall
from Middleware.llmapis.dialects.event_mapping import count_of
from Middleware.llmapis.dialects.model_lists import (
    ModelList,
    joined_url,
    ollama_models,
    ollama_url,
    openai_models,
)
from Middleware.llmapis.handlers.backends import BACKENDS
from Middleware.llmapis.handlers.base.base_llm_api_handler import LlmApiHandler
from Middleware.llmapis.llm_text import LlmText
from Middleware.services.run_trace import TracedNode

Vector = list[float]


@BACKENDS.register("openAIEmbeddings", "ollamaEmbeddings")
class EmbeddingBackend(LlmApiHandler):
    """`POST {base}/v1/embeddings` or `{base}/api/embed`, one attempt."""

    generates: ClassVar[bool] = False

    def embed(
        self, texts: list[str], request_id: str | None = None, trace: TracedNode | None = None
    ) -> list[Vector] | None:
        """One vector for each text, in order; None when the request was cancelled.

        Raises BackendError, ValueError for an answer that does not hold one vector of one length for each
        text."""
        asked = CallArguments(prompt=" ".join(texts), request_id=request_id, trace=trace)
        outgoing = OutgoingCall(self, asked)
        try:
            with outgoing.ended_by_failures():
                body = outgoing.body(self.payload(texts))
        except RequestCancelled:
            return None
        except BackendError as error:
            if error.kind == "protocol_error":
                raise ValueError(str(error)) from error
            raise
        outgoing.log.usage = _reported_usage(body)
        if outgoing.log.meter is not None:
            outgoing.log.meter.settle(outgoing.log.usage)
        outgoing.end(f"{len(texts)} texts")
        return self.vectors(body, len(texts))

    def payload(self, texts: list[str]) -> JsonObject:
        body: JsonObject = {"input": texts}
        if not self.settings.endpoint.dont_include_model:
            body["model"] = self.settings.endpoint.model
        return body

    def vectors(self, body: JsonObject, count: int) -> list[Vector]:
        """The vectors of an answer. Raises ValueError saying what is wrong with it."""
        found = _openai_vectors(body) if self._is_openai() else _list_of(body, "embeddings")
        vectors = [_vector(values) for values in found]
        if len(vectors) != count:
            raise ValueError(f"{count} texts were sent, but {len(vectors)} vectors came back")
        if len({len(vector) for vector in vectors}) > 1:
            raise ValueError("the vectors have different lengths")
        return vectors

    def _is_openai(self) -> bool:
        return self.settings.endpoint.type == "openAIEmbeddings"

    def _get_api_endpoint_url(self) -> str:
        if self._is_openai():
            return joined_url(self.base_url, "/v1/embeddings")
        return ollama_url(self.base_url, "/api/embed")

    def model_list(self) -> ModelList | None:
        url = self._get_api_endpoint_url()
        return openai_models(url) if self._is_openai() else ollama_models(self.base_url)

    def _payload(self, call: CallArguments) -> JsonObject:
        return self.payload([call.prompt or ""])

    def _map_event(self, event: str, data: JsonObject, state: StreamState) -> Chunk | None:
        raise TypeError("an embeddings backend cannot stream")

    def _parse_non_stream_response(self, body: JsonObject) -> LlmText | JsonObject:
        raise TypeError("an embeddings backend does not return text")


def _reported_usage(body: JsonObject) -> JsonObject | None:
    """`{"prompt_tokens"}`, as OpenAI (`usage`) and Ollama (`prompt_eval_count`) report it; None: it is not
    said."""
    told = body.get("usage")
    usage = told if isinstance(told, dict) else {}
    count = count_of(usage.get("prompt_tokens", body.get("prompt_eval_count")))
    return None if count is None else {"prompt_tokens": count}


def _openai_vectors(body: JsonObject) -> list[Any]:
    """`data[].embedding`, in the order of `index` (0 when absent)."""
    entries = _list_of(body, "data")
    if not all(isinstance(entry, dict) for entry in entries):
        raise ValueError("an entry of the embeddings answer is not an object")
    return [entry.get("embedding") for entry in sorted(entries, key=_index)]


def _index(entry: JsonObject) -> int:
    index = entry.get("index")
    return index if isinstance(index, int) else 0


def _list_of(body: JsonObject, key: str) -> list[Any]:
    found = body.get(key)
    if not isinstance(found, list):
        raise ValueError(f"the embeddings answer has no list '{key}'")
    return found


def _vector(values: Any) -> Vector:
    """Numbers, or base64 of 32-bit little-endian floats (`encoding_format: "base64"`)."""
    if isinstance(values, str):
        try:
            data = base64.b64decode(values, validate=True)
            values = struct.unpack(f"<{len(data) // 4}f", data)
        except (binascii.Error, struct.error) as error:
            raise ValueError("a vector is not valid base64") from error
    if not isinstance(values, list | tuple) or not values:
        raise ValueError("an embedding is empty or not a list")
    try:
        vector = [float(value) for value in values]
    except (TypeError, OverflowError) as error:
        raise ValueError("an embedding contains something that is not a number") from error
    if not all(map(math.isfinite, vector)):
        raise ValueError("an embedding contains a number that is not finite")
    return vector
