"""Find servers on the pages Endpoints and Runs (workbench.md 6)."""

from __future__ import annotations

import json
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import ClassVar

import pytest

from tests.browser.conftest import rows, sideways, until, violations
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.browser

KEY = "console-key-of-the-tests"
EDIT = ("--console", "edit", "--console-key", KEY)


def panel(page):
    return page.get_by_role("region", name="Servers found")


class Ollama(BaseHTTPRequestHandler):
    """A model server that says what it is."""

    PAGES: ClassVar[dict[str, object]] = {
        "/api/version": {"version": "0.12.6"},
        "/api/tags": {"models": [{"name": "tiny"}]},
    }

    def do_GET(self):
        self._answer(self.PAGES.get(self.path))

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        said = {"role": "assistant", "content": "Hello"}
        self._answer({"model": "tiny", "message": said, "done": True, "done_reason": "stop"})

    def _answer(self, page):
        body = json.dumps(page or {"error": "?"}).encode() + b"\n"
        self.send_response(200 if page else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *said):
        """Nothing."""


@pytest.fixture
def ollama():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Ollama)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def find(page, place):
    """Asks for a server, as often as a machine under load needs, and gives its line."""
    line = page.locator(".found li", has_text=place)
    button = page.locator(".findbar button")
    end = time.monotonic() + PATIENCE_S
    while line.count() == 0:
        assert time.monotonic() < end, "the server was not found"
        until(page, lambda: button.get_attribute("aria-disabled") != "true")
        page.get_by_label("other hosts").fill(place)
        button.click()
        until(page, lambda: button.inner_text() == "Ask again" and "asked" in panel(page).inner_text())
        page.wait_for_timeout(50)
    return line


@pytest.fixture
def opened(start, looking):
    """`opened(address)`: the page of an edit console in a window that is watched."""

    def open_at(address, **options):
        server = start(None, *EDIT)
        page = looking.open(server, f"#key={KEY}", **options)
        until(page, "!location.hash.startsWith('#key=')")
        page.evaluate("address => { location.hash = address; }", address)
        page.server = server
        return page

    return open_at


class TestSearch:
    def test_nothing_is_asked_before_the_click(self, start, looking, ollama):
        server = start()
        page = looking.open(server, "#/endpoints")
        asked = []
        page.on(
            "request", lambda request: asked.append(request.method) if "api/find" in request.url else None
        )
        page.get_by_role("button", name="Find servers").wait_for()
        assert panel(page).count() == 0 and asked == []
        page.get_by_role("button", name="Find servers").click()
        find(page, ollama)
        assert {"GET", "POST"} <= set(asked)

    def test_nothing_is_typed_before_the_hosts_are_known(self, start, looking):
        """A host that came into the field later was joined to what had been typed, and no address any more."""
        page = looking.open(start(), "#/endpoints")
        held = []
        page.route(
            lambda url: url.endswith("/api/find?"),
            lambda route: held.append(route) if route.request.method == "GET" else route.fallback(),
        )
        page.get_by_role("button", name="Find servers").click()
        until(page, lambda: held != [])
        assert page.get_by_label("other hosts").is_disabled()
        assert page.locator(".findbar button").get_attribute("aria-disabled") == "true"
        held[0].fulfill(json={"hosts": ["box.example"], "folders": [], "demo": []})
        page.get_by_label("other hosts").fill("hut.example")  # waits until it may
        assert page.get_by_label("other hosts").input_value() == "hut.example"

    def test_a_server_is_used_and_probed(self, opened, ollama):
        """A file of its own, which the page of the file shows."""
        page = opened("#/endpoints")
        page.get_by_role("button", name="Find servers").click()
        line = find(page, ollama)
        line.get_by_role("button", name="Use").click()
        line.get_by_label("Name").fill("Found")
        line.get_by_label("Model").fill("tiny")
        line.get_by_role("button", name="Write the file").click()
        line.locator(".notes", has_text="is written").wait_for()
        file = page.server.public / "Configs" / "Endpoints" / "mira" / "Found.json"
        document = json.loads(file.read_text("utf-8"))
        assert document["endpoint"] == f"http://{ollama}" and document["modelNameToSendToAPI"] == "tiny"
        line.locator(".notes", has_text="reachable").wait_for()
        line.get_by_role("link", name="mira/Found").first.click()
        until(page, "location.hash.endsWith('/Endpoints/mira/Found.json')")

    def test_never_over_a_file(self, opened, ollama, looking):
        looking.expected.append("409")
        page = opened("#/endpoints")
        page.get_by_role("button", name="Find servers").click()
        line = find(page, ollama)
        line.get_by_role("button", name="Use").click()
        line.get_by_label("Name").fill("Model")
        line.get_by_role("button", name="Write the file").click()
        line.locator(".notes.bad", has_text="already exists").wait_for()

    def test_without_the_right_the_file_is_shown(self, start, looking, ollama):
        page = looking.open(start(), "#/endpoints")
        page.get_by_role("button", name="Find servers").click()
        line = find(page, ollama)
        line.get_by_role("button", name="Use").click()
        assert '"apiTypeConfigFileName"' in line.locator("pre").inner_text()
        assert "--console edit" in line.inner_text()


class TestEmptyPage:
    def test_a_button_of_the_empty_runs_page(self, start, looking, ollama):
        page = looking.open(start())
        page.get_by_role("heading", name="No request yet").wait_for()
        page.get_by_role("button", name="Find servers").click()
        find(page, ollama)
        rows(page, 0)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1024, 1440])
def test_axe_finds_nothing(opened, ollama, width, theme):
    size = {"width": width, "height": 900}
    page = opened("#/endpoints", viewport=size, color_scheme=theme, bypass_csp=True)
    page.get_by_role("button", name="Find servers").click()
    find(page, ollama).get_by_role("button", name="Use").click()
    page.locator(".usefile").wait_for()
    assert violations(page) == [] and sideways(page) <= 0
