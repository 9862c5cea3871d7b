"""Help: the search, its results, and the pages of the docs (spec console.md 12)."""

from __future__ import annotations

import re

import pytest

from tests.browser.conftest import until

pytestmark = pytest.mark.browser


def test_a_key_leads_to_the_search_and_a_name_to_its_page(start, looking):
    page = looking.open(start(), "#/help")
    page.locator(".prose h1").wait_for()
    page.keyboard.press("/")
    page.keyboard.type("StaticResponse")
    hit = page.locator(".hit").first
    until(page, lambda: "StaticResponse" in hit.inner_text() and "node type" in hit.inner_text())
    hit.click()
    until(page, lambda: page.locator(".prose h1").inner_text() == "StaticResponse")
    assert page.url.endswith("#/help/nodes/StaticResponse")


def test_a_field_leads_to_its_place_on_the_page(start, looking):
    page = looking.open(start(), "#/help/nodes/Standard?at=maxResponseSizeInTokens")
    page.locator(".sought").wait_for()
    assert "maxResponseSizeInTokens" in page.locator(".sought").inner_text()


def test_words_of_a_page_are_found_last(start, looking):
    page = looking.open(start(), "#/help?find=waitress")
    page.locator(".hit .about", has_text="waitress").first.wait_for()


def test_what_is_found_is_shown_without_marks(start, looking):
    """The texts of pages too: no emphasis, code, link or table as it is written."""
    page = looking.open(start(), "#/help?find=tokens")
    page.locator(".hit", has_text="page").first.wait_for()
    for words in ("tokens", "node", "server"):
        page.get_by_role("searchbox").fill(words)
        until(page, lambda words=words: words in page.locator(".hit .about").last.inner_text().lower())
        assert [text for text in page.locator(".hit .about").all_inner_texts() if MARKS.search(text)] == []


MARKS = re.compile(r"\*\*|`|\]\(|\| | \|")


def test_a_setting_is_found_once(start, looking):
    """In its file; neither as a key of each rule that reads it nor as a page that has it."""
    page = looking.open(start(), "#/help?find=removeThinking")
    page.locator(".hit .about").last.wait_for()
    until(page, lambda: "page" in page.locator(".hit").last.inner_text())
    hits = page.locator(".hit").all_inner_texts()
    assert [hit.split("\n")[0] for hit in hits if hit.startswith("removeThinking ")] == [
        "removeThinking field of an endpoint file, true/false, default false"
    ]
    assert [hit for hit in hits if hit.startswith("Configuration reference")] == []
    page.get_by_role("searchbox").fill("StaticResponse")
    until(page, lambda: page.locator(".hit", has_text="StaticResponse node type").count() == 1)
    assert page.locator(".hit", has_text="StaticResponse page").count() == 0


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
def test_a_row_is_opened_with_the_names_of_its_cells(start, looking, width, height):
    """Those of the file that was found: a user and an endpoint have a field of one name."""
    page = looking.open(
        start(), "#/help?find=clampPromptToContextWindow", viewport={"width": width, "height": height}
    )
    page.locator(".hit", has_text="field of an endpoint file").click()
    page.locator("tr.sought").wait_for()
    cells = page.locator("tr.sought td").evaluate_all(
        "cells => cells.map((cell) => [getComputedStyle(cell, '::before').content, cell.textContent])"
    )
    assert [name for name, _ in cells] == ['"field"', '"type"', '"default"', '"meaning"']
    assert "Absent: the user's setting." in cells[-1][1]
    edges = page.locator("tr.sought td").evaluate_all(
        "cells => cells.map((cell) => { const { left, top, bottom } = cell.getBoundingClientRect(); return [left, top, bottom]; })"
    )
    assert all(0 <= left < width and top > 0 and bottom <= height for left, top, bottom in edges)


def test_words_of_a_page_open_at_their_line(start, looking):
    page = looking.open(start(), "#/help?find=waitress", viewport={"width": 1440, "height": 900})
    page.locator(".hit .about", has_text="waitress").first.click()
    page.locator(".sought").wait_for()
    assert "waitress" in page.locator(".sought").inner_text().lower()


def test_nothing_fits_is_said(start, looking):
    page = looking.open(start(), "#/help?find=zzzzqqqq")
    page.get_by_text("Nothing found.").wait_for()


def test_links_of_a_page_lead_within_help(start, looking):
    page = looking.open(start(), "#/help/nodes/README")
    page.locator('.prose a[href^="#/help/"]').first.click()
    until(page, lambda: "#/help/nodes/README" not in page.url)
    page.locator(".prose h1").wait_for()


def test_a_page_that_is_not_there_is_said(start, looking):
    looking.expected.append("404")
    page = looking.open(start(), "#/help/nodes/Nothing")
    page.locator(".failedpart").wait_for()


def test_its_lists_are_moved_through_by_keys_and_escape_leads_back(start, looking):
    page = looking.open(start(), "#/help?find=StaticResp")
    page.locator(".hit").first.wait_for()
    page.keyboard.press("j")
    assert "StaticResponse" in page.evaluate("document.activeElement.textContent")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    until(page, lambda: page.locator(".prose h1").inner_text() == "StaticResponse")
    page.keyboard.press("Escape")
    until(page, lambda: page.url.endswith("#/help"))
