"""Errors, from broad to narrow. Catch the broad one; raise the narrow one.

MiddlewareError            status_hint 500
    ConfigError            a JSON file is wrong (file, JSON pointer, found, allowed)
        ConfigMissing      a file that a name leads to does not exist (also a FileNotFoundError)
    ClientRequestError     400  the caller's request is wrong (param, code)
        NotFound           404  nothing by that name
        Unauthorized       401  no valid API key
        Forbidden          403  origin or host not allowed
        Unsupported        415  the body is coded in a way that is not read
        Unprocessable      422  a config file that the request is about has faults
    ServerBusy             503  no free slot in time, or the queue is full
    RateLimited            429  a key has used what its entry allows
    WorkflowError          a node failed (workflow, node number, title, type); its status is that of its cause
    BackendError           502  a backend failed (endpoint name, kind), also a RuntimeError; the kind may name
                                another status
        SlotTimeout        503  no free slot for an outgoing call in time (also a TimeoutError)
    RequestCancelled       499  the request was cancelled; never a failure
    EarlyTermination       a run ends here by design (a lock that is held); never a failure
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

# --------------------------------------------------------------------------
# Texts of strangers in messages: of packs, model servers, clients, and names in config files.

_STEERING = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_STEERING_IN_LINE = re.compile(_STEERING.pattern.replace("\x00-\x1f", "\x00-\x08\x0b-\x1f"))


def escape_controls(text: str, *, lines: bool = False) -> str:
    r"""`text` without what could steer a terminal, hide what follows or turn it round: `\x1b` instead.

    `lines`: line ends and tabs stay; without it nothing can look like a line of its own.
    """
    if text.isprintable():
        return text
    if lines:
        return _STEERING_IN_LINE.sub(_escape, text.replace("\r\n", "\n"))
    return _STEERING.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


# --------------------------------------------------------------------------
# How messages name a place in a config file: `file:line:column`, then the node, then the field. Pure.


@dataclass(frozen=True, slots=True)
class Position:
    """Where a value stands in the text of its file, from 1; 0: not known. `title`: of the node around it."""

    line: int = 0
    column: int = 0
    title: str = ""


NOWHERE = Position()
_LONGEST_INDEX = 9
"""Digits. What is longer is a key: no list is that long, and Python reads no thousands of digits."""


def file_place(file: str, position: Position = NOWHERE) -> str:
    """`Users/ana.json:3:11`, or the file alone."""
    shown = escape_controls(file)
    return f"{shown}:{position.line}:{position.column}" if position.line else shown


def subject(file: str, pointer: str, position: Position = NOWHERE) -> str:
    """`node 3 "Recall", endpointName` of a JSON pointer; empty for a whole file."""
    parts = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
    index = node_index(file, pointer)
    if index is None:
        return _field(parts)
    named = f' "{escape_controls(position.title)}"' if position.title else ""
    return ", ".join(filter(None, [f"node {index + 1}{named}", _field(parts[_depth(parts) :])]))


def node_index(file: str, pointer: str) -> int | None:
    """The index of the node that a pointer leads to or into; None: to none."""
    parts = pointer.split("/")[1:]
    depth = _depth(parts) if file.startswith("Workflows/") else len(parts) + 1
    part = parts[depth - 1] if len(parts) >= depth else ""
    return int(part) if part.isdecimal() and len(part) <= _LONGEST_INDEX else None


def where(file: str, pointer: str, position: Position = NOWHERE) -> str:
    """The whole place, as it begins a message."""
    return ": ".join(filter(None, [file_place(file, position), subject(file, pointer, position)]))


def _depth(parts: list[str]) -> int:
    """How many parts of a workflow pointer lead to its node: `/nodes/2` or `/2`."""
    return 2 if parts[:1] == ["nodes"] else 1


def _field(parts: list[str]) -> str:
    """`routeOverrides.small.prompt`, `scoped_variables[0]`."""
    words = "".join(f"[{part}]" if part.isdecimal() and at else f".{part}" for at, part in enumerate(parts))
    return escape_controls(words.removeprefix("."))


# --------------------------------------------------------------------------


class MiddlewareError(Exception):
    """Root of the tree. `status_hint`: HTTP status to the client; `code`: its name for programs, or None."""

    status_hint: int = 500
    code: str | None = None
    retry_after_s: float | None = None

    def cause_first(self) -> str:
        """The sentence for a chat, where only its beginning is seen: what is wrong, then where."""
        return str(self)


class ConfigError(MiddlewareError):
    """A configuration file is wrong.

    `file`: path below the config root. `pointer`: JSON pointer (`/nodes/2/endpointName`) or `""`.
    `position`: where that stands in the text, when it is known. `excerpt`: the line that is no JSON, with a
    caret below. The text is one sentence: `<file>:<line>:<column>: <node>, <field>: <message>`.
    """

    def __init__(
        self,
        message: str,
        *,
        file: str = "",
        pointer: str = "",
        position: Position = NOWHERE,
        excerpt: str = "",
    ) -> None:
        message = escape_controls(message, lines=True)
        self.message, self.file, self.pointer = message, file, pointer
        self.position, self.excerpt = position, excerpt
        place = where(file, pointer, position)
        super().__init__(f"{place}: {message}" if place else message)

    def cause_first(self) -> str:
        about = subject(self.file, self.pointer, self.position)
        said = f"{about}: {self.message}" if about else self.message
        return f"{said}; in {file_place(self.file, self.position)}" if self.file else said

    def fresh_copy(self) -> ConfigError:
        """The same, to be raised once more: an exception object keeps what it was raised through."""
        return ConfigError(
            self.message,
            file=self.file,
            pointer=self.pointer,
            position=self.position,
            excerpt=self.excerpt,
        )


class ConfigMissing(ConfigError, FileNotFoundError):
    """A file that a name leads to does not exist; the message lists the paths that were tried."""

    def __str__(self) -> str:  # OSError has its own idea of a text
        return str(self.args[0]) if self.args else ""


class ClientRequestError(MiddlewareError):
    """The caller's request is wrong. `param`: the field at fault, e.g. `messages[0].role`."""

    status_hint = 400

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        self.param, self.code = param, code
        super().__init__(message)


