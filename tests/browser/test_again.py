"""A run again, whole and from a node, and two runs beside each other, in a real browser. Source: spec workbench.md
4, 5, 11 (rows 6 and 7)."""

from __future__ import annotations

import json
import re
import threading

import pytest

from tests.browser.conftest import WIDE, Client, asking, rows, sideways, until, violations
from tests.e2e.conftest import NODE
from tests.e2e.fake_backend import Reply

pytestmark = pytest.mark.browser

DRAFT = {**NODE, "title": "Draft", "prompt": "Draft please", "lastMessagesToSendInsteadOfPrompt": 0}
ANSWER = {
    **NODE,
    "title": "Answer",
    "prompt": "Answer from {agent1Output}",
    "lastMessagesToSendInsteadOfPrompt": 0,
}
NARROW = {"width": 390, "height": 844}


def twelve():
    """Twelve nodes, of which the last answers."""
    return [{"type": "StaticResponse", "title": f"Step {n}", "content": f"step {n}"} for n in range(1, 12)]


@pytest.fixture
def house(start, backend, tmp_path):
    backend.on("Draft please", Reply(["a draft"]))
    backend.on("Answer from", Reply(["an answer"]))
    note = {"type": "SaveCustomFile", "title": "Note", "filepath": str(tmp_path / "note.txt"), "content": "x"}
    server = start({"mira": {"workflows": {"Chat": [DRAFT, note, ANSWER]}}})
    server.post("/v1/chat/completions", asking("Hello there"))
    return server


def last_run(page):
    page.locator(".row").first.click()
    page.get_by_role("button", name="Run again", exact=True).wait_for()


class TestAgain:
    def test_the_whole_run(self, house, looking, backend, tmp_path):
        """The button says what may write; with its box off the file stays as it is."""
        (tmp_path / "note.txt").unlink()
        page = looking.open(house)
        rows(page, 1)
        last_run(page)
        before = len(backend.calls())
        page.get_by_role("button", name="Run again", exact=True).click()
        dialog = page.get_by_role("dialog", name="Run again")
        dialog.get_by_text("writes the file").wait_for()
        assert not dialog.get_by_role("checkbox").is_checked()
        dialog.get_by_role("button", name="Run again").click()
        rows(page, 2)
        page.locator(".run a", has_text="that run").wait_for()
        assert "again of" in page.locator(".row").first.inner_text()
        until(page, lambda: len(backend.calls()) == before + 2)
        assert not (tmp_path / "note.txt").exists()

    def test_from_a_node(self, house, looking, backend):
        """The nodes before it give what they gave."""
        page = looking.open(house)
        rows(page, 1)
        last_run(page)
        before = len(backend.calls())
        page.locator("button.fallrow.done", has_text="Answer").click()
        page.get_by_role("button", name="Run again from here").click()
        dialog = page.get_by_role("dialog", name="Run again from node 3")
        dialog.get_by_role("button", name="Run again").click()
        page.locator(".run a", has_text="that run").wait_for()
        until(page, lambda: len(backend.calls()) == before + 1)

    @pytest.mark.parametrize("theme", ["light", "dark"])
    def test_it_can_be_used_by_everybody(self, house, looking, theme):
        page = looking.open(house, bypass_csp=True, viewport=NARROW, color_scheme=theme)
        rows(page, 1)
        last_run(page)
        page.get_by_role("button", name="Run again", exact=True).click()
        page.get_by_role("dialog").get_by_text("writes the file").wait_for()
        assert violations(page) == [] and sideways(page) <= 0


