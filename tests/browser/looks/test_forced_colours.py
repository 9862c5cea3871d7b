"""Colours that the system forces: what is chosen, and every mark and bar, can still be told (console.md 13.6)."""

from __future__ import annotations

import pytest

LOOK = """(one) => {
  const { outlineStyle, outlineWidth, outlineColor, borderTopStyle, borderTopColor, borderRightColor, borderBottomColor, borderLeftColor, borderLeftWidth, borderBottomWidth } = getComputedStyle(one);
  return [outlineStyle === 'none' ? 'none' : `${outlineStyle} ${outlineWidth} ${outlineColor}`, borderTopStyle, borderTopColor, borderRightColor, borderBottomColor, borderLeftColor, borderLeftWidth, borderBottomWidth].join('; ');
}"""
"""What a thing looks like beside its text. (The system takes its ground, and a weight alone is hard to tell.)"""

CHOSEN = {
    "the page that is open": ("runs", ".top nav a", '[aria-current="page"]'),
    "the run that is open": ("a run", ".row", "[aria-current]"),
    "the node that is chosen": ("a run", "button.fallrow", "[aria-current]"),
    "the tab that is open": ("a node", "[role=tab]", '[aria-selected="true"]'),
    "what is shown of it": ("what was sent", ".switches button", '[aria-pressed="true"]'),
    "the file that is open": ("a workflow", ".tree a", "[aria-current]"),
    "the card that is chosen": ("a workflow", ".node", "[aria-current]"),
    "cards that it uses": ("a workflow", ".node:not([aria-current])", ".near"),
    "lines of the node": ("a workflow", ".cm-line", ".chosen"),
    "the page of Help that is open": ("a page of Help", ".contents a", "[aria-current]"),
    "members of a group": ("a run", "button.fallrow:not([aria-current])", ".group"),
}
BARS = {
    "runs": ".row .shape i",
    "a run": ".fall .track i:not(.mk), .fall .legend i:not(.mk)",
    "overview": ".plots .legend i",
}


@pytest.fixture
def forced(visit):
    """`forced(place)`: the page there, under forced colours."""
    return lambda place: next(page for page, name in visit(forced_colors="active") if name == place)


@pytest.mark.parametrize(("place", "kind", "mark"), CHOSEN.values(), ids=list(CHOSEN))
def test_what_is_chosen_looks_different(forced, place, kind, mark):
    page = forced(place)
    page.mouse.move(650, 1)
    page.evaluate("document.activeElement?.blur()")
    chosen = {one.evaluate(LOOK) for one in page.locator(f"{kind}{mark}").all()}
    others = {one.evaluate(LOOK) for one in page.locator(f"{kind}:not({mark})").all()}
    assert chosen and others and not chosen & others


@pytest.mark.parametrize(("place", "bars"), BARS.items(), ids=list(BARS))
def test_bars_keep_their_colours(forced, place, bars):
    """In the list, the waterfall and every legend."""
    page = forced(place)
    grounds = page.locator(bars).evaluate_all(
        "(all) => all.map((one) => { const { backgroundColor, backgroundImage } = getComputedStyle(one); return `${one.className} ${backgroundColor} ${backgroundImage}`; })"
    )
    nothing = {"rgba(0, 0, 0, 0) none", "rgb(255, 255, 255) none", "rgb(0, 0, 0) none"}
    assert grounds and not [one for one in grounds if one.split(" ", 1)[1] in nothing]


def test_marks_are_drawn(forced):
    """Each state has its own, with its word."""
    page = forced("runs")
    said = page.locator(".row > .mark").evaluate_all(
        "(all) => all.map((one) => `${one.getAttribute('aria-label')} ${getComputedStyle(one).stroke !== 'none'}`)"
    )
    assert set(said) == {"done true", "done, with trouble true", "failed true", "refused true"}
