"""Endpoints and Overview (spec console.md 17.1, item 11), and how they stand in any window (item 14)."""

from __future__ import annotations

import json
import random
import re
import time

import pytest

from Middleware.common.costs import Cost
from Middleware.services.history import HistoryFile, HistoryRow
from tests.browser.conftest import QUESTION, WIDTHS, asking, sideways, until, violations
from tests.e2e.conftest import NODE, write
from tests.e2e.fake_backend import Reply
from tests.workflows.conftest import Site

pytestmark = pytest.mark.browser

DOWN = Reply(status=500)


def total(metrics: str, name: str, **labels: str) -> float:
    """The sum of the series of one metric that bear these labels."""
    lines = [line for line in metrics.splitlines() if re.match(rf"{name}({{|\s)", line)]
    fit = [line for line in lines if all(f'{key}="{value}"' in line for key, value in labels.items())]
    return sum(float(line.rpartition(" ")[2]) for line in fit)


def big(page, name: str) -> str:
    return page.locator(".big div", has_text=name).locator("dd").inner_text().replace("\u202f", "")


class TestEndpoints:
    def test_a_server_that_fails_is_told_with_advice_and_one_that_is_back_is_well_again(
        self, start, looking, backend
    ):
        server = start()
        page = looking.open(server, "#/endpoints")
        page.locator(".pagehead", has_text="1 not called yet").wait_for()
        server.post("/v1/chat/completions", asking("Hello"))
        page.get_by_text(re.compile("well since .*, 1 call")).wait_for()
        backend.on("break", DOWN)
        server.post("/v1/chat/completions", asking("break"))
        card = page.locator(".endpoint")
        page.get_by_text(re.compile("failing since .*, 1 call")).wait_for()
        assert "1 failing" in page.locator(".pagehead").inner_text()
        advice = card.locator(".notes.bad .advice").inner_text()
        assert re.match(r"Next: \w", advice) and "`" not in advice
        server.post("/v1/chat/completions", asking("Hello"))
        page.get_by_text(re.compile("well since .*, 1 call")).wait_for()

    def test_the_bar_of_every_page_says_how_many_fail(self, start, looking, backend):
        """Without a look at the page of the endpoints, until they are well again."""
        server = start({"mira": {}, "jo": {}})
        backend.on("break", DOWN)
        page = looking.open(server, bypass_csp=True)
        page.get_by_role("link", name="Endpoints", exact=True).wait_for()
        server.post("/v1/chat/completions", asking("break", model="jo"))
        page.get_by_role("link", name="Endpoints 1 fails", exact=True).wait_for()
        assert page.locator(".top .flag").inner_text().split() == ["1", "fails"] and violations(page) == []
        server.post("/v1/chat/completions", asking("break", model="mira"))
        page.get_by_role("link", name="Endpoints 2 fail", exact=True).wait_for()
        page.set_viewport_size({"width": 320, "height": 700})
        assert sideways(page) <= 0
        for user in ("mira", "jo"):
            server.post("/v1/chat/completions", asking("Hello", model=user))
        page.get_by_role("link", name="Endpoints", exact=True).wait_for()

    @pytest.mark.parametrize("width", [390, 1440])
    def test_what_fails_since_when_and_for_whom_stands_first(self, start, looking, backend, width):
        """Before what its file says; in the first screen at every width. A failure that is over is called one."""
        server = start({"abe": {}, "mira": {}})
        backend.on("break", DOWN)
        server.post("/v1/chat/completions", asking("break", model="abe"))
        server.post("/v1/chat/completions", asking("Hello", model="abe"))
        server.post("/v1/chat/completions", asking("break", model="mira"))
        page = looking.open(server, "#/endpoints", viewport={"width": width, "height": 700})
        page.locator(".endpoint").nth(1).wait_for()
        first = page.locator(".endpoint").first
        assert re.search(
            r"Model\s*mira\s*failing since [\d:]+, 1 call\s+[\d:]+ endpoint 'Model' answered 500.*\s+Next: .*\s+"
            r"affects\s+mira \(mira\)\s+address",
            first.inner_text(),
        )
        affected = first.locator("dd").first.bounding_box()
        assert affected["y"] + affected["height"] < 700
        page.locator(".endpoint.well").get_by_text("last failure").wait_for()

    def test_whoever_has_the_same_address_is_named_where_it_fails(self, start, looking, backend):
        """With how they are: nobody has called them yet. A file that no workflow uses is listed as well."""
        server = start({"mira": {"endpoints": {"Spare": {}}}, "jo": {}})
        backend.on("break", DOWN)
        server.post("/v1/chat/completions", asking("break", model="mira"))
        page = looking.open(server, "#/endpoints")
        failing = page.locator(".endpoint.failing")
        failing.get_by_text(
            "Model of jo (not called yet, would affect jo), Spare of mira (not called yet)", exact=True
        ).wait_for()
        page.locator(".unused summary", has_text="2 not called yet: Model, Spare").click()
        page.get_by_text("used by no workflow").wait_for()

    def test_a_card_says_how_much_of_the_prompts_its_server_held(self, start, looking):
        """Over the last hour; nothing before anything is known."""
        server = start()
        page = looking.open(server, "#/endpoints")
        page.locator(".pagehead", has_text="1 not called yet").wait_for()
        assert page.locator(".endpoint", has_text="held").count() == 0
        for _ in range(2):
            server.post("/v1/chat/completions", asking("Hello"))
        page.get_by_text("100\u202f% held, over the last hour").wait_for()

    def test_a_card_that_was_not_called_is_as_wide_as_the_others_and_not_alarming(self, start, looking):
        users = {
            "mira": {
                "endpoints": {"Other": {}},
                "workflows": {"Chat": [NODE, {**NODE, "endpointName": "Other"}]},
            }
        }
        server = start({**users, "jo": {}})
        server.post("/v1/chat/completions", asking("Hello"))
        page = looking.open(server, "#/endpoints")
        page.locator(".endpoint.well").first.wait_for()
        page.locator(".unused summary").click()
        widths = {round(card.bounding_box()["width"]) for card in page.locator(".endpoint").all()}
        assert page.locator(".endpoint").count() == 3 and len(widths) == 1
        colour = "(one) => getComputedStyle(one).color"
        dim = page.locator(".pagehead .dim").evaluate(colour)
        assert page.locator(".endpoint.quiet .state").first.evaluate(colour) == dim

    def test_its_state_stands_on_the_line_of_its_name(self, start, looking):
        server = start()
        server.post("/v1/chat/completions", asking("Hello"))
        page = looking.open(server, "#/endpoints")
        page.locator(".ehead .state.done").wait_for()
        foot = "(one) => { const all = document.createRange(); all.selectNodeContents(one.lastChild); return all.getBoundingClientRect().bottom; }"
        state, name = page.locator(".ehead .state"), page.locator(".ehead > :first-child")
        assert abs(state.evaluate(foot) - name.evaluate(foot)) <= 1

    def test_a_probe_tells_the_doctors_sentence_and_the_models(self, start, looking):
        page = looking.open(start(), "#/endpoints")
        page.get_by_role("button", name="Probe").click()
        page.locator(".probe .notes.good").wait_for()
        assert "Model" in page.locator(".probe .notes").inner_text()

    def test_a_probe_of_a_server_that_is_gone_says_so(self, start, looking, backend):
        server = start()
        page = looking.open(server, "#/endpoints")
        backend.close()
        page.get_by_role("button", name="Probe").click()
        page.locator(".probe .notes.bad").wait_for()

    def test_the_workflows_that_use_it_are_links(self, start, looking):
        page = looking.open(start(), "#/endpoints")
        page.locator(".usedby a").first.click()
        until(page, lambda: "#/workflows/Workflows/mira/" in page.url)


