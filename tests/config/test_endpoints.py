"""Endpoint, API type, preset, template and schema are found, merged and typed."""

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
    load_samplers,
)
from Middleware.config.keys import keys_of_fields
from Middleware.config.named_files import load_mcp_server, load_prompt_template, load_structured_schema
from Middleware.config.users import UserSettings
from Middleware.config.validation import schema

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
ANA = UserSettings("ana")
LAN = UserSettings("ana", endpoint_configs_sub_directory="lan")


@pytest.fixture
def tree(configs):
    configs.put("ApiTypes/Open-AI-API.json", {"type": "openAIChatCompletion", "presetType": "T"})
    configs.put("ApiTypes/Emb.json", {"type": "ollamaEmbeddings"})
    configs.put("Endpoints/main.json", endpoint(modelNameToSendToAPI="m", apiKey="k"))
    configs.put("Endpoints/lan/small-model.json", endpoint(presetSamplers={"temperature": 0.5}))
    return configs


def endpoint(**more):
    return {"endpoint": "http://h:1//", "apiTypeConfigFileName": "Open-AI-API", **more}


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


class TestSamplers:
    def load(self, tree, user, name, preset):
        snapshot = tree.snapshot()
        return load_samplers(snapshot, user, load_endpoint(snapshot, user, name), preset)

    def test_the_users_folder_comes_first(self, tree):
        tree.put("Presets/T/ana/cold.json", {"n": 1})
        tree.put("Presets/T/cold.json", {"n": 2})
        tree.put("Presets/T/warm.json", {"n": 3})
        cold = self.load(tree, ANA, "main", "cold")
        assert (cold.block, cold.canonical, cold.append) == ({"n": 1}, False, None)
        assert self.load(tree, ANA, "main", "warm").block == {"n": 3}

    def test_an_endpoint_of_that_name_lends_its_samplers(self, tree):
        tree.put("Presets/T/small-model.json", {"n": 1})
        samplers = self.load(tree, LAN, "small-model", "small-model")
        assert (samplers.block, samplers.canonical) == ({"temperature": 0.5}, True)

    def test_an_endpoint_without_samplers_is_none(self, tree):
        tree.put("Endpoints/cold.json", endpoint(presetSamplers={}))
        tree.put("Presets/T/cold.json", {"n": 1})
        assert self.load(tree, ANA, "main", "cold").block == {"n": 1}

    def test_without_a_name_the_endpoints_own_count(self, tree):
        assert self.load(tree, LAN, "small-model", None).block == {"temperature": 0.5}
        assert self.load(tree, ANA, "main", "").block == {}

    def test_a_nested_preset_name_is_no_endpoint(self, tree):
        tree.put("Presets/T/a/cold.json", {"n": 1})
        assert self.load(tree, ANA, "main", "a/cold").block == {"n": 1}

    def test_a_preset_in_another_case_is_found(self, tree):
        tree.put("Presets/T/Cold.json", {"n": 1})
        assert self.load(tree, ANA, "main", "cold").block == {"n": 1}

    def test_the_appended_preset_is_handed_on(self, tree):
        tree.put("Presets/T/extra.json", {"e": 1})
        tree.put("Endpoints/main.json", endpoint(appendPresetName="extra", presetSamplers={"top_p": 1}))
        samplers = self.load(tree, ANA, "main", None)
        assert (samplers.block, samplers.append) == ({"top_p": 1}, {"e": 1})

    def test_a_missing_preset_names_both_paths(self, tree):
        tree.put("Presets/T/Warm.json", {})
        with pytest.raises(FileNotFoundError) as caught:
            self.load(tree, ANA, "main", "Wram")
        assert "Presets/T/ana/Wram.json, Presets/T/Wram.json" in str(caught.value)
        assert 'did you mean "Warm"' in str(caught.value)


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
