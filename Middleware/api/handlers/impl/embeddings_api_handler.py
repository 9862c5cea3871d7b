"""Vectors for clients that search documents: the embeddings routes of OpenAI and of Ollama.

Nothing runs but one call to the user's `embeddingsEndpoint`: no workflow, no slot of the gate, no run that
observers are told of. Source: spec more-fronts.md 7, console.md 3.3.
"""

from __future__ import annotations

import base64
import logging
import struct
import time
from abc import abstractmethod
from typing import Any

from flask import Response, g, request
from flask.views import MethodView

from Middleware.api.api_helpers import (
    body_of_request,
    current_life,
    current_request_id,
    extract_api_key,
    is_private,
    json_response,
)
from Middleware.api.handlers.base.base_api_handler import BaseApiHandler
from Middleware.api.handlers.front_ends import FRONT_ENDS
from Middleware.api.requests.key_check import refuse_two_ciphers
from Middleware.api.requests.model_names import askable_users, find_choice, unknown_model
from Middleware.api.workflow_gateway import embeddings_of
from Middleware.api.wsgi.doors import Route
from Middleware.common.errors import BackendError, ClientRequestError, ConfigError, NotFound
from Middleware.common.request_context import RequestContext, enter_request
from Middleware.common.types import JsonObject
from Middleware.config.loader import ConfigSnapshot, default_snapshot
from Middleware.config.users import UserSettings, load_user
from Middleware.protocols.ollama import PROTOCOL as OLLAMA
from Middleware.protocols.openai import PROTOCOL as OPENAI
from Middleware.utilities.text_utils import estimate_tokens

logger = logging.getLogger(__name__)

MOST_TEXTS = 2048

Vectors = list[list[float]]


def embedder_for(model: Any, holders: list[str], snapshot: ConfigSnapshot) -> UserSettings:
    """The user whose endpoint answers. `holders`: names of the users that have one, at least one.

    Raises NotFound when `model` names a user that has none, or an endpoint that is not exposed;
    ClientRequestError when it names nobody and several have one.
    """
    choice = find_choice(model, snapshot)
    named = choice.user if choice is not None else None
    if named is None and len(holders) > 1:
        wanted = ", ".join(holders)
        raise ClientRequestError(f"model must name a user with embeddings: {wanted}", param="model")
    user = load_user(snapshot, named or holders[0])
    if not user.embeddings_endpoint:
        message = f"user {user.name!r} has no `embeddingsEndpoint`; not supported by this server"
        raise NotFound(message, param="model", code="model_not_found")
    return user


def embedders(snapshot: ConfigSnapshot) -> list[str]:
    """The names of the served users that set `embeddingsEndpoint`; a broken file has no settings."""
    names = []
    for name in askable_users(snapshot):
        try:
            user = load_user(snapshot, name)
        except ConfigError as error:
            logger.warning("could not find out whether user %s serves embeddings: %s", name, error)
            continue
        if user.embeddings_endpoint:
            names.append(name)
    return names


def texts_in(given: Any, field: str) -> list[str]:
    """The texts of a body's field: one text, or a list of texts. Raises ClientRequestError that names it."""
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        message = f"'{field}' must be a string or a list of strings; token ids are not supported"
        raise ClientRequestError(message, param=field)
    return texts


def as_base64(endpoint: str, vector: list[float]) -> str:
    """32-bit floats, little end first. Raises BackendError for a number that is too large for one."""
    try:
        return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode("ascii")
    except (OverflowError, struct.error) as error:
        message = "an embedding contains a number that does not fit into a 32-bit float"
        raise BackendError(endpoint, "protocol_error", message) from error