class TestOverview:
    def test_numbers_agree_with_metrics(self, start, looking, backend):
        backend.on("break", DOWN)
        server = start()
        for number in range(20):
            server.post("/v1/chat/completions", asking("break" if number % 5 == 0 else "one two three"))
        page = looking.open(server, "#/overview")
        until(page, lambda: big(page, "requests") == "20")
        _, body = server.request("GET", "/metrics")
        metrics = body.decode()
        assert (
            big(page, "failed")
            == str(int(total(metrics, "headrace_requests_total", outcome="failed")))
            == "4"
        )
        assert big(page, "tokens") == str(
            int(total(metrics, "headrace_backend_tokens_total", kind="completion"))
        )
        assert page.locator(".plot").count() == 6
        assert "20 within the hour, 4 failed" in page.locator(".plot").first.get_attribute("aria-label")

    def test_endpoints_that_fail_are_named_and_the_rest_are_counted(self, start, looking, backend):
        """Those of one name are told apart by their users (workbench.md 16.3)."""
        server = start({"mira": {}, "jo": {}, "lee": {}})
        backend.on("break", DOWN)
        for user in ("mira", "jo"):
            server.post("/v1/chat/completions", {**asking("break"), "model": user})
        page = looking.open(server, "#/overview")
        page.locator(".servers li").first.wait_for()
        told = [" ".join(text.split()) for text in page.locator(".servers li").all_inner_texts()]
        assert told == ["Model (jo) failing", "Model (mira) failing", "1 endpoint: 1 not called yet"]

    def test_what_one_user_used_today_by_model_names(self, start, looking):
        """A click on the user, or the menu over the table."""
        server = start({"mira": {"user": {"allowSharedWorkflows": True}}, "jo": {}})
        write(server.public / "Configs" / "Workflows" / "_shared" / "novel" / "_DefaultWorkflow.json", [NODE])
        for name in ("mira", "mira", "mira:novel", "jo"):
            server.post("/v1/chat/completions", asking("Hello", model=name))
        page = looking.open(server, "#/overview", bypass_csp=True)
        table = page.get_by_role("region", name="Today in numbers")
        table.get_by_role("button", name="mira").click()

        def told():
            return [row.locator("td").all_inner_texts()[:2] for row in table.locator("tbody tr").all()]

        until(page, lambda: told() == [["mira", "2"], ["mira:novel", "1"], ["mira, in all", "3"]])
        page.get_by_label("of which user").select_option("jo")
        until(page, lambda: told() == [["jo", "1"], ["jo, in all", "1"]])
        page.get_by_label("of which user").select_option("all users")
        until(page, lambda: told() == [["mira", "3"], ["jo", "1"], ["all users, in all", "4"]])
        assert violations(page) == []

    def test_the_whole_day_of_a_user_stands_below_what_came_since_a_restart(self, start, looking, tmp_path):
        """Of model names the history knows nothing."""
        history = ("--history", str(tmp_path / "history"))
        first = start(None, *history)
        first.post("/v1/chat/completions", asking("Hello"))
        first.stop()
        second = start(None, *history)
        second.post("/v1/chat/completions", asking("Hello"))
        page = looking.open(second, "#/overview")
        page.get_by_label("of which user").select_option("mira")
        rows = page.get_by_role("region", name="Today in numbers").locator("tbody tr")

        def told():
            return [row.locator("td").all_inner_texts()[:2] for row in rows.all()]

        until(page, lambda: told() == [["mira", "1"], ["mira, in all", "1"], ["mira, since midnight", "2"]])

    def test_requests_that_have_not_ended_are_counted_apart(self, looking, under_way):
        """The table of today counts those that have."""
        client, page = under_way
        page.get_by_role("link", name="Overview").click()
        page.get_by_text("requests, 1 not ended yet").wait_for()
        client.hang_up()

    def test_the_last_time_on_the_axis_has_room(self, start, looking):
        """It stands at the right end, and half of it beyond."""
        page = looking.open(start(), "#/overview")
        plot = page.locator(".plot").first
        plot.locator(".u-over").wait_for()
        ends = "(one) => one.getBoundingClientRect().right"
        half = 15
        until(page, lambda: plot.locator(".u-over").evaluate(ends) + half <= plot.evaluate(ends))

    def test_the_same_numbers_as_a_table(self, start, looking):
        server = start()
        server.post("/v1/chat/completions", {"model": "mira", **QUESTION})
        page = looking.open(server, "#/overview")
        page.get_by_label("as a table").check()
        page.locator("table.numbers tbody tr").first.wait_for()
        assert page.locator("table.numbers tbody tr td").nth(1).inner_text() == "1"


