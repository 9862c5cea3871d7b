"""Secrets never reach a log: a filter that masks them, and what stands for content that is not shown.

The state "redaction is on" is the current request's `privacy`; it follows the request into every thread.
Source: spec memory.md 14 and 18.7, frontend-api.md 6.3.
"""

from __future__ import annotations

import logging
import re

from Middleware.common.errors import (
    BackendError,
    ClientRequestError,
    ConfigError,
    RequestCancelled,
    ServerBusy,
    WorkflowError,
)
from Middleware.common.request_context import current_request
from Middleware.common.secrets import mask_secrets
from Middleware.config.endpoints import secrets_in_use

logger = logging.getLogger(__name__)

REDACTED = "[Redacted]"
_IMAGE = re.compile(r"(data:image/[a-zA-Z0-9.+-]++;base64,)([A-Za-z0-9+/=]{200,}+)")
LONG = 1000
_END = 100
_IMAGE_END = 50


def redaction_is_on() -> bool:
    """Whether prompts and answers of the current request must not be logged."""
    request = current_request()
    return request is not None and request.privacy


def loggable_text(text: str) -> str:
    """A prompt or answer as a log line at DEBUG may show it, or an excerpt of one at any level: shortened,
    or `[Redacted]`.
    """
    return REDACTED if redaction_is_on() else shorten_text(text)


def loggable_whole_text(text: str) -> str:
    """As `shown`, for a line above DEBUG that is about a whole text: without DEBUG its length alone."""
    return (
        loggable_text(text)
        if redaction_is_on() or logger.isEnabledFor(logging.DEBUG)
        else f"({len(text)} characters)"
    )


def shorten_text(text: str) -> str:
    """Base64 images keep their prefix and 50 characters at each end, long texts 100 at each end."""
    text = _IMAGE.sub(lambda m: f"{m[1]}{m[2][:_IMAGE_END]}...{m[2][-_IMAGE_END:]}", text)
    return text if len(text) <= LONG else f"{text[:_END]}...{text[-_END:]}"


def without_quotes(error: BaseException) -> str:
    """What failed and where, for people; not the text of the failure, it may quote a prompt (backends do)."""
    if isinstance(error, ClientRequestError | ServerBusy | RequestCancelled | ConfigError):
        return str(error)
    place = f"; in {error.workflow}, node {error.node}" if isinstance(error, WorkflowError) else ""
    cause = error.__cause__ if isinstance(error, WorkflowError) and error.__cause__ else error
    if isinstance(cause, BackendError):
        answered = f" answered {cause.status}" if (cause.status or 0) >= 300 else " failed"
        return f"{cause.who()}{answered} ({cause.kind}){place}"
    return f"failed ({type(cause).__name__}){place}"


def loggable_error(error: BaseException) -> str:
    """An error as a log line of one text may tell it: the filter sees only errors that are arguments."""
    return without_quotes(error) if redaction_is_on() else str(error)


class SensitiveFilter(logging.Filter):
    """Stands on every handler: writes the request's user into the record and masks what is secret in it.

    With redaction on the errors that a record tells of are told without what they quote.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        if getattr(record, "is_masked", False):
            return True
        request = current_request()
        record.user = request.user if request else "system"
        hidden = (request.api_key if request else None, *secrets_in_use())
        if request and request.privacy and isinstance(record.args, tuple):
            record.args = tuple(
                without_quotes(arg) if isinstance(arg, BaseException) else arg for arg in record.args
            )
        record.msg, record.args = mask_secrets(record.getMessage(), *hidden), ()
        if record.exc_info and not record.exc_text:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
        if record.exc_text:
            record.exc_text = _discreet(mask_secrets(record.exc_text, *hidden))
        record.is_masked = True
        return True


def _discreet(traceback: str) -> str:
    """A traceback quotes its error's text, which may quote a prompt: with redaction on that is not shown."""
    if not redaction_is_on():
        return traceback
    frames = [line for line in traceback.splitlines() if line.startswith(("  File ", "Traceback"))]
    return "\n".join([*frames, REDACTED])
