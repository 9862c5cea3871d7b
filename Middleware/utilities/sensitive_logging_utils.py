"""Secrets never reach a log: a filter that masks them, and what stands for content that is not shown.

The state "redaction is on" is the current request's `privacy`; it follows the request into every thread.
Source: spec memory.md 14 and 18.7, frontend-api.md 6.3.
"""

from __future__ import annotations

import base64
import logging
import re
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from Middleware.common.errors import (
    BackendError,
    ClientRequestError,
    ConfigError,
    RequestCancelled,
    ServerBusy,
    WorkflowError,
)
from Middleware.common.request_context import current_request
from Middleware.config.endpoints import secrets_in_use

logger = logging.getLogger(__name__)

REDACTED = "[Redacted]"
MASK = "***"
SECRET_KEYS = frozenset(
    {
        "access_token",
        "api_key",
        "api_secret",
        "apikey",
        "auth",
        "auth_token",
        "authorization",
        "bearer_token",
        "client_secret",
        "passwd",
        "password",
        "private_key",
        "privatekey",
        "pwd",
        "refresh_token",
        "secret",
        "token",
    }
)
SECRET_NAME = re.compile("auth|cookie|key|passw|secret|token", re.IGNORECASE)
"""In the name of a header or an environment variable: its value is a secret."""
# Each pattern starts at a literal and never gives back what it took, or the time would grow with the square
# of a long prompt's length.
_BEARER = re.compile(r"(?i)\b(bearer\s++)[^\s'\",;]++")
_AUTHORIZATION = re.compile(r"(?i)(authorization['\"]?\s*+[:=]\s*+['\"]?[a-z]++\s++)[^\s'\",;]++")
_HINTS = (
    *("key", "secret", "auth", "passw", "pwd", "bearer", "@", "aiza"),
    *(f"{start}{mark}" for start in ("sk", "pk", "rk", "xai", "gsk", "hf", "ghp") for mark in "-_"),
)
_TOKEN = re.compile(r"token['\"]?\s*+[:=]")
"""A text without any of these needs no closer look."""
_URL_PASSWORD = re.compile(r"((?<=[a-zA-Z0-9+.-])://[^\s/:@'\"]*+:)[^\s/@'\"]++(@)")
_AS_LONG_AS_A_TOKEN = 16
_URL_TOKEN = re.compile(rf"((?<=[a-zA-Z0-9+.-])://)[^\s/:@'\"]{{{_AS_LONG_AS_A_TOKEN},}}+(@)")
"""A user name as long as a token, without a password."""
_NAMED = re.compile(
    r"(?i)(['\"]?\b(?:x-)?(?:" + "|".join(sorted(SECRET_KEYS)).replace("_", "[_-]?") + r")['\"]?\s*+[:=]\s*+)"
    r"(['\"]?)(?!bearer\b)[^\s'\",;}&]++"
)
_KEY_LIKE = re.compile(r"\b(?:sk|pk|rk|xai|gsk|hf|ghp|AIza)[-_][A-Za-z0-9_-]{12,}+|\bAIza[A-Za-z0-9_-]{20,}+")
_IMAGE = re.compile(r"(data:image/[a-zA-Z0-9.+-]++;base64,)([A-Za-z0-9+/=]{200,}+)")
LONG = 1000
_END = 100
_IMAGE_END = 50
MIN_SECRET = 6
"""A shorter key is not searched for in texts: it would be found everywhere."""


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


def mask_secrets(text: str, *secrets: str | None) -> str:
    """`text` without bearer tokens, values of secret names, passwords in URLs, and the given secrets."""
    for secret in secrets:
        if secret and len(secret) >= MIN_SECRET:
            text = text.replace(secret, MASK)
    lowered = text.lower()
    if not any(hint in lowered for hint in _HINTS) and not ("token" in lowered and _TOKEN.search(lowered)):
        return text
    text = _AUTHORIZATION.sub(rf"\1{MASK}", text)
    text = _BEARER.sub(rf"\1{MASK}", text)
    text = _NAMED.sub(rf"\1\2{MASK}", text)
    return _KEY_LIKE.sub(MASK, without_url_passwords(text))


def without_url_passwords(text: str) -> str:
    """`text` without passwords in URLs, and without user names there that are as long as a token."""
    if "@" not in text:
        return text
    return _URL_TOKEN.sub(rf"\1{MASK}\2", _URL_PASSWORD.sub(rf"\1{MASK}\2", text))


def has_url_password(text: str) -> bool:
    """Whether `without_url_passwords` finds something in a text, or found it before."""
    return "@" in text and bool(
        _URL_PASSWORD.search(text) or _URL_TOKEN.search(text) or f"://{MASK}@" in text
    )


def secrets_of_url(url: str) -> tuple[str, ...]:
    """The password in a URL, as it is written, as it is meant, and as `Authorization` carries it; a long
    user name without one, which is a token then; and what its query names a secret.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return ()
    queried = [value for name, value in parse_qsl(parts.query) if SECRET_NAME.search(name)]
    if not parts.password:
        token = parts.username or ""
        return (*queried, token, unquote(token)) if len(token) >= _AS_LONG_AS_A_TOKEN else tuple(queried)
    user, password = unquote(parts.username or ""), unquote(parts.password)
    return (*queried, parts.password, password, base64.b64encode(f"{user}:{password}".encode()).decode())


def masked_config(value: Any) -> Any:
    """A copy of a config value in which the values of secret names are masked."""
    if isinstance(value, dict):
        return {
            key: MASK if str(key).lower() in SECRET_KEYS else masked_config(item)
            for key, item in value.items()
        }
    return [masked_config(item) for item in value] if isinstance(value, list) else value


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
