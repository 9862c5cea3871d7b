"""How much of a prompt its server had been sent before, in the page's numbers (prompt-reuse.md 3.2)."""

from __future__ import annotations

import pytest

from Middleware.api.console.prompt_reuse import (
    PromptTokens,
    held_share,
    place_words,
    prompt_json,
    prompt_tokens,
)
from Middleware.services.held_prompts import PromptPlace
from tests.api.console.traced import call_of

COMPARED = {"compared": True, "prompt_chars": 40_000, "shared_chars": 30_000}


class TestTokens:
    @pytest.mark.parametrize(
        ("facts", "told"),
        [
            (
                {**COMPARED, "usage": {"prompt_tokens": 12_400, "cached_tokens": 11_800}},
                PromptTokens(12_400, False, 11_800, False),
            ),
            ({**COMPARED, "usage": {"prompt_tokens": 12_400}}, PromptTokens(12_400, False, 9_300, True)),
            (COMPARED, PromptTokens(10_000, True, 7_500, True)),
            ({"prompt_chars": 41}, PromptTokens(11, True, None, False)),
            (
                {"prompt_chars": 41, "usage": {"prompt_tokens": 9, "cached_tokens": 0}},
                PromptTokens(9, False, 0, False),
            ),
            (
                {"prompt_chars": 41, "usage": {"prompt_tokens": 9, "cached_tokens": 12}},
                PromptTokens(9, False, 9, False),
            ),
            ({"prompt_chars": 41, "usage": {"cached_tokens": 12}}, PromptTokens(11, True, None, False)),
            ({}, None),
            ({"kind": "embedding", "prompt_chars": 41}, None),
        ],
        ids=[
            "the backend's numbers",
            "its prompt alone",
            "characters alone",
            "the first prompt",
            "the backend held nothing",
            "more held than sent",
            "held of an unknown prompt",
            "not sent",
            "no model",
        ],
    )
    def test_the_backend_s_numbers_come_first(self, facts, told):
        """Else what the characters say, as an estimate."""
        assert prompt_tokens(call_of(**facts)) == told


class TestShare:
    def test_it_is_of_all_prompts_together(self):
        """A short prompt weighs little."""
        long = call_of(usage={"prompt_tokens": 9000, "cached_tokens": 9000})
        short = call_of(usage={"prompt_tokens": 1000, "cached_tokens": 0})
        assert held_share([long, short]) == 0.9

    def test_what_is_not_known_does_not_count(self):
        """The first prompt to a server, and one that failed."""
        known = call_of(usage={"prompt_tokens": 100, "cached_tokens": 50})
        failed = call_of(error="gone", **COMPARED)
        assert held_share([known, call_of(prompt_chars=4000), failed]) == 0.5

    def test_of_nothing(self):
        assert held_share([call_of(prompt_chars=4000)]) is None


class TestPlace:
    @pytest.mark.parametrize(
        ("place", "words"),
        [
            (PromptPlace(0, 0, "tools"), "in the tools"),
            (PromptPlace(1, 256, "system"), "in the system prompt"),
            (PromptPlace(5, 0, "user"), "in message 5 (user)"),
            (PromptPlace(5, 0, "system"), "in message 5 (system)"),
            (PromptPlace(1, 512, "prompt"), "in the prompt"),
            (PromptPlace(5, 0, ""), "in message 5"),
        ],
    )
    def test_its_words(self, place, words):
        assert place_words(place) == words

    def test_its_json(self):
        """What the head of the tab Sent says."""
        call = call_of(leaves=PromptPlace(1, 256, "system"), **COMPARED)
        assert prompt_json(call) == {
            "tokens": 10_000,
            "about": True,
            "held": 7_500,
            "held_about": True,
            "compared": True,
            "leaves": {"message": 1, "character": 256, "where": "in the system prompt"},
        }

    def test_of_what_is_no_prompt(self):
        assert prompt_json(call_of(kind="http")) is None
