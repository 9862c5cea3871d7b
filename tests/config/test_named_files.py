"""Prompt templates, schemas of structured outputs and tool servers: what their files may say, and names that lead nowhere."""

from __future__ import annotations

import re

import pytest

from Middleware.common.errors import ConfigError, ConfigMissing
from Middleware.config.named_files import (
    MCP_SERVER_KEYS,
    PROMPT_TEMPLATE_KEYS,
    find_first,
    load_mcp_server,
    load_prompt_template,
    load_structured_schema,
    lost_folder,
)
from Middleware.config.users import UserSettings
from Middleware.config.validation import ERROR, WARNING, check_file

ANA = UserSettings("ana")
STDIO = {"transport": "stdio", "command": "x"}
SSE = {"transport": "sse", "url": "u"}


def told(file, document):
    """(level, pointer) of each finding."""
    return [(finding.level, finding.pointer) for finding in check_file(file, document)]


class TestTemplates:
    @pytest.mark.parametrize("role", ["System", "User", "Assistant", "Systemmes", "Tool"])
    def test_each_turn_has_a_mark_at_both_ends(self, role):
        """A text, empty by default."""
        for end in ("Prefix", "Suffix"):
            key = PROMPT_TEMPLATE_KEYS[f"promptTemplate{role}{end}"]
            assert (key.value(None), key.value("<s>"), key.schema()["default"]) == ("", "<s>", "")
            assert key.schema()["type"] == "string"

    def test_what_else_there_is(self):
        """The end token, and a key of old files that may hold anything."""
        others = [name for name in PROMPT_TEMPLATE_KEYS if not name.endswith(("Prefix", "Suffix"))]
        assert others == ["promptTemplateEndToken", "promptTemplateGenSeparator"]
        assert "type" not in PROMPT_TEMPLATE_KEYS["promptTemplateGenSeparator"].schema()

    @pytest.mark.parametrize(
        ("document", "findings"),
        [
            ({}, []),
            ({"promptTemplateUserPrefix": "<u>", "promptTemplateGenSeparator": 5}, []),
            ({"promptTemplateDeveloperPrefix": "<d>"}, []),
            ({"promptTemplateUserPrefix": 5}, [(ERROR, "/promptTemplateUserPrefix")]),
            ({"promptTemplateDeveloperSuffix": 5}, [(ERROR, "/promptTemplateDeveloperSuffix")]),
            ({"promptTemplateUserPrefx": "<u>"}, [(WARNING, "/promptTemplateUserPrefx")]),
            ({"promptTemplateUser2Prefix": "<u>"}, [(WARNING, "/promptTemplateUser2Prefix")]),
            (["<u>"], [(ERROR, "")]),
        ],
        ids=["empty", "known", "of-another-role", "no-text", "no-text-of-another-role", "typo", "no-role", "list"],
    )  # fmt: skip
    def test_a_file(self, document, findings):
        """Marks of roles that nobody knows are ordinary; they are texts, too."""
        assert told("PromptTemplates/x.json", document) == findings

    def test_what_is_read_cannot_be_changed(self, configs):
        """All requests share it; without a name there are no marks."""
        configs.put("PromptTemplates/x.json", {"promptTemplateUserPrefix": "<u>"})
        for name in ("x", "", None):
            with pytest.raises(TypeError):
                load_prompt_template(configs.snapshot(), name)["promptTemplateUserPrefix"] = "y"


class TestSchemas:
    @pytest.mark.parametrize(
        ("document", "findings"),
        [
            ({"type": "object", "x": 1}, []),
            ({}, [(ERROR, "")]),
            ([1], [(ERROR, "")]),
        ],
        ids=["any-words", "empty", "list"],
    )
    def test_a_file(self, document, findings):
        """A JSON Schema has words that nobody here knows; one without any would allow everything."""
        assert told("StructuredOutputs/x.json", document) == findings

    def test_none_of_that_name(self, configs):
        """Both places are named, and what is meant."""
        configs.put("StructuredOutputs/ana/shape.json", {"type": "object"})
        with pytest.raises(ConfigMissing) as caught:
            load_structured_schema(configs.snapshot(), ANA, "shap")
        assert str(caught.value) == (
            'no structured output schema "shap" in StructuredOutputs/ana (did you mean "shape"?); '
            "tried StructuredOutputs/ana/shap.json, StructuredOutputs/shap.json"
        )


