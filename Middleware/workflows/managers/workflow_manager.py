"""Finds a workflow, runs it, and gives its nodes the means to run others. One manager a request.

What it hands out is an iterator of batches that never fails once the answer is complete. It knows nothing of
clients: framing, heartbeats and background work are the edge's. Source: spec workflows.md 3.3, 6.1, 8,
16.4-16.6.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Generator, Mapping
from contextlib import closing
from functools import cache

import Middleware.workflows.handlers.impl  # noqa: F401  (registers the node types)
from Middleware.common.copies import copy_with
from Middleware.common.errors import ConfigError, EarlyTermination, MiddlewareError, RequestCancelled, let_go
from Middleware.common.request_context import ClientQuestion, RequestContext, enter_request, target_name
from Middleware.common.types import Batch, Batches, Message, Messages
from Middleware.config.loader import ConfigSnapshot, default_snapshot
from Middleware.config.users import UserSettings
from Middleware.config.workflows import Category, Routing, WorkflowFile, load_workflow
from Middleware.llmapis.repeated_call import RepeatedCall
from Middleware.utilities.prompt_extraction_utils import DISCUSSION_TAG, without_discussion_tags
from Middleware.utilities.prompt_extraction_utils import discussion_id as discussion_id_of
from Middleware.workflows.dispatch.client_wishes import unused_fields
from Middleware.workflows.managers.meaning_routing import category_by_meaning
from Middleware.workflows.models.execution_context import (
    ChildCall,
    NodeResult,
    NodeStream,
    NodeValue,
)
from Middleware.workflows.processors.delivery import SentAnswer, finish_chunks, merge_chunks, tell_answer
from Middleware.workflows.processors.node_context import NodeContext
from Middleware.workflows.processors.node_lines import trace_for_the_log
from Middleware.workflows.processors.run import (
    ProcessServices,
    RequestState,
    Run,
    plain_model,
    shorten_chain,
)
from Middleware.workflows.processors.workflows_processor import WorkflowProcessor
from Middleware.workflows.variables import workflow_variable_manager as variables

logger = logging.getLogger(__name__)

FRAMES_OF_A_RUN = 12
"""Calls on the stack for one level of nesting, with some room."""

DEEPEST = 2000
"""More nested runs than these could break the stack of a thread, whatever the user allows."""

_KEYS_OF_A_MESSAGE_WITHOUT_TEXT = ("tool_calls", "tool_call_id", "images")


@cache
def process_services() -> ProcessServices:
    """What all requests of this process share (keys of encrypted discussions, lock databases)."""
    return ProcessServices()


class WorkflowManager:
    """Runs of one request."""

    def __init__(self, user: UserSettings, request: RequestContext) -> None:
        snapshot = request.snapshot if isinstance(request.snapshot, ConfigSnapshot) else default_snapshot()
        self.user, self.request, self.snapshot = user, request, snapshot
        self.state = RequestState(request, user, snapshot, process_services())
        if request.trace is None:
            self.state.run_trace = trace_for_the_log(request)
        self._max_depth = min(user.max_workflow_depth, DEEPEST)
        _make_room_for(self._max_depth)

    def open_run(self, name: str, question: ClientQuestion, *, folder: str | None = None) -> Batches:
        """The answer of workflow `name`, then empty batches until its last node has ended.

        Raises ConfigMissing and ConfigError at once; the iterator raises WorkflowError or RequestCancelled,
        before the answer is complete only. Closing it ends the run.
        """
        file = load_workflow(self.snapshot, self.user, name, folder=folder)
        run = Run(self.state, file, prepare_question(question), inputs=question.inputs, chain=(name,))
        return self.guard_answer(self.answer_of(run), question)

    def open_plain_run(self, endpoint: str, question: ClientQuestion) -> Batches:
        """The answer of an endpoint to what the client sent, without a workflow; else as `open_run`."""
        file = plain_model(target_name(self.user.name, endpoint=endpoint), endpoint)
        run = Run(self.state, file, plain_question(question), chain=(file.name,), plain=True)
        return self.guard_answer(self.answer_of(run), question)

    def open_repeated_call(self, asked: RepeatedCall, question: ClientQuestion) -> Batches:
        """The answer to one call of an earlier run, which is made once more; else as `open_run`."""
        file = plain_model(target_name(self.user.name, endpoint=asked.endpoint), asked.endpoint)
        run = Run(self.state, file, question, chain=(file.name,), plain=True, asked=asked)
        return self.guard_answer(self.answer_of(run), question)

    def answer_of(self, run: Run) -> Generator[Batch, None, None]:
        """The batches of a run, without the promises of `guard_answer`."""
        self.state.question = self.state.question or run.question
        discussion = run.question.discussion_id
        self._tell_of(run.chain[0], answers=True, discussion=discussion)
        if (trace := self.state.run_trace) is not None and discussion:
            turn = sum(message["role"] == "user" for message in run.question.messages)
            trace.note_chat(discussion, self.state.api_key_hash, turn)
        return self.processor(run).execute()

    def _tell_of(self, workflow: str, *, answers: bool, discussion: str | None = None) -> None:
        if (trace := self.state.run_trace) is not None:
            trace.runs(workflow, answers=answers, discussion=discussion)

    def processor(self, run: Run) -> WorkflowProcessor:
        """What walks a run's nodes."""
        return WorkflowProcessor(run, self.run_child)

    def run_internal(
        self, file: WorkflowFile, question: ClientQuestion, *, categories: Mapping[str, str]
    ) -> NodeValue:
        """The value of a run that does not answer the user and calls no tool. Raises what the run raises."""
        self.state.question = self.state.question or question
        bare = question.without_tools()
        self._tell_of(file.name, answers=False)
        run = Run(self.state, file, bare, internal=True, chain=(file.name,), categories=categories)
        return _value_of(self.processor(run))

    def category_by_meaning(self, routing: Routing, question: ClientQuestion) -> Category | None:
        """As `meaning_routing.category_by_meaning`."""
        return category_by_meaning(self.state, routing, question)

    def run_child(self, context: NodeContext, call: ChildCall) -> NodeResult:
        """A nested run: its value if it is internal, else its answer, still to be pulled."""
        parent = context.run
        chain = (*parent.chain, call.name)
        if len(chain) > self._max_depth:
            raise ConfigError(
                f"workflows are nested deeper than {self._max_depth} (maxWorkflowDepth, at most {DEEPEST}): "
                f"{shorten_chain(chain)}",
                file=parent.file.file,
                pointer=f"/nodes/{context.node_number - 1}",
            )
        file = load_workflow(
            self.snapshot, self.user, call.name, folder=call.folder, calling_folder=parent.file.folder
        )
        seen = copy_with(
            parent.question, messages=context.messages if call.messages is None else call.messages
        )
        state = parent.state.in_scope(call.scope) if call.scope else parent.state
        run = Run(
            state,
            file,
            seen if call.with_tools else seen.without_tools(),
            internal=call.internal or parent.internal or not context.is_responder,
            inputs=call.inputs,
            system_prompt_override=_fill_override(call.system_prompt_override, context),
            prompt_override=_fill_override(call.prompt_override, context),
            chain=chain,
            node=context.trace.node if context.trace is not None else None,
            label=call.label,
        )
        processor = self.processor(run)
        if call.scope:
            return self._value_in_scope(processor, state)
        if run.internal:
            return _value_of(processor)
        return NodeStream(processor.execute(), cleaned=True, value=lambda: processor.value)

    def _value_in_scope(self, processor: WorkflowProcessor, state: RequestState) -> NodeValue:
        """The value of an internal run that can be ended alone."""
        with enter_request(state.request):
            try:
                return _value_of(processor)
            finally:
                self.state.pictures_taken |= state.pictures_taken

    def guard_answer(self, batches: Generator[Batch, None, None], question: ClientQuestion) -> Batches:
        """`batches` with the promises of an answer: one finish chunk, and no failure after it."""
        answer = self.request.answer
        try:
            with closing(batches):
                for batch in batches:
                    if answer.complete:
                        self.request.usage.close()
                    yield batch
            self._tell_of_lost_pictures(question)
        except EarlyTermination as stop:
            logger.info("request %s: a run ended early: %s", self.request.request_id, stop)
            if not answer.complete:
                yield self._answer_of_nobody(stop.locked_message, question.stream)
        except RequestCancelled:
            if not answer.complete:
                raise
            logger.info("request %s: cancelled after its answer", self.request.request_id)
        except Exception as error:
            if not answer.complete:
                raise
            let_go(error)
            expected = isinstance(error.__cause__ or error, MiddlewareError)
            logger.error(
                "request %s: a node after the answer failed: %s",
                self.request.request_id,
                error,
                exc_info=None if expected else error,
            )
        finally:
            if answer.complete:
                self._tell_unused(question)
            if self.request.trace is None and self.state.run_trace is not None:
                self.state.run_trace.end("done")

    def _tell_of_lost_pictures(self, question: ClientQuestion) -> None:
        """Of a run that came to its end."""
        if not self.state.pictures_taken and any(message.get("images") for message in question.messages):
            logger.warning(
                "request %s: its pictures reached no model, because no node that ran has acceptImages or "
                "describes them",
                self.request.request_id,
            )

    def _answer_of_nobody(self, text: str, stream: bool) -> Batch:
        first: Batch = [{"token": text, "finish_reason": None}] if text else []
        batch = [*first, *finish_chunks(self.request, self.user, SentAnswer(text))]
        if (trace := self.state.run_trace) is not None:
            tell_answer(trace, None, text, batch[-1])
        return batch if stream else [merge_chunks(batch)]

    def _tell_unused(self, question: ClientQuestion) -> None:
        if fields := unused_fields(question.wishes, self.state.taken_wishes):
            logger.info(
                "request %s: the client's %s are not used (clientParameters)",
                self.request.request_id,
                ", ".join(fields),
            )


