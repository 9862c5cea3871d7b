"""The form of a node and the list of nodes, over the text of the file (workbench.md 1, 2; 11 rows 3 and 4)."""

from __future__ import annotations

import json
import re

import pytest

from tests.browser.conftest import QUESTION, until, violations
from tests.browser.workflows.conftest import take, write_example, write_text
from tests.browser.workflows.workflow_tree import ADDRESS, PATH, USERS
from tests.e2e.fake_backend import Reply

LONG = 'He said: "No." \\ and / left.\n\n\tTabs, \u00e9, \u4e2d, {{braces}}, {agent1Output}, \U0001f600\u200d\U0001f525 end. '

PASTE = """(text) => {
  const clipboardData = new DataTransfer();
  clipboardData.setData("text/plain", text);
  document.activeElement.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true }));
}"""


@pytest.fixture
def served(server):
    """The server of the module, its files as they are at first."""
    write_example(server)
    return server


@pytest.fixture
def form(served, tab):
    """The example, with node 5 chosen on the picture for the first time."""
    page = tab(served, ADDRESS, side="")
    page.click('.node[data-n="5"]')
    page.wait_for_selector('[data-field="prompt"] .cm-content')
    return page


def document(server):
    return json.loads((server.public / "Configs" / PATH).read_text("utf-8"))


def hold(page, card, over, side=0.5):
    """Goes down on a card and over to something else, `side` of its width from the left; does not let go."""
    box, to = card.bounding_box(), over.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(to["x"] + to["width"] * side, to["y"] + to["height"] / 2, steps=5)


def save(page):
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_text("Saved.").wait_for()


