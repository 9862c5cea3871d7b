"""The contract of a client protocol: all its facts in one value, and how it frames an answer.

A protocol is one file of this package that makes a `ClientProtocol` and hands it to `PROTOCOLS.add`; its
front end (`api/handlers/impl`) names it. The gate, the front door, the error replies and the engine ask these
values and know no protocol by name. Pure: never looks at HTTP, never writes, never waits. Source: spec
frontend-api.md 1, 10 to 13, more-fronts.md 1.
"""

from __future__ import annotations

import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from Middleware.common.request_context import AnswerState
from Middleware.common.types import Batch, JsonObject
from Middleware.services.answers import (
    AnswerCollector,
    AnswerFacts,
    Pace,
    WholeAnswer,
    step_line,
    usage_numbers,
)

__all__ = [
    "EVENT_STREAM",
    "PLAIN",
    "PROTOCOLS",
    "WIRE_FORMATS",
    "AnswerCollector",
    "AnswerFacts",
    "ClientProtocol",
    "ErrorReply",
    "Framer",
    "Protocols",
    "TextFramer",
    "WholeAnswer",
    "WireFormat",
    "encode_unit",
    "is_under",
    "lost_part",
    "ndjson",
    "sse",
]

logger = logging.getLogger(__name__)

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    413: "invalid_request_error",
    415: "invalid_request_error",
    429: "rate_limit_error",
    499: "request_cancelled",
}


@dataclass(frozen=True, slots=True)
class ErrorReply:
    """What a client is told about a failure. `message`: one sentence for people; `headers`: of HTTP."""

    status: int
    message: str
    param: str | None = None
    code: str | int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    request_id: str = ""

    @property
    def kind(self) -> str:
        """The error's `type` as OpenAI names it (12.2)."""
        if self.code == "model_not_found":  # what OpenAI itself says of it
            return "invalid_request_error"
        return _TYPES.get(self.status, "server_error")


def lost_part(request_id: str) -> ErrorReply:
    """What ends a stream whose client has only a part of a call, because the protocol had closed it."""
    message = "the model's server sent part of a tool call after text that follows the call"
    logger.warning("%s; the answer ends with an error", message)
    return ErrorReply(502, message, code="backend_error", request_id=request_id)


