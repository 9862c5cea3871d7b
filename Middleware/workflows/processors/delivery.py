"""A responder's result on its way out: cleaned, counted, ended by one finish chunk. Streamed and whole alike.

Source: spec workflows.md 6.2 step 8, 6.4, 10, 16.18; frontend-api.md 10.6, 11.7, 11.8.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from Middleware.cleaning import ResponseCleaner
from Middleware.cleaning.stage import keys_of
from Middleware.common.costs import Cost
from Middleware.common.errors import WorkflowError
from Middleware.common.request_context import RequestContext
from Middleware.common.types import Batch, Batches, Chunk, JsonObject, NodeConfig, close_batches
from Middleware.config.users import UserSettings
from Middleware.llmapis.backend_errors import told_error
from Middleware.llmapis.llm_text import LlmText
from Middleware.protocols.registry import WIRE_FORMATS
from Middleware.services.answers import (
    ToolCallCollector,
    client_finish_reason,
    compact_json,
    full_usage,
)
from Middleware.services.node_trace import NodeTrace
from Middleware.services.run_trace import RunTrace, TextOnItsWay, TracedNode
from Middleware.services.timestamp_service import generation_prompt
from Middleware.utilities.sensitive_logging_utils import loggable_error
from Middleware.utilities.streaming_utils import log_findings
from Middleware.utilities.text_utils import estimate_tokens
from Middleware.workflows.handlers.node_types import known_type
from Middleware.workflows.models.execution_context import (
    AgentSteps,
    CleanText,
    ExecutionContext,
    NodeResult,
    NodeStream,
    NodeValue,
    is_tool_call_answer,
    result_text,
)
from Middleware.workflows.processors.run import Run, title_of
from Middleware.workflows.streaming.response_handler import (
    StreamingResponseHandler,
    lower_tool_name,
    whole_batch,
)
from Middleware.workflows.streaming.step_handler import StepHandler

# --------------------------------------------------------------------------
# What the loop tells of its nodes to those who observe its run.


def node_trace(run: Run, index: int, responder: int) -> NodeTrace:
    """The trace of node `index`, which begins now."""
    node, parent = run.file.nodes[index], run.node
    group = node.get("parallelGroup")
    return NodeTrace(
        run.file.file,
        index + 1,
        known_type(node.get("type")),
        title_of(node),
        of=len(run.file.nodes),
        group=group if isinstance(group, str) else None,
        parent=parent,
        label=run.label,
        depth=len(run.chain) - 1,
        answers=index == responder and not run.internal,
        after=(index > responder and not run.internal) or (parent is not None and parent.after),
        fields=node,
        file_nodes=run.file.nodes,
    )


def note_model(node: NodeTrace, context: ExecutionContext) -> None:
    if context.llm_handler is not None:
        llm = context.llm_handler.llm
        node.endpoint, node.url, node.preset = llm.endpoint.name, llm.address, llm.presetname or ""


def note_failure(node: NodeTrace, failure: WorkflowError) -> None:
    """A node failed, or one of its children did."""
    node.error = loggable_error(failure)
    node.error_kind = failure.kind or type(failure.__cause__ or failure).__name__


def tell_output(trace: TracedNode | None, output: NodeValue, thoughts: list[str]) -> None:
    """What a node gives to the nodes after it. `trace`: None: nobody observes."""
    if trace is None:
        return
    trace.node.tokens = estimate_tokens(result_text(output))
    if trace.run.keeps_text:
        trace.node.output, trace.node.thoughts = output, thoughts


def tell_answer(run: RunTrace, node: NodeTrace | None, text: str, finish: Chunk) -> None:
    """The answer is complete. What leaves in one piece has its first text here. `node`: who gave it, None: it
    stands in for that of a run that a lock ended."""
    run.finish_reason, run.usage = finish["finish_reason"], finish.get("usage")
    if text:
        run.note_first_text(None, node)


class FirstText:
    """Tells of the first text of an answer as it goes by; and that its model thinks, as soon as it shows."""

    def __init__(
        self, trace: TracedNode, cleaner: StreamingResponseHandler | None, sent: TextOnItsWay
    ) -> None:
        self._trace, self._cleaner, self._sent = trace, cleaner, sent
        self._thinks = False

    def is_in(self, batch: Batch) -> bool:
        """Whether it comes with this batch; those behind it are not looked at."""
        if not self._thinks and self._cleaner is not None and self._cleaner.has_thought:
            self._thinks = True
            self._trace.note_thought()
        if not any(chunk["token"] for chunk in batch):
            return False
        self._trace.note_first_text(self._sent)
        return True


def settle_thought(trace: TracedNode, cleaner: StreamingResponseHandler | None) -> None:
    """All of an answer is cleaned: whether its model thought. Behind its first text that is no news."""
    if cleaner is None:
        return
    if not cleaner.has_thought:
        trace.thought_nothing()
    elif not trace.run.first_text:
        trace.note_thought()


class Cleaned(NamedTuple):
    """A text before and after cleaning, and what was hidden."""

    raw: str
    text: str
    thoughts: list[str]


def keep_cleaning(
    context: ExecutionContext, made: Cleaned, endpoint: Mapping[str, Any] | None, opening: str | None
) -> None:
    """Keep what cleaning did, where texts are kept. `endpoint`: the file that it was cleaned by, None: it
    was not."""
    trace = context.trace
    if trace is None or not trace.run.keeps_text:
        return
    by = None if endpoint is None else (endpoint, context.config, context.user.raw, opening)
    trace.note_cleaning(made.raw, made.text, made.thoughts, by)


# --------------------------------------------------------------------------

STATIC_DELAY_LIMIT_S = 5.0
DELAY_STEP_S = 0.5
_FACTS = ("model", "native_finish_reason", "truncated")


_NO_FILE: Mapping[str, Any] = MappingProxyType({})


def cleaning_endpoint(context: ExecutionContext) -> Mapping[str, Any] | None:
    """The endpoint file that a node's text is cleaned by: of the endpoint that answered, which may be a
    backup. Empty: the node asks for it; None: not cleaned.
    """
    if context.llm_handler is not None:
        raw: Mapping[str, Any] = context.llm_handler.llm.answering.raw
        return raw
    if context.is_responder and _asks_for_cleaning(context.config):
        return _NO_FILE
    return None


def _asks_for_cleaning(config: NodeConfig) -> bool:
    """Whether the node switches a rule on (workflows.md 6.2, step 8)."""
    switches = (name for name, key in keys_of("node").items() if key.is_switch)
    return bool(config.get("useGroupChatTimestampLogic")) or any(config.get(name) for name in switches)


def opening_of(context: ExecutionContext) -> str | None:
    """The speaker that a responder's answer must begin with (group chat), or None (workflows.md 10)."""
    if context.is_responder and context.config.get("useGroupChatTimestampLogic"):
        return generation_prompt(context.messages)
    return None


