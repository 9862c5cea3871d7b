"""The prompts of a run that servers read before anybody asks them (`readAhead` of a node).

`start`: this turn's, while the nodes in front of it run; the call waits until it has been read. `end`: the
next turn's, once the run has ended, in a thread of its own that holds nothing of the request: no lock, no
slot at the front, no connection. Source: spec prompt-reuse.md 6.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextvars import copy_context
from dataclasses import dataclass, replace

from Middleware.common.errors import ConfigError, MiddlewareError
from Middleware.common.request_context import (
    RequestContext,
    enter_request,
)
from Middleware.common.types import NodeConfig
from Middleware.llmapis.call.call_arguments import CallArguments
from Middleware.llmapis.read_ahead import read_ahead
from Middleware.services.cancellation_service import cancellation_service
from Middleware.services.node_trace import NodeTrace
from Middleware.services.readings_ahead import Reading
from Middleware.services.run_trace import TracedNode
from Middleware.workflows.dispatch.llm_dispatch import LLMDispatchService
from Middleware.workflows.handlers.node_types import node_handler
from Middleware.workflows.models.execution_context import NodeValue
from Middleware.workflows.processors.node_context import NodeContext
from Middleware.workflows.processors.parallel_group import group_end
from Middleware.workflows.processors.run import Run
from Middleware.workflows.variables.format_text import placeholder_names
from Middleware.workflows.variables.jinja_text import jinja_names
from Middleware.workflows.variables.providers import VARIABLES, Layer
from Middleware.workflows.variables.workflow_variable_manager import LiveValues

logger = logging.getLogger(__name__)

FAULTS = (MiddlewareError, OSError, ValueError, LookupError, TypeError)
"""What may come of a prompt that is put together before its time."""

# --------------------------------------------------------------------------
# Whether the beginning of a node's prompt is known before it is asked. Pure.

_OF_NODES = re.compile(r"agent\d{1,18}(?:Output|Thinking|ToolCalls|Candidates|Input)")
_CLOCK = frozenset(("current_time_12h", "current_time_24h", "time_context_summary"))
_STANDS = frozenset(
    (
        "chat_system_prompt",
        "templated_system_prompt",
        "chat_system_prompt_steady",
        "chat_system_prompt_changed",
    )
)
"""What of the conversation is known before its newest message is."""


def obstacle_to_reading(nodes: Sequence[NodeConfig], index: int, values: LiveValues) -> str:
    """Why the prompt of a node with `readAhead` cannot be read ahead, the end of a sentence; empty: it can.

    `values`: the variables of the file and the user.
    """
    node = nodes[index]
    if node.get("prompt"):
        return 'the node has a "prompt", so it sends no conversation'
    if _is_in_a_group(nodes, index):
        return "the node is in a parallel group"
    if node.get("addDiscussionIdTimestampsForLLM") and node.get("useRelativeTimestamps"):
        return "relative times change every message"
    if name := next(_moving_names(node, values), ""):
        return f'"systemPrompt" contains {{{name}}}, which is not known before'
    return ""


def _is_in_a_group(nodes: Sequence[NodeConfig], index: int) -> bool:
    name = nodes[index].get("parallelGroup")
    if not isinstance(name, str) or not name:
        return False
    before = index > 0 and nodes[index - 1].get("parallelGroup") == name
    return before or group_end(nodes, index) > index + 1


def _moving_names(node: NodeConfig, values: LiveValues) -> Iterator[str]:
    """The names in the system prompt, and behind them, whose values are another one each turn."""
    text = node.get("systemPrompt")
    if not isinstance(text, str) or "{" not in text:
        return
    names = _template_names(text) if node.get("jinja2") else _format_names(text, values)
    yield from (name for name in names if _is_moving(name, values))


def _format_names(text: str, values: LiveValues) -> list[str]:
    return [*sorted(placeholder_names(text)), *values.names_looked_up(text)]


def _template_names(text: str) -> list[str]:
    """None of a template that does not parse: that is told elsewhere."""
    try:
        return sorted(jinja_names(text))
    except ConfigError:
        return []


def _is_moving(name: str, values: LiveValues) -> bool:
    if _OF_NODES.fullmatch(name):
        return True
    if name in values.values:
        return False
    provider = VARIABLES.get(name)
    is_of_chat = provider is not None and provider.layer in (Layer.CONVERSATION, Layer.MESSAGES)
    return name in _CLOCK or (is_of_chat and name not in _STANDS)


# --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Begun:
    """A reading that began with the run. `record`: the node's, as long as it has not begun itself."""

    reading: Reading
    record: NodeTrace


