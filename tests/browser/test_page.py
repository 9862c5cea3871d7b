"""The frame of the console: its key, its line to the server, hostile texts, the keyboard, access
(spec console.md 17.1, items 6 and 12 to 14).
"""

from __future__ import annotations

import json

import pytest

from tests.browser.conftest import WIDTHS, Client, asking, choose_answering, rows, sideways, until, violations
from tests.e2e.conftest import NODE, Server
from tests.e2e.fake_backend import Reply
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.browser

KEY = "k2345678"
HIDE = "Object.defineProperty(document, 'hidden', { value: true, configurable: true }); document.dispatchEvent(new Event('visibilitychange'))"
SHOW = HIDE.replace("true, configurable", "false, configurable")


class TestKey:
    @pytest.fixture
    def server(self, start, looking):
        looking.expected += ["401"]
        return start(None, "--console-key", KEY)

    def test_a_wrong_key_is_told_a_right_one_opens(self, server, looking):
        page = looking.open(server)
        field = page.get_by_label("Key")
        field.fill("wrong-key")
        page.keyboard.press("Enter")
        page.get_by_text("That key is not right.").wait_for()
        assert page.get_by_role("navigation").count() == 0
        field.fill(KEY)
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="No request yet").wait_for()

    def test_a_key_of_any_signs_opens(self, start, looking):
        """A header holds bytes: it goes out as UTF-8, as curl sends it."""
        looking.expected += ["401"]
        page = looking.open(start(None, "--console-key", "schlüssel-鍵"))
        page.get_by_label("Key").fill("schlüssel-鍵")
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="No request yet").wait_for()

    def test_a_key_in_the_address_leaves_it(self, server, looking):
        page = looking.open(server, f"#key={KEY}")
        page.get_by_role("heading", name="No request yet").wait_for()
        assert KEY not in page.url
        page.go_back()
        assert KEY not in page.url

    def test_the_tab_keeps_it_and_another_asks(self, server, looking):
        page = looking.open(server, f"#key={KEY}")
        page.get_by_role("heading", name="No request yet").wait_for()
        page.reload()
        page.get_by_role("heading", name="No request yet").wait_for()
        other = looking.open(server, context=page.context)
        other.get_by_role("heading", name="This console needs a key").wait_for()
        assert page.context.cookies() == []

    def test_it_can_be_forgotten(self, server, looking):
        page = looking.open(server, f"#key={KEY}")
        page.get_by_role("heading", name="No request yet").wait_for()
        page.get_by_role("button", name="Menu").click()
        page.get_by_role("menuitem", name="Forget the key").click()
        page.get_by_role("heading", name="This console needs a key").wait_for()
        page.reload()
        page.get_by_role("heading", name="This console needs a key").wait_for()

    def test_too_many_wrong_keys_are_told(self, server, looking):
        looking.expected += ["429"]
        page = looking.open(server)
        for number in range(10):
            page.request.get(
                f"{server.url}/console/api/state",
                headers={"X-Headrace-Console": "1", "Authorization": f"Bearer wrong{number}"},
            )
        page.get_by_label("Key").fill("wrong-key")
        page.keyboard.press("Enter")
        page.get_by_text("Too many wrong keys").wait_for()