class Framer(ABC):
    """One stream. `state`: how far its answer is; the framer tells it when the finish chunk goes by. Its own,
    until it is given the request's.

    `is_cut_off`: the answer was cancelled. Calls that were begun are none that a client should run: the
    reason of its end is `stop` (13), and what of them waits is not sent.
    """

    def __init__(self, facts: AnswerFacts) -> None:
        self.facts = facts
        self.state = AnswerState()
        self.is_cut_off = False
        self.pace = Pace()
        self.started = False
        self._texts: list[str] = [] if facts.sent is None else facts.sent
        self._thoughts: list[str] = []
        self._usage: JsonObject | None = None

    def units(self, batch: Batch) -> list[str]:
        """The units of one batch, in order, each for one write.

        What stands behind the finish chunk is not sent.
        """
        if not batch:
            return []
        self.pace.mark()
        for chunk in batch:
            if len(chunk) != 2 or chunk["finish_reason"] is not None:
                return self._mixed_units(batch)
        text = batch[0]["token"] if len(batch) == 1 else "".join([chunk["token"] for chunk in batch])
        if not text:
            return []
        self._texts.append(text)
        if self.started:
            return [self.text_unit(text)]
        return [*self._opening(with_text=True), self.text_unit(text)]

    def _mixed_units(self, batch: Batch) -> list[str]:
        """A batch in which not all is text. Neighbours of one kind are joined."""
        units: list[str] = []
        text: list[str] = []
        thoughts: list[str] = []
        for chunk in batch:
            if thinking := chunk.get("thinking"):
                self._flush_text(text, units)
                thoughts.append(thinking)
            if chunk["token"]:
                self._flush_thoughts(thoughts, units)
                text.append(chunk["token"])
            if calls := chunk.get("tool_calls"):
                self._flush_thoughts(thoughts, units)
                self._flush_text(text, units)
                units += self._tool_call_units(calls)
            self._usage = chunk.get("usage") or self._usage
            if chunk["finish_reason"] is not None:
                self._flush_thoughts(thoughts, units)
                self._flush_text(text, units)
                self.state.finish(is_last=chunk.get("last", False))
                return units + self.finish_units(chunk["finish_reason"])
        self._flush_thoughts(thoughts, units)
        self._flush_text(text, units)
        return units

    def progress_units(self, steps: list[JsonObject]) -> list[str]:
        """Units for nodes that start (`steps_of`), before the first output. They are no part of the answer.

        A protocol that shows them says so in `WireFormat.shows_progress`; `reasoning` is the same for all
        that have a place for thoughts.
        """
        if not steps or self.facts.progress != "reasoning":
            return []
        unit = self.thinking_unit("".join([f"{'  ' * step['depth']}{step_line(step)}\n" for step in steps]))
        return [*self._opening(with_text=True), unit] if unit else []

    def _written_text(self) -> str:
        """All that went by: thoughts are output of the model too."""
        return "".join([*self._thoughts, *self._texts])

    def _flush_text(self, pending: list[str], units: list[str]) -> None:
        if pending:
            text = "".join(pending)
            pending.clear()
            self._texts.append(text)
            units += [*self._opening(with_text=True), self.text_unit(text)]

    def _flush_thoughts(self, pending: list[str], units: list[str]) -> None:
        if pending:
            thinking = "".join(pending)
            self._thoughts.append(thinking)
            pending.clear()
            if unit := self.thinking_unit(thinking):
                units += [*self._opening(with_text=True), unit]

    @property
    def output_tokens(self) -> int:
        """As the client is told them, for what was sent so far."""
        return usage_numbers(self._usage, self._written_text())["completion_tokens"]

    def _opening(self, *, with_text: bool) -> list[str]:
        """Units before the first output. None but in protocols that open a stream."""
        self.started = True
        return []

    def answer(self, finish_reason: str) -> WholeAnswer:
        """What was sent so far, with the numbers as reported."""
        return WholeAnswer(
            "".join(self._texts),
            "".join(self._thoughts),
            finish_reason=finish_reason,
            usage=self._usage,
            pace=self.pace,
        )

    @abstractmethod
    def text_unit(self, text: str) -> str: ...

    @abstractmethod
    def thinking_unit(self, thinking: str) -> str:
        """Empty text: the protocol has no place for it."""

    @abstractmethod
    def _tool_call_units(self, calls: list[JsonObject]) -> list[str]: ...

    @abstractmethod
    def finish_units(self, finish_reason: str) -> list[str]:
        """The units that end the answer, the end mark not among them."""

    @abstractmethod
    def heartbeat(self) -> str:
        """A sign of life. May be what opens the stream."""

    @abstractmethod
    def end(self) -> list[str]:
        """The end mark, when it is a unit of its own."""

    @abstractmethod
    def error(self, reply: ErrorReply) -> list[str]:
        """The units that end a stream that failed, the end mark among them."""


class TextFramer(Framer):
    """A stream of events that has a place for text alone."""

    def thinking_unit(self, thinking: str) -> str:
        return ""

    def _tool_call_units(self, calls: list[JsonObject]) -> list[str]:
        return []

    def heartbeat(self) -> str:
        return ":\n\n"

    def end(self) -> list[str]:
        return []


Chunk = Callable[[str, str | None, AnswerFacts, list[JsonObject] | None], JsonObject]


@dataclass(frozen=True, slots=True)
class WireFormat:
    """One kind of answer of a protocol: one API type.

    `framer(facts)`: frames a stream. `whole(answer, facts)`: the JSON body. `frame(json)`: one unit.
    `mimetype`: of the stream. `chunk(token, finish_reason, facts, tool_calls)`: one chunk as a dict; None:
    nobody frames them by hand. `pause_s`: the least time between two writes. `is_chat`: its clients send
    messages, not a prompt. `gets_liveness_call`: an answer may end in the call that keeps an
    agentic client going (11.7). `shows_progress`: the values of `progressOutput` that its streams have a
    place for. `failure(reply, facts)`: the JSON body of a run that failed, with status 200; None: the error
    body of the protocol, with the status of the failure. `front`: how people call it, empty: by its API type.
    """

    framer: Callable[[AnswerFacts], Framer]
    whole: Callable[[WholeAnswer, AnswerFacts], JsonObject]
    frame: Callable[[str], str]
    mimetype: str
    chunk: Chunk | None = None
    pause_s: float = 0.0
    is_chat: bool = False
    gets_liveness_call: bool = False
    shows_progress: tuple[str, ...] = ()
    failure: Callable[[ErrorReply, AnswerFacts], JsonObject] | None = None
    front: str = ""


