"""The OpenAI protocol: chat completions, text completions, the model list.

Source: spec frontend-api.md 3 and 8.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from flask import request
from flask.views import MethodView

from Middleware.api.api_helpers import address_model, json_response
from Middleware.api.handlers.base.base_api_handler import BaseApiHandler, GenerationView
from Middleware.api.handlers.front_ends import FRONT_ENDS
from Middleware.api.requests.chat_messages import check_messages, completion_messages, internal_messages
from Middleware.api.requests.model_names import LATEST, advertised_ids, is_alias
from Middleware.api.requests.request_fields import tools_of
from Middleware.api.wsgi.doors import PROTOCOL as CALLER
from Middleware.api.wsgi.doors import generation_routes, routes_to
from Middleware.common.errors import NotFound
from Middleware.common.request_context import WISH_NAMES, ClientQuestion
from Middleware.common.types import JsonObject
from Middleware.config.loader import default_snapshot
from Middleware.config.users import UserSettings
from Middleware.protocols.base import AnswerFacts, ClientProtocol
from Middleware.protocols.openai import PROTOCOL
from Middleware.services.response_builder_service import ResponseBuilderService

_builder = ResponseBuilderService()


WISHES = {
    "max_tokens": ("max_completion_tokens", "max_tokens"),
    "repetition_penalty": ("repetition_penalty", "repeat_penalty"),
    **{name: (name,) for name in WISH_NAMES if name not in ("max_tokens", "repetition_penalty")},
    **{name: (name,) for name in ("n", "best_of", "logprobs", "top_logprobs", "echo", "suffix")},
}
"""Name of a wish -> the fields of a request that say it; the last ones no node can take."""


class ChatCompletionsAPI(GenerationView):
    """POST and DELETE `/v1/chat/completions`."""

    api_type = "openaichatcompletion"
    wish_fields = WISHES

    def read_question(self, body: JsonObject, user: UserSettings) -> ClientQuestion:
        messages = internal_messages(check_messages(body.get("messages")), user)
        tools, choice = tools_of(body)
        return ClientQuestion(messages, tools=tools, tool_choice=choice)

    def intercept_facts(self, facts: AnswerFacts, body: JsonObject) -> AnswerFacts:
        return replace(facts, request_id=f"opnwui-tool-{int(time.time())}", unmeasured=True)


class CompletionsAPI(GenerationView):
    """POST and DELETE `/v1/completions`."""

    api_type = "openaicompletion"
    wish_fields = WISHES

    def read_question(self, body: JsonObject, user: UserSettings) -> ClientQuestion:
        return ClientQuestion(completion_messages(body.get("prompt", "")))


class ModelsAPI(MethodView):
    """GET `/v1/models` and `/v1/models/<id>`, in the form of the protocol that claims the request."""

    def get(self, model_id: str | None = None) -> Any:
        asked: ClientProtocol = request.environ.get(CALLER, PROTOCOL)
        snapshot = default_snapshot()
        ids = advertised_ids(snapshot, address_model())
        if model_id is None:
            return json_response((asked.model_list or _builder.build_openai_models_response)(ids))
        name = model_id if model_id in ids else model_id.removesuffix(LATEST)
        if name not in ids and not (is_alias(name, snapshot) and not address_model()):
            raise NotFound(f"the model {model_id!r} does not exist", param="model", code="model_not_found")
        return json_response((asked.model_entry or _builder.build_openai_model)(name))


@FRONT_ENDS.register("openai")
class OpenAIFrontEnd(BaseApiHandler):
    """Every route with and without `/v1`."""

    protocol = PROTOCOL
    routes = (
        *generation_routes(ChatCompletionsAPI, "/v1/chat/completions", "/chat/completions"),
        *generation_routes(CompletionsAPI, "/v1/completions", "/completions"),
        *routes_to(
            ModelsAPI, "/v1/models", "/models", "/v1/models/<path:model_id>", "/models/<path:model_id>"
        ),
    )
