"""The index of Help: everything that can be written has its words. Source: console.md 12."""

from __future__ import annotations

import gzip
import json
from typing import ClassVar

import pytest

from Middleware.api.console import help_index as made
from Middleware.api.console.help_index import docs_folder, help_index, index_of, pages_of
from Middleware.cleaning.stage import RULES
from Middleware.common import instance_global_variables
from Middleware.workflows.checks.editor_schemas import FILE_KINDS
from Middleware.workflows.handlers.base.base_workflow_node_handler import WorkflowNodeHandler
from Middleware.workflows.handlers.node_types import NODES
from Middleware.workflows.models.node_keys import TEXT
from Middleware.workflows.variables.providers import VARIABLES

INDEX = help_index()
FIELD = ["name", "required", "kinds", "enum", "default", "description", "common", "group", "form", "fills"]
TYPES = {one["name"]: one for one in INDEX["types"]}


def fields_of(name):
    return {field["name"]: field for field in TYPES[name]["fields"]}


def all_fields():
    for one in INDEX["types"]:
        yield from ((f"{one['name']}.{field['name']}", field) for field in one["fields"])
    yield from ((f"common.{field['name']}", field) for field in INDEX["common"])
    for one in INDEX["files"]:
        yield from ((f"{one['kind']}.{field['name']}", field) for field in one["fields"])
    for one in INDEX["rules"]:
        yield from ((f"{one['name']}.{key['name']}", key) for key in one["keys"])


class TestNothingIsMissing:
    @pytest.mark.parametrize("name", sorted(NODES))
    def test_each_type_says_what_it_does_and_where_more_stands(self, name):
        assert TYPES[name]["summary"].endswith((".", ":"))
        assert TYPES[name]["page"] == f"nodes/{name}"

    def test_a_field_of_every_node_leads_to_its_own_row(self):
        """Rather than to one that it shares with others."""
        pages = {field["name"]: field["page"] for field in INDEX["common"]}
        assert (pages["steadyWindow"], pages["parallelGroup"]) == ("nodes/Standard", "nodes/README")

    def test_each_field_says_what_it_means(self):
        assert [place for place, field in all_fields() if not field["description"].strip()] == []

    def test_each_rule_says_what_it_does(self):
        assert [one["order"] for one in INDEX["rules"]] == sorted(RULES)
        assert [one["name"] for one in INDEX["rules"] if not one["summary"].endswith(".")] == []
        assert [one["name"] for one in INDEX["rules"] if one["page"] != f"rules/{one['name']}"] == []

    def test_each_variable_says_what_it_is(self):
        told = {one["name"]: one["description"] for one in INDEX["variables"]}
        assert told.keys() > VARIABLES.keys()
        assert [name for name, about in told.items() if not about.endswith(".")] == []

    def test_each_kind_of_file(self):
        assert [one["kind"] for one in INDEX["files"]] == list(FILE_KINDS)
        assert [one["kind"] for one in INDEX["files"] if not one["fields"] or not one["summary"]] == []

    def test_each_page_has_a_title(self):
        assert len(INDEX["pages"]) > 100
        assert [one["name"] for one in INDEX["pages"] if not one["title"].strip()] == []

    def test_a_type_without_words_would_be_seen(self, monkeypatch):
        """These tests look at the table, not at a list."""

        class Mute(WorkflowNodeHandler):
            KEYS: ClassVar = {"loud": TEXT("")}

            def handle(self, context):
                return ""

        monkeypatch.setitem(NODES._table, "Mute", Mute)
        [mute] = [one for one in index_of(docs_folder())["types"] if one["name"] == "Mute"]
        assert (mute["summary"], mute["page"], mute["fields"][0]["description"]) == ("", None, "")


class TestShape:
    def test_its_keys(self):
        assert list(INDEX) == ["version", "types", "common", "variables", "rules", "files", "pages"]
        assert list(INDEX["types"][0]) == ["name", "summary", "page", "calls_model", "group", "fields"]
        assert list(INDEX["variables"][0]) == ["name", "description", "example"]
        assert list(INDEX["rules"][0]) == ["name", "order", "summary", "page", "keys"]

    def test_each_field_has_the_same_keys(self):
        assert {tuple(key for key in field if key in FIELD) for _, field in all_fields()} == {tuple(FIELD)}

    def test_it_is_small(self):
        """A page loads it whole."""
        assert len(gzip.compress(json.dumps(INDEX).encode())) < 40_000


