"""Find servers on the pages Endpoints and Runs (workbench.md 6)."""

from __future__ import annotations

import json

import pytest

from tests.browser.conftest import rows, sideways, until, violations

pytestmark = pytest.mark.browser

KEY = "console-key-of-the-tests"
EDIT = ("--console", "edit", "--console-key", KEY)
OFTEN_MS = 6000
"""Between two searches."""


def panel(page):
    return page.get_by_role("region", name="Servers found")


def found_server(page, backend):
    """Asks for the fake backend, and gives its line."""
    place = backend.url.removeprefix("http://").removesuffix("/v1")
    page.get_by_label("other hosts").fill(place)
    button = page.locator(".findbar button")
    until(page, lambda: button.get_attribute("aria-disabled") != "true")
    button.click()
    line = page.locator(".found li", has_text=place)
    line.wait_for()
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
    def test_nothing_is_asked_before_the_click(self, start, looking):
        server = start()
        page = looking.open(server, "#/endpoints")
        asked = []
        page.on("request", lambda request: asked.append(request.url) if "api/find" in request.url else None)
        page.get_by_role("button", name="Find servers").wait_for()
        assert panel(page).count() == 0 and asked == []
        page.get_by_role("button", name="Find servers").click()
        panel(page).get_by_text("asked").first.wait_for()
        assert len(asked) >= 2

    def test_a_server_is_used_and_probed(self, opened, backend):
        """A file of its own, which the page of the file shows."""
        page = opened("#/endpoints")
        page.get_by_role("button", name="Find servers").click()
        line = found_server(page, backend)
        line.get_by_role("button", name="Use").click()
        line.get_by_label("Name").fill("Found")
        line.get_by_label("Model").fill("tiny")
        line.get_by_role("button", name="Write the file").click()
        line.locator(".notes", has_text="is written").wait_for()
        file = page.server.public / "Configs" / "Endpoints" / "mira" / "Found.json"
        document = json.loads(file.read_text("utf-8"))
        assert document["endpoint"] in backend.url and document["modelNameToSendToAPI"] == "tiny"
        line.locator(".notes", has_text="endpoint Found").wait_for()
        line.get_by_role("link", name="mira/Found").first.click()
        until(page, "location.hash.endsWith('/Endpoints/mira/Found.json')")

    def test_never_over_a_file(self, opened, backend):
        page = opened("#/endpoints")
        page.get_by_role("button", name="Find servers").click()
        line = found_server(page, backend)
        line.get_by_role("button", name="Use").click()
        line.get_by_label("Name").fill("Model")
        line.get_by_role("button", name="Write the file").click()
        line.locator(".notes.bad", has_text="already exists").wait_for()

    def test_without_the_right_the_file_is_shown(self, start, looking, backend):
        page = looking.open(start(), "#/endpoints")
        page.get_by_role("button", name="Find servers").click()
        line = found_server(page, backend)
        line.get_by_role("button", name="Use").click()
        assert '"apiTypeConfigFileName"' in line.locator("pre").inner_text()
        assert "--console edit" in line.inner_text()


class TestEmptyPage:
    def test_a_button_of_the_empty_runs_page(self, start, looking, backend):
        page = looking.open(start())
        page.get_by_role("heading", name="No request yet").wait_for()
        page.get_by_role("button", name="Find servers").click()
        found_server(page, backend)
        rows(page, 0)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1024, 1440])
def test_axe_finds_nothing(opened, backend, width, theme):
    size = {"width": width, "height": 900}
    page = opened("#/endpoints", viewport=size, color_scheme=theme, bypass_csp=True)
    page.get_by_role("button", name="Find servers").click()
    found_server(page, backend).get_by_role("button", name="Use").click()
    page.locator(".usefile").wait_for()
    page.screenshot(path=f"/tmp/wfind/find-{width}-{theme}.png")
    assert violations(page) == [] and sideways(page) <= 0