def cleaned_result(result: NodeValue, context: ExecutionContext) -> tuple[NodeValue, list[str]]:
    """The result of a node that does not answer the user, its text cleaned; the thoughts that were in it."""
    endpoint = None if isinstance(result, CleanText) else cleaning_endpoint(context)
    if is_tool_call_answer(result):
        return _cleaned_call(result, endpoint, context)
    if endpoint is None or not isinstance(result, str):
        return result, []
    return _cleaned_text(result, endpoint, context, beside=getattr(result, "thinking", ""))


def cleaned_steps(
    stream: NodeStream, context: ExecutionContext
) -> Generator[Batch, None, tuple[NodeValue, list[str]]]:
    """As `cleaned_result`, of an agent's answer, which is pulled here; yields what it says of its progress.

    Raises BackendError for an answer that ends in an error.
    """
    cleaner = _step_cleaner(context, {**context.config, "reasoningOutput": "drop"}, stream.steps)
    calls = ToolCallCollector()
    reason = None
    try:
        for batch in stream.batches:
            yield [chunk for chunk in batch if "progress" in chunk]
            for chunk in cleaner.clean_batch(batch):
                calls.add(chunk.get("tool_calls") or ())
                reason = chunk["finish_reason"] or reason
                if "error" in chunk:
                    raise told_error(endpoint_name(context), chunk["error"])
        cleaner.clean_end()
    finally:
        close_batches(stream.batches)
    text = cleaner.full_response_text
    if called := calls.complete(reason):
        return {"content": text, "tool_calls": called, "finish_reason": reason}, cleaner.thoughts
    return text, cleaner.thoughts


def _step_cleaner(context: ExecutionContext, node: NodeConfig, steps: AgentSteps | None) -> StepHandler:
    opening, trace = opening_of(context), context.trace

    def keep(raw: str, text: str, thoughts: list[str]) -> None:
        keep_cleaning(context, Cleaned(raw, text, thoughts), cleaning_endpoint(context) or {}, opening)

    cleaner = StepHandler(
        cleaning_endpoint(context) or {},
        node,
        opening,
        context.request_id,
        user_config=context.user.raw,
        endpoint_now=partial(cleaning_endpoint, context),
        holds_text=steps is not None and steps.holds_text,
        tell_step=None if trace is None else keep,
    )
    if trace is not None and trace.run.keeps_text:
        cleaner.raw = []
    return cleaner


