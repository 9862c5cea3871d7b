"""llama.cpp's own routes: `/completion`, and what clients ask of its server first.

Source: spec more-fronts.md 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import request
from flask.views import MethodView

from Middleware.api.api_helpers import address_model, health_object, json_response
from Middleware.api.handlers.base.base_api_handler import BaseApiHandler, GenerationView
from Middleware.api.handlers.front_ends import FRONT_ENDS
from Middleware.api.requests.chat_messages import completion_messages, text_of
from Middleware.api.requests.model_names import advertised_context_length, first_advertised_id
from Middleware.api.requests.request_body import read_body
from Middleware.api.requests.request_fields import json_body
from Middleware.api.wsgi.doors import Route
from Middleware.common.instance_global_variables import launch_facts
from Middleware.common.request_context import WISH_NAMES, ClientQuestion, Wish
from Middleware.common.types import JsonObject
from Middleware.config.loader import default_snapshot
from Middleware.config.users import UserSettings
from Middleware.protocols.llamacpp import PROTOCOL
from Middleware.utilities.text_utils import estimate_tokens

_OWN_NAMES = {
    "max_tokens": ("n_predict",),
    "repetition_penalty": ("repeat_penalty",),
    "response_format": ("json_schema", "response_format"),
}
WISHES = {name: _OWN_NAMES.get(name, (name,)) for name in WISH_NAMES if name != "parallel_tool_calls"}
"""Name of a wish -> the field of a request that says it."""

NEVER = -100
"""The bias of a token that must not come."""


class CompletionAPI(GenerationView):
    """POST `/completion`."""

    api_type = "llamacppcompletion"
    wish_fields = WISHES

    def read_question(self, body: JsonObject, user: UserSettings) -> ClientQuestion:
        return ClientQuestion(completion_messages(body.get("prompt", "")))

    def wishes(self, body: JsonObject) -> Mapping[str, Wish]:
        """`json_schema` is the bare schema; as an OpenAI client would say it."""
        schema = body.get("json_schema")
        if isinstance(schema, dict) and schema:
            schema = {"type": "json_schema", "schema": schema}
        read = {**body, "logit_bias": _biases(body.get("logit_bias")), "json_schema": schema}
        return super().wishes(read)


def _biases(value: Any) -> Any:
    """Pairs of a token id and a number, `false` for never, as an object; anything else as it is."""
    if not isinstance(value, list) or not all(map(_is_pair, value)):
        return value
    return {str(token): NEVER if bias is False else bias for token, bias in value}


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and type(value[0]) is int


class LlamaCppHealthAPI(MethodView):
    """GET `/v1/health`: the process serves. Says nothing of backends."""

    def get(self) -> Any:
        return json_response(health_object())


class PropsAPI(MethodView):
    """GET `/props`."""

    def get(self) -> Any:
        snapshot, address = default_snapshot(), address_model()
        model = first_advertised_id(snapshot, address)
        length = advertised_context_length(snapshot, address)
        return json_response(
            {
                "default_generation_settings": {"params": {}, "n_ctx": length},
                "total_slots": max(1, launch_facts().concurrency),
                "model_alias": model,
                "model_path": model,
                "modalities": {"vision": True, "audio": False},
                "chat_template": "",  # clients want a text
                "bos_token": "",
                "eos_token": "",
                "build_info": "headrace",
            }
        )


class TokenizeAPI(MethodView):
    """POST `/tokenize`: as many zeros as there may be tokens. Clients count them."""

    def post(self) -> Any:
        body = json_body(read_body(request.environ, request.max_content_length))
        text = text_of(body.get("content", body.get("prompt")))
        return json_response({"tokens": [0] * estimate_tokens(text)})


@FRONT_ENDS.register("llamacpp")
class LlamaCppFrontEnd(BaseApiHandler):
    """`/completion` and the probes."""

    protocol = PROTOCOL
    routes = (
        Route("/completion", CompletionAPI, methods=("POST",)),
        Route("/props", PropsAPI),
        Route("/tokenize", TokenizeAPI, free=True),
        Route("/v1/health", LlamaCppHealthAPI),
    )