class TestLine:
    def test_a_server_that_is_gone_is_told_and_one_that_comes_back_is_found(
        self, start, looking, monkeypatch
    ):
        looking.expected += ["ERR_CONNECTION", "ERR_INCOMPLETE", "ERR_NETWORK"]
        server = start()
        server.post("/v1/chat/completions", asking("Hello"))
        page = looking.open(server)
        rows(page, 1)
        server.process.terminate()
        assert server.process.wait(PATIENCE_S) is not None
        page.get_by_text("no answer since").wait_for()
        assert "trying again" in page.locator(".gate").inner_text()
        assert page.locator(".row").count() == 1
        monkeypatch.setattr("tests.e2e.conftest.free_port", lambda: server.port)
        again = Server(server.public, {"mira": {}}, ())
        try:
            page.get_by_text("no answer since").wait_for(state="detached")
            page.get_by_role("heading", name="No request yet").wait_for()
            again.post("/v1/chat/completions", asking("Hello"))
            rows(page, 1)
        finally:
            again.stop()

    def test_a_server_of_another_version_asks_for_a_reload(self, start, looking):
        server = start()
        window = looking.window(server)
        told = window.request.get(f"{server.url}/console/api/state", headers={"X-Headrace-Console": "1"})
        news = json.dumps({**told.json(), "version": "99.0"})
        page = looking.open(server, context=window)
        page.get_by_role("heading", name="No request yet").wait_for()
        assert page.locator(".strip").count() == 0
        window.route("**/console/api/events*", lambda route: route.fulfill(
            content_type="text/event-stream", body=f"id: 9\nevent: state\ndata: {news}\n\n"))  # fmt: skip
        page.evaluate(HIDE)
        page.wait_for_timeout(11_000)  # a hidden page lets its line go after ten seconds
        page.evaluate(SHOW)
        page.get_by_text("Headrace was updated.").wait_for()
        window.unroute("**/console/api/events*")
        page.get_by_role("button", name="Reload").click()
        page.locator(".strip").wait_for(state="detached")

    def test_a_part_that_could_not_be_loaded_is_asked_for_again(self, start, looking):
        looking.expected += ["ERR_FAILED"]
        server = start()
        server.post("/v1/chat/completions", asking("Hello"))
        window = looking.window(server)
        window.route("**/run.js", lambda route: route.abort())
        page = looking.open(server, context=window)
        page.locator(".row").click()
        page.get_by_text("This part of the page could not be loaded.").wait_for()
        window.unroute("**/run.js")
        page.get_by_role("button", name="Try again").click()
        page.locator(".fall").wait_for()

    def test_seven_tabs_work_because_hidden_ones_let_go(self, start, looking):
        server = start()
        window = looking.window(server)
        pages = [looking.open(server, context=window) for _ in range(5)]
        for page in pages:
            page.get_by_role("heading", name="No request yet").wait_for()
            page.evaluate(HIDE)
        pages[0].wait_for_timeout(11_000)
        pages += [looking.open(server, context=window) for _ in range(2)]
        pages[5].get_by_role("heading", name="No request yet").wait_for()
        pages[5].evaluate(HIDE)
        server.post("/v1/chat/completions", asking("Hello"))
        rows(pages[6], 1)
        pages[6].evaluate(HIDE)
        for page in pages[:6]:
            page.evaluate(SHOW)
            rows(page, 1)
            page.evaluate(HIDE)
            page.close()


HOSTILE = {
    "tags": "<img src=x onerror=alert(1)></script><script>alert(2)</script>[a](javascript:alert(3))",
    "marks": "\u202egnorw\u202c \u0000 \ud800 \U000e0001 \u200f end",
    "long": "a" * 2_000_000,
    "deep": "[" * 500 + "]" * 500,
}


