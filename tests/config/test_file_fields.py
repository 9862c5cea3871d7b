"""What each field of a configuration file takes, what holds without it, and which ones a file needs.

The tables name a field of an object inside another by its way there; `*` stands for any name, or any entry of
a list.
"""

from __future__ import annotations

from collections import defaultdict

import pytest
from jsonschema import Draft202012Validator

from Middleware.config import (
    endpoints,
    key_file,
    machines,
    named_files,
    samplers,
    users,
    validation,
    workflows,
)
from Middleware.config.validation import schema

READERS = endpoints, key_file, machines, named_files, samplers, users, workflows
"""State the keys of their files when they are imported."""

TYPES = {
    ("user", "any"): """
        stream verboseLogging defaultParallelProcessWorkflow description
        chatCompleteAddUserAssistant chatCompletionAddMissingAssistantGenerator
    """,
    ("user", "integer"): """
        port maxCategorizationAttempts connectTimeoutInSeconds offlineWikiApiPort
        offlineResearcherApiPort maxWorkflowDepth maxParallelNodes staticStreamDelayMs
        advertisedContextLength
    """,
    ("user", "boolean"): """
        customWorkflowOverride allowSharedWorkflows separateConversationInVariables
        encryptUsingApiKey redactLogOutput interceptOpenWebUIToolRequests useOfflineWikiApi
        useOfflineResearcherApi useFileLogging
    """,
    ("user", "string"): """
        customWorkflow routingConfig categorizationWorkflow
        discussionIdMemoryFileWorkflowSettings fileMemoryToolWorkflow chatSummaryToolWorkflow
        conversationMemoryToolWorkflow recentMemoryToolWorkflow contextCompactorSettingsFile
        discussionDirectory sqlLiteDirectory endpointConfigsSubDirectory
        workflowConfigsSubDirectoryOverride presetConfigsSubDirectoryOverride
        structuredOutputConfigsSubDirectory sharedWorkflowsSubDirectoryOverride
        chatPromptTemplateName conversationSeparationDelimiter livenessToolCall/toolName
        offlineWikiApiHost offlineResearcherApiHost openWebUITaskWorkflow embeddingsEndpoint
        discussionIdFromHeader offlineWikiApiUrl
    """,
    ("user", "object"): """
        userWideWorkflowVariables livenessToolCall livenessToolCall/arguments
    """,
    ("user", "boolean|string"): """
        clampPromptToContextWindow
    """,
    ("user", "boolean|integer|string"): """
        steadyWindow
    """,
    ("user", "boolean|array"): """
        exposeEndpoints
    """,
    ("user", "words"): """
        progressOutput outboundPolicy
    """,
    ("user", "array"): """
        pythonModuleRoots
    """,
    ("endpoint", "string"): """
        endpoint modelNameToSendToAPI wilmerContextEstimationLevel promptTemplate
        appendPresetName backupEndpointName backupPresetName machine apiTypeConfigFileName
        modelNameForDisplayOnly apiKey apiKeyEnv textToAddToStartOfSystem
        textToAddToStartOfPrompt textToAddToStartOfCompletion pricePerMillionTokens/currency
    """,
    ("endpoint", "array"): """
        moreEndpoints
    """,
    ("endpoint", "boolean"): """
        dontIncludeModel strictPromptTemplate addGenerationPrompt backendSupportsToolTurns
        claudePrefill allowRemoteBackup requestStreamUsage promptCacheKey addTextToStartOfSystem
        addTextToStartOfPrompt addTextToStartOfCompletion
        ensureTextAddedToAssistantWhenChatCompletion
    """,
    ("endpoint", "object"): """
        extraHeaders presetSamplers pricePerMillionTokens
    """,
    ("endpoint", "integer"): """
        maxContextTokenSize maxConcurrentRequests
    """,
    ("endpoint", "boolean|string"): """
        clampPromptToContextWindow
    """,
    ("endpoint", "words"): """
        reasoningParser backendStream promptCaching
    """,
    ("endpoint", "any"): """ thinkTagText
    """,
    ("endpoint", "number"): """
        connectTimeoutInSeconds readTimeoutInSeconds pricePerMillionTokens/input
        pricePerMillionTokens/output pricePerMillionTokens/cached
        pricePerMillionTokens/cacheWrite
    """,
    ("apitype", "string"): """
        type nameForDisplayOnly presetType truncateLengthPropertyName maxNewTokensPropertyName
        streamPropertyName thinking/field structuredOutput/field promptCacheKeyPropertyName
    """,
    ("apitype", "object"): """
        samplerFieldMap thinking structuredOutput
    """,
    ("apitype", "words"): """
        backendStream thinking/mode thinking/location structuredOutput/style promptCacheMark
    """,
    ("apitype", "boolean"): """
        requestStreamUsage supportsChatTemplateKwargs structuredOutput/strict
    """,
    ("prompttemplate", "string"): """
        promptTemplateSystemPrefix promptTemplateSystemSuffix promptTemplateUserPrefix
        promptTemplateUserSuffix promptTemplateAssistantPrefix promptTemplateAssistantSuffix
        promptTemplateSystemmesPrefix promptTemplateSystemmesSuffix promptTemplateToolPrefix
        promptTemplateToolSuffix promptTemplateEndToken
    """,
    ("prompttemplate", "any"): """
        promptTemplateGenSeparator
    """,
    ("mcpserver", "words"): """
        transport
    """,
    ("mcpserver", "string"): """
        command cwd url
    """,
    ("mcpserver", "array"): """
        args allowedTools allowedHosts
    """,
    ("mcpserver", "object"): """
        env headers
    """,
    ("mcpserver", "integer"): """
        maxResultBytes
    """,
    ("mcpserver", "boolean"): """
        blockPrivateAddresses
    """,
    ("mcptool", "string"): """
        description name title inputs/*/description message
    """,
    ("mcptool", "object"): """
        inputs
    """,
    ("mcptool", "words"): """
        inputs/*/type
    """,
    ("mcptool", "array"): """
        inputs/*/enum
    """,
    ("mcptool", "any"): """
        inputs/*/default
    """,
    ("mcptool", "boolean"): """
        inputs/*/required chat
    """,
    ("routing", "object"): """
        _byMeaning
    """,
    ("routing", "string"): """
        _byMeaning/embeddingEndpointName _byMeaning/prefix */description */workflow
    """,
    ("routing", "number"): """
        _byMeaning/threshold _byMeaning/margin
    """,
    ("routing", "integer"): """
        _byMeaning/messages
    """,
    ("routing", "array"): """
        */examples
    """,
    ("machines", "integer"): """
        */maxConcurrentRequests
    """,
    ("keys", "array"): """
        keys keys/*/users
    """,
    ("keys", "string"): """
        keys/*/name keys/*/sha256 keys/*/folder keys/*/expires keys/*/turnsBy
    """,
    ("keys", "object"): """
        keys/*/limits keys/*/limits/costPerDay
    """,
    ("keys", "integer"): """
        keys/*/limits/concurrent keys/*/limits/queued keys/*/limits/requestsPerMinute
        keys/*/limits/tokensPerDay
    """,
    ("keys", "words"): """
        keys/*/priority
    """,
    ("keys", "boolean"): """
        keys/*/metrics
    """,
}
DEFAULTS = {
    "user": {
        "port": 5000,
        "customWorkflowOverride": False,
        "maxCategorizationAttempts": 1,
        "sharedWorkflowsSubDirectoryOverride": "_shared",
        "allowSharedWorkflows": False,
        "separateConversationInVariables": False,
        "conversationSeparationDelimiter": "\n",
        "clampPromptToContextWindow": False,
        "steadyWindow": False,
        "connectTimeoutInSeconds": 30,
        "encryptUsingApiKey": False,
        "redactLogOutput": False,
        "interceptOpenWebUIToolRequests": False,
        "useOfflineWikiApi": False,
        "offlineWikiApiHost": "127.0.0.1",
        "offlineWikiApiPort": 5728,
        "useOfflineResearcherApi": False,
        "offlineResearcherApiHost": "127.0.0.1",
        "offlineResearcherApiPort": 8890,
        "useFileLogging": False,
        "maxWorkflowDepth": 64,
        "maxParallelNodes": 4,
        "staticStreamDelayMs": 0,
        "advertisedContextLength": 131072,
        "exposeEndpoints": False,
        "progressOutput": "off",
        "outboundPolicy": "off",
    },
    "endpoint": {
        "moreEndpoints": [],
        "modelNameToSendToAPI": "",
        "dontIncludeModel": False,
        "extraHeaders": {},
        "wilmerContextEstimationLevel": "conservative",
        "strictPromptTemplate": False,
        "addGenerationPrompt": False,
        "backendSupportsToolTurns": True,
        "claudePrefill": True,
        "reasoningParser": "none",
        "allowRemoteBackup": False,
        "readTimeoutInSeconds": 14400,
        "backendStream": "asRequested",
        "requestStreamUsage": False,
        "promptCaching": "off",
        "promptCacheKey": False,
        "apiKey": "",
        "addTextToStartOfSystem": False,
        "addTextToStartOfPrompt": False,
        "addTextToStartOfCompletion": False,
        "ensureTextAddedToAssistantWhenChatCompletion": False,
        "pricePerMillionTokens/currency": "USD",
    },
    "apitype": {
        "samplerFieldMap": {},
        "supportsChatTemplateKwargs": False,
        "thinking/location": "top",
        "structuredOutput/strict": True,
    },
    "prompttemplate": {
        "promptTemplateSystemPrefix": "",
        "promptTemplateSystemSuffix": "",
        "promptTemplateUserPrefix": "",
        "promptTemplateUserSuffix": "",
        "promptTemplateAssistantPrefix": "",
        "promptTemplateAssistantSuffix": "",
        "promptTemplateSystemmesPrefix": "",
        "promptTemplateSystemmesSuffix": "",
        "promptTemplateToolPrefix": "",
        "promptTemplateToolSuffix": "",
        "promptTemplateEndToken": "",
    },
    "mcpserver": {"args": [], "blockPrivateAddresses": False},
    "mcptool": {"inputs/*/required": False, "chat": False},
    "routing": {
        "_byMeaning/threshold": 0.25,
        "_byMeaning/margin": 0.12,
        "_byMeaning/messages": 1,
        "*/examples": [],
    },
    "keys": {"keys/*/limits/queued": 50, "keys/*/priority": "people", "keys/*/metrics": False},
}
NEEDED = {
    "userpointer": "currentUser",
    "user": "livenessToolCall/toolName",
    "endpoint": "endpoint apiTypeConfigFileName pricePerMillionTokens/input pricePerMillionTokens/output",
    "apitype": "type",
    "mcpserver": "transport",
    "mcptool": "description",
    "routing": "_byMeaning/embeddingEndpointName */description */workflow",
    "keys": "keys keys/*/name keys/*/sha256 keys/*/users",
}


