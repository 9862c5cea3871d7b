"""Workflows: the picture of a file, the tree, and how picture and text know of each other (console.md 17.1, 7)."""

from __future__ import annotations

import re

import pytest

from tests.browser.conftest import WIDTHS, sideways, until
from tests.browser.workflows.conftest import EDIT, write_example, write_text
from tests.browser.workflows.workflow_tree import ADDRESS, PATH, PROSE, USERS

CARD = ".col > .grow .node"


@pytest.fixture
def picture(server, tab):
    """The example's file, its cards and its text shown."""
    page = tab(server, ADDRESS)
    page.wait_for_selector(f"{CARD} >> nth=5")
    page.wait_for_selector(".cm-line >> nth=20")
    return page


def box(page, n):
    return page.locator(f'.node[data-n="{n}"]').bounding_box()


def arcs(page):
    """The arcs as (y where it begins, x of its lane, y where it ends), rounded."""
    found = []
    for d in page.locator("svg.arcs path").evaluate_all(
        "paths => paths.map((path) => path.getAttribute('d'))"
    ):
        first, lane, last = re.match(r"M[\d.]+ ([\d.]+)H([\d.]+)q[^V]*V([\d.]+)", d).groups()
        found.append((round(float(first)), round(float(lane)), round(float(last))))
    return found


class TestPicture:
    def test_nodes_stand_in_their_order_and_a_group_side_by_side(self, picture):
        """Cards of 232 px, in a group of 178; rows 18 px apart; the group in its frame."""
        boxes = {n: box(picture, n) for n in range(1, 7)}
        frame = picture.locator(".side").bounding_box()
        assert [round(boxes[n]["width"]) for n in boxes] == [232, 178, 178, 232, 232, 232]
        assert boxes[2]["y"] == boxes[3]["y"]
        assert boxes[2]["x"] + 178 < boxes[3]["x"]
        tops = [boxes[n]["y"] for n in (1, 2, 4, 5, 6)]
        assert tops == sorted(tops)
        assert round(frame["y"] - (boxes[1]["y"] + boxes[1]["height"])) == 18
        assert round(boxes[4]["y"] - (frame["y"] + frame["height"])) == 18
        assert picture.locator(".cap").inner_text() == "together: critics"

    def test_arcs_lead_from_the_source_to_its_users(self, picture):
        """One a pair of rows: five of them, none for the output that does not exist yet."""
        top = picture.locator(".canvas").bounding_box()["y"]
        frame = picture.locator(".side").bounding_box()
        rows = [box(picture, 1), frame, box(picture, 4), box(picture, 5), box(picture, 6)]
        begins = [round(row["y"] + row["height"] - 14 - top) for row in rows]
        ends = [round(row["y"] + 14 - top) for row in rows]
        pairs = {(begins.index(first), round_up(ends, first, last)) for first, _, last in arcs(picture)}
        assert pairs == {(0, 1), (1, 2), (2, 3), (3, 4), (1, 3)}

    def test_an_arc_that_spans_others_lies_outside_of_them(self, picture):
        """12 px further."""
        lanes = sorted(arcs(picture), key=lambda arc: arc[2] - arc[0])
        longest = lanes[-1][1]
        beside = [
            x for first, x, last in lanes[:-1] if first >= lanes[-1][0] - 1 and last <= lanes[-1][2] + 1
        ]
        assert beside
        assert all(longest - x >= 12 - 8 for x in beside)

    def test_a_card_says_type_endpoint_uses_role_and_problem(self, picture):
        """In words, and its edge in the endpoint's colour."""
        card = picture.locator('.node[data-n="5"]')
        text = " ".join(card.inner_text().split())
        for words in (
            "Answer",
            "answers",
            "Standard",
            "Big",
            "uses 3, 4, 6",
            "{agent6Output} is not known yet: this is node 5",
        ):
            assert words in text
        edges = picture.locator(CARD).evaluate_all(
            "cards => cards.map((card) => getComputedStyle(card).borderLeftColor)"
        )
        assert edges[0] == edges[1]
        assert len({edges[0], edges[2], edges[4]}) == 3

    def test_the_answer_ends_with_a_line_before_the_nodes_that_follow(self, picture):
        """Between nodes 5 and 6."""
        line = picture.get_by_text("the client has its answer").bounding_box()
        assert box(picture, 5)["y"] < line["y"] < box(picture, 6)["y"]

    def test_pointing_at_a_node_lights_its_arcs_and_their_rows(self, picture):
        """And nobody else's."""
        assert picture.locator(".arc.on").count() == 0
        picture.hover('.node[data-n="6"]')
        picture.locator(".arc.on").first.wait_for(state="attached")
        assert picture.locator(".arc.on").count() == 1
        assert picture.locator(".node.near").evaluate_all("cards => cards.map((card) => card.dataset.n)") == [
            "5"
        ]

    def test_plus_and_minus_change_its_size_and_0_brings_it_back(self, picture):
        """Wider than its pane it scrolls; the page does not."""
        picture.focus('.node[data-n="1"]')
        for _ in range(4):
            picture.keyboard.press("+")
        assert round(box(picture, 1)["width"]) == round(232 * 1.75)
        assert sideways(picture) <= 0
        picture.keyboard.press("0")
        assert round(box(picture, 1)["width"]) == 232

    def test_ctrl_and_the_wheel_change_its_size(self, picture):
        """The browser's own zoom stays as it is."""
        picture.hover('.node[data-n="1"]')
        picture.keyboard.down("Control")
        picture.mouse.wheel(0, -100)
        picture.keyboard.up("Control")
        until(picture, "document.querySelector('.node').getBoundingClientRect().width > 240")