class TestHostileTexts:
    @pytest.mark.parametrize("name", sorted(HOSTILE))
    def test_an_answer_is_shown_as_text(self, start, looking, backend, name):
        backend.on("Tell me", Reply([HOSTILE[name].encode("utf-8", "replace").decode()]))
        server = start()
        status, _ = server.post("/v1/chat/completions", asking("Tell me"))
        assert status == 200
        page = looking.open(server)
        page.on("dialog", lambda dialog: looking.troubles.append(f"dialog: {dialog.message}"))
        page.locator(".row").click()
        choose_answering(page)
        for tab in ("Came", "Output", "Sent", "Fields", "Facts"):
            page.get_by_role("tab", name=tab).click()
            page.wait_for_timeout(150)
        page.get_by_role("tab", name="Output").click()
        shown = page.locator(".pane pre").text_content()
        assert shown[:20] == HOSTILE[name].encode("utf-8", "replace").decode()[:20].replace("\0", "\0")
        assert page.evaluate("document.querySelectorAll('main img, main script').length") == 0

    def test_names_of_workflows_and_titles_are_texts(self, start, looking):
        name = "\"><img src=x onerror=alert(1)>'"
        title = "<script>alert(1)</script>\u202egnp"
        users = {"mira": {"user": {"customWorkflow": name}, "workflows": {name: [{**NODE, "title": title}]}}}
        server = start(users)
        server.post("/v1/chat/completions", asking("Hello"))
        page = looking.open(server)
        page.locator(".row").click()
        assert page.locator("button.fallrow:not(.end) .t").text_content() == title
        assert name in page.locator("h1").inner_text()

    def test_a_body_is_folded_by_depth(self, start, looking):
        server = start()
        server.post("/v1/chat/completions", asking("Hello there"))
        page = looking.open(server)
        page.locator(".row").click()
        choose_answering(page)
        page.get_by_role("tab", name="Sent").click()
        page.get_by_role("button", name="Indented").click()
        assert "Hello there" not in page.locator(".json").inner_text()
        first = page.locator(".json > details")
        assert first.evaluate("(one) => getComputedStyle(one).borderBottomWidth") == "0px"
        mark = 12
        assert (
            first.locator("> summary").bounding_box()["x"] >= page.locator(".json").bounding_box()["x"] + mark
        )
        page.locator(".json details:not([open]) > summary").click()
        page.locator(".json").get_by_text('"Hello there"').wait_for()


class TestKeyboard:
    def test_it_leads_through_the_runs_alone(self, start, looking, backend):
        backend.on("Tell me", Reply(["one", *[" more"] * 2000], gap_s=0.1))
        server = start()
        server.post("/v1/chat/completions", asking("Hello"))
        client = Client(server, asking("Tell me"))
        page = looking.open(server)
        page.locator(".row .mark.answering").wait_for()
        page.keyboard.press("j")
        assert "Chat" in page.evaluate("document.activeElement.textContent")
        page.keyboard.press("Enter")
        until(page, lambda: "#/runs/" in page.url)
        page.locator(".fallrow.end", has_text="Answer").wait_for()
        page.keyboard.press("c")
        page.get_by_role("button", name="Cancel the run").press("Enter")
        page.locator(".head .state.cancelled").wait_for()
        client.wait()
        page.keyboard.press("Escape")
        until(page, lambda: page.url.endswith("#/runs"))
        assert page.evaluate("document.activeElement.className") == "row"
        page.keyboard.press("/")
        page.keyboard.type("jjj")
        assert page.get_by_label("Find").input_value() == "jjj"

    def test_pages_are_two_letters_away_and_a_list_tells_them(self, start, looking):
        page = looking.open(start())
        page.get_by_role("heading", name="No request yet").wait_for()
        page.keyboard.press("?")
        assert "Workflows" in page.get_by_role("dialog").inner_text()
        page.keyboard.press("Escape")
        page.get_by_role("dialog").wait_for(state="detached")
        page.keyboard.press("g")
        page.keyboard.press("h")
        until(page, lambda: page.url.endswith("#/help"))
        until(page, lambda: page.evaluate("document.activeElement.id") == "main")

    def test_rows_of_the_waterfall_and_tabs_are_moved_by_arrows(self, start, looking):
        server = start(
            {"mira": {"workflows": {"Chat": [{**NODE, "title": "Draft"}, {**NODE, "title": "Answer"}]}}}
        )
        server.post("/v1/chat/completions", asking("Hello"))
        page = looking.open(server)
        page.locator(".row").click()
        page.locator("button.fallrow").first.focus()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        page.locator(".nodehead").wait_for()
        until(page, lambda: page.locator("button.fallrow[aria-current] .t").inner_text() == "Answer")
        page.get_by_role("tab", name="Came").click()
        page.keyboard.press("ArrowRight")
        assert page.get_by_role("tab", name="Output").get_attribute("aria-selected") == "true"

    def test_a_row_of_the_waterfall_says_what_it_shows(self, start, looking):
        server = start()
        server.post("/v1/chat/completions", asking("Hello"))
        page = looking.open(server)
        page.locator(".row").click()
        said = page.locator("button.fallrow .unseen").text_content()
        assert said.startswith("node 1, Answer, Standard, endpoint Model, 0.")
        assert said.endswith(" seconds, done")


