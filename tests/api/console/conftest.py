"""A console without a server: its hub, and requests to views."""

from __future__ import annotations

import json
from io import BytesIO

import pytest

from Middleware.api.console.hour import Hour
from Middleware.api.console.recorder import Recorder
from Middleware.api.console.view_contract import Hub, json_bytes
from Middleware.api.console.views import Views
from Middleware.config.loader import default_snapshot


def a_hub(**facts):
    """What views know of a server that observes nothing; `facts` in place of these."""
    known = {
        "recorder": Recorder(),
        "hour": Hour(),
        "mode": "view",
        "gate": lambda: {"level": "request", "limit": 1, "running": 0, "waiting": 0},
        "started": 1759990000,
        "processes": 1,
        "memory_mb": 16,
        "snapshot": default_snapshot,
        "served_users": lambda: ["mira"],
        "stopping": lambda: False,
    }
    return Hub(**{**known, **facts})


def asking(method, path, body=None, headers=None, query=""):
    """The WSGI environment of a request for `/console/api/<path>`; `body`: bytes, or a value that becomes JSON."""
    data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {"HTTP_" + name.upper().replace("-", "_"): value for name, value in (headers or {}).items()}
    return {
        "REQUEST_METHOD": method,
        "PATH_INFO": f"/console/api/{path}".encode().decode("latin-1"),
        "QUERY_STRING": query,
        "CONTENT_LENGTH": str(len(data)),
        "wsgi.input": BytesIO(data),
        "wsgi.url_scheme": "http",
        **named,
    }


@pytest.fixture
def ask():
    """`ask("GET", "state", routes=ROUTES)` gives (status, value) of the views: `routes` alone, or all of them."""

    def ask(method, path, *, routes=None, hub=None, rights=("look", "act"), **request):
        reply = Views(hub or a_hub(), routes).answer(asking(method, path, **request), rights)
        assert reply.stream is None
        return reply.status, json.loads(json_bytes(reply.value))

    return ask


@pytest.fixture
def a_page(tmp_path):
    """A folder with a page, a script and a file that no browser wants."""
    folder = tmp_path / "static"
    (folder / "vendor").mkdir(parents=True)
    (folder / "index.html").write_text("<!doctype html>the page")
    (folder / "app.js").write_text("let page;")
    (folder / "vendor" / "plots.css").write_text("p {}")
    (folder / "vendor" / "README.md").write_text("licences")
    return folder
