"""Help: the index of all that can be written, and the pages of the docs. Source: spec console.md 12."""

from __future__ import annotations

import hashlib
from functools import cache

from Middleware.api.console.help_index import help_index, help_pages, title_of
from Middleware.api.console.page_files import matches_etag
from Middleware.api.console.view_contract import ApiRoute, Ask, Reply, ViewRefused, json_bytes
from Middleware.common.types import JsonObject


def index(ask: Ask) -> Reply:
    """GET `help`: the whole index; 304 for a reader that has it."""
    ask.words()
    body, etag = _encoded_index()
    headers = {"ETag": etag}
    if matches_etag(etag, ask.headers.get("If-None-Match", "")):
        return Reply(b"", 304, headers)
    return Reply(body, 200, headers)


def page(ask: Ask, name: str) -> JsonObject:
    """GET `help/<page>`: a page that stands in the index; no path is made of the name."""
    ask.words()
    file = help_pages().get(name)
    if file is None:
        raise ViewRefused(404, "no such page")
    return {"title": title_of(file), "markdown": file.read_text("utf-8")}


@cache
def _encoded_index() -> tuple[bytes, str]:
    """The index as bytes, and its entity tag."""
    body = json_bytes(help_index())
    return body, f'"{hashlib.sha256(body).hexdigest()[:16]}"'


HELP_ROUTES = (
    ApiRoute("GET", "help", "look", index),
    ApiRoute("GET", "help/<path:name>", "look", page),
)
