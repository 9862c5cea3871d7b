"""One run, while it runs and after (spec console.md 8.2 to 8.6; 17.1, items 2 to 4)."""

from __future__ import annotations

import json
import re

import pytest

from tests.browser.conftest import Client, asking, choose_answering, rows, seconds, until
from tests.e2e.conftest import NODE, write
from tests.e2e.fake_backend import Reply

pytestmark = pytest.mark.browser

NESTED = {
    "workflows": {
        "Chat": [
            {**NODE, "title": "Draft", "prompt": "draft", "lastMessagesToSendInsteadOfPrompt": 0},
            {**NODE, "title": "Facts", "prompt": "facts", "parallelGroup": "critics"},
            {**NODE, "title": "Style", "prompt": "style", "parallelGroup": "critics"},
            {**NODE, "title": "Lost", "prompt": "lost", "onNodeError": "continue"},
            {"title": "Below", "type": "CustomWorkflow", "workflowName": "Inner"},
            {**NODE, "title": "Answer", "returnToUser": True},
            {**NODE, "title": "Notes", "prompt": "notes"},
        ],
        "Inner": [{**NODE, "title": "Deep", "prompt": "deep"}],
    }
}


class TestWaterfall:
    @pytest.fixture
    def page(self, start, looking, backend):
        backend.on("lost", Reply(status=500))
        for mark in ("draft", "facts", "style", "deep", "notes"):
            backend.on(mark, Reply(["a", " b", " c"], gap_s=0.1))
        self.server = start({"mira": NESTED})
        Client(self.server, asking("Hello there")).wait()
        page = looking.open(self.server)
        page.locator(".row .mark.trouble").wait_for()
        page.locator(".row").click()
        until(page, lambda: "#/runs/" in page.url)
        page.locator(".fallrow.end", has_text="Answer").wait_for()
        return page

    def run(self, page):
        found = page.url.split("#/runs/")[1].split("?")[0]
        headers = {"X-Headrace-Console": "1"}
        return page.request.get(f"{self.server.url}/console/api/runs/{found}", headers=headers).json()

    def test_each_node_has_its_row_its_place_and_its_depth(self, page):
        titles = [text.strip() for text in page.locator(".fallrow .lab .t").all_inner_texts()]
        assert [title for title in titles if title != "waiting for a slot"] == [
            "Request",
            "Draft",
            "Facts",
            "Style",
            "Lost",
            "Below",
            "Deep",
            "Answer",
            "Answer",
            "Notes",
        ]
        depth = page.locator("button.fallrow", has_text="Deep").evaluate(
            "(row) => getComputedStyle(row).getPropertyValue('--depth')"
        )
        assert depth == "1"
        assert page.locator("button.fallrow.group .t").all_inner_texts() == ["Facts", "Style"]
        assert page.locator("button.fallrow.went_on .x").count() == 1
        after = page.locator(".fallrows > li").evaluate_all(
            "(rows) => rows.map((row) => row.className === 'cutline' ? 'line' : row.querySelector('.t')?.textContent)"
        )
        assert after[-2:] == ["line", "Notes"]

    def test_bars_stand_where_the_trace_says(self, page):
        run = self.run(page)
        end = max([run["took_s"], *[node["ended_s"] or 0 for node in run["nodes"]]])
        for node in run["nodes"]:
            row = page.locator("button.fallrow", has=page.get_by_text(node["title"], exact=True)).first
            track = row.locator(".track").bounding_box()
            bars = [bar.bounding_box() for bar in row.locator(".track i:not(.mk)").all()]
            left = min(bar["x"] for bar in bars) - track["x"]
            right = max(bar["x"] + bar["width"] for bar in bars) - track["x"]
            assert abs(left - track["width"] * node["begun_s"] / end) <= 1
            assert abs(right - max(left + 2, track["width"] * node["ended_s"] / end)) <= 2

    def test_bars_have_room_in_a_narrow_pane(self, page):
        page.set_viewport_size({"width": 900, "height": 800})
        fall, track = page.locator(".fall").bounding_box(), page.locator("button.fallrow .track").first
        until(page, lambda: track.bounding_box()["width"] > fall["width"] / 2)
        assert page.locator(".list").is_visible()

    def test_one_can_look_closer_and_come_back(self, page):
        axis = page.locator(".axis .track").bounding_box()
        page.mouse.move(axis["x"] + axis["width"] * 0.25, axis["y"] + 10)
        page.mouse.down()
        page.mouse.move(axis["x"] + axis["width"] * 0.5, axis["y"] + 10)
        page.mouse.up()
        page.get_by_role("button", name="whole time").wait_for()
        page.keyboard.press("0")
        page.get_by_role("button", name="whole time").wait_for(state="detached")
        assert page.locator(".axis .track span").first.inner_text() == "0\u202fs"


