"""Runs: the list, while requests wait and run and after (spec console.md 8.1; 17.1, item 1)."""

from __future__ import annotations

import json
import re
import threading

import pytest

from tests.browser.conftest import Client, asking, rows, seconds, until
from tests.e2e.fake_backend import Reply

pytestmark = pytest.mark.browser

SLOW = Reply(["one", " two", " three", " four", " five", " six"], gap_s=0.4)


class TestList:
    def test_an_empty_page_says_how_to_begin(self, start, looking):
        page = looking.open(start())
        page.get_by_role("heading", name="No request yet").wait_for()
        assert "/v1/chat/completions" in page.locator("pre").first.inner_text()
        assert '"model":"mira"' in page.locator("pre").nth(1).inner_text()

    def test_a_request_appears_while_it_runs_and_its_bar_grows(self, start, looking, backend):
        begin, rest = threading.Event(), threading.Event()
        backend.on("Tell me", Reply(["one", " more"], after=begin, rest_after=rest))
        server = start(None, "--concurrency", "1")
        page = looking.open(server)
        page.wait_for_selector("text=No request yet")
        first = Client(server, asking("Tell me"))
        page.wait_for_selector(".row .shape")
        page.wait_for_timeout(1_000)  # a model that reads: the answer's part of the bar has room to grow
        begin.set()
        page.wait_for_selector(".row .mark.answering")
        bar = page.locator(".row .shape i.k-say").first
        before = bar.bounding_box()["width"]
        second = Client(server, asking("Hello"))
        waiting = page.locator(".row", has=page.locator(".mark.waiting"))
        waiting.get_by_text("1st, while mira runs", exact=True).wait_for()
        assert waiting.locator(".name b").inner_text() == "mira"
        assert waiting.locator(".said").inner_text() == "Hello"
        until(page, lambda: bar.bounding_box()["width"] > before + 5)
        rest.set()
        first.wait(), second.wait()
        until(page, lambda: page.locator(".row .mark.done").count() == 2)
        assert page.locator(".row").count() == 2

    def test_a_page_too_many_asks_each_three_seconds(self, start, looking):
        """It says so, shows what the others show, and is told again once one of them has closed."""
        looking.expected += ["503"]
        server = start(None, "--threads", "4")
        first = looking.open(server)
        first.wait_for_selector("text=No request yet")
        second = looking.open(server)
        second.get_by_text(", updated every 3 s").wait_for()
        server.post("/v1/chat/completions", asking("Hello"))
        second.wait_for_selector(".row .mark.done")
        first.close()
        until(second, lambda: second.get_by_text("updated every").count() == 0)
        server.post("/v1/chat/completions", asking("Again"))
        until(second, lambda: second.locator(".row .mark.done").count() == 2)

    def test_the_numbers_of_a_row_are_those_of_the_client(self, start, looking, backend):
        backend.on("Tell me", SLOW)
        server = start()
        page = looking.open(server)
        body = Client(server, asking("Tell me", stream_options={"include_usage": True})).wait()
        usage = [
            json.loads(line[6:])["usage"]
            for line in body.decode().splitlines()
            if '"usage":{' in line.replace(" ", "")
        ]
        row = page.locator(".row")
        page.wait_for_selector(".row .mark.done")
        told = re.compile(rf"tokens\s*(about )?{usage[-1]['completion_tokens']}\b")
        page.locator(".runhead .sum").filter(has_text=told).wait_for()
        assert 2.0 <= seconds(row.locator(".took b").inner_text()) < 4

    def test_filters_stand_in_the_address_and_say_when_nothing_fits(self, start, looking):
        server = start({"mira": {}, "jo": {}})
        server.post("/v1/chat/completions", asking("pineapple"))
        server.post("/v1/chat/completions", {**asking("other"), "model": "jo"})
        page = looking.open(server)
        rows(page, 2)
        page.get_by_label("Find").fill("pineapple")
        rows(page, 1)
        assert "text=pineapple" in page.url
        page.get_by_label("Find").fill("pineapples")
        page.wait_for_selector("text=No run fits. 2 are kept.")
        page.get_by_role("button", name="Show all").click()
        rows(page, 2)

    def test_odd_runs_are_marked_counted_and_found(self, start, looking, backend):
        """An empty answer is no plain success; a chip without a run is not shown (workbench.md 12)."""
        backend.on("Say nothing", Reply([""]))
        server = start({"mira": {}, "jo": {}})
        page = looking.open(server)
        server.post("/v1/chat/completions", asking("Hello"))
        server.post("/v1/chat/completions", {**asking("Say nothing"), "model": "jo"})
        rows(page, 2)
        odd = page.locator(".row", has=page.locator(".mark.trouble"))
        assert odd.locator(".name b").inner_text() == "jo"
        assert "empty" in odd.locator(".facts").inner_text()
        assert page.locator(".row .mark.done").count() == 1
        page.locator(".pill", has_text="odd").click()
        rows(page, 1)
        assert "state=odd" in page.url and page.locator(".pill", has_text="failed").count() == 0
        page.locator(".pill", has_text="odd").click()
        rows(page, 2)
        page.get_by_role("button", name="names").click()
        page.get_by_role("menuitemradio", name="mira").click()
        rows(page, 1)
        assert "user=mira" in page.url

    def test_a_name_that_nobody_has_stands_in_the_row(self, start, looking):
        server = start({"mira": {}, "jo": {}})
        server.post("/v1/chat/completions", {**asking("Hello"), "model": "gpt-nobody"})
        page = looking.open(server)
        rows(page, 1)
        assert page.locator(".row .name b").inner_text() == "gpt-nobody"

    def test_the_newest_run_opens_by_itself(self, start, looking):
        """On a wide page, and without a change of address, title or focus; on a small one the list does."""
        server = start()
        server.post("/v1/chat/completions", asking("Hello"))
        page = looking.open(server)
        page.locator(".run .fallrow").first.wait_for()
        assert page.url.endswith("/console/") or page.url.endswith("#/runs")
        assert page.title() == "Runs - Headrace"
        assert page.evaluate("document.activeElement === document.body")
        small = looking.open(server, viewport={"width": 390, "height": 800})
        rows(small, 1)
        assert small.locator(".run .fallrow").count() == 0

    def test_a_refused_request_says_its_status_and_all_rows_are_of_one_height(self, start, looking):
        server = start()
        server.post("/v1/chat/completions", asking("Hello"))
        server.post("/v1/chat/completions", {"model": "mira", "messages": "no list"})
        page = looking.open(server)
        rows(page, 2)
        assert "status 400" in page.locator(".row", has=page.locator(".mark.refused")).inner_text()
        assert {row.bounding_box()["height"] for row in page.locator(".row").all()} == {68}

    def test_a_refused_request_shows_its_reason_and_no_empty_parts(self, start, looking):
        server = start()
        server.post("/v1/chat/completions", {"model": "mira", "messages": "no list"})
        page = looking.open(server)
        rows(page, 1)
        page.locator(".row").click()
        page.get_by_text("No node has started.").wait_for()
        assert page.locator(".notes.bad").count() == 1 and page.locator(".notes.quiet").count() == 0
        assert page.locator(".fall").count() == 0
        assert "0 calls" not in page.locator(".sum").inner_text()

    def test_a_private_run_says_so_on_lines_as_wide_as_the_page(self, start, looking):
        server = start({"lea": {"user": {"redactLogOutput": True}}})
        server.post("/v1/chat/completions", {**asking("Hello"), "model": "lea"})
        page = looking.open(server)
        rows(page, 1)
        page.locator(".row").click()
        said = page.locator(".notes.quiet")
        said.wait_for()
        assert "The user's settings keep texts private; times and counts only." in said.inner_text()
        assert said.bounding_box()["width"] == page.locator(".runhead .sum").bounding_box()["width"]

    def test_a_run_of_a_few_milliseconds_has_a_bar_beside_a_long_one(self, start, looking):
        """As in the waterfall, at least two pixels."""
        server = start()
        for _ in range(2):
            server.post("/v1/chat/completions", asking("Hello"))
        window = looking.window(server)
        told = window.request.get(
            f"{server.url}/console/api/runs", headers={"X-Headrace-Console": "1"}
        ).json()
        for run, length in zip(told["runs"], (0.004, 50.0), strict=True):
            run["shape"], run["took_s"] = [["say", length]], length
        window.route("**/console/api/runs?*", lambda route: route.fulfill(json=told))
        page = looking.open(server, context=window)
        rows(page, 2)
        short, long = (bar.bounding_box()["width"] for bar in page.locator(".row .shape").all())
        assert short >= 2 and long > 100

    def test_what_one_types_stays_while_runs_go_on(self, start, looking, backend):
        backend.on("Tell me", Reply(["one", *[" more"] * 60], gap_s=0.1))
        server = start()
        client = Client(server, asking("Tell me"))
        page = looking.open(server)
        page.locator(".row .mark.answering").wait_for()
        page.get_by_label("Find").press_sequentially("tell me this and that", delay=120)
        assert page.get_by_label("Find").input_value() == "tell me this and that"
        client.hang_up()

    def test_a_list_that_is_scrolled_holds_still(self, start, looking):
        server = start()
        for number in range(25):
            server.post("/v1/chat/completions", asking(f"number {number}"))
        page = looking.open(server)
        rows(page, 25)
        page.evaluate("document.querySelector('.rows').scrollTop = 200")
        page.wait_for_timeout(100)
        before = page.locator(".row").nth(6).bounding_box()["y"]
        server.post("/v1/chat/completions", asking("newest"))
        page.get_by_role("button", name="1 new").wait_for()
        assert page.locator(".row").nth(6).bounding_box()["y"] == before
        page.get_by_role("button", name="1 new").click()
        rows(page, 26)
        assert page.evaluate("document.querySelector('.rows').scrollTop") == 0


class TestKeep:
    def test_a_run_is_kept_until_it_is_let_go(self, start, looking):
        """Its button says so, and a button over the list finds it (workbench.md 12)."""
        server = start()
        for text in ("Keep me", "Not me"):
            server.post("/v1/chat/completions", asking(text))
        page = looking.open(server)
        page.locator(".row", has_text="Keep me").click()
        keep = page.get_by_role("button", name="Keep", exact=True)
        keep.wait_for()
        assert keep.get_attribute("aria-pressed") == "false"
        keep.click()
        until(page, lambda: keep.get_attribute("aria-pressed") == "true")
        page.locator(".pill", has_text="kept").click()
        rows(page, 1)
        assert "Keep me" in page.locator(".row").inner_text()
        keep.click()
        page.get_by_text("No run fits.").wait_for()
