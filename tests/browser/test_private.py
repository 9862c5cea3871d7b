"""Private users in the page: times and counts, and no text of theirs anywhere in it (spec console.md 17.1, item 5)."""

from __future__ import annotations

import re

import pytest

from tests.browser.conftest import Client, asking, until
from tests.e2e.conftest import NODE
from tests.e2e.fake_backend import Reply

pytestmark = pytest.mark.browser

MARK = "zanzibar"
"""Stands in the question, the thoughts, the answer, the error of a script and the title of the chat."""
KEY = "client-key-0815"
PRIVATE = {
    "lea": {"redactLogOutput": True},
    "kay": {"encryptUsingApiKey": True},
}
THINKS = {
    "thinkTagNames": ["think"], "removeThinking": True, "startThinkTag": "<think>", "endThinkTag": "</think>",
    "trimBeginningAndEndLineBreaks": True,
}  # fmt: skip
TASK = f"### Task:\nGenerate a concise, 3-5 word title with an emoji for the chat history.\nAbout {MARK}."
TABS = ("Sent", "Came", "Output", "Fields", "Facts")


@pytest.fixture
def house(start, backend, tmp_path):
    """`house(settings)`: a server whose one user has these settings and a workflow that says the mark in every way."""
    script = tmp_path / "fail.py"
    script.write_text("def Invoke(text):\n    raise ValueError(text)\n", "utf-8")
    nodes = [
        {**NODE, "title": "Draft", "prompt": "Draft of {chat_user_prompt_last_one}"},
        {"title": "Lost", "type": "PythonModule", "module_path": str(script), "args": ["{chat_user_prompt_last_one}"], "onNodeError": "continue"},
        {"title": "Below", "type": "CustomWorkflow", "workflowName": "Inner", "scoped_variables": ["{agent1Output}"]},
        {**NODE, "title": "Answer", "endpointName": "Thinks", "returnToUser": True},
        {**NODE, "title": "Notes", "prompt": "Notes of {agent4Output}"},
    ]  # fmt: skip
    inner = [{"title": "Deep", "type": "StaticResponse", "content": "Of {agent1Input}"}]
    backend.on("Draft of", Reply([f"{MARK} draft"]))
    backend.on("Notes of", Reply([f"{MARK} notes"]))
    backend.on("### Task", Reply([f"{MARK} title"]))
    words = [f"<think>{MARK}, hm</think>", *[f" {MARK} answer"] * 15]
    backend.on("Where is", Reply(words, gap_s=0.1))

    def begun(name, settings):
        workflows = {"Chat": nodes, "Inner": inner}
        return start({name: {"user": settings, "workflows": workflows, "endpoints": {"Thinks": THINKS}}})

    return begun


def ask(server, name, text):
    return Client(server, asking(text, model=name), headers={"Authorization": f"Bearer {KEY}"})


def held(page):
    """Whether the page holds the mark: in its texts, and in what it does not show."""
    return MARK in page.content()


def everywhere(page, server, name):
    """Each place of the page that can show a run, and whether it holds the mark there."""
    found = {}
    for row in range(page.locator(".row").count()):
        run = page.locator(".row").nth(row)
        run.click()
        # The one that was open before stays until this one has come.
        page.locator(f'article[aria-label="Run {run.get_attribute("data-id")}"] .fall').wait_for()
        for node in range(page.locator("button.fallrow").count()):
            one = page.locator("button.fallrow").nth(node)
            one.click()
            title = one.locator(".t").inner_text()
            if "end" in one.get_attribute("class").split():
                until(page, lambda: page.locator(".details .loading").count() == 0)
                found[row, f"row {title}"] = held(page)
                continue
            for tab in TABS:
                page.get_by_role("tab", name=tab).click()
                until(page, lambda: page.locator(".pane .loading").count() == 0)
                found[row, title, tab] = held(page)
        page.get_by_role("button", name="Copy").click()
        page.get_by_role("menuitem", name="All facts as JSON").click()
        page.get_by_text("Copied", exact=True).wait_for()
        found[row, "copied"] = MARK in page.evaluate("navigator.clipboard.readText()")
    for address, sign in (
        ("#/endpoints", ".endpoint .plot"),
        ("#/overview", ".plot"),
        (f"#/workflows/Workflows/{name}/Chat.json", '.node[data-n="4"] .tm'),
    ):
        page.goto(f"{server.url}/console/{address}")
        page.locator(sign).first.wait_for()
        found[address] = held(page)
    return found


def shown(server, looking, name):
    """What the page shows of a chat of this user, while it runs and after."""
    page = looking.open(server, permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("heading", name="No request yet").wait_for()
    client = ask(server, name, f"Where is {MARK}?")
    page.locator(".row .mark.answering").wait_for()
    page.locator(".row").click()
    page.locator(".fallrow.end", has_text="Answer").wait_for()
    found = {"while it runs": held(page)}
    assert MARK.encode() in client.wait()
    assert MARK.encode() in ask(server, name, TASK).wait()
    page.keyboard.press("Escape")
    until(page, lambda: page.locator(".row .mark.done").count() == 2)
    return page, found | everywhere(page, server, name)


@pytest.mark.parametrize("name", sorted(PRIVATE))
def test_no_place_of_the_page_holds_a_text_of_a_private_user(house, looking, name):
    server = house(name, PRIVATE[name])
    page, found = shown(server, looking, name)
    assert [place for place, there in found.items() if there] == []
    page.goto(f"{server.url}/console/#/runs")
    page.get_by_label("Find").fill(MARK)
    page.get_by_text("No run fits. 2 are kept.").wait_for()


def test_its_times_and_counts_are_there(house, looking):
    server = house("lea", PRIVATE["lea"])
    ask(server, "lea", f"Where is {MARK}?").wait()
    page = looking.open(server)
    page.locator(".row .mark.done").wait_for()
    assert page.locator(".row .lock").count() == 1
    page.locator(".row").click()
    page.get_by_text("The user's settings keep texts private; times and counts only.").first.wait_for()
    assert page.locator("button.fallrow:not(.end) .t").all_inner_texts() == [
        "Draft", "Lost", "Below", "Deep", "Answer", "Notes",
    ]  # fmt: skip
    again = page.get_by_role("button", name="Run again")
    assert again.get_attribute("aria-disabled") == "true" and "private" in again.get_attribute("title")
    assert re.search(r"tokens\s*(about )?\d+", page.locator(".runhead .sum").inner_text())
    page.get_by_role("button", name="Copy").click()
    off = page.locator('[role^=menuitem][aria-disabled="true"]').all_inner_texts()
    assert [text.split("\n")[0] for text in off] == ["This request as curl", "Answer"]


def test_of_others_each_of_these_places_can_hold_it(house, looking):
    """So the first test can fail."""
    server = house("mira", {})
    page, found = shown(server, looking, "mira")
    titles = {place[1] for place, there in found.items() if there and len(place) == 3}
    assert titles == {"Draft", "Lost", "Below", "Deep", "Answer", "Notes"}
    assert found["while it runs"] or found[1, "Answer", "Came"]
    assert found[0, "row Request"] and found[0, "row Answer"]
    assert found[0, "copied"] and found[1, "copied"]
    page.goto(f"{server.url}/console/#/runs")
    page.get_by_label("Find").fill(MARK)
    until(page, lambda: "text=" in page.url and page.locator(".row").count() == 2)