class TestForm:
    def test_the_first_choice_on_the_picture_opens_it(self, form):
        assert form.get_by_role("tab", name="Form").get_attribute("aria-selected") == "true"
        assert form.locator('[data-field="title"] input').input_value() == "Answer"
        assert (
            form.locator('[data-field="prompt"] .fault')
            .inner_text()
            .endswith("is not known yet: this is node 5")
        )

    def test_a_long_text_is_exact_in_the_file(self, served, form):
        """4,000 characters with quotes, line ends, emoji and doubled braces; other fields as they were."""
        text = (LONG * 60)[:4000]
        form.locator('[data-field="prompt"] .cm-content').click()
        form.keyboard.press("Control+a")
        form.keyboard.insert_text(text)
        until(form, lambda: form.get_by_role("button", name="Save", exact=True).is_enabled())
        before = document(served)["nodes"]
        save(form)
        after = document(served)["nodes"]
        assert after[4].pop("prompt") == text
        before[4].pop("prompt")
        assert after == before

    def test_each_box_writes_its_field_and_undo_takes_it_back(self, served, form):
        form.locator('[data-field="title"] input').fill("Final")
        form.wait_for_selector('.node[data-n="5"] .ntitle:text-is("Final")')
        form.keyboard.press("Control+z")
        form.wait_for_selector('.node[data-n="5"] .ntitle:text-is("Answer")')
        assert form.locator('[data-field="title"] input').input_value() == "Answer"

    def test_a_field_is_added_by_what_it_does_and_reset(self, form):
        form.get_by_role("combobox", name="Add a field").fill("how long the answer may get")
        form.keyboard.press("Enter")
        field = form.locator('[data-field="maxResponseSizeInTokens"]')
        field.locator("input").wait_for()
        assert field.locator("input").input_value() == "400"
        field.get_by_role("button", name="Reset").click()
        field.wait_for(state="detached")

    @pytest.mark.parametrize("deed", ["click", "ArrowDown"])
    def test_all_fields_are_listed_before_anything_is_typed(self, form, deed):
        box = form.get_by_role("combobox", name="Add a field")
        if deed == "click":
            box.click()
        else:
            box.focus()
            box.press(deed)
        fields = form.get_by_role("listbox", name="Add a field")
        fields.wait_for()
        titles = fields.get_by_role("group").evaluate_all("groups => groups.map((one) => one.ariaLabel)")
        assert titles[:3] == ["What it is", "Model", "Prompts"], titles
        many = int(box.get_attribute("placeholder").split()[0])
        assert fields.get_by_role("option").count() == many
        assert "`" not in fields.inner_text()
        assert violations(form) == []
        box.press("ArrowDown")
        box.press("Escape")
        fields.wait_for(state="hidden")
        box.press("ArrowDown")
        fields.get_by_role("option", name="maxResponseSizeInTokens").click()
        form.locator('[data-field="maxResponseSizeInTokens"] input').wait_for()
        fields.wait_for(state="hidden")

    def test_where_no_field_fits_it_says_so_and_leads_to_help(self, form):
        form.get_by_role("combobox", name="Add a field").fill("zzzqqq")
        form.get_by_text("Nothing found.").wait_for()
        assert violations(form) == []
        form.get_by_role("link", name="Search Help").click()
        form.wait_for_url("**#/help?find=zzzqqq")

    def test_where_no_kind_of_node_fits_it_says_so(self, form):
        form.keyboard.press("Escape")
        form.locator(".plus").last.click()
        form.get_by_role("combobox", name="Kind of node").fill("zzzqqq")
        form.locator(".palette").get_by_text("Nothing found.").wait_for()

    def test_a_variable_is_offered_behind_a_brace(self, form):
        form.locator('[data-field="prompt"] .cm-content').click()
        form.keyboard.press("Control+End")
        form.keyboard.type(" {agent4")
        form.wait_for_selector(".cm-tooltip-autocomplete li")
        take(form)
        until(
            form,
            lambda: (
                "{agent4Output}" in form.locator('[data-field="prompt"] .cm-content').inner_text().split()[-1]
            ),
        )

    def test_text_that_is_no_json_is_said(self, served, tab):
        page = tab(served, ADDRESS)
        page.locator(".cm-line", has_text='"writer"').click()
        page.keyboard.press("End")
        page.keyboard.type("x")
        page.get_by_role("tab", name="Form").click()
        page.get_by_text("The text is not JSON at the moment").wait_for()

    def test_an_endpoint_says_where_its_server_is_and_how(self, served, form):
        """With what it did, as the page Endpoints says it."""
        place = form.locator('[data-field="endpointName"] .why', has_text="uses")
        place.wait_for()
        said = " ".join(place.inner_text().split())
        assert re.fullmatch(r"Big uses big, http://127\.0\.0\.1:\d+, (not called yet|well since .*)", said)
        place.get_by_role("link", name="Big").wait_for()
        status, _ = served.post("/v1/chat/completions", {**QUESTION, "model": "mira"})
        assert status == 200
        form.reload()
        form.get_by_text(re.compile(r"well since .*, \d+ calls?")).wait_for()

    def test_without_an_endpoint_servers_are_found_from_its_field(self, form):
        """What the page Endpoints has, at the place of the problem."""
        field = form.locator('[data-field="endpointName"]')
        field.locator("input").fill("")
        field.get_by_text("No endpoint is chosen.").wait_for()
        assert field.locator(".find").count() == 0
        field.get_by_role("button", name="Find servers").click()
        field.get_by_role("region", name="Servers found").wait_for()

    def test_without_the_right_it_is_read_only(self, launch, tab):
        server = launch(USERS)
        write_example(server)
        page = tab(server, ADDRESS, key="", side="form")
        page.click('.node[data-n="5"]')
        page.wait_for_selector('[data-field="prompt"] .cm-content')
        page.get_by_text("Read only. Start with --console edit to save from here.").wait_for()
        assert page.locator('[data-field="title"] input').get_attribute("readonly") is not None
        assert page.locator('[data-field="prompt"] .cm-content').get_attribute("aria-readonly") == "true"
        looks = page.locator(".form :is(input:not([type=checkbox]), select, .textfield)").evaluate_all(
            "boxes => boxes.map((box) => getComputedStyle(box).borderTopStyle)"
        )
        assert set(looks) == {"dashed"}
        assert page.locator(".plus, .nodebar, .addfield").count() == 0
        hold(page, page.locator('.node[data-n="5"]'), page.locator('.node[data-n="1"]'))
        assert page.locator("[data-held]").count() == 0

    @pytest.mark.parametrize("width", [1440, 1024])
    def test_a_label_has_room_beside_its_name(self, served, tab, width):
        """In the half of a window too: neither is cut, nor broken into a column of words."""
        long = {"maxResponseSizeInTokens": 400, "maxContextTokenSize": 4000, "structuredOutputFile": "x"}
        node = {"title": "Long", "type": "Standard", "endpointName": "Big", "prompt": "a", **long}
        write_text(served, "Workflows/mira/Long.json", {"nodes": [node]})
        page = tab(served, "#/workflows/Workflows/mira/Long.json?user=mira&node=1", width=width, side="form")
        page.locator('[data-field="structuredOutputFile"] .lab').wait_for()
        heights = page.locator(".field .lab").evaluate_all("labs => labs.map((lab) => lab.clientHeight)")
        assert max(heights) < 32
        cut = "codes => codes.filter((code) => code.scrollWidth > code.clientWidth + 1).length"
        assert page.locator(".field .lab code").evaluate_all(cut) == 0


