"""The field that is meant by another word, or by a part of its name."""

from __future__ import annotations

import pytest

from Middleware.config.keys import OTHER_WORDS, field_meant

ENDPOINT = [
    "endpoint",
    "apiTypeConfigFileName",
    "modelNameToSendToAPI",
    "maxContextTokenSize",
    "apiKey",
    "apiKeyEnv",
]
NODE = [
    "endpointName",
    "prompt",
    "systemPrompt",
    "preset",
    "maxResponseSizeInTokens",
    "maxEstimatedTokensInVariable",
]

MEANT = [  # a name, the fields that it may mean -> the one that it means
    ("model", ENDPOINT, "modelNameToSendToAPI"),
    ("model_name", ENDPOINT, "modelNameToSendToAPI"),
    ("baseURL", ENDPOINT, "endpoint"),
    ("api_type", ENDPOINT, "apiTypeConfigFileName"),
    ("context-size", ENDPOINT, "maxContextTokenSize"),
    ("endpoint", NODE, "endpointName"),
    ("max_tokens", NODE, "maxResponseSizeInTokens"),
    ("userPrompt", NODE, "prompt"),
    ("system", NODE, "systemPrompt"),
    ("workflow", ["workflowName", "workflowUserFolderOverride"], "workflowName"),
    ("lockId", ["workflowLockId"], "workflowLockId"),
    ("name", ["agentName", "workflowUserName"], None),
    ("colour", NODE, None),
    ("", NODE, None),
    ("modelNameToSendToAPI", ENDPOINT, None),
    ("vector", ["vectorMemoryPreset", "vectorMemoryLimit"], None),
    ("workflowName", ["workflow", "prompt"], "workflow"),
    ("moss", ["oldMossGreen"], "oldMossGreen"),
    ("moss", ["veryOldMossGreen"], None),
    ("mossGreen", ["greenMoss"], None),
    ("moss", ["mossThatGrowsOnStones"], "mossThatGrowsOnStones"),
    ("mossGreen", ["oldMossGreenOnStone"], None),
]


@pytest.mark.parametrize(("name", "fields", "meant"), MEANT, ids=lambda value: str(value)[:24])
def test_what_is_meant(name, fields, meant):
    """Nothing where two fields are as likely."""
    assert field_meant(name, fields) == meant


@pytest.mark.parametrize("field", OTHER_WORDS)
def test_each_of_its_words_leads_to_a_field(field):
    """Where no other field stands."""
    assert {field_meant(word, [field]) for word in OTHER_WORDS[field].split()} == {field}


@pytest.mark.parametrize(
    ("word", "field"),
    [
        ("bearer", "apiKey"),
        ("provider", "apiTypeConfigFileName"),
        ("expression", "condition"),
        ("response", "content"),
        ("workflow", "customWorkflow"),
        ("desc", "description"),
        ("apiBase", "endpoint"),
        ("endpointsFolder", "endpointConfigsSubDirectory"),
        ("llm", "endpointName"),
        ("filename", "filepath"),
        ("content", "input"),
        ("answers", "is_responder"),
        ("namedArguments", "kwargs"),
        ("params", "args"),
        ("lastMessages", "lastMessagesToSendInsteadOfPrompt"),
        ("numCtx", "maxContextTokenSize"),
        ("numPredict", "maxResponseSizeInTokens"),
        ("model", "modelNameToSendToAPI"),
        ("script", "module_path"),
        ("samplers", "preset"),
        ("userMessage", "prompt"),
        ("query", "promptToSearch"),
        ("timeout", "requestTimeoutSeconds"),
        ("respond", "returnToUser"),
        ("delimiter", "separator"),
        ("parts", "strings"),
        ("sysPrompt", "systemPrompt"),
        ("tool", "toolName"),
        ("server", "serverName"),
        ("timeout", "timeoutSeconds"),
        ("link", "url"),
        ("workflowName", "workflow"),
        ("workflowFolder", "workflowConfigsSubDirectoryOverride"),
        ("lock", "workflowLockId"),
        ("child", "workflowName"),
    ],
)
def test_words_of_other_programs(word, field):
    """Each field of the table has at least this one."""
    assert field_meant(word, [field]) == field
    assert field in OTHER_WORDS