def _claims_nothing(path: str, headers: Mapping[str, str]) -> bool:
    return False


def _no_headers(request_id: str) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class ClientProtocol:
    """All that the house must know of a client protocol.

    `formats`: API type -> WireFormat. `error_body(reply)`: the JSON body of a failure. `roots`: paths at
    and below which failures have its shape, beside the routes of its front end; the longest root wins.
    `claims(path, headers)`: takes a request under another's root (`headers`: names as WSGI spells them).
    `id_prefixes`: what its ids have before the request id. `unsupported`: paths, and all below them, that are
    known and not served. `answer_headers(request_id)`: headers of each of its answers. `model_list(ids)`,
    `model_entry(id)`: its form of the model list at `/v1/models`; None: OpenAI's.
    """

    name: str
    error_body: Callable[[ErrorReply], JsonObject]
    formats: Mapping[str, WireFormat] = field(default_factory=dict)
    roots: tuple[str, ...] = ()
    claims: Callable[[str, Mapping[str, str]], bool] = _claims_nothing
    id_prefixes: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()
    answer_headers: Callable[[str], Mapping[str, str]] = _no_headers
    model_list: Callable[[list[str]], JsonObject] | None = None
    model_entry: Callable[[str], JsonObject] | None = None


class Protocols:
    """Name -> ClientProtocol, and API type -> WireFormat over all of them."""

    def __init__(self) -> None:
        self._table: dict[str, ClientProtocol] = {}
        self.formats: dict[str, WireFormat] = {}

    def add(self, protocol: ClientProtocol) -> ClientProtocol:
        """Raises ValueError for a name or an API type that is taken: nothing is replaced unseen."""
        if protocol.name in self._table:
            raise ValueError(f"protocol {protocol.name!r} is registered twice")
        for api_type in protocol.formats:
            if api_type in self.formats:
                raise ValueError(f"API type {api_type!r} is registered twice")
        self._table[protocol.name] = protocol
        self.formats.update(protocol.formats)
        return protocol

    def __iter__(self) -> Iterator[ClientProtocol]:
        return iter(tuple(self._table.values()))


EVENT_STREAM = "text/event-stream; charset=utf-8"
"""Media type of Server-Sent Events."""

PROTOCOLS = Protocols()
PLAIN = ClientProtocol("plain", lambda reply: {"error": reply.message})
"""The shape of a failure on a path that no protocol claims."""
WIRE_FORMATS: Mapping[str, WireFormat] = PROTOCOLS.formats
"""API type -> WireFormat: a live view."""


_LINE_ENDS = re.compile("[\x85\u2028\u2029]")


def is_under(path: str, roots: tuple[str, ...]) -> bool:
    return any(path == root or path.startswith(f"{root}/") for root in roots)


def encode_unit(unit: str) -> bytes:
    """UTF-8. Two halves of a surrogate pair become one character, a lone half U+FFFD.

    Line ends of Unicode, which JSON allows in a text, are escaped: readers that cut a stream into lines as
    Python does (httpx, so the `ollama` package) would cut the unit.
    """
    if not unit.isascii() and _LINE_ENDS.search(unit) is not None:
        unit = _LINE_ENDS.sub(lambda end: f"\\u{ord(end[0]):04x}", unit)
    try:
        return unit.encode()
    except UnicodeEncodeError:
        return unit.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


def sse(data: str) -> str:
    r"""One Server-Sent Event, `data: <data>\n\n`. Source: WHATWG HTML, 9.2.6."""
    return f"data: {data}\n\n"


def ndjson(data: str) -> str:
    return f"{data}\n"