class TestFold:
    def test_the_chosen_node_is_shown_although_its_run_is_long(self, start, looking, backend):
        """Thirteen nested nodes are folded, but for the one that failed."""
        backend.on("broken", Reply(status=500))
        steps = [{**NODE, "title": f"Step {n}", "prompt": "step"} for n in range(12)]
        inner = [*steps, {**NODE, "title": "Broken", "prompt": "broken"}]
        below = {"title": "Below", "type": "CustomWorkflow", "workflowName": "Inner"}
        server = start({"mira": {"workflows": {"Chat": [below, NODE], "Inner": inner}}})
        server.post("/v1/chat/completions", asking("Hello"))
        page = looking.open(server)
        rows(page, 1)
        page.locator(".row").click()
        page.locator("button.fallrow[aria-current]", has_text="Broken").wait_for()
        page.get_by_role("button", name="fold 13 nodes of Inner").click()
        page.get_by_role("button", name="show 13 nodes of Inner").wait_for()
        assert page.locator("button.fallrow[aria-current]").count() == 0


ENDPOINT_THAT_THINKS = {
    "endpoints": {
        "Model": {
            "thinkTagNames": ["think"], "removeThinking": True, "startThinkTag": "<think>", "endThinkTag": "</think>",
            "trimBeginningAndEndLineBreaks": True, "removeCustomTextFromResponseStartEndpointWide": True,
            "responseStartTextToRemoveEndpointWide": ["Assistant:"],
        }
    }
}  # fmt: skip
RAW = "<think>hm, let me see</think>\n\nAssistant: Hello there\n\n"


class TestThinking:
    def test_it_is_seen_while_it_lasts(self, start, looking, backend):
        """In the list and in the waterfall, as the last bar, which grows; and no word of it is a first token."""
        backend.on("Tell me", Reply(["<think>hm", ", let me see"], hangs=True))
        server = start({"mira": ENDPOINT_THAT_THINKS})
        client = Client(server, asking("Tell me"))
        page = looking.open(server)
        page.locator(".row .shape i.k-think").wait_for()
        page.locator(".row").click()
        bar = page.locator("button.fallrow .track i.k-think")
        bar.wait_for()
        share = "(bar) => bar.clientWidth / bar.parentElement.clientWidth"
        before = bar.evaluate(share)
        until(page, lambda: bar.evaluate(share) > before)
        assert page.locator("button.fallrow .track i.k-say").count() == 0
        assert page.locator("button.fallrow .track .mk").count() == 0
        client.hang_up()
        page.locator(".row .mark.cancelled").wait_for()
        assert bar.count() == 1


class TestBackup:
    def test_the_call_that_answered_is_shown_first_and_the_one_that_failed_on_asking(self, start, looking):
        gone = {"endpoint": "http://127.0.0.1:9", "backupEndpointName": "Other"}
        server = start({"mira": {"endpoints": {"Model": gone, "Other": {}}}})
        server.post("/v1/chat/completions", asking("Hello there"))
        page = looking.open(server)
        rows(page, 1)
        page.locator(".row").click()
        page.get_by_text("Model failed (connect_error); Other answered instead.").wait_for()
        choose_answering(page)
        assert page.locator(".notes b").all_inner_texts() == ["Model", "Other"]
        assert page.locator(".tabline .right").inner_text() == "call 2 of 2"
        assert page.locator(".pane pre").inner_text() == "Hello there"
        page.get_by_role("button", name="Copy").click()
        page.get_by_role("menuitem", name="The call to Other as curl").wait_for()
        page.keyboard.press("Escape")
        page.locator("button.fallrow.call").first.click()
        page.get_by_text("Nothing came.").wait_for()
        assert page.locator(".tabline .right").inner_text() == "call 1 of 2"
        page.get_by_role("button", name="Copy").click()
        page.get_by_role("menuitem", name="The call to Model as curl").wait_for()


