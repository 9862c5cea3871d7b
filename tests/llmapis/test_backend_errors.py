"""From a status and a body to a kind and a text."""

from __future__ import annotations

import json

import pytest

from Middleware.config.endpoints import EndpointConfig
from Middleware.llmapis.backend_errors import (
    BackendRefusal,
    error_chunk,
    error_message,
    in_band_error,
    native_body,
    retry_after,
    status_error,
    told_error,
    told_failure,
)

MESSAGES = [
    ({"error": {"message": "a", "type": "t"}, "message": "b"}, "a"),
    ({"error": " a "}, "a"),
    ({"error": {"code": 1}, "detail": {"msg": "d"}}, "d"),
    ({"detail": {"msg": "d", "type": "t"}}, "d"),
    ({"detail": [{"msg": "d1"}, {"msg": "d2"}]}, "d1"),
    ({"detail": "d"}, "d"),
    ({"message": "m"}, "m"),
    ({"base_resp": {"status_code": 1008, "status_msg": "no credit"}}, "no credit"),
    ({"x": 1}, '{"x": 1}'),
    ("<html>" + "x" * 500, "<html>" + "x" * 294),
    ([1], "[1]"),
]


@pytest.mark.parametrize(("body", "message"), MESSAGES, ids=range(len(MESSAGES)))
def test_the_message(body, message):
    """The first of the places where servers put it."""
    assert error_message(body) == message


KINDS = [
    (400, b'{"error":"the request exceeds the available context size"}', "context_overflow", False),
    (413, b'{"error":"the request exceeds the available context size"}', "context_overflow", False),
    (422, b'{"error":"the request exceeds the available context size"}', "context_overflow", False),
    (500, b'{"error":"Maximum Context reached"}', "context_overflow", False),
    (404, b'{"error":"context window"}', "not_found", False),
    (500, b'{"error":"Loading model"}', "overloaded", True),
    (500, b"boom", "server_error", True),
    (501, b"", "server_error", False),
    (418, b"", "backend_error", False),
    (402, b'{"error":"no credit"}', "backend_error", False),
    (405, b"", "backend_error", False),
    (451, b"", "backend_error", False),
    (400, b"", "bad_request", False),
    (413, b"", "bad_request", False),
    (422, b"", "bad_request", False),
    (302, b"moved", "bad_url", False),
    (204, b"", "protocol_error", False),
]


@pytest.mark.parametrize(
    ("status", "body", "kind", "retryable"), KINDS, ids=[f"{k[0]}-{k[2]}" for k in KINDS]
)
def test_the_kind(status, body, kind, retryable):
    """What the text says comes before what the status says."""
    error = status_error("E", BackendRefusal(status, {}, body))
    assert (error.kind, error.retryable, error.status) == (kind, retryable, status)


BY_STATUS = {  # -> kind, whether it is worth another try
    400: ("bad_request", False),
    401: ("auth", False),
    403: ("auth", False),
    404: ("not_found", False),
    408: ("timeout", True),
    413: ("bad_request", False),
    422: ("bad_request", False),
    429: ("rate_limited", True),
    500: ("server_error", True),
    502: ("server_error", True),
    503: ("overloaded", True),
    504: ("server_error", True),
    505: ("server_error", False),
    529: ("overloaded", True),
}


@pytest.mark.parametrize("status", BY_STATUS)
def test_the_kind_of_a_bare_status(status):
    """Nothing is said beside it."""
    error = status_error("E", BackendRefusal(status, {}, b""))
    assert (error.kind, error.retryable) == BY_STATUS[status]


OVERFLOWS = [
    "context length", "Context Size", "context window", "exceeds the available context", "prompt is too long",
    "Maximum context", "too many tokens",
]  # fmt: skip
BUSY = ["loading model", "Model is loading", "server is busy", "Overloaded"]


@pytest.mark.parametrize(
    ("words", "kind"),
    [*((words, "context_overflow") for words in OVERFLOWS), *((words, "overloaded") for words in BUSY)],
)
def test_the_words_of_servers(words, kind):
    """In a sentence, in any case of letters."""
    assert status_error("E", BackendRefusal(500, {}, f"so: {words}, it is".encode())).kind == kind


SENTENCE = "Provider returned error"


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"provider_name": "Acme", "raw": "add your own key"}, f"{SENTENCE}: add your own key (Acme)"),
        ({"raw": '{"error": {"message": "too many blocks"}}'}, f"{SENTENCE}: too many blocks"),
        ({"raw": {"error": "gone"}}, f"{SENTENCE}: gone"),
        ({"provider_name": "Acme"}, f"{SENTENCE} (Acme)"),
        ({"raw": SENTENCE, "provider_name": 3}, SENTENCE),
        ({"raw": ""}, SENTENCE),
        ("odd", SENTENCE),
    ],
    ids=["text", "json-text", "object", "name-alone", "the-same", "blank", "odd"],
)
def test_what_a_provider_behind_openrouter_said(metadata, message):
    """Its own sentence says nothing."""
    assert error_message({"error": {"message": SENTENCE, "metadata": metadata}}) == message