def slow_evening(folder):
    """A history of two days with two users: one evening was slow."""
    now, chance = time.time(), random.Random(3)
    file = HistoryFile(folder)
    file.write(
        HistoryRow(
            at=now - back * 3600 - 60 * minute,
            user=user,
            workflow="Chat",
            key="",
            state=chance.choice(["done"] * 9 + ["failed"]),
            took_s=9.0,
            first_s=chance.uniform(0.5, 1.5) * (20 if back in (14, 15, 16) else 1),
            prompt=900,
            completion=120,
            held=400,
            endpoint="Model",
            costs=(Cost("USD", 700),) if user == "mira" else (),
        )
        for back in range(47)
        for minute, user in ((5, "mira"), (17, "jo"), (40, "mira"))
    )
    file.close()


class TestHistory:
    @pytest.fixture
    def page(self, start, looking, tmp_path):
        """Overview of a server that has kept a history, its hours chosen."""
        slow_evening(tmp_path / "history")
        page = looking.open(
            start(None, "--history", str(tmp_path / "history")), "#/overview", bypass_csp=True
        )
        page.get_by_label("Time").select_option("hours")
        page.get_by_role("heading", name="By").wait_for()
        return page

    def test_a_slow_evening_shows(self, page):
        """In the plot of the first token; costs have a plot of their own."""
        told = [plot.get_attribute("aria-label") for plot in page.locator(".plot").all()]
        slow = next(text for text in told if text.startswith("First token"))
        assert re.search(r"median at most (1\d|2\d|30)\u202fs", slow), slow
        assert any(text.startswith("Cost: ") and text.endswith(" USD") for text in told)

    def test_one_user_alone(self, page):
        """A click on a name; another one shows all again."""
        page.get_by_role("button", name="jo").click()
        until(page, lambda: "Requests: 47," in page.locator(".plot").first.get_attribute("aria-label"))
        page.get_by_role("button", name="Show all").click()
        until(page, lambda: "Requests: 141," in page.locator(".plot").first.get_attribute("aria-label"))

    def test_by_workflow_and_as_a_table(self, page):
        """Each has its row."""
        page.get_by_label("By what").select_option("workflow")
        page.get_by_role("button", name="Chat").wait_for()
        page.get_by_label("as a table").check()
        page.get_by_role("region", name="The history in numbers").locator("tbody tr").first.wait_for()

    @pytest.mark.parametrize("span", ["days", "weeks"])
    def test_longer(self, page, span):
        """Days and weeks."""
        page.get_by_label("Time").select_option(span)
        until(page, lambda: "Requests: 141," in page.locator(".plot").first.get_attribute("aria-label"))

    def test_axe_finds_nothing_and_it_fits(self, page):
        """In any window."""
        assert violations(page) == []
        assert sideways(page) <= 0
        page.set_viewport_size({"width": 320, "height": 800})
        page.get_by_role("button", name="jo").wait_for()
        assert sideways(page) <= 0


