"""Addresses that name the model (operate.md 4)."""

from __future__ import annotations

from urllib.parse import unquote_to_bytes, urlsplit

import pytest

from Middleware.api.wsgi.model_addresses import (
    address_of_model,
    model_of_address,
    take_model_off,
    with_model_of_address,
)

TAKEN = [  # path as it was sent -> (name, path behind it)
    ("/as/ann/v1/models", "ann", "/v1/models"),
    ("/as/ann:novel/api/v1/generate", "ann:novel", "/api/v1/generate"),
    ("/as/ann%3Anovel/api/v1/generate", "ann:novel", "/api/v1/generate"),
    ("/as/ann:raw%2Fmain/v1/models?limit=1", "ann:raw/main", "/v1/models"),
    ("/as/ann:raw%2fdeep%2Fmain/props", "ann:raw/deep/main", "/props"),
    ("/as/J%C3%B6rg%20B/mcp", "Jörg B", "/mcp"),
    ("/as/ann", "ann", "/"),
    ("/as/ann/", "ann", "/"),
    ("/as/ann//v1/models", "ann", "/v1/models"),
    ("//as/ann/v1/models", "ann", "/v1/models"),
    ("/as/50%25/health", "50%", "/health"),
    ("/as/ann/consoles", "ann", "/consoles"),
    ("/as/ann/v1/usages", "ann", "/v1/usages"),
    ("http://host:5000/as/ann:raw%2Fmain/v1/models", "ann:raw/main", "/v1/models"),
]  # fmt: skip
LEFT = [
    "/v1/models", "/", "/as", "/as/", "/as//v1/models", "/assets/x", "/v1/as/ann", "/as/ann/console", "/as/ann/console/api/state", "/as/ann/metrics",
    "/as/ann/metrics/", "/as/ann//metrics", "/as/ann///console/api/state", "/as/ann//as/bob/v1/models", "/as/ann/v1/usage", "/as/ann/as/bob/v1/models", "/as/ann/as",
]  # fmt: skip


def environ_of(sent, key="REQUEST_URI"):
    """As servers make it: the path decoded, the address as it was sent."""
    path = sent if sent.startswith("/") else urlsplit(sent).path
    decoded = unquote_to_bytes(path.partition("?")[0]).decode("latin-1")
    return {"PATH_INFO": decoded, **({key: sent} if key else {})}


@pytest.mark.parametrize("key", ["REQUEST_URI", "RAW_URI"], ids=["waitress", "gunicorn"])
@pytest.mark.parametrize(("sent", "name", "behind"), TAKEN, ids=[sent for sent, *_ in TAKEN])
def test_the_name_is_taken_off(sent, name, behind, key):
    """One segment; a slash in it is percent-encoded."""
    environ = environ_of(sent, key)
    take_model_off(environ)
    assert (model_of_address(environ), environ["PATH_INFO"]) == (name, behind)


@pytest.mark.parametrize("sent", ["//v1/models", "///v1/models"])
def test_slashes_at_the_beginning_are_one(sent):
    """As the router sees them, so that both speak of the same path."""
    environ = {"PATH_INFO": sent}
    take_model_off(environ)
    assert environ == {"PATH_INFO": "/v1/models"}


@pytest.mark.parametrize("sent", LEFT)
def test_what_cannot_stand_behind_a_name_is_left(sent):
    """It is no route then."""
    environ = environ_of(sent)
    before = dict(environ)
    take_model_off(environ)
    assert environ == before and model_of_address(environ) == ""


def test_a_server_that_does_not_tell_what_was_sent():
    """The path alone says where the name ends."""
    environ = environ_of("/as/ann:novel/v1/models", key="")
    take_model_off(environ)
    assert (model_of_address(environ), environ["PATH_INFO"]) == ("ann:novel", "/v1/models")


@pytest.mark.parametrize("sent", ["*", "http://[half/as/ann/v1/models", "as/ann", "http://host"])
def test_a_request_line_of_another_form(sent):
    """The path alone says where the name ends."""
    environ = {"PATH_INFO": "/as/ann/v1/models", "REQUEST_URI": sent}
    take_model_off(environ)
    assert (model_of_address(environ), environ["PATH_INFO"]) == ("ann", "/v1/models")


@pytest.mark.parametrize("sent", ["/as/ann/x", "/as/ann:raw%2Fmain/x", "/as/J%C3%B6rg%20%25/x", "/x"])
def test_the_address_as_it_is_written(sent):
    """For those who ask it again: percent-encoded where need be."""
    environ = environ_of(sent)
    take_model_off(environ)
    assert address_of_model(environ) == sent.removesuffix("/x")


def test_a_path_that_somebody_changed_on_the_way():
    """The address as it was sent says nothing then."""
    environ = {"PATH_INFO": "/as/ann/v1/models", "REQUEST_URI": "/as/bob:raw%2Fmain/v1/models"}
    take_model_off(environ)
    assert (model_of_address(environ), environ["PATH_INFO"]) == ("ann", "/v1/models")


def test_bytes_that_are_no_text():
    """A name that nobody has."""
    environ = environ_of("/as/%FF/v1/models")
    take_model_off(environ)
    assert (model_of_address(environ), environ["PATH_INFO"]) == ("�", "/v1/models")


@pytest.mark.parametrize("body", [{}, {"model": "bob"}, {"model": 5}])
def test_a_body_has_the_name_of_its_address(body):
    """Whatever the client sends; the body itself is not changed."""
    before = dict(body)
    assert with_model_of_address(body, environ_of("/v1/models")) is body
    environ = environ_of("/as/ann/v1/models")
    take_model_off(environ)
    assert with_model_of_address(body, environ) == {"model": "ann"} and body == before
