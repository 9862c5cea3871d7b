"""Pictures of Workflows for the docs, of the real page: written when HEADRACE_PICTURES is set (console.md 17.1, 16)."""

from __future__ import annotations

import json
import os

import pytest

from tests.browser.workflows.conftest import EDIT, write_example, write_text
from tests.browser.workflows.workflow_tree import ADDRESS, REVIEWERS, USERS
from tests.e2e.conftest import HOUSE
from tests.e2e.fake_backend import Reply

PICTURES = HOUSE / "docs" / "pictures"
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not os.environ.get("HEADRACE_PICTURES"), reason="HEADRACE_PICTURES is not set"),
]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_workflow_beside_its_text(theme, launch, backend, tab):
    """With the times of its last run."""
    backend.on("Draft:", Reply(["The ", "edict ", "of ", "1589."], gap_s=0.4))
    backend.on("Facts of", Reply(["co", "de"], gap_s=1.2))
    backend.on("Style of", Reply(["Two ", "sentences."], gap_s=1.5))
    server = launch(USERS, *EDIT)
    write_example(server)
    shown = json.loads(json.dumps(REVIEWERS))
    shown["nodes"][5] |= {"filepath": "{Discussion_Id}.txt"}
    question = {"model": "mira", "messages": [{"role": "user", "content": "When was it signed?"}]}
    assert server.post("/v1/chat/completions", question)[0] == 200
    write_text(server, "Workflows/mira/Reviewers.json", shown)
    page = tab(server, f"{ADDRESS}&node=5", width=1300, height=760, theme=theme)
    page.wait_for_selector(".cm-line.chosen")
    page.locator('.node[data-n="6"] .tm').wait_for()
    page.wait_for_selector(".cm-lintRange")
    page.mouse.move(640, 700)
    page.screenshot(path=PICTURES / f"console-workflows{'' if theme == 'light' else '-dark'}.png")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_node_as_a_form(theme, launch, tab):
    server = launch(USERS, *EDIT)
    write_example(server)
    page = tab(server, ADDRESS, side="", width=1300, height=760, theme=theme)
    page.click('.node[data-n="5"]')
    page.wait_for_selector('[data-field="prompt"] .cm-content')
    page.mouse.move(640, 700)
    page.wait_for_timeout(500)
    page.screenshot(path=PICTURES / f"console-form{'' if theme == 'light' else '-dark'}.png")
