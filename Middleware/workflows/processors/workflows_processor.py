"""The loop: one run of one workflow file, node after node, as an iterator of batches.

The answer of the responder passes through while it comes; exactly one chunk has a finish reason. The iterator
goes on after it until the last node has run. A node's failure is wrapped here, once. Source: spec
workflows.md 6.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Mapping
from contextlib import closing
from dataclasses import replace

from Middleware.common.errors import (
    ClientRequestError,
    ConfigError,
    EarlyTermination,
    MiddlewareError,
    RequestCancelled,
)
from Middleware.common.request_context import NO_PROGRESS
from Middleware.common.types import Batch, Chunk, JsonObject, Messages, NodeConfig, close_batches
from Middleware.llmapis.llm_text import LlmText, count_call, join_batches
from Middleware.services.cancellation_service import cancellation_service
from Middleware.services.node_trace import NodeTrace
from Middleware.services.rerun import KeptNode
from Middleware.services.run_trace import TracedNode
from Middleware.services.timestamp_service import RequestStamps
from Middleware.utilities.side_by_side import run_together
from Middleware.utilities.text_utils import estimate_tokens
from Middleware.workflows.dispatch.client_wishes import refuse_wrong
from Middleware.workflows.handlers.node_types import (
    NODES,
    OLD_NAMES,
    node_handler,
)
from Middleware.workflows.models.execution_context import (
    CleanText,
    ExecutionContext,
    NodeResult,
    NodeStream,
    NodeValue,
    is_tool_call_answer,
    result_text,
)
from Middleware.workflows.models.node_keys import DEFAULT_TYPE
from Middleware.workflows.processors.delivery import (
    Delivery,
    SentAnswer,
    cleaned_result,
    cleaned_steps,
    finish_chunks,
    merge_chunks,
    node_trace,
    note_failure,
    note_model,
    static_batches,
    tell_answer,
    tell_output,
)
from Middleware.workflows.processors.node_context import CallNotes, NodeContext, RunChild
from Middleware.workflows.processors.parallel_group import group_end, obstacle
from Middleware.workflows.processors.read_ahead import ReadAhead
from Middleware.workflows.processors.run import Run, progress_batch, responder_index

logger = logging.getLogger(__name__)

BatchGenerator = Generator[Batch, None, None]
InnerNode = Generator[Batch, None, tuple[NodeValue, list[str]]]

NEVER_A_FAILURE = (EarlyTermination, RequestCancelled, ClientRequestError)
"""What ends a run as it is: no `errorText` stands in for it, and no node is to blame."""


class WorkflowProcessor:
    """One run. `execute()` once; `value` is the run's value as soon as its responder is done."""

    def __init__(self, run: Run, run_child: RunChild) -> None:
        self.run = run
        self.value: NodeValue = None
        self._run_child = run_child
        self._nodes = run.file.nodes
        self._responder = responder_index(self._nodes)
        self._inputs = {f"agent{i}Input": value for i, value in enumerate(run.inputs, 1)}
        self._outputs = dict(self._inputs)
        self._thoughts: dict[str, str] = {}
        self._delivery: Delivery | None = None
        """Of the responder, from its first piece on."""
        self._begun = False
        self._in_order_until = 0
        self._tells_progress = run.state.request.progress != NO_PROGRESS and not run.internal
        self._overridden = self._first_prompt() if run.system_prompt_override or run.prompt_override else -1
        self._ahead: ReadAhead | None = None
        self._kept = run.kept_nodes()

    def execute(self) -> BatchGenerator:
        """The run. An internal run yields nothing.

        Raises WorkflowError for a node that fails, RequestCancelled, EarlyTermination (a lock is held),
        ClientRequestError (a node takes a parameter of the client that cannot be).
        Closing the iterator ends the run: backend streams are closed, locks released.
        """
        refuse_wrong(self._nodes, self.run.question.wishes)
        try:
            self._track_times()
            self._begin_reading_ahead()
            index = 0
            while index < len(self._nodes):
                self._stop_if_cancelled()
                if (repeated := self._kept.get(index + 1)) is not None:
                    yield from self._repeat_node(index, repeated)
                    index += 1
                    continue
                end = self._group_end(index)
                if self._tells_progress and index <= self._responder:
                    yield progress_batch(self.run, index, end, self._responder + 1)
                if end > index + 1:
                    self._run_group(index, end)
                elif index == self._responder and not self.run.internal:
                    yield from self._answer(index)
                else:
                    kept = yield from self._run_inner_node(index, self.run.question.messages)
                    self._keep(index, *kept)
                index = end
            if not self._nodes and not self.run.internal:
                self.run.state.request.answer.complete = True
                yield finish_chunks(self.run.state.request, self.run.state.user, SentAnswer())
        finally:
            self.run.state.services.release_locks(self.run.workflow_id)
            if self._ahead is not None:
                self._ahead.end(self._told_answer())
            if not self._begun:  # of nodes that ran those tell who observe
                logger.info("%s: 0 of %d nodes ran", self.run.file.file, len(self._nodes))

    # --- one node ---

    def _repeat_node(self, index: int, kept: KeptNode) -> BatchGenerator:
        """A node that does not run: it gives what it gave before, the responder as its answer."""
        record, trace = self._begin_node(index)
        record.state, thoughts = "kept", list(kept.thoughts)
        context = self.context(index, self.run.question.messages, trace)
        self._keep_values(context, kept.values)
        try:
            if index == self._responder and not self.run.internal:
                yield from self._repeat_answer(index, context, kept, thoughts)
            else:
                self._keep(index, kept.output, thoughts)
                tell_output(trace, kept.output, thoughts)
        finally:
            self._end_node(record)

    def _repeat_answer(
        self, index: int, context: NodeContext, kept: KeptNode, thoughts: list[str]
    ) -> BatchGenerator:
        def record_answer(delivery: Delivery, text: str) -> None:
            self._stop_if_cancelled()
            self._keep(index, kept.output, thoughts)
            tell_output(context.trace, kept.output, thoughts)

        given = kept.output if is_tool_call_answer(kept.output) else CleanText(result_text(kept.output))
        delivery = Delivery(context, given, usage=None, prompt_tokens=None, answered=record_answer)
        for batch in delivery.batches():
            if context.request.answer.complete:
                self._say_whether_last(index, batch[-1], of_child=False)
            yield batch

    def _run_inner_node(self, index: int, messages: Messages) -> InnerNode:
        """A node that does not answer the user: its cleaned result, and its thoughts. Yields what it says of
        its progress."""
        record, trace = self._begin_node(index)
        authored = self.context(index, messages, trace)
        notes = authored.notes
        try:
            context = self._with_stamps(authored.ready())
            note_model(record, context)
            self._reach(index, context, record)
            given = self._handle_node(context)
            if isinstance(given, NodeStream) and given.steps is not None:
                result, thoughts = yield from cleaned_steps(given, context)
                self._keep_tool_calls(context, given)
            else:
                value = self._join_stream(record, given) if isinstance(given, NodeStream) else given
                result, thoughts = cleaned_result(value, context)
            notes.thinking.extend(thoughts)
            tell_output(trace, result, notes.thinking)
        except NEVER_A_FAILURE as stop:
            record.state = _how_stopped(stop)
            raise
        except Exception as error:
            result = self._failure_output(record, authored, error)
            tell_output(trace, result, notes.thinking)
        finally:
            self._end_node(record)
        self._stop_if_cancelled()
        return result, notes.thinking

    def _keep_tool_calls(self, context: ExecutionContext, result: NodeResult) -> None:
        if isinstance(result, NodeStream) and result.steps is not None:
            self._keep_values(context, {"ToolCalls": result.steps.tool_calls()})

    def _keep_values(self, context: ExecutionContext, values: Mapping[str, str]) -> None:
        """What the nodes after it can name of a node besides its output."""
        self._thoughts |= {f"agent{context.node_number}{name}": text for name, text in values.items()}
        if values and context.trace is not None and context.trace.run.keeps_text:
            context.trace.node.values = {**context.trace.node.values, **values}

    def _join_stream(self, record: NodeTrace, stream: NodeStream) -> LlmText | JsonObject:
        """The whole of a node's stream that nobody watches."""
        whole = join_batches(record.endpoint, stream.batches)
        if stream.running:
            count_call(self.run.state.request, whole, stream.prompt_tokens)
        return whole

    def _answer(self, index: int) -> BatchGenerator:
        """The responder of a run that answers the user."""
        record, trace = self._begin_node(index)
        authored = self.context(index, self.run.question.messages, trace)
        answer = self.run.state.request.answer
        try:
            context = self._with_stamps(authored.ready())
            note_model(record, context)
            self._reach(index, context, record)
            result = self._handle_node(context)
            self._stop_if_cancelled()
            child = result if isinstance(result, NodeStream) and result.cleaned else None
            if child is not None:
                batches = self._passed_on(index, context, child)
            else:
                batches = self._deliver_text(index, context, result)
            is_told = False
            with closing(batches):
                for batch in batches:
                    if answer.complete and not is_told:
                        is_told = True
                        self._say_whether_last(index, batch[-1], of_child=child is not None)
                    yield batch
        except (*NEVER_A_FAILURE, GeneratorExit) as stop:
            record.state = "done" if answer.complete else _how_stopped(stop)
            raise
        except Exception as error:
            record.state = "failed"
            if answer.begun and not answer.complete:
                self._stop_if_cancelled()
                failure = self.run.failure(index, error)
                note_failure(record, failure)
                raise failure from failure.__cause__
            text = self._failure_output(record, authored, error)
            if not answer.complete:
                yield from self._answer_with(index, text, authored)
        finally:
            if not answer.complete and self._delivery is not None:
                record.tokens = estimate_tokens(self._delivery.sent_text())
            self._end_node(record)
            self._delivery = None  # it knows this processor: the two would hold the conversation

    def _say_whether_last(self, index: int, finish: Chunk, *, of_child: bool) -> None:
        """Mark a finish chunk that no node comes after, so that nobody hands the rest to another thread."""
        if index + 1 < len(self._nodes):
            finish.pop("last", None)
        elif not of_child:
            finish["last"] = True

    def _deliver_text(self, index: int, context: NodeContext, result: NodeResult) -> BatchGenerator:
        """The node's own text, cleaned; recorded before its finish chunk leaves."""
        notes = context.notes

        def record_answer(delivery: Delivery, text: str) -> None:
            self._stop_if_cancelled()
            self._stamp_answer(context, text)
            own = isinstance(result, (NodeStream, LlmText)) and not isinstance(result, CleanText)
            own = own or is_tool_call_answer(result)
            notes.thinking = [*([] if own else notes.thinking), *delivery.thoughts]
            self._keep(index, delivery.value, notes.thinking)
            self._keep_tool_calls(context, result)
            tell_output(context.trace, delivery.value, notes.thinking)

        delivery = Delivery(
            context,
            result,
            usage=notes.usage,
            prompt_tokens=notes.prompt_tokens or getattr(result, "prompt_tokens", None),
            answered=record_answer,
        )
        self._delivery = delivery
        return delivery.batches()

    def _passed_on(self, index: int, context: ExecutionContext, stream: NodeStream) -> BatchGenerator:
        """The answer of a child, untouched; recorded when it is complete. The rest of the child runs then."""
        value = stream.value or (lambda: None)
        answer, is_kept = self.run.state.request.answer, False
        try:
            for batch in stream.batches:
                if answer.complete and not is_kept:
                    is_kept = True
                    self._keep(index, value(), [])
                    tell_output(context.trace, self.value, [])
                    self._stamp_answer(context, result_text(self.value))
                yield batch
        finally:
            close_batches(stream.batches)

    def _answer_with(self, index: int, text: str, context: NodeContext) -> BatchGenerator:
        """`errorText` in place of an answer."""
        self._keep(index, text, [])
        state = self.run.state
        batches = [[*batch] for batch in static_batches(text)][:-1]
        finish = finish_chunks(state.request, state.user, SentAnswer(text, self._nodes[index]))
        self._say_whether_last(index, finish[-1], of_child=False)
        tell_output(context.trace, text, context.notes.thinking)
        if context.trace is not None:
            tell_answer(*context.trace, text, finish[-1])
        batches.append(finish)
        if not self.run.question.stream:
            batches = [[merge_chunks(chunk for batch in batches for chunk in batch)]]
        answer = state.request.answer
        for batch in batches:
            answer.begun, answer.complete = True, batch is batches[-1]
            yield batch

    def context(self, index: int, messages: Messages, trace: TracedNode | None = None) -> NodeContext:
        """The context of a node as it was written, before it is `ready()`."""
        run, state = self.run, self.run.state
        is_responder = index == self._responder
        return NodeContext(
            request=state.request,
            user=state.user,
            snapshot=state.snapshot,
            workflow_file=run.file,
            workflow_id=run.workflow_id,
            question=run.question,
            node_number=index + 1,
            config=self._node(index),
            messages=messages,
            keys=node_handler(self._node(index).get("type")).ALL_KEYS,
            stream=run.question.stream and is_responder and not run.internal,
            is_responder=is_responder,
            is_internal=run.internal,
            agent_inputs=self._inputs,
            agent_outputs=self._outputs,
            thoughts=self._thoughts,
            api_key_hash=state.api_key_hash,
            trace=trace,
            run=run,
            run_child=self._run_child,
            notes=CallNotes(),
        )

    def _handle_node(self, context: ExecutionContext) -> NodeResult:
        node_type = context.config.get("type")
        if node_type is not None and node_type not in NODES and node_type not in OLD_NAMES:
            context.warn(f"unknown node type {node_type!r}, run as {DEFAULT_TYPE}")
        handler = node_handler(node_type)
        if handler.takes_pictures(context.config):
            self.run.state.pictures_taken = True
        return self._with_values(context, handler.handle(context))

    def _with_values(self, context: ExecutionContext, result: NodeResult) -> NodeResult:
        """The result of a node, whose other values are kept."""
        if isinstance(context, NodeContext):
            self._keep_values(context, context.notes.values)
        return result

    def _first_prompt(self) -> int:
        """The node that gets the parent's prompts: the first one that has a prompt field."""
        has_prompt = (i for i, node in enumerate(self._nodes) if "systemPrompt" in node or "prompt" in node)
        return next(has_prompt, -1)

    def _node(self, index: int) -> NodeConfig:
        """The node object, with the prompts that the parent gave if this node gets them."""
        node = self._nodes[index]
        if index != self._overridden:
            return node
        given = {"systemPrompt": self.run.system_prompt_override, "prompt": self.run.prompt_override}
        return {**node, **{field: text for field, text in given.items() if text}}

    def _failure_output(self, record: NodeTrace, context: NodeContext, error: Exception) -> str:
        """The output of a node that failed, if the run goes on (`onNodeError`). Else raises WorkflowError."""
        record.state, index = "failed", record.number - 1
        self._stop_if_cancelled()
        failure = self.run.failure(index, error)
        note_failure(record, failure)
        if context.config.get("onNodeError") != "continue":
            raise failure
        logger.warning("%s; the run goes on (onNodeError)", failure)
        try:
            text = context.error_text()
            record.state = "went_on"
            return text
        except ConfigError as wrong_text:
            failure = self.run.failure(index, wrong_text)
            raise failure from wrong_text

    def _keep(self, index: int, result: NodeValue, thinking: list[str]) -> None:
        """Record what a node gave, for the nodes after it; the responder's is the run's value."""
        self._outputs[f"agent{index + 1}Output"] = result
        self._thoughts[f"agent{index + 1}Thinking"] = "\n".join(thinking)
        if index == self._responder:
            self.value = result

    # --- groups ---

    def _group_end(self, index: int) -> int:
        """Index behind the nodes that run together from here: one, or a whole group."""
        if index < self._in_order_until:
            return index + 1
        end = group_end(self._nodes, index)
        if any(number in self._kept for number in range(index + 2, end + 1)):
            self._in_order_until = end
            return index + 1
        if end > index + 1 and (
            why := obstacle(self._nodes, index, end, self._responder, self.run.live_values())
        ):
            logger.warning(
                "%s: group '%s' runs one node after the other: %s",
                self.run.place(index),
                self._nodes[index]["parallelGroup"],
                why,
            )
            self._in_order_until = end
            return index + 1
        return end

    def _run_group(self, start: int, end: int) -> None:
        def work(position: int) -> tuple[NodeValue, list[str]]:
            self._stop_if_cancelled()
            return _result_of(self._run_inner_node(start + position, list(self.run.question.messages)))

        results = run_together(end - start, work, self.run.state.extra_threads)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        for position, result in enumerate(results):
            self._keep(start + position, *result)  # type: ignore[misc]

    # --- prompts that are read ahead ---

    def _begin_reading_ahead(self) -> None:
        if ReadAhead.wanted_by(self.run):
            self._ahead = ReadAhead(self.run, self._early_context, self._early_record)
            self._ahead.begin()

    def _early_context(self, index: int, trace: TracedNode | None) -> NodeContext:
        """The context that a node will have, before its turn has come. Raises ConfigError."""
        authored = self.context(index, self.run.question.messages, trace)
        return self._with_times(replace(authored, is_quiet=True).ready())

    def _early_record(self, index: int) -> NodeTrace:
        return node_trace(self.run, index, self._responder)

    def _reach(self, index: int, context: NodeContext, record: NodeTrace) -> None:
        if self._ahead is not None:
            self._ahead.reach(index, context, record)
            self._stop_if_cancelled()

    def _told_answer(self) -> NodeValue:
        """What the client was told, if it was told all of it and nobody cancelled the rest."""
        request = self.run.state.request
        is_told = request.answer.complete and not cancellation_service.is_cancelled(request.request_id)
        return self.value if is_told else None

    # --- cancellation, times, trace ---

    def _stop_if_cancelled(self) -> None:
        if cancellation_service.is_cancelled(self.run.state.request.request_id):
            raise RequestCancelled

    def _stamps(self) -> RequestStamps | None:
        return self.run.state.stamps(self.run.question.discussion_id)

    def _track_times(self) -> None:
        stamps = self._stamps() if self.run.state.writes_times else None
        if stamps and any(node.get("addDiscussionIdTimestampsForLLM") for node in self._nodes):
            stamps.track(self.run.question.messages)

    def _with_stamps(self, context: NodeContext) -> NodeContext:
        """With timestamps, if a node of an answering run wants them; a responder begins its answer here."""
        if context.is_responder and self._wants_times(context):
            self._begin_answer()
        return self._with_times(context)

    def _wants_times(self, context: NodeContext) -> bool:
        return not self.run.internal and bool(context.config.get("addDiscussionIdTimestampsForLLM"))

    def _with_times(self, context: NodeContext) -> NodeContext:
        """With timestamps, if it wants them."""
        stamps = self._stamps()
        if not stamps or not self._wants_times(context):
            return context
        relative = bool(context.config.get("useRelativeTimestamps"))
        return replace(context, messages=stamps.write(context.messages, relative=relative))

    def _begin_answer(self) -> None:
        if self.run.state.writes_times and (stamps := self._stamps()):
            stamps.begin_answer()

    def _stamp_answer(self, context: ExecutionContext, text: str) -> None:
        config, stamps = context.config, self._stamps()
        if (
            stamps
            and self.run.state.writes_times
            and config.get("addDiscussionIdTimestampsForLLM")
            and config.get("useGroupChatTimestampLogic")
        ):
            try:
                stamps.finish_answer(text)
            except (OSError, MiddlewareError) as error:  # the answer is worth more than its time
                logger.warning("the time of an answer could not be saved: %s", error)

    def _begin_node(self, index: int) -> tuple[NodeTrace, TracedNode | None]:
        """The trace of a node, and the same for those who observe; None: nobody does."""
        record, trace = node_trace(self.run, index, self._responder), self.run.state.run_trace
        self._begun = True
        return record, None if trace is None else trace.node(record)

    def _end_node(self, record: NodeTrace) -> None:
        record.end()
        if (trace := self.run.state.run_trace) is not None:
            trace.tell("node_ended", record)


def _result_of(node: InnerNode) -> tuple[NodeValue, list[str]]:
    """The node, run to its end without a word of its progress."""
    with closing(node):
        while True:
            try:
                next(node)
            except StopIteration as end:
                made: tuple[NodeValue, list[str]] = end.value
                return made


def _how_stopped(stop: BaseException) -> str:
    """The state of a node that did not come to its end and yet did not fail."""
    if isinstance(stop, EarlyTermination):
        return "stopped"
    return "refused" if isinstance(stop, ClientRequestError) else "cancelled"