class TestAsk:
    @pytest.fixture
    def page(self, house, looking):
        page = looking.open(house, bypass_csp=True)
        rows(page, 1)
        last_run(page)
        page.locator("button.fallrow.done", has_text="Draft").click()
        page.get_by_role("link", name="Ask again").click()
        page.get_by_role("button", name="Ask", exact=True).wait_for()
        return page

    def test_as_it_was(self, page, backend):
        """The same bytes; nothing else runs."""
        before = backend.calls()
        page.get_by_role("button", name="Ask", exact=True).click()
        page.locator(".answers pre", has_text="a draft").wait_for()
        made = backend.calls()[len(before) :]
        assert [call.body for call in made] == [before[0].body]
        page.locator(".answers h3", has_text="same as then").wait_for()
        assert page.locator(".answers h3", has_text="edited").count() == 0

    def test_an_answer_says_that_its_question_was_edited(self, page):
        """Its run leads to the one that it repeats; there is no whole run to compare it with."""
        page.get_by_role("textbox", name="1 user").fill("Draft please, shorter")
        page.get_by_role("button", name="Ask", exact=True).click()
        page.locator(".answers h3", has_text="1 user edited").wait_for()
        page.get_by_role("link", name="its run").click()
        page.get_by_role("link", name="that run").wait_for()
        assert page.get_by_role("link", name="compare", exact=True).count() == 0

    def test_the_way_back_keeps_what_was_looked_for(self, house, looking):
        """So that the next run of the same search is at hand."""
        page = looking.open(house, "#/runs?text=chat", bypass_csp=True)
        page.locator(".row").first.click()
        page.locator("button.fallrow.done", has_text="Draft").click()
        page.get_by_role("link", name="Ask again").click()
        page.get_by_role("link", name="The run").click()
        until(page, lambda: "text=chat" in page.url and "/ask/" not in page.url)

    def test_what_was_edited_and_not_asked_is_asked_for(self, page):
        """Before the page is left; once it is asked, its run keeps it."""
        asked = []
        page.on("dialog", lambda dialog: (asked.append(dialog.message), dialog.dismiss()))
        page.get_by_role("textbox", name="1 user").fill("Draft please, shorter")
        page.get_by_role("link", name="The run").click()
        until(page, lambda: asked == ["What is not saved, or not answered yet, would be lost. Leave anyway?"])
        until(page, lambda: "/ask/" in page.url)
        page.get_by_role("button", name="Ask", exact=True).click()
        page.locator(".answers h3", has_text="done").wait_for()
        page.get_by_role("link", name="The run").click()
        page.locator(".nodehead").wait_for()
        assert len(asked) == 1

    def test_edited_and_five_times(self, page, backend):
        """What was edited is marked, and goes back by a button."""
        box = page.get_by_role("textbox", name="1 user")
        box.fill("Draft please, shorter")
        page.get_by_text("edited", exact=True).wait_for()
        page.get_by_label("How often").fill("5")
        page.get_by_role("button", name="Ask", exact=True).click()
        until(page, lambda: page.locator(".answers .msg", has_text="done").count() == 5)
        assert len(backend.calls("Draft please, shorter")) == 5
        page.get_by_role("button", name="As it was").click()
        assert box.input_value() == "Draft please"
        page.get_by_label("How often").fill("1")
        page.get_by_role("button", name="Ask", exact=True).click()
        page.locator(".answers h3", has_text="6 same as then").wait_for()
        assert page.locator(".answers .msg").count() == 6

    def test_one_that_waits_says_for_what_and_is_not_lost_unasked(self, start, looking, backend):
        """No model was asked yet; leaving the page would end it."""
        let_go = threading.Event()
        backend.on("hold", Reply(["one", " two"], rest_after=let_go))
        server = start(None, "--concurrency", "1")
        server.post("/v1/chat/completions", asking("Hello"))
        holder = Client(server, asking("hold"))
        backend.wait_for_call("hold")
        page = looking.open(server, viewport=WIDE)
        page.locator(".row", has_text="Hello").click()
        page.locator("button.fallrow.done").click()
        page.get_by_role("link", name="Ask again").click()
        page.get_by_text("1 Answer of mira").wait_for()
        page.get_by_role("button", name="Ask", exact=True).click()
        page.get_by_role("heading", name="1 waits, 1st, while mira runs").wait_for()
        asked = []
        page.on("dialog", lambda dialog: (asked.append(dialog.message), dialog.dismiss()))
        page.get_by_role("link", name="The run").click()
        until(page, lambda: len(asked) == 1)
        let_go.set()
        holder.wait()
        page.locator(".answers h3", has_text="done").wait_for()

    def test_one_whose_model_is_still_reading_has_its_slot(self, start, looking, backend):
        """It stands in no line, though every slot is taken: by itself."""
        read = threading.Event()
        server = start(None, "--concurrency", "1")
        server.post("/v1/chat/completions", asking("Hello"))
        page = looking.open(server, viewport=WIDE)
        page.locator("button.fallrow.done").click()
        page.get_by_role("link", name="Ask again").click()
        backend.on("Hello", Reply(["one"], after=read))
        page.get_by_role("button", name="Ask", exact=True).click()
        page.get_by_text("1 running of 1").wait_for()
        page.locator(".answers h3", has_text="answers").wait_for()
        read.set()
        page.locator(".answers h3", has_text="done").wait_for()

    def test_stop(self, page, backend):
        backend.on("never", Reply(["one", *[" more"] * 400], gap_s=0.1))
        page.get_by_role("textbox", name="1 user").fill("never ends")
        page.get_by_role("button", name="Ask", exact=True).click()
        backend.wait_for_call("never ends")
        page.get_by_role("button", name="Stop").click()
        page.locator(".answers .msg", has_text="stopped").wait_for()

    def test_it_can_be_used_by_everybody(self, page):
        page.set_viewport_size(NARROW)
        assert violations(page) == [] and sideways(page) <= 0