WORDS = """
    $schema additionalProperties allOf default description enum examples exclusiveMinimum if items maximum
    minItems minLength minProperties minimum pattern patternProperties properties propertyNames required then
    title type x-allowed x-form x-level x-open
"""
"""All words of the schemas: JSON Schema's, and ours that begin with `x-`."""
KINDS = [*DEFAULTS, "machines", "preset", "structuredoutput", "userpointer"]


@pytest.fixture(autouse=True)
def _own_sources(monkeypatch):
    """Only what the readers state: other modules hand in more, if they are there."""
    monkeypatch.setattr(validation, "_SOURCES", {})
    monkeypatch.setattr(validation, "_WHOLE", {})


def fields_of(part, at=""):
    """(way, schema) of each field."""
    for name, each in part.get("properties", {}).items():
        yield f"{at}{name}", each
        yield from fields_of(each, f"{at}{name}/")
    for word in ("items", "additionalProperties"):
        if isinstance(part.get(word), dict):
            yield from fields_of(part[word], f"{at}*/")


def schemas_of(part):
    """A schema, and all that are in it."""
    if isinstance(part, dict):
        yield part
        places = [part.get(word) for word in ("items", "additionalProperties", "propertyNames", "if", "then")]
        for word in ("properties", "patternProperties"):
            places += part.get(word, {}).values()
        for place in (*places, *part.get("allOf", ())):
            yield from schemas_of(place)


