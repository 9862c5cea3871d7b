"""Settings that need another one which is not there."""

from __future__ import annotations

import pytest

from Middleware.workflows.checks.workflow_check import INCOMPLETE

USER, ENDPOINT, API = "Users", "Endpoints", "ApiTypes"
NOTHING = [
    (ENDPOINT, {"textToAddToStartOfSystem": "x", "addTextToStartOfSystem": False}),
    (ENDPOINT, {"addTextToStartOfSystem": True, "textToAddToStartOfSystem": "x"}),
    (ENDPOINT, {"removeThinking": False}),
    (ENDPOINT, {"removeThinking": True, "thinkTagNames": ["think"]}),
    (ENDPOINT, {"removeThinking": True, "startThinkTag": "<t>", "endThinkTag": "</t>"}),
    (ENDPOINT, {"removeThinking": True, "expectOnlyClosingThinkTag": True, "endThinkTag": "</t>"}),
    (ENDPOINT, {"startThinkTag": "<t>", "thinkTagNames": ["think"]}),
    (USER, {"customWorkflowOverride": True, "routingConfig": "r"}),
    (USER, {"routingConfig": "r", "categorizationWorkflow": "c"}),
    (API, {"thinking": {"mode": "unsupported"}, "structuredOutput": None}),
    (API, {"thinking": {"mode": "bool", "field": "think"}, "structuredOutput": {"field": "f", "style": "raw"}}),
]  # fmt: skip


@pytest.mark.parametrize(("folder", "document"), NOTHING, ids=str)
def test_whole_settings(folder, document):
    """A text without its switch is kept for later."""
    assert list(INCOMPLETE[folder](document)) == []


@pytest.mark.parametrize(
    ("folder", "document", "fields"),
    [
        (ENDPOINT, {"addTextToStartOfSystem": True}, ["addTextToStartOfSystem"]),
        (ENDPOINT, {"addTextToStartOfPrompt": True, "textToAddToStartOfPrompt": ""}, ["addTextToStartOfPrompt"]),
        (ENDPOINT, {"ensureTextAddedToAssistantWhenChatCompletion": True}, ["ensureTextAddedToAssistantWhenChatCompletion"]),
        (
            ENDPOINT,
            {"removeCustomTextFromResponseStartEndpointWide": True, "responseStartTextToRemoveEndpointWide": [""]},
            ["removeCustomTextFromResponseStartEndpointWide"],
        ),
        (ENDPOINT, {"startThinkTag": "<t>"}, ["startThinkTag"]),
        (ENDPOINT, {"endThinkTag": "</t>", "thinkTagNames": [""]}, ["endThinkTag"]),
        (ENDPOINT, {"removeThinking": True}, ["removeThinking"]),
        (USER, {"routingConfig": "r"}, ["routingConfig"]),
        (USER, {"categorizationWorkflow": "c"}, ["categorizationWorkflow"]),
        (API, {"thinking": {"mode": "bool"}}, ["thinking"]),
        (API, {"structuredOutput": {"style": "raw"}}, ["structuredOutput"]),
    ],
    ids=str,
)  # fmt: skip
def test_a_switch_without_what_it_needs(folder, document, fields):
    assert [field for field, _ in INCOMPLETE[folder](document)] == fields
