"""Every example in the page: the graph of its workflow without a problem, and a run of it with the demo model.

With HEADRACE_PICTURES set, both are written to `docs/pictures/examples`, so that the pages of the examples never
lie (issue of the console; spec console.md 17.1, item 16).
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from tests.browser.conftest import Client, until
from tests.e2e.conftest import HOUSE, Server
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.browser

CONFIGS = HOUSE / "Public" / "Configs"
PICTURES = HOUSE / "docs" / "pictures" / "examples"
USERS = sorted(path.stem for path in (CONFIGS / "Users").glob("[!_]*.json"))
PIXEL = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
ASKED = "Ana: The ferry leaves at seven on Friday. What shall we pack for two days at the mill?"
SHOWN = {"router": "Workflows/router/Code.json"}
"""Where another workflow than the first tells more."""
OUTSIDE = {"web-research", "wiki-question", "agent"}
"""Their nodes ask services that are not here: how such a run ends is not the example's doing."""


def question(user: str) -> dict[str, object]:
    text = {"type": "text", "text": ASKED}
    picture = {"type": "image_url", "image_url": {"url": PIXEL}}
    content: object = [text, picture] if user == "vision" else ASKED
    return {"model": user, "messages": [{"role": "user", "content": content}]}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """All example users, each endpoint that answers in words being the built-in model."""
    public = tmp_path_factory.mktemp("examples") / "Public"
    shutil.copytree(HOUSE / "Public", public)
    for path in (public / "Configs" / "Endpoints").rglob("*.json"):
        endpoint = json.loads(path.read_text("utf-8"))
        if "embed" not in json.dumps(endpoint).lower():
            path.write_text(
                json.dumps({**endpoint, "apiTypeConfigFileName": "BuiltInDemo"}), encoding="utf-8"
            )
    server = Server(public, USERS, ("--concurrency", "0"))
    yield server
    server.stop()


def first_workflow(user: str) -> str:
    settings = json.loads((CONFIGS / "Users" / f"{user}.json").read_text("utf-8"))
    name = settings.get("customWorkflow") if settings.get("customWorkflowOverride") else None
    folder = settings.get("workflowConfigsSubDirectoryOverride") or user
    return SHOWN.get(user) or f"Workflows/{folder}/{name or '_DefaultWorkflow'}.json"


def kept(locator, name: str) -> None:
    """The picture of a part of the page, where pictures are wanted."""
    if os.environ.get("HEADRACE_PICTURES"):
        PICTURES.mkdir(parents=True, exist_ok=True)
        locator.screenshot(path=PICTURES / f"{name}.png")


@pytest.mark.parametrize("user", USERS)
def test_its_graph_has_no_problem(server, looking, user):
    path = first_workflow(user)
    page = looking.open(server, f"#/workflows/{quote(path)}", viewport={"width": 1500, "height": 1400})
    page.locator(".canvas .node").first.wait_for()
    nodes = json.loads((CONFIGS / path).read_text("utf-8"))
    nodes = nodes["nodes"] if isinstance(nodes, dict) else nodes
    assert page.locator(".canvas > .col > .grow .node, .canvas > .col > .node").count() >= len(nodes)
    assert page.locator(".prob.error, .prob.warning").count() == 0
    page.get_by_label("times of the last run").uncheck() if page.get_by_label(
        "times of the last run"
    ).count() else None
    kept(page.locator(".canvas"), f"{user}-graph")


@pytest.mark.parametrize("user", USERS)
def test_a_run_of_it_is_shown_node_by_node(server, looking, user):
    body = Client(server, question(user)).wait(PATIENCE_S)
    assert user in OUTSIDE or body.rstrip().endswith(b"[DONE]")
    page = looking.open(server, f"#/runs?user={user}", viewport={"width": 1500, "height": 1000})
    page.locator(".row").first.click()
    page.locator(".fall .fallrow").nth(1).wait_for()
    until(page, lambda: page.locator(".row :is(.mark.done, .mark.trouble, .mark.failed)").count() >= 1)
    assert user in OUTSIDE or page.locator(".row .mark.failed").count() == 0
    kept(page.locator(".fall"), f"{user}-run")
