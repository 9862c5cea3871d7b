"""What a file of a kind may hold is put together from the keys that its reader states and from the fields that
others hand in.
"""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft202012Validator

from Middleware.config import endpoints, machines, named_files, samplers, users, workflows
from Middleware.config import validation as file_schemas
from Middleware.config.validation import check_file, hand_in, schema

READERS = endpoints, machines, named_files, samplers, users, workflows
"""State the keys of their files when they are imported."""


@pytest.fixture(autouse=True)
def _own_sources(monkeypatch):
    monkeypatch.setattr(file_schemas, "_SOURCES", {})
    monkeypatch.setattr(file_schemas, "_WHOLE", {})


def test_a_kind_that_nobody_states_is_told():
    """The module that reads such files was not imported."""
    with pytest.raises(LookupError, match="keys of recipe files"):
        schema("recipe")


def test_without_more_fields_it_is_what_the_reader_states():
    assert schema("routing")["title"] == "Routing"
    assert schema("routing") is schema("routing")


FIELDS = {
    "user": """
        stream verboseLogging defaultParallelProcessWorkflow description port customWorkflowOverride
        customWorkflow routingConfig categorizationWorkflow maxCategorizationAttempts
        discussionIdMemoryFileWorkflowSettings fileMemoryToolWorkflow chatSummaryToolWorkflow
        conversationMemoryToolWorkflow recentMemoryToolWorkflow contextCompactorSettingsFile
        discussionDirectory sqlLiteDirectory endpointConfigsSubDirectory
        workflowConfigsSubDirectoryOverride presetConfigsSubDirectoryOverride
        structuredOutputConfigsSubDirectory sharedWorkflowsSubDirectoryOverride allowSharedWorkflows
        chatPromptTemplateName chatCompleteAddUserAssistant
        chatCompletionAddMissingAssistantGenerator separateConversationInVariables
        conversationSeparationDelimiter userWideWorkflowVariables clampPromptToContextWindow
        steadyWindow connectTimeoutInSeconds livenessToolCall encryptUsingApiKey redactLogOutput
        interceptOpenWebUIToolRequests useOfflineWikiApi offlineWikiApiHost offlineWikiApiPort
        useOfflineResearcherApi offlineResearcherApiHost offlineResearcherApiPort useFileLogging
        maxWorkflowDepth maxParallelNodes staticStreamDelayMs advertisedContextLength
        openWebUITaskWorkflow embeddingsEndpoint exposeEndpoints discussionIdFromHeader
        progressOutput outboundPolicy pythonModuleRoots offlineWikiApiUrl
    """,
    "endpoint": """
        endpoint moreEndpoints modelNameToSendToAPI dontIncludeModel extraHeaders
        maxContextTokenSize wilmerContextEstimationLevel clampPromptToContextWindow promptTemplate
        strictPromptTemplate addGenerationPrompt backendSupportsToolTurns claudePrefill
        reasoningParser presetSamplers appendPresetName backupEndpointName backupPresetName
        allowRemoteBackup maxConcurrentRequests machine connectTimeoutInSeconds readTimeoutInSeconds
        backendStream requestStreamUsage promptCaching promptCacheKey apiTypeConfigFileName
        modelNameForDisplayOnly apiKey apiKeyEnv addTextToStartOfSystem textToAddToStartOfSystem
        addTextToStartOfPrompt textToAddToStartOfPrompt addTextToStartOfCompletion
        textToAddToStartOfCompletion ensureTextAddedToAssistantWhenChatCompletion
        pricePerMillionTokens thinkTagText
    """,
    "apitype": """
        type nameForDisplayOnly presetType truncateLengthPropertyName maxNewTokensPropertyName
        streamPropertyName samplerFieldMap backendStream requestStreamUsage
        supportsChatTemplateKwargs thinking structuredOutput promptCacheMark
        promptCacheKeyPropertyName
    """,
    "prompttemplate": """
        promptTemplateSystemPrefix promptTemplateSystemSuffix promptTemplateUserPrefix
        promptTemplateUserSuffix promptTemplateAssistantPrefix promptTemplateAssistantSuffix
        promptTemplateSystemmesPrefix promptTemplateSystemmesSuffix promptTemplateToolPrefix
        promptTemplateToolSuffix promptTemplateEndToken promptTemplateGenSeparator
    """,
    "mcpserver": """
        transport command args env cwd url headers allowedTools maxResultBytes blockPrivateAddresses
        allowedHosts
    """,
    "mcptool": """
        description name title inputs message chat
    """,
}


