"""The Responses protocol of OpenAI: generation, and the responses that are kept.

Source: spec more-fronts.md 3, 3.7 and 3.8.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, ClassVar

from flask import Flask, current_app, request
from flask.views import MethodView

from Middleware.api.api_helpers import current_life, json_response, request_owner
from Middleware.api.handlers.base.base_api_handler import BaseApiHandler, GenerationView, bare_id
from Middleware.api.handlers.front_ends import FRONT_ENDS
from Middleware.api.requests.chat_messages import with_speakers
from Middleware.api.requests.request_body import read_body
from Middleware.api.requests.request_fields import WishFields, count_tokens, json_body
from Middleware.api.requests.response_items import (
    function_tools,
    input_items,
    listed_items,
    messages_of,
    refuse_unsupported,
    task_messages_of,
)
from Middleware.api.wsgi.doors import Route, routes_to
from Middleware.common.errors import ClientRequestError, NotFound
from Middleware.common.request_context import ClientQuestion
from Middleware.common.types import JsonObject
from Middleware.config.users import UserSettings
from Middleware.protocols.base import AnswerFacts
from Middleware.protocols.response_object import echo_of
from Middleware.protocols.responses import PROTOCOL
from Middleware.services.cancellation_service import ASKED_TO, cancellation_service
from Middleware.services.response_store import ResponseStore, StoredResponse, UnknownResponse

_STORE = "headrace.responses"
"""The key of the application's extensions that holds its store."""
_OWN_ID = re.compile(r"resp_[0-9a-f-]{36}")
_NOT_KEPT = "is not kept: it is unknown, expired, deleted or of another key"


def _store() -> ResponseStore:
    store: ResponseStore = current_app.extensions[_STORE]
    return store


def _named_so(response_id: str) -> str:
    """An id as a sentence names it. What is none of ours may be any text of a client, whose user may keep
    texts private: it is told to nobody.
    """
    return f"{response_id!r} " if _OWN_ID.fullmatch(response_id) else ""


def _history(body: JsonObject) -> list[JsonObject]:
    """The items of the chain that `previous_response_id` names, oldest first; none where it is absent."""
    previous = body.get("previous_response_id")
    if previous is None or previous == "":
        return []
    try:
        chain = _store().chain(request_owner(), previous if isinstance(previous, str) else str(previous))
    except UnknownResponse as missing:
        raise ClientRequestError(
            f"previous response {_named_so(missing.response_id)}{_NOT_KEPT}",
            param="previous_response_id",
            code="previous_response_not_found",
        ) from missing
    return [item for link in chain for item in [*link.input_items, *link.response["output"]]]


class ResponsesAPI(GenerationView):
    """POST `/v1/responses`."""

    api_type = "openairesponses"
    wish_fields: ClassVar[WishFields] = {
        "max_tokens": ("max_output_tokens",),
        "response_format": ("text.format",),
        **{name: (name,) for name in ("temperature", "top_p", "parallel_tool_calls")},
    }

    def suppresses_reasoning(self, body: JsonObject) -> bool:
        reasoning = body.get("reasoning")
        return isinstance(reasoning, dict) and reasoning.get("effort") == "none"

    def task_messages(self, body: JsonObject) -> Any:
        return task_messages_of(body)

    def read_question(self, body: JsonObject, user: UserSettings) -> ClientQuestion:
        refuse_unsupported(body)
        items = input_items(body)
        messages = messages_of(body.get("instructions"), [*_history(body), *items])
        tools, choice = function_tools(body)
        return ClientQuestion(with_speakers(messages, user), tools=tools, tool_choice=choice)

    def facts(self, facts: AnswerFacts, body: JsonObject, question: ClientQuestion) -> AnswerFacts:
        store, owner, name = _store(), request_owner(), _response_id(facts.request_id)
        items = listed_items(input_items(body), facts.request_id)
        is_kept = body.get("store") is not False

        def store_response(response: JsonObject) -> None:
            if is_kept:
                store.keep(owner, response, items)
            else:
                store.end(owner, name)

        store.begin(owner, name)
        current_life().at_end(lambda: store.end(owner, name))
        return replace(facts, echo=echo_of(body), done=store_response)

    def intercept_facts(self, facts: AnswerFacts, body: JsonObject) -> AnswerFacts:
        return replace(facts, echo=echo_of(body), unmeasured=True)


