"""The endpoint file of a server that was found (workbench.md 6, 7)."""

from __future__ import annotations

import pytest

from Middleware.llmapis.found_endpoints import (
    endpoint_document,
    is_variable_name,
    likely_model,
)

URL = "http://127.0.0.1:8080"


def test_one_without_a_key_says_what_its_server_holds():
    """As the example files do; text that models leave in their answers is cleaned."""
    document = endpoint_document(URL, "LlamaCppServer", "tiny")
    assert list(document)[:4] == [
        "endpoint",
        "apiTypeConfigFileName",
        "modelNameToSendToAPI",
        "maxContextTokenSize",
    ]
    assert document["removeThinking"] is True and "promptTemplate" not in document


def test_what_models_leave_in_their_answers():
    """Thoughts in all usual tags, the name of the speaker, empty lines around."""
    document = endpoint_document(URL, "LlamaCppServer", "tiny")
    cleaning = {
        "removeThinking": True,
        "thinkTagNames": ["think", "thinking", "thought", "reasoning", "reflection"],
        "removeCustomTextFromResponseStartEndpointWide": True,
        "responseStartTextToRemoveEndpointWide": ["Assistant:"],
        "trimBeginningAndEndLineBreaks": True,
    }
    assert {key: document.get(key) for key in cleaning} == cleaning


def test_one_with_a_key_names_it_and_says_no_limit():
    document = endpoint_document(URL, "Open-AI-API", "tiny", {"apiKeyEnv": "MODEL_API_KEY"})
    assert document["apiKeyEnv"] == "MODEL_API_KEY" and "maxContextTokenSize" not in document


def test_one_that_takes_a_flat_prompt_has_a_template():
    assert endpoint_document(URL, "KoboldCpp", "")["promptTemplate"] == "chatml"


@pytest.mark.parametrize(
    ("models", "likely"), [((), ""), (("embed-a",), "embed-a"), (("nomic-embed", "tiny", "big"), "tiny")]
)
def test_the_model_that_talks(models, likely):
    assert likely_model(models) == likely


@pytest.mark.parametrize(
    ("name", "is_one"), [("MODEL_API_KEY", True), ("sk-abc", False), ("", False), ("1A", False)]
)
def test_names_of_variables(name, is_one):
    """A key looks otherwise."""
    assert is_variable_name(name) is is_one
