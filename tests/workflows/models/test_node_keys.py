"""The keys that all nodes, those with a model and those with a child workflow have: what holds without them."""

from __future__ import annotations

import pytest
from jsonschema import Draft202012Validator

from Middleware.workflows.models.node_keys import (
    CHILD_NODES,
    COMMON_KEYS,
    COUNT,
    EVERY_NODE,
    INTEGER,
    LIMIT,
    MODEL_NODES,
)

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


GROUPS = {
    "what": ["agentName", "displayOnlyComment", "title", "type"],
    "answer": ["is_responder", "returnToUser", "useGroupChatTimestampLogic"],
    "prompts": [
        "firstNodePromptOverride",
        "firstNodeSystemPromptOverride",
        "jinja2",
        "latePrompt",
        "latePromptPlace",
        "prompt",
        "promptOverride",
        "systemPrompt",
        "systemPromptOverride",
    ],
    "run": ["errorText", "onNodeError", "parallelGroup"],
    "conversation": [
        "acceptImages",
        "addUserAssistantTags",
        "clampPromptToContextWindow",
        "estimatedTokensToIncludeInVariable",
        "includeToolCallsInConversation",
        "insertUserTurnBetweenAssistantMessages",
        "insertedUserTurnText",
        "lastMessagesToSendInsteadOfPrompt",
        "lastMessagesToSendInsteadOfPromptMaxTokenSize",
        "maxEstimatedTokensInVariable",
        "maxImagesToSend",
        "mergeConsecutiveAssistantMessages",
        "mergeConsecutiveAssistantMessagesDelimiter",
        "minMessagesInVariable",
        "nMessagesToIncludeInVariable",
        "steadyWindow",
        "useRelativeTimestamps",
    ],
    "model": [
        "addOpenEndedAssistantTurnTemplate",
        "addUserTurnTemplate",
        "blockGenerationPrompt",
        "clientParameters",
        "endpointName",
        "forceGenerationPromptIfEndpointAllows",
        "maxContextTokenSize",
        "maxResponseSizeInTokens",
        "preset",
        "presetName",
        "structuredOutputFile",
    ],
    "tools": [
        "allowTools",
        "appendNativeToolExchange",
        "injectLivenessToolCall",
        "lowercaseToolCallFunctionNames",
    ],
}
FORMS = {
    "text": [
        "displayOnlyComment",
        "errorText",
        "firstNodePromptOverride",
        "firstNodeSystemPromptOverride",
        "latePrompt",
        "prompt",
        "promptOverride",
        "systemPrompt",
        "systemPromptOverride",
    ],
    "names:endpoints": ["endpointName"],
    "names:presets": ["preset", "presetName"],
    "names:structured_outputs": ["structuredOutputFile"],
}


def _fields_by(word):
    """Value of that word of a key's shape -> the common fields that have it."""
    found = {}
    for name, key in sorted(COMMON_KEYS.items()):
        if (value := {**key.must, **key.should}.get(word)) is not None:
            found.setdefault(value, []).append(name)
    return found


def test_the_group_that_an_editor_shows_a_field_in():
    assert _fields_by("x-group") == GROUPS


def test_the_form_that_a_field_is_filled_in_by():
    """Other than one line."""
    assert _fields_by("x-form") == FORMS


NUMBERS = [  # value, whether it may be a number, a count, a limit
    *[(value, True, True, True) for value in (1, 20, "1", " 007 ", "{n}", "a {n}")],
    *[(value, True, True, False) for value in (0, "0", " 00 ")],
    *[(value, True, False, False) for value in (-1, "-1")],
    *[(value, False, False, False) for value in ("1.5", "many", "", "1 2", True, None, [1])],
]


@pytest.mark.parametrize(("value", "integer", "count", "limit"), NUMBERS, ids=lambda value: repr(value))
def test_what_a_number_should_be(value, integer, count, limit):
    """It, or a text that holds one or a placeholder."""
    kinds = (INTEGER, integer), (COUNT, count), (LIMIT, limit)
    assert [Draft202012Validator(dict(kind.should)).is_valid(value) for kind, _ in kinds] == [
        fits for _, fits in kinds
    ]


def test_what_is_said_of_a_number_that_is_too_small():
    assert COUNT.should["x-allowed"].startswith("a whole number of 0 or more, or a text")
    assert LIMIT.should["x-allowed"].startswith("a whole number of 1 or more, or a text")
