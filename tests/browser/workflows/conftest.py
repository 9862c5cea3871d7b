"""The page of workflows, over a server process with a config tree of its own and a fake backend."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import Looking, until
from tests.browser.workflows.workflow_tree import PATH, USERS, files
from tests.e2e.conftest import Server, backend, launch

__all__ = ("backend", "launch")

KEY = "console-key-of-the-tests"
GUARD_MS = 75
"""For so long CodeMirror's list of completions takes no key (`interactionDelay`)."""
EDIT = ("--console", "edit", "--console-key", KEY)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is here needs a browser."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("browser")


@pytest.fixture
def tab(looking: Looking) -> Callable[..., Any]:
    """`tab(server, "#/workflows", width=1440, theme="light")` opens the console in a window that is watched.

    With `key` (that of `EDIT` unless another is given, "" for none) in the address, as the ready line has it.
    `side`: which of `form` and `text` was used last, "": neither yet.
    """

    def open_tab(
        server: Server,
        address: str = "",
        *,
        width: int = 1440,
        height: int = 900,
        theme: str = "light",
        key: str = KEY,
        side: str = "text",
        **more: Any,
    ) -> Any:
        size = {"width": width, "height": height}
        options = {"viewport": size, "color_scheme": theme, "reduced_motion": "reduce", **more}
        window = looking.window(server, **options)
        if side:
            window.add_init_script(f"origin === 'null' || localStorage.setItem('console.tab', '{side}')")
        page = looking.open(server, f"#key={key}" if key else address, context=window)
        if key:
            until(page, "!location.hash.startsWith('#key=')")
            page.evaluate("address => { location.hash = address; }", address)
        return page

    return open_tab


def write_text(server: Server, path: str, content: Any) -> Path:
    """A file of the server's config tree, as people lay JSON out; a text stays as it is."""
    file = server.public / "Configs" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content, indent=2), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def server(launch: Callable[..., Server]) -> Server:
    """One for all tests of a module, with the example's files."""
    started = launch(USERS, *EDIT)
    write_example(started)
    return started


@pytest.fixture
def file(server: Server) -> Path:
    """The example's file on disk, as it was before every test."""
    write_example(server)
    return server.public / "Configs" / PATH


def write_example(server: Server) -> None:
    """The files of the example, as they are at first."""
    for path, content in files(server.public).items():
        write_text(server, path, content)


def take(page: Any) -> None:
    """Enter, once the editor takes it for the list: right behind its opening it still belongs to the text."""
    seen = page.evaluate("performance.now()")
    until(page, f"performance.now() - {seen} > {GUARD_MS}")
    page.keyboard.press("Enter")