class ReadAhead:
    """The readings of one run.

    `context_of(index, trace)`: the context of a node as it will be; `record_of(index)`: a trace for it.
    """

    def __init__(
        self,
        run: Run,
        context_of: Callable[[int, TracedNode | None], NodeContext],
        record_of: Callable[[int], NodeTrace],
    ) -> None:
        self._run, self._context_of, self._record_of = run, context_of, record_of
        self._begun: dict[int, _Begun] = {}
        self._at_end: list[NodeContext] = []
        self._when = {
            index: node["readAhead"]
            for index, node in enumerate(run.file.nodes)
            if node.get("readAhead") in ("start", "end") and self._can_read(index)
        }

    @staticmethod
    def wanted_by(run: Run) -> bool:
        """Whether a run has prompts read ahead: one that no other called, for a chat of people."""
        if run.internal or len(run.chain) > 1 or run.state.request.task is not None:
            return False
        return any("readAhead" in node for node in run.file.nodes)

    def _can_read(self, index: int) -> bool:
        why = obstacle_to_reading(self._run.file.nodes, index, self._run.live_values())
        if why:
            logger.debug("%s: nothing is read ahead: %s", self._run.place(index), why)
        return not why

    def begin(self) -> None:
        """The run begins."""
        for index, when in self._when.items():
            if when == "start" and index:
                self._begin_reading(index)

    def reach(self, index: int, context: NodeContext, record: NodeTrace) -> None:
        """A node is about to make its call: it waits for what is being read for it."""
        begun = self._begun.pop(index, None)
        if begun is not None:
            _wait_for(begun.reading, context.trace)
            record.calls[:0] = begun.record.calls
        elif self._when.get(index) == "end":
            self._at_end.append(context)

    def end(self, answer: NodeValue) -> None:
        """The run has ended. `answer`: what the user was told, None where that is not known."""
        for begun in self._begun.values():
            begun.reading.stop()
        contexts, self._at_end = self._at_end, []
        if not contexts or not isinstance(answer, str) or not answer.strip():
            return

        def read_all() -> None:
            for context in contexts:
                call = _asked(context, lambda one: _next_turn(one, answer))
                if call is not None:
                    self.read(context, call, Reading(_reading_id(context)), is_next_turn=True)

        self.work_beside(contexts[0].request, read_all)

    def read(
        self, context: NodeContext, call: CallArguments, reading: Reading, *, is_next_turn: bool
    ) -> None:
        """Have a node's prompt read; `reading` has ended then. Raises nothing."""
        model = context.llm_handler
        if model is not None:
            read_ahead(model.llm, call, reading)

    def work_beside(self, request: RequestContext, work: Callable[[], None]) -> bool:
        """Do it while the request goes on. False: it cannot be done."""
        return _in_a_thread(request, work)

    def _begin_reading(self, index: int) -> None:
        record = self._record_of(index)
        trace = self._run.state.run_trace
        try:
            context = self._context_of(index, None if trace is None else TracedNode(trace, record))
        except FAULTS as error:
            logger.debug("%s: nothing is read ahead: %s", self._run.place(index), error)
            return
        call = _asked(context, _beginning)
        if call is None:
            return
        reading, request_id = Reading(_reading_id(context)), context.request_id
        cancellation_service.register_abort_callback(request_id, reading.stop)

        def read_one() -> None:
            try:
                self.read(context, call, reading, is_next_turn=False)
            finally:
                cancellation_service.unregister_abort_callback(request_id, reading.stop)

        if self.work_beside(context.request, read_one):
            self._begun[index] = _Begun(reading, record)
        else:
            cancellation_service.unregister_abort_callback(request_id, reading.stop)


def _beginning(context: NodeContext) -> CallArguments | None:
    call = node_handler(context.config.get("type")).call_to_read(context)
    return None if call is None else LLMDispatchService.beginning(context, call)


def _next_turn(context: NodeContext, answer: str) -> CallArguments | None:
    call = node_handler(context.config.get("type")).call_to_read(context)
    return None if call is None else LLMDispatchService.next_turn(context, call, answer)


def _asked(
    context: NodeContext, put_together: Callable[[NodeContext], CallArguments | None]
) -> CallArguments | None:
    """What is to be read; None: nothing."""
    model = context.llm_handler
    if model is None or not model.takes_message_collection or not model.llm.addresses:
        return None
    try:
        return put_together(replace(context, is_quiet=True))
    except FAULTS as error:
        logger.debug("%s: nothing is read ahead: %s", context.run.place(context.node_number - 1), error)
        return None


def _wait_for(reading: Reading, trace: TracedNode | None) -> None:
    if trace is None or reading.ended.is_set():
        reading.ended.wait()
        return
    trace.begin_wait("its prompt to be read")
    reading.ended.wait()
    trace.end_wait()


def _reading_id(context: NodeContext) -> str:
    return f"{context.request_id}.ahead{context.node_number}"


def _in_a_thread(request: RequestContext, work: Callable[[], None]) -> bool:
    """Do it beside the request, which pays for it. False: the system gives no more threads."""
    own = request.beside()

    def run() -> None:
        try:
            with enter_request(own):
                work()
        finally:
            own.spent.end_late_work()

    own.spent.begin_late_work()
    try:
        threading.Thread(target=copy_context().run, args=(run,), name="read-ahead", daemon=True).start()
    except RuntimeError as error:
        own.spent.end_late_work()
        logger.debug("request %s: nothing is read ahead: %s", request.request_id, error)
        return False
    return True
