"""Chats (workbench.md 14): the list, a chat's turns, and what memory holds beside them."""

from __future__ import annotations

import json
import re

import pytest

from tests.browser.conftest import sideways, until, violations

pytestmark = pytest.mark.browser

KEY = "console-key-of-the-tests"
EDIT = ("--console", "edit", "--console-key", KEY)
CHAT = "#/chats/mira/trip3"
MEMORIES = [
    {"text_block": "Ada keeps her brother's knife.", "hash": "h1"},
    {"text_block": "The ferry waits.", "hash": "h2"},
]


def remember(server):
    """What memory holds of the chat."""
    folder = server.public / "DiscussionIds" / "trip3"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memories.json").write_text(json.dumps(MEMORIES), "utf-8")
    (folder / "chat_summary.json").write_text(json.dumps([{"text_block": "The ferry waits.", "hash": "h2"}]))
    return folder


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
    remember(server)
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


@pytest.fixture
def correcting(start, looking):
    """The page of a chat for who may save; `page.folder`: of the chat."""

    def open_page(**options):
        server = start(None, *EDIT)
        folder = remember(server)
        page = looking.open(server, f"#key={KEY}", **options)
        until(page, "!location.hash.startsWith('#key=')")
        page.evaluate("address => { location.hash = address; }", CHAT)
        page.folder = folder
        page.locator(".memories li").first.wait_for()
        return page

    return open_page


def held(page):
    """The texts in the file, oldest first."""
    return [each["text_block"] for each in json.loads((page.folder / "memories.json").read_text("utf-8"))]


def said(page, text):
    """Waits until the status line says this."""
    page.locator(".corrected [role=status]", has_text=text).wait_for()


def button(page, name):
    return page.get_by_role("button", name=name, exact=True)


def focused(page, name):
    until(page, f"document.activeElement?.ariaLabel === {json.dumps(name)}")


