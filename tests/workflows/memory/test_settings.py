"""The settings file as a value. Source: spec memory.md 6, 18.2 (14)."""

from __future__ import annotations

import pytest

from Middleware.common.errors import ConfigError
from Middleware.config.validation import check, schema
from Middleware.workflows.memory.settings import (
    COMPACTOR_KEYS,
    COMPACTOR_KIND,
    MEMORY_KEYS,
    MEMORY_KIND,
    SIZE,
    SettingsFile,
    backfill_size,
    lock_timeout_s,
)

NUMBER = {"n": SIZE("A number.", default=3)}


def settings(**values):
    return SettingsFile("Memory", values, NUMBER)


class TestNumbers:
    """Also in texts; anything else is told with file and key."""

    @pytest.mark.parametrize("value", [7, "7", " 7 ", 7.0], ids=repr)
    def test_a_whole_number(self, value):
        assert settings(n=value).whole_number("n") == 7

    @pytest.mark.parametrize("value", [None])
    def test_absent_and_null_are_the_default(self, value):
        assert settings(n=value).whole_number("n") == settings().whole_number("n") == 3

    @pytest.mark.parametrize("value", ["seven", True, [7], {}, 7.5, -1, float("inf"), "nan"], ids=repr)
    def test_anything_else_names_file_and_key(self, value):
        with pytest.raises(ConfigError, match=r"Memory: n: found .*, allowed: a (whole )?number >= 0"):
            settings(n=value).whole_number("n")

    def test_sizes_are_scaled_and_cut(self):
        level = {"wilmerContextEstimationLevel": "XAggressive "}
        assert settings(n=3, **level).scaled_size("n") == 5

    def test_an_unknown_level_is_conservative_with_a_warning(self, caplog):
        assert settings(n=3, wilmerContextEstimationLevel="wild").scaled_size("n") == 3
        assert "'wild' is unknown" in caplog.text


class TestOthers:
    """Texts, flags, overrides."""

    def test_a_text_that_is_none_names_file_and_key(self):
        with pytest.raises(ConfigError, match=r"Memory: t: found 5, allowed: a string"):
            settings(t=5).text("t")

    @pytest.mark.parametrize(("value", "on"), [(True, True), ("true", True), ("False", False), (0, False)])
    def test_flags(self, value, on):
        assert settings(f=value).flag("f") is on

    def test_an_override_that_is_empty_is_used_as_it_is(self):
        """Only an absent key falls back."""
        assert settings(a="", b="x").override("a", "b") == ""
        assert settings(b="x").override("a", "b") == "x"
        assert settings().override("a", "b") is None

    @pytest.mark.parametrize(
        ("value", "seconds"),
        [(5, 5.0), ("5", 5.0), (0, None), (-1, None), ("x", 600.0), (True, 600.0), (None, 600.0)],
    )
    def test_the_wait_for_the_turn(self, value, seconds):
        """No number: the default; nothing or less: for ever."""
        assert lock_timeout_s(settings(condensationLockTimeoutSeconds=value)) == seconds

    @pytest.mark.parametrize(
        ("value", "size"), [(5, 5), ("5", 5), (0, 0), (-3, 0), (True, 0), ("x", 0), (2.5, 0)]
    )
    def test_how_many_are_backfilled(self, value, size):
        assert backfill_size(settings(embeddingBackfillBatchSize=value)) == size
        assert backfill_size(settings()) == 20


@pytest.mark.parametrize(("kind", "keys"), [(MEMORY_KIND, MEMORY_KEYS), (COMPACTOR_KIND, COMPACTOR_KEYS)])
def test_other_names_in_the_file_are_somebody_elses(kind, keys):
    """Old files hold what nobody reads any more; a slip in a known name is reported all the same."""
    known = next(iter(keys))
    document = {"a remark of mine": "x", f"{known}s": 1}
    assert [found.pointer for found in check(document, schema(kind), "Memory.json")] == [f"/{known}s"]


DEFAULTS = {
    "lookbackStartTurn": 3,
    "chunkEstimatedTokenSize": 1000,
    "maxMessagesBetweenChunks": 5,
    "maxResponseSizeInTokens": 400,
    "condensationLockTimeoutSeconds": 600,
    "memoriesBeforeCondensation": 0,
    "memoryCondensationBuffer": 0,
    "condenseMemoriesMaxResponseSizeInTokens": 500,
    "vectorMemoryMaxResponseSizeInTokens": 1024,
    "vectorMemoryChunkEstimatedTokenSize": 1000,
    "vectorMemoryMaxMessagesBetweenChunks": 5,
    "embeddingBackfillBatchSize": 20,
    "stateDocumentMinRetentionRatio": 0.5,
}
COMPACTOR_DEFAULTS = {
    "maxResponseSizeInTokens": 750,
    "recentContextTokens": 20000,
    "oldContextTokens": 20000,
    "lookbackStartTurn": 5,
}
OTHERS = """
    useVectorForQualityMemory wilmerContextEstimationLevel fileMemoryWorkflowName systemPrompt prompt
    endpointName preset condenseMemories condenseMemoriesSystemPrompt condenseMemoriesPrompt
    condenseMemoriesEndpointName condenseMemoriesPreset vectorMemoryWorkflowName vectorMemoryEndpointName
    vectorMemoryPreset vectorMemoryIndexTopics embeddingEndpointName useStateDocument
    stateDocumentWorkflowName
"""
COMPACTOR_OTHERS = """
    endpointName preset wilmerContextEstimationLevel steadyWindow oldSectionSystemPrompt
    neutralSummarySystemPrompt oldestUpdateSystemPrompt oldSectionPrompt neutralSummaryPrompt
    oldestUpdatePrompt
"""


@pytest.mark.parametrize(
    ("keys", "defaults", "others"),
    [(MEMORY_KEYS, DEFAULTS, OTHERS), (COMPACTOR_KEYS, COMPACTOR_DEFAULTS, COMPACTOR_OTHERS)],
    ids=["memory", "compactor"],
)
def test_what_the_file_may_say_and_what_holds_without_it(keys, defaults, others):
    """A new key needs no line here; one of these may not go, and no number may change unseen."""
    assert {name: keys[name].default for name in defaults} == defaults
    assert [name for name in others.split() if name not in keys] == []