@pytest.mark.parametrize(("kind", "names"), FIELDS.items(), ids=FIELDS)
def test_what_a_file_of_each_kind_may_hold(kind, names):
    """Each of these names is in files that people wrote."""
    assert [name for name in names.split() if name not in schema(kind)["properties"]] == []


@pytest.mark.parametrize(
    ("kind", "title"),
    [
        ("user", "User"),
        ("endpoint", "Endpoint"),
        ("apitype", "API type"),
        ("preset", "Preset"),
        ("prompttemplate", "Prompt template"),
        ("structuredoutput", "Structured output"),
        ("mcpserver", "MCP server"),
        ("routing", "Routing"),
        ("userpointer", "Default user"),
    ],
)
def test_each_kind_has_a_name_for_people(kind, title):
    assert schema(kind)["title"] == title


WORDS = [  # a kind, where a word stands -> the words that it may be
    ("user", "progressOutput", "off reasoning status"),
    ("user", "outboundPolicy", "off block-private"),
    ("endpoint", "backendStream", "asRequested always"),
    ("endpoint", "reasoningParser", "none think minimax mistral harmony auto"),
    ("endpoint", "promptCaching", "off 5m 1h"),
    ("apitype", "backendStream", "asRequested always"),
    ("apitype", "promptCacheMark", "cache_control prompt_cache_breakpoint"),
    ("apitype", "thinking/mode", "bool effort boolOrEffort unsupported"),
    ("apitype", "thinking/location", "top chat_template_kwargs"),
    ("apitype", "structuredOutput/style", "openaiJsonSchema raw anthropicJsonSchema"),
    ("mcpserver", "transport", "stdio sse streamable_http"),
    ("mcptool", "inputs/place/type", "string integer number boolean"),
]
FILES = {
    "user": "Users/a.json",
    "endpoint": "Endpoints/a.json",
    "apitype": "ApiTypes/a.json",
    "mcpserver": "MCPServers/a.json",
    "mcptool": "Workflows/a/_mcpTool.json",
    "routing": "Routing/a.json",
    "machines": "Machines.json",
}


def _findings_at(kind, place, value):
    """What is said of this value there, in a file that may lack all else."""
    document = value
    for name in reversed(place.split("/")):
        document = {name: document}
    pointer = f"/{place}"
    return [finding for finding in check_file(FILES[kind], document) if finding.pointer == pointer]


@pytest.mark.parametrize(("kind", "place", "words"), WORDS, ids=lambda value: value.replace(" ", "-"))
def test_the_words_that_a_field_takes(kind, place, words):
    """And no other."""
    assert [word for word in words.split() if _findings_at(kind, place, word)] == []
    assert _findings_at(kind, place, "perhaps") != []


BOUNDS = [  # a kind, where a number stands -> the least and the greatest, one beyond each
    ("user", "port", [0, 65535], [-1, 65536]),
    ("user", "offlineWikiApiPort", [1, 65535], [0, 65536]),
    ("user", "offlineResearcherApiPort", [1, 65535], [0, 65536]),
    ("user", "maxWorkflowDepth", [1, 2000], [0, 2001]),
    ("user", "maxParallelNodes", [1], [0]),
    ("user", "staticStreamDelayMs", [0], [-1]),
    ("user", "advertisedContextLength", [1], [0]),
    ("user", "connectTimeoutInSeconds", [1, 2_000_000], [0, 2_000_001]),
    ("endpoint", "connectTimeoutInSeconds", [0.1, 2_000_000], [0, 2_000_001]),
    ("endpoint", "readTimeoutInSeconds", [0.1, 2_000_000], [0, 2_000_001]),
    ("endpoint", "maxContextTokenSize", [1], [0]),
    ("endpoint", "maxConcurrentRequests", [1], [0]),
    ("endpoint", "pricePerMillionTokens/input", [0, 1e9], [-0.1, 1e9 + 1]),
    ("endpoint", "pricePerMillionTokens/output", [0, 1e9], [-0.1, 1e9 + 1]),
    ("endpoint", "pricePerMillionTokens/cached", [0, 1e9], [-0.1, 1e9 + 1]),
    ("endpoint", "pricePerMillionTokens/cacheWrite", [0, 1e9], [-0.1, 1e9 + 1]),
    ("mcpserver", "maxResultBytes", [1], [0]),
    ("routing", "_byMeaning/threshold", [0, 1], [-0.1, 1.1]),
    ("routing", "_byMeaning/margin", [0, 1], [-0.1, 1.1]),
    ("routing", "_byMeaning/messages", [1], [0]),
    ("machines", "big/maxConcurrentRequests", [1], [0]),
]


