"""Try it and the dry run, beside the picture (console.md 17.1, 10)."""

from __future__ import annotations

import pytest

from tests.browser.conftest import until
from tests.browser.workflows.conftest import EDIT, write_example, write_text
from tests.browser.workflows.workflow_tree import ADDRESS, USERS
from tests.e2e.fake_backend import Reply
from tests.patience import PATIENCE_S


@pytest.fixture
def page(server, tab):
    page = tab(server, ADDRESS)
    page.wait_for_selector(".cm-line >> nth=20")
    return page


def asked(page, text):
    page.get_by_role("button", name="Try it").click()
    page.get_by_label("text of message 1").fill(text)
    page.get_by_role("button", name="Send").click()


class TestTry:
    def test_the_answer_streams_in_and_the_waterfall_stands_beside_it(self, page, backend):
        """The picture has the times of this run."""
        backend.on("Style of", Reply(("well ", "said"), gap_s=0.3))
        asked(page, "When was it signed?")
        page.locator(".answer", has_text="{agent6Output}").wait_for()
        page.wait_for_selector('.tried[aria-busy="false"]')
        rows = page.locator(".tried .fall button.fallrow")
        until(page, "document.querySelectorAll('.tried .fall button.fallrow').length >= 6")
        assert rows.filter(has_text="Draft").count() == 1
        page.locator('.node[data-n="3"] .tm').wait_for()

    def test_the_waterfall_grows_while_the_nodes_before_the_answer_run(self, page, backend):
        """Before the first word of the answer."""
        backend.on("Draft: mark-slow", Reply(("slow ", "words"), hangs=True))
        asked(page, "mark-slow")
        page.locator(".tried .fall button.fallrow", has_text="Draft").wait_for()
        assert page.locator(".answer").inner_text().strip() == ""
        page.get_by_role("button", name="Stop").click()
        page.wait_for_selector('.tried[aria-busy="false"]')

    def test_stop_ends_it_at_the_backend_too(self, page, backend):
        """What came so far stays."""
        backend.on("Draft: mark-stop", Reply(("never ", "ends"), hangs=True))
        asked(page, "mark-stop")
        call = backend.wait_for_call("mark-stop")
        page.get_by_role("button", name="Stop").click()
        assert call.hung_up.wait(PATIENCE_S)
        page.wait_for_selector('.tried[aria-busy="false"]')
        assert page.get_by_role("button", name="Send").is_enabled()

    def test_it_says_first_that_what_is_saved_was_not_used(self, page, server):
        """A file that another program broke: the answer is that of its last good version."""
        path = "Endpoints/mira/Big.json"
        good = (server.public / "Configs" / path).read_text("utf-8")
        asked(page, "mark-good")
        page.wait_for_selector('.tried[aria-busy="false"] .answer')
        write_text(server, path, '{"endpoint": 5}')
        page.get_by_role("button", name="Send").click()
        note = page.get_by_role("list", name="This is not the saved file")
        note.get_by_text("Endpoints/mira/Big.json:1:1: ").wait_for()
        assert (
            page.evaluate("document.querySelector('.tried').firstElementChild.ariaLabel")
            == "This is not the saved file"
        )
        write_text(server, path, good)

    def test_it_says_what_the_run_writes(self, page):
        """Before anything is sent."""
        page.get_by_role("button", name="Try it").click()
        page.get_by_role("list", name="What it writes").get_by_text("Node 6 Notes would write").wait_for()

    def test_messages_are_added_moved_and_removed(self, page):
        """By buttons, each with its name."""
        page.get_by_role("button", name="Try it").click()
        page.get_by_label("text of message 1").fill("first")
        page.get_by_role("button", name="Add a message").click()
        page.get_by_label("text of message 2").fill("second")
        assert page.get_by_label("role of message 2").input_value() == "assistant"
        page.get_by_role("button", name="move message 2 up").click()
        assert page.get_by_label("text of message 1").input_value() == "second"
        page.get_by_role("button", name="remove message 1").click()
        assert page.get_by_label("text of message 1").input_value() == "first"
        assert page.get_by_role("button", name="remove message 1").is_disabled()

    def test_t_opens_it_and_it_gives_the_text_back(self, page):
        """The text is as it was."""
        page.locator("h1").first.click()
        page.keyboard.press("t")
        page.get_by_role("region", name="Try it").wait_for()
        page.get_by_role("region", name="Try it").get_by_role("button", name="Close").click()
        assert page.locator(".cm-editor").first.is_visible()


