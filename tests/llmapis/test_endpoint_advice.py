"""What a probe says to people."""

from __future__ import annotations

import pytest

from Middleware.common.errors import KIND_STATUS, BackendError
from Middleware.config.endpoints import EndpointConfig
from Middleware.llmapis.endpoint_probe import STEPS, Probe, is_well, line, shown_address

ENDPOINT = EndpointConfig("Main", {}, "Open-AI-API", {}, "Endpoints/lan/Main.json")
URL = "http://10.0.0.2:8080/v1/chat/completions"
HEAD = "Endpoints/lan/Main.json: ok: http://10.0.0.2:8080: reachable, "


def seen(**facts):
    return Probe(ENDPOINT, URL, **{"model": "tiny", "models": ("tiny",), "seconds": 0.1234, **facts})


def failed(kind, message="no", *, status=None, **facts):
    return seen(error=BackendError("Main", kind, message, status=status), **facts)


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ({}, 'model "tiny" known, streaming works, 123 ms'),
        ({"models": None}, 'model "tiny" answers, streaming works, 123 ms'),
        (
            {"model": "x"},
            'model "x" answers but is not in its list ("tiny"), streaming works, 123 ms',
        ),
        ({"model": None}, 'serves "tiny", streaming works, 123 ms'),
        ({"model": None, "models": None}, "no model is set, streaming works, 123 ms"),
        ({"numbers": 768}, 'model "tiny" known, vectors of 768 numbers, 123 ms'),
    ],
)
def test_what_is_well(facts, told):
    """Reachable, model, streaming, milliseconds."""
    assert line(seen(**facts)) == HEAD + told
    assert is_well(seen(**facts))


def test_an_answer_in_one_piece_is_not_well():
    """The file that says how to ask for a stream is named."""
    told = line(seen(whole=True))
    assert "error" in told and "ApiTypes/Open-AI-API.json" in told
    assert not is_well(seen(whole=True))


def test_a_failure_is_told_with_the_next_step():
    """The server's words, and what to do."""
    told = line(failed("auth", "invalid key", status=401, has_key=True))
    assert told == (
        "Endpoints/lan/Main.json: error: http://10.0.0.2:8080: answered 401: invalid key; it rejects this "
        "key: correct `apiKey` in Endpoints/lan/Main.json, or the variable that `apiKeyEnv` names"
    )


@pytest.mark.parametrize(
    ("model", "models", "names"),
    [
        ("smolm2", ("big", "smollm2", "other"), ': "smollm2"'),
        ("zzz", ("a", "b"), ': "a", "b"'),
        ("zzz", tuple("abcdefg"), ': "a", "b", "c", "d", "e", ...'),
        ("zzz", None, ""),
    ],
)
def test_near_names_of_models(model, models, names):
    """The nearest, else the first of the list."""
    told = line(failed("not_found", "no such model", status=404, model=model, models=models))
    assert told.endswith(f"to a name that it knows{names}")


@pytest.mark.parametrize(
    ("kind", "step"),
    [
        ("connect_error", "start the server, or correct `endpoint`"),
        ("config_error", "correct `apiKey`, its variable, or `extraHeaders`"),
        ("bad_url", "write the address as http://host:port"),
        ("timeout", "check its log, then try again"),
        ("backend_error", "check the address and your account"),
        ("bad_request", "check with --explain what a node sends"),
        ("context_overflow", "start the server with a larger one"),
        ("rate_limited", "wait, or check your account"),
        ("overloaded", "wait and try again"),
        ("server_error", "look at the server's log"),
        ("stream_error", "look at the server's log"),
        ("connection_lost", "check that the port is right"),
        ("protocol_error", "does not look like an API of the type Open-AI-API"),
    ],
)
def test_the_next_step_of_a_failure(kind, step):
    assert step in line(failed(kind))


@pytest.mark.parametrize(
    ("symptom", "step"),
    [
        ("refused", "start the server"),
        ("unknown_host", "the host name does not exist"),
        ("certificate", "REQUESTS_CA_BUNDLE"),
        ("no_tls", "write http:// instead of https://"),
        ("no_connection", "check that the machine is on and the port is open"),
        ("no_key", "set `apiKey` or `apiKeyEnv`"),
        ("path", "must be the base address"),
        ("public", "set `allowRemoteBackup` to true"),
        ("web_page", "leads to a web page"),
    ],
)
def test_the_next_step_after_a_look_at_what_came(symptom, step):
    """Why a call failed that way is found by what is seen of it."""
    assert step in STEPS[symptom]


def test_every_kind_of_failure_has_a_step():
    """But for those that no call of the doctor can end with."""
    assert set(KIND_STATUS) - set(STEPS) == {"slot_timeout", "not_found"}


@pytest.mark.parametrize("message", ["<html>long\n page", "<!DOCTYPE html>"])
def test_a_page_is_not_shown(message):
    """Nobody wants to read it here."""
    assert "answered 404: a web page; `endpoint` in" in line(failed("not_found", message, status=404))


def test_a_key_is_never_shown():
    """Not even when a server repeats it."""
    told = line(failed("bad_request", "your api_key=abcdefgh is bad, Bearer sk-123456789012345", status=400))
    assert "abcdefgh" not in told and "sk-123" not in told


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://me:secret@host:1/v1?key=k", "http://host:1"),
        ("https://[::1]:1/v1", "https://[::1]:1"),
        ("", "inside this program"),
        ("http://[", "no address"),
    ],
)
def test_an_address_is_shown_without_secrets(url, shown):
    """Scheme, host and port."""
    assert shown_address(url) == shown


@pytest.mark.parametrize(
    "facts", [{"model": "a\x1b[8m"}, {"model": None, "models": ("a\n\x9b",)}], ids=["own", "its"]
)
def test_what_a_server_says_steers_no_terminal(facts):
    """It is one line, whatever the names of its models are."""
    assert line(seen(**facts)).isprintable()
