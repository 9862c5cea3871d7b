"""What front ends say of their routes, seen from before the application (frontend-api.md 3, 12.1, 15)."""

from __future__ import annotations

import pytest
from flask.views import MethodView

from Middleware.api.handlers import impl  # noqa: F401
from Middleware.api.handlers.front_ends import all_doors
from Middleware.api.wsgi.doors import Doors, Generation, Route, generation_routes, routes_to
from Middleware.protocols.base import ClientProtocol, ErrorReply


class Both(MethodView):
    def get(self): ...

    def post(self): ...


class Get(MethodView):
    def get(self): ...


def shape(name):
    return lambda reply: {name: reply.message}


WIDE = ClientProtocol("wide", shape("wide"), roots=("/v9",), unsupported=("/v9/later",))
NARROW = ClientProtocol(
    "narrow",
    shape("narrow"),
    roots=("/v9/deep",),
    claims=lambda path, headers: path == "/v9/list" and "HTTP_X_NARROW" in headers,
)
DOORS = Doors(
    [
        (WIDE, (Route("/v9/ask", Both), Route("/v9/show", Both, free=True), Route("/v9/list", Get))),
        (NARROW, (*generation_routes(Both, "/v9/deep/ask"), Route("/v9/deep/<one>/x/<path:rest>", Both))),
        (
            NARROW,
            (Route("/v9/look", Both, gated=False, protocol=WIDE), Route("/look/<one>", Both, gated=False)),
        ),
        (ClientProtocol("lone", shape("lone")), routes_to(Get, "/lone/<name>", "/")),
    ]
)


def post(path):
    return {"REQUEST_METHOD": "POST", "PATH_INFO": path}


@pytest.mark.parametrize(
    ("environ", "generates"),
    [
        (post("/v9/ask"), True),
        (post("/v9/deep/ask"), True),
        (post("/v9/deep/a/x/b/c"), True),
        (post("/v9/deep/a/b/x/c"), False),
        (post("/v9/show"), False),
        (post("/v9/look"), False),
        (post("/look/at"), False),
        (post("/v9/list"), False),
        (post("/v9/deep/ask/17"), False),
        (post("/nothing"), False),
        ({"REQUEST_METHOD": "DELETE", "PATH_INFO": "/v9/deep/ask"}, False),
        ({"REQUEST_METHOD": "GET", "PATH_INFO": "/v9/ask"}, False),
        ({"PATH_INFO": "/v9/ask"}, True),
        ({}, True),
    ],
    ids=str,
)
def test_a_post_generates_unless_it_says_that_it_is_free(environ, generates):
    """The safe side is the default. No method counts as POST, no path as generating."""
    assert DOORS.generates(environ) is generates


@pytest.mark.parametrize(
    ("environ", "lasts"),
    [
        (post("/v9/ask"), True),
        (post("/v9/deep/a/x/b/c"), True),
        (post("/v9/look"), True),
        (post("/look/at"), True),
        (post("/v9/show"), False),
        ({"REQUEST_METHOD": "GET", "PATH_INFO": "/v9/look"}, False),
        ({"PATH_INFO": "/v9/look"}, True),
        ({}, True),
    ],
    ids=str,
)
def test_what_needs_no_slot_is_watched_all_the_same(environ, lasts):
    """Only what is free is not."""
    assert DOORS.is_long_request(environ) is lasts


@pytest.mark.parametrize(
    ("environ", "name"),
    [
        (post("/v9/ask"), "wide"),
        (post("/v9/nothing/at/all"), "wide"),
        (post("/v9/deep"), "narrow"),
        (post("/v9/deep/nothing"), "narrow"),
        (post("/v9/deeper"), "wide"),
        (post("/v9/look"), "wide"),
        (post("/look/at"), "narrow"),
        ({"PATH_INFO": "/v9/list"}, "wide"),
        ({"PATH_INFO": "/v9/list", "HTTP_X_NARROW": "1"}, "narrow"),
        ({"PATH_INFO": "/lone/me"}, "lone"),
        ({"PATH_INFO": "/lone"}, "lone"),
        ({"PATH_INFO": "/"}, "lone"),
        (post("/v90"), "error"),
        ({}, "error"),
    ],
    ids=str,
)
def test_whose_request_it_is(environ, name):
    """The first that claims it; else the longest root; a front end's own routes are roots, of the protocol
    that they name. Else nobody's."""
    assert DOORS.protocol_of(environ).error_body(ErrorReply(400, "M")) == {name: "M"}


def test_what_is_known_and_not_served():
    """And all below it."""
    assert DOORS.is_unsupported("/v9/later/on") and not DOORS.is_unsupported("/v9/lat")


def test_a_view_says_nothing_of_itself_by_default():
    """No stream, no messages."""
    assert Generation().streams({"stream": True}, {}) is False
    assert Generation().task_messages({"messages": []}) is None


@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/chat/completions", "/completions", "/models/x", "/v1/nothing"]
)
def test_openai_paths(path):
    """The front ends of the house: an object below `/v1`."""
    assert all_doors().protocol_of({"PATH_INFO": path}).name == "openai"


@pytest.mark.parametrize(("path", "name"), [("/api/chat", "ollama"), ("/nothing", "plain"), ("/v10", "plain"), ("/modelsx", "plain")])  # fmt: skip
def test_other_paths(path, name):
    """A text everywhere else."""
    assert all_doors().protocol_of({"PATH_INFO": path}).name == name