def needed_in(part, at=""):
    """The ways of the fields that must be there."""
    yield from (f"{at}{name}" for name in part.get("required", ()))
    for name, each in part.get("properties", {}).items():
        yield from needed_in(each, f"{at}{name}/")
    for word in ("items", "additionalProperties"):
        if isinstance(part.get(word), dict):
            yield from needed_in(part[word], f"{at}*/")


def sort_of(part):
    """`string`, `boolean|integer`, `words` for some words, `any`."""
    sort = part.get("type") or next((each["type"] for each in part.get("allOf", ()) if "type" in each), "any")
    return "words" if "enum" in part else sort if isinstance(sort, str) else "|".join(sort)


@pytest.mark.parametrize("kind", sorted({kind for kind, _ in TYPES}))
def test_what_each_field_takes(kind):
    found = defaultdict(list)
    for name, part in fields_of(schema(kind)):
        if not name.startswith("presetSamplers/"):  # those of a preset, in a test of their own
            found[kind, sort_of(part)].append(name)
    assert found == {key: names.split() for key, names in TYPES.items() if key[0] == kind}


@pytest.mark.parametrize(("kind", "defaults"), DEFAULTS.items(), ids=DEFAULTS)
def test_what_holds_without_a_field(kind, defaults):
    """Editors show it; an empty text is stated where nothing at all is meant."""
    found = {name: part["default"] for name, part in fields_of(schema(kind)) if "default" in part}
    assert found == defaults


@pytest.mark.parametrize("kind", KINDS)
def test_which_fields_a_file_needs(kind):
    assert list(needed_in(schema(kind))) == NEEDED.get(kind, "").split()


@pytest.mark.parametrize("kind", KINDS)
def test_a_schema_says_nothing_that_nobody_understands(kind):
    """An editor would pass over a word that is none."""
    Draft202012Validator.check_schema(schema(kind))
    words = {word for part in schemas_of(schema(kind)) for word in part}
    assert sorted(words - set(WORDS.split())) == []


@pytest.mark.parametrize("kind", KINDS)
def test_each_field_says_what_it_means(kind):
    """In a sentence, or some words, that end with a full stop. Old fields may be handed in by others."""
    said = [(name, part["description"]) for name, part in fields_of(schema(kind)) if "description" in part]
    assert [name for name, words in said if not words.endswith((".", "`.", ")"))] == []
