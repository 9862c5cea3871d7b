"""Failures in the caller's own protocol (frontend-api.md 12)."""

from __future__ import annotations

import pytest

from Middleware.api.requests.request_life import reply_to
from Middleware.common.errors import (
    BackendError,
    ClientRequestError,
    ConfigError,
    Forbidden,
    NotFound,
    RequestCancelled,
    ServerBusy,
    SlotTimeout,
    Unauthorized,
    WorkflowError,
)


def backend(kind, **more):
    return BackendError("Big", kind, "it said no", **more)


def failed(cause):
    error = WorkflowError(f"Main.json, node 3: {cause}", workflow="Main.json", node=3, cause=cause)
    error.__cause__ = cause
    return error


KINDS = [
    (ClientRequestError("x", param="p", code="c"), 400, "invalid_request_error", "c", None),
    (Unauthorized("x"), 401, "authentication_error", None, None),
    (Forbidden("x"), 403, "permission_error", None, None),
    (NotFound("x"), 404, "not_found_error", None, None),
    (RequestCancelled(), 499, "request_cancelled", None, "false"),
    (ConfigError("x", file="Users/a.json"), 500, "server_error", None, "false"),
    (ValueError("x"), 500, "server_error", None, "false"),
    (ServerBusy("x"), 503, "server_error", 503, None),
    (SlotTimeout("Big", "x"), 503, "server_error", "backend_error", "false"),
    (backend("connect_error"), 502, "server_error", "backend_error", "false"),
    (backend("timeout"), 504, "server_error", "backend_error", "false"),
    (backend("bad_request"), 400, "invalid_request_error", "backend_error", "false"),
    (backend("context_overflow"), 400, "invalid_request_error", "context_length_exceeded", "false"),
    (backend("rate_limited", retry_after_s=7), 429, "rate_limit_error", "backend_error", "false"),
    (failed(backend("overloaded")), 503, "server_error", "backend_error", "false"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("error", "status", "kind", "code", "retry"), KINDS, ids=lambda v: getattr(v, "kind", str(v))
)
def test_status_type_and_code(error, status, kind, code, retry):
    """The table of 12.2; the SDK must not repeat a workflow."""
    reply = reply_to(error, "R")
    assert (reply.status, reply.kind, reply.code) == (status, kind, code)
    assert reply.headers.get("x-should-retry") == retry
    assert reply.message.endswith("(request R)")


def test_a_busy_server_says_when_to_come_back():
    """And so does a backend that named a time."""
    assert reply_to(ServerBusy("x"), "R").headers == {"Retry-After": "5"}
    assert reply_to(backend("rate_limited", retry_after_s=7), "R").headers["Retry-After"] == "7"


def test_a_bug_does_not_tell_its_text():
    """It may hold anything; the log has the traceback."""
    message = reply_to(ValueError("secret"), "R").message
    assert "secret" not in message and "ValueError" in message


def test_the_message_is_one_line():
    """For people."""
    assert reply_to(ConfigError("a\n  b"), "R").message == "a b (request R)"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (failed(backend("server_error", status=500)), "endpoint 'Big' answered 500 (server_error); in Main.json, node 3 (request R)"),
        (backend("connect_error"), "endpoint 'Big' failed (connect_error) (request R)"),
        (failed(KeyError("prompt text")), "failed (KeyError); in Main.json, node 3 (request R)"),
        (ClientRequestError("messages[0] has no 'role'"), "messages[0] has no 'role' (request R)"),
    ],
    ids=["backend-in-node", "backend", "bug-in-node", "client"],
)  # fmt: skip
def test_with_privacy_nothing_of_a_prompt_is_quoted(error, expected):
    """Where it failed, not what was said."""
    assert reply_to(error, "R", privacy=True).message == expected


def test_a_sentence_does_not_repeat_a_megabyte():
    """What a client sent stands in it up to a limit; the id of the request is never cut off."""
    said = reply_to(ClientRequestError(f"no '{'x' * 1_000_000}'"), "R").message
    assert len(said) < 2100 and said.endswith("x... (request R)")


@pytest.mark.parametrize("privacy", [False, True])
def test_the_cause_comes_first(privacy):
    """A chat bubble shows the beginning of a sentence; the place of a file's fault quotes no prompt."""
    error = ConfigError("found 5, allowed: a string", file="Users/mira.json", pointer="/port")
    said = "port: found 5, allowed: a string; in Users/mira.json (request R)"
    assert reply_to(error, "R", privacy=privacy).message == said