class TestTryAgain:
    def test_a_key_opens_the_run_s_workflow_with_its_messages(self, start, looking):
        server = start()
        server.post("/v1/chat/completions", asking("Hello there"))
        page = looking.open(server)
        rows(page, 1)
        page.locator(".row").click()
        page.get_by_role("button", name="Run again", exact=True).wait_for()
        page.keyboard.press("t")
        until(page, lambda: page.get_by_label("text of message 1").count() == 1)
        until(page, lambda: page.get_by_label("text of message 1").input_value() == "Hello there")

    def test_a_routed_run_is_tried_by_its_routing(self, start, looking, backend):
        backend.on("Which route?", Reply(["CODE"]))
        pick = {**NODE, "title": "Pick", "prompt": "Which route?", "lastMessagesToSendInsteadOfPrompt": 0}
        routing = {
            "customWorkflowOverride": False,
            "routingConfig": "roads",
            "categorizationWorkflow": "PickRoute",
        }
        server = start({"rob": {"user": routing, "workflows": {"PickRoute": [pick], "Code": [NODE]}}})
        roads = {
            "CODE": {"description": "programs", "workflow": "Code"},
            "TALK": {"description": "chat", "workflow": "Chat"},
        }
        write(server.public / "Configs" / "Routing" / "roads.json", roads)
        server.post("/v1/chat/completions", {**asking("Hello there"), "model": "rob"})
        page = looking.open(server)
        rows(page, 1)
        assert "PickRoute > Code" in page.locator(".row").inner_text()
        page.locator(".row").click()
        page.get_by_role("button", name="More").click()
        page.get_by_role("menuitem", name="Edit and try").click()
        until(page, lambda: page.get_by_label("What runs").count() == 1)
        until(page, lambda: page.get_by_label("What runs").input_value() == "route")


class TestTabs:
    def open_run(self, server, looking, tab):
        page = looking.open(server)
        page.locator(".row .mark.done").wait_for()
        page.locator(".row").click()
        choose_answering(page)
        page.get_by_role("tab", name=tab).click()
        return page

    def test_sent_is_what_the_backend_got(self, start, looking, backend):
        server = start()
        server.post("/v1/chat/completions", asking("What is \U0001f9e1 <b>this</b>?"))
        page = self.open_run(server, looking, "Sent")
        page.get_by_role("button", name="JSON").click()
        assert json.loads(page.locator(".pane pre").inner_text()) == backend.calls()[0].body
        page.get_by_role("button", name="Messages").click()
        assert page.locator(".msg.user pre").last.inner_text() == "What is \U0001f9e1 <b>this</b>?"

    def test_sent_says_what_the_server_held_and_where_the_prompt_left_the_one_before(self, start, looking):
        """Beside the list, which says it too where that is wanted, also after a reload."""
        speaks = {**NODE, "systemPrompt": "You are kind. Think of {chat_user_prompt_last_one} now. Be brief."}
        server = start({"mira": {"workflows": {"Chat": [speaks]}}})
        for word in ("rivers", "lakes"):
            server.post("/v1/chat/completions", asking(word))
        page = looking.open(server)
        rows(page, 2)
        assert "held" not in page.locator(".row").first.inner_text()
        page.get_by_role("button", name="held").click()
        until(page, lambda: "0\u202f% held" in page.locator(".row").first.inner_text())
        page.reload()
        until(page, lambda: "0\u202f% held" in page.locator(".row").first.inner_text())
        page.locator(".row").first.click()
        choose_answering(page)
        page.get_by_role("tab", name="Sent").click()
        head = page.locator(".reuse")
        head.get_by_text("in the system prompt, at {chat_user_prompt_last_one}.").wait_for()
        assert re.search(r"\d+ tokens: about 0 held, \d+ new", head.inner_text())
        assert head.locator("ins").inner_text() == "lakes"
        assert head.locator("del").inner_text() == "rivers"
        assert head.locator(".leftat").inner_text() == "You are kind. Think of rivers lakes now. Be brief."

    def test_the_answer_says_how_much_was_cleaned_away(self, start, looking, backend):
        """With a link to what it was: the length of all that the model said, less what the client got."""
        backend.on("Hello", Reply([RAW]))
        server = start({"mira": ENDPOINT_THAT_THINKS})
        Client(server, asking("Hello")).wait()
        page = looking.open(server)
        page.locator(".row").click()
        link = page.get_by_role("link", name=f"{len(RAW) - len('Hello there')} characters", exact=True)
        link.click()
        page.locator(".pane del").first.wait_for()

    def test_the_menu_of_names_lies_within_the_window(self, start, looking):
        server = start()
        Client(server, asking("Hello")).wait()
        page = looking.open(server, viewport={"width": 1440, "height": 900})
        page.get_by_role("button", name="names").click()
        menu = page.locator(".pills .menu .items")
        menu.wait_for()
        assert menu.bounding_box()["x"] >= 0

    def test_came_names_each_rule_beside_what_it_took(self, start, looking, backend):
        backend.on("Hello", Reply([RAW[:20], RAW[20:40], RAW[40:]]))
        server = start({"mira": ENDPOINT_THAT_THINKS})
        answer = Client(server, asking("Hello")).wait()
        assert b"think" not in answer
        page = self.open_run(server, looking, "Came")
        page.locator(".pane del").first.wait_for()
        thought = page.locator(".pane .thoughts")
        assert thought.inner_text() == "thought, 29 characters"
        thought.locator("summary").click()
        assert thought.inner_text().endswith("<think>hm, let me see</think>")
        assert page.locator(".pane .by").all_inner_texts() == [
            "thinking_names",
            "leading_space",
            "endpoint_prefixes",
            "trim_ends",
        ]
        assert [text.strip() for text in page.locator(".pane del").all_inner_texts()][:2] == [
            "↵↵",
            "Assistant:",
        ]
        taken = page.locator(".pane .taken li")
        assert [one.locator("b").inner_text() for one in taken.all()] == [
            "29 characters",
            "2 characters",
            "11 characters",
            "2 characters",
        ]
        told = taken.nth(2).locator("p").inner_text()
        assert 'responseStartTextToRemoveEndpointWide: ["Assistant:"] in endpoint mira/Model' in told
        taken.nth(2).get_by_role("button").click()
        assert page.evaluate("document.activeElement.textContent") == "endpoint_prefixes"
        rule = page.locator(".pane .by").nth(2)
        assert rule.get_attribute("href") == "#/help/rules/endpoint_prefixes"
        page.get_by_role("button", name="cleaned").click()
        assert page.locator(".pane pre").inner_text() == "Hello there"
        page.get_by_role("button", name="raw").click()
        assert page.locator(".pane pre").text_content() == RAW
        page.get_by_role("tab", name="Output").click()
        assert page.locator(".pane pre").inner_text() == "Hello there"

    def test_a_body_of_a_megabyte_says_what_was_left_out(self, start, looking):
        server = start()
        server.post("/v1/chat/completions", asking("a" * 1_000_000))
        page = self.open_run(server, looking, "Sent")
        assert re.search(r"\d\S*\d characters were left out here", page.locator(".leftout").inner_text())


