"""The keys that all nodes, those with a model and those with a child workflow have: what holds without them."""

from __future__ import annotations

import pytest

from Middleware.workflows.models.node_keys import CHILD_NODES, COMMON_KEYS, EVERY_NODE, MODEL_NODES

OFF = [
    "is_responder",
    "returnToUser",
    "jinja2",
    "addUserAssistantTags",
    "includeToolCallsInConversation",
    "useGroupChatTimestampLogic",
    "acceptImages",
    "allowTools",
    "appendNativeToolExchange",
    "useRelativeTimestamps",
    "lowercaseToolCallFunctionNames",
    "injectLivenessToolCall",
    "mergeConsecutiveAssistantMessages",
    "insertUserTurnBetweenAssistantMessages",
    "addUserTurnTemplate",
    "addOpenEndedAssistantTurnTemplate",
    "forceGenerationPromptIfEndpointAllows",
    "blockGenerationPrompt",
]
EMPTY = [
    "title",
    "agentName",
    "errorText",
    "parallelGroup",
    "endpointName",
    "preset",
    "presetName",
    "systemPrompt",
    "prompt",
    "structuredOutputFile",
    "workflowUserFolderOverride",
    "firstNodeSystemPromptOverride",
    "systemPromptOverride",
    "firstNodePromptOverride",
    "promptOverride",
]
UNSET = [
    "displayOnlyComment",
    "lastMessagesToSendInsteadOfPromptMaxTokenSize",
    "clampPromptToContextWindow",
    "clientParameters",
]
OTHERS = {
    "type": "Standard",
    "onNodeError": "raise",
    "nMessagesToIncludeInVariable": 5,
    "estimatedTokensToIncludeInVariable": 2048,
    "minMessagesInVariable": 5,
    "maxEstimatedTokensInVariable": 2048,
    "maxResponseSizeInTokens": 400,
    "maxContextTokenSize": 4096,
    "lastMessagesToSendInsteadOfPrompt": 5,
    "maxImagesToSend": 0,
    "mergeConsecutiveAssistantMessagesDelimiter": "\n",
    "insertedUserTurnText": "Continue.",
    "scoped_variables": (),
}
DEFAULTS = {**dict.fromkeys(OFF, False), **dict.fromkeys(EMPTY, ""), **dict.fromkeys(UNSET), **OTHERS}


def test_what_holds_without_a_key():
    """Null counts as absent."""
    assert {name: COMMON_KEYS[name].value(None) for name in DEFAULTS} == DEFAULTS


def test_each_key_belongs_to_one_kind_of_node():
    """All nodes, those that call a model, those that run another workflow."""
    assert COMMON_KEYS == {**EVERY_NODE, **MODEL_NODES, **CHILD_NODES}
    assert len(COMMON_KEYS) == len(EVERY_NODE) + len(MODEL_NODES) + len(CHILD_NODES)


@pytest.mark.parametrize("name", OFF)
def test_a_flag_is_read_leniently(name):
    """Another shape than true or false is a warning, and counts by its truth."""
    key = COMMON_KEYS[name]
    assert (key.value(True), key.value(1), key.value(0)) == (True, True, False)
