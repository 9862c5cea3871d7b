"""Flat prompts: each text of the endpoint once, the strip before the completion text, images beside."""

from __future__ import annotations

import pytest

from Middleware.config.endpoints import EndpointConfig
from Middleware.llmapis.handlers.base.base_completions_handler import (
    flat_images,
    flat_prompt,
    without_begin_token,
)

TEXTS = {
    "addTextToStartOfSystem": True,
    "textToAddToStartOfSystem": "s:",
    "addTextToStartOfPrompt": True,
    "textToAddToStartOfPrompt": "p:",
    "addTextToStartOfCompletion": True,
    "textToAddToStartOfCompletion": "\nc:",
}
OWN_TURN = {**TEXTS, "ensureTextAddedToAssistantWhenChatCompletion": True}


@pytest.mark.parametrize(
    ("system", "prompt", "endpoint", "full"),
    [
        pytest.param("S\n", "P\n", {}, "S\nP", id="joined-and-stripped"),
        pytest.param(None, None, {}, "", id="nothing"),
        pytest.param("S ", "P\n", TEXTS, "s:S p:P\nc:", id="texts-before-the-parts-and-behind-all"),
        pytest.param("S ", "P\n", OWN_TURN, "s:S p:P\nc:", id="a-turn-of-its-own-means-nothing-here"),
        pytest.param(" S ", "P\n", {"strictPromptTemplate": True}, " S P\n", id="strict-keeps-every-byte"),
        pytest.param(
            "S ", "P\n", {**TEXTS, "strictPromptTemplate": True}, "S P\n\nc:", id="strict-adds-the-last-text"
        ),
    ],
)
def test_flat_prompt(system, prompt, endpoint, full):
    """System, prompt, completion text."""
    assert flat_prompt(system, prompt, EndpointConfig("E", endpoint, "t", {})) == full


@pytest.mark.parametrize(
    ("prompt", "bare"),
    [("<s>a<s>", "a<s>"), ("<|begin_of_text|>a", "a"), ("a", "a"), ("<str>", "<str>"), ("", "")],
)
def test_one_begin_token_is_taken_off(prompt, bare):
    """At the very start."""
    assert without_begin_token(prompt) == bare


@pytest.mark.parametrize(
    ("conversation", "images"),
    [
        (None, []),
        ([], []),
        ([{"role": "user", "content": ""}], []),
        ([{"role": "user", "images": "QUJD"}], []),
        ([{"role": "assistant", "images": ["QUJD"]}], []),
        (
            [{"role": "user", "images": ["QUJD", "x:y"]}, {"role": "user", "images": ["QQ=="]}],
            ["QUJD", "QQ=="],
        ),
    ],
)
def test_images_of_the_users(conversation, images):
    """Oldest first, as base64 alone."""
    assert flat_images(conversation) == images
