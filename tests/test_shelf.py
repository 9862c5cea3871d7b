"""The shelf: `packs`, the pages of `docs/examples` that are made from it, and the example users themselves agree."""

from __future__ import annotations

import json
import re
from datetime import date
from pathlib import Path
from xml.etree import ElementTree

import pytest

from Middleware.config.loader import ConfigTree
from Middleware.config.users import load_user
from Middleware.workflows.checks.config_check import checked_tree
from Middleware.workflows.checks.pack_contents import pack_user
from Middleware.workflows.checks.user_walk import UserWalk
from tests.shipped import CONFIGS
from tools import shelf
from tools.workflow_picture import draw, panels

USERS = sorted(file.stem for file in (CONFIGS / "Users").glob("[!_]*.json"))
PACKS = shelf.packs()
MADE = {file: text for file, text in shelf.made_files()}
SVG = "{http://www.w3.org/2000/svg}"


def test_each_example_user_has_a_pack_and_a_page() -> None:
    """And there is none of a user that is gone."""
    assert sorted(PACKS) == USERS
    assert sorted(page.stem for page in shelf.PAGES.glob("*.md")) == sorted([*USERS, "README"])
    assert sorted(folder.name for folder in shelf.PACKS.iterdir() if folder.is_dir()) == USERS


@pytest.mark.parametrize("file", MADE, ids=lambda file: "/".join(file.parts[-2:]))
def test_pages_and_pictures_are_what_the_tool_makes(file: Path) -> None:
    """After a change of a pack or a workflow: `tools/shelf.py`."""
    assert file.read_text("utf-8") == MADE[file]


@pytest.mark.parametrize("name", USERS)
def test_a_pack_says_what_it_costs_and_when_that_was_found(name: str) -> None:
    """No number without its day."""
    facts = PACKS[name]
    assert set(facts) == {"position", "shows", "goodFor", "needs", "cost", "tried"}
    assert set(facts["cost"]) - {"note"} == {
        "measured",
        "calls",
        "promptTokens",
        "completionTokens",
        "readTokens",
    }
    assert date.fromisoformat(facts["cost"]["measured"]) >= date(2026, 11, 29)
    assert date.fromisoformat(facts["tried"]["date"]) >= date(2026, 11, 29)
    assert facts["tried"]["with"]
    assert facts["cost"]["calls"] >= 1
    assert facts["cost"]["promptTokens"] >= facts["cost"]["readTokens"] > 0


@pytest.mark.parametrize("name", USERS)
def test_a_pack_needs_what_the_zip_file_of_its_user_says(name: str) -> None:
    """As `--pack` finds it out: roles with what each must be able to do, programs, extras."""
    found = pack_user(checked_tree(CONFIGS).snapshot(), name).pack.needs
    needs = PACKS[name]["needs"]
    assert needs["roles"] == {role: list(abilities) for role, abilities in found.roles.items()}
    assert needs["programs"] == list(found.programs)
    assert set(found.extras) <= set(needs["extras"])


@pytest.mark.parametrize("name", USERS)
def test_a_page_lists_the_files_of_its_user(name: str) -> None:
    """Workflows, routing, schemas and MCP servers; presets and templates belong to all."""
    snapshot = ConfigTree(CONFIGS).snapshot()
    walk = UserWalk(snapshot, load_user(snapshot, name))
    walk.findings()
    page = (shelf.PAGES / f"{name}.md").read_text("utf-8")
    own = [file for file in walk.files_read if file.startswith(("Users/", "Workflows/", "Routing/"))]
    assert [file for file in own if Path(file).name not in page] == []


@pytest.mark.parametrize("name", USERS)
def test_a_picture_can_be_read_anywhere(name: str) -> None:
    """Valid XML that fetches nothing, in light and dark, with all nodes and a text for those who can't see it."""
    text = (shelf.PACKS / name / "workflow.svg").read_text("utf-8")
    root = ElementTree.fromstring(text)
    words = "\n".join(one.text or "" for one in root.iter(f"{SVG}text"))
    titles = [node["title"] for panel in panels(CONFIGS, name) for node in panel.graph["nodes"]]
    assert titles
    assert [title for title in titles if title not in words] == []
    assert "prefers-color-scheme: dark" in text
    assert re.findall(r"(?:href|src|url|@import|@font-face)", text) == []
    assert root.find(f"{SVG}title") is not None and root.find(f"{SVG}desc") is not None


