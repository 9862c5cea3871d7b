"""Help: the search, its results, and the pages of the docs (spec console.md 12)."""

from __future__ import annotations

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
