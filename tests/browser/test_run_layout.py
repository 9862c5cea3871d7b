"""Where the parts of a run's page stand, and how the keyboard goes through them (spec workbench.md 13; 11, rows 14, 15)."""

from __future__ import annotations

import threading

import pytest

from tests.browser.conftest import Client, asking, choose_answering, rows, until
from tests.e2e.conftest import NODE
from tests.e2e.fake_backend import Reply

pytestmark = pytest.mark.browser

SIZES = [(1440, 900), (1024, 768), (390, 844)]
FOCUSED = "document.activeElement"


@pytest.fixture
def hundred(start):
    """A server with one run of a hundred nodes."""
    text = {"type": "StaticResponse", "content": "a"}
    nodes = [{**text, "title": f"Step {n}"} for n in range(1, 100)]
    server = start({"mira": {"workflows": {"Chat": [*nodes, {**NODE, "title": "Last"}]}}})
    server.post("/v1/chat/completions", asking("Hello"))
    return server


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_the_details_of_a_chosen_node_are_in_view(hundred, looking, width, height):
    """The axis too, where list and details stand side by side or one over the other."""
    page = looking.open(hundred, viewport={"width": width, "height": height})
    rows(page, 1)
    page.locator(".row").click()
    row = page.locator("button.fallrow", has=page.get_by_text("Step 57", exact=True))
    row.click()
    head = page.locator(".nodehead", has_text="57 Step 57")
    head.wait_for()
    until(page, lambda: 0 <= head.bounding_box()["y"] < height - 40)
    if width >= 900:
        assert 0 < row.bounding_box()["y"] < height
        assert page.locator(".axis").bounding_box()["y"] >= page.locator(".fall").bounding_box()["y"]
        assert page.evaluate("document.documentElement.scrollHeight <= innerHeight")


def test_the_parts_stand_side_by_side_on_a_wide_page_and_one_over_the_other_on_others(hundred, looking):
    page = looking.open(hundred, viewport={"width": 1440, "height": 900})
    page.locator(".nodehead, .details h2").first.wait_for()
    fall, details = page.locator(".fall").bounding_box(), page.locator(".details").bounding_box()
    assert (fall["width"], fall["y"]) == (420, details["y"])
    assert details["x"] >= fall["x"] + 420
    page.set_viewport_size({"width": 1024, "height": 768})
    until(
        page,
        lambda: page.locator(".details").bounding_box()["x"] == page.locator(".fall").bounding_box()["x"],
    )
    body = page.locator(".runbody").bounding_box()["height"]
    assert page.locator(".fall").bounding_box()["height"] <= 0.4 * body + 1


def test_four_keys_lead_from_the_list_to_the_details_and_back(hundred, looking):
    """Enter, F6 twice, Escape; behind the last part F6 is the browser's."""
    page = looking.open(hundred, viewport={"width": 1440, "height": 900})
    page.locator(".run .fallrow").first.wait_for()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    until(page, lambda: page.evaluate(f"{FOCUSED}.tagName") == "H1")
    page.keyboard.press("F6")
    assert page.evaluate(f"{FOCUSED}.closest('.fall') !== null")
    page.keyboard.press("F6")
    assert page.evaluate(f"{FOCUSED}.closest('.details') !== null")
    page.keyboard.press("Shift+F6")
    assert page.evaluate(f"{FOCUSED}.closest('.fall') !== null")
    page.keyboard.press("Escape")
    until(page, lambda: page.evaluate(f"{FOCUSED}.className") == "row")


def test_at_most_twelve_stops_of_the_tab_key_stand_before_the_details(hundred, looking):
    """From the link that skips the head of the page."""
    for _ in range(30):
        hundred.post("/v1/chat/completions", {"model": "nobody-at-all", "messages": "no list"})
    page = looking.open(hundred, viewport={"width": 1440, "height": 900})
    page.locator(".row").first.wait_for()
    page.locator(".row .mark.done, .row .mark.trouble").first.click()
    page.locator(".details h2").first.wait_for()
    page.locator(".skip").focus()
    page.keyboard.press("Enter")
    stops = 1
    while stops <= 12 and not page.evaluate(f"{FOCUSED}.closest('.details') !== null"):
        page.keyboard.press("Tab")
        stops += 1
    assert stops <= 12


def test_the_list_folds_away_with_a_key_and_stays_so(hundred, looking):
    page = looking.open(hundred, viewport={"width": 1440, "height": 900})
    page.locator(".run .fallrow").first.wait_for()
    page.keyboard.press("[")
    page.locator(".list").wait_for(state="hidden")
    page.reload()
    page.get_by_role("button", name="Show the list of runs").click()
    page.locator(".list").wait_for()


def test_an_answer_is_seen_while_it_goes_out(start, looking, backend):
    """What the client has so far; when it has ended, all of it."""
    rest = threading.Event()
    backend.on("Tell me", Reply(["one", " two", " three"], rest_after=rest))
    server = start()
    client = Client(server, asking("Tell me"))
    page = looking.open(server)
    page.locator(".row .mark.answering").click()
    page.get_by_text("The answer so far").wait_for()
    until(page, lambda: page.locator(".details .msg pre").inner_text() == "one")
    rest.set()
    page.get_by_text("What the client got").wait_for()
    until(page, lambda: page.locator(".details .msg pre").inner_text() == "one two three")
    client.wait()


def test_a_chip_leads_to_the_card_of_its_endpoint(start, looking):
    """That of the user who asked, though another has one of the same name; it is in view."""
    more = {f"Other{n}": {} for n in range(12)}
    ask = {**NODE, "prompt": "x", "lastMessagesToSendInsteadOfPrompt": 0}
    flow = [*({**ask, "title": name, "endpointName": name} for name in more), NODE]
    server = start({"jo": {}, "mira": {"endpoints": more, "workflows": {"Chat": flow}}})
    server.post("/v1/chat/completions", asking("Hello", model="jo"))
    server.post("/v1/chat/completions", asking("Hello", model="mira"))
    page = looking.open(server, viewport={"width": 1300, "height": 500})
    page.locator(".row", has_text="mira").click()
    choose_answering(page)
    page.locator(".nodehead a.chip").click()
    card = page.locator('.endpoint[data-of="mira/Model"]')
    card.wait_for()
    until(page, lambda: 0 <= card.bounding_box()["y"] < 500)
