"""The console in a real Chromium: the real server, a scripted backend, and a page that is watched.

Every test ends with a look at what the page did: no violation of the Content Security Policy, no error of a
script, nothing on the browser's console, no request to another host.
"""

from __future__ import annotations

import http.client
import json
import re
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import HOUSE, Server, write_tree
from tests.e2e.fake_backend import FakeBackend, Reply
from tests.patience import PATIENCE_S

NAMES = ("chromium", "chromium-browser", "google-chrome")
AXE = HOUSE / ".venv" / "console" / "node_modules" / "axe-core" / "axe.min.js"
WIDE = {"width": 1300, "height": 900}
WIDTHS = (320, 390, 650, 900, 1100, 1440)
QUESTION = {"messages": [{"role": "user", "content": "Hello"}]}
TELL = """addEventListener("securitypolicyviolation", (event) =>
  console.error(`violation of ${event.effectiveDirective} by ${event.blockedURI} at ${event.sourceFile}:${event.lineNumber} ${event.sample}`));"""


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """One browser for all tests."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (.ci/run does it)")
    path = next(filter(None, map(shutil.which, NAMES)), None)
    with api.sync_playwright() as playwright:
        own = Path(playwright.chromium.executable_path)
        if path is None and not own.exists():
            pytest.skip("no Chromium here: Debian package chromium, or playwright install chromium")
        browser = playwright.chromium.launch(executable_path=path or str(own), args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def backend() -> Iterator[FakeBackend]:
    backend = FakeBackend()
    yield backend
    backend.close()


Start = Callable[..., Server]


@pytest.fixture
def start(tmp_path: Path, backend: FakeBackend) -> Iterator[Start]:
    """`start(users, *arguments)`: a server on a tree of its own (tests.e2e.conftest.write_tree)."""
    servers: list[Server] = []

    def make(users: Mapping[str, Any] | None = None, *arguments: str) -> Server:
        users = users or {"mira": {}}
        public = tmp_path / f"public{len(servers)}"
        write_tree(public, users, backend.url)
        servers.append(Server(public, users, arguments))
        return servers[-1]

    yield make
    for server in servers:
        server.stop()


class Looking:
    """Pages that are watched, whoever opens them. `expected`: words of the browser's console that a test provokes."""

    def __init__(self, browser: Any) -> None:
        self._browser = browser
        self._contexts: list[Any] = []
        self.troubles: list[str] = []
        self.expected: list[str] = []

    def open(self, server: Server, address: str = "", *, context: Any = None, **options: Any) -> Any:
        """A page at an address of the console, as `#/runs`; in a window of its own, unless `context` is given."""
        page = (context or self.window(server, **options)).new_page()
        page.goto(f"{server.url}/console/{address}")
        return page

    def window(self, server: Server, **options: Any) -> Any:
        """A window with a memory of its own."""
        context = self._browser.new_context(
            **{"viewport": WIDE, "reduced_motion": "no-preference", **options}
        )
        context.set_default_timeout(120_000)
        context.add_init_script(TELL)
        context.on("weberror", lambda error: self.troubles.append(f"error: {error.error}"))
        context.on("console", self._note)
        context.route(lambda url: not url.startswith((f"{server.url}/", "data:", "blob:")), self._foreign)
        self._contexts.append(context)
        return context

    def _note(self, message: Any) -> None:
        if message.type == "error":
            self.troubles.append(f"console: {message.text} {message.location.get('url', '')}".rstrip())

    def _foreign(self, route: Any) -> None:
        self.troubles.append(f"asked {route.request.url}")
        route.abort()

    def unexpected(self) -> list[str]:
        """What no test provoked: of the browser's console what is not `expected`, and all else."""
        return [
            trouble
            for trouble in self.troubles
            if not (trouble.startswith("console: ") and any(word in trouble for word in self.expected))
        ]

    def close(self) -> None:
        for context in self._contexts:
            context.close()


@pytest.fixture
def looking(chromium: Any) -> Iterator[Looking]:
    looking = Looking(chromium)
    yield looking
    looking.close()
    assert looking.unexpected() == []


class Client:
    """A front end that asks and reads a stream in a thread of its own, to its end or until it hangs up."""

    def __init__(
        self,
        server: Server,
        body: Mapping[str, Any],
        path: str = "/v1/chat/completions",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
        self.body = b""
        payload = json.dumps({**body, "stream": True})
        about = {"Content-Type": "application/json", **(headers or {})}
        self.connection.request("POST", path, payload, about)
        self._socket = self.connection.sock.dup()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        try:
            with closing(self.connection), self.connection.getresponse() as answer:
                while piece := answer.read1(65536):
                    self.body += piece
        except (OSError, ValueError, http.client.HTTPException):
            self.body += b"[broken]"

    def wait(self, timeout_s: float = PATIENCE_S) -> bytes:
        self._thread.join(timeout_s)
        assert not self._thread.is_alive(), "the stream goes on"
        self._socket.close()
        return self.body

    def hang_up(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self.wait(PATIENCE_S)


@pytest.fixture
def under_way(start: Start, looking: Looking, backend: FakeBackend) -> tuple[Client, Any]:
    """The client of a long answer that has begun, and the page that lists it."""
    backend.on("Tell me", Reply(["one", *[" more"] * 200], gap_s=0.1))
    server = start()
    client = Client(server, asking("Tell me"))
    page = looking.open(server)
    page.locator(".row .mark.answering").wait_for()
    return client, page


def asking(text: str, **more: Any) -> dict[str, Any]:
    """A chat request that says this."""
    return {"model": "mira", "messages": [{"role": "user", "content": text}], **more}


def until(page: Any, claim: Callable[[], bool] | str, timeout_s: float = PATIENCE_S) -> None:
    """Waits until this holds: a function of the test, or an expression of the page.

    (`page.wait_for_function` compiles texts, which the page's policy forbids.)
    """
    end = time.monotonic() + timeout_s
    while not (page.evaluate(claim) if isinstance(claim, str) else claim()):
        assert time.monotonic() < end, f"not within {timeout_s} s: {claim}"
        page.wait_for_timeout(20)


def sideways(page: Any) -> int:
    """By how much the page itself is wider than its window."""
    return int(page.evaluate("document.documentElement.scrollWidth - innerWidth"))


def rows(page: Any, count: int) -> None:
    """Waits until the list has so many rows."""
    until(page, lambda: page.locator(".row").count() == count)


def seconds(text: str) -> float:
    """The first number of a text, as the page says times."""
    found = re.search(r"[\d.]+", text)
    assert found, f"no number in {text!r}"
    return float(found.group())


def violations(page: Any) -> list[str]:
    """What axe-core finds on the page once nothing of it is being loaded.

    Run in a window with `bypass_csp`: axe-core is not of the page.
    """
    if not AXE.is_file():
        pytest.skip("axe-core is not installed (.ci/run does it)")
    until(page, lambda: page.locator(".loading").count() == 0)
    page.evaluate(AXE.read_text("utf-8"))
    found = page.evaluate("axe.run(document).then(({ violations }) => violations)")
    return [f"{one['id']}: {[node['target'] for node in one['nodes']][:3]}" for one in found]


def choose_answering(page: Any) -> None:
    """The node that answers, whose row stands above that of the answer; its details have the tabs."""
    page.locator("li:has(+ li > .fallrow.end) > button.fallrow").click()
    page.locator(".nodehead").wait_for()
