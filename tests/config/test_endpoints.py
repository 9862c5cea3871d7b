"""Endpoint, API type, template and schema are found, merged and typed."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from Middleware.cleaning.stage import keys_of
from Middleware.common.errors import ConfigError, ConfigMissing
from Middleware.config.endpoints import (
    EndpointConfig,
    InjectedTexts,
    endpoint_names,
    ensure_embeds,
    ensure_generates,
    load_endpoint,
)
from Middleware.config.keys import keys_of_fields
from Middleware.config.named_files import load_mcp_server, load_prompt_template, load_structured_schema
from Middleware.config.samplers import load_samplers
from Middleware.config.users import UserSettings
from Middleware.config.validation import schema
from tests.config.endpoint_files import endpoint

HOUSE = Path(__file__).parents[2] / "Middleware"
SCHEMA = schema("endpoint")
PLACES = ("System", "Prompt", "Completion")  # of the injected texts, one value
OTHER_KEYS = (
    "apiKey",  # read when a call is made, from the environment perhaps
    "apiKeyEnv",
    "apiTypeConfigFileName",  # leads to the other half of the value
    "modelNameForDisplayOnly",  # for people
    "pricePerMillionTokens",  # a value of several keys: `price`
    "thinkTagText",  # of old files, without effect
    *(f"{flag}ToStartOf{place}" for flag in ("addText", "textToAdd") for place in PLACES),
    "ensureTextAddedToAssistantWhenChatCompletion",
)
MARKED = [{"promptCacheMark": mark} for mark in ("cache_control", "prompt_cache_breakpoint", None)]
ANA = UserSettings("ana")
LAN = UserSettings("ana", endpoint_configs_sub_directory="lan")


OFF = ["dontIncludeModel", "strictPromptTemplate", "addGenerationPrompt", "allowRemoteBackup"]
EMPTY = [
    "endpoint",
    "modelNameToSendToAPI",
    "promptTemplate",
    "appendPresetName",
    "backupEndpointName",
    "backupPresetName",
]
UNSET = [
    "maxContextTokenSize",
    "wilmerContextEstimationLevel",
    "clampPromptToContextWindow",
    "reasoningParser",
    "presetSamplers",
    "maxConcurrentRequests",
    "connectTimeoutInSeconds",
    "readTimeoutInSeconds",
    "requestStreamUsage",
]
OTHERS = {
    "extraHeaders": {},
    "backendSupportsToolTurns": True,
    "claudePrefill": True,
    "backendStream": "asRequested",
}
DEFAULTS = {**dict.fromkeys(OFF, False), **dict.fromkeys(EMPTY, ""), **dict.fromkeys(UNSET), **OTHERS}


def test_what_holds_without_a_key():
    """Of the keys that an endpoint has a field for."""
    keys = keys_of_fields(EndpointConfig)
    assert {name: keys[name].absent for name in DEFAULTS} == DEFAULTS


class TestEndpoint:
    def test_its_facts(self, tree):
        found = load_endpoint(tree.snapshot(), ANA, "main")
        assert (found.name, found.type, found.url, found.model) == (
            "main",
            "openAIChatCompletion",
            "http://h:1",
            "m",
        )
        assert (found.api_type_name, found.preset_type, found.api_key) == ("Open-AI-API", "T", "k")
        assert (found.file, found.extra_headers) == ("Endpoints/main.json", {})
        assert repr(found) == "EndpointConfig('main', 'Open-AI-API', 'Endpoints/main.json')"

    @pytest.mark.parametrize("key", sorted(SCHEMA["properties"]))
    def test_every_key_has_a_reader(self, key):
        """A field of the value, or the cleaning rules; the others say why not."""
        of_fields = keys_of_fields(EndpointConfig)
        assert (key in of_fields or key in keys_of("endpoint")) != (key in OTHER_KEYS)

    def test_nothing_is_set(self, tree):
        """Then these are the defaults."""
        bare = EndpointConfig("E", {}, "t", {})
        told = {field.name: getattr(bare, field.name) for field in fields(bare) if not field.init}
        assert {name: value for name, value in told.items() if value} == {
            "injected_texts": InjectedTexts(),
            "backend_supports_tool_turns": True,
            "claude_prefill": True,
            "prompt_caching": "off",
            "backend_stream": "asRequested",
        }

    @pytest.mark.parametrize(
        ("own", "of_api_type", "expected"),
        [(None, None, None), (None, True, True), (False, True, False), (True, None, True)],
    )
    def test_a_default_of_the_api_type(self, own, of_api_type, expected):
        """Counts where the endpoint says nothing."""
        found = EndpointConfig("E", {"requestStreamUsage": own}, "t", {"requestStreamUsage": of_api_type})
        assert found.request_stream_usage is expected

    @pytest.mark.parametrize(
        ("size", "expected"), [(0, None), (-1, None), (True, None), (None, None), (1, 1), (8192.5, 8192.5)]
    )
    def test_a_window_without_room_is_none(self, size, expected):
        """Nothing is fitted into it; the check has said so."""
        found = EndpointConfig("E", {"maxContextTokenSize": size}, "t", {})
        assert found.max_context_token_size == expected

    @pytest.mark.parametrize(
        ("flag", "text", "expected"),
        [
            (True, "Be brief.", "Be brief."),
            (False, "Be brief.", ""),
            (None, "Be brief.", ""),
            ("true", "Be brief.", ""),
            (True, None, ""),
            (True, 5, ""),
        ],
    )
    @pytest.mark.parametrize("place", PLACES)
    def test_a_text_is_added_where_its_flag_is_true(self, place, flag, text, expected):
        """To that place alone."""
        raw = {f"addTextToStartOf{place}": flag, f"textToAddToStartOf{place}": text}
        found = EndpointConfig("E", raw, "t", {}).injected_texts
        assert found == InjectedTexts(**{place.lower(): expected})

    @pytest.mark.parametrize(("flag", "expected"), [(True, True), (False, False), ("yes", False)])
    def test_a_turn_of_its_own_for_the_text(self, flag, expected):
        raw = {"ensureTextAddedToAssistantWhenChatCompletion": flag}
        assert EndpointConfig("E", raw, "t", {}).injected_texts.own_assistant_turn is expected

    @pytest.mark.parametrize(
        ("written", "expected"), [(True, True), (False, False), ("no", True), (0, True), (None, True)]
    )
    def test_a_flag_counts_as_true_or_false_alone(self, written, expected):
        """What else stands there is the default, here true."""
        found = EndpointConfig("E", {"backendSupportsToolTurns": written}, "t", {})
        assert found.backend_supports_tool_turns is expected

    def test_a_name_has_no_white_space_around_it(self):
        raw = {"machine": " big ", "backupEndpointName": "other\n"}
        found = EndpointConfig("E", raw, "t", {})
        assert (found.machine, found.backup_endpoint_name) == ("big", "other")

    def test_a_name_that_is_no_text_is_none(self):
        """The check has said so."""
        assert EndpointConfig("E", {"machine": 5}, "t", {}).machine == ""

    @pytest.mark.parametrize(
        ("more", "expected"),
        [
            (["http://b:1/", " http://c:1// "], ("http://b:1", "http://c:1")),
            (["http://b:1", "", 5, None, "/"], ("http://b:1",)),
            ("http://b:1", ()),
            (None, ()),
        ],
    )
    def test_more_addresses(self, more, expected):
        """As the first one: no slashes at the end. What is no address is left out."""
        found = EndpointConfig("E", {"endpoint": "http://a:1/", "moreEndpoints": more}, "t", {})
        assert found.more_endpoints == expected
        assert found.addresses == ("http://a:1", *expected)

    def test_an_address_that_is_written_twice_counts_once(self):
        raw = {"endpoint": "http://a:1", "moreEndpoints": ["http://b:1", "http://a:1/", "http://b:1"]}
        assert EndpointConfig("E", raw, "t", {}).addresses == ("http://a:1", "http://b:1")

    @pytest.mark.parametrize(("left_out", "expected"), [(False, "http://h:1 m"), (True, "http://h:1 ")])
    def test_what_a_machine_must_have_loaded(self, left_out, expected):
        """The address and the model; the address alone where no model is named to it."""
        raw = endpoint(modelNameToSendToAPI="m", dontIncludeModel=left_out)
        assert EndpointConfig("E", raw, "t", {}).model_on_machine == expected

    def test_the_mark_of_a_held_prompt_is_the_api_types(self):
        marks = [EndpointConfig("E", {}, "t", api_type).cache_mark for api_type in MARKED]
        assert marks == ["cache_control", "prompt_cache_breakpoint", ""]

    @pytest.mark.parametrize(
        ("asked", "name", "expected"), [(True, "key", "key"), (False, "key", ""), (True, None, "")]
    )
    def test_the_key_of_a_chat(self, asked, name, expected):
        """Sent where the endpoint asks for it and the API type knows a name for it."""
        api_type = {"promptCacheKeyPropertyName": name}
        assert EndpointConfig("E", {"promptCacheKey": asked}, "t", api_type).cache_key_name == expected

    @pytest.mark.parametrize(
        ("raw", "expected"),
        [
            ({"apiKey": " k ", "apiKeyEnv": "UNSET_E"}, "k"),
            ({"apiKey": "k"}, "k"),
            ({"apiKeyEnv": ""}, ""),
            ({}, ""),
        ],
    )
    def test_a_written_key_comes_before_the_environment(self, raw, expected, monkeypatch):
        """Which is not asked then."""
        monkeypatch.delenv("UNSET_E", raising=False)
        assert EndpointConfig("E", raw, "t", {}).api_key == expected

    def test_a_key_of_the_environment_has_no_white_space_around_it(self, monkeypatch):
        monkeypatch.setenv("KEY_E", " k\n")
        assert EndpointConfig("E", {"apiKeyEnv": "KEY_E"}, "t", {}).api_key == "k"

    def test_the_root_is_not_tried_when_there_is_a_sub_folder(self, tree):
        with pytest.raises(ConfigMissing, match="Endpoints/lan/main"):
            load_endpoint(tree.snapshot(), LAN, "main")

    def test_an_example_answers_for_a_file_that_is_not_there(self, tree):
        """`Main.json` is the user's own, and counts as soon as there is one; a list names the two once."""
        tree.put("Endpoints/lan/Main.example.json", endpoint(modelNameToSendToAPI="ships"))
        assert load_endpoint(tree.snapshot(), LAN, "Main").file == "Endpoints/lan/Main.example.json"
        tree.put("Endpoints/lan/Main.json", endpoint(modelNameToSendToAPI="own"))
        found = load_endpoint(tree.snapshot(), LAN, "Main")
        assert (found.name, found.model, found.file) == ("Main", "own", "Endpoints/lan/Main.json")
        assert endpoint_names(tree.snapshot(), "Endpoints/lan/") == ["Main", "small-model"]

    def test_a_slip_is_told_with_the_name_of_an_example(self, tree):
        """As it is written in a workflow, without the mark of an example."""
        tree.put("Endpoints/lan/Writer.example.json", endpoint())
        with pytest.raises(
            ConfigMissing, match=r'did you mean "Writer"\?\); tried Endpoints/lan/Writr\.json$'
        ):
            load_endpoint(tree.snapshot(), LAN, "Writr")

    def test_a_missing_one_is_told_with_the_nearest(self, tree):
        with pytest.raises(ConfigMissing) as caught:
            load_endpoint(tree.snapshot(), LAN, "smal-model")
        assert 'no endpoint "smal-model" in Endpoints/lan (did you mean "small-model"?)' in str(caught.value)

    def test_an_api_type_without_keys(self):
        """Says nothing, and is no text of its own."""
        found = EndpointConfig("E", {}, "t", {})
        assert (found.type, found.preset_type) == ("", "")

    def test_names_in_another_case_are_told_where_they_are_written(self, tree):
        tree.put("Presets/T/Cold.json", {})
        tree.put(
            "Endpoints/main.json", endpoint(apiTypeConfigFileName="open-ai-api", appendPresetName="cold")
        )
        snapshot = tree.snapshot()
        snapshot.spelling.notes = []
        load_samplers(snapshot, ANA, load_endpoint(snapshot, ANA, "main"), None)
        assert {(note.file, note.pointer) for note in snapshot.spelling.notes} == {
            ("Endpoints/main.json", "/apiTypeConfigFileName"),
            ("Endpoints/main.json", "/appendPresetName"),
        }

    def test_a_header_that_is_not_set_is_named(self, tree, monkeypatch):
        monkeypatch.delenv("UNSET_E", raising=False)
        tree.put("Endpoints/main.json", endpoint(extraHeaders={"X": "${ENV:UNSET_E}"}))
        with pytest.raises(ConfigError, match=r"^Endpoints/main.json: extraHeaders.X: environment variable"):
            _ = load_endpoint(tree.snapshot(), ANA, "main").extra_headers

    def test_an_endpoint_without_an_api_type(self, tree):
        """A file that the check has refused."""
        tree.put("Endpoints/main.json", endpoint(apiTypeConfigFileName=""))
        with pytest.raises(ConfigError, match="apiTypeConfigFileName"):
            load_endpoint(tree.snapshot(), ANA, "main")

    def test_a_missing_api_type_is_told_at_the_endpoint(self, tree):
        tree.put("Endpoints/main.json", endpoint(apiTypeConfigFileName="Open-API"))
        with pytest.raises(ConfigMissing, match="did you mean") as caught:
            load_endpoint(tree.snapshot(), ANA, "main")
        assert (caught.value.file, caught.value.pointer) == ("Endpoints/main.json", "/apiTypeConfigFileName")
        tree.put("Endpoints/main.json", endpoint(apiTypeConfigFileName="zzzz"))
        with pytest.raises(ConfigMissing, match="there are: Emb, Open-AI-API"):
            load_endpoint(tree.snapshot(), ANA, "main")

    def test_an_api_type_in_another_case_is_found(self, tree):
        tree.put("Endpoints/main.json", endpoint(apiTypeConfigFileName="Open-Ai-Api"))
        assert load_endpoint(tree.snapshot(), ANA, "main").type == "openAIChatCompletion"

    def test_an_edited_api_type_makes_a_new_value(self, tree):
        """Though the endpoint file itself did not change."""
        first = load_endpoint(tree.snapshot(), ANA, "main")
        assert load_endpoint(tree.snapshot(), ANA, "main") is first
        tree.put("ApiTypes/Open-AI-API.json", {"type": "openAIV1Completion"})
        assert load_endpoint(tree.snapshot(), ANA, "main").type == "openAIV1Completion"

    def test_secrets_come_from_the_environment(self, tree, monkeypatch):
        tree.put(
            "Endpoints/env.json",
            endpoint(apiKey="", apiKeyEnv="KEY_E", extraHeaders={"X": "a ${ENV:HDR_E}"}),
        )
        found = load_endpoint(tree.snapshot(), ANA, "env")
        monkeypatch.setenv("KEY_E", "from-env")
        monkeypatch.setenv("HDR_E", "b")
        assert (found.api_key, found.extra_headers) == ("from-env", {"X": "a b"})
        monkeypatch.delenv("KEY_E")
        with pytest.raises(ConfigError, match=r"Endpoints/env.json: apiKeyEnv: environment variable 'KEY_E'"):
            _ = found.api_key

    def test_an_embeddings_endpoint_cannot_answer(self, tree):
        tree.put("Endpoints/emb.json", endpoint(apiTypeConfigFileName="Emb"))
        with pytest.raises(ConfigError, match='endpoint "emb" is for embeddings'):
            ensure_generates(load_endpoint(tree.snapshot(), ANA, "emb"))
        ensure_generates(load_endpoint(tree.snapshot(), ANA, "main"))


