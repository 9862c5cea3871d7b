"""Chats (workbench.md 14): the list, a chat's turns, and what memory holds beside them."""

from __future__ import annotations

import json
import re

import pytest

from tests.browser.conftest import sideways, until, violations

pytestmark = pytest.mark.browser

MEMORIES = [
    {"text_block": "Ada keeps her brother's knife.", "hash": "h1"},
    {"text_block": "The ferry waits.", "hash": "h2"},
]


def say(server, *texts, chat="trip3"):
    """A turn of a chat: the user's messages so far, with answers between them."""
    tag = f"[DiscussionId]{chat}[/DiscussionId]" if chat else ""
    messages = [{"role": "user", "content": texts[0] + tag}]
    for text in texts[1:]:
        messages += [{"role": "assistant", "content": "ok"}, {"role": "user", "content": text}]
    status, _ = server.post("/v1/chat/completions", {"model": "mira", "messages": messages})
    assert status == 200


@pytest.fixture
def told(start):
    """A server with a chat of two turns, of which the second was answered twice, and a request without one."""
    server = start()
    say(server, "The lamp goes out.")
    say(server, "The lamp goes out.", "She walks down to the ferry.")
    say(server, "The lamp goes out.", "She walks down to the ferry.")
    say(server, "Hello", chat="")
    folder = server.public / "DiscussionIds" / "trip3"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memories.json").write_text(json.dumps(MEMORIES), "utf-8")
    return server


class TestList:
    def test_runs_of_a_chat_are_one_row(self, told, looking):
        page = looking.open(told)
        page.get_by_role("link", name="Chats").click()
        page.locator(".chatrows .row").first.wait_for()
        rows = [" ".join(row.inner_text().split()) for row in page.locator(".chatrows .row").all()]
        assert len(rows) == 2
        assert re.match(r"trip3 .* mira, 2 turns", rows[0]) and rows[1].startswith("without a chat")
        page.get_by_role("link", name="Runs").first.click()
        until(page, "location.hash === '#/runs'")


class TestChat:
    def test_turns_stand_from_the_top_with_their_answers(self, told, looking):
        page = looking.open(told, "#/chats")
        page.locator(".chatrows a").first.click()
        page.locator(".turn").first.wait_for()
        turns = [" ".join(turn.inner_text().split()) for turn in page.locator(".turn").all()]
        assert len(turns) == 2
        assert "The lamp goes out." in turns[0] and "2 answers" in turns[1]
        page.locator(".turn .got a").first.click()
        until(page, "location.hash.startsWith('#/runs/')")

    def test_what_memory_holds_stands_beside(self, told, looking):
        page = looking.open(told, "#/chats/mira/trip3")
        page.locator(".memories li").first.wait_for()
        assert [text.inner_text() for text in page.locator(".memories .text").all()] == [
            "The ferry waits.",
            "Ada keeps her brother's knife.",
        ]
        page.get_by_label("Find in Memories").fill("knife")
        until(page, lambda: page.locator(".memories li").count() == 1)

    def test_a_chat_that_is_not_there(self, told, looking):
        looking.expected.append("404")
        page = looking.open(told, "#/chats/mira/none")
        page.get_by_text("No such chat").wait_for()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_axe_finds_nothing(told, looking, width, theme):
    size = {"width": width, "height": 900}
    page = looking.open(told, "#/chats/mira/trip3", viewport=size, color_scheme=theme, bypass_csp=True)
    page.locator(".memories li").first.wait_for()
    assert violations(page) == [] and sideways(page) <= 0


def test_what_memory_gave_is_green_in_what_was_sent(start, looking):
    """With a line that says whose it is; a short text is not told."""
    long = "Ada keeps her brother's knife, because she promised it on the night of the ferry."
    asked = {
        "type": "Standard",
        "title": "Tell on",
        "endpointName": "Model",
        "prompt": "Known: {agent1Output} Go on.",
    }
    recall = {"type": "GetCurrentSummaryFromFile", "title": "Recall"}
    server = start({"mira": {"workflows": {"Chat": [recall, asked]}}})
    folder = server.public / "DiscussionIds" / "trip3"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "chat_summary.json").write_text(json.dumps([{"text_block": long, "hash": "h"}]), "utf-8")
    say(server, "Go on.")
    page = looking.open(server)
    page.locator(".fallrow", has_text="Tell on").first.click()
    page.get_by_role("tab", name="Sent").click()
    page.locator("mark.given").first.wait_for()
    assert page.locator("mark.given").inner_text() == long
    assert page.locator(".givenby").inner_text() == "from Recall"
