"""Secrets never reach a log (memory.md 14, 18.7)."""

from __future__ import annotations

import logging
import signal
import sys

import pytest

from Middleware.common.errors import BackendError, ConfigMissing
from Middleware.common.request_context import RequestContext, enter_request
from Middleware.common.secrets import MASK, mask_config, mask_secrets, secrets_of_url
from Middleware.utilities.sensitive_logging_utils import (
    REDACTED,
    SensitiveFilter,
    loggable_error,
    loggable_text,
    loggable_whole_text,
    redaction_is_on,
    shorten_text,
)

PRIVATE = RequestContext("r", "mira", "x", api_key="client-key-1", privacy=True)
OPEN = RequestContext("r", "mira", "x", api_key="client-key-1")

MASKED = [
    ("Authorization: Bearer abc.def", "abc.def"),
    ("{'Authorization': 'bearer abcdef'}", "abcdef"),
    ('{"api_key": "hush"}', "hush"),
    ("apiKey=hush&x=1", "hush"),
    ("x-api-key: hush", "hush"),
    ("password = hush", "hush"),
    ("http://me:hush@host/x", "hush"),
    ("https://0123456789abcdef@host/x", "0123456789abcdef"),
    ("key sk-abcdefghijklmnop used", "sk-abcdefghijklmnop"),
]


@pytest.mark.parametrize(("text", "secret"), MASKED, ids=[text for text, _ in MASKED])
def test_secrets_in_texts(text, secret):
    """Bearer tokens, values of secret names, passwords in URLs, what looks like a key."""
    assert secret not in mask_secrets(text) and MASK in mask_secrets(text)


@pytest.mark.parametrize(
    "text",
    [
        "12 tokens in 3 s",
        "the secret garden",
        "http://host:80/path",
        "postgres://postgres@host/",
        "ask-a-question-now",
    ],
)
def test_ordinary_texts_stay(text):
    """What only looks alike is shown."""
    assert mask_secrets(text) == text


def test_known_secrets_are_masked_wherever_they_stand():
    """But for one that is too short to be told from a word."""
    assert mask_secrets("a client-key-1 b", "client-key-1", None) == f"a {MASK} b"
    assert mask_secrets("an apple", "an") == "an apple"


def test_configs_are_dumped_without_secrets():
    """At any depth, names in any case; nothing is changed in place."""
    config = {"endpoint": "u", "API_KEY": "hush", "more": [{"Token": "hush", "n": 1}]}
    assert mask_config(config) == {"endpoint": "u", "API_KEY": MASK, "more": [{"Token": MASK, "n": 1}]}
    assert config["API_KEY"] == "hush"


class TestContent:
    def test_redaction_follows_the_request(self):
        """Only inside one whose privacy is on."""
        assert not redaction_is_on()
        with enter_request(OPEN):
            assert not redaction_is_on() and loggable_text("a prompt") == "a prompt"
        with enter_request(PRIVATE):
            assert redaction_is_on() and loggable_text("a prompt") == REDACTED

    def test_a_whole_text_above_debug_is_measured(self, caplog):
        """At DEBUG it is there anyway; in a private request it never is."""
        caplog.set_level(logging.INFO, logger="Middleware")
        assert loggable_whole_text("a prompt") == "(8 characters)"
        caplog.set_level(logging.DEBUG, logger="Middleware")
        assert loggable_whole_text("a prompt") == "a prompt"
        with enter_request(PRIVATE):
            assert loggable_whole_text("a prompt") == REDACTED

    def test_an_error_is_told_without_what_it_quotes(self):
        """Inside such a request; in any other as it is."""
        error = BackendError("big", "bad_request", "bad: the prompt", status=400)
        with enter_request(OPEN):
            assert loggable_error(error) == str(error)
        with enter_request(PRIVATE):
            assert loggable_error(error) == "endpoint 'big' answered 400 (bad_request)"

    def test_long_texts_are_shortened(self):
        """100 characters at each end."""
        text = "a" * 100 + "b" * 1000 + "c" * 100
        assert shorten_text(text) == "a" * 100 + "..." + "c" * 100
        assert shorten_text("a" * 1000) == "a" * 1000

    def test_images_are_shortened(self):
        """The prefix and 50 characters at each end."""
        text = "data:image/png;base64," + "A" * 50 + "B" * 300 + "C" * 50
        assert shorten_text(text) == "data:image/png;base64," + "A" * 50 + "..." + "C" * 50


