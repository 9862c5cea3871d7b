"""Every page of the console on the same runs, to look at its looks: sizes, zoom, forced colours (console.md 13.6)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import Looking, asking
from tests.browser.workflows.conftest import write_example
from tests.browser.workflows.workflow_tree import ADDRESS, USERS
from tests.e2e.conftest import NODE, Server, backend, launch
from tests.e2e.fake_backend import FakeBackend, Reply

__all__ = ("backend", "launch")

LONG = "A title that is longer than any row of the waterfall has room for"
NESTED = {
    "Chat": [
        {**NODE, "title": "Draft", "prompt": "Draft"},
        {**NODE, "title": LONG, "prompt": "Facts", "parallelGroup": "critics"},
        {**NODE, "title": "Style", "prompt": "Style", "parallelGroup": "critics"},
        {**NODE, "title": "Lost", "prompt": "Lost", "onNodeError": "continue"},
        {"title": "Below", "type": "CustomWorkflow", "workflowName": "Inner"},
        {**NODE, "title": "Answer", "returnToUser": True},
        {**NODE, "title": "Notes", "prompt": "Notes"},
    ],
    "Inner": [{**NODE, "title": f"Step {number}", "prompt": "Step"} for number in range(14)],
}
PLACES: Mapping[str, tuple[str, str]] = {
    "runs": ("#/runs", ".row"),
    "a run": ("RUN", ".details pre"),
    "what was asked": ("RUN?node=request", ".details .msg"),
    "a node": ("RUN?tab=came", ".pane pre"),
    "what was sent": ("RUN?tab=sent", ".pane pre"),
    "fields of a node": ("RUN?tab=fields", ".pane pre"),
    "facts of a node": ("RUN?tab=facts", "dl.facts"),
    "a workflow": (f"{ADDRESS}&node=5", ".cm-line.chosen"),
    "try it": (f"{ADDRESS}&pane=try", ".ask .notes"),
    "a dry run": (f"{ADDRESS}&pane=dry", ".drypart"),
    "endpoints": ("#/endpoints", ".endpoint .plot"),
    "overview": ("#/overview", ".plot .u-wrap"),
    "a page of Help": ("#/help/nodes/Standard", ".prose h1"),
    "a search in Help": ("#/help?find=agent", ".hit"),
}
"""Name -> address and what shows that it is there; `RUN`: the address of the run of mo."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is here needs a browser."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("browser")


@pytest.fixture(scope="module")
def server(launch: Any, backend: FakeBackend) -> Server:
    """Runs of every kind: done, failed, refused, private, nested, and one of the example."""
    backend.on("Lost", Reply(status=500))
    backend.on("broken", Reply(status=500))
    server: Server = launch(
        {**USERS, "mo": {"workflows": NESTED}, "lea": {"user": {"redactLogOutput": True}}}
    )
    write_example(server)
    path = "/v1/chat/completions"
    for model, text in (("jo", "broken"), ("lea", "Hello"), ("mira", "When was it?"), ("mo", "Hello there")):
        server.post(path, asking(text, model=model))
    server.post(path, {"model": "jo", "messages": "no list"})
    return server


@pytest.fixture
def visit(server: Server, looking: Looking) -> Iterator[Any]:
    """`visit(width=320, **options)`: gives the page at each place in turn, with the place's name."""

    def places(width: int = 1300, height: int = 800, **options: Any) -> Iterator[tuple[Any, str]]:
        page = looking.open(server, viewport={"width": width, "height": height}, **options)
        page.locator(".row").first.wait_for()
        found = page.locator(".row", has_text="mo Chat").get_attribute("href")
        for name, (address, sign) in PLACES.items():
            page.evaluate("address => { location.hash = address; }", address.replace("RUN", str(found)))
            page.locator(sign).first.wait_for()
            yield page, name

    yield places
