"""Keys of the keys file on the page: the Overview's table, and the names at runs (keys.md 6)."""

from __future__ import annotations

import http.client
import json
from contextlib import closing

import pytest

from Middleware.config.key_file import digest_of
from tests.browser.conftest import QUESTION
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.browser


@pytest.fixture
def server(start, tmp_path):
    file = tmp_path / "Keys.json"
    entries = [
        {"name": "ann-laptop", "users": ["mira"], "limits": {"tokensPerDay": 1000}},
        {"name": "batch", "users": ["*"], "priority": "background"},
    ]
    keys = [{**entry, "sha256": digest_of(entry["name"])} for entry in entries]
    file.write_text(json.dumps({"keys": keys}))
    file.chmod(0o600)
    running = start(None, "--keys-file", str(file), "--console-key", "console-secret")
    for name in ("ann-laptop", "ann-laptop", "batch"):
        body = json.dumps({"model": "mira", **QUESTION})
        headers = {"Content-Type": "application/json", "x-api-key": name}
        with closing(http.client.HTTPConnection("127.0.0.1", running.port, timeout=PATIENCE_S)) as connection:
            connection.request("POST", "/v1/chat/completions", body, headers)
            assert connection.getresponse().read()
    return running


def test_the_table_of_the_overview(server, looking):
    """Today's numbers, no key, and a way to the runs of each."""
    page = looking.open(server, "#key=console-secret")
    page.goto(f"{server.url}/console/#/overview")
    table = page.get_by_role("region", name="Keys today")
    table.get_by_role("link", name="ann-laptop").wait_for()
    row = table.get_by_role("row").filter(has_text="ann-laptop")
    assert row.get_by_role("cell").nth(2).inner_text() == "2" and "tokens a day" in row.inner_text()
    assert "(background)" in table.get_by_role("row").filter(has_text="batch").inner_text()
    assert "--keys rotate NAME" in page.locator("pre").inner_text()
    assert digest_of("batch") not in page.content()
    table.get_by_role("link", name="batch").click()
    page.wait_for_selector(".row")
    assert page.locator(".row").count() == 1 and "batch" in page.locator(".row .name").inner_text()


def test_runs_of_one_key(server, looking):
    page = looking.open(server, "#key=console-secret")
    page.goto(f"{server.url}/console/#/runs")
    page.wait_for_selector(".row >> nth=2")
    page.get_by_role("button", name="names").click()
    page.get_by_role("menuitemradio", name="ann-laptop").click()
    page.wait_for_function("document.querySelectorAll('.row').length === 2")