class TestTwoSides:
    def test_choosing_a_node_shows_its_lines(self, picture):
        """All of them, and they are in sight."""
        picture.click('.node[data-n="6"]')
        lines = picture.locator(".cm-line.chosen")
        lines.first.wait_for()
        assert '"title": "Notes"' in " ".join(lines.all_inner_texts())
        assert lines.first.inner_text().strip() == "{"
        assert lines.last.inner_text().strip() == "}"
        assert picture.locator('.node[data-n="6"]').get_attribute("aria-current") == "true"

    def test_the_cursor_in_a_node_chooses_it(self, picture):
        """And the address says which, so that it can be shared."""
        picture.get_by_text('"title": "Which way?"').click()
        picture.wait_for_selector('.node[data-n="4"][aria-current="true"]')
        assert "node=4" in picture.evaluate("location.hash")

    def test_an_address_with_a_node_chooses_it(self, server, tab):
        """As the links from a run do."""
        page = tab(server, f"{ADDRESS}&node=5")
        page.wait_for_selector('.node[data-n="5"][aria-current="true"]')
        page.wait_for_selector(".cm-line.chosen")

    def test_the_keyboard_alone_walks_the_picture(self, picture):
        """One stop for Tab, arrows between the cards, Enter chooses."""
        picture.focus('.node[data-n="1"]')
        for _ in range(4):
            picture.keyboard.press("ArrowDown")
        assert picture.evaluate("document.activeElement.dataset.n") == "5"
        picture.keyboard.press("Enter")
        picture.wait_for_selector('.node[data-n="5"][aria-current="true"]')
        assert picture.locator(f'{CARD}[tabindex="0"]').count() == 1

    def test_what_a_reader_hears_has_all_that_is_seen(self, picture):
        """The arcs are hidden from them."""
        picture.get_by_role(
            "button", name=re.compile(r"node 3 ?, ?Style.*Standard.*endpoint Other.*uses 1", re.DOTALL)
        ).wait_for()
        assert picture.locator("svg.arcs").get_attribute("aria-hidden") == "true"


class TestChildren:
    def test_a_branch_leads_to_its_workflow_with_a_way_back(self, picture):
        """`Reviewers > CodeFix`."""
        picture.get_by_role("link", name="CodeFix", exact=True).last.click()
        picture.wait_for_selector("h1:has-text('CodeFix')")
        picture.get_by_role("navigation", name="Way back").get_by_role("link", name="Reviewers").click()
        picture.wait_for_selector("h1:has-text('Reviewers')")
        picture.get_by_role("navigation", name="Way back").wait_for(state="detached")

    def test_a_child_opens_inside_its_parent(self, picture):
        """In a frame, with its own arcs; again, and it is gone."""
        before = box(picture, 5)["y"]
        picture.get_by_role("button", name="open here: CodeFix").click()
        frame = picture.get_by_role("region", name="CodeFix, opened here")
        frame.get_by_text("Mend", exact=True).wait_for()
        frame.locator("svg.arcs path").first.wait_for(state="attached")
        assert frame.locator("svg.arcs path").count() == 1
        assert box_of(frame, 2)["y"] < box(picture, 5)["y"]
        picture.get_by_role("button", name="fold: CodeFix").click()
        frame.wait_for(state="detached")
        assert box(picture, 5)["y"] == before