def test_without_a_history_there_is_the_last_hour_alone(start, looking):
    page = looking.open(start(), "#/overview")
    page.get_by_text("the last hour, to").wait_for()
    assert page.get_by_label("Time").count() == 0


@pytest.fixture
def site():
    """A server beside the model servers."""
    made = Site()
    yield made
    made.close()


def test_the_card_says_what_is_loaded(start, looking, site):
    """As the server says it."""
    said = {"models": [{"name": "smollm2:135m"}]}
    site.pages["/api/ps"] = (200, {"Content-Type": "application/json"}, json.dumps(said).encode())
    ollama = {"endpoint": site.url("").rstrip("/"), "apiTypeConfigFileName": "OllamaApiChat"}
    page = looking.open(start({"mira": {"endpoints": {"Model": ollama}}}), "#/endpoints")
    page.get_by_text("Ollama: smollm2:135m").wait_for()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(
    "address", ["#/endpoints", "#/overview", "#/help/nodes/Standard", "#/help?find=preset"]
)
def test_axe_finds_nothing(start, looking, address, theme):
    server = start()
    server.post("/v1/chat/completions", {"model": "mira", **QUESTION})
    page = looking.open(server, address, bypass_csp=True, color_scheme=theme)
    page.locator(".endpoint, .plot, .prose h1, .hit").first.wait_for()
    assert violations(page) == []


@pytest.mark.parametrize("width", WIDTHS)
def test_no_page_is_wider_than_its_window(start, looking, width):
    server = start()
    server.post("/v1/chat/completions", {"model": "mira", **QUESTION})
    page = looking.open(server, "#/endpoints", viewport={"width": width, "height": 800})
    for address, sign in (
        ("endpoints", ".endpoint"),
        ("overview", ".plot"),
        ("help/nodes/Standard", ".prose h1"),
    ):
        page.evaluate("address => { location.hash = address; }", f"#/{address}")
        page.locator(sign).first.wait_for()
        assert sideways(page) <= 0, address