class NotFound(ClientRequestError):
    status_hint = 404


class Unauthorized(ClientRequestError):
    """`challenge`: value of `WWW-Authenticate`; empty: the header is not sent."""

    status_hint = 401

    def __init__(self, message: str, *, challenge: str = "") -> None:
        super().__init__(message)
        self.challenge = challenge


class Forbidden(ClientRequestError):
    status_hint = 403


class Conflict(ClientRequestError):
    """What is asked does not fit what is there now."""

    status_hint = 409


class TooLarge(ClientRequestError):
    status_hint = 413


class Unsupported(ClientRequestError):
    status_hint = 415


class Unprocessable(ClientRequestError):
    status_hint = 422


class ServerBusy(MiddlewareError):
    status_hint = 503
    retry_after_s = 5.0


class RateLimited(MiddlewareError):
    """A key has used what its entry allows. `limit`: the field that says so; `is_for_day`: nothing is left of
    the day. Source: spec keys.md 4.
    """

    status_hint = 429

    def __init__(self, message: str, *, limit: str, retry_after_s: int, is_for_day: bool = False) -> None:
        self.limit, self.retry_after_s, self.is_for_day = limit, retry_after_s, is_for_day
        self.code = "insufficient_quota" if is_for_day else "rate_limit_exceeded"
        super().__init__(message)


class WorkflowError(MiddlewareError):
    """A node failed. Made once, by the loop, around the narrow error (`__cause__`).

    `workflow`: file below the config root, `node`: 1-based number, `chain`: workflow names from the first to
    the innermost. `said`: the same sentence with its cause first; none: `message`.
    """

    def __init__(
        self,
        message: str,
        *,
        workflow: str,
        node: int,
        cause: BaseException | None = None,
        chain: tuple[str, ...] = (),
        said: str = "",
    ) -> None:
        self.workflow, self.node, self.chain = workflow, node, chain
        self._said = said or message
        if isinstance(cause, MiddlewareError):
            self.status_hint = cause.status_hint
            self.code = cause.code
            self.retry_after_s = cause.retry_after_s
        self.kind = getattr(cause, "kind", None)
        super().__init__(message)

    def cause_first(self) -> str:
        return self._said