class TestFilter:
    @pytest.fixture
    def log(self):
        """`log(message, *args, **more)` gives the line that a handler with the filter writes."""
        lines = []
        handler = logging.Handler()
        handler.addFilter(SensitiveFilter())
        handler.setFormatter(logging.Formatter("[%(user)s] %(message)s"))
        handler.emit = lambda record: lines.append(handler.format(record))
        logger = logging.Logger("test")
        logger.addHandler(handler)

        def write(message, *args, **more):
            logger.error(message, *args, **more)
            return lines[-1]

        return write

    def test_arguments_are_masked(self, log):
        """And the line says whose it is."""
        assert log("got %s", {"api_key": "hush"}) == f"[system] got {{'api_key': '{MASK}'}}"
        with enter_request(OPEN):
            assert log("key client-key-1") == f"[mira] key {MASK}"

    def test_tracebacks_are_masked(self, log):
        """They quote the text of their error."""
        try:
            raise ValueError("Bearer abcdefgh")
        except ValueError:
            line = log("failed", exc_info=sys.exc_info())
        assert "abcdefgh" not in line and "Traceback" in line

    def test_tracebacks_of_private_requests_quote_nothing(self, log):
        """Only places stay."""
        with enter_request(PRIVATE):
            try:
                raise ValueError("the prompt")
            except ValueError:
                line = log("failed", exc_info=sys.exc_info())
        assert "the prompt" not in line and REDACTED in line and "File " in line

    @pytest.mark.parametrize(
        ("error", "told"),
        [
            (BackendError("big", "bad_request", "bad: the prompt", status=400), "endpoint 'big' answered 400 (bad_request)"),
            (BackendError("big", "stream_error", "the prompt", status=200), "endpoint 'big' failed (stream_error)"),
            (ValueError("the prompt"), "failed (ValueError)"),
            (ConfigMissing("no such workflow"), "no such workflow"),
        ],
        ids=["refused", "in-an-answer", "other", "config"],
    )  # fmt: skip
    def test_errors_of_private_requests_quote_nothing(self, log, error, told):
        """A backend's error may repeat what it was asked; everybody else's is told whole."""
        with enter_request(PRIVATE):
            assert log("%s; trying again in %.1f s", error, 0.5).endswith(f"] {told}; trying again in 0.5 s")
        with enter_request(OPEN):
            assert str(error) in log("%s; next try", error)

    def test_two_handlers_mask_once(self):
        """The record is shared."""
        record = logging.LogRecord("n", 20, "p", 1, "token=hush %s", ("x",), None)
        assert SensitiveFilter().filter(record) and SensitiveFilter().filter(record)
        assert record.getMessage() == f"token={MASK} x"


@pytest.mark.parametrize(
    ("url", "secrets"),
    [
        ("http://a.example/v1?api-version=2", ()),
        ("http://a.example/?api_key=x%2Fy&v=1", ("x/y",)),
        ("http://me:p%2Fw@a.example/", ("p%2Fw", "p/w", "bWU6cC93")),
        ("http://:pw@a.example/?token=t", ("t", "pw", "pw", "OnB3")),
        ("http://me@a.example/", ()),
        ("https://0123456789abcdef%21@a.example/", ("0123456789abcdef%21", "0123456789abcdef!")),
        ("http://[a", ()),
    ],
)
def test_a_url_may_hold_secrets(url, secrets):
    """A password, also as it is sent, and keys of the query."""
    assert secrets_of_url(url) == secrets


CHARACTERS = "aksxyI09-_.+:/@'\"=,;}& \n?#<"
MORSELS = [
    *("x-", "a.", "a-", "sk-", "sk-a", "AIza-", "api-", "api_key ", "token ", "bearer ", "x-token", "auth"),
    *("://", "a://", "a://b:", "key='", "data:image/", "data:image/a;base64,"),
]


@pytest.fixture
def enough_time():
    """Ends a search that is far from linear: its processor time, not the clock's, is limited."""

    def give_up(_signal, _frame):
        raise AssertionError("not linear")

    before = signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, 20)
    yield
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    signal.signal(signal.SIGVTALRM, before)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer of processor time here")
@pytest.mark.usefixtures("enough_time")
@pytest.mark.parametrize("before", ["key ", "token=", "bearer ", "a://", "data:image/"])
@pytest.mark.parametrize("run", [*CHARACTERS, *MORSELS])
def test_a_long_run_is_looked_at_once(run, before):
    """Every pattern is linear, whatever a prompt repeats."""
    text = before + run * (400_000 // len(run))

    assert len(mask_secrets(text)) <= 2 * len(text) and len(shorten_text(text)) < 1000