def _cleaned_call(
    result: JsonObject, endpoint: Mapping[str, Any] | None, context: ExecutionContext
) -> tuple[JsonObject, list[str]]:
    if context.is_responder and context.config.get("lowercaseToolCallFunctionNames"):
        result = {**result, "tool_calls": [lower_tool_name(call) for call in result["tool_calls"]]}
    text = result.get("content")
    if endpoint is None or not isinstance(text, str) or not text:
        return _without_extra_facts(result, text), []
    beside = result.get("thinking") or ""
    text, thoughts = _cleaned_text(text, endpoint, context, beside=beside)
    return _without_extra_facts(result, text), thoughts


def _cleaned_text(
    text: str, endpoint: Mapping[str, Any], context: ExecutionContext, *, beside: str
) -> tuple[str, list[str]]:
    """`beside`: thoughts that came beside the text."""
    cleaner = ResponseCleaner(
        endpoint,
        {**context.config, "reasoningOutput": "drop"},
        user_config=context.user.raw,
        generation_prompt=opening_of(context),
    )
    raw = text
    text = cleaner.feed(text) + cleaner.finish()
    log_findings(cleaner, endpoint_name(context), text, thoughts_beside=bool(beside))
    thoughts = list(cleaner.completed_thoughts)
    hidden = [beside, *thoughts] if beside else thoughts
    keep_cleaning(context, Cleaned(raw, text, hidden), endpoint, opening_of(context))
    return text, thoughts


def _without_extra_facts(result: JsonObject, text: Any) -> JsonObject:
    """A tool-call answer as an output: without the facts that came beside it."""
    reason = result.get("finish_reason") or "tool_calls"
    return {"content": text, "tool_calls": result["tool_calls"], "finish_reason": reason}


def endpoint_name(context: ExecutionContext) -> str:
    return context.llm_handler.llm.answering.name if context.llm_handler else ""


