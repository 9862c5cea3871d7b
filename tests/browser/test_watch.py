"""The watch itself: what a page must not do is noticed, whoever opened the page (spec console.md 17.1)."""

from __future__ import annotations

import pytest

from tests.browser.conftest import Looking, until

pytestmark = pytest.mark.browser

BREACHES = {
    "an error of a script": ("setTimeout(() => { throw new Error('broken'); })", "error: "),
    "a promise that nobody heeds": ("void Promise.reject(new Error('broken'))", "error: "),
    "a word on the console": ("console.error('beware')", "console: beware"),
    "a violation of the policy": (
        "document.body.append(Object.assign(document.createElement('style'), { textContent: 'p {}' }))",
        "console: violation of style-src-elem by inline",
    ),
    "a request to another host": (
        "window.open('http://127.0.0.2:9/')",
        "asked http://127.0.0.2:9/",
    ),
    "what a window does that it opened": (
        "window.open('/console/static/nothing.js')",
        "console: Failed to load resource",
    ),
}


@pytest.fixture
def own(chromium):
    """A watch of the test's own, whose findings are what the test wants."""
    own = Looking(chromium)
    yield own
    own.close()


@pytest.mark.parametrize(("deed", "told"), BREACHES.values(), ids=list(BREACHES))
def test_a_breach_is_noticed(deed, told, start, own):
    page = own.open(start())
    page.get_by_role("heading", name="No request yet").wait_for()
    assert own.unexpected() == []
    page.evaluate(f"() => {{ {deed}; }}")
    until(page, lambda: any(trouble.startswith(told) for trouble in own.unexpected()))


def test_an_answer_that_is_expected_is_no_trouble(start, own):
    page = own.open(start(), "#/runs/none")
    page.get_by_text("No such run").wait_for()
    until(page, lambda: own.unexpected() != [])
    own.expected.append("404")
    assert own.unexpected() == []