class TestCorrecting:
    """Source: spec operate.md 6. By keyboard alone."""

    def test_a_memory_is_edited_in_its_place(self, correcting):
        """Esc leaves it as it was; the focus comes back to where it was."""
        page = correcting()
        button(page, "Edit memory f2").press("Enter")
        focused(page, "Text of memory f2")
        page.keyboard.type(" Not yet.")
        page.keyboard.press("Escape")
        focused(page, "Edit memory f2")
        assert page.get_by_role("textbox", name="Text of memory f2").count() == 0 and page.url.endswith(CHAT)
        page.keyboard.press("Enter")
        focused(page, "Text of memory f2")
        page.keyboard.press("ControlOrMeta+a")
        page.keyboard.type("The ferry left.")
        page.keyboard.press("Tab")
        focused(page, "Save memory f2")
        page.keyboard.press("Enter")
        said(page, "f2 was changed. The old text is still in the summary; edit it there, too.")
        focused(page, "Edit memory f2")
        page.locator(".memories .text", has_text="The ferry left.").wait_for()
        assert held(page) == ["Ada keeps her brother's knife.", "The ferry left."]

    def test_a_draft_is_asked_for_before_it_is_lost(self, correcting):
        """By another kind of memory, and by another page. Yes is asked for once; another turn of the chat keeps it."""
        page = correcting()
        asked, answers = [], iter((False, False, True))

        def answer(dialog):
            asked.append(dialog.message)
            (dialog.accept if next(answers) else dialog.dismiss)()

        page.on("dialog", answer)
        button(page, "Edit memory f2").click()
        page.keyboard.type(" Not yet.")
        draft = page.get_by_role("textbox", name="Text of memory f2")
        page.evaluate("location.hash += '?turn=1'")
        until(page, "location.hash.endsWith('?turn=1')")
        assert asked == [] and draft.input_value().endswith(" Not yet.")
        page.get_by_role("tab", name="Summary").click()
        until(page, lambda: len(asked) == 1)
        page.get_by_role("link", name="Overview").click()
        until(page, lambda: len(asked) == 2)
        assert draft.input_value().endswith(" Not yet.") and "#/chats/" in page.url
        page.get_by_role("link", name="Overview").click()
        page.get_by_role("heading", name="Overview").wait_for()
        assert asked == ["What is not saved, or not answered yet, would be lost. Leave anyway?"] * 3

    def test_the_summary_is_edited_and_nothing_else(self, correcting):
        page = correcting()
        page.get_by_role("tab", name="Summary").click()
        button(page, "Edit summary").wait_for()
        assert page.locator(".memories button").count() == 1

    def test_one_is_pinned_another_forgotten_and_both_are_undone(self, correcting):
        """Newest first; forgetting asks once, and No leaves all as it was."""
        page = correcting()
        button(page, "Pin memory f1").press("Enter")
        said(page, "f1 is pinned.")
        focused(page, "Unpin memory f1")
        page.once("dialog", lambda dialog: dialog.dismiss())
        button(page, "Forget memory f2").press("Enter")
        assert held(page)[1] == "The ferry waits."
        page.once("dialog", lambda dialog: dialog.accept())
        button(page, "Forget memory f2").press("Enter")
        said(page, "f2 was forgotten. Its text is still in the summary")
        until(page, lambda: page.locator(".memories li").count() == 1)
        assert held(page)[1] == ""
        until(page, "document.activeElement?.role === 'status'")
        page.keyboard.press("Tab")
        focused(page, "Undo the last correction")
        page.keyboard.press("Enter")
        said(page, "The last correction was undone.")
        until(page, lambda: page.locator(".memories li").count() == 2)
        assert held(page)[1] == "The ferry waits."
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        button(page, "Pin memory f1").wait_for()
        until(page, lambda: button(page, "Undo the last correction").count() == 0)

    def test_a_memory_that_was_changed_meanwhile_is_left_alone(self, correcting, looking):
        """What was written stays in its box."""
        looking.expected.append("409")
        page = correcting()
        button(page, "Edit memory f2").press("Enter")
        focused(page, "Text of memory f2")
        page.keyboard.type("Mine.")
        theirs = [MEMORIES[0], {**MEMORIES[1], "text_block": "Theirs."}]
        (page.folder / "memories.json").write_text(json.dumps(theirs), "utf-8")
        button(page, "Save memory f2").press("Enter")
        said(page, "The text of f2 was changed meanwhile")
        assert "Mine." in page.get_by_role("textbox", name="Text of memory f2").input_value()
        assert held(page)[1] == "Theirs."
        button(page, "Cancel memory f2").press("Enter")
        page.locator(".memories .text", has_text="Theirs.").wait_for()

    def test_undo_is_gone_with_the_page(self, correcting):
        page = correcting()
        button(page, "Pin memory f1").press("Enter")
        button(page, "Undo the last correction").wait_for()
        page.evaluate("location.hash = '#/chats'")
        page.locator(".memories").wait_for(state="detached")
        page.evaluate("address => { location.hash = address; }", CHAT)
        button(page, "Unpin memory f1").wait_for()
        assert button(page, "Undo the last correction").count() == 0

    def test_without_the_right_it_says_how_to_get_it(self, told, looking):
        page = looking.open(told, CHAT)
        page.locator(".memories li").first.wait_for()
        assert page.locator(".memories button").count() == page.locator(".corrected").count() == 0
        page.get_by_text(
            "Read only: start the server with --console edit to correct memories here"
        ).wait_for()
        page.get_by_role("link", name="How memories are corrected").click()
        page.locator(".sought", has_text="Correct what is remembered").wait_for()

    @pytest.mark.parametrize("theme", ["light", "dark"])
    @pytest.mark.parametrize("width", [390, 1440])
    def test_axe_finds_nothing(self, correcting, width, theme):
        """While one is edited and another one's correction can be undone."""
        size = {"width": width, "height": 900}
        page = correcting(viewport=size, color_scheme=theme, bypass_csp=True)
        button(page, "Pin memory f1").press("Enter")
        button(page, "Undo the last correction").wait_for()
        button(page, "Edit memory f2").press("Enter")
        focused(page, "Text of memory f2")
        assert violations(page) == [] and sideways(page) <= 0


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