class TestHelpOfAField:
    """What Help says of a field, at the field (workbench.md 1)."""

    @pytest.fixture
    def opened(self, form):
        """With a field that is not set yet, its help open, and a text that is not saved."""
        form.locator('[data-field="title"] input').fill("Not saved yet")
        form.get_by_role("combobox", name="Add a field").fill("maxResponseSizeInTokens")
        form.keyboard.press("Enter")
        form.get_by_role("button", name="Help on maxResponseSizeInTokens").click()
        form.get_by_role("group", name="Help on maxResponseSizeInTokens").wait_for()
        return form

    def test_it_opens_below_its_field_and_nothing_typed_is_lost(self, opened):
        told = opened.get_by_role("group", name="Help on maxResponseSizeInTokens").inner_text().split("\n")
        assert told[:6] == [
            "value", "number or text, variables are filled in", "default", "400", "meaning", "how long the answer may get at most, in tokens of about 3/4 of a word each. A longer answer is cut off, "
            "and the thoughts of the model count too",
        ]  # fmt: skip
        assert "#/workflows/" in opened.url
        assert opened.locator('[data-field="title"] input').input_value() == "Not saved yet"

    def test_escape_closes_it_and_the_focus_is_where_it_was(self, opened):
        button = opened.get_by_role("button", name="Help on maxResponseSizeInTokens")
        assert button.get_attribute("aria-expanded") == "true"
        assert opened.locator(f"[id='{button.get_attribute('aria-controls')}']").count() == 1
        opened.locator('[data-field="maxResponseSizeInTokens"] input').focus()
        opened.keyboard.press("Escape")
        assert opened.get_by_role("group", name="Help on maxResponseSizeInTokens").count() == 0
        assert button.get_attribute("aria-expanded") == "false"
        assert opened.evaluate("document.activeElement.ariaLabel") == "Help on maxResponseSizeInTokens"
        opened.keyboard.press("Enter")
        opened.get_by_role("group", name="Help on maxResponseSizeInTokens").wait_for()
        opened.keyboard.press("Enter")
        assert opened.get_by_role("group", name="Help on maxResponseSizeInTokens").count() == 0

    def test_its_link_leads_to_the_whole_page(self, form):
        form.get_by_role("button", name="Help on returnToUser").click()
        help = form.get_by_role("group", name="Help on returnToUser")
        help.get_by_text("none: the last node answers").wait_for()
        help.get_by_role("link", name="Nodes").click()
        until(form, lambda: form.url.endswith("#/help/nodes/README?at=returnToUser"))
        assert "returnToUser" in form.locator(".sought").inner_text()

    @pytest.mark.parametrize("width", [1440, 390])
    def test_axe_finds_nothing(self, served, tab, width):
        """Of two fields that are told of in lists and a table."""
        node = {
            "title": "Long",
            "type": "Standard",
            "endpointName": "Big",
            "steadyWindow": True,
            "prompt": "a",
        }
        write_text(served, "Workflows/mira/Long.json", {"nodes": [node]})
        address = "#/workflows/Workflows/mira/Long.json?user=mira&node=1"
        page = tab(served, address, width=width, side="form", bypass_csp=True)
        for name in ("steadyWindow", "prompt"):
            page.get_by_role("button", name=f"Help on {name}", exact=True).click()
            page.get_by_role("group", name=f"Help on {name}", exact=True).wait_for()
        page.get_by_role("region", name="steadyWindow, table 1").wait_for()
        assert violations(page) == []


SIZES = [(1440, 900), (390, 844)]