def box_of(frame, n):
    return frame.locator(f'.node[data-n="{n}"]').bounding_box()


def round_up(ends, first, last):
    """The row whose upper edge an arc ends at, within the roundness of its corners."""
    return next(at for at, end in enumerate(ends) if abs(end - last) <= 9 and end > first)


class TestTree:
    def test_files_stand_below_their_users_and_others_folded(self, picture):
        """Those first that answer a model name; with their problems in numbers and words."""
        tree = picture.get_by_role("navigation", name="Workflow files")
        mine = tree.get_by_role("list", name="mira").get_by_role("link")
        assert [name.split()[0] for name in mine.all_inner_texts()] == [
            "Reviewers",
            "Chat",
            "CodeFix",
            "Prose",
        ]
        assert "1 warning" in " ".join(mine.first.inner_text().split())
        assert not tree.get_by_text("attic/Old").is_visible()

    def test_the_filter_finds_by_name(self, picture):
        """Also in what is folded; `/` leads to it."""
        picture.locator("h1").first.click()
        picture.keyboard.press("/")
        picture.keyboard.type("old")
        tree = picture.get_by_role("navigation", name="Workflow files")
        tree.get_by_text("attic/Old").wait_for()
        until(picture, "document.querySelectorAll('.tree a').length === 1")
        picture.get_by_role("searchbox").first.fill("no such name")
        tree.get_by_text("No file matches.").wait_for()

    def test_the_file_that_is_open_is_in_sight(self, launch, tab):
        server = launch(USERS, *EDIT)
        write_example(server)
        for number in range(40):
            write_text(server, f"Workflows/mira/A{number}.json", PROSE)
        page = tab(server, ADDRESS, height=500)
        chosen = page.locator(".tree [aria-current]")
        until(
            page,
            "document.querySelector('.tree [aria-current]')?.getBoundingClientRect().bottom <= innerHeight",
        )
        assert chosen.inner_text().startswith("Reviewers")

    def test_without_a_file_the_model_names_are_shown(self, server, tab):
        """With the files beside them (workbench.md 15)."""
        page = tab(server, "#/workflows")
        page.get_by_role("heading", name="Model names").wait_for()
        assert page.locator(".tree [aria-current]").inner_text() == "Model names"


class TestOtherFiles:
    def test_an_endpoint_of_a_node_opens_as_text(self, picture):
        """By the link of the chosen node; its key is masked by the server."""
        picture.click('.node[data-n="5"]')
        picture.get_by_role("link", name="Big", exact=True).click()
        picture.wait_for_selector(".cm-line:has-text('modelNameToSendToAPI')")
        picture.locator(".graph").wait_for(state="detached")

    def test_a_folder_that_is_edited_by_hand_says_so(self, server, tab):
        """Its text can be read."""
        page = tab(server, "#/workflows/Users/mira.json")
        page.get_by_text("This folder is edited by hand.").wait_for()
        assert page.get_by_role("button", name="Save").is_disabled()

    def test_a_file_that_is_not_there_says_so(self, server, tab, looking):
        """With a way to try again; the rest lives."""
        page = tab(server, "#/workflows/Workflows/mira/Nothing.json")
        looking.expected.append("404")
        page.get_by_text("No such file.").wait_for()
        page.get_by_role("link", name="Reviewers").wait_for()


@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_never_scrolls_sideways(server, tab, width):
    """At any width; picture and text scroll by themselves."""
    page = tab(server, ADDRESS, width=width)
    page.wait_for_selector(f"{CARD} >> nth=5")
    page.wait_for_selector(".cm-line >> nth=20")
    assert sideways(page) <= 0
    if width < 900:
        heights = page.locator(".gacts button, .tree a").evaluate_all(
            "all => all.map((one) => one.getBoundingClientRect().height)"
        )
        assert min(heights) >= 40


