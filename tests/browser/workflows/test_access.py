"""Workflows for those who use the keyboard alone, or hear the page (console.md 13.6, 17.1, 14)."""

from __future__ import annotations

import json

import pytest

from tests.browser.conftest import WIDTHS, sideways, until, violations
from tests.browser.workflows.workflow_tree import ADDRESS

MOST_STEPS = 60


def ready(page):
    page.wait_for_selector(".cm-line >> nth=20")
    page.wait_for_selector(".probs")


def chosen_with_child(page):
    page.locator(".cm-line", has_text='"title": "Answer"').click()
    page.wait_for_selector('.node[data-n="5"][aria-current="true"]')
    page.get_by_role("button", name="open here: CodeFix").click()
    page.get_by_role("region", name="CodeFix, opened here").get_by_text("Mend", exact=True).wait_for()


def completing(page):
    page.locator(".cm-line", has_text='"title": "Answer"').click()
    page.keyboard.press("End")
    page.keyboard.type('\n"')
    page.wait_for_selector(".cm-tooltip-autocomplete li")


def searching(page):
    page.locator(".cm-content").focus()
    page.keyboard.press("Control+f")
    page.wait_for_selector(".cm-search")


def broken(page):
    page.locator(".cm-line", has_text='"title": "Draft"').click()
    page.keyboard.press("End")
    page.keyboard.type("x")
    page.wait_for_selector(".zoompane.pale")


def trying(page):
    page.get_by_role("button", name="Try it").click()
    page.get_by_label("text of message 1").fill("Hello")
    page.get_by_role("button", name="Send").click()
    page.wait_for_selector(".tried .fall button.fallrow")
    page.wait_for_selector('.tried[aria-busy="false"]')


def dry(page):
    page.get_by_role("button", name="Dry run").click()
    page.wait_for_selector(".drypart")


def new(page):
    page.get_by_role("button", name="New", exact=True).click()
    page.get_by_label("Name", exact=True).wait_for()


def other(page):
    page.locator(".cm-line", has_text='"title": "Answer"').click()
    page.get_by_role("link", name="Big", exact=True).click()
    page.wait_for_selector(".beside.alone .cm-line")


def filling(page):
    page.locator('.node[data-n="5"]').click()
    page.get_by_role("tab", name="Form").click()
    page.wait_for_selector('[data-field="prompt"] .cm-content')
    page.wait_for_selector(".nodebar")


def adding(page):
    filling(page)
    page.locator('.plus[aria-label="Add a node before node 4"]').click()
    page.wait_for_selector(".palette .opt")


def dragging(page):
    card, plus = (
        page.locator('.node[data-n="6"]'),
        page.locator('.plus[aria-label="Add a node before node 4"]'),
    )
    card.hover()
    page.mouse.down()
    box = plus.bounding_box()
    page.mouse.move(box["x"] + 10, box["y"] + 10, steps=5)
    page.wait_for_selector(".node[data-held]")
    page.wait_for_selector(".plus[data-here]")


def losing(page):
    filling(page)
    page.locator('.node[data-n="1"]').click()
    page.get_by_role("button", name="Remove", exact=True).click()
    page.get_by_role("button", name="Do it anyway").wait_for()


STATES = (
    chosen_with_child,
    completing,
    searching,
    broken,
    trying,
    dry,
    new,
    other,
    filling,
    adding,
    dragging,
    losing,
)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_axe_finds_nothing(state, theme, server, file, tab):
    """In no state, in neither theme."""
    page = tab(server, ADDRESS, theme=theme, bypass_csp=True)
    ready(page)
    state(page)
    assert violations(page) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_in_a_conflict(theme, server, file, tab, looking):
    """Two editors side by side."""
    page = tab(server, ADDRESS, theme=theme, bypass_csp=True)
    looking.expected.append("409")
    ready(page)
    page.locator(".cm-line", has_text='"title": "Draft"').click()
    page.keyboard.press("End")
    page.keyboard.type(" ")
    file.write_text(json.dumps({"nodes": []}))
    page.keyboard.press("Control+s")
    page.wait_for_selector(".conflict .cm-line")
    assert violations(page) == []


@pytest.mark.parametrize(
    "state", [trying, dry, new, broken, filling, adding], ids=lambda state: state.__name__
)
@pytest.mark.parametrize("width", WIDTHS)
def test_no_state_scrolls_the_page_sideways(width, state, server, file, tab):
    """At any width."""
    page = tab(server, ADDRESS, width=width)
    ready(page)
    state(page)
    assert sideways(page) <= 0


def tab_to(page, claim):
    """Tab until what has the focus fits; `claim`: over `it`, the innermost element that has it."""
    it = "(() => { let it = document.activeElement; while (it?.shadowRoot?.activeElement) it = it.shadowRoot.activeElement; return it; })()"
    for _ in range(MOST_STEPS):
        if page.evaluate(f"((it) => {claim})({it})"):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"{MOST_STEPS} steps of Tab do not lead to: {claim}")


def test_a_workflow_is_found_mended_and_saved_by_the_keyboard_alone(server, file, tab):
    """From the list of files to the saved text; no step needs a mouse, and Tab leaves the editor again."""
    page = tab(server, "#/runs")
    page.get_by_role("navigation", name="Pages").wait_for()
    page.keyboard.press("g")
    page.keyboard.press("w")
    page.get_by_role("navigation", name="Workflow files").wait_for()
    page.keyboard.press("/")
    page.keyboard.type("revie")
    tab_to(page, "it.textContent.includes('Reviewers')")
    page.keyboard.press("Enter")
    ready(page)
    tab_to(page, "it.classList.contains('node')")
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    page.wait_for_selector('.node[data-n="6"][aria-current="true"]')
    tab_to(page, "it.classList.contains('cm-content')")
    page.keyboard.press("F8")
    page.wait_for_selector('.node[data-n="5"][aria-current="true"]')
    page.keyboard.press("End")
    for _ in range(2):
        page.keyboard.press("ArrowLeft")
    for _ in range(len(" {agent6Output}")):
        page.keyboard.press("Backspace")
    page.locator(".probs").wait_for(state="detached")
    page.keyboard.press("Control+s")
    page.get_by_text("Saved.").wait_for()
    assert '{agent3Output} {agent4Output}"' in file.read_text()
    tab_to(page, "!it.classList.contains('cm-content')")


def test_a_line_of_the_list_and_the_text_say_the_same_place(server, file, tab):
    """A screen reader hears level, place and sentence."""
    page = tab(server, ADDRESS)
    ready(page)
    until(page, "document.querySelector('.problem').textContent.includes('warning:')")


def test_files_are_moved_through_by_keys_and_escape_leads_back_to_the_text(server, file, tab):
    """Letters from anywhere, arrows in the list; in a field Esc leaves the field first."""
    page = tab(server, ADDRESS)
    ready(page)
    names = page.locator(".tree a .fname").all_inner_texts()
    at = names.index("Reviewers")
    has_focus = "document.activeElement.querySelector('.fname')?.textContent"
    for key, steps in (("j", 1), ("k", 0), ("ArrowDown", 1), ("ArrowUp", 0)):
        page.keyboard.press(key)
        assert page.evaluate(has_focus) == names[at + steps]
    page.keyboard.press("t")
    field = page.get_by_label("text of message 1")
    field.fill("Hello")
    field.press("Escape")
    assert field.is_visible()
    page.keyboard.press("Escape")
    ready(page)
    assert page.evaluate("document.activeElement.textContent") == "Try it"
