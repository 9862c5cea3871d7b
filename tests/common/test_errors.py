"""The tree of errors: what each says, and which status a client sees."""

from __future__ import annotations

import gc
import traceback
import weakref

import pytest

from Middleware.common import errors
from Middleware.common.errors import (
    KIND_STATUS,
    NOWHERE,
    BackendError,
    ClientRequestError,
    ConfigError,
    ConfigMissing,
    MiddlewareError,
    Position,
    RequestCancelled,
    SlotTimeout,
    WorkflowError,
    escape_controls,
    let_go,
    without_tracebacks,
)

TREE = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)]


@pytest.mark.parametrize("error", TREE)
def test_all_have_one_root(error):
    """And a status."""
    assert issubclass(error, MiddlewareError)
    assert 400 <= error.status_hint < 600


FLOW, HERE = "Workflows/ana/Main.json", Position(4, 9, "Recall")


@pytest.mark.parametrize(
    ("file", "pointer", "position", "text", "cause_first"),
    [
        ("", "", NOWHERE, "no such thing", "no such thing"),
        ("Users/ana.json", "", NOWHERE, "Users/ana.json: no such thing", "no such thing; in Users/ana.json"),
        ("Users/ana.json", "/port", NOWHERE, "Users/ana.json: port: no such thing", "port: no such thing; in Users/ana.json"),
        ("Users/ana.json", "/port", Position(3, 11), "Users/ana.json:3:11: port: no such thing", "port: no such thing; in Users/ana.json:3:11"),
        (FLOW, "/nodes/2/prompt", HERE, f'{FLOW}:4:9: node 3 "Recall", prompt: no such thing', f'node 3 "Recall", prompt: no such thing; in {FLOW}:4:9'),
    ],
    ids=["nowhere", "file", "field", "field-at-its-place", "node-at-its-place"],
)  # fmt: skip
@pytest.mark.parametrize("kind", [ConfigError, ConfigMissing])
def test_a_config_error_says_where(kind, file, pointer, position, text, cause_first):
    """In one sentence, which may begin with the cause; raised once more it says the same."""
    error = kind("no such thing", file=file, pointer=pointer, position=position, excerpt="\n  {]\n   ^")
    assert str(error) == text and error.message == "no such thing"
    assert error.cause_first() == cause_first
    again = error.fresh_copy()
    assert again is not error and str(again) == text
    assert (again.file, again.pointer, again.position, again.excerpt) == (
        file,
        pointer,
        position,
        error.excerpt,
    )


def test_a_missing_file_is_one_for_python_too():
    """The peer's code catches it so."""
    assert isinstance(ConfigMissing("x"), FileNotFoundError)


def test_a_client_error_names_the_field():
    """And has a code for programs."""
    error = ClientRequestError("must be a list", param="messages", code="invalid")
    assert (str(error), error.param, error.code, error.status_hint) == (
        "must be a list",
        "messages",
        "invalid",
        400,
    )


class TestBackendError:
    @pytest.mark.parametrize(("kind", "status"), KIND_STATUS.items())
    def test_the_kind_decides_the_status(self, kind, status):
        """For the client."""
        assert BackendError("big", kind, "no").status_hint == status

    @pytest.mark.parametrize(
        ("status", "text"),
        [
            (None, "endpoint 'big': no"),
            (503, "endpoint 'big' answered 503: no"),
            (200, "endpoint 'big' answered with an error: no"),
        ],
        ids=["none", "refused", "error-in-an-answer"],
    )
    def test_it_names_the_endpoint(self, status, text):
        """And the answer, if there was one."""
        assert str(BackendError("big", "overloaded", "no", status=status)) == text

    def test_an_overflow_has_the_code_that_clients_know(self):
        """Others have a common one."""
        assert BackendError("big", "context_overflow", "no").code == "context_length_exceeded"
        assert BackendError("big", "timeout", "no").code == "backend_error"

    def test_no_free_slot_is_a_time_out(self):
        """Of Python's as well."""
        error = SlotTimeout("big", "no slot within 3 s")
        assert isinstance(error, TimeoutError) and error.kind == "slot_timeout"
        assert str(error) == "endpoint 'big': no slot within 3 s"


