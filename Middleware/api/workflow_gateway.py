"""The only door to the engine: prepares the messages, finds the workflow, opens the run.

Frames nothing for the edge (`open_answer`); `handle_user_prompt` is the framed face for callers that want
text. Source: spec frontend-api.md 9 and 16, workflows.md 3 and 13.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, NamedTuple

from Middleware.api.requests.model_names import single_user
from Middleware.common.copies import copy_with
from Middleware.common.errors import BackendError, EarlyTermination, RequestCancelled
from Middleware.common.request_context import (
    AnswerState,
    ClientQuestion,
    RequestContext,
    current_request,
    enter_request,
)
from Middleware.common.types import Batch, Batches, JsonObject, Messages
from Middleware.config.loader import ConfigSnapshot, default_snapshot
from Middleware.config.paths import is_discussion_id
from Middleware.config.users import UserSettings, for_plain_model, load_user
from Middleware.protocols.registry import WIRE_FORMATS, AnswerCollector, AnswerFacts
from Middleware.services.rerun import Rerun
from Middleware.services.shared_state.turns import Ask
from Middleware.utilities.prompt_extraction_utils import without_discussion_tags
from Middleware.utilities.tool_traffic import collapse_repeats, without_machinery

if TYPE_CHECKING:
    from Middleware.llmapis.repeated_call import RepeatedCall
    from Middleware.workflows.managers.workflow_manager import WorkflowManager

MAX_HEADER_ID = 128


class Engine(NamedTuple):
    """What the edge calls of the engine."""

    manager: Callable[[UserSettings, RequestContext], WorkflowManager]
    open_answer_run: Callable[[WorkflowManager, ClientQuestion], Batches]


class WorkflowPlace(NamedTuple):
    """A workflow by its file. `folder`: below `Workflows/`; None: the user's own."""

    name: str
    folder: str | None


def open_answer(
    request: RequestContext,
    question: ClientQuestion,
    headers: Mapping[str, str] | None = None,
    place: WorkflowPlace | None = None,
    rerun: Rerun | None = None,
) -> Batches:
    """The run that answers the request. `headers`: those of HTTP, names in lower case. `place`: of the
    workflow; None: the user's settings and the model field say which. `rerun`: what is not run again; None:
    the request repeats no other.

    Raises before it runs anything.
    """
    user = load_user(request.snapshot, request.user)
    if request.raw_endpoint:
        return _manager(for_plain_model(user), request).open_plain_run(request.raw_endpoint, question)
    manager = _manager(user, request)
    if rerun is not None:
        manager.state.rerun = rerun
    messages = question.messages
    if user.liveness_tool_call is not None:
        messages = collapse_repeats(without_machinery(messages, user.liveness_tool_call))
    if request.task is not None:
        untagged: Messages = [
            {**message, "content": without_discussion_tags(message["content"])} for message in messages
        ]
        question = copy_with(question, messages=untagged)
        if user.open_web_ui_task_workflow:
            return manager.open_run(user.open_web_ui_task_workflow, question)
    else:
        found = header_discussion_id(messages, user, headers or {})
        if messages is not question.messages or found != question.discussion_id:
            question = copy_with(question, messages=messages, discussion_id=found)
    if place is not None:
        return manager.open_run(place.name, question, folder=place.folder)
    return _engine().open_answer_run(manager, question)


def open_repeated_call(request: RequestContext, question: ClientQuestion, asked: RepeatedCall) -> Batches:
    """The answer to one call of an earlier run, made once more. Runs no workflow. Raises ConfigError."""
    user = for_plain_model(load_user(request.snapshot, request.user))
    return _manager(user, request).open_repeated_call(asked, question)


def _engine() -> Engine:
    """Loaded when the first question comes: the model lists must not wait for it at a start."""
    from Middleware.workflows.managers import categorization, workflow_manager

    return Engine(workflow_manager.WorkflowManager, categorization.open_answer_run)


def _manager(user: UserSettings, request: RequestContext) -> WorkflowManager:
    return _engine().manager(user, request)


def capabilities_of(
    snapshot: ConfigSnapshot, user: UserSettings, workflow: str | None, endpoint: str = ""
) -> list[str]:
    """What the model of this user, of this shared workflow, or of this endpoint, can do (10.1)."""
    from Middleware.workflows.checks import model_walk

    if endpoint:
        return model_walk.capabilities_of_endpoint(snapshot, user, endpoint)
    return model_walk.capabilities(snapshot, user, workflow)