def prepare_question(question: ClientQuestion) -> ClientQuestion:
    """The question made ready for a run: its discussion id is the one that its messages name, unless it has
    one already.

    Discussion tags are removed, then messages that hold nothing. Source: workflows.md 3.3, 6.1.
    """
    found = discussion_id_of(question.messages)
    kept: Messages = []
    for message in question.messages:
        text = message["content"]
        if DISCUSSION_TAG in text:
            text = without_discussion_tags(text)
            message = {**message, "content": text}
        if (text and not text.isspace()) or _means_something_without_text(message):
            kept.append(message)
    return copy_with(
        question,
        messages=kept,
        discussion_id=question.discussion_id or found,
        has_conversation=question.has_conversation or bool(question.messages),
    )


def plain_question(question: ClientQuestion) -> ClientQuestion:
    """The question as a plain model is sent it: without discussion tags, which name nothing, and without the
    messages that held nothing else. Source: operate.md 4.
    """
    kept: Messages = []
    for message in question.messages:
        text = message["content"]
        if DISCUSSION_TAG in text and (bare := without_discussion_tags(text)) != text:
            if not bare.strip() and not _means_something_without_text(message):
                continue
            message = {**message, "content": bare}
        kept.append(message)
    return copy_with(question, messages=kept, discussion_id=None, has_conversation=bool(question.messages))


def _means_something_without_text(message: Message) -> bool:
    """A tool's empty result does, also without an id: those behind it belong to calls by their order."""
    return message["role"] == "tool" or any(message.get(key) for key in _KEYS_OF_A_MESSAGE_WITHOUT_TEXT)


def _make_room_for(depth: int) -> None:
    """Let Python's own limit allow as many nested runs as the user does."""
    needed = 400 + depth * FRAMES_OF_A_RUN
    if sys.getrecursionlimit() < needed:
        sys.setrecursionlimit(needed)


def _fill_override(override: str | None, context: NodeContext) -> str | None:
    return variables.fill_override(override, context.source()) if override else None


def _value_of(processor: WorkflowProcessor) -> NodeValue:
    for _ in processor.execute():
        continue
    return processor.value
