"""The routes of Help."""

from __future__ import annotations

import json

import pytest

from Middleware.api.console.help_index import HELP_ROUTES, docs_folder, help_index
from Middleware.api.console.views import Views
from tests.api.console.conftest import a_hub, asking


@pytest.fixture
def get():
    return lambda path, **request: Views(a_hub(), HELP_ROUTES).answer(
        asking("GET", path, **request), ("look",)
    )


def test_the_index(get):
    reply = get("help")
    assert (reply.status, json.loads(reply.value)) == (200, help_index())


@pytest.mark.parametrize(
    ("known", "status"), [("{etag}", 304), ("W/{etag}", 304), ('"other", {etag}', 304), ('"other"', 200)]
)
def test_a_reader_that_has_it_is_sent_nothing(get, known, status):
    etag = get("help").headers["ETag"]
    reply = get("help", headers={"If-None-Match": known.format(etag=etag)})
    assert (reply.status, reply.headers["ETag"], bool(reply.value)) == (status, etag, status == 200)


def test_a_page(get):
    assert get("help/nodes/Standard").value == {
        "title": "Standard",
        "markdown": (docs_folder() / "nodes" / "Standard.md").read_text("utf-8"),
    }


@pytest.mark.parametrize(
    "name",
    [
        "nodes/Nothing",
        "nodes",
        "nodes/Standard.md",
        "../README",
        "nodes/../hello",
        "/etc/passwd",
        "spec/console",
    ],
)
def test_what_is_no_page(get, name):
    """The name is looked up, never a path."""
    reply = get(f"help/{name}")
    assert (reply.status, reply.value) == (404, {"error": "no such page"})


def test_every_page_of_the_index_is_there(get):
    assert [one["name"] for one in help_index()["pages"] if get(f"help/{one['name']}").status != 200] == []
