"""The configs that we ship: right in every file, complete, and easy to point at a real server."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from Middleware.cleaning import ResponseCleaner
from Middleware.common.instance_global_variables import INSTALL_DIRECTORY
from Middleware.config.endpoints import load_endpoint
from Middleware.config.loader import ConfigTree
from Middleware.config.samplers import load_samplers
from Middleware.config.users import load_user, pointer_user, user_names
from Middleware.config.validation import schema
from Middleware.config.workflows import load_workflow
from Middleware.llmapis.handlers.backends import BACKENDS
from Middleware.utilities.install_layout import OWN_FOLDER, make_own_endpoints
from Middleware.utilities.streaming_utils import post_process_llm_output
from Middleware.workflows.checks.config_check import check_tree, check_users
from Middleware.workflows.checks.user_walk import UserWalk
from Middleware.workflows.checks.workflow_check import own_errors
from Middleware.workflows.memory.settings import settings_file
from tests.shipped import CONFIGS, copy_configs, is_own

ROOT = CONFIGS
WINDOW = "lastMessagesToSendInsteadOfPrompt"
USERS = user_names(ConfigTree(ROOT).snapshot())
ENDPOINTS = sorted(file for file in (ROOT / "Endpoints").rglob("*.json") if not is_own(file))
ANSWERING_ENDPOINTS = [file for file in ENDPOINTS if not file.name.startswith("Embeddings")]
API_TYPES = [
    "Open-AI-API",
    "LlamaCppServer",
    "Text-Generation-WebUI",
    "mlx-lm",
    "OpenAI-Compatible-Completions",
    "OllamaApiChat",
    "OllamaApiGenerate",
    "KoboldCpp",
    "Claude",
    "OpenAI-Embeddings",
    "Ollama-Embeddings",
    "vLLM",
    "OpenRouter",
    "DeepSeek",
    "Mistral",
    "OpenAI-Reasoning",
    "BuiltInDemo",
]
TEMPLATES = [
    "chatml",
    "llama2",
    "llama3",
    "llama4",
    "alpaca",
    "vicuna",
    "vicuna-1.1",
    "mistral",
    "mistral-small-2501",
    "gemma",
    "phi-medium",
    "phi-4",
    "command-r",
    "deepseek-chat-v2",
    "deepseek_r1",
    "deepseek-coder-33b",
    "glm-4",
    "openchat",
    "zephyr",
    "tulu",
    "exaone",
    "granite",
    "gpt-oss",
    "kimi-k2",
    "solar",
    "guanaco",
    "metharme",
    "codellama-70b",
    "phind-codellama-34b-v2-official",
    "userassistant",
    "systemuserassistant",
    "_chatonly",
    "wilmerai",
    "cerebrum",
    "chatml-variant",
    "codefuse-deepseek-33b",
    "codegeex",
    "codestral",
    "deepseek-coder-lite-v2",
    "deepseek-lite-v2",
    "deepseek-llm-67b",
    "gemma-27b",
    "midnight-miqu-user-assistant",
    "phind-codellama-34b-v2-recommended",
    "userassistantwizard",
]


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """What ships, without the endpoints of whoever works here."""
    return ConfigTree(copy_configs(tmp_path_factory.mktemp("shipped") / "Configs"), own_errors)


def test_the_whole_tree_has_no_errors_and_no_warnings(tree):
    assert [str(f) for f in check_tree(tree.snapshot()) if f.level != "note"] == []


@pytest.mark.parametrize("user", USERS)
def test_each_example_user_reaches_only_what_is_right(tree, user):
    assert [str(f) for f in check_users(tree.snapshot(), [user]) if f.level != "note"] == []


@pytest.mark.parametrize("user", USERS)
def test_each_example_user_is_described(tree, user):
    """In its file and on a page of its own."""
    assert load_user(tree.snapshot(), user).raw["description"]
    page = INSTALL_DIRECTORY / "docs" / "examples" / f"{user}.md"
    assert page.read_text(encoding="utf-8").startswith(f"# {user}\n")


def test_the_demo_answers_first(tree):
    """Without arguments the built-in model is served."""
    snapshot = tree.snapshot()
    assert pointer_user(snapshot) == "demo"
    endpoint = load_endpoint(snapshot, load_user(snapshot, "demo"), "Main")
    assert endpoint.type == "builtInDemo"
    assert endpoint.raw["removeThinking"] is True
    assert endpoint.raw["responseStartTextToRemoveEndpointWide"] == ["Assistant:"]


@pytest.mark.parametrize("user", USERS)
def test_what_no_memory_covers_yet_is_sent(tree, user):
    """The newest messages, those that fill the next memory, and the one more that a turn may bring."""
    snapshot = tree.snapshot()
    settings = load_user(snapshot, user)
    name = settings.discussion_id_memory_file_workflow_settings
    if not name:
        return
    memories = settings_file(snapshot, settings, name)
    vector = memories.flag("useVectorForQualityMemory")
    waiting = "vectorMemoryMaxMessagesBetweenChunks" if vector else "maxMessagesBetweenChunks"
    uncovered = memories.whole_number("lookbackStartTurn") + memories.whole_number(waiting) + 1
    nodes = load_workflow(snapshot, settings, settings.custom_workflow).nodes
    windows = [node[WINDOW] for node in nodes if WINDOW in node]
    assert windows and min(windows) >= uncovered


@pytest.mark.parametrize("user", USERS)
def test_every_user_answers_from_the_one_endpoint(tree, user):
    """Edited once, it serves the demo and all examples; vectors come from a model of another kind, and the real
    model of `./run --local-model` has a place of its own."""
    snapshot = tree.snapshot()
    settings = load_user(snapshot, user)
    if user != "local-model":
        assert settings.endpoint_configs_sub_directory == "my-model"
    assert set(UserWalk(snapshot, settings).endpoints()) - {"Embeddings"} == {"Main"}


@pytest.mark.parametrize("api_type", [name for name in API_TYPES if "Embeddings" not in name])
def test_three_fields_point_all_examples_at_a_real_server(tmp_path, api_type):
    """One file: address, API type, model; nothing else has to change for any backend."""
    copy = copy_configs(tmp_path / "Configs")
    make_own_endpoints(copy)
    file = copy / OWN_FOLDER / "Main.json"
    changed = json.loads(file.read_text(encoding="utf-8")) | {
        "endpoint": "http://127.0.0.1:1",
        "apiTypeConfigFileName": api_type,
        "modelNameToSendToAPI": "m",
    }
    file.write_text(json.dumps(changed), encoding="utf-8")
    findings = check_users(ConfigTree(copy, own_errors).snapshot(), USERS)
    assert [str(f) for f in findings if f.level != "note"] == []


@pytest.mark.parametrize("name", API_TYPES)
def test_every_api_type_is_there(name):
    document = json.loads((ROOT / "ApiTypes" / f"{name}.json").read_text(encoding="utf-8"))
    assert document["type"] in BACKENDS or document["type"].endswith("Embeddings")
    if "presetType" in document:
        assert document["streamPropertyName"] == "stream"


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_prompt_template_is_there(name):
    """All nine texts; notes in the middle of a conversation carry no begin-of-text token."""
    document = json.loads((ROOT / "PromptTemplates" / f"{name}.json").read_text(encoding="utf-8"))
    assert len(document) == 9
    begin = ("<bos>", "<BOS_TOKEN>", "<|begin_of_text|>", "<｜begin▁of▁sentence｜>", "[gMASK]")
    assert not document["promptTemplateSystemmesPrefix"].startswith(begin)
    assert document["promptTemplateSystemPrefix"].endswith(document["promptTemplateSystemmesPrefix"])


def test_no_other_template_ships():
    assert {p.stem for p in (ROOT / "PromptTemplates").iterdir()} == set(TEMPLATES)


@pytest.mark.parametrize("preset", ["Cold", "Default", "Warm"])
@pytest.mark.parametrize(
    "endpoint", [p.stem for p in sorted((ROOT / "Endpoints/examples").iterdir()) if p.stem != "Embeddings"]
)
def test_every_example_endpoint_has_the_three_presets(tree, endpoint, preset):
    """So the one endpoint can be a copy of any of them."""
    snapshot = tree.snapshot()
    user = replace(load_user(snapshot, "chat"), endpoint_configs_sub_directory="examples")
    assert load_samplers(snapshot, user, load_endpoint(snapshot, user, endpoint), preset).block


@pytest.mark.parametrize("file", ANSWERING_ENDPOINTS, ids=lambda file: f"{file.parent.name}/{file.stem}")
@pytest.mark.parametrize("tag", ["think", "Thinking", "thought", "reasoning", "reflection"])
def test_every_endpoint_cleans(file, tag):
    """Thoughts, the model's own name and the white space around them never reach a client, whichever server is meant."""
    endpoint = json.loads(file.read_text(encoding="utf-8"))
    said = f"<{tag}>\nThey greet me.\n</{tag}>\n\nAssistant: Hello.\n\n"
    cleaner = ResponseCleaner(endpoint, {})
    assert post_process_llm_output(said, endpoint, {}) == "Hello."
    assert "".join([*map(cleaner.feed, said), cleaner.finish()]) == "Hello."