@pytest.mark.parametrize(("kind", "place", "within", "beyond"), BOUNDS, ids=[" ".join(b[:2]) for b in BOUNDS])
def test_the_bounds_of_a_number(kind, place, within, beyond):
    assert [value for value in within if _findings_at(kind, place, value)] == []
    assert [value for value in beyond if not _findings_at(kind, place, value)] == []


NOT_EMPTY = [
    ("endpoint", "apiTypeConfigFileName"),
    ("apitype", "type"),
    ("apitype", "structuredOutput/field"),
    ("user", "livenessToolCall/toolName"),
    ("mcpserver", "command"),
    ("mcpserver", "url"),
    ("routing", "_byMeaning/embeddingEndpointName"),
    ("routing", "Sailing/workflow"),
]


@pytest.mark.parametrize(("kind", "place"), NOT_EMPTY, ids=[" ".join(each) for each in NOT_EMPTY])
def test_a_name_that_may_not_be_empty(kind, place):
    """One character is enough."""
    assert _findings_at(kind, place, "") != [] and _findings_at(kind, place, "x") == []


def _examples(part):
    """Every list of examples in a schema, with the schema that they are examples of."""
    if isinstance(part, dict):
        if isinstance(part.get("examples"), list):
            yield part, part["examples"]
        for below in part.values():
            yield from _examples(below)


@pytest.mark.parametrize("kind", ["user", "endpoint", "apitype", "prompttemplate", "mcpserver", "mcptool"])
def test_examples_fit_and_none_is_there_twice(kind):
    """An editor offers them."""
    for allowed, examples in _examples(schema(kind)):
        assert len({json.dumps(example) for example in examples}) == len(examples)
        assert all(Draft202012Validator(allowed).is_valid(example) for example in examples)


def test_a_steady_window_is_offered_as_a_switch_and_as_the_compactors():
    assert schema("user")["properties"]["steadyWindow"]["examples"] == [True, False, "compactor"]


def test_fields_are_handed_in():
    """The check knows them at once; the object stays the same as long as they do."""
    fields = {"shout": {"type": "boolean", "x-level": "warning", "description": "Be loud."}}
    document = {"shout": "x"}
    assert [f.level for f in check_file("Users/a.json", document)] == ["note"]
    hand_in("user", lambda: fields)
    assert [str(f) for f in check_file("Users/a.json", document)] == [
        'Users/a.json: warning: shout: found "x", allowed: true or false'
    ]
    assert schema("user") is schema("user")


def test_fields_may_come_and_go():
    """A source is asked each time."""
    fields = [{"shout": {"type": "boolean"}}, {"whisper": {"type": "boolean"}}]
    hand_in("user", lambda: fields[0])
    assert "shout" in schema("user")["properties"]
    fields.pop(0)
    assert "whisper" in schema("user")["properties"] and "shout" not in schema("user")["properties"]


def test_two_sources_put_their_words_together():
    """One knows the type, the other the meaning."""
    one, other = {"shout": {"type": "boolean"}}, {"shout": {"type": "boolean", "description": "Be loud."}}
    hand_in("user", lambda: one)
    hand_in("user", lambda: other)
    assert schema("user")["properties"]["shout"] == {"type": "boolean", "description": "Be loud."}


def test_two_sources_that_differ_are_told():
    one, other = {"shout": {"type": "boolean"}}, {"shout": {"type": "string"}}
    hand_in("user", lambda: one)
    hand_in("user", lambda: other)
    with pytest.raises(ValueError, match="user field 'shout': type is stated as 'boolean' and as 'string'"):
        schema("user")