class TestWaiting:
    def test_the_bar_of_a_run_that_waits_grows_with_its_time(self, start, looking, backend):
        """Also while nothing is told of it."""
        backend.on("Tell me", Reply(["one"], hangs=True))
        server = start(None, "--concurrency", "1")
        first = Client(server, asking("Tell me"))
        page = looking.open(server)
        page.locator(".row .mark.answering").wait_for()
        second = Client(server, asking("Hello"))
        page.locator(".row", has=page.locator(".mark.waiting")).click()
        bar, track = page.locator(".slot .track i"), page.locator(".slot .track")
        said = page.locator(".slot .num")
        said.wait_for()
        told = page.evaluate("performance.getEntriesByType('resource').length")
        before = seconds(said.inner_text())
        until(page, lambda: seconds(said.inner_text()) > before + 1)
        ends = "(one) => one.getBoundingClientRect().right"
        assert abs(bar.evaluate(ends) - track.evaluate(ends)) <= 2
        assert page.evaluate("performance.getEntriesByType('resource').length") <= told + 1
        first.hang_up(), second.hang_up()


class TestCancel:
    def test_the_backend_is_let_go_and_the_client_s_stream_ends_well(self, under_way, backend):
        client, page = under_way
        page.locator(".row").click()
        page.get_by_role("button", name="Cancel").click()
        assert backend.wait_for_call("Tell me").hung_up.wait(0.5)
        assert client.wait().rstrip().endswith(b"data: [DONE]")
        page.locator(".head .state.cancelled").wait_for()
        assert "by the console" in page.locator(".head .state").inner_text()
        assert page.locator(".details .msg pre").inner_text().startswith("one more")
        choose_answering(page)
        page.get_by_role("tab", name="Came").click()
        assert page.locator(".pane pre").inner_text().startswith("one more")

    def test_the_key_asks_first(self, under_way):
        client, page = under_way
        page.locator(".row").click()
        page.get_by_role("button", name="Cancel").wait_for()
        page.keyboard.press("c")
        page.get_by_role("button", name="Let it run").click()
        page.keyboard.press("c")
        page.get_by_role("button", name="Cancel the run").click()
        page.locator(".head .state.cancelled").wait_for()
        client.wait()
