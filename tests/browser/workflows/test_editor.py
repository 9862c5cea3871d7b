"""The text of a workflow: checked while it is typed, completed, laid out, saved; new files (console.md 17.1, 8 and 9)."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from tests.browser.conftest import until
from tests.browser.workflows.conftest import take, write_example, write_text
from tests.browser.workflows.workflow_tree import ADDRESS, PATH, USERS
from tests.e2e.conftest import HOUSE
from tests.patience import PATIENCE_S

TEMPLATES = ("chat", "draft-critic-answer", "parallel", "branch", "router", "agent", "memory", "empty")


@pytest.fixture
def editor(server, file, tab):
    """The file opened by one who may save."""
    return opened(tab, server)


def opened(tab, server, **more):
    page = tab(server, ADDRESS, **more)
    page.wait_for_selector(".cm-line >> nth=20")
    page.wait_for_selector(".probs")
    return page


def at_end_of(page, words):
    page.locator(".cm-line", has_text=words).first.click()
    page.keyboard.press("End")
    page.keyboard.press("End")  # from the end of the row to that of the line


def offered(page):
    """What the list of completions holds, once it is there and takes keys: it takes none in its first 75 ms."""
    page.wait_for_selector(".cm-tooltip-autocomplete li")
    page.wait_for_timeout(150)
    return page.locator(".cm-completionLabel").all_inner_texts()


def validated(server):
    """What `--validate` prints of the example's file."""
    command = [sys.executable, "server.py", "--PublicDirectory", str(server.public), "--validate"]
    done = subprocess.run(command, cwd=HOUSE, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    return done.stdout + done.stderr


class TestCheck:
    def test_a_fault_is_underlined_with_the_words_of_validate(self, editor, server, file):
        """The same sentence, at the same place."""
        at_end_of(editor, '"title": "Notes"')
        editor.keyboard.type('\n"onNodeError": "maybe",')
        line = editor.locator(".problem", has_text="onNodeError")
        line.wait_for()
        editor.wait_for_selector(".cm-lintRange-error, .cm-lintRange-warning")
        message = line.inner_text().split("onNodeError: ", 1)[1].strip()
        editor.keyboard.press("Control+a")
        editor.keyboard.press("Control+c")
        broken = json.loads(file.read_text())
        broken["nodes"][5]["onNodeError"] = "maybe"
        write_text(server, PATH, broken)
        assert message in validated(server)

    def test_a_mended_text_has_no_line_below(self, editor):
        """Praise here is praise there."""
        at_end_of(editor, "{agent6Output}")
        for _ in range(len('",')):
            editor.keyboard.press("ArrowLeft")
        for _ in range(len(" {agent6Output}")):
            editor.keyboard.press("Backspace")
        editor.locator(".probs").wait_for(state="detached")
        until(editor, lambda: editor.locator(".cm-lintRange").count() == 0)

    def test_f8_walks_through_the_problems(self, editor):
        """Wherever the focus was."""
        editor.locator("h1").first.click()
        editor.keyboard.press("F8")
        editor.wait_for_selector('.node[data-n="5"][aria-current="true"]')
        editor.locator(".cm-activeLineGutter", has_text="36").first.wait_for()

    def test_a_problem_of_the_list_leads_to_its_place(self, editor):
        """With place, node and field before its words."""
        line = editor.locator(".problem")
        assert "node 5 Answer, prompt:" in line.inner_text()
        line.click()
        editor.wait_for_selector('.node[data-n="5"][aria-current="true"]')


class TestCompletion:
    def test_a_key_comes_from_the_type_of_its_node(self, editor):
        """Missing ones alone; chosen, it brings what its value begins with."""
        at_end_of(editor, '"filepath": "')
        editor.keyboard.type('\n"')
        names = offered(editor)
        assert "mode" in names
        assert "filepath" not in names
        assert "endpointName" not in names
        editor.keyboard.type("mod")
        until(
            editor,
            "document.querySelector('.texthost').shadowRoot.querySelectorAll('.cm-completionLabel').length === 1",
        )
        take(editor)
        editor.locator(".cm-line", has_text='"mode": "",').wait_for()

    def test_an_enum_offers_its_words(self, editor):
        """Inside the quotes."""
        at_end_of(editor, '"filepath": "')
        editor.keyboard.type('\n"mode": "')
        assert "append" in offered(editor)

    def test_an_endpoint_is_one_of_the_users(self, editor):
        """And a slip finds the nearest."""
        at_end_of(editor, '"endpointName": "Big"')
        for _ in range(len('",')):
            editor.keyboard.press("ArrowLeft")
        for _ in range(len("Big")):
            editor.keyboard.press("Backspace")
        editor.keyboard.type("S")
        assert offered(editor) == ["Small"]
        take(editor)
        editor.locator(".cm-line", has_text='"endpointName": "Small"').nth(2).wait_for()

    def test_variables_of_earlier_nodes_come_with_their_titles(self, editor):
        """The nearest one first; none of nodes that follow."""
        at_end_of(editor, '"Style of {agent1Output}"')
        editor.keyboard.press("ArrowLeft")
        editor.keyboard.type(" {agent")
        names = offered(editor)
        assert names[:2] == ["agent2Output", "agent1Output"]
        assert "agent4Output" not in names
        assert editor.locator(".cm-completionInfo").inner_text() == "Facts"
        take(editor)
        editor.locator(".cm-line", has_text='"Style of {agent1Output} {agent2Output}"').wait_for()

    def test_pointing_at_a_key_tells_what_it_is(self, editor):
        """With a link to its page."""
        editor.locator(".cm-line", has_text='"filepath"').locator("span").first.hover()
        about = editor.locator(".cm-tooltip .about")
        about.wait_for()
        assert "filepath" in about.inner_text()
        assert about.get_by_role("link").get_attribute("href") == "#/help/nodes/SaveCustomFile"

    def test_f1_tells_it_to_the_keyboard_and_escape_takes_it_away(self, editor):
        """Where there is nothing to tell, Help opens."""
        at_end_of(editor, '"returnToUser"')
        editor.mouse.move(400, 700)
        editor.keyboard.press("Home")
        editor.keyboard.press("ArrowRight")
        about = editor.locator(".about")
        for _ in range(100):  # its words come from the server, behind the text
            editor.keyboard.press("F1")
            if about.count():
                break
            editor.wait_for_timeout(50)
        assert "returnToUser" in about.inner_text()
        editor.keyboard.press("Escape")
        about.wait_for(state="detached")
        editor.keyboard.press("End")
        editor.keyboard.press("F1")
        until(editor, "location.hash.startsWith('#/help')")


class TestLayout:
    def test_format_keeps_comments_and_the_order_of_keys(self, editor, server, file, tab):
        """Only white space changes."""
        write_text(
            server,
            PATH,
            '{"nodes":[ // all of them\n{"title":"A","type":"StaticResponse",\n/* said */ "content":"x"}]}\n',
        )
        page = tab(server, ADDRESS)
        page.wait_for_selector(".cm-line >> nth=2")
        page.get_by_role("button", name="Format").click()
        assert page.locator(".cm-line").all_text_contents() == [
            "{",
            '  "nodes": [ // all of them',
            "    {",
            '      "title": "A",',
            '      "type": "StaticResponse",',
            '      /* said */ "content": "x"',
            "    }",
            "  ]",
            "}",
            "",
        ]

    def test_ctrl_f_finds_and_ctrl_z_takes_back(self, editor):
        """The keys of every editor."""
        at_end_of(editor, '"title": "Draft"')
        editor.keyboard.type("xyz")
        editor.keyboard.press("Control+z")
        editor.locator(".cm-line", has_text="xyz").wait_for(state="detached")
        editor.keyboard.press("Control+f")
        editor.keyboard.type("Style of")
        editor.wait_for_selector(".cm-searchMatch")
        assert editor.locator(".cm-searchMatch").count() == 1

    def test_lines_are_wrapped_unless_one_turns_it_off(self, editor):
        """The switch is remembered."""
        switch = editor.get_by_role("button", name="Wrap", exact=True)
        editor.wait_for_selector(".textpart .cm-lineWrapping")
        switch.click()
        editor.locator(".textpart .cm-lineWrapping").wait_for(state="detached")
        editor.reload()
        editor.locator(".textpart .cm-line").first.wait_for()
        assert switch.get_attribute("aria-pressed") == "false"
        assert editor.locator(".textpart .cm-lineWrapping").count() == 0

    @pytest.mark.parametrize(
        ("width", "side", "key"), [(1440, "width", "ArrowLeft"), (1000, "height", "ArrowUp")]
    )
    def test_a_bar_parts_the_picture_from_the_text(self, server, file, tab, width, side, key):
        """It is dragged, or moved by the arrows: up and down where the picture stands over the text."""
        page = tab(server, ADDRESS, width=width)
        page.locator(".textpart .cm-line").first.wait_for()
        bar = page.get_by_role("separator", name="Size of the text")

        def room():
            return page.locator(".beside").bounding_box()[side]

        before, box = room(), bar.bounding_box()
        page.mouse.move(box["x"] + 4, box["y"] + 4)
        page.mouse.down()
        page.mouse.move(box["x"] - 60, box["y"] - 60)
        page.mouse.up()
        until(page, lambda: room() > before + 30)
        dragged = room()
        bar.press(key)
        until(page, lambda: room() > dragged + 10)


class TestSave:
    def test_the_next_request_uses_what_was_saved(self, editor, server, file):
        """Ctrl+S; the old text is kept beside the tree."""
        before = file.read_bytes()
        at_end_of(editor, '"title": "Which way?"')
        editor.locator(".cm-line", has_text="{agent6Output}").dblclick()
        write_new(
            editor,
            json.dumps({"nodes": [{"title": "Said", "type": "StaticResponse", "content": "quite new"}]}),
        )
        editor.get_by_text("not saved").wait_for()
        editor.keyboard.press("Control+s")
        editor.get_by_text("Saved.").wait_for()
        assert "quite new" in file.read_text()
        kept = list((server.public / "ConfigBackups").rglob("Reviewers.*.json"))
        assert [one.read_bytes() for one in kept if one.read_bytes() == before]
        status, answer = server.post(
            "/v1/chat/completions", {"model": "mira", "messages": [{"role": "user", "content": "Hi"}]}
        )
        assert status == 200
        assert json.loads(answer)["choices"][0]["message"]["content"] == "quite new"

    def test_an_error_of_its_own_hinders_and_says_where(self, editor, file, looking):
        """Nothing is written."""
        before = file.read_bytes()
        looking.expected.append("422")
        at_end_of(editor, '"title": "Draft"')
        editor.keyboard.type("x")
        editor.get_by_role("button", name="Save", exact=True).click()
        editor.get_by_role("alert").wait_for()
        assert "not JSON" in editor.locator(".problem").first.inner_text()
        assert file.read_bytes() == before

    def test_leaving_an_unsaved_text_asks_once(self, editor):
        """Who stays has the text; who leaves, leaves it."""
        asked = []
        answers = iter((False, True))

        def answer(dialog):
            asked.append(dialog.message)
            (dialog.accept if next(answers) else dialog.dismiss)()

        editor.on("dialog", answer)
        at_end_of(editor, '"title": "Draft"')
        editor.keyboard.type(" ")
        editor.get_by_role("link", name="CodeFix", exact=True).first.click()
        editor.get_by_text("not saved").wait_for()
        assert PATH in editor.evaluate("location.hash")
        editor.get_by_role("link", name="CodeFix", exact=True).first.click()
        editor.wait_for_selector("h1:has-text('CodeFix')")
        assert asked == ["What is not saved, or not answered yet, would be lost. Leave anyway?"] * 2

    def test_without_the_right_it_is_read_only_and_says_why(self, launch, tab):
        """Everything else works."""
        server = launch(USERS)
        write_example(server)
        page = opened(tab, server, key="")
        page.get_by_text("Start with --console edit to save from here.").wait_for()
        assert page.get_by_role("button", name="Save", exact=True).is_disabled()
        at_end_of(page, '"title": "Draft"')
        page.keyboard.type("x")
        assert page.locator(".cm-line", has_text='"Draft",x').count() == 0
        page.keyboard.press("F8")
        page.wait_for_selector('.node[data-n="5"][aria-current="true"]')


def write_new(page, text):
    """The whole text anew, as from the clipboard: nothing is completed or closed on the way."""
    page.locator(".cm-content").first.focus()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(text)


class TestConflict:
    """The file was changed by hand while one wrote."""

    MINE = json.dumps({"nodes": [{"title": "Mine", "type": "StaticResponse", "content": "mine"}]}, indent=2)
    THEIRS = json.dumps(
        {"nodes": [{"title": "Theirs", "type": "StaticResponse", "content": "theirs"}]}, indent=2
    )

    @pytest.fixture
    def conflict(self, editor, server, file, looking):
        looking.expected.append("409")
        write_new(editor, self.MINE)
        file.write_text(self.THEIRS)
        editor.keyboard.press("Control+s")
        editor.get_by_text("The file has changed.").wait_for()
        return editor

    def test_both_texts_stand_side_by_side(self, conflict):
        """And nothing is lost by going back."""
        sides = conflict.locator(".conflict .cm-editor")
        assert '"theirs"' in sides.nth(0).inner_text()
        assert '"mine"' in sides.nth(1).inner_text()
        conflict.get_by_role("button", name="Back to my text").click()
        conflict.locator(".textpart .cm-line", has_text='"content": "mine"').wait_for()

    def test_keep_mine(self, conflict, file):
        """Saved over theirs, with their version known."""
        conflict.get_by_role("button", name="Keep mine").click()
        conflict.get_by_text("Saved.").wait_for()
        assert file.read_text().strip() == self.MINE

    def test_take_theirs(self, conflict, file):
        """Nothing is written, and there is nothing left to save."""
        conflict.get_by_role("button", name="Take theirs").click()
        conflict.locator(".textpart .cm-line", has_text='"content": "theirs"').wait_for()
        assert conflict.get_by_role("button", name="Save", exact=True).is_disabled()
        assert file.read_text() == self.THEIRS

    def test_copy_mine(self, conflict):
        """On the clipboard; the choice stays open."""
        conflict.context.grant_permissions(["clipboard-read", "clipboard-write"])
        conflict.get_by_role("button", name="Copy mine").click()
        conflict.get_by_text("Copied.").wait_for()
        assert conflict.evaluate("navigator.clipboard.readText()") == self.MINE


class TestEarlier:
    """What saving has kept (workbench.md 16.12)."""

    NEW = json.dumps({"nodes": [{"title": "New", "type": "StaticResponse", "content": "new"}]}, indent=2)

    def test_it_is_shown_beside_the_text_and_comes_back(self, editor, file):
        """Restoring is a save: the text that it replaces is kept, too."""
        before = file.read_text()
        write_new(editor, self.NEW)
        editor.keyboard.press("Control+s")
        editor.get_by_text("Saved.").wait_for()
        editor.get_by_role("button", name="Earlier").click()
        sides = editor.locator(".conflict .cm-editor")
        sides.nth(1).locator(".cm-line", has_text='"new"').first.wait_for()
        assert '"new"' not in sides.nth(0).inner_text()
        editor.get_by_role("button", name="Restore").click()
        editor.locator(".conflict").wait_for(state="detached")
        assert file.read_text().strip() == before.strip()
        assert editor.get_by_role("button", name="Save", exact=True).is_disabled()
        editor.get_by_role("button", name="Earlier").click()
        editor.locator(".conflict select option").nth(1).wait_for(state="attached")

    def test_none_is_said(self, server, tab):
        """Of a file that nobody has saved from here."""
        write_text(server, "Workflows/mira/Unsaved.json", self.NEW)
        editor = tab(server, "#/workflows/Workflows/mira/Unsaved.json?user=mira")
        editor.locator(".cm-line").first.wait_for()
        editor.get_by_role("button", name="Earlier").click()
        editor.get_by_text("No earlier text.").wait_for()
        editor.get_by_role("button", name="Back to my text").click()
        editor.locator(".textpart .cm-line").first.wait_for()


class TestNewFile:
    @pytest.mark.parametrize("template", TEMPLATES)
    def test_each_template_is_right_from_the_start_and_answers(self, template, editor, server, backend):
        """No word of `--validate` about it but that nobody names it yet; tried, it answers."""
        name = f"New {template}"
        editor.get_by_role("button", name="New", exact=True).click()
        editor.get_by_label("Name", exact=True).fill(name)
        editor.get_by_role("radio", name=re.compile(rf"^{template}\b")).check()
        editor.get_by_role("button", name="Create").click()
        editor.wait_for_selector(f"h1:has-text('{name}')")
        told = [line for line in validated(server).splitlines() if f"{name}.json" in line]
        assert [line for line in told if "names this workflow" not in line] == []
        editor.get_by_role("button", name="Try it").click()
        editor.get_by_label("text of message 1").fill("What is a headrace?")
        editor.get_by_role("button", name="Send").click()
        until(
            editor,
            "document.querySelector('.tried')?.getAttribute('aria-busy') === 'false' && document.querySelector('.answer')?.textContent.trim()",
        )

    def test_the_form_reaches_to_the_end_of_the_page_where_the_text_stands_below_the_graph(
        self, server, file, tab
    ):
        page = tab(server, ADDRESS, width=1100, height=700)
        page.get_by_role("button", name="New", exact=True).click()
        page.get_by_role("button", name="Create").wait_for()
        pane = page.locator(".graph").bounding_box()
        assert pane["y"] + pane["height"] == 700

    def test_a_name_that_is_taken_is_told(self, editor, looking):
        """And the form keeps what was written."""
        looking.expected.append("409")
        editor.get_by_role("button", name="New", exact=True).click()
        editor.get_by_label("Name", exact=True).fill("Reviewers")
        editor.get_by_role("button", name="Create").click()
        editor.get_by_role("alert").wait_for()
        assert editor.get_by_label("Name", exact=True).input_value() == "Reviewers"

    def test_a_copy_begins_with_the_text_of_the_open_file(self, editor, server, file):
        """Byte for byte."""
        editor.get_by_role("button", name="New", exact=True).click()
        editor.get_by_label("Name", exact=True).fill("Second")
        editor.get_by_role("radio", name="copy a copy of Reviewers").check()
        editor.get_by_role("button", name="Create").click()
        editor.wait_for_selector("h1:has-text('Second')")
        assert file.with_name("Second.json").read_bytes() == file.read_bytes()