class TestWorkflowError:
    def test_it_has_the_status_of_its_cause(self):
        """With its code, kind and wait."""
        cause = BackendError("big", "rate_limited", "slow down", retry_after_s=7)
        error = WorkflowError("node 2 failed", workflow="Workflows/a/Main.json", node=2, cause=cause)
        assert (error.status_hint, error.code, error.kind, error.retry_after_s) == (
            429,
            "backend_error",
            "rate_limited",
            7,
        )

    def test_without_one_of_ours_it_is_a_500(self):
        """A fault inside."""
        error = WorkflowError("node 2 failed", workflow="w", node=2, cause=ValueError("x"), chain=("a", "w"))
        assert (error.status_hint, error.code, error.kind, error.chain) == (500, None, None, ("a", "w"))


def test_a_cancelled_request_says_so():
    """It is no failure."""
    assert str(RequestCancelled()) == "request was cancelled"


class TestLetGo:
    """An error that is caught for good must not keep alive what the calls that it came through had in hand."""

    def test_the_variables_of_finished_calls_are_dropped(self, without_collection):
        """A value that only a call of the traceback knew is gone, the error and its lines are not."""
        value = Held()
        watch = weakref.ref(value)
        error = failure_through(value)
        del value
        let_go(error)
        assert watch() is None
        assert [line.name for line in traceback.extract_tb(error.__traceback__)] == [
            "failure_through",
            "deep",
        ]

    def test_causes_let_go_as_well(self, without_collection):
        """What stands behind the error keeps nothing either, be it its cause or what it came up beside."""
        value = Held()
        watch = weakref.ref(value)
        error = RuntimeError("told to the caller")
        error.__cause__ = failure_through(value)
        del value
        let_go(error)
        assert watch() is None

    def test_a_circle_of_causes_ends(self):
        """Errors that name each other are gone through once."""
        one, other = ValueError("one"), ValueError("other")
        one.__context__, other.__cause__ = other, one
        let_go(one)
        assert other.__cause__ is one

    def test_an_error_that_is_not_raised_needs_no_traceback(self, without_collection):
        """Without tracebacks neither the error nor its cause leads to any call."""
        error = failure_through(Held())
        error.__cause__ = failure_through(Held())
        without_tracebacks(error)
        assert (error.__traceback__, error.__cause__.__traceback__) == (None, None)


class Held:
    """Something that can be watched."""


def failure_through(value):
    """An error that came through a call which held `value`, and the error itself."""

    def deep(kept):
        error = ValueError("deep")
        raise error

    try:
        deep(value)
    except ValueError as error:
        return error


@pytest.fixture
def without_collection():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


class TestEscapeControls:
    """Texts of strangers in messages."""

    @pytest.mark.parametrize(
        ("text", "line", "lines"),
        [
            ("plain, l\u2019\u00e9t\u00e9\u00a0\U0001f600", None, None),
            ("a\x1b[8mb\x7f\x9bc", "a\\x1b[8mb\\x7f\\x9bc", "a\\x1b[8mb\\x7f\\x9bc"),
            ("a\n\tb\r\nc\rd", "a\\x0a\\x09b\\x0d\\x0ac\\x0dd", "a\n\tb\nc\\x0dd"),
            ("a\u202eb\u2028\ud83d", "a\\u202eb\\u2028\\ud83d", "a\\u202eb\\u2028\\ud83d"),
        ],
        ids=["plain", "steers", "line-ends", "turns-round"],
    )
    def test_what_steers_a_terminal_is_written_out(self, text, line, lines):
        """Line ends and tabs, too, where one line is meant."""
        assert escape_controls(text) == (line or text)
        assert escape_controls(text, lines=True) == (lines or text)

    def test_a_config_error_is_one_line_that_steers_nothing(self):
        """Neither by the name of a node or of a field, nor by what was found there."""
        error = ConfigError(
            "found \x1b[2J", file="Workflows/a.json", pointer="/0/x\n", position=Position(1, 2, "t\x1b[8m")
        )
        assert str(error) == ('Workflows/a.json:1:2: node 1 "t\\x1b[8m", x\\x0a: found \\x1b[2J')
