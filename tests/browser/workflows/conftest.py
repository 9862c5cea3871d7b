"""The console's page in a real browser, over a server process with a config tree of its own and a fake backend.

Every tab is watched: what it says on its console, what breaks its Content Security Policy, and whom it asks.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.e2e.conftest import Server, backend, launch

__all__ = ("backend", "launch")

KEY = "console-key-of-the-tests"
EDIT = ("--console", "edit", "--console-key", KEY)
WIDTHS = (320, 390, 900, 1100, 1440)
_VIOLATIONS = """
    window.violations = [];
    addEventListener("securitypolicyviolation", (event) => violations.push(event.violatedDirective + " " + event.blockedURI));
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is here needs a browser."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("browser")


class Watch:
    """What one tab did that it should not. `allow`: an error of the console that a test provokes."""

    def __init__(self, context: Any, host: str) -> None:
        self._allowed: list[str] = []
        self.errors: list[str] = []
        self.strangers: list[str] = []
        self._host = host
        context.add_init_script(_VIOLATIONS)
        context.on("request", self._asked)
        context.on("console", self._said)
        context.on("weberror", lambda error: self.errors.append(str(error.error)))

    def allow(self, pattern: str) -> None:
        self._allowed.append(pattern)

    def _asked(self, request: Any) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in ("data", "blob") and parts.netloc != self._host:
            self.strangers.append(request.url)

    def _said(self, message: Any) -> None:
        if message.type == "error":
            self.errors.append(f"{message.text} {message.location.get('url', '')}".strip())

    def unexpected(self) -> list[str]:
        return [error for error in self.errors if not any(re.search(one, error) for one in self._allowed)]


@pytest.fixture
def tab(chromium: Any) -> Iterator[Callable[..., Any]]:
    """`tab(server, "#/workflows", width=1440, theme="light")` opens the console; its `watch` stands beside it.

    With `key` (that of `EDIT` unless another is given, "" for none) in the address, as the ready line has it.
    """
    opened: list[tuple[Any, Watch]] = []

    def open_tab(
        server: Server,
        address: str = "",
        *,
        width: int = 1440,
        height: int = 900,
        theme: str = "light",
        **more: Any,
    ) -> Any:
        key = more.pop("key", KEY)
        context = chromium.new_context(
            viewport={"width": width, "height": height}, color_scheme=theme, reduced_motion="reduce", **more
        )
        context.set_default_timeout(30_000)
        watch = Watch(context, urlsplit(server.url).netloc)
        page = context.new_page()
        page.watch = watch
        opened.append((page, watch))
        page.goto(f"{server.url}/console/" + (f"#key={key}" if key else address))
        if key:
            until(page, "!location.hash.startsWith('#key=')")
            page.evaluate("address => { location.hash = address; }", address)
        return page

    yield open_tab
    for page, watch in opened:
        violations = page.evaluate("window.violations ?? []") if not page.is_closed() else []
        page.context.close()
        assert violations == []
        assert watch.strangers == []
        assert watch.unexpected() == []


def write_text(server: Server, path: str, content: Any) -> Path:
    """A file of the server's config tree, as people lay JSON out; a text stays as it is."""
    file = server.public / "Configs" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content, indent=2), encoding="utf-8")
    return file


def until(page: Any, claim: str, timeout_s: float = 30.0) -> None:
    """Waits for an expression to hold. Playwright's own waiting calls `eval` in the page, which its policy forbids."""
    end = time.monotonic() + timeout_s
    while not page.evaluate(claim):
        assert time.monotonic() < end, f"not within {timeout_s} s: {claim}"
        page.wait_for_timeout(20)


def sideways(page: Any) -> int:
    """By how much the page itself is wider than its window."""
    return int(page.evaluate("document.documentElement.scrollWidth - innerWidth"))
