"""How much of a prompt its server had been sent before, as the page shows it (spec prompt-reuse.md 3.2)."""

from __future__ import annotations

import re

import pytest

from tests.browser.conftest import asking, choose_answering
from tests.e2e.conftest import NODE
from tests.e2e.fake_backend import Reply

pytestmark = pytest.mark.browser

CARD = "You are Mara, a ferry captain. " + " ".join(f"fact{number}" for number in range(400))
OLLAMA = {"apiTypeConfigFileName": "OllamaApiChat"}
USERS = {
    "mira": {
        "endpoints": {"Model": OLLAMA},
        "workflows": {"Chat": [{**NODE, "systemPrompt": "{chat_system_prompt}", "endpointName": "Model"}]},
    }
}


def say(*texts):
    """A chat of the user's texts, with a long card in front and an answer behind each."""
    turns = [{"role": "system", "content": CARD}]
    for text in texts:
        turns += [{"role": "user", "content": text}, {"role": "assistant", "content": "Aye."}]
    return asking("", messages=turns[:-1])


class TestSent:
    @pytest.fixture
    def page(self, start, looking, backend):
        """Of the second of two chats with the same card, its tab Sent."""
        server = start(USERS)
        backend.on("How much?", Reply(("Aye.",), counts={"prompt_eval_duration": 1_500_000_000}))
        server.post("/v1/chat/completions", say("Where to?", "And then?"))
        server.post("/v1/chat/completions", say("How much?"))
        page = looking.open(server)
        page.locator(".row").first.click()
        choose_answering(page)
        page.get_by_role("tab", name="Sent").click()
        page.locator(".reuse").wait_for()
        return page

    def test_its_head_says_what_was_held_and_how_long_it_was_read(self, page):
        """The tokens; the seconds are the backend's."""
        head = page.locator(".reuse").inner_text()
        assert re.match(r"(about )?[\d\u202f,]+ tokens: (about )?[\d\u202f,]+ held, [\d\u202f,]+ new", head)
        assert re.search(r"Read in 1\.5\u202fs\. It leaves the one before in message 2 \(user\)\.", head)

    def test_the_box_of_the_message_where_it_leaves_is_marked(self, page):
        """And no other; the words that differ stand above."""
        marked = page.locator(".msg", has=page.locator(".left"))
        marked.first.wait_for()
        assert marked.count() == 1
        assert marked.locator("h2").inner_text().splitlines()[:2] == ["user", "leaves the one before here"]
        assert marked.locator("pre").inner_text() == "How much?"
        assert page.locator(".leftat ins").inner_text().startswith("How")

    def test_the_facts_have_the_time_too(self, page):
        page.get_by_role("tab", name="Facts").click()
        page.get_by_text("in 1.5\u202fs").wait_for()


class TestRunList:
    def test_a_column_shows_the_share_that_was_held(self, start, looking):
        """Off at first; the browser remembers it."""
        server = start(USERS)
        for _ in range(2):
            server.post("/v1/chat/completions", say("Where to?"))
        page = looking.open(server)
        page.locator(".row .mark.done").nth(1).wait_for()
        assert page.locator(".row", has_text="% held").count() == 0
        page.get_by_role("button", name="held", exact=True).click()
        page.locator(".row", has_text="100\u202f% held").wait_for()
        page.reload()
        page.locator(".row", has_text="100\u202f% held").wait_for()

    def test_a_run_that_read_again_says_so_and_leads_to_the_page(self, start, looking, backend):
        """With the placeholder that stood where it left the one before."""
        node = {**NODE, "systemPrompt": "{chat_user_prompt_last_one} {chat_system_prompt}"}
        server = start({"mira": {"workflows": {"Chat": [node]}}})
        backend.on("facts", Reply(("Aye.",), counts={"prompt_tokens": 4000}))
        for newest in ("facts one", "other facts"):
            server.post("/v1/chat/completions", say("Where to?", "And then?", newest))
        page = looking.open(server)
        page.locator(".row").first.click()
        sentence = page.get_by_text("tokens again: its prompt left the one before in the system prompt")
        sentence.wait_for()
        assert "at {chat_user_prompt_last_one}" in sentence.inner_text()
        page.locator("a[href*='prompt-reuse']").first.wait_for()
