"""The answer of a node on its way to the client: cleaned, its thoughts routed, its end made regular.

A whole answer goes the same way as a stream of one chunk, so both come out the same. Reads the current
request when it is made, never while a stream runs; sends nothing. Source: spec cleaning.md, frontend-api.md
11.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from Middleware.cleaning import ResponseCleaner
from Middleware.common.request_context import current_request
from Middleware.common.types import Batch, Batches, Chunk, JsonObject, TextBatch, close_batches
from Middleware.llmapis.llm_text import in_order
from Middleware.protocols.registry import WIRE_FORMATS, ErrorReply, Framer
from Middleware.services.answers import AnswerFacts, client_finish_reason
from Middleware.utilities.sensitive_logging_utils import shorten_text
from Middleware.utilities.streaming_utils import endpoint_name, log_findings, routed_node, user_of_request

logger = logging.getLogger(__name__)


# --------------------------------------------------------------------------
# Where the thoughts of an answer go: nowhere, into a field of their own, or into the text where they
# came.


OPENING = "<think>\n"
CLOSING = "\n</think>\n\n"


class ThoughtRoute:
    """The way of one answer's thoughts.

    `mode`: `drop`, `field` or `inline`; the endpoint's literal tags frame `inline`.
    """

    def __init__(self, mode: str, endpoint_config: Mapping[str, Any]) -> None:
        self._field, self._inline = mode == "field", mode == "inline"
        self._opening = endpoint_config.get("startThinkTag") or OPENING
        self._closing = endpoint_config.get("endThinkTag") or CLOSING
        self._open = False

    @property
    def keeps_order(self) -> bool:
        """Thoughts stand in the text: they must come in order with it."""
        return self._inline

    @property
    def is_open(self) -> bool:
        """Whether a tag of thoughts stands open in the text."""
        return self._open

    def think(self, thought: str, out: Batch) -> None:
        """Send a thought.

        Inline: the first opens a tag, and so does the first behind a text.
        """
        if not thought:
            return
        if self._field:
            out.append({"token": "", "finish_reason": None, "thinking": thought})
        elif self._inline:
            out.append({"token": thought if self._open else self._opening + thought, "finish_reason": None})
            self._open = True

    def before_text(self) -> str:
        """What stands before a text that goes out now, or before the end: the closing tag of thoughts that
        are open.
        """
        if not self._open:
            return ""
        self._open = False
        return self._closing


# --------------------------------------------------------------------------

_FACTS = ("usage", "model", "cost", "native_finish_reason", "truncated", "refusal", "cut_call")
"""What any chunk may say of the whole answer; the finish chunk repeats it."""


class StreamingResponseHandler:
    """Cleans one answer.

    `full_response_text`: the answer so far, thoughts never in it. `thoughts`: what was hidden, one entry
    for each block and each run of thoughts beside the text. `finish_reason` (of frontend-api.md 11.3) and
    `usage`: once they are known. `raw`: a list gathers the text as it came; None: nobody wants it.
    """

    def __init__(
        self,
        endpoint_config: Mapping[str, Any],
        workflow_node_config: Mapping[str, Any],
        generation_prompt: str | None = None,
        request_id: str | None = None,
        *,
        user_config: Mapping[str, Any] | None = None,
        endpoint_now: Callable[[], Mapping[str, Any] | None] | None = None,
    ) -> None:
        """`user_config=None`: the user of the request being served. `endpoint_now()`: the file of the
        endpoint that answers, asked until its first text or thought: before that a backup may take over.

        Raises ConfigError when that file is unreadable.
        """
        request = current_request()
        node = routed_node(workflow_node_config)
        user = user_of_request() if user_config is None else user_config
        self._made_of = endpoint_config, node, user, generation_prompt
        self._endpoint_now, self._is_fed = endpoint_now, endpoint_now is None
        self._cleaner = self._new_cleaner(generation_prompt)
        self._route = self._new_route()
        self._endpoint = endpoint_name(node)
        self._lowers_calls = bool(node.get("lowercaseToolCallFunctionNames"))
        self._request_id = request_id
        self._may_log_thoughts = request is None or not request.privacy
        self._texts: list[str] = []
        self._beside: list[str] = []  # thoughts beside the text, since the last text
        self._counted = 0  # completed thoughts that stand in `thoughts`
        self._facts: JsonObject = {}
        self._reason: str | None = None
        self._called = False
        self.thoughts: list[str] = []
        self.raw: list[str] | None = None
        self.finish_reason: str | None = None

    def _new_cleaner(self, generation_prompt: str | None) -> ResponseCleaner:
        endpoint, node, user, _ = self._made_of
        return ResponseCleaner(endpoint, node, user_config=user, generation_prompt=generation_prompt)

    def _new_route(self) -> ThoughtRoute:
        return ThoughtRoute(self._cleaner.reasoning, self._made_of[0] or {})

    def _ask_endpoint(self) -> None:
        """The first text or thought comes: whose is it?"""
        self._is_fed = True
        endpoint = self._endpoint_now() if self._endpoint_now is not None else None
        if endpoint is not None and endpoint is not self._made_of[0]:
            self._made_of = endpoint, *self._made_of[1:]
            self._renew()

    def _renew(self) -> None:
        """Clean by the rules of another endpoint, before anything came."""
        self._cleaner = self._new_cleaner(self._made_of[3])
        self._route = self._new_route()

    @property
    def full_response_text(self) -> str:
        return "".join(self._texts)

    @property
    def has_thought(self) -> bool:
        """Whether a thought has begun, beside the text or in it. At the end: that there was one."""
        return bool(self.thoughts or self._beside) or self._cleaner.has_thought

    @property
    def usage(self) -> JsonObject | None:
        return self._facts.get("usage")

    def clean(self, batches: Batches) -> Batches:
        """Batches of standard dicts -> batches of cleaned ones.

        Text that one batch brings is cleaned in one piece. Exactly one chunk has a finish reason, or the
        chunk with `error`, and is the last that says anything; empty batches pass through.
        """
        try:
            for batch in batches:
                yield self.clean_batch(batch)
            if end := self.clean_end():
                yield end
        finally:
            close_batches(batches)

    def clean_end(self) -> Batch:
        """The finish that a stream without one lacks; nothing where it had one."""
        out: Batch = []
        if self.finish_reason is None:
            self._finish(out)
        return out

    def process_stream(self, chunks: Iterable[Chunk]) -> Iterator[str]:
        """Clean, then frame for the protocol of the request being served: the units of the stream, one
        text each.

        Raises ValueError when that protocol has no stream.
        """
        request = current_request()
        api_type = request.api_type if request else "openai"
        wire_format = WIRE_FORMATS.get(api_type)
        if wire_format is None:
            raise ValueError(f"API type {api_type!r} has no stream. Known: {', '.join(WIRE_FORMATS)}")
        return self._frame_batches(_singly(chunks), wire_format.framer(AnswerFacts.current(self._request_id)))

    def _frame_batches(self, batches: Batches, framer: Framer) -> Iterator[str]:
        """What stands behind an error chunk, or behind the finish chunk, is not sent."""
        for batch in self.clean(batches):
            if framer.state.sent:
                continue
            if batch and (failure := batch[-1].get("error")) is not None:
                yield from framer.units(batch[:-1])
                framer.state.finish(is_last=False)
                message = str(failure.get("message") or "the answer broke off")
                yield from framer.error(ErrorReply(502, message, code="backend_error"))
                continue
            yield from framer.units(batch)
            yield from framer.end() if framer.state.sent else ()

    def clean_batch(self, batch: Batch) -> Batch:
        """What of one batch can leave; what is undecided is held."""
        out: Batch = []
        run: list[str] = []
        if isinstance(batch, TextBatch):
            run.append(batch.text)
            batch = []
        for chunk in batch:
            if len(chunk) == 2 and chunk.get("finish_reason", "") is None:  # nothing but text
                if token := chunk["token"]:
                    run.append(token)
            elif self.finish_reason is not None:
                self._facts["usage"] = chunk.get("usage") or self.usage
            else:
                self._handle_mixed_chunk(chunk, run, out)
        if self.finish_reason is not None:
            return out
        self._flush(run, out)
        if self._reason is not None:
            self._finish(out)
        return out

    def _handle_mixed_chunk(self, chunk: Chunk, run: list[str], out: Batch) -> None:
        """A chunk with more than text: thoughts first, then text, then tool calls, then its end."""
        if thinking := chunk.get("thinking"):
            self._flush(run, out)
            if not self._is_fed:
                self._ask_endpoint()
            self._beside.append(thinking)
            self._route.think(thinking, out)
        if token := chunk.get("token"):
            run.append(token)
        for key in _FACTS:
            if key in chunk:
                self._facts[key] = chunk[key]  # type: ignore[literal-required]
        if calls := chunk.get("tool_calls"):
            self._flush(run, out)
            self._called = True
            delta = [lower_tool_name(call) for call in calls] if self._lowers_calls else calls
            out.append({"token": "", "finish_reason": None, "tool_calls": delta})
        self._called = self._called or bool(chunk.get("cut_call"))
        if chunk.get("error"):
            self._flush(run, out)
            self._fail(chunk, out)
        elif (reason := chunk.get("finish_reason")) is not None:
            self._reason = reason

    def _flush(self, run: list[str], out: Batch) -> None:
        """Clean the text that has gathered in `run`."""
        if not run:
            return
        if not self._is_fed:
            self._ask_endpoint()
        text = run[0] if len(run) == 1 else "".join(run)
        run.clear()
        if self.raw is not None:
            self.raw.append(text)
        if self._beside:
            self._close_beside()
        cleaner = self._cleaner
        if cleaner.passes_through:
            self._say(text, out)
        elif self._route.keeps_order:
            for thought, cleaned in cleaner.feed_in_order(text):
                self._route.think(thought, out)
                self._say(cleaned, out)
        else:
            cleaned = cleaner.feed(text)
            self._route.think(cleaner.take_thoughts(), out)
            self._say(cleaned, out)
        self._count_completed()

    def _say(self, text: str, out: Batch) -> None:
        if text:
            self._texts.append(text)
            out.append({"token": self._route.before_text() + text, "finish_reason": None})

    def _drain(self, out: Batch, *, may_be_empty: bool) -> None:
        """The text has ended: everything held is decided and delivered."""
        rest = self._cleaner.finish(may_be_empty=may_be_empty)
        self._route.think(self._cleaner.take_thoughts(), out)
        self._say(rest, out)
        self._close_tag(out)
        self._close_beside()
        self._count_completed()
        if self._cleaner.unclosed_thought:
            self.thoughts.append(self._cleaner.unclosed_thought)

    def _close_tag(self, out: Batch) -> None:
        """Close the tag of thoughts that no text follows."""
        if tag := self._route.before_text():
            out.append({"token": tag, "finish_reason": None})

    def _finish(self, out: Batch) -> None:
        """The one finish chunk, with all that is known of the answer."""
        self._drain(out, may_be_empty=self._called)
        self.finish_reason = reason = client_finish_reason(self._reason, self._called)
        if self._reason not in (None, reason):
            self._facts.setdefault("native_finish_reason", self._reason)
        finish: Chunk = {"token": "", "finish_reason": reason}
        finish.update(self._facts)  # type: ignore[typeddict-item]
        out.append(finish)
        log_findings(
            self._cleaner,
            self._endpoint,
            "called" if self._called else self.full_response_text,
            thoughts_beside=bool(self.thoughts),
        )
        if self.thoughts and self._may_log_thoughts:
            thoughts = [shorten_text(thought) for thought in self.thoughts]
            logger.debug("endpoint '%s': thoughts of the answer: %s", self._endpoint, thoughts)

    def _fail(self, chunk: Chunk, out: Batch) -> None:
        """An error ends the stream; what is already there is delivered before it."""
        self._drain(out, may_be_empty=True)
        self.finish_reason = "error"
        failure: Chunk = {**chunk, "token": "", "finish_reason": "error"}
        for sent in ("thinking", "tool_calls"):
            failure.pop(sent, None)  # type: ignore[misc]
        out.append(failure)

    def _close_beside(self) -> None:
        if self._beside:
            self.thoughts.append("".join(self._beside))
            self._beside = []

    def _count_completed(self) -> None:
        completed = self._cleaner.completed_thoughts
        if len(completed) > self._counted:
            self.thoughts += completed[self._counted :]
            self._counted = len(completed)


def whole_chunk(result: str | JsonObject) -> Chunk:
    """A whole result as the one chunk of a stream.

    Tool calls keep their `index`, or get their place as one.
    """
    facts = result if isinstance(result, dict) else vars(result) if hasattr(result, "__dict__") else {}
    text = (result.get("content") if isinstance(result, dict) else str(result)) or ""
    chunk: Chunk = {"token": text, "finish_reason": facts.get("finish_reason") or "stop"}
    for key in ("thinking", *_FACTS):
        if facts.get(key):
            chunk[key] = facts[key]  # type: ignore[literal-required]
    if calls := facts.get("tool_calls"):
        chunk["tool_calls"] = [{"index": place, **call} for place, call in enumerate(calls)]
    return chunk


def whole_batch(result: str | JsonObject) -> Batch:
    """A whole result as the one batch of a stream, its text and thoughts in their order."""
    return in_order(whole_chunk(result), result)


def _singly(chunks: Iterable[Chunk]) -> Batches:
    """Each chunk a batch of its own; closes `chunks` when it is closed."""
    try:
        for chunk in chunks:
            yield [chunk]
    finally:
        close_batches(chunks)


def lower_tool_name(call: JsonObject) -> JsonObject:
    """The tool call (or a fragment of one) with its function's name in lower case."""
    function = call.get("function")
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        return call
    return {**call, "function": {**function, "name": function["name"].lower()}}
