"""The Ollama protocol: chat, generate, the model lists and what its clients ask before.

Source: frontend-api.md 3, 8.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from flask import Response
from flask.views import MethodView

from Middleware.api.api_helpers import address_model, body_of_request, health_object, json_response
from Middleware.api.handlers.base.base_api_handler import BaseApiHandler, GenerationView, cancel
from Middleware.api.handlers.front_ends import FRONT_ENDS
from Middleware.api.requests.chat_messages import (
    check_messages,
    generate_messages,
    internal_messages,
    text_of,
    texts_of,
)
from Middleware.api.requests.model_names import advertised_ids, choose, context_length_of
from Middleware.api.requests.request_fields import tools_of
from Middleware.api.workflow_gateway import capabilities_of
from Middleware.api.wsgi.doors import Route
from Middleware.common.errors import ClientRequestError, NotFound
from Middleware.common.request_context import ClientQuestion, Wish, current_request
from Middleware.common.types import JsonObject
from Middleware.config.loader import default_snapshot
from Middleware.config.users import UserSettings
from Middleware.protocols.base import AnswerFacts
from Middleware.protocols.ollama import PROTOCOL
from Middleware.services.response_builder_service import ResponseBuilderService

_UNLOAD = ("0", "0s")

_builder = ResponseBuilderService()


_OPTIONS = ("stop", "temperature", "top_p", "top_k", "min_p", "seed", "presence_penalty", "frequency_penalty")
WISHES = {
    "max_tokens": ("options.num_predict",),
    "repetition_penalty": ("options.repeat_penalty",),
    **{name: (f"options.{name}",) for name in _OPTIONS},
    "response_format": ("format",),
    **{name: (name,) for name in ("logprobs", "top_logprobs", "suffix")},
}
"""Name of a wish -> the field of a request that says it."""


class _OllamaView(GenerationView):
    """What chat and generate share: streams by default, empty requests load and unload (8.4)."""

    stream_default = True
    wish_fields = WISHES

    def wishes(self, body: JsonObject) -> Mapping[str, Wish]:
        """`format` is `"json"` or a schema; as an OpenAI client would say it."""
        found = super().wishes(body)
        asked = found.get("response_format")
        if asked is None:
            return found
        form = {"type": "json_object"} if asked.value == "json" else asked.value
        if form is asked.value and isinstance(form, dict):
            form = {"type": "json_schema", "schema": form}
        return MappingProxyType({**found, "response_format": replace(asked, value=form)})

    def instead(self, body: JsonObject) -> JsonObject | None:
        if not self.is_empty(body):
            return None
        keep = body.get("keep_alive")
        unload = keep in _UNLOAD or (
            isinstance(keep, int | float) and not isinstance(keep, bool) and keep == 0
        )
        context = current_request()
        model = context.model_name if context else ""
        return _builder.build_ollama_load_response(
            model, "unload" if unload else "load", chat=self.wire.is_chat
        )

    @abstractmethod
    def is_empty(self, body: JsonObject) -> bool:
        """Whether the body asks nothing."""


class ApiChatAPI(_OllamaView):
    """POST `/api/chat`."""

    api_type = "ollamaapichat"

    def check(self, body: JsonObject) -> None:
        if "model" not in body:
            raise ClientRequestError("'model' is required", param="model")

    def is_empty(self, body: JsonObject) -> bool:
        return body.get("messages") == []

    def read_question(self, body: JsonObject, user: UserSettings) -> ClientQuestion:
        messages = internal_messages(check_messages(body.get("messages")), user)
        return ClientQuestion(messages, tools=tools_of(body)[0])

    def intercept_facts(self, facts: AnswerFacts, body: JsonObject) -> AnswerFacts:
        return replace(facts, model=text_of(body.get("model")), unmeasured=True)


class OllamaGenerateAPI(_OllamaView):
    """POST `/api/generate`."""

    api_type = "ollamagenerate"

    def check(self, body: JsonObject) -> None:
        if not body.get("model"):
            raise ClientRequestError("'model' is required", param="model")

    def is_empty(self, body: JsonObject) -> bool:
        return not (
            text_of(body.get("prompt")) or text_of(body.get("system")) or texts_of(body.get("images"))
        )

    def read_question(self, body: JsonObject, user: UserSettings) -> ClientQuestion:
        images = [image for image in texts_of(body.get("images")) if image]
        return ClientQuestion(
            generate_messages(text_of(body.get("system")), text_of(body.get("prompt")), images)
        )


class CancelChatAPI(MethodView):
    """DELETE `/api/chat`."""

    def delete(self) -> Any:
        return cancel()


class CancelGenerateAPI(CancelChatAPI):
    """DELETE `/api/generate`."""


class TagsAPI(MethodView):
    """GET `/api/tags`."""

    def get(self) -> Any:
        ids = advertised_ids(default_snapshot(), address_model())
        return json_response(_builder.build_ollama_tags_response(ids))


class VersionAPI(MethodView):
    """GET `/api/version`."""

    def get(self) -> Any:
        return json_response(_builder.build_ollama_version_response())


class ShowAPI(MethodView):
    """POST `/api/show`."""

    def post(self) -> Any:
        body = body_of_request()
        model = body.get("model") or body.get("name")
        if not isinstance(model, str) or not model:
            raise ClientRequestError("'model' is required", param="model")
        snapshot = default_snapshot()
        try:
            choice = choose(model, snapshot)
        except ClientRequestError as error:
            raise NotFound(f"model '{model}' not found", param="model") from error
        can = capabilities_of(snapshot, choice.settings(snapshot), choice.workflow, choice.endpoint)
        length = context_length_of(choice, snapshot)
        return json_response(_builder.build_ollama_show_response(choice.name, length, can))


class PsAPI(MethodView):
    """GET `/api/ps`: nothing is loaded here."""

    def get(self) -> Any:
        return json_response({"models": []})


class RootAPI(MethodView):
    """GET `/`: how Ollama's clients see that a server is there."""

    def get(self) -> Any:
        return Response("Ollama is running", content_type="text/plain; charset=utf-8")


class OllamaHealthAPI(MethodView):
    """GET `/health`."""

    def get(self) -> Any:
        return json_response(health_object())


@FRONT_ENDS.register("ollama")
class OllamaFrontEnd(BaseApiHandler):
    """Every route below `/api`, and the two that say that the server lives."""

    protocol = PROTOCOL
    routes = (
        Route("/api/chat", ApiChatAPI, methods=("POST",)),
        Route("/api/chat", CancelChatAPI),
        Route("/api/generate", OllamaGenerateAPI, methods=("POST",)),
        Route("/api/generate", CancelGenerateAPI),
        Route("/api/tags", TagsAPI),
        Route("/api/version", VersionAPI),
        Route("/api/show", ShowAPI, free=True),
        Route("/api/ps", PsAPI),
        Route("/", RootAPI),
        Route("/health", OllamaHealthAPI),
    )
