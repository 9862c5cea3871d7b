"""POST `/console/api/try`: a question from the console's page, answered as a stream of OpenAI's chat.

Gated, watched and cancellable as those of every front end. It is there only for what the console's door let
through. Source: spec console.md 9.9.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from flask import Response, g, request
from werkzeug.exceptions import NotFound as NoRoute

from Middleware.api.handlers.base.base_api_handler import BaseApiHandler, GenerationView
from Middleware.api.handlers.front_ends import FRONT_ENDS
from Middleware.api.requests.chat_messages import check_messages, internal_messages
from Middleware.api.requests.key_check import KEYS, KeyCheck
from Middleware.api.requests.model_names import ModelChoice, served_users
from Middleware.api.requests.request_body import read_body
from Middleware.api.requests.request_fields import json_body, typed_fields
from Middleware.api.requests.request_life import outdated_first
from Middleware.api.workflow_gateway import WorkflowPlace
from Middleware.api.wsgi.doors import ASKER, CONSOLE, ENTER_GATE, routes_to
from Middleware.common.asker import Asker
from Middleware.common.errors import (
    ConfigError,
    ConfigMissing,
    NotFound,
    Unauthorized,
    Unprocessable,
    WorkflowError,
)
from Middleware.common.request_context import ClientQuestion
from Middleware.common.secrets import mask_secrets, without_quoted_secrets
from Middleware.common.types import JsonObject
from Middleware.config import paths
from Middleware.config.endpoints import secrets_in_use
from Middleware.config.loader import ConfigSnapshot, outdated_files
from Middleware.config.users import UserSettings
from Middleware.config.workflows import load_workflow
from Middleware.protocols.console import PROTOCOL

MOST_BYTES = 1 << 20
NO_FILE = "no such file"
FIELDS = {"user": str, "path": str | None, "messages": list, "api_key": str | None}


class ConsoleTryAPI(GenerationView):
    """A body has `user`, `path` (of a workflow file; null: the user's own routing), `messages`, `api_key`."""

    api_type = "console"

    def post(self) -> Response:
        """The body is looked at before it waits for a slot.

        Raises ClientRequestError (Unprocessable where a config file has faults), ServerBusy, WorkflowError.
        """
        if CONSOLE not in request.environ:
            raise NoRoute
        body = typed_fields(json_body(read_body(request.environ, MOST_BYTES)), FIELDS)
        asker = _asker_of(body["api_key"])
        users = served_users()
        if asker is not None:
            request.environ[ASKER] = asker
            users = [user for user in users if asker.entry is None or asker.entry.may_ask(user)]
        if body["user"] not in users:
            raise NotFound(f"there is no such user; users: {', '.join(users)}", param="user")
        check_messages(body["messages"])
        self._body = body
        request.environ[ENTER_GATE](lambda life: self.tell_waiting(body, life))
        try:
            return super().post()
        except (ConfigError, WorkflowError) as error:
            cause = error if isinstance(error, ConfigError) else error.__cause__
            if not isinstance(cause, ConfigError):
                raise
            said = outdated_first(outdated_files(g.get("request_context")).values()) + str(error)
            raise Unprocessable(mask_secrets(without_quoted_secrets(said), *secrets_in_use())) from cause

    def get(self, request_id: str | None = None) -> Any:
        """Nothing else is here."""
        raise NoRoute

    put = patch = delete = get

    def receive_body(self) -> tuple[bytes, JsonObject]:
        """What is kept of the body holds no key."""
        kept = {name: value for name, value in self._body.items() if name != "api_key"}
        return json.dumps(kept).encode(), self._body

    def streams(self, body: JsonObject, headers: Mapping[str, Any]) -> bool:
        return True

    def task_messages(self, body: JsonObject) -> Any:
        """People ask here, whatever the messages look like."""
        return None

    def choose_model(self, body: JsonObject, snapshot: ConfigSnapshot) -> ModelChoice:
        return ModelChoice(body["user"])

    def key(self, body: JsonObject, headers: Mapping[str, Any]) -> str | None:
        """Not that of `Authorization`, which opens the console."""
        return body["api_key"] or None

    def place(self, body: JsonObject, user: UserSettings) -> WorkflowPlace | None:
        if body["path"] is None:
            return None
        place = place_of(body["path"], user)
        try:
            load_workflow(g.request_context.snapshot, user, place.name, folder=place.folder)
        except ConfigMissing:
            raise NotFound(NO_FILE, param="path") from None
        return place

    def read_question(self, body: JsonObject, user: UserSettings) -> ClientQuestion:
        return ClientQuestion(internal_messages(body["messages"], user))


def _asker_of(key: str | None) -> Asker | None:
    """Who asks with a key of the page's form; None: no key is needed. Raises Unauthorized."""
    keys: KeyCheck = request.environ[KEYS]
    try:
        return keys.asker_of(key)
    except Unauthorized as error:
        raise Unauthorized(str(error)) from error  # the page has no use for a challenge


def place_of(path: str, user: UserSettings) -> WorkflowPlace:
    """The workflow of a file below the config root: named from the user's own folder where it is there.

    Raises NotFound for what cannot be one.
    """
    parts = path.removesuffix(".json").split("/")
    is_file = path.endswith(".json") and all(map(paths.is_flat_name, parts))
    if not is_file or parts[0] != paths.WORKFLOWS or len(parts) < 3:
        raise NotFound(NO_FILE, param="path")
    own = paths.workflow_folder(user).split("/")
    if parts[1 : len(own) + 1] == own and len(parts) > len(own) + 1:
        return WorkflowPlace("/".join(parts[len(own) + 1 :]), None)
    return WorkflowPlace(parts[-1], "/".join(parts[1:-1]))


@FRONT_ENDS.register("console_try")
class ConsoleTryFrontEnd(BaseApiHandler):
    """One path. It counts as free until its view has looked at the body: of a console that is off nothing
    waits at the gate.
    """

    protocol = PROTOCOL
    routes = routes_to(ConsoleTryAPI, "/console/api/try", free=True)
