"""The KoboldCpp protocol: generation, what its clients ask first, and the abort by a key of their own.

Source: spec more-fronts.md 4.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from flask import request
from flask.views import MethodView

from Middleware.api.api_helpers import address_model, current_life, json_response, request_owner
from Middleware.api.handlers.base.base_api_handler import BaseApiHandler, GenerationView
from Middleware.api.handlers.front_ends import FRONT_ENDS
from Middleware.api.requests.chat_messages import generate_messages, text_of, texts_of
from Middleware.api.requests.model_names import advertised_context_length, first_advertised_id
from Middleware.api.requests.request_body import read_body
from Middleware.api.requests.request_fields import json_body
from Middleware.api.requests.request_life import named_of
from Middleware.api.wsgi.doors import routes_to
from Middleware.api.wsgi.processes import TRAFFIC, Traffic
from Middleware.common.errors import ClientRequestError
from Middleware.common.request_context import ClientQuestion
from Middleware.common.types import JsonObject
from Middleware.config.loader import default_snapshot
from Middleware.config.users import UserSettings
from Middleware.protocols.base import AnswerFacts
from Middleware.protocols.koboldcpp import PROTOCOL
from Middleware.utilities.text_utils import estimate_tokens

NAME = "koboldcpp"
"""Of the front end."""

API_VERSION = "1.2.5"
KOBOLDCPP_VERSION = "1.76"
MAX_LENGTH = 512
"""What clients take as the longest answer until their user says otherwise; nothing here is cut to it."""

WISHES = {
    "max_tokens": ("max_length",),
    "stop": ("stop_sequence",),
    "seed": ("sampler_seed",),
    "repetition_penalty": ("rep_pen",),
    **{
        name: (name,) for name in ("temperature", "top_p", "top_k", "min_p", "presence_penalty", "logit_bias")
    },
}
"""Name of a wish -> the field of a request that says it."""

_LACKS = (
    *("audio", "multiplayer", "websearch", "tts", "embeddings", "savedata"),
    *("admin", "guidance", "jinja", "mcp"),
)


def _name(body: JsonObject) -> Hashable:
    """What a request is called: by its client's `genkey`, else by where it comes from (4.5)."""
    key = request_owner()
    if genkey := text_of(body.get("genkey")):
        return ("genkey", key, genkey)
    return ("address", key, request.remote_addr)


def _optional_body() -> JsonObject:
    """The body; what is no JSON object counts as an empty one."""
    data = read_body(request.environ, request.max_content_length)
    try:
        return json_body(data)
    except ClientRequestError:
        return {}


class KoboldGenerateAPI(GenerationView):
    """POST `/api/v1/generate`. The path alone says whether it streams."""

    api_type = "koboldgenerate"
    wish_fields = WISHES
    streamed: ClassVar[bool] = False

    def streams(self, body: JsonObject, headers: Mapping[str, Any]) -> bool:
        return self.streamed

    def read_question(self, body: JsonObject, user: UserSettings) -> ClientQuestion:
        memory, prompt = text_of(body.get("memory")), text_of(body.get("prompt"))
        images = [image for image in texts_of(body.get("images")) if image]
        if not (memory or prompt or images):
            raise ClientRequestError("'prompt', 'memory' and 'images' are all empty", param="prompt")
        return ClientQuestion(generate_messages(memory, prompt, images))

    def facts(self, facts: AnswerFacts, body: JsonObject, question: ClientQuestion) -> AnswerFacts:
        """From here on the client can abort the request, and ask what was sent of it."""
        return replace(facts, sent=named_of(NAME).add(_name(body), current_life()).sent)


class GenerateStreamAPI(KoboldGenerateAPI):
    """POST `/api/extra/generate/stream`."""

    streamed = True


class CheckAPI(MethodView):
    """`/api/extra/generate/check`: what was sent so far of a stream that runs."""

    def get(self) -> Any:
        return self._progress_json({})

    def post(self) -> Any:
        return self._progress_json(_optional_body())

    def _progress_json(self, body: JsonObject) -> Any:
        texts = ["".join(one.sent) for one in named_of(NAME).of(_name(body))]
        return json_response({"results": [{"text": texts[-1] if texts else ""}]})