def test_no_key_ships():
    """Keys come from the environment."""
    for path in ENDPOINTS:
        assert not json.loads(path.read_text(encoding="utf-8")).get("apiKey")


def missing_on(page, names):
    """The names that a page of the documentation does not have."""
    text = (INSTALL_DIRECTORY / "docs" / page).read_text(encoding="utf-8")
    return [name for name in names if f"`{name}`" not in text]


@pytest.mark.parametrize(
    ("kind", "page"),
    [
        *(
            (kind, "configuration.md")
            for kind in ("user", "endpoint", "apitype", "prompttemplate", "mcpserver")
        ),
        *((kind, "memory.md") for kind in ("memorysettings", "compactorsettings")),
    ],
)
def test_every_field_is_on_the_page_of_its_file(kind, page):
    """With its name, as the schema spells it."""
    assert missing_on(page, schema(kind)["properties"]) == []


PAGE = (INSTALL_DIRECTORY / "docs" / "configuration.md").read_text(encoding="utf-8")
SECTIONS = {part.partition("\n")[0]: part for part in PAGE.split("\n## ")}
ROW = re.compile(r"^\| `(\w+)` \| .+? \| (.+?) \| ", re.MULTILINE)


@pytest.mark.parametrize("kind", ["user", "endpoint", "apitype", "mcpserver"])
def test_the_tables_say_the_defaults_of_the_keys(kind):
    """A default that the key states, as JSON, or that the key is required."""
    whole = schema(kind)
    said = dict(ROW.findall(SECTIONS[whole["title"]]))
    stated = {name: key["default"] for name, key in whole["properties"].items() if key.get("default")}
    wanted = {name: f"`{json.dumps(default)}`" for name, default in stated.items()}
    wanted |= dict.fromkeys(whole.get("required", ()), "required")
    assert wanted.items() <= said.items()


def test_every_field_of_a_tool_is_on_the_page_of_its_front_end():
    """Those of its inputs too."""
    fields = schema("mcptool")["properties"]
    assert missing_on("frontends/mcp.md", fields) == []
    assert missing_on("frontends/mcp.md", fields["inputs"]["additionalProperties"]["properties"]) == []
