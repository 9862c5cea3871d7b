"""What the console's own generating routes share: a body is looked at before it waits for a slot, a key is
that of the page's form, and what is wrong in a config file is told to who asks.

There only for what the console's door let through. Source: spec console.md 9.9, workbench.md 10.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from flask import Response, g, request
from werkzeug.exceptions import NotFound as NoRoute

from Middleware.api.handlers.base.base_api_handler import GenerationView
from Middleware.api.requests.key_check import KEYS, KeyCheck
from Middleware.api.requests.model_names import served_users
from Middleware.api.requests.request_body import read_body
from Middleware.api.requests.request_fields import json_body, typed_fields
from Middleware.api.requests.request_life import RequestLife, outdated_first
from Middleware.api.wsgi.doors import ASKER, CONSOLE, ENTER_GATE
from Middleware.common.asker import Asker
from Middleware.common.errors import ConfigError, NotFound, Unauthorized, Unprocessable, WorkflowError
from Middleware.common.secrets import mask_secrets, without_quoted_secrets
from Middleware.common.types import JsonObject
from Middleware.config.endpoints import secrets_in_use
from Middleware.config.loader import outdated_files

MOST_BYTES = 1 << 20


class ConsoleView(GenerationView):
    """`FIELDS`: of a body, each with its type. One of them is `api_key`."""

    api_type = "console"
    FIELDS: ClassVar[Mapping[str, Any]] = {}

    def post(self) -> Response:
        """Raises ClientRequestError (Unprocessable where a config file has faults), ServerBusy,
        WorkflowError.
        """
        if CONSOLE not in request.environ:
            raise NoRoute
        body = typed_fields(json_body(read_body(request.environ, MOST_BYTES)), self.FIELDS)
        asker = _asker_of(body["api_key"])
        if asker is not None:
            request.environ[ASKER] = asker
        self._body = body
        user = self.take(body)
        users = served_users()
        if asker is not None:
            users = [one for one in users if asker.entry is None or asker.entry.may_ask(one)]
        if user not in users:
            raise NotFound(f"there is no such user; users: {', '.join(users)}", param="user")
        request.environ[ENTER_GATE](self.note_life)
        try:
            return super().post()
        except (ConfigError, WorkflowError) as error:
            cause = error if isinstance(error, ConfigError) else error.__cause__
            if not isinstance(cause, ConfigError):
                raise
            said = outdated_first(outdated_files(g.get("request_context")).values()) + str(error)
            raise Unprocessable(mask_secrets(without_quoted_secrets(said), *secrets_in_use())) from cause

    @abstractmethod
    def take(self, body: JsonObject) -> str:
        """Look at a body; whose workflows it runs. Raises ClientRequestError."""

    def note_life(self, life: RequestLife) -> None:
        """The request waits for a slot."""
        self.tell_waiting(self._body, life)

    def get(self, request_id: str | None = None) -> Any:
        """Nothing else is here."""
        raise NoRoute

    put = patch = delete = get

    def streams(self, body: JsonObject, headers: Mapping[str, Any]) -> bool:
        return True

    def key(self, body: JsonObject, headers: Mapping[str, Any]) -> str | None:
        """Not that of `Authorization`, which opens the console."""
        return self._body["api_key"] or None


def _asker_of(key: str | None) -> Asker | None:
    """Who asks with a key of the page's form; None: no key is needed. Raises Unauthorized."""
    keys: KeyCheck = request.environ[KEYS]
    try:
        return keys.asker_of(key)
    except Unauthorized as error:
        raise Unauthorized(str(error)) from error  # the page has no use for a challenge
