"""The one log line of a call to a backend. Never holds a text of the user or the model."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from Middleware.common.costs import Cost, cost_text
from Middleware.common.request_context import RequestContext, current_request
from Middleware.common.secrets import shown_url
from Middleware.common.types import Batch, Chunk, JsonObject
from Middleware.config.endpoints import EndpointConfig
from Middleware.llmapis.call.call_arguments import CallArguments, HandlerFace
from Middleware.llmapis.call.call_meter import CallMeter
from Middleware.llmapis.llm_text import LlmText
from Middleware.services.answers import FINISH_REASONS
from Middleware.services.key_limits import count_use
from Middleware.services.node_trace import CallTrace
from Middleware.services.run_trace import TracedCall
from Middleware.utilities.sensitive_logging_utils import loggable_error

logger = logging.getLogger(__name__)


# --------------------------------------------------------------------------
# Standard dicts looked at and made from each other. Pure.


_CONTENT = ("thinking", "tool_calls", "refusal")
_FACTS = (
    "native_finish_reason",
    "thinking",
    "usage",
    "model",
    "refusal",
    "cut_call",
    "cut_calls",
    "beside",
    "cost",
)


_NUMBERS = (
    "temperature",
    "top_p",
    "top_k",
    "presence_penalty",
    "frequency_penalty",
    "seed",
    "sampler_seed",
)


def _numbers_in(samplers: Mapping[str, Any]) -> dict[str, float]:
    """What a trace holds of the samplers of a call: others may be texts of the user."""
    return {
        name: value
        for name in _NUMBERS
        if name in samplers and (value := samplers[name]).__class__ in (int, float)
    }


def is_visible(chunk: Chunk) -> bool:
    """Whether it says anything of the answer: text, a thought, a call."""
    return bool(chunk["token"]) or "thinking" in chunk or "tool_calls" in chunk


def is_more_than_space(chunk: Chunk) -> bool:
    """Whether it says anything of the answer but white space."""
    return bool(chunk["token"].strip() or chunk.get("thinking") or chunk.get("tool_calls"))


def content_taken_out(pending: Chunk) -> Chunk:
    """Take the content out of a finishing dict, because more content came behind it."""
    content: dict[str, Any] = {"token": pending["token"], "finish_reason": None}
    for key in _CONTENT:
        if key in pending:
            content[key] = cast(dict[str, Any], pending).pop(key)
    pending["token"] = ""
    return cast(Chunk, content)


def set_split(chunk: Chunk, thinking: str, text: str) -> None:
    """Text and the rest of a thought that were held until the end, put into the finishing dict."""
    chunk["token"] = text
    if thinking:
        chunk["thinking"] = chunk.get("thinking", "") + thinking


def one_chunk(answer: LlmText | JsonObject) -> Chunk:
    """A whole answer as one dict of a stream."""
    if isinstance(answer, dict):
        chunk: dict[str, Any] = {"token": answer["content"], **answer}
        del chunk["content"]
        chunk.pop("pieces", None)
        chunk["tool_calls"] = [{"index": at, **call} for at, call in enumerate(answer["tool_calls"])]
        return cast(Chunk, chunk)
    chunk = {"token": str(answer), "finish_reason": answer.finish_reason or "stop"}
    chunk.update((key, getattr(answer, key)) for key in _FACTS if getattr(answer, key))
    return cast(Chunk, chunk)


# --------------------------------------------------------------------------


@dataclass(slots=True)
class CallLog:
    """What is measured of one call. Times are of `time.monotonic`. `truncated`: its stream ended without its
    end mark. `opens`: nothing but white space came so far. `address`: of an endpoint that has several.
    `model`: as the answer names it; None: it does not. `meter`: of an endpoint with a price, or of a call of
    a key, `request`: whose use it is. `trace`: None: nobody observes."""

    endpoint: EndpointConfig
    stream: bool
    started: float = field(default_factory=time.monotonic)
    first: float | None = None
    tries: int = 0
    pieces: int = 0
    outcome: str = ""
    usage: dict[str, Any] | None = None
    load_s: float | None = None
    truncated: bool = False
    opens: bool = True
    address: str = ""
    model: str | None = None
    meter: CallMeter | None = None
    request: RequestContext | None = None
    trace: TracedCall | None = None

    @classmethod
    def of(cls, handler: HandlerFace, asked: CallArguments) -> CallLog:
        """A call of this handler begins."""
        settings = handler.settings
        address = settings.url if len(settings.endpoint.addresses) > 1 else ""
        log = cls(settings.endpoint, settings.stream, address=address)
        request, price = current_request(), settings.endpoint.price
        if price is not None or (request is not None and request.asker.entry is not None):
            log.request = request
            log.meter = CallMeter(price, asked.prompt_tokens, generates=handler.generates)
        if asked.trace is not None:
            kind = "prefill" if asked.reads_ahead else "model" if handler.generates else "embedding"
            call = CallTrace(
                kind,
                settings.endpoint.name,
                settings.endpoint.type,
                settings.endpoint.model,
                secrets=settings.secrets,
                machine=settings.endpoint.machine,
                backup_of=asked.backup_of,
                address=log.address,
                begun=log.started,
                numbers=_numbers_in(settings.samplers),
                samplers=settings.samplers,
                max_tokens=settings.max_tokens,
                stream=settings.stream,
            )
            log.trace = asked.trace.call(call)
            if address:
                asked.trace.node.url = address
        return log

    def note_failure(self, error: Exception | str) -> None:
        """What is said of a failure; `write` says of which kind it was."""
        if self.trace is not None:
            self.trace.call.error = error if isinstance(error, str) else loggable_error(error)

    def note_batch(self, batch: Batch, *, only_text: bool = False) -> None:
        """A batch that is not empty went by. `only_text`: its dicts are known to say nothing else."""
        if self.opens:
            self._note_first_batch(batch)
        self.pieces += len(batch)
        if self.meter is not None:
            self.meter.note_batch(batch, only_text=only_text)

    def note_answer(self, answer: LlmText | JsonObject) -> None:
        """A whole answer came."""
        facts = answer if isinstance(answer, dict) else vars(answer)
        self.usage, self.model = facts.get("usage"), facts.get("model")
        if self.meter is not None:
            self.meter.note_answer(answer)

    def _note_first_batch(self, batch: Batch) -> None:
        """What comes first, and whether it is a thought: what comes behind a text is not looked at."""
        if self.first is None:
            self.first = time.monotonic()
            if self.trace is not None:
                self.trace.call.first = self.first
        said = next((chunk for chunk in batch if is_more_than_space(chunk)), None)
        if said is None:
            return
        self.opens = False
        if self.trace is not None and said.get("thinking"):
            self.trace.note_thought()

    def write(self, outcome: str) -> None:
        """One INFO line: endpoint, API type, model, stream, tries, first token, rate, how it ended, usage,
        and what it cost, where its endpoint has a price."""
        now = time.monotonic()
        use = None if self.meter is None else self.meter.use_at_end(self.usage, outcome)
        cost = None if use is None else use.cost
        if self.request is not None and use is not None:
            count_use(self.request, *use)
        self._tell(outcome, now, cost)
        first = "-" if self.first is None else f"{self.first - self.started:.2f} s"
        tokens = (self.usage or {}).get("completion_tokens") or self.pieces
        span = now - (self.first if self.stream and self.first is not None else self.started)
        rate = f"{tokens / span:.1f}/s" if tokens and span > 0 else "-"
        logger.info(
            "endpoint '%s'%s (%s, model '%s', stream %s, tries %d): first token %s, tokens %s, took %.2f s, "
            "ended %s, usage %s%s",
            self.endpoint.name,
            f" at {shown_url(self.address)}" if self.address else "",
            self.endpoint.api_type_name,
            self.endpoint.model,
            "on" if self.stream else "off",
            self.tries,
            first,
            rate,
            now - self.started,
            outcome,
            self.usage or "-",
            "" if cost is None else f", cost {cost_text([cost])}",
        )

    def _tell(self, outcome: str, now: float, cost: Cost | None) -> None:
        if self.trace is None:
            return
        call = self.trace.call
        call.tries, call.usage, call.truncated = self.tries, self.usage, self.truncated
        call.load_s, call.cost = self.load_s, cost
        call.answered_by = self.model if isinstance(self.model, str) else ""
        call.finish_reason = outcome if outcome in FINISH_REASONS else None
        self.trace.end(outcome, now)