class TestCompare:
    @pytest.fixture
    def two(self, start, backend):
        """Two runs of twelve nodes, of which the last alone differs."""
        backend.on("Reply to one", Reply(["the first answer"]))
        backend.on("Reply to two", Reply(["the second answer"]))
        last = {**NODE, "title": "Answer", "prompt": "Reply to {chat_user_prompt_last_one}", "lastMessagesToSendInsteadOfPrompt": 0}  # fmt: skip
        server = start({"mira": {"workflows": {"Chat": [*twelve(), last]}}})
        for text in ("one", "two"):
            server.post("/v1/chat/completions", asking(text))
        return server

    def test_two_marked_runs(self, two, looking):
        """Differing nodes are open, equal ones are one line."""
        page = looking.open(two)
        rows(page, 2)
        for row in (0, 1):
            page.locator(".row").nth(row).focus()
            page.keyboard.press("m")
        page.locator(".comparebar").get_by_role("link", name="Compare").click()
        page.get_by_role("heading", name="Compare").wait_for()
        page.locator(".differs .twosides").first.wait_for()
        assert [one.inner_text().split()[0] for one in page.locator(".differs h2").all()] == ["12"]
        same = page.locator(".same").inner_text()
        assert same.startswith("equal: 1 Step 1") and "11 Step 11" in same
        until(page, lambda: page.locator(".differs ins").count() == 2)
        assert page.locator(".factsof tbody tr").count() == 3

    def test_with_the_pointer_alone(self, two, looking):
        """From an open run to the one that is opened next; one that opened by itself is not meant."""
        page = looking.open(two)
        rows(page, 2)
        page.locator(".row").first.click()
        page.get_by_role("button", name="More").click()
        page.get_by_role("menuitem", name="Compare with another run").click()
        bar = page.locator(".comparebar")
        bar.get_by_text("or open another run").wait_for()
        page.locator(".row").nth(1).click()
        bar.get_by_role("link", name="Compare").click()
        until(page, lambda: page.locator(".factsof tbody tr").count() == 3)

    def test_the_bar_says_what_is_next_and_stays_in_view(self, two, looking):
        """On another ground than the list, however long that is."""
        page = looking.open(two, viewport={"width": 1024, "height": 300})
        rows(page, 2)
        page.locator(".row").first.focus()
        page.keyboard.press("m")
        bar = page.locator(".comparebar")
        name = page.locator(".row").first.locator(".name b").inner_text()
        clock = page.locator(".row").first.locator("time").inner_text()
        bar.get_by_text(f"{name} {clock} is marked. Mark a second run (m) to compare").wait_for()
        box = bar.bounding_box()
        assert box["y"] + box["height"] <= 300
        ground = "(one) => getComputedStyle(one).backgroundColor"
        assert bar.evaluate(ground) == page.get_by_role("button", name="Run again").first.evaluate(ground)

    def test_a_box_at_each_row_marks_it(self, two, looking):
        """It is no stop of the Tab key: `m` does the same."""
        page = looking.open(two, bypass_csp=True)
        rows(page, 2)
        for row in (0, 1):
            page.get_by_role("button", name=re.compile("^Mark mira .* to compare$")).nth(row).click()
        assert [one.get_attribute("aria-pressed") for one in page.locator(".tick").all()] == ["true"] * 2
        assert [one.get_attribute("tabindex") for one in page.locator(".tick").all()] == ["-1"] * 2
        assert violations(page) == []
        page.locator(".tick").first.click()
        page.locator(".comparebar", has_text="is marked").wait_for()
        page.locator(".tick").first.click()
        page.locator(".comparebar").get_by_role("link", name="Compare").click()
        until(page, lambda: page.locator(".factsof tbody tr").count() == 3)

    def compared(self, looking, server):
        """The page of Compare, of the older run and the newer one."""
        page = looking.open(server)
        rows(page, 2)
        ids = [row.get_attribute("data-id") for row in page.locator(".row").all()]
        page.goto(f"{server.url}/console/#/compare/{ids[1]}/{ids[0]}")
        page.locator(".inshort").wait_for()
        return page

    def test_one_line_says_what_differs_and_leads_there(self, two, looking):
        page = self.compared(looking, two)
        said = " ".join(page.locator(".inshort").inner_text().split())
        assert (
            said
            == "The question differs; 1 of 12 nodes differs: 12 Answer (another prompt). The client got another answer."
        )
        page.locator(".inshort").get_by_role("button", name="12 Answer").click()
        until(page, lambda: page.evaluate("document.activeElement.textContent").startswith("12 Answer"))

    def test_the_same_question_with_another_model(self, start, looking, backend):
        """What a changed file changed."""
        server = start()
        server.post("/v1/chat/completions", asking("Hello"))
        file = server.public / "Configs" / "Endpoints" / "mira" / "Model.json"
        endpoint = json.loads(file.read_text("utf-8"))
        file.write_text(json.dumps({**endpoint, "modelNameToSendToAPI": "other"}), "utf-8")
        server.post("/v1/chat/completions", asking("Hello"))
        page = self.compared(looking, server)
        said = " ".join(page.locator(".inshort").inner_text().split())
        assert said == (
            "Same question, 1 of 1 node differs: 1 Answer (model fake → other). The client got the same answer."
        )

    def test_the_earlier_run_is_the_one_on_the_left(self, two, looking):
        """In whatever order they were chosen: what is struck through was there before."""
        page = self.compared(looking, two)
        first, second = page.url.split("/compare/")[1].split("/")
        page.goto(f"{two.url}/console/#/compare/{second}/{first}")
        page.locator(".differs del").first.wait_for()
        heads = page.locator(".differs .twosides").first.locator("h4").all_inner_texts()
        assert heads == ["A, earlier", "B, later"]
        assert [one.inner_text() for one in page.locator(".differs del").all()] == ["one", "first"]

    def test_two_equal_runs(self, start, looking):
        server = start()
        for _ in range(2):
            server.post("/v1/chat/completions", asking("Hello"))
        page = self.compared(looking, server)
        assert page.locator(".inshort").inner_text() == (
            "Same question, no node of 1 differs. The client got the same answer."
        )

    def test_two_that_failed_gave_no_answer(self, start, looking, backend):
        """Nothing is said of answers that nobody got."""
        backend.on("break", Reply(status=400))
        server = start()
        for _ in range(2):
            server.post("/v1/chat/completions", asking("break"))
        page = self.compared(looking, server)
        assert "The client got" not in page.locator(".inshort").inner_text()

    def test_small_differences_of_times_are_plain_words(self, two, looking):
        """No `+< 10 ms`."""
        page = looking.open(two)
        rows(page, 2)
        ids = [row.get_attribute("data-id") for row in page.locator(".row").all()]

        def answer(route):
            told = route.fetch().json()
            is_b = told["id"] == ids[0]
            times = {"first_s": 1.208 if is_b else 1.2, "client_s": 2.04 if is_b else 2.0}
            route.fulfill(json={**told, **times})

        page.route(re.compile(r"/api/runs/[^/]+\?"), answer)
        page.goto(f"{two.url}/console/#/compare/{ids[1]}/{ids[0]}")
        page.locator(".factsof").wait_for()
        cells = page.locator(".factsof tbody tr").last.locator("td")
        told = [cells.nth(at).inner_text().replace("\u202f", " ") for at in (0, 1)]
        assert told == ["about the same", "+40 ms"]

    def test_marks_go(self, two, looking):
        page = looking.open(two)
        rows(page, 2)
        page.locator(".row").first.focus()
        page.keyboard.press("m")
        page.locator(".comparebar").wait_for()
        page.keyboard.press("Escape")
        until(page, lambda: page.locator(".comparebar").count() == 0)

    @pytest.mark.parametrize("theme", ["light", "dark"])
    def test_it_can_be_used_by_everybody(self, two, looking, theme):
        page = looking.open(two, bypass_csp=True, viewport=NARROW, color_scheme=theme)
        rows(page, 2)
        ids = [row.get_attribute("data-id") for row in page.locator(".row").all()]
        page.goto(f"{two.url}/console/#/compare/{ids[1]}/{ids[0]}")
        page.locator(".differs .twosides").first.wait_for()
        assert violations(page) == [] and sideways(page) <= 0
        first, second = (one.bounding_box() for one in page.locator(".twosides").first.locator(".msg").all())
        assert second["y"] > first["y"] + first["height"] - 1
