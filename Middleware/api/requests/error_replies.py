"""An exception -> status, body and headers in the caller's own protocol. Pure.

Source: spec frontend-api.md 12.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from Middleware.common.errors import (
    KIND_STATUS,
    ClientRequestError,
    MiddlewareError,
    ServerBusy,
)
from Middleware.common.types import JsonObject
from Middleware.protocols.registry import error_object
from Middleware.utilities.sensitive_logging_utils import without_quotes

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
_OPENAI_PATHS = ("/v1", "/chat/completions", "/completions", "/models")
UNSUPPORTED_PATHS = (
    "/api/pull",
    "/api/push",
    "/api/create",
    "/api/copy",
    "/api/delete",
    "/api/blobs",
    "/api/embed",
    "/api/embeddings",
    "/v1/embeddings",
    "/embeddings",
    "/v1/responses",
    "/v1/messages",
    "/props",
    "/tokenize",
)


@dataclass(frozen=True, slots=True)
class ErrorReply:
    """What the client is told. `message`: one sentence for people."""

    status: int
    message: str
    param: str | None = None
    code: str | int | None = None
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """The error's `type` in the OpenAI protocol."""
        if self.code == "model_not_found":  # what OpenAI itself says of it
            return "invalid_request_error"
        return _TYPES.get(self.status, "server_error")

    def body(self, path: str) -> JsonObject:
        """The JSON body in the protocol of the path."""
        if is_under(path, _OPENAI_PATHS):
            return error_object(self.message, self.kind, self.param, self.code)
        return {"error": self.message}


class StreamFailure(MiddlewareError):
    """A backend's stream ended with an error dict (`kind`, `message`; backends.md 10)."""

    def __init__(self, error: JsonObject) -> None:
        kind = str(error.get("kind", ""))
        self.status_hint = KIND_STATUS.get(kind, 502)
        self.code = "context_length_exceeded" if kind == "context_overflow" else "backend_error"
        super().__init__(str(error.get("message") or "the backend failed"))


def is_under(path: str, roots: tuple[str, ...]) -> bool:
    return any(path == root or path.startswith(f"{root}/") for root in roots)


def reply_to(error: BaseException, request_id: str, *, privacy: bool = False) -> ErrorReply:
    """What to tell the client about a failure. `privacy`: nothing that may quote a prompt."""
    said = f"{_sentence(error, privacy)} (request {request_id})"
    if not isinstance(error, MiddlewareError):
        return ErrorReply(500, said, headers={"x-should-retry": "false"})
    if isinstance(error, ClientRequestError):
        return ErrorReply(error.status_hint, said, error.param, error.code)
    headers = {} if isinstance(error, ServerBusy) else {"x-should-retry": "false"}
    if error.retry_after_s is not None and error.status_hint in (429, 503):
        headers["Retry-After"] = str(max(1, round(error.retry_after_s)))
    code = 503 if isinstance(error, ServerBusy) else error.code
    return ErrorReply(error.status_hint, said, code=code, headers=headers)


def _sentence(error: BaseException, privacy: bool) -> str:
    if not isinstance(error, MiddlewareError):
        return f"internal error ({type(error).__name__}); the server's log says more"
    said = without_quotes(error) if privacy else str(error)
    return " ".join(said.split()) or type(error).__name__