def machine_asked_first(
    snapshot: ConfigSnapshot,
    user: UserSettings,
    workflow: str | None,
    raw_endpoint: str = "",
    *,
    is_task: bool = False,
) -> Ask | None:
    """The model of a machine that a request will need first; None: it needs none, or only its run can tell.

    Never raises for what files say. Source: prompt-reuse.md 7.1.
    """
    from Middleware.workflows.checks.first_model import first_endpoint

    endpoint = first_endpoint(snapshot, user, workflow, raw_endpoint, is_task=is_task)
    if endpoint is None or not endpoint.machine:
        return None
    return Ask(endpoint.machine, endpoint.model_on_machine)


def embeddings_of(request: RequestContext, user: UserSettings, texts: list[str]) -> list[list[float]]:
    """One vector for each text, in order, from the user's `embeddingsEndpoint`. Runs no workflow.

    Raises ConfigError, RequestCancelled, BackendError (also for an answer that cannot be used).
    """
    from Middleware.llmapis.embedding_service import EmbeddingService

    service = EmbeddingService(user.embeddings_endpoint, user=user, snapshot=request.snapshot)
    try:
        vectors = service.get_embeddings(texts, request.request_id)
    except BackendError as error:
        error.name_file(service.handler.settings.endpoint.file)
        raise
    except ValueError as error:
        said = str(error).removeprefix(f"endpoint '{user.embeddings_endpoint}': ")
        failure = BackendError(user.embeddings_endpoint, "protocol_error", said)
        failure.name_file(service.handler.settings.endpoint.file)
        raise failure from None
    if vectors is None:
        raise RequestCancelled
    return vectors


def header_discussion_id(messages: Messages, user: UserSettings, headers: Mapping[str, str]) -> str | None:
    """The discussion id of the header that the user's settings name, when no message has a tag (16.3)."""
    if not user.discussion_id_from_header:
        return None
    if any(without_discussion_tags(message["content"]) != message["content"] for message in messages):
        return None
    given = headers.get(user.discussion_id_from_header.lower(), "")
    return given if len(given) <= MAX_HEADER_ID and is_discussion_id(given) else None


def handle_user_prompt(
    request_id: str,
    messages: Messages,
    stream: bool,
    api_key: str | None = None,
    tools: list[JsonObject] | None = None,
    tool_choice: Any = None,
) -> Iterator[str] | str | JsonObject:
    """The answer to `messages` for the current request: framed text when `stream`, else text.

    With tool calls a whole answer is `{"content": str, "tool_calls": [...]}`. Outside a request the single
    user's chat format is used.
    """
    request = _request_for(request_id, api_key)
    question = ClientQuestion(messages, stream, tools, tool_choice)
    if stream:
        return _frame_run(request, question)
    with enter_request(request):
        collector = AnswerCollector(request.answer)
        try:
            for batch in open_answer(request, question):
                if not request.answer.sent:
                    collector.add(batch)
        except EarlyTermination as stop:
            return stop.locked_message
    answer = collector.answer()
    return {"content": answer.text, "tool_calls": answer.tool_calls} if answer.tool_calls else answer.text


def _request_for(request_id: str, api_key: str | None) -> RequestContext:
    current = current_request()
    if current is not None:
        key = api_key or current.api_key
        asker = current.asker if key == current.api_key else copy_with(current.asker, key=key, entry=None)
        return copy_with(current, request_id=request_id, api_key=key, asker=asker, answer=AnswerState())
    snapshot = default_snapshot()
    user = single_user(snapshot)
    return RequestContext(request_id, user, "openaichatcompletion", api_key=api_key, snapshot=snapshot)


def _frame_run(request: RequestContext, question: ClientQuestion) -> Iterator[str]:
    """The run as units of the request's protocol, the end mark among them."""
    framer = WIRE_FORMATS[request.api_type].framer(AnswerFacts(request.request_id, request.model_name))
    with enter_request(request):
        context = copy_context()
        batches = open_answer(request, question)

    def pull() -> Batch | None:
        return context.run(lambda: next(batches, None))

    answer = framer.state = request.answer
    while (batch := pull()) is not None:
        if not answer.sent:
            yield from framer.units(batch)
            yield from framer.end() if answer.sent else ()
    if not answer.sent:
        yield from [*framer.finish_units("stop"), *framer.end()]
