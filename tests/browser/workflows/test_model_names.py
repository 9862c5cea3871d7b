"""The page of model names (workbench.md 15)."""

from __future__ import annotations

import pytest

from tests.browser.conftest import asking, sideways, until, violations
from tests.browser.workflows.conftest import write_text

SAY = [{"type": "StaticResponse", "content": "x"}]
ROUTING = {
    "CODE": {"description": "code", "workflow": "Code"},
    "FACTS": {"description": "facts", "workflow": "Gone"},
}
OWN = {"customWorkflowOverride": False, "routingConfig": "rex", "categorizationWorkflow": "PickRoute"}
USERS = {
    "mira": {},
    "rex": {"user": OWN, "workflows": {"PickRoute": SAY, "Code": SAY, "_DefaultWorkflow": SAY}},
    "lost": {"user": {"customWorkflow": "Gone"}},
}
DESCRIBED = "(one) => one.getAttribute('title')"


@pytest.fixture
def named(start):
    """A server whose users answer in several ways, and that was asked for a name that nobody has."""
    server = start(USERS)
    write_text(server, "Routing/rex.json", ROUTING)
    write_text(server, "Workflows/_shared/novel/_DefaultWorkflow.json", SAY)
    server.post("/v1/chat/completions", {**asking("Hello"), "model": "mira:old"})
    return server


def row(page, name):
    return page.locator(".nametable tr", has=page.locator(f"th code:text-is('{name}')")).first


class TestTable:
    def test_each_name_says_what_it_runs_and_where_that_is_said(self, named, looking):
        page = looking.open(named, "#/model-names")
        row(page, "mira").get_by_role("link", name="Chat").wait_for()
        assert row(page, "mira").get_by_role("link", name="Users/mira.json").count() == 1
        assert "customWorkflow" in row(page, "mira").inner_text()
        routes = row(page, "rex").inner_text().replace("\n", " ")
        assert "PickRoute, which picks one of" in routes and "FACTS Gone" in routes
        assert 'no workflow "Gone"' in row(page, "lost").inner_text()
        page.get_by_text("3 names that model lists do not have").click()
        assert "the folder's name" in row(page, "rex:novel").inner_text()

    def test_a_name_leads_to_its_workflow(self, named, looking):
        page = looking.open(named, "#/workflows")
        row(page, "rex").get_by_role("link", name="Code").click()
        page.get_by_role("heading", name="Code", exact=True).wait_for()
        page.locator(".tree").get_by_role("link", name="Model names").click()
        until(page, "location.hash === '#/model-names'")
        page.get_by_role("heading", name="Model names").wait_for()

    def test_names_that_fell_back_stand_at_the_end(self, named, looking):
        page = looking.open(named, "#/model-names")
        fallen = page.get_by_role("table", name="Names that fell back")
        assert "the default of mira" in fallen.inner_text() and "1 request" in fallen.inner_text()

    def test_such_a_run_is_marked_in_the_list(self, named, looking):
        page = looking.open(named)
        page.locator(".row .mark.trouble").wait_for()
        assert 'no model "mira:old"' in page.locator(".row").inner_text()

    def test_the_tree_marks_where_requests_begin(self, named, looking):
        page = looking.open(named, "#/model-names")
        marks = page.locator(".tree .word", has_text="start")
        marks.first.wait_for()
        told = {mark.evaluate(DESCRIBED) for mark in marks.all()}
        assert told == {"answers mira", "answers rex", "answers mira:novel, rex:novel, lost:novel"}


class TestAnyName:
    @pytest.mark.parametrize(
        ("name", "told"),
        [
            (
                "mira:novel",
                "mira:novel would run _shared/novel (Workflows/_shared/novel/_DefaultWorkflow.json).",
            ),
            ("mira:nothere", "because nothing is called that and the default of mira answers"),
            ("nobody", "is refused: model must name a configured user"),
        ],
    )
    def test_the_servers_own_answer(self, named, looking, name, told):
        page = looking.open(named, "#/model-names")
        page.get_by_label("What would this name run?").fill(name)
        page.locator(".anyname [role=status]", has_text=told).wait_for()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1024, 1440])
def test_axe_finds_nothing(named, looking, width, theme):
    size = {"width": width, "height": 900}
    page = looking.open(named, "#/model-names", viewport=size, color_scheme=theme, bypass_csp=True)
    page.get_by_label("What would this name run?").fill("mira:nothere")
    page.locator(".anyname .notes").wait_for()
    assert violations(page) == [] and sideways(page) <= 0
