"""POST `/console/api/try`, `again` and `ask`: a question from the console's page, a run once more, and one
call of a run once more, answered as a stream of OpenAI's chat.

Gated, watched and cancellable as those of every front end. They are there only for what the console's door
let through. Source: spec console.md 9.9, workbench.md 4.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from flask import g, request

from Middleware.api.handlers.base.base_api_handler import BaseApiHandler, GenerationView
from Middleware.api.handlers.base.console_view import ConsoleView
from Middleware.api.handlers.front_ends import FRONT_ENDS, view_that_reads
from Middleware.api.requests.chat_messages import check_messages, internal_messages
from Middleware.api.requests.model_names import ModelChoice
from Middleware.api.requests.repeats import (
    REPEATS,
    AskedCall,
    Repeat,
    Repeats,
    split_address,
    without_lost_pictures,
)
from Middleware.api.requests.request_fields import json_body
from Middleware.api.requests.request_life import RequestLife
from Middleware.api.workflow_gateway import WorkflowPlace, open_answer, open_repeated_call
from Middleware.api.wsgi.doors import ASKER, routes_to
from Middleware.api.wsgi.model_addresses import MODEL_OF_ADDRESS
from Middleware.common.asker import Asker
from Middleware.common.errors import ClientRequestError, ConfigMissing, NotFound
from Middleware.common.request_context import ClientQuestion, RequestContext, Wish
from Middleware.common.types import Batches, JsonObject
from Middleware.config import paths
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.users import UserSettings
from Middleware.config.workflows import load_workflow
from Middleware.protocols.console import PROTOCOL

NO_FILE = "no such file"


class ConsoleTryAPI(ConsoleView):
    """A body has `user`, `path` (of a workflow file; null: the user's own routing), `messages`, `api_key`."""

    FIELDS: ClassVar[Mapping[str, Any]] = {
        "user": str,
        "path": str | None,
        "messages": list,
        "api_key": str | None,
    }

    def take(self, body: JsonObject) -> str:
        check_messages(body["messages"])
        return str(body["user"])

    def receive_body(self) -> tuple[bytes, JsonObject]:
        """What is kept of the body holds no key."""
        kept = {name: value for name, value in self._body.items() if name != "api_key"}
        return json.dumps(kept).encode(), self._body

    def body_of(self, data: bytes) -> JsonObject:
        return json_body(data)

    def task_messages(self, body: JsonObject) -> Any:
        """People ask here, whatever the messages look like."""
        return None

    def choose_model(self, body: JsonObject, snapshot: ConfigSnapshot) -> ModelChoice:
        return ModelChoice(body["user"])

    def place(self, body: JsonObject, user: UserSettings) -> WorkflowPlace | None:
        return None if body["path"] is None else _place_in_tree(body["path"], user)

    def read_question(self, body: JsonObject, user: UserSettings) -> ClientQuestion:
        return ClientQuestion(internal_messages(body["messages"], user))


def _place_in_tree(path: str, user: UserSettings) -> WorkflowPlace:
    """The workflow of a file that is there. Raises NotFound."""
    place = place_of(path, user)
    try:
        load_workflow(g.request_context.snapshot, user, place.name, folder=place.folder)
    except ConfigMissing:
        raise NotFound(NO_FILE, param="path") from None
    return place


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


class ConsoleAgainAPI(ConsoleView):
    """A body has `run`, `from` (the first node that runs; null: all), `writes` (numbers of the nodes that may
    write), `text` (of the workflow, not saved), `api_key` (of the client, where the page has it).

    What the client sent is read by the view that read it then; the answer is the console's.
    """

    FIELDS: ClassVar[Mapping[str, Any]] = {
        "run": str,
        "from": int | None,
        "writes": list,
        "text": str | None,
        "api_key": str | None,
    }

    def take(self, body: JsonObject) -> str:
        repeats: Repeats = request.environ[REPEATS]
        self._repeat: Repeat = repeats.again(body)
        path, model = split_address(self._repeat.path)
        if model:
            request.environ[MODEL_OF_ADDRESS] = model
        request.environ.setdefault(ASKER, Asker(key=body["api_key"] or None))
        view = view_that_reads(path)
        if view is None:
            raise ClientRequestError(f"requests to {path} can't be run again", param="run")
        self._reader: GenerationView = view.reader_of(self._repeat.asked)
        self._asked = without_lost_pictures(self._reader.body_of(self._repeat.asked))[0]
        return self._repeat.user

    def note_life(self, life: RequestLife) -> None:
        """The run is told as the client's, so that it can be copied and run again as that."""
        if life.trace is not None:
            life.trace.path, life.trace.again_of = self._repeat.path, self._repeat.of
        self.tell_waiting(self._asked, life)

    def receive_body(self) -> tuple[bytes, JsonObject]:
        return self._repeat.asked, self._asked

    def check(self, body: JsonObject) -> None:
        self._reader.check(body)

    def snapshot(self) -> ConfigSnapshot:
        return self._repeat.snapshot

    def open_run(
        self,
        context: RequestContext,
        question: ClientQuestion,
        headers: Mapping[str, str],
        place: WorkflowPlace | None,
    ) -> Batches:
        return open_answer(context, question, headers, place, self._repeat.rerun)

    def headers_read(self, user: UserSettings, life: RequestLife) -> dict[str, str]:
        return dict(self._repeat.headers)

    def task(self, body: JsonObject, headers: Mapping[str, Any], stream: bool) -> str | None:
        return self._repeat.task

    def task_messages(self, body: JsonObject) -> Any:
        return self._reader.task_messages(body)

    def suppresses_reasoning(self, body: JsonObject) -> bool:
        return self._reader.suppresses_reasoning(body)

    def user_text(self, body: JsonObject) -> str:
        return self._reader.user_text(body)

    def wishes(self, body: JsonObject) -> Mapping[str, Wish]:
        return self._reader.wishes(body)

    def choose_model(self, body: JsonObject, snapshot: ConfigSnapshot) -> ModelChoice:
        return self._reader.choose_model(body, snapshot)

    def place(self, body: JsonObject, user: UserSettings) -> WorkflowPlace | None:
        if self._repeat.file is not None:
            return _place_in_tree(self._repeat.file, user)
        return self._reader.place(body, user)

    def read_question(self, body: JsonObject, user: UserSettings) -> ClientQuestion:
        return self._reader.read_question(body, user)


class ConsoleAskAPI(ConsoleView):
    """A body has `run`, `node` and `call` (places of the call in the run), and what is to be other in it:
    `endpoint`, `preset`, `messages` or `prompt`, `sampler` (by the backend's names; null takes one away).
    """

    FIELDS: ClassVar[Mapping[str, Any]] = {
        "run": str,
        "node": int,
        "call": int,
        "endpoint": str | None,
        "preset": str | None,
        "messages": list | None,
        "prompt": str | None,
        "sampler": dict | None,
        "api_key": str | None,
    }

    @classmethod
    def reader_of(cls, data: bytes) -> GenerationView:
        """Raises ClientRequestError: a call is asked again where it was made."""
        raise ClientRequestError("this run asked one call again: ask it again there")

    def take(self, body: JsonObject) -> str:
        repeats: Repeats = request.environ[REPEATS]
        self._asked: AskedCall = repeats.ask(body)
        return self._asked.user

    def note_life(self, life: RequestLife) -> None:
        if life.trace is not None:
            life.trace.again_of = self._asked.of
        super().note_life(life)

    def receive_body(self) -> tuple[bytes, JsonObject]:
        """What is kept of the body holds no key."""
        kept = {name: value for name, value in self._body.items() if name != "api_key"}
        return json.dumps(kept).encode(), self._body

    def task_messages(self, body: JsonObject) -> Any:
        return None

    def user_text(self, body: JsonObject) -> str:
        return self._asked.text

    def choose_model(self, body: JsonObject, snapshot: ConfigSnapshot) -> ModelChoice:
        return ModelChoice(self._asked.user, endpoint=self._asked.endpoint)

    def read_question(self, body: JsonObject, user: UserSettings) -> ClientQuestion:
        return ClientQuestion([{"role": "user", "content": self._asked.text}])

    def open_run(
        self,
        context: RequestContext,
        question: ClientQuestion,
        headers: Mapping[str, str],
        place: WorkflowPlace | None,
    ) -> Batches:
        return open_repeated_call(context, question, self._asked.call)


@FRONT_ENDS.register("console_try")
class ConsoleTryFrontEnd(BaseApiHandler):
    """They count as free until their view has looked at the body: of a console that is off nothing waits at
    the gate.
    """

    protocol = PROTOCOL
    routes = (
        *routes_to(ConsoleTryAPI, "/console/api/try", free=True),
        *routes_to(ConsoleAgainAPI, "/console/api/again", free=True),
        *routes_to(ConsoleAskAPI, "/console/api/ask", free=True),
    )