@pytest.mark.parametrize(
    ("kind", "ensure", "fault"),
    [
        ("openAIEmbeddings", ensure_embeds, None),
        ("ollamaEmbeddings", ensure_embeds, None),
        (
            "claude",
            ensure_embeds,
            'endpoint "E" (claude) is not for embeddings; these types are: openAIEmbeddings, ollamaEmbeddings',
        ),
        ("claude", ensure_generates, None),
        (
            "ollamaEmbeddings",
            ensure_generates,
            'endpoint "E" is for embeddings (ollamaEmbeddings) and cannot answer',
        ),
    ],
)
def test_what_an_endpoint_is_for(kind, ensure, fault):
    """Vectors or answers, by its API type."""
    endpoint = EndpointConfig("E", {"endpoint": "http://h"}, "t", {"type": kind})
    if fault is None:
        ensure(endpoint)
    else:
        with pytest.raises(ConfigError) as caught:
            ensure(endpoint)
        assert caught.value.message == fault


class TestOthers:
    def test_templates(self, tree):
        tree.put("PromptTemplates/x.json", {"promptTemplateEndToken": "e"})
        snapshot = tree.snapshot()
        assert load_prompt_template(snapshot, "x") == {"promptTemplateEndToken": "e"}
        assert load_prompt_template(snapshot, None) == load_prompt_template(snapshot, "") == {}
        with pytest.raises(ConfigMissing, match='no prompt template "y"'):
            load_prompt_template(snapshot, "y")

    def test_a_null_mark_of_a_template_is_absent(self, tree):
        """The prompt would hold the word None otherwise."""
        tree.put("PromptTemplates/x.json", {"promptTemplateUserPrefix": None, "promptTemplateEndToken": "e"})
        assert load_prompt_template(tree.snapshot(), "x") == {"promptTemplateEndToken": "e"}

    def test_a_null_header_is_absent(self, tree):
        """The backend would get the word None otherwise."""
        tree.put("Endpoints/main.json", endpoint(extraHeaders={"X-Team": None, "X-Site": "north"}))
        assert load_endpoint(tree.snapshot(), ANA, "main").extra_headers == {"X-Site": "north"}

    def test_structured_output_schemas(self, tree):
        tree.put("StructuredOutputs/ana/s.json", {"type": "object"})
        tree.put("StructuredOutputs/t.json", {"type": "array"})
        tree.put("StructuredOutputs/empty.json", {})
        snapshot = tree.snapshot()
        assert load_structured_schema(snapshot, ANA, "s") == {"type": "object"}
        assert load_structured_schema(snapshot, ANA, "t") == {"type": "array"}
        with pytest.raises(ConfigError, match="not empty"):
            load_structured_schema(snapshot, ANA, "empty")
        with pytest.raises(ConfigError, match="structuredOutputFile"):
            load_structured_schema(snapshot, ANA, "a/b")
        with pytest.raises(ConfigMissing, match=r"StructuredOutputs/ana/u.json, StructuredOutputs/u.json"):
            load_structured_schema(snapshot, ANA, "u")

    def test_mcp_servers(self, tree):
        tree.put("MCPServers/m.json", {"transport": "sse", "url": "${ENV:X}"})
        assert load_mcp_server(tree.snapshot(), "m")["url"] == "${ENV:X}"
        with pytest.raises(ConfigMissing, match='no MCP server "n"'):
            load_mcp_server(tree.snapshot(), "n")