class TestToolServers:
    @pytest.mark.parametrize(
        ("more", "of"),
        [
            ({"args": ["a"], "env": {"A": "b"}, "cwd": ""}, STDIO),
            ({"headers": {"A": "b"}}, SSE),
            ({"headers": {}}, {**SSE, "transport": "streamable_http"}),
            ({"allowedTools": [], "maxResultBytes": 1, "blockPrivateAddresses": True}, STDIO),
            ({"allowedHosts": ["h"], "blockPrivateAddresses": False}, SSE),
        ],
    )
    def test_a_good_file(self, more, of):
        """All that may be said."""
        assert told("MCPServers/x.json", {**of, **more}) == []

    @pytest.mark.parametrize(
        ("document", "pointer"),
        [
            ({"command": "x", "url": "u"}, ""),
            ({"transport": "http", "command": "x", "url": "u"}, "/transport"),
            ({"transport": "stdio", "url": "u"}, ""),
            ({"transport": "sse", "command": "x"}, ""),
            ({"transport": "streamable_http", "command": "x"}, ""),
            ({"transport": "streamable_http", "command": "x"}, ""),
            ({"transport": "stdio", "command": ""}, "/command"),
            ({"transport": "sse", "url": ""}, "/url"),
            ({**STDIO, "args": "a"}, "/args"),
            ({**STDIO, "args": [5]}, "/args/0"),
            ({**STDIO, "env": "A"}, "/env"),
            ({**STDIO, "env": {"A": 5}}, "/env/A"),
            ({**STDIO, "cwd": 5}, "/cwd"),
            ({**SSE, "headers": {"A": 5}}, "/headers/A"),
            ({**STDIO, "allowedTools": "a"}, "/allowedTools"),
            ({**STDIO, "maxResultBytes": 0}, "/maxResultBytes"),
            ({**STDIO, "maxResultBytes": "9"}, "/maxResultBytes"),
            ({**SSE, "blockPrivateAddresses": "no"}, "/blockPrivateAddresses"),
            ({**SSE, "allowedHosts": []}, "/allowedHosts"),
            ({**SSE, "allowedHosts": "h"}, "/allowedHosts"),
        ],
    )
    def test_a_bad_file(self, document, pointer):
        """One error, where it is."""
        assert told("MCPServers/x.json", document) == [(ERROR, pointer)]

    @pytest.mark.parametrize(
        ("name", "absent"),
        [
            ("command", ""), ("args", []), ("env", {}), ("cwd", None), ("url", ""), ("headers", {}),
            ("allowedTools", None), ("maxResultBytes", None), ("blockPrivateAddresses", False), ("allowedHosts", None),
        ],
    )  # fmt: skip
    def test_what_holds_without_a_key(self, name, absent):
        """Absent lists of what is allowed are no empty ones."""
        assert MCP_SERVER_KEYS[name].value(None) == absent

    def test_the_transport_has_no_default(self):
        """It has to be said."""
        assert [name for name, key in MCP_SERVER_KEYS.items() if key.required] == ["transport"]

    def test_none_of_that_name(self, configs):
        configs.put("MCPServers/files.json", STDIO)
        with pytest.raises(
            ConfigMissing, match=re.escape('no MCP server "file" in MCPServers (did you mean "files"?)')
        ):
            load_mcp_server(configs.snapshot(), "file")
        with pytest.raises(ConfigError, match="must be a plain file name"):
            load_mcp_server(configs.snapshot(), "a/b")


class TestNames:
    """Where a name leads, or why it leads nowhere."""

    @pytest.fixture
    def snapshot(self, configs):
        configs.put("Endpoints/lan/Main.json", {})
        configs.put("Endpoints/lan/Other.example.json", {})
        return configs.snapshot()

    def test_the_first_place_that_has_it(self, snapshot):
        tried = ("Endpoints/x/Main.json", "Endpoints/lan/Main.json", "Endpoints/lan/Other.example.json")
        assert find_first(snapshot, "endpoint", "Main", tried) == "Endpoints/lan/Main.json"

    @pytest.mark.parametrize(
        ("name", "hint"),
        [("Mian", ' (did you mean "Main"?)'), ("Othr", ' (did you mean "Other"?)'), ("zzz", "")],
        ids=["near", "near-an-example", "far"],
    )
    def test_a_folder_without_it(self, snapshot, name, hint):
        """The nearest name; that of an example is the one by which it can be used."""
        with pytest.raises(ConfigMissing) as caught:
            find_first(snapshot, "endpoint", name, (f"Endpoints/lan/{name}.json",))
        expected = f'no endpoint "{name}" in Endpoints/lan{hint}; tried Endpoints/lan/{name}.json'
        assert str(caught.value) == expected

    def test_a_folder_that_is_not_there(self, snapshot):
        """It is what is wrong, not the name in it."""
        with pytest.raises(ConfigMissing) as caught:
            find_first(snapshot, "endpoint", "Main", ("Endpoints/lna/Main.json",))
        assert str(caught.value) == (
            'no endpoint "Main": there is no folder Endpoints/lna (did you mean "lan"?); tried Endpoints/lna/Main.json'
        )

    @pytest.mark.parametrize(
        ("folder", "said"),
        [
            ("Endpoints/lan", ""),
            ("Endpoints", ""),
            ("Presets", ""),
            ("Endpoints/lna", 'there is no folder Endpoints/lna (did you mean "lan"?)'),
            ("Endpoints/zzz", "there is no folder Endpoints/zzz"),
        ],
    )
    def test_a_lost_folder(self, snapshot, folder, said):
        """One of all trees is never missed."""
        assert lost_folder(snapshot, folder) == said