def test_the_providers_words_say_the_kind():
    """A prompt that is too long is known by them."""
    raw = '{"error": {"message": "This model has a maximum context length of 8192 tokens"}}'
    body = json.dumps({"error": {"message": SENTENCE, "metadata": {"raw": raw}}}).encode()
    assert status_error("E", BackendRefusal(400, {}, body)).kind == "context_overflow"


@pytest.mark.parametrize("status", [404, 405])
def test_a_wrong_address_is_named(status):
    """Without user, query and key: a wrong base URL is the most frequent mistake."""
    asked = "POST http://me:pw@h:1/openai/sk-12345/v1/chat?k=1#f"
    error = status_error(
        "E", BackendRefusal(status, {}, b'{"error":"nothing here"}'), secrets=["sk-12345"], asked=asked
    )
    assert error.message == "nothing here (POST http://h:1/openai/***/v1/chat)"


def test_other_failures_do_not_name_the_address():
    """It was right."""
    assert status_error("E", BackendRefusal(400, {}, b"no"), asked="POST http://h/v1").message == "no"


def test_an_empty_body_still_has_a_text():
    """Never an empty message."""
    assert status_error("E", BackendRefusal(401, {}, b"")).message == "status 401 without a message"


def test_the_key_is_nowhere():
    """Neither in the message nor in the native body."""
    error = status_error(
        "E",
        BackendRefusal(401, {}, b'{"error":{"message":"key sk-123456 is bad"}}'),
        secrets=("", "sk-123456"),
    )
    assert error.message == "key *** is bad"
    assert error.native == {"error": {"message": "key *** is bad"}}


def test_a_very_short_key_is_not_looked_for():
    """It would cut words to pieces."""
    assert status_error("E", BackendRefusal(401, {}, b"bad"), secrets=("a",)).message == "bad"


@pytest.mark.parametrize("body", [{"a": "é" * 5000}, "é" * 5000], ids=["object", "text"])
def test_a_long_native_body_is_cut(body):
    """4 KiB, never in the middle of a character."""
    cut = native_body(body)
    assert isinstance(cut, str)
    assert 4090 < len(cut.encode()) <= 4096


def test_a_text_body_is_kept():
    """Not everything is JSON."""
    assert (native_body("no"), native_body("no sk-123456", ("sk-123456",))) == ("no", "no ***")


RETRY = [
    ("7", 7.0),
    ("0.5", 0.5),
    ("-3", 0.0),
    ("Thu, 01 Jan 1970 00:01:40 GMT", 40.0),
    ("Thu, 01 Jan 1970 00:00:10 GMT", 0.0),
    ("soon", None),
    ("nan", None),
    ("inf", None),
    ("1e999", None),
    ("", None),
    (None, None),
]


@pytest.mark.parametrize(("value", "seconds"), RETRY)
def test_retry_after(value, seconds):
    """Seconds, or a date."""
    assert retry_after(value, now=60.0) == seconds


TOLD = [
    (
        {"kind": "overloaded", "message": "m", "status": 200, "native": {"a": 1}},
        ("overloaded", "m", 200, {"a": 1}),
    ),
    ({"kind": "odd", "message": "m"}, ("stream_error", "m", None, None)),
    ({}, ("stream_error", "the backend reported an error", None, None)),
]


@pytest.mark.parametrize(("told", "error"), TOLD, ids=["whole", "unknown-kind", "empty"])
def test_an_error_dict_is_an_error_again(told, error):
    """Whatever a backend's handler put into it."""
    found = told_error("E", told)
    assert (found.kind, found.message, found.status, found.native) == error


def test_nothing_is_lost_on_the_way():
    """From an error to a dict of the stream and back."""
    error = in_band_error("E", {"error": {"type": "overloaded_error", "message": "m"}})
    assert str(told_error("E", error_chunk(error))) == str(error)


def test_errors_in_band():
    """The type that Anthropic gives, else the text, else a stream error."""
    kinds = [
        in_band_error("E", {"error": error}).kind
        for error in ({"type": "overloaded_error"}, {"type": "rate_limit_error"}, "prompt is too long", "x")
    ]
    assert kinds == ["overloaded", "rate_limited", "context_overflow", "stream_error"]


@pytest.mark.parametrize(
    ("body", "name", "message"),
    [
        ({"message": "m"}, "error", "m"),
        ({"error": {"message": "m"}}, "", "m"),
        ({"error": "m"}, "message", "m"),
        ({"object": "error", "message": "m"}, "", "m"),
        ({"base_resp": {"status_code": 1008, "status_msg": "m"}, "choices": []}, "", "m"),
        ({"base_resp": {"status_code": 0, "status_msg": "success"}}, "", None),
        ({"base_resp": {"status_code": "1008"}}, "", None),
        ({"base_resp": "m"}, "", None),
        ({"error": None, "object": "chat.completion", "message": "m"}, "message", None),
        ({}, "", None),
    ],
)
def test_a_failure_with_a_good_status(body, name, message):
    """Any one of the signs is enough."""
    endpoint = EndpointConfig("E", {"endpoint": "http://h"}, "t", {"type": "openAIChatCompletion"})
    failure = told_failure(endpoint, body, name)
    assert (failure is None) is (message is None)
    assert failure is None or failure.message.endswith(message)