class Delivery:
    """One node's answer. `batches()` gives it; then `value` is the node's output, `thoughts` what was hidden.

    `usage`, `prompt_tokens`: of the node's LLM calls, when the chunks bring no numbers. `answered(self,
    text)` is called once, just before the finish chunk leaves: it is handed the delivery because one that it
    held would be a reference cycle around the whole conversation.
    """

    def __init__(
        self,
        context: ExecutionContext,
        result: NodeResult,
        *,
        usage: JsonObject | None,
        prompt_tokens: Callable[[], int] | None,
        answered: Callable[[Delivery, str], None],
    ) -> None:
        self._context, self._result = context, result
        if isinstance(result, NodeStream) and result.context is not None:
            self._context = context = result.context
        self._answered = answered
        self.value: NodeValue = None
        self.thoughts: list[str] = []
        self._sent = SentAnswer(node=context.config, usage=usage, prompt_tokens=prompt_tokens)
        self._in_steps = isinstance(result, NodeStream) and result.steps is not None
        self._cleaner = self._make_cleaner()
        self._first: FirstText | None = None
        if context.trace is not None and context.stream:
            self._first = FirstText(context.trace, self._cleaner, self._sent)

    def sent_text(self) -> str:
        """What has left so far."""
        return self._sent.text()

    def batches(self) -> Generator[Batch, None, None]:
        """The answer: a streaming run's as it comes, a whole one as one batch; the last chunk ends it."""
        context, cleaner, raw = self._context, self._cleaner, self._raw()
        state = context.request.answer
        whole: Batch = []
        try:
            for batch in raw:
                if self._in_steps and batch and "progress" in batch[0]:
                    yield batch  # no part of the answer
                    continue
                out = self._pass(batch if cleaner is None else cleaner.clean_batch(batch))
                if not context.stream:
                    whole += out
                else:
                    if out:
                        state.begun = True
                    yield out
                if self._sent.error is not None:
                    raise told_error(endpoint_name(context), self._sent.error)
            if cleaner is not None and (out := self._pass(cleaner.clean_end())):
                whole += out
                if context.stream:
                    yield out
        except BaseException:
            if context.trace is not None and isinstance(self._result, NodeStream):
                self._keep_cleaning(self._take_text())
            raise
        finally:
            close_batches(raw)
        finish = self._finish()
        state.begun = state.complete = True
        yield finish if context.stream else [merge_chunks([*whole, *finish])]

    def _pass(self, batch: Batch) -> Batch:
        """What of a cleaned batch leaves before the end; counted."""
        out = self._sent.without_end(batch)
        if self._first is not None and self._first.is_in(out):
            self._first = None
        return out

    def _finish(self) -> Batch:
        """The end, when all else has left and the answer is recorded."""
        context, text = self._context, self._take_text()
        if context.trace is not None:
            self._keep_cleaning(text)  # a run that was cancelled ends at the next line but one
        self.value = self._output(text)
        self._answered(self, text)
        self._sent.answer = text
        finish = finish_chunks(context.request, context.user, self._sent)
        if isinstance(self._result, NodeStream) and self._result.running:
            context.request.usage.add(finish[-1]["usage"], self._sent.cost)
        if context.trace is not None:
            settle_thought(context.trace, self._cleaner)
            tell_answer(*context.trace, text, finish[-1])
        return finish

    def _take_text(self) -> str:
        """The text so far; `thoughts` as well."""
        if self._cleaner is None:
            return self._sent.text()
        self.thoughts = list(self._cleaner.thoughts)
        return self._cleaner.full_response_text

    def _raw(self) -> Batches:
        result = self._result
        if isinstance(result, NodeStream):
            return result.batches
        if isinstance(result, LlmText) or is_tool_call_answer(result):
            return iter([whole_batch(result)])
        text = result_text(result)
        delay_ms = self._context.user.static_stream_delay_ms if self._context.stream else 0
        return static_batches(text, delay_ms / 1000)

    def _make_cleaner(self) -> StreamingResponseHandler | None:
        """The cleaner of this node's text; None: it goes out as it is."""
        context = self._context
        endpoint = cleaning_endpoint(context)
        if endpoint is None or isinstance(self._result, CleanText):
            return None
        node = context.config
        if context.request.suppress_reasoning:
            node = {**node, "reasoningOutput": "drop"}
        if isinstance(self._result, NodeStream) and self._result.steps is not None:
            return _step_cleaner(context, node, self._result.steps)
        cleaner = StreamingResponseHandler(
            endpoint,
            node,
            opening_of(context),
            context.request_id,
            user_config=context.user.raw,
            endpoint_now=partial(cleaning_endpoint, context),
        )
        if context.trace is not None and context.trace.run.keeps_text:
            cleaner.raw = []
        return cleaner

    def _keep_cleaning(self, text: str) -> None:
        context, cleaner = self._context, self._cleaner
        if isinstance(cleaner, StepHandler):
            return  # each step has told of itself
        endpoint = cleaning_endpoint(context) if cleaner is not None else None
        raw = text if cleaner is None or cleaner.raw is None else "".join(cleaner.raw)
        keep_cleaning(context, Cleaned(raw, text, self.thoughts), endpoint, opening_of(context))

    def _output(self, text: str) -> NodeValue:
        """What is recorded: the cleaned text; a value that was no text stays what it is."""
        result = self._result
        if isinstance(result, str | NodeStream):
            return text
        return _without_extra_facts(result, text) if is_tool_call_answer(result) else result


class SentAnswer:
    """What has gone by on the way out. Holds the finish back: it leaves when everything else has.

    `answer`: the text, thoughts never in it. `node`: who gave it, empty for nobody. `usage`: the backend's
    numbers. `prompt_tokens()`: estimate of the prompt, None = no model was called. `error`: of a chunk that
    ended it. `cost`: of the call, where its endpoint has a price.
    """

    def __init__(
        self,
        answer: str = "",
        node: NodeConfig = MappingProxyType({}),
        *,
        usage: JsonObject | None = None,
        prompt_tokens: Callable[[], int] | None = None,
    ) -> None:
        self.answer, self.node = answer, node
        self.usage, self.prompt_tokens = usage, prompt_tokens
        self.reason: str | None = None
        self.with_calls = False
        self.facts: JsonObject = {}
        self.error: JsonObject | None = None
        self.cost: Cost | None = None
        self._lowers_calls = bool(node.get("lowercaseToolCallFunctionNames"))
        self._texts = [answer]
        self._thoughts: list[str] = []

    def text(self) -> str:
        return "".join(self._texts)

    def pieces(self) -> int:
        return len(self._texts)

    def written_text(self) -> str:
        """All that the model wrote and that was delivered: thoughts count as output."""
        return "".join([*self._thoughts, *self._texts])

    def without_end(self, batch: Batch) -> Batch:
        """The batch without finish and usage, up to a chunk with an error, which is kept in `error`."""
        if len(batch) == 1 and len(batch[0]) == 2 and batch[0]["finish_reason"] is None:
            self._texts.append(batch[0]["token"])
            return batch
        out: Batch = []
        for chunk in batch:
            if "error" in chunk:
                self.error = chunk["error"]
                break
            if len(chunk) > 2 or chunk["finish_reason"] is not None:
                kept = self._chunk_without_end(chunk)
                if kept is None:
                    continue
                chunk = kept
            if chunk["token"]:
                self._texts.append(chunk["token"])
            out.append(chunk)
        return out

    def _chunk_without_end(self, chunk: Chunk) -> Chunk | None:
        """The chunk as it may leave before the end; None when nothing of it may."""
        self.usage = chunk.get("usage") or self.usage
        self.cost = chunk.get("cost") or self.cost
        self.reason = chunk["finish_reason"] or self.reason
        self.facts |= {key: chunk[key] for key in _FACTS if key in chunk}  # type: ignore[literal-required]
        self.with_calls = self.with_calls or bool(chunk.get("cut_call"))
        kept: Chunk = {"token": chunk["token"], "finish_reason": None}
        if calls := chunk.get("tool_calls"):
            self.with_calls = True
            kept["tool_calls"] = [lower_tool_name(call) for call in calls] if self._lowers_calls else calls
        if thinking := chunk.get("thinking"):
            kept["thinking"] = thinking
            self._thoughts.append(thinking)
        if chunk.get("refusal"):
            kept["refusal"] = True
        return kept if kept["token"] or len(kept) > 2 else None