@pytest.mark.parametrize(("width", "height"), SIZES)
class TestListsAreInTheWindow:
    """However far down their field or button is."""

    @pytest.fixture
    def long(self, served, tab, width, height):
        """Twelve nodes, the last one chosen."""
        nodes = [
            {
                "title": f"Step {n}",
                "type": "Standard",
                "endpointName": "Big",
                "prompt": "\n".join("abcdefghij"),
            }
            for n in range(1, 13)
        ]
        write_text(served, "Workflows/mira/Long.json", {"nodes": nodes})
        address = "#/workflows/Workflows/mira/Long.json?user=mira&node=12"
        page = tab(served, address, width=width, height=height, side="form")
        page.locator('[data-field="prompt"] .cm-content').wait_for()
        return page

    @staticmethod
    def is_in(page, selector):
        """The whole of it, with nothing over its edges."""
        return page.locator(selector).evaluate(
            """part => {
              const { left, right, top, bottom } = part.getBoundingClientRect();
              const at = (x, y) => part.contains(document.elementFromPoint(x, y));
              return at(left + 9, top + 9) && at(right - 20, bottom - 9) && bottom <= innerHeight && right <= innerWidth;
            }"""
        )

    def test_fields_to_add(self, long):
        box = long.get_by_role("combobox", name="Add a field")
        box.fill("in")
        until(long, lambda: self.is_in(long, ".addfield .opts"))
        assert self.is_in(long, ".addfield input")
        for _ in range(7):
            box.press("ArrowDown")
        until(long, lambda: self.is_in(long, '.addfield [aria-selected="true"]'))
        assert self.is_in(long, ".addfield .opts")

    def test_kinds_of_nodes(self, long):
        long.locator('.plus[aria-label="Add a node after node 12"], .plus.last').last.click()
        long.locator(".palette").wait_for()
        until(long, lambda: self.is_in(long, ".palette"))

    def test_what_else_a_node_can_do(self, long):
        long.get_by_role("toolbar", name="Node 12").get_by_role("button", name="More").click()
        until(long, lambda: self.is_in(long, ".nodebar .menu .items"))


class TestPreview:
    """A text as the last run of the file fills it (workbench.md 1)."""

    @pytest.fixture
    def ran(self, served, tab, backend):
        """The example with node 2, once it has run."""
        backend.on("Draft: Hello", Reply(["a fine draft"]))
        status, _ = served.post("/v1/chat/completions", {**QUESTION, "model": "mira"})
        assert status == 200
        page = tab(served, ADDRESS, side="form")
        page.click('.node[data-n="2"]')
        return page

    def test_outputs_are_those_of_the_run(self, ran):
        """With the length of each variable; a text that is changed is filled in anew."""
        field = ran.locator('[data-field="prompt"]')
        field.get_by_role("button", name="Preview").click()
        filled = field.locator('[aria-label="The text, filled"]')
        filled.wait_for()
        assert filled.inner_text() == "Facts of a fine draft"
        said = field.locator('[aria-label="What the variables are"] li').inner_text()
        assert said.split() == ["agent1Output", "a", "fine", "draft", "4", "tokens"]
        field.locator(".cm-content").click()
        ran.keyboard.press("Control+a")
        ran.keyboard.insert_text("{chat_user_prompt_last_one}: {agent1Output}")
        filled.wait_for(state="detached")
        named = field.locator(".given li").filter(has_text="chat_user_prompt_last_one")
        assert named.locator(".means").inner_text() == "The newest message."
        field.get_by_role("button", name="Preview").click()
        until(ran, lambda: filled.inner_text() == "Hello: a fine draft")

    def test_a_reason_where_a_node_before_it_is_another_one(self, ran, looking):
        looking.expected.append("409")
        ran.click('.node[data-n="1"]')
        ran.locator('[data-field="title"] input').fill("Other")
        ran.click('.node[data-n="2"]')
        field = ran.locator('[data-field="prompt"]')
        field.get_by_role("button", name="Preview").click()
        field.get_by_text(
            "No preview: Node 1 is another one now, so its old output can't be used."
        ).wait_for()


