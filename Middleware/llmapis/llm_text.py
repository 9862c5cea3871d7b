"""The text of a whole answer, with the facts that came beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from Middleware.common.costs import Cost
from Middleware.common.request_context import RequestContext
from Middleware.common.types import Batch, Chunk, JsonObject
from Middleware.llmapis.backend_errors import told_error
from Middleware.services.answers import ToolCallCollector, finished_calls, full_usage
from Middleware.services.run_trace import TracedNode

Piece = tuple[str, str]
"""A thought, and the text behind it."""

Pieces = list[Piece]


class LlmText(str):
    """A `str` that also knows how the answer ended. It equals, hashes and prints as the plain text.

    `usage`: `{"prompt_tokens", "completion_tokens", "total_tokens", ...}` or None. Source: spec backends.md
    10. `cut_call`: the model called a tool, and the end of the answer cut the call; `cut_calls`: those calls,
    as far as they came. `beside`: thoughts in the fields they came in, for an agent's loop. `cost`: what the
    call cost; None: its endpoint has no price. `pieces`: text and thoughts in their order; None: thoughts
    stand before the text, or nobody knows where."""

    finish_reason: str | None
    native_finish_reason: str | None
    thinking: str
    usage: JsonObject | None
    model: str | None
    refusal: bool
    cut_call: bool
    cut_calls: list[JsonObject]
    beside: JsonObject | None
    cost: Cost | None
    pieces: Pieces | None

    def __new__(
        cls,
        text: str = "",
        *,
        finish_reason: str | None = None,
        native_finish_reason: str | None = None,
        thinking: str = "",
        usage: JsonObject | None = None,
        model: str | None = None,
        refusal: bool = False,
        cut_call: bool = False,
        cut_calls: list[JsonObject] | None = None,
        beside: JsonObject | None = None,
        cost: Cost | None = None,
        pieces: Pieces | None = None,
    ) -> LlmText:
        made = super().__new__(cls, text)
        made.finish_reason, made.native_finish_reason = finish_reason, native_finish_reason
        made.thinking, made.usage, made.model = thinking, usage, model
        made.refusal, made.cut_call, made.cost = refusal, cut_call, cost
        made.cut_calls, made.beside, made.pieces = cut_calls or [], beside, pieces
        return made

    def told_apart(self, text: str, thinking: str, pieces: Pieces | None = None) -> LlmText:
        """The same answer with another text and thought."""
        made = LlmText(text)
        vars(made).update(vars(self), thinking=thinking, pieces=pieces)
        return made


Answer = TypeVar("Answer", bound="LlmText | JsonObject")
"""A whole answer; with tool calls it is a dict with `content`."""


def note_answer(trace: TracedNode | None, answer: Answer) -> Answer:
    """The answer, once those who observe the node that asked know it. `trace`: None: nobody does."""
    if trace is not None:
        facts = answer if isinstance(answer, dict) else vars(answer) if hasattr(answer, "__dict__") else {}
        text = answer.get("content") if isinstance(answer, dict) else answer
        trace.note_answer(text or "", facts.get("thinking") or "")
    return answer


# --------------------------------------------------------------------------
# A call that gave an answer, added to what its request took. Source: spec more-fronts.md 9.


def count_call(
    request: RequestContext, result: LlmText | JsonObject, prompt_tokens: Callable[[], int] | None
) -> None:
    """`result`: a whole answer, or a dict with `content` and `tool_calls`. `prompt_tokens()`: the estimate
    that stands in for a number that the backend did not report.
    """
    if isinstance(result, dict):
        facts, text = result, result.get("content")
    else:
        facts, text = getattr(result, "__dict__", {}), result

    def written_text() -> str:
        return f"{facts.get('thinking') or ''}{text or ''}"

    request.usage.add(full_usage(facts.get("usage"), written_text, prompt_tokens), facts.get("cost"))


# --------------------------------------------------------------------------
# The order of text and thoughts in a whole answer. Pure.


def pieces_of(said: Iterable[Piece]) -> Pieces | None:
    """What was said, in as few pieces as keep its order; None: no thought stands behind text."""
    pieces: list[tuple[list[str], list[str]]] = [([], [])]
    for thought, text in said:
        if thought and pieces[-1][1]:
            pieces.append(([], []))
        for part, parts in zip((thought, text), pieces[-1], strict=True):
            if part:
                parts.append(part)
    return [("".join(thoughts), "".join(texts)) for thoughts, texts in pieces] if len(pieces) > 1 else None


def in_order(chunk: Chunk, answer: Any) -> Batch:
    """A whole answer as the batch of a stream. `chunk`: all of it, with its facts; it becomes the last."""
    facts = answer if isinstance(answer, dict) else getattr(answer, "__dict__", {})
    pieces: Pieces | None = facts.get("pieces")
    if not pieces:
        return [chunk]
    batch: Batch = []
    for thought, text in pieces[:-1]:
        batch.append({"token": text, "finish_reason": None})
        if thought:
            batch[-1]["thinking"] = thought
    chunk["thinking"], chunk["token"] = pieces[-1]
    return [*batch, chunk]


# --------------------------------------------------------------------------
# A stream as one whole answer. Pure.


_FACTS = ("native_finish_reason", "usage", "model", "cost", "beside")


def join_batches(endpoint: str, batches: Iterable[Batch]) -> LlmText | JsonObject:
    """The same value as a call without streaming gives. Raises BackendError for a stream that ends in an
    error.

    A stream without a finishing dict was cancelled: the empty text.
    """
    texts: list[str] = []
    thoughts: list[str] = []
    calls = ToolCallCollector(with_extras=True)
    facts: dict[str, Any] = {}
    finish = None
    for batch in batches:
        for chunk in batch:
            texts.append(chunk["token"])
            thoughts.append(chunk.get("thinking", ""))
            calls.add(chunk.get("tool_calls", ()))
            facts.update((key, chunk.get(key)) for key in _FACTS if key in chunk)
            if chunk.get("refusal"):
                facts["refusal"] = True
            finish = chunk["finish_reason"] or finish
            if "error" in chunk:
                raise told_error(endpoint, chunk["error"])
    if finish is None:
        return LlmText("")
    text, thinking = "".join(texts), "".join(thoughts)
    if thinking and (pieces := pieces_of(zip(thoughts, texts, strict=True))):
        facts["pieces"] = pieces
    came = calls.complete()
    whole_calls = finished_calls(came, finish)
    if cut := [call for call in came if call not in whole_calls]:
        facts["cut_calls"] = cut
    if not whole_calls:
        return LlmText(text, finish_reason=finish, thinking=thinking, cut_call=bool(calls), **facts)
    extras = {"thinking": thinking} if thinking else {}
    return {"content": text, "tool_calls": whole_calls, "finish_reason": finish, **extras, **facts}
