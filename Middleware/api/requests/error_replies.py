"""An exception -> what the client is told of it: status, sentence, headers. Pure.

The protocol of the request shapes the body (`ClientProtocol.error_body`).

Source: spec frontend-api.md 12.
"""

from __future__ import annotations

from collections.abc import Iterable

from Middleware.common.errors import (
    ClientRequestError,
    ConfigError,
    MiddlewareError,
    RequestCancelled,
    ServerBusy,
)
from Middleware.protocols.base import ErrorReply
from Middleware.utilities.sensitive_logging_utils import without_quotes
from Middleware.utilities.text_utils import sentence_of

NO_FAULT_OF_FILES = (ClientRequestError, ServerBusy, RequestCancelled)


def reply_to(
    error: BaseException, request_id: str, *, privacy: bool = False, outdated: Iterable[str] = ()
) -> ErrorReply:
    """What to tell the client about a failure. `privacy`: nothing that may quote a prompt. `outdated`: the
    sentences about files whose last good version was used, which come first: the error may be theirs.
    """
    before = "" if isinstance(error, NO_FAULT_OF_FILES) else outdated_first(outdated)
    said = f"{before}{_sentence(error, privacy)} (request {request_id})"
    if not isinstance(error, MiddlewareError):
        headers = {"x-should-retry": "false"}
        return ErrorReply(500, said, headers=headers, request_id=request_id)
    if isinstance(error, ClientRequestError):
        return ErrorReply(error.status_hint, said, error.param, error.code, request_id=request_id)
    headers = {} if isinstance(error, ServerBusy) else {"x-should-retry": "false"}
    if error.retry_after_s is not None and error.status_hint in (429, 503):
        headers["Retry-After"] = str(max(1, round(error.retry_after_s)))
    code = 503 if isinstance(error, ServerBusy) else error.code
    return ErrorReply(error.status_hint, said, code=code, headers=headers, request_id=request_id)


def outdated_first(outdated: Iterable[str]) -> str:
    """What is said before anything else of a request that used old versions of files; "" if it did not."""
    return "".join(f"{sentence_of(' '.join(said.split()))}. " for said in outdated)


def _sentence(error: BaseException, privacy: bool) -> str:
    if not isinstance(error, MiddlewareError):
        return f"internal error ({type(error).__name__}); the server's log says more"
    quotes_nobody = isinstance(error, ConfigError)
    said = error.cause_first() if quotes_nobody or not privacy else without_quotes(error)
    return sentence_of(" ".join(said.split())) or type(error).__name__