class TestFields:
    def test_a_field_of_its_own(self):
        assert fields_of("ArithmeticProcessor")["expression"] == {
            "name": "expression",
            "required": True,
            "kinds": ["string"],
            "enum": None,
            "default": None,
            "description": "A number, one of + - * /, and another number. Takes variables.",
            "common": False,
            "group": "own",
            "form": "line",
            "fills": True,
        }

    def test_what_a_type_demands_of_what_all_may_have(self):
        """It stands in the type, too, where it is required."""
        field = fields_of("Standard")["endpointName"]
        assert (field["required"], field["common"]) == (True, True)

    def test_each_field_of_every_node_leads_to_a_page_that_names_it(self):
        for field in INDEX["common"]:
            text = (docs_folder() / f"{field['page']}.md").read_text("utf-8")
            assert f"`{field['name']}`" in text, field["name"]

    def test_what_only_models_need_is_marked(self):
        of_models = {one["name"]: one["of_models"] for one in INDEX["common"]}
        assert (of_models["prompt"], of_models["title"]) == (True, False)
        assert (TYPES["Standard"]["calls_model"], TYPES["StaticResponse"]["calls_model"]) == (True, False)

    @pytest.mark.parametrize(
        ("name", "default"),
        [("maxResponseSizeInTokens", 400), ("jinja2", False), ("onNodeError", "raise"), ("title", None)],
    )
    def test_a_default_is_a_value(self, name, default):
        """Also where only its sentence tells it."""
        [field] = [one for one in INDEX["common"] if one["name"] == name]
        assert field["default"] == default

    def test_what_can_hold_a_placeholder_too_has_its_words(self):
        """Completion offers them, though other texts are right."""
        fields = {one["name"]: one for one in INDEX["common"]}

        assert fields["latePromptPlace"]["enum"] == ["after", "before", "system"]
        assert fields["latePromptPlace"]["default"] == "after"

    @pytest.mark.parametrize(
        ("kind", "name", "kinds", "enum"),
        [
            ("endpoint", "apiKey", ["string"], None),
            (
                "endpoint",
                "reasoningParser",
                ["string"],
                ["none", "think", "minimax", "mistral", "harmony", "auto"],
            ),
            ("endpoint", "stripInlineXmlTags", ["boolean", "object"], None),
            ("routing", "workflow", ["string"], None),
            ("user", "steadyWindow", ["boolean", "integer", "string"], [True, False, "compactor"]),
        ],
    )
    def test_a_field_of_a_file(self, kind, name, kinds, enum):
        """Of a file of named entries: the field of an entry. Null is "not there" everywhere and said nowhere."""
        [file] = [one for one in INDEX["files"] if one["kind"] == kind]
        [field] = [one for one in file["fields"] if one["name"] == name]
        assert (field["kinds"], field["enum"]) == (kinds, enum)

    @pytest.mark.parametrize(
        ("name", "group", "form", "fills"),
        [
            ("type", "what", "choice", False),
            ("title", "what", "line", False),
            ("endpointName", "model", "names:endpoints", True),
            ("prompt", "prompts", "text", True),
            ("maxResponseSizeInTokens", "model", "number", True),
            ("steadyWindow", "conversation", "choice", True),
            ("returnToUser", "answer", "switch", False),
            ("removeCustomTextFromResponseStart", "answer", "switch", False),
            ("allowTools", "tools", "switch", False),
            ("onNodeError", "run", "choice", False),
            ("clientParameters", "model", "texts", True),
        ],
    )
    def test_how_a_form_shows_it(self, name, group, form, fills):
        """Stated at its schema; what is not, follows from its kinds and from what the engine fills."""
        [field] = [one for one in INDEX["common"] if one["name"] == name]
        assert (field["group"], field["form"], field["fills"]) == (group, form, fills)

    def test_the_values_of_a_map_may_be_names(self):
        field = fields_of("ConditionalCustomWorkflow")["conditionalWorkflows"]
        assert (field["form"], field["of"], field["fills"]) == ("map", "names:workflows", False)

    def test_each_form_and_group_is_one_that_the_page_knows(self):
        fields = [field for one in INDEX["types"] for field in one["fields"]] + INDEX["common"]
        groups = {"what", "own", "model", "prompts", "conversation", "answer", "tools", "run"}
        assert {field["group"] for field in fields} == groups
        forms = {field["form"].partition(":")[0] for field in fields}
        assert forms == {"line", "text", "number", "switch", "choice", "names", "texts", "map", "json"}
        assert {one["group"] for one in INDEX["types"]} == {
            "model",
            "text",
            "workflows",
            "memory",
            "tools",
            "files",
        }

    def test_names_are_lists_that_the_server_gives(self):
        """Those of the route `names`."""
        forms = {field["form"] for _, field in all_fields() if field["form"].startswith("names:")}
        assert forms == {
            *("names:endpoints", "names:presets", "names:workflows", "names:structured_outputs"),
            *("names:prompt_templates", "names:mcp_servers", "names:api_types"),
        }

    def test_which_fields_hold_secrets(self):
        """The page shows no value of these."""
        [file] = [one for one in INDEX["files"] if one["kind"] == "endpoint"]
        assert [one["name"] for one in file["fields"] if one["secret"]] == ["apiKey"]


class TestDocs:
    def test_of_a_clone(self):
        assert docs_folder() == instance_global_variables.INSTALL_DIRECTORY / "docs"

    def test_of_a_wheel(self, tmp_path, monkeypatch):
        """They lie where the examples lie."""
        monkeypatch.setattr(made, "is_installed", lambda: True)
        monkeypatch.setattr(made, "SHIPPED_DIRECTORY", tmp_path)
        assert docs_folder() == tmp_path / "docs"

    def test_names_titles_and_what_is_no_page(self, tmp_path):
        for name, text in {
            "b.md": "no heading",
            "nodes/A.md": "text\n\n#  `A`, *the* first \n\n# B",
            "spec/a.md": "# normative",
            "c.json": "{}",
        }.items():
            file = tmp_path / name
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
        assert list(pages_of(tmp_path)) == ["b", "nodes/A"]
        assert index_of(tmp_path)["pages"] == [
            {"name": "b", "title": "b"},
            {"name": "nodes/A", "title": "A, the first"},
        ]

    def test_pages_come_in_the_order_of_the_one_that_lists_them(self, tmp_path):
        """A page is named once, and what is not there is not named; what the list leaves out comes last, by name."""
        (tmp_path / "a").mkdir()
        for name in ("b.md", "c.md", "a/A.md", "a/README.md"):
            (tmp_path / name).write_text("# x")
        (tmp_path / "README.md").write_text(
            "[c](c.md), [gone](d.md), [a](a/README.md), [c](c.md), [up](../x.md)"
        )
        assert list(pages_of(tmp_path)) == ["c", "a/README", "README", "a/A", "b"]

    def test_without_docs(self, tmp_path):
        """Whoever took them away still has the words."""
        index = index_of(tmp_path / "none")
        assert (index["pages"], index["types"][0]["page"]) == ([], None)