class EmbeddingsView(MethodView):
    """One route: how its body is read, and what its answer looks like."""

    def post(self) -> Response:
        snapshot = default_snapshot()
        if not askable_users(snapshot):
            raise unknown_model(snapshot)
        holders = embedders(snapshot)
        if not holders:
            raise NotFound(
                f"not supported by this server: POST {request.path} (no user has `embeddingsEndpoint`)"
            )
        body = body_of_request()
        user = embedder_for(body.get("model"), holders, snapshot)
        context = self._context(user, snapshot)
        with enter_request(context):
            texts = self.texts(body)
            vectors = embeddings_of(context, user, texts) if texts else []
            current_life().stop_watching()
            return json_response(self.answer(body, user, vectors, sum(map(estimate_tokens, texts))))

    def _context(self, user: UserSettings, snapshot: ConfigSnapshot) -> RequestContext:
        key = extract_api_key()
        g.privacy = is_private(user, key)
        refuse_two_ciphers(current_life().asker, user)
        context = g.request_context = current_life().request = RequestContext(
            request_id=current_request_id(),
            user=user.name,
            api_type="",
            api_key=key,
            asker=current_life().asker,
            privacy=g.privacy,
            snapshot=snapshot,
            arrived=current_life().arrived,
        )
        return context

    @abstractmethod
    def texts(self, body: JsonObject) -> list[str]:
        """What vectors are wanted for; none: nothing is called. Raises ClientRequestError."""

    @abstractmethod
    def answer(self, body: JsonObject, user: UserSettings, vectors: Vectors, tokens: int) -> JsonObject:
        """`tokens`: the estimate of the texts."""


def _refuse_dimensions(body: JsonObject) -> None:
    if body.get("dimensions") is not None:
        message = "'dimensions' is not supported: the model determines the length of its vectors"
        raise ClientRequestError(message, param="dimensions", code="unsupported_parameter")


def _model_name(body: JsonObject, user: UserSettings) -> str:
    """As it was sent, else the user."""
    model = body.get("model")
    return model if isinstance(model, str) and model else user.name


class OpenAIEmbeddingsAPI(EmbeddingsView):
    """POST `/v1/embeddings`."""

    def texts(self, body: JsonObject) -> list[str]:
        _refuse_dimensions(body)
        if body.get("encoding_format") not in (None, "float", "base64"):
            raise ClientRequestError("'encoding_format' must be 'float' or 'base64'", param="encoding_format")
        texts = texts_in(body.get("input"), "input")
        if not 1 <= len(texts) <= MOST_TEXTS:
            raise ClientRequestError(
                f"'input' must contain 1 to {MOST_TEXTS} strings, found {len(texts)}", param="input"
            )
        return texts

    def answer(self, body: JsonObject, user: UserSettings, vectors: Vectors, tokens: int) -> JsonObject:
        coded = body.get("encoding_format") == "base64"
        told = [as_base64(user.embeddings_endpoint, vector) if coded else vector for vector in vectors]
        return {
            "object": "list",
            "data": [
                {"object": "embedding", "index": number, "embedding": one} for number, one in enumerate(told)
            ],
            "model": _model_name(body, user),
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }


class EmbedAPI(EmbeddingsView):
    """POST `/api/embed`."""

    def texts(self, body: JsonObject) -> list[str]:
        _refuse_dimensions(body)
        given = body.get("input")
        return [] if given is None or given == "" else texts_in(given, "input")

    def answer(self, body: JsonObject, user: UserSettings, vectors: Vectors, tokens: int) -> JsonObject:
        return {
            "model": _model_name(body, user),
            "embeddings": vectors,
            "total_duration": max(1, int((time.monotonic() - current_life().arrived) * 1e9)),
            "load_duration": 1,
            "prompt_eval_count": tokens,
        }


class OldEmbeddingsAPI(EmbeddingsView):
    """POST `/api/embeddings`: one prompt, one vector."""

    def texts(self, body: JsonObject) -> list[str]:
        prompt = body.get("prompt")
        if prompt is not None and not isinstance(prompt, str):
            raise ClientRequestError("'prompt' must be a string", param="prompt")
        return [prompt] if prompt else []

    def answer(self, body: JsonObject, user: UserSettings, vectors: Vectors, tokens: int) -> JsonObject:
        return {"embedding": vectors[0] if vectors else []}


@FRONT_ENDS.register("embeddings")
class EmbeddingsFrontEnd(BaseApiHandler):
    """Each route fails in the shape of the protocol that it belongs to."""

    protocol = OPENAI
    routes = (
        Route("/v1/embeddings", OpenAIEmbeddingsAPI, gated=False),
        Route("/embeddings", OpenAIEmbeddingsAPI, gated=False),
        Route("/api/embed", EmbedAPI, gated=False, protocol=OLLAMA),
        Route("/api/embeddings", OldEmbeddingsAPI, gated=False, protocol=OLLAMA),
    )
