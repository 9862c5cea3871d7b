"""The OpenAI protocol: chat completions, text completions, the model list.

Source: spec frontend-api.md 3 and 8.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from flask import Flask, request
from flask.views import MethodView

from Middleware.api.api_helpers import json_response
from Middleware.api.handlers.base.base_api_handler import BaseApiHandler, cancel
from Middleware.api.handlers.base.generation_view import GenerationView, Question
from Middleware.api.handlers.registry import FRONT_ENDS
from Middleware.api.requests.chat_messages import check_messages, internal_messages
from Middleware.api.requests.model_names import LATEST, advertised_ids
from Middleware.api.requests.request_fields import tools_of
from Middleware.api.requests.tagged_prompts import completion_messages
from Middleware.common.errors import NotFound
from Middleware.common.types import JsonObject
from Middleware.config.loader import default_snapshot
from Middleware.config.users import UserSettings
from Middleware.protocols.registry import AnswerFacts
from Middleware.services.response_builder_service import ResponseBuilderService

_builder = ResponseBuilderService()


class ChatCompletionsAPI(GenerationView):
    """POST and DELETE `/v1/chat/completions`."""

    api_type = "openaichatcompletion"
    is_chat = True

    def stream_default(self) -> bool:
        return False

    def read(self, body: JsonObject, user: UserSettings) -> Question:
        messages = internal_messages(check_messages(body.get("messages")), user)
        tools, choice = tools_of(body)
        return Question(messages, tools, choice)

    def intercept_facts(self, facts: AnswerFacts, body: JsonObject) -> AnswerFacts:
        return replace(facts, request_id=f"opnwui-tool-{int(time.time())}", unmeasured=True)

    def delete(self, request_id: str | None = None) -> Any:
        return cancel(request_id)


class CompletionsAPI(GenerationView):
    """POST and DELETE `/v1/completions`."""

    api_type = "openaicompletion"
    is_chat = False

    def stream_default(self) -> bool:
        """Old text front ends leave `stream` out and mean true; the SDK leaves it out and means false."""
        agent = request.headers.get("User-Agent", "")
        return not (agent.startswith("OpenAI/") or "X-Stainless-Lang" in request.headers)

    def read(self, body: JsonObject, user: UserSettings) -> Question:
        return Question(completion_messages(body.get("prompt", "")))

    def delete(self, request_id: str | None = None) -> Any:
        return cancel(request_id)


class ModelsAPI(MethodView):
    """GET `/v1/models` and `/v1/models/<id>`."""

    def get(self, model_id: str | None = None) -> Any:
        ids = advertised_ids(default_snapshot())
        if model_id is None:
            return json_response(_builder.build_openai_models_response(ids))
        name = model_id if model_id in ids else model_id.removesuffix(LATEST)
        if name not in ids:
            raise NotFound(f"the model {model_id!r} does not exist", param="model", code="model_not_found")
        return json_response(_builder.build_openai_model(name))


@FRONT_ENDS.register("openai")
class OpenAIApiHandler(BaseApiHandler):
    """Every route with and without `/v1`."""

    def register_routes(self, app: Flask) -> None:
        for root, view in (("/chat/completions", ChatCompletionsAPI), ("/completions", CompletionsAPI)):
            self.add(app, (f"/v1{root}", root), view, methods=("POST", "DELETE"))
            self.add(app, (f"/v1{root}/<request_id>", f"{root}/<request_id>"), view, methods=("DELETE",))
        self.add(
            app,
            ("/v1/models", "/models", "/v1/models/<path:model_id>", "/models/<path:model_id>"),
            ModelsAPI,
        )