class TestList:
    def test_numbers_follow_a_node_that_comes_in(self, served, form):
        """It is chosen, and the focus is on its title; one undo takes all of it back."""
        form.locator('.plus[aria-label="Add a node before node 4"]').click()
        form.get_by_role("combobox", name="Kind of node").fill("static")
        form.keyboard.press("Enter")
        form.wait_for_selector('.node[data-n="4"][aria-current="true"] .ntitle:text-is("Static response")')
        until(form, "document.activeElement.closest('[data-field]')?.dataset.field === 'title'")
        form.keyboard.type("Between")
        form.wait_for_selector('.node[data-n="4"] .ntitle:text-is("Between")')
        save(form)
        nodes = document(served)["nodes"]
        assert nodes[3]["title"] == "Between"
        assert nodes[5]["prompt"] == "{agent3Output} {agent5Output} {agent7Output}"

    def test_within_a_group_it_runs_beside_the_others(self, form):
        form.locator('.plus[aria-label="Add a node beside node 2"]').click()
        form.keyboard.type("static")
        form.keyboard.press("Enter")
        form.wait_for_selector('.members .node[data-n="3"] .ntitle:text-is("Static response")')
        assert form.locator(".members .node").count() == 3

    def test_what_would_be_lost_is_told_before(self, form):
        """Escape leaves all as it is."""
        form.locator('.node[data-n="1"]').click()
        form.get_by_role("button", name="Remove", exact=True).click()
        dialog = form.get_by_role("dialog", name="Some references will no longer work")
        dialog.get_by_text("node 2 uses the output of node 1, which you remove").wait_for()
        form.keyboard.press("Escape")
        dialog.wait_for(state="detached")
        assert form.get_by_role("button", name="Save", exact=True).is_disabled()

    def test_alt_and_an_arrow_move_a_card_and_the_focus_with_it(self, form):
        form.locator('.node[data-n="6"]').click()
        form.locator('.node[data-n="6"]').focus()
        form.wait_for_selector(".nodebar")
        form.keyboard.press("Alt+ArrowUp")
        form.get_by_role("button", name="Do it anyway").click()
        form.wait_for_selector('.node[data-n="5"] .ntitle:text-is("Notes")')

    def test_copy_and_paste_on_a_card(self, form):
        """By the browser's own events; the title is new in the file."""
        form.locator('.node[data-n="1"]').click()
        form.locator('.node[data-n="1"]').focus()
        form.wait_for_selector(".nodebar")
        form.keyboard.press("Control+c")
        form.keyboard.press("Control+v")
        form.wait_for_selector('.node[data-n="2"] .ntitle:text-is("Draft 2")')

    def test_several_nodes_are_pasted_at_once(self, served, form):
        """Behind the card, each with a title that is new, and numbers follow; one undo takes all of it back."""
        nodes = [{"title": "Draft", "type": "StaticResponse", "content": text} for text in ("a", "b")]
        form.locator('.node[data-n="1"]').click()
        form.locator('.node[data-n="1"]').focus()
        form.wait_for_selector(".nodebar")
        form.evaluate(PASTE, json.dumps(nodes))
        form.wait_for_selector('.node[data-n="3"] .ntitle:text-is("Draft 3")')
        save(form)
        after = document(served)["nodes"]
        assert [node["title"] for node in after[:4]] == ["Draft", "Draft 2", "Draft 3", "Facts"]
        assert [node.get("content") for node in after[1:3]] == ["a", "b"]
        assert after[6]["prompt"] == "{agent5Output} {agent6Output} {agent8Output}"
        form.locator('[data-field="title"] input').focus()
        form.keyboard.press("Control+z")
        form.wait_for_selector('.node[data-n="2"] .ntitle:text-is("Facts")')

    def test_another_node_answers(self, served, form):
        form.locator('.node[data-n="4"]').click()
        form.get_by_role("button", name="More").click()
        form.get_by_role("menuitem", name="Answer with this node").click()
        form.wait_for_selector('.node[data-n="4"] .flag')
        assert form.locator('.node[data-n="5"] .flag').count() == 0

    def test_a_reason_is_given_where_two_cannot_run_together(self, form):
        form.locator('.node[data-n="6"]').click()
        form.get_by_role("button", name="More").click()
        form.get_by_role("menuitem", name="Run beside the one before").click()
        form.get_by_role("alert").get_by_text("cannot run at the same time").wait_for()