PLACES = [
    "#/runs",
    "RUN",
    "RUN?tab=sent",
    "RUN?tab=output",
    "RUN?tab=fields",
    "RUN?tab=facts",
    "#/runs?user=nobody",
    "#/runs/none",
    "#/nowhere",
]


class TestAccess:
    @pytest.fixture
    def server(self, start):
        server = start(
            {"mira": {"workflows": {"Chat": [{**NODE, "title": "Draft"}, {**NODE, "title": "Answer"}]}}}
        )
        server.post("/v1/chat/completions", asking("Hello"))
        return server

    def address(self, page, server, place):
        runs = page.request.get(f"{server.url}/console/api/runs", headers={"X-Headrace-Console": "1"}).json()[
            "runs"
        ]
        return f"{server.url}/console/{place.replace('RUN', '#/runs/' + runs[0]['id'])}"

    @pytest.mark.parametrize("theme", ["light", "dark"])
    def test_axe_finds_nothing(self, server, looking, theme):
        looking.expected += ["404"]
        page = looking.open(server, color_scheme=theme, bypass_csp=True)
        found = {}
        for place in PLACES:
            page.goto(self.address(page, server, place))
            page.wait_for_timeout(400)
            found[place] = violations(page)
        assert {place: said for place, said in found.items() if said} == {}

    @pytest.mark.parametrize("width", WIDTHS)
    def test_the_page_does_not_scroll_sideways(self, server, looking, width):
        looking.expected += ["404"]
        page = looking.open(server, viewport={"width": width, "height": 700})
        wide = []
        for place in PLACES:
            page.goto(self.address(page, server, place))
            page.wait_for_timeout(200)
            if sideways(page) > 0:
                wide.append(place)
        assert wide == []

    def test_below_900_pixels_list_and_run_come_one_after_the_other(self, server, looking):
        page = looking.open(server, viewport={"width": 390, "height": 700})
        page.locator(".row").click()
        page.locator(".fall").wait_for()
        assert not page.locator(".list").is_visible()
        page.get_by_role("link", name="All runs").click()
        page.locator(".list").wait_for()
        page.locator(".fall").wait_for(state="detached")
        small = page.evaluate(
            "[...document.querySelectorAll('main a, main button, main select')].filter((one) => one.checkVisibility() && one.getBoundingClientRect().height < 40).length"
        )
        assert small == 0

    def test_reduced_motion_turns_nothing(self, start, looking, backend):
        backend.on("Tell me", Reply(["one"], hangs=True))
        server = start(
            {"mira": {"workflows": {"Chat": [{**NODE, "title": "Slow", "prompt": "Tell me"}, NODE]}}}
        )
        client = Client(server, asking("Hello"))
        for motion, moves in (("reduce", "none"), ("no-preference", "spin")):
            page = looking.open(server, reduced_motion=motion)
            mark = page.locator(".row .mark.running")
            mark.wait_for()
            assert mark.evaluate("(one) => getComputedStyle(one).animationName") == moves
        client.hang_up()

    def test_forced_colours_keep_the_bars(self, server, looking):
        page = looking.open(server, forced_colors="active")
        bar = page.locator(".row .shape i").first
        bar.wait_for()
        assert bar.evaluate("(one) => getComputedStyle(one).forcedColorAdjust") == "none"

    def test_the_theme_that_was_chosen_stays(self, server, looking):
        page = looking.open(server, color_scheme="light")
        page.get_by_role("button", name="Light or dark").click()
        page.reload()
        page.locator(".row").wait_for()
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"

    def test_printed_is_the_run_alone(self, server, looking):
        page = looking.open(server, "#/runs")
        page.locator(".row").click()
        page.locator(".fall").wait_for()
        page.emulate_media(media="print")
        assert not page.locator(".top").is_visible()
        assert not page.locator(".list").is_visible()
        assert page.locator(".fall").is_visible()