def _response_id(request_id: str) -> str:
    """The id of a response, from the request's id or from its own."""
    return f"resp_{bare_id(request_id)}"


def _find_response(response_id: str) -> StoredResponse:
    found = _store().find(request_owner(), _response_id(response_id))
    if found is None:
        raise _unknown_response(response_id)
    return found


def _unknown_response(response_id: str) -> NotFound:
    return NotFound(f"response {response_id!r} {_NOT_KEPT}")


class ResponseAPI(MethodView):
    """GET and DELETE `/v1/responses/<id>`."""

    def get(self, response_id: str) -> Any:
        if request.args.get("stream", "").lower() in ("true", "1"):
            raise ClientRequestError(
                "a stored response cannot be streamed again; leave out 'stream'", param="stream"
            )
        return json_response(_find_response(response_id).response)

    def delete(self, response_id: str) -> Any:
        """Forget a response. One that still runs is cancelled, and not kept when it ends, unless that is in
        another process.
        """
        store, owner, name = _store(), request_owner(), _response_id(response_id)
        if store.end(owner, name) or store.is_running(owner, name):
            cancellation_service.request_cancellation(bare_id(name), ASKED_TO)
        elif not store.delete(owner, name):
            raise _unknown_response(response_id)
        return json_response({"id": name, "object": "response", "deleted": True})


class CancelResponseAPI(MethodView):
    """POST `/v1/responses/<id>/cancel`."""

    def post(self, response_id: str) -> Any:
        """What has ended is told as it is, and nodes that run on behind it are left alone."""
        name = _response_id(response_id)
        if not _store().is_running(request_owner(), name):
            return json_response(_find_response(response_id).response)
        cancellation_service.request_cancellation(bare_id(name), ASKED_TO)
        return json_response({"id": name, "object": "response", "status": "cancelled"})


class InputItemsAPI(MethodView):
    """GET `/v1/responses/<id>/input_items`: always one page."""

    def get(self, response_id: str) -> Any:
        items = _find_response(response_id).input_items
        if request.args.get("order") != "asc":
            items = items[::-1]
        ids = [item["id"] for item in items] or [None]
        page = {"object": "list", "data": items, "first_id": ids[0], "last_id": ids[-1], "has_more": False}
        return json_response(page)


class InputTokensAPI(MethodView):
    """POST `/v1/responses/input_tokens`: an estimate. Runs nothing."""

    def post(self) -> Any:
        body = json_body(read_body(request.environ, request.max_content_length))
        messages = messages_of(body.get("instructions"), [*_history(body), *input_items(body)])
        count = count_tokens(messages, function_tools(body)[0])
        return json_response({"object": "response.input_tokens", "input_tokens": count})


def _routes(root: str) -> tuple[Route, ...]:
    one = f"{root}/<response_id>"
    return (
        *routes_to(ResponsesAPI, root, methods=("POST",)),
        *routes_to(InputTokensAPI, f"{root}/input_tokens", free=True),
        *routes_to(ResponseAPI, one),
        *routes_to(CancelResponseAPI, f"{one}/cancel", free=True),
        *routes_to(InputItemsAPI, f"{one}/input_items"),
    )


@FRONT_ENDS.register("responses")
class OpenAIResponsesFrontEnd(BaseApiHandler):
    """Every route with and without `/v1`. Each application has a store of its own."""

    protocol = PROTOCOL
    routes = (*_routes("/v1/responses"), *_routes("/responses"))

    def register_routes(self, app: Flask) -> None:
        app.extensions[_STORE] = ResponseStore()
        super().register_routes(app)