class TestDragging:
    """A card is moved by the pointer alone (workbench.md 2)."""

    NODES = tuple(
        {"title": title, "type": "StaticResponse", "content": text, **more}
        for title, text, more in (
            ("A", "a", {}),
            ("B", "b", {"parallelGroup": "pair"}),
            ("C", "c", {"parallelGroup": "pair"}),
            ("D", "d", {}),
            ("E", "{agent1Output} {agent4Output}", {}),
        )
    )

    @pytest.fixture
    def page(self, served, tab):
        write_text(served, "Workflows/mira/Cards.json", {"nodes": list(self.NODES)})
        page = tab(served, "#/workflows/Workflows/mira/Cards.json?user=mira", side="form")
        page.wait_for_selector(".node >> nth=4")
        page.wait_for_selector(".cm-content", state="attached")
        return page

    def drag(self, page, n, where, side=0.5):
        hold(
            page,
            page.locator(f'.node[data-n="{n}"]'),
            page.get_by_title(f"Add a node {where}", exact=True),
            side,
        )
        page.locator(".plus[data-here]").wait_for()
        page.mouse.up()

    def wait_for_titles(self, page, titles):
        until(
            page, lambda: [one.strip() for one in page.locator(".ntitle").all_inner_texts()] == list(titles)
        )

    def nodes(self, served):
        text = (served.public / "Configs/Workflows/mira/Cards.json").read_text("utf-8")
        return json.loads(text)["nodes"]

    def test_into_a_group_and_back_by_one_undo(self, served, page):
        """Numbers follow, and it is chosen."""
        self.drag(page, 4, "before node 2, beside it")
        page.wait_for_selector('.members .node[data-n="2"][aria-current="true"] .ntitle:text-is("D")')
        save(page)
        a, b, c, d, e = self.NODES
        group = {"parallelGroup": "pair"}
        text = {"content": "{agent1Output} {agent2Output}"}
        assert self.nodes(served) == [a, {**d, **group}, b, c, {**e, **text}]
        page.locator('[data-field="title"] input').press("Control+z")
        self.wait_for_titles(page, "ABCDE")
        save(page)
        assert self.nodes(served) == list(self.NODES)

    def test_out_of_a_group_behind_the_last_and_before_the_first(self, served, page):
        """What would be lost is told before."""
        self.drag(page, 2, "after node 5")
        self.wait_for_titles(page, "ACDEB")
        self.drag(page, 4, "before node 1", side=20)
        dialog = page.get_by_role("dialog", name="Some references will no longer work")
        dialog.get_by_text("node 4 uses the output of node 1").wait_for()
        dialog.get_by_role("button", name="Do it anyway").click()
        self.wait_for_titles(page, "EACDB")
        save(page)
        a, b, c, d, e = self.NODES
        out = {key: value for key, value in b.items() if key != "parallelGroup"}
        text = {"content": "{agent1Output} {agent3Output}"}
        assert self.nodes(served) == [{**e, **text}, a, c, d, out]

    def test_escape_and_a_place_that_is_its_own_leave_all_as_it_is(self, page):
        """A click still chooses, and what moved is no click."""
        plus = page.get_by_title("Add a node after node 5", exact=True)
        card = page.locator('.node[data-n="4"]')
        hold(page, card, plus)
        page.wait_for_selector('.node[data-n="4"][data-held]')
        page.keyboard.press("Escape")
        assert page.locator("[data-held], [data-here]").count() == 0
        page.mouse.up()
        hold(page, card, page.get_by_title("Add a node before node 5", exact=True))
        page.wait_for_selector('.node[data-n="4"][data-held]')
        assert page.locator("[data-here]").count() == 0
        page.mouse.up()
        assert page.locator(".node[aria-current], .nodebar").count() == 0
        assert page.get_by_role("button", name="Save", exact=True).is_disabled()
        card.click()
        page.wait_for_selector('.node[data-n="4"][aria-current="true"]')

    def test_touch_scrolls_and_drags_nothing(self, page):
        """A pen would scroll, too, where it is not told otherwise."""
        page.locator('.node[data-n="4"]').dispatch_event(
            "pointerdown", {"pointerType": "touch", "pointerId": 7, "button": 0, "bubbles": True}
        )
        page.mouse.move(10, 10, steps=3)
        assert page.locator("[data-held]").count() == 0
        actions = "one => getComputedStyle(one).touchAction"
        assert page.locator(".canvas").evaluate(actions) == "auto"
        for event, action in (("pointerover", "none"), ("pointerleave", "auto")):
            page.locator(".canvas").dispatch_event(event, {"pointerType": "pen"})
            assert page.locator(".canvas").evaluate(actions) == action