class AbortAPI(MethodView):
    """POST `/api/extra/abort`."""

    def post(self) -> Any:
        done = "true" if named_of(NAME).cancel(_name(_optional_body())) else "false"
        return json_response({"success": done, "done": done})


class TokenCountAPI(MethodView):
    """POST `/api/extra/tokencount`."""

    def post(self) -> Any:
        text = text_of(_optional_body().get("prompt"))
        return json_response({"value": estimate_tokens(text), "ids": []})


class ModelAPI(MethodView):
    """GET `/api/v1/model`."""

    def get(self) -> Any:
        return json_response({"result": first_advertised_id(default_snapshot(), address_model())})


class InfoVersionAPI(MethodView):
    """GET `/api/v1/info/version`."""

    def get(self) -> Any:
        return json_response({"result": API_VERSION})


class ExtraVersionAPI(MethodView):
    """GET `/api/extra/version`. `result` is this very word: SillyTavern compares it."""

    def get(self) -> Any:
        return json_response(
            {
                "result": "KoboldCpp",
                "version": KOBOLDCPP_VERSION,
                "protected": _traffic().needs_key(),
                "txt2img": False,
                "vision": True,
                "transcribe": False,
                "llm": True,
                **dict.fromkeys(_LACKS, False),
                "admin": 0,
            }
        )


class ContextLengthAPI(MethodView):
    """GET `/api/v1/config/max_context_length`, `/api/extra/true_max_context_length`."""

    def get(self) -> Any:
        return json_response({"value": advertised_context_length(default_snapshot(), address_model())})


class MaxLengthAPI(MethodView):
    """GET `/api/v1/config/max_length`."""

    def get(self) -> Any:
        return json_response({"value": MAX_LENGTH})


class PerfAPI(MethodView):
    """GET `/api/extra/perf`."""

    def get(self) -> Any:
        traffic = _traffic()
        return json_response(
            {
                "last_process": 0.0,
                "last_eval": 0.0,
                "last_token_count": 0,
                "last_seed": -1,
                "total_gens": traffic.finished,
                "stop_reason": 0,
                "total_img_gens": 0,
                "queue": traffic.waiting(),
                "idle": 0 if traffic.running else 1,
                "hordeexitcounter": 0,
                "uptime": traffic.uptime_s,
                "idletime": traffic.idle_s,
                "quiet": True,
            }
        )


def _traffic() -> Traffic:
    found: Traffic | None = request.environ.get(TRAFFIC)
    return found or Traffic()


def _in_both(path: str) -> tuple[str, str]:
    return f"/api/v1{path}", f"/api/latest{path}"


@FRONT_ENDS.register(NAME)
class KoboldCppFrontEnd(BaseApiHandler):
    """Every route below `/api/v1`, `/api/latest` and `/api/extra`."""

    protocol = PROTOCOL
    routes = (
        *routes_to(KoboldGenerateAPI, *_in_both("/generate"), methods=("POST",)),
        *routes_to(GenerateStreamAPI, "/api/extra/generate/stream", methods=("POST",)),
        *routes_to(CheckAPI, "/api/extra/generate/check", free=True),
        *routes_to(AbortAPI, "/api/extra/abort", free=True),
        *routes_to(TokenCountAPI, "/api/extra/tokencount", free=True),
        *routes_to(ModelAPI, *_in_both("/model")),
        *routes_to(InfoVersionAPI, *_in_both("/info/version")),
        *routes_to(
            ContextLengthAPI,
            *_in_both("/config/max_context_length"),
            "/api/extra/true_max_context_length",
        ),
        *routes_to(MaxLengthAPI, *_in_both("/config/max_length")),
        *routes_to(ExtraVersionAPI, "/api/extra/version"),
        *routes_to(PerfAPI, "/api/extra/perf"),
    )