def finish_chunks(request: RequestContext, user: UserSettings, sent: SentAnswer) -> Batch:
    """The end of an answer: the finish chunk, and before it the liveness call if this answer gets one."""
    reason = client_finish_reason(sent.reason, sent.with_calls)
    batch: Batch = []
    call = None if sent.with_calls else _liveness_call(request, user, sent.node, sent.answer)
    if call is not None:
        reason = "tool_calls"
        batch.append({"token": "", "finish_reason": None, "tool_calls": [call]})
    finish: Chunk = {"token": "", "finish_reason": reason}
    finish["usage"] = full_usage(sent.usage, sent.written_text, sent.prompt_tokens)
    finish.update(sent.facts)  # type: ignore[typeddict-item]
    return [*batch, finish]


def _liveness_call(
    request: RequestContext, user: UserSettings, node: NodeConfig, text: str
) -> JsonObject | None:
    """The tool call that keeps an agentic client going. Source: frontend-api.md 11.7."""
    wanted = user.liveness_tool_call
    wire_format = WIRE_FORMATS.get(request.api_type)
    if wanted is None or wire_format is None or not wire_format.gets_liveness_call:
        return None
    if text.strip() and not node.get("injectLivenessToolCall"):
        return None
    return {
        "index": 0,
        "id": f"wilmer_liveness_{uuid.uuid4().hex[:8]}",
        "type": "function",
        "function": {
            "name": str(wanted["toolName"]).strip(),
            "arguments": compact_json(wanted.get("arguments") or {}),
        },
    }


def merge_chunks(chunks: Iterable[Chunk]) -> Chunk:
    """Several chunks as one: texts joined, tool calls in a row, the last of everything else."""
    chunks = list(chunks)
    whole: Chunk = {"token": "".join(chunk["token"] for chunk in chunks), "finish_reason": None}
    calls = [call for chunk in chunks for call in chunk.get("tool_calls") or ()]
    thinking = "".join(chunk.get("thinking") or "" for chunk in chunks)
    for chunk in chunks:
        whole.update(
            {k: v for k, v in chunk.items() if k not in ("token", "thinking", "tool_calls")}  # type: ignore[typeddict-item]
        )
    if calls:
        whole["tool_calls"] = calls
    if thinking:
        whole["thinking"] = thinking
    return whole


def static_batches(text: str, delay_s: float = 0.0, sleep: Callable[[float], None] = time.sleep) -> Batches:
    """A text as a stream: one piece, or word by word with a delay until five seconds were spent.

    A long delay is cut by ticks, so that the client sees that there is life, and its going is noticed.
    """
    if delay_s <= 0:
        yield [{"token": text, "finish_reason": None}]
    else:
        yield from _word_by_word(text, delay_s, sleep)
    yield [{"token": "", "finish_reason": "stop"}]


def _word_by_word(text: str, delay_s: float, sleep: Callable[[float], None]) -> Iterator[Batch]:
    spent = 0.0
    for piece in re.findall(r"\S+|\s+", text):
        left = 0.0 if piece.isspace() or spent >= STATIC_DELAY_LIMIT_S else delay_s
        spent += left
        while left > 0:
            sleep(min(left, DELAY_STEP_S))
            left -= DELAY_STEP_S
            if left > 0:
                yield []
        yield [{"token": piece, "finish_reason": None}]