class TestKeyboard:
    def test_a_node_comes_in_behind_a_card_that_is_not_chosen(self, served, tab):
        """What is typed at once after Enter is the title, or nothing: no key of the page is pressed by it."""
        page = tab(served, ADDRESS, side="")
        page.locator('.node[data-n="1"]').focus()
        page.keyboard.press("Insert")
        page.wait_for_selector('[aria-label="Kind of node"]:focus')
        page.keyboard.type("static")
        page.keyboard.press("Enter")
        page.keyboard.type("t")
        until(page, "document.activeElement.closest('[data-field]')?.dataset.field === 'title'")
        page.wait_for_selector('.node[data-n="2"][aria-current="true"]')
        until(page, lambda: page.locator(".trypane, .palette").count() == 0)

    def test_escape_leads_from_the_palette_back_to_the_card(self, served, tab):
        page = tab(served, ADDRESS, side="")
        page.locator('.node[data-n="2"]').focus()
        page.keyboard.press("Insert")
        page.wait_for_selector('[aria-label="Kind of node"]:focus')
        page.keyboard.press("Escape")
        page.wait_for_selector('.node[data-n="2"]:focus')


class TestFromEmpty:
    """From a tree with a found server to a workflow that answers, in 20 actions: a chord, a click or a text each."""

    NAME = "Reviewed"

    def nodes(self, served):
        text = (served.public / f"Configs/Workflows/mira/{self.NAME}.json").read_text("utf-8")
        return json.loads(text.partition("\n")[2])["nodes"]

    def check(self, served, page, actions):
        page.get_by_text("Saved.").wait_for()
        nodes = self.nodes(served)
        assert [node["title"] for node in nodes] == ["Draft", "Critic", "Answer"]
        assert nodes[2]["prompt"] == "Mend {agent1Output}"
        assert page.locator(".probs li, .fault.error, .prob.error").count() == 0
        assert actions <= 20

    @pytest.fixture
    def begun(self, served, tab):
        (served.public / f"Configs/Workflows/mira/{self.NAME}.json").unlink(missing_ok=True)
        page = tab(served, ADDRESS, side="")
        page.wait_for_selector(".node >> nth=5")
        return page

    def test_with_the_pointer(self, served, begun):
        page, actions = begun, 0

        def act(deed, *given):
            nonlocal actions
            actions += 1
            deed(*given)

        act(page.get_by_role("button", name="New", exact=True).click)
        act(page.get_by_role("textbox", name="Name", exact=True).fill, self.NAME)
        act(page.get_by_role("radio", name="draft-critic-answer").check)
        act(page.get_by_role("button", name="Create").click)
        page.wait_for_selector('.node[data-n="3"]')
        act(page.locator('.node[data-n="3"]').click)
        act(page.get_by_role("combobox", name="Add a field").fill, "prompt")
        act(page.get_by_role("option", name="Prompt prompt The user turn").click)
        act(page.locator('[data-field="prompt"] .cm-content').fill, "Mend {agent1Output}")
        act(page.locator('[data-field="latePrompt"]').get_by_role("button", name="Reset").click)
        until(page, lambda: page.get_by_role("button", name="Save", exact=True).is_enabled())
        act(page.get_by_role("button", name="Save", exact=True).click)
        self.check(served, page, actions)

    def test_with_the_keyboard(self, served, begun):
        """From the key that begins a file to the answer; each step waits for what it leads to, as people do."""
        page, actions = begun, 0

        def press(chord, led_to=""):
            nonlocal actions
            actions += 1
            page.keyboard.press(chord)
            if led_to:
                page.wait_for_selector(led_to)

        def write(text):
            nonlocal actions
            actions += 1
            page.keyboard.insert_text(text)

        press("n", '[name="name"]:focus')
        write(self.NAME)
        press("Tab", '[type="radio"]:focus')
        press("ArrowDown", '[value="draft-critic-answer"]:focus')
        press("Enter", '.node[data-n="1"]:focus')
        press("ArrowDown", '.node[data-n="2"]:focus')
        press("Insert", '[aria-label="Kind of node"]:focus')
        press("Enter", '[data-field="title"] input:focus')
        write("Check")
        press("Escape")
        press("/", ".addfield input:focus")
        write("prompt")
        press("Enter", '[data-field="prompt"] .cm-focused')
        write("Do they agree? {agent1Output} {agent2Output}")
        press("Control+s")
        page.get_by_text("Saved.").wait_for()
        assert page.locator(".probs li, .fault.error, .prob.error").count() == 0
        nodes = self.nodes(served)
        assert [node["title"] for node in nodes] == ["Draft", "Critic", "Check", "Answer"]
        assert nodes[2]["prompt"] == "Do they agree? {agent1Output} {agent2Output}"
        assert actions <= 20
        status, body = served.post("/v1/chat/completions", {**QUESTION, "model": f"mira:{self.NAME}"})
        assert status == 200
        assert json.loads(body)["choices"][0]["message"]["content"]