class TestWhereItBegins:
    def test_a_run_brings_its_messages(self, server, tab):
        """As `Edit and try` of a run does; they can be changed before they are sent."""
        body = {
            "model": "mira",
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Hello mark-again"},
            ],
        }
        assert server.post("/v1/chat/completions", body)[0] == 200
        page = tab(server, "#/runs")
        page.locator(".row", has_text="Reviewers").first.click()
        page.get_by_role("button", name="More").click()
        page.get_by_role("menuitem", name="Edit and try").click()
        page.get_by_role("region", name="Try it").wait_for()
        until(page, "document.querySelectorAll('.talk textarea').length === 2")
        assert page.get_by_label("role of message 1").input_value() == "system"
        assert page.get_by_label("text of message 2").input_value() == "Hello mark-again"

    def test_the_users_own_routing_can_be_asked_instead(self, page):
        """The workflow that a client would get."""
        page.get_by_role("button", name="Try it").click()
        page.get_by_label("What runs").select_option("route")
        page.get_by_label("text of message 1").fill("Hello")
        page.get_by_role("button", name="Send").click()
        page.locator(".answer", has_text="{agent6Output}").wait_for()


class TestKey:
    CLIENT_KEY = "a-key-of-clients"

    def test_a_clients_key_is_asked_for_where_the_server_needs_one(self, launch, tab, looking):
        """It is kept in the memory of the page alone, and is not the console's."""
        server = launch(USERS, *EDIT, "--require-api-key", self.CLIENT_KEY)
        write_example(server)
        page = tab(server, ADDRESS)
        looking.expected.append("401")
        asked(page, "Hello")
        field = page.get_by_label("API key")
        field.wait_for()
        field.fill(self.CLIENT_KEY)
        page.get_by_role("button", name="Send").click()
        page.locator(".answer", has_text="{agent6Output}").wait_for()
        assert self.CLIENT_KEY not in page.evaluate(
            "JSON.stringify([{...localStorage}, {...sessionStorage}, location.href])"
        )


class TestUnsent:
    """What is written for Try or the dry run is there at the next look, and asked for before it is lost."""

    ASKS = """(() => {
      const leaving = new Event("beforeunload", { cancelable: true });
      dispatchEvent(leaving);
      return leaving.defaultPrevented;
    })()"""

    def test_messages_that_were_not_sent_are_asked_for(self, page):
        assert not page.evaluate(self.ASKS)
        page.get_by_role("button", name="Try it").click()
        page.get_by_label("text of message 1").fill("A long question")
        assert page.evaluate(self.ASKS)
        page.evaluate("location.hash = '#/runs'")
        page.locator(".list").first.wait_for()
        assert page.evaluate(self.ASKS)
        page.evaluate(f"location.hash = '{ADDRESS}'")
        page.get_by_role("button", name="Try it").click()
        assert page.get_by_label("text of message 1").input_value() == "A long question"
        page.get_by_role("button", name="Send").click()
        page.wait_for_selector('.tried[aria-busy="false"] .answer')
        assert not page.evaluate(self.ASKS)

    def test_those_of_a_run_take_their_place_only_if_they_may(self, page):
        asked(page, "The first question")
        page.wait_for_selector('.tried[aria-busy="false"] .answer')
        run = page.locator('.tried a[href^="#/runs/"]').first.inner_text()
        message = page.get_by_label("text of message 1")
        message.fill("The second question")
        said = []
        page.once("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
        page.evaluate(f"location.hash = '{ADDRESS}&pane=try&try={run}'")
        until(page, lambda: said == ["The messages in Try were not sent. Replace them by those of the run?"])
        assert message.input_value() == "The second question"

    def test_the_dry_run_keeps_its_messages(self, page):
        page.get_by_role("button", name="Dry run").click()
        region = page.get_by_role("region", name="Dry run")
        region.get_by_text("Messages", exact=True).click()
        region.get_by_label("text of message 1").fill("Something else")
        region.get_by_role("button", name="Back to the text").click()
        page.get_by_role("button", name="Dry run").click()
        region.get_by_text("Messages", exact=True).click()
        assert region.get_by_label("text of message 1").input_value() == "Something else"


class TestDryRun:
    def test_an_unsaved_text_is_walked_and_no_backend_is_asked(self, page, backend):
        """With what would be sent and written."""
        before = len(backend.calls())
        page.locator(".cm-line", has_text='"Draft: {chat').click()
        page.keyboard.press("End")
        page.keyboard.press("ArrowLeft")
        page.keyboard.type(" unsaved words")
        page.get_by_role("button", name="Dry run").click()
        region = page.get_by_role("region", name="Dry run")
        region.get_by_text("from the unsaved text").wait_for()
        rows = region.locator("button.fallrow")
        assert "asks a model" in rows.first.inner_text()
        assert "would write" in rows.last.inner_text()
        assert "unsaved words" in region.locator(".drypart pre").first.inner_text()
        assert len(backend.calls()) == before

    def test_a_text_with_errors_is_not_walked_and_says_why(self, page, looking):
        """The sentence of saving."""
        looking.expected.append("422")
        page.locator(".cm-line", has_text='"title": "Draft"').click()
        page.keyboard.press("End")
        page.keyboard.type("x")
        page.get_by_role("button", name="Dry run").click()
        page.get_by_role("region", name="Dry run").get_by_role("alert").wait_for()