def test_a_broken_text_keeps_the_last_picture_pale(picture):
    """With the fault over it; mended, it is as before."""
    picture.get_by_text('"title": "Draft"').click()
    picture.keyboard.press("End")
    picture.keyboard.type("x")
    picture.wait_for_selector(".zoompane.pale")
    assert "not JSON" in picture.locator(".graph > .notes").inner_text()
    assert picture.locator(CARD).count() == 6
    picture.keyboard.press("Backspace")
    picture.wait_for_selector(".zoompane:not(.pale)")


def test_the_path_of_the_file_stands_over_its_text(picture):
    """As the server names it."""
    assert picture.get_by_role("heading", name=PATH).is_visible()


class TestHostileFiles:
    NAME = """a"b<i>'%23#?&.json"""
    TITLE = "<img src=x onerror=alert(1)></script>"

    def test_names_and_titles_are_text(self, server, tab):
        """Whatever they hold, the file opens and nothing of it becomes markup."""
        node = {
            "title": self.TITLE,
            "type": "StaticResponse",
            "content": "\u202ejavascript:alert(1)" + "word" * 5000,
        }
        write_text(server, f"Workflows/mira/{self.NAME}", {"nodes": [node]})
        page = tab(server, ADDRESS)
        page.get_by_role("navigation", name="Workflow files").get_by_text(
            self.NAME.removesuffix(".json")
        ).click()
        page.locator(".node", has_text=self.TITLE).wait_for()
        page.wait_for_selector(".cm-line >> nth=3")
        assert page.locator("h1").first.inner_text() == self.NAME.removesuffix(".json")
        assert page.locator("main img[src]").count() == 0
        assert sideways(page) <= 0

    def test_a_text_that_is_nested_too_deeply_is_told_and_shown(self, server, tab):
        """500 levels: no picture, and the page lives."""
        write_text(server, "Workflows/mira/Deep.json", "[" * 500 + "]" * 500)
        page = tab(server, "#/workflows/Workflows/mira/Deep.json")
        page.get_by_text("nested too deeply").first.wait_for()
        page.wait_for_selector(".cm-line")
        page.get_by_role("navigation", name="Workflow files").get_by_role("link", name="Reviewers").click()
        page.wait_for_selector(f"{CARD} >> nth=5")

    def test_a_large_workflow_is_drawn_and_typed_in(self, server, tab):
        """100 nodes that use each other."""
        nodes = [
            {
                "title": f"Node {n}",
                "type": "StringConcatenator",
                "strings": [f"{{agent{m}Output}}" for m in range(max(1, n - 3), n)],
            }
            for n in range(1, 101)
        ]
        write_text(server, "Workflows/mira/Large.json", {"nodes": nodes})
        page = tab(server, "#/workflows/Workflows/mira/Large.json")
        page.wait_for_selector(f"{CARD} >> nth=99")
        assert page.locator("svg.arcs path").count() == 99 + 98 + 97
        page.click('.node[data-n="100"]')
        page.wait_for_selector(".cm-line.chosen")


def test_the_bar_leads_back_to_the_file_and_node_that_were_open(server, tab):
    """From another page, by its entry or by its keys; from the file itself to the list."""
    page = tab(server, f"{ADDRESS}&node=2")
    page.click('.node[data-n="5"]')
    page.wait_for_selector('.node[data-n="5"][aria-current="true"]')
    bar = page.get_by_role("navigation", name="Pages", exact=True)
    bar.get_by_role("link", name="Help", exact=True).click()
    page.locator(".prose h1").wait_for()
    bar.get_by_role("link", name="Workflows").click()
    page.wait_for_selector('.node[data-n="5"][aria-current="true"]')
    page.locator("main").focus()
    for key in ("g", "e", "g", "w"):
        page.keyboard.press(key)
    page.wait_for_selector('.node[data-n="5"][aria-current="true"]')
    bar.get_by_role("link", name="Workflows").click()
    page.get_by_role("heading", name="Model names").wait_for()