KIND_STATUS = {
    "config_error": 500,
    "bad_url": 502,
    "connect_error": 502,
    "timeout": 504,
    "auth": 502,
    "not_found": 502,
    "bad_request": 400,
    "backend_error": 502,
    "context_overflow": 400,
    "rate_limited": 429,
    "overloaded": 503,
    "server_error": 502,
    "stream_error": 502,
    "connection_lost": 502,
    "protocol_error": 502,
    "slot_timeout": 503,
}
"""Kind of a backend failure -> HTTP status to the client. Source: spec backends.md 16."""


class BackendError(MiddlewareError, RuntimeError):
    """A backend failed.

    `kind`: a key of KIND_STATUS. `status`: the backend's HTTP status, or None when there was no answer.
    `native`: its error body, at most 4 KiB of it. `retry_after_s`: what it asked for. Never holds a key or a
    prompt.
    """

    def __init__(
        self,
        endpoint: str,
        kind: str,
        message: str,
        *,
        status: int | None = None,
        native: Any = None,
        retryable: bool = False,
        retry_after_s: float | None = None,
    ) -> None:
        self.endpoint, self.kind, self.message = endpoint, kind, message
        self.status, self.native, self.retryable = status, native, retryable
        self.retry_after_s = retry_after_s
        self.status_hint = KIND_STATUS[kind]
        self.code = "context_length_exceeded" if kind == "context_overflow" else "backend_error"
        self.file = ""
        super().__init__(self._sentence())

    def _sentence(self) -> str:
        answered = ""
        if self.status is not None:
            answered = f" answered {self.status}" if self.status >= 300 else " answered with an error"
        return f"{self.who()}{answered}: {self.message}"

    def who(self) -> str:
        """`endpoint 'Main' (Endpoints/my-model/Main.json)`; the file where it is known."""
        return f"endpoint '{self.endpoint}'" + (f" ({self.file})" if self.file else "")

    def name_file(self, file: str) -> None:
        """Say in which file the endpoint is: for whoever knows the config tree."""
        self.file = file
        self.args = (self._sentence(),)


class SlotTimeout(BackendError, TimeoutError):
    """No free slot for an outgoing call in time; never a reason for failover."""

    def __init__(self, endpoint: str, message: str) -> None:
        super().__init__(endpoint, "slot_timeout", message)

    def __str__(self) -> str:  # OSError has its own idea of a text
        return str(self.args[0]) if self.args else ""


class RequestCancelled(MiddlewareError):
    """The request was cancelled (hang-up, DELETE, displaced by a retry, shutdown)."""

    status_hint = 499

    def __init__(self, message: str = "request was cancelled") -> None:
        super().__init__(message)


class EarlyTermination(MiddlewareError):
    """A lock is held: this run and its parents end here. `locked_message`: the answer if there was none
    yet.
    """

    def __init__(self, message: str = "", *, locked_message: str = "") -> None:
        self.locked_message = locked_message
        super().__init__(message)


def let_go(error: BaseException) -> None:
    """Drop the local variables of the calls that `error` came through; its traceback keeps their lines.

    Such a variable often holds the error itself, or what leads to it: a reference cycle that would keep the
    whole conversation. For whoever catches an error for good. Calls that still run are left alone.
    """
    for one in _causes(error):
        traceback.clear_frames(one.__traceback__)


def without_tracebacks(error: BaseException) -> None:
    """For an error that is kept or dropped without being raised: nobody will ask where it came from."""
    for one in _causes(error):
        one.__traceback__ = None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error, its causes, and those that it came up beside."""
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        one = pending.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            yield one
            pending += [one.__cause__, one.__context__]
