"""The list of runs in a house as people live in it (spec workbench.md 11, row 13; 12)."""

from __future__ import annotations

import pytest

from tests.browser.conftest import asking, until
from tests.browser.real_house import GATE, PRIVATE, RUNS, WAITING, Line, make_house
from tests.e2e.fake_backend import FakeBackend

pytestmark = pytest.mark.browser

KEPT = 200


@pytest.fixture(scope="module")
def backend():
    backend = FakeBackend()
    yield backend
    backend.close()


@pytest.fixture(scope="module")
def house(tmp_path_factory, backend):
    made = make_house(tmp_path_factory.mktemp("house") / "Public", backend)
    yield made
    made.server.stop()


def told_runs(page, house, query=""):
    """What the server says of its runs."""
    path = f"{house.server.url}/console/api/runs?limit=200{query}"
    return page.request.get(path, headers={"X-Headrace-Console": "1"}).json()


class TestRows:
    def test_each_says_what_was_asked_by_whom_and_what_went_wrong(self, house, looking):
        """For a private user no text; the newest two hundred, and those with trouble before them."""
        page = looking.open(house.server, viewport={"width": 1440, "height": 900})
        page.locator(".row").first.wait_for()
        newest = {one.text: one for one in house.asked[-KEPT:]}
        for _ in range(8):
            page.locator(".rows").evaluate("(list) => list.scrollTo(0, list.scrollHeight)")
            page.wait_for_timeout(200)
        found = page.locator(".row").evaluate_all(
            """(rows) => rows.map((row) => [row.querySelector(".name b").textContent,
              row.querySelector(".said").textContent, row.querySelector(".mark").classList[1],
              row.querySelector(".facts").textContent])"""
        )
        texts = [said for _, said, _, _ in found if not said.startswith("private")]
        assert len(found) >= KEPT and len(texts) == len(set(texts))
        for name, said, mark, facts in found:
            if said.startswith("private"):
                assert name.split(":")[0] == PRIVATE
                continue
            one = newest.get(said) or next(each for each in house.asked if each.text == said)
            assert (name, mark) == (one.name, one.state), said
            assert one.short in facts

    def test_buttons_count_what_they_show(self, house, looking):
        page = looking.open(house.server, viewport={"width": 1440, "height": 900})
        chip = page.get_by_role("button", name="failed")
        chip.wait_for()
        for word, query in (("odd", "&state=odd"), ("failed", "&state=failed")):
            shown = int(page.locator(".pill", has_text=word).locator("b").inner_text())
            told = told_runs(page, house, query)
            assert told["counts"][word] == shown > 0
            assert shown == len(told["runs"])


class TestTheLine:
    @pytest.fixture
    def line(self, house, backend, looking):
        line = Line(house, backend)
        page = looking.open(house.server, viewport={"width": 1440, "height": 900})
        until(page, lambda: page.locator(".row .mark.answering").count() == GATE)
        for _ in range(WAITING):  # one after the other: they keep the order in which they came
            come = line.join()
            until(page, lambda come=come: page.locator(".row .mark.waiting").count() == come)
        yield line, page
        line.end()

    def test_who_waits_has_a_name_a_text_and_somebody_before_it(self, line, house):
        line, page = line
        rows = page.locator(".row", has=page.locator(".mark.waiting"))
        for at, name in enumerate(line.waiting):
            row = rows.nth(at)
            assert row.locator(".name b").inner_text() == name
            said = row.locator(".said").inner_text()
            assert said.startswith("private") if name == PRIVATE else said == f"Wait for me too, {name}"
            assert ", while " in row.locator(".facts").inner_text()
        count = page.locator(".pill", has_text="waiting").locator("b")  # it is asked for now and then only
        until(page, lambda: count.inner_text() == str(WAITING))

    def test_an_unknown_name_does_not_wait(self, line, house):
        """It is refused while fourteen stand in line, and none of them has moved on."""
        _, page = line
        status, _ = house.server.post("/v1/chat/completions", {**asking("Hello"), "model": "nobody-at-all"})
        assert status in (400, 404)
        assert page.locator(".row .mark.waiting").count() == WAITING


def test_the_house_is_as_large_as_it_says(house):
    """Thirty workflow files of five users, three hundred runs."""
    files = list((house.server.public / "Configs" / "Workflows").rglob("*.json"))
    assert (len(files), len(house.asked)) == (30, RUNS)