class TestPictures:
    """What is drawn of a workflow."""

    NODES = (
        {"title": "One", "type": "Standard", "endpointName": "Main", "parallelGroup": "g"},
        {"title": "Two <&>", "type": "Standard", "endpointName": "Main", "parallelGroup": "g"},
        {
            "title": "T" * 200,
            "type": "Standard",
            "endpointName": "Main",
            "prompt": "{agent1Output}",
            "returnToUser": True,
        },
        {"title": "Tidy up", "type": "StaticResponse", "content": "x"},
    )

    @pytest.fixture
    def configs(self, tmp_path: Path) -> Path:
        self.write(tmp_path, "Users/ann.json", {"customWorkflowOverride": True, "customWorkflow": "W"})
        self.write(tmp_path, "Workflows/ann/W.json", list(self.NODES))
        return tmp_path

    @staticmethod
    def write(root: Path, name: str, value: object) -> None:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(json.dumps(value), encoding="utf-8")

    @staticmethod
    def boxes(text: str) -> list[dict[str, str]]:
        found = ElementTree.fromstring(text).iter(f"{SVG}rect")
        return [dict(one.attrib) for one in found if one.get("class", "").startswith("box")]

    def test_nodes_that_run_together_are_side_by_side(self, configs: Path) -> None:
        """And the others below each other."""
        first, second, third, fourth = self.boxes(draw("ann", panels(configs, "ann")))
        assert first["y"] == second["y"] and int(first["x"]) + int(first["width"]) < int(second["x"])
        assert int(second["y"]) < int(third["y"]) < int(fourth["y"])

    def test_it_shows_who_asks_a_model_and_who_answers(self, configs: Path) -> None:
        """By their looks, and in words."""
        text = draw("ann", panels(configs, "ann"))
        looks = [box["class"] for box in self.boxes(text)]
        assert looks == ["box model", "box model", "box model answer", "box"]
        assert text.index(">answers<") < text.index("the client has its answer") < text.index(">4 Tidy up<")

    def test_titles_are_text_and_stay_in_their_box(self, configs: Path) -> None:
        """Whatever is in them."""
        text = draw("ann", panels(configs, "ann"))
        assert "2 Two &lt;&amp;&gt;" in text
        assert re.search(r">3 T{20,}…<", text)

    def test_the_same_files_give_the_same_picture(self, configs: Path) -> None:
        """So that a test can compare it."""
        assert draw("ann", panels(configs, "ann")) == draw("ann", panels(configs, "ann"))

    def test_a_child_that_answers_for_its_caller_answers_the_client(self, configs: Path) -> None:
        """One whose text another node reads has an output."""
        child = {"type": "CustomWorkflow", "workflowName": "Child"}
        self.write(
            configs, "Workflows/ann/Child.json", [{"title": "C", "type": "StaticResponse", "content": "x"}]
        )
        self.write(configs, "Workflows/ann/W.json", [child])
        assert [panel.answers for panel in panels(configs, "ann")] == [True, True]
        self.write(configs, "Workflows/ann/W.json", [child, self.NODES[3]])
        assert [panel.answers for panel in panels(configs, "ann")] == [True, False]


class TestPages:
    """How a page is made."""

    def test_links_lead_where_they_led(self) -> None:
        """From the folder of the pages; addresses and headings stay."""
        text = "[a](../../docs/memory.md#x) [b](https://x.org/y) [c](#here) ![d](workflow.svg)"
        made = "[a](../memory.md#x) [b](https://x.org/y) [c](#here) ![d](../../packs/chat/workflow.svg)"
        assert shelf.relinked(text, shelf.PACKS / "chat") == made

    @pytest.mark.parametrize(
        ("number", "shown"), [(7, "7"), (97, "97"), (127, "130"), (4239, "4,200"), (20152, "20,000")]
    )
    def test_numbers_are_as_exact_as_they_are_meant(self, number: int, shown: str) -> None:
        """Two digits."""
        assert shelf.rounded(number) == shown

    def test_a_page_without_its_picture_is_refused(self, monkeypatch, tmp_path: Path) -> None:
        """Its facts would stand nowhere."""
        (tmp_path / "chat").mkdir()
        (tmp_path / "chat" / "README.md").write_text("# chat\n", encoding="utf-8")
        monkeypatch.setattr(shelf, "PACKS", tmp_path)
        with pytest.raises(SystemExit, match=r"packs/chat/README.md must have the line !\[The workflow\]"):
            shelf.page("chat", PACKS["chat"], "")

    def test_measured_costs_are_those_of_the_second_half(self, monkeypatch, tmp_path: Path) -> None:
        """With their day; a note that somebody wrote stays."""
        monkeypatch.setattr(shelf, "PACKS", tmp_path)
        (tmp_path / "chat").mkdir()
        place = tmp_path / "chat" / "pack.json"
        place.write_text(json.dumps({"shows": "x", "cost": {"calls": 9, "note": "N"}}), encoding="utf-8")
        rows = [{"calls": n, "prompt": 10 * n, "completion": n, "read": n} for n in (50, 60, 1, 2)]
        measured = tmp_path / "out.json"
        measured.write_text(json.dumps({"chat": [rows]}), encoding="utf-8")
        shelf.take_costs([str(measured)], "2026-12-24")
        assert json.loads(place.read_text("utf-8")) == {
            "shows": "x",
            "cost": {
                "measured": "2026-12-24",
                "calls": 1.5,
                "promptTokens": 15,
                "completionTokens": 2,
                "readTokens": 2,
                "note": "N",
            },
        }
