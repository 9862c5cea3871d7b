"""Small windows, zoom, and hands that do not hit small things: nothing is lost, cut or too small to hit."""

from __future__ import annotations

import pytest

SIDEWAYS = ".fall, .zoompane, .texthost, .cm-scroller, .cm-content, .plain.code, pre, .wide"
"""Waterfall, graph and text; tables and code within Help are texts as well."""

TOO_SMALL = """(least) => [...document.querySelectorAll('a, button, select, input, textarea, summary, [role=tab]')]
  .filter((one) => one.checkVisibility({ visibilityProperty: true }) && !one.closest('.skip, .texthost') && getComputedStyle(one).display !== 'inline')
  .map((one) => [one, Math.max(...[one, one.closest('label')].map((box) => box?.getBoundingClientRect().height ?? 0))])
  .filter(([one, height]) => height && height < (one.matches('.fallrow') ? Math.min(least, 32) : least) - 0.5)
  .map(([one, height]) => `${one.tagName} ${one.className} ${one.textContent.slice(0, 20)} ${Math.round(height)}`)"""
"""A link within a sentence is as high as its line; all else has a height of its own, that of a row of the waterfall is 32 px
on a small page (workbench.md 13)."""

SCROLLED = """(allowed) => [...document.querySelectorAll('body *')]
  .filter((one) => one.scrollWidth > one.clientWidth + 1 && one.clientWidth && ['auto', 'scroll'].includes(getComputedStyle(one).overflowX) && !one.closest(allowed))
  .map((one) => `${one.tagName}.${one.className} ${one.scrollWidth} > ${one.clientWidth}`)"""

OUT_OF_REACH = """(allowed) => [...document.querySelectorAll('a, button, select, input, textarea, summary, h1, h2, dt, dd')]
  .filter((one) => one.checkVisibility({ visibilityProperty: true }) && !one.closest(allowed) && !one.closest('.unseen, .skip') && !one.classList.contains('unseen'))
  .filter((one) => { const { left, right, width } = one.getBoundingClientRect(); return width && (left < -0.5 || right > innerWidth + 0.5); })
  .map((one) => `${one.tagName} ${one.className} ${one.textContent.slice(0, 20)}`)"""

CUT = """() => [...document.querySelectorAll('select, main button, .top button')]
  .filter((one) => one.checkVisibility({ visibilityProperty: true }) && !one.closest('.fall'))
  .filter((one) => {
    const has = one.getBoundingClientRect().width;
    const own = one.getAttribute('style');
    one.style.width = one.style.minWidth = 'max-content';
    one.style.maxWidth = 'none';
    const wants = one.getBoundingClientRect().width;
    if (own === null) one.removeAttribute('style'); else one.style.cssText = own;
    return one.tagName === 'SELECT' ? wants > has + 0.5 : one.scrollWidth > one.clientWidth + 1;
  })
  .map((one) => `${one.tagName} ${one.getAttribute('aria-label') ?? one.textContent}`)"""
"""A select draws its arrow over a text that has no room."""


@pytest.mark.parametrize(("width", "least"), [(1300, 24), (640, 40), (320, 40)])
def test_everything_that_is_hit_is_high_enough(visit, width, least):
    found = {name: page.evaluate(TOO_SMALL, least) for page, name in visit(width)}
    assert {name: small for name, small in found.items() if small} == {}


@pytest.mark.parametrize(
    ("width", "height", "zoom"), [(320, 640, 1), (720, 450, 2), (390, 800, 1), (650, 450, 2)]
)
def test_only_waterfall_graph_and_text_scroll_sideways(visit, width, height, zoom):
    """At 320 px, and in windows of 1440 and 1300 px at 200 %."""
    found = {
        name: page.evaluate(SCROLLED, SIDEWAYS)
        + page.evaluate(OUT_OF_REACH, SIDEWAYS)
        + page.evaluate(CUT)
        + (["the page"] if page.evaluate("document.documentElement.scrollWidth > innerWidth") else [])
        for page, name in visit(width, height, device_scale_factor=zoom)
    }
    assert {name: lost for name, lost in found.items() if lost} == {}


@pytest.mark.parametrize(("width", "zoom"), [(320, 1), (720, 2)])
def test_the_bar_has_one_line_for_what_runs_and_one_for_the_pages(visit, width, zoom):
    """Also while much runs and waits."""
    page, _ = next(visit(width, 450, device_scale_factor=zoom))
    words = "<b>12</b> running <span class='dim'>of 12</span>, <b>34</b> waiting"
    page.locator(".gate").evaluate(
        "(one, words) => one.replaceChildren(...words.match(/<[^>]+>[^<]*<[^>]+>|[^<]+/g).map((part) => Object.assign(document.createElement('span'), { textContent: part.replace(/<[^>]+>/g, '') })))",
        words,
    )
    tops = {round(box.bounding_box()["y"] / 40) for box in page.locator(".top > *").all()}
    assert tops == {0, 1}


@pytest.mark.parametrize(("width", "height"), [(1300, 400), (900, 500), (390, 700)])
def test_the_bar_stays_however_long_a_page_is(visit, width, height):
    """What is below it scrolls; the window does not."""
    scrolls = "document.documentElement.scrollHeight > innerHeight"
    assert [name for page, name in visit(width, height) if page.evaluate(scrolls)] == []
