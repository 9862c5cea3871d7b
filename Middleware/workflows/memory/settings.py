"""The settings files of memories and of the compactor, each as one value: wrong types are corrected if
possible, else reported.

Source: spec memory.md 6, 18.2 (4, 14).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from Middleware.common.errors import ConfigError
from Middleware.common.types import NodeConfig
from Middleware.config import paths
from Middleware.config.endpoints import ESTIMATION_LEVEL
from Middleware.config.keys import FLAG, TEXT, Key
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.users import UserSettings
from Middleware.config.validation import state_file
from Middleware.config.workflows import load_settings
from Middleware.utilities.text_utils import estimation_factor
from Middleware.workflows.models.execution_context import ExecutionContext

logger = logging.getLogger(__name__)

SIZE = Key(should={"type": ["integer", "number", "string"], "minimum": 0})
"""A number, also one in a text."""
_WAIT = Key(should={"minimum": 0})

MEMORY_KEYS = {
    "useVectorForQualityMemory": FLAG("QualityMemory writes vector memories instead of file memories."),
    "lookbackStartTurn": SIZE("Newest messages that are never turned into memories.", default=3),
    "wilmerContextEstimationLevel": ESTIMATION_LEVEL("Scales both chunk sizes."),
    "chunkEstimatedTokenSize": SIZE("Tokens per file memory.", default=1000, minimum=1),
    "maxMessagesBetweenChunks": SIZE("Messages per file memory.", default=5, minimum=1),
    "fileMemoryWorkflowName": TEXT("Workflow that writes each memory.", form="names:workflows"),
    "systemPrompt": TEXT("System prompt of the call that writes a memory, where no workflow does."),
    "prompt": TEXT("Prompt of the call that writes a memory, where no workflow does."),
    "endpointName": TEXT("Model that writes memories."),
    "preset": TEXT("Its preset."),
    "maxResponseSizeInTokens": SIZE("How long a memory may get at most, in tokens.", default=400),
    "condensationLockTimeoutSeconds": _WAIT("Seconds to wait for the discussion's lock.", default=600),
    "condenseMemories": FLAG("Condense old file memories."),
    "memoriesBeforeCondensation": SIZE("How many are condensed at once.", default=0, minimum=1),
    "memoryCondensationBuffer": SIZE("Newest memories left alone.", default=0),
    "condenseMemoriesSystemPrompt": TEXT("System prompt for condensing, instead of the built-in one."),
    "condenseMemoriesPrompt": TEXT("Prompt for condensing, instead of the built-in one."),
    "condenseMemoriesEndpointName": TEXT("Model that condenses, instead of `endpointName`."),
    "condenseMemoriesPreset": TEXT("Preset for condensing, instead of `preset`."),
    "condenseMemoriesMaxResponseSizeInTokens": SIZE(
        "How long a condensed memory may get at most, in tokens.", default=500
    ),
    "vectorMemoryWorkflowName": TEXT("Workflow that gives the memories as JSON."),
    "vectorMemoryEndpointName": TEXT("Model that writes vector memories, instead of `endpointName`."),
    "vectorMemoryPreset": TEXT("Preset for vector memories, instead of `preset`."),
    "vectorMemoryMaxResponseSizeInTokens": SIZE(
        "How long the answer that holds new vector memories may get at most, in tokens.", default=1024
    ),
    "vectorMemoryChunkEstimatedTokenSize": SIZE("Tokens per chunk.", default=1000, minimum=1),
    "vectorMemoryMaxMessagesBetweenChunks": SIZE("Messages per chunk.", default=5, minimum=1),
    "vectorMemoryIndexTopics": FLAG("Also index the topics."),
    "embeddingEndpointName": TEXT("Embeddings endpoint for new memories.", form="names:endpoints"),
    "embeddingBackfillBatchSize": SIZE("Old memories embedded per chunk.", default=20),
    "useStateDocument": FLAG("Keep a state document."),
    "stateDocumentWorkflowName": TEXT("Workflow that merges it."),
    "stateDocumentMinRetentionRatio": SIZE("Shrink guard, 0 to 1.", default=0.5),
}
COMPACTOR_KEYS = {
    "endpointName": TEXT("Model that summarises."),
    "preset": TEXT("Its preset."),
    "maxResponseSizeInTokens": SIZE("How long a summary may get at most, in tokens.", default=750),
    "recentContextTokens": SIZE("Newest part that is kept as it is.", default=20000),
    "oldContextTokens": SIZE("Part that is summarised with its context.", default=20000),
    "lookbackStartTurn": SIZE("Newest messages left out.", default=5),
    "wilmerContextEstimationLevel": ESTIMATION_LEVEL("Scales both windows."),
    "steadyWindow": FLAG(
        "The newest part begins at the same message for many turns, so summaries are made less often."
    ),
    "oldSectionSystemPrompt": TEXT(
        "System prompt for summarising the old part, instead of the built-in one."
    ),
    "neutralSummarySystemPrompt": TEXT("System prompt for the neutral summary, instead of the built-in one."),
    "oldestUpdateSystemPrompt": TEXT(
        "System prompt for adding to the oldest summary, instead of the built-in one."
    ),
    "oldSectionPrompt": TEXT("Prompt for summarising the old part, instead of the built-in one."),
    "neutralSummaryPrompt": TEXT("Prompt for the neutral summary, instead of the built-in one."),
    "oldestUpdatePrompt": TEXT("Prompt for adding to the oldest summary, instead of the built-in one."),
}

FILE_SETTING = "discussionIdMemoryFileWorkflowSettings"
COMPACTOR_SETTING = "contextCompactorSettingsFile"
DEFAULT_LOCK_TIMEOUT_S = float(MEMORY_KEYS["condensationLockTimeoutSeconds"].default)
MEMORY_KIND, COMPACTOR_KIND = "memorysettings", "compactorsettings"
"""The kinds of these files (`validation.schema`)."""
KEYS_OF = {FILE_SETTING: MEMORY_KEYS, COMPACTOR_SETTING: COMPACTOR_KEYS}
"""User setting -> keys of the file that it names."""

state_file(
    MEMORY_KIND,
    "Memory settings",
    f"The file that the user setting `{FILE_SETTING}` names.",
    MEMORY_KEYS,
    open=True,
)
state_file(
    COMPACTOR_KIND,
    "Context compactor settings",
    f"The file that the user setting `{COMPACTOR_SETTING}` names.",
    COMPACTOR_KEYS,
    open=True,
)

MEMORY_LEASE = "memory"
"""Whoever makes memories of a discussion holds it, of whichever kind they are."""
SUMMARY_LEASE, SUMMARY_WORKFLOW_LEASE = "summary", "summary-workflow"
"""Whoever folds memories into the summary; whoever runs the workflow that does. Two, for such a workflow may
run its nodes in threads of their own.
"""


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """A settings object and its file (`name`); every value is read through it, as its key in `keys` says.

    Raises ConfigError (file, key).
    """

    name: str
    values: Mapping[str, Any] = field(repr=False)
    keys: Mapping[str, Key] = field(default_factory=lambda: MEMORY_KEYS, repr=False)

    def whole_number(self, name: str, *, minimum: int | None = None) -> int:
        """A whole number, also one in a text. `minimum`: where it is not the key's."""
        number = self.number(name, minimum=minimum)
        if number != int(number):
            raise self._wrong(name, f"a whole number >= {self._minimum(name, minimum)}")
        return int(number)

    def number(self, name: str, *, minimum: float | None = None) -> float:
        """A number, also one in a text. `minimum`: where it is not the key's."""
        value = self.values.get(name)
        if value is None:
            return float(self.keys[name].default)
        least = self._minimum(name, minimum)
        try:
            number = float("" if isinstance(value, bool) else value)
        except (TypeError, ValueError):
            raise self._wrong(name, f"a number >= {least}") from None
        if not least <= number < float("inf"):
            raise self._wrong(name, f"a number >= {least}")
        return number

    def _minimum(self, name: str, given: float | None) -> float:
        stated: float = self.keys[name].should["minimum"]
        return stated if given is None else given

    def text(self, name: str, default: str = "") -> str:
        """A text; null counts as absent."""
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, str):
            raise self._wrong(name, "a string")
        return value

    def flag(self, name: str) -> bool:
        """A flag; of the texts only `true` is one that is on."""
        value = self.values.get(name)
        return value.strip().lower() == "true" if isinstance(value, str) else bool(value)

    def scaled_size(self, name: str) -> int:
        """A size in tokens, times the factor of the estimation level."""
        return int(self.whole_number(name, minimum=1) * self._factor())

    def _factor(self) -> float:
        level = self.values.get("wilmerContextEstimationLevel")
        factor = estimation_factor(level)
        if factor is None:
            logger.warning(
                "%s: wilmerContextEstimationLevel: %r is unknown, so conservative is used", self.name, level
            )
        return 1.0 if factor is None else factor

    def _wrong(self, key: str, allowed: str) -> ConfigError:
        return ConfigError(
            f"found {self.values[key]!r}, allowed: {allowed}", file=self.name, pointer=f"/{key}"
        )

    def node(self, overrides: Mapping[str, Any]) -> NodeConfig:
        """The settings as the config of a direct LLM call, with some fields as they are for this call."""
        return {**self.values, "title": self.name, **overrides}

    def override(self, key: str, fallback: str) -> Any:
        """The value of `key`; only if that is absent, of `fallback`."""
        return self.values[key] if key in self.values else self.values.get(fallback)


def memory_settings(context: ExecutionContext) -> SettingsFile:
    """The user's memory settings. Raises ConfigError when the user names none, ConfigMissing, ConfigError."""
    return named_settings(context, context.user.discussion_id_memory_file_workflow_settings, FILE_SETTING)


def named_settings(context: ExecutionContext, name: str, setting: str) -> SettingsFile:
    """The settings object that the user file names under `setting`."""
    if not name:
        raise ConfigError(
            "no settings file is set", file=f"Users/{context.user.name}.json", pointer=f"/{setting}"
        )
    return settings_file(context.snapshot, context.user, name, KEYS_OF[setting])


def settings_file(
    snapshot: ConfigSnapshot, user: UserSettings, name: str, keys: Mapping[str, Key] = MEMORY_KEYS
) -> SettingsFile:
    """The settings object `name` of a user, read by `keys`. Raises ConfigMissing, ConfigError."""
    file = paths.workflow_file(paths.workflow_folder(user), name)
    return SettingsFile(file, load_settings(snapshot, user, name), keys)


def lock_timeout_s(settings: SettingsFile) -> float | None:
    """How long a run waits for its turn; None: for ever. What is no number counts as the default."""
    value = settings.values.get("condensationLockTimeoutSeconds")
    try:
        seconds = float("" if isinstance(value, bool) or value is None else value)
    except (TypeError, ValueError):
        seconds = DEFAULT_LOCK_TIMEOUT_S
    return seconds if seconds > 0 else None


def backfill_size(settings: SettingsFile) -> int:
    """How many older memories get a vector per chunk; 0 (with a warning) for what is no whole number."""
    key = MEMORY_KEYS["embeddingBackfillBatchSize"]
    value = settings.values.get("embeddingBackfillBatchSize", key.default)
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        logger.warning(
            "%s: embeddingBackfillBatchSize: %r is not a whole number, so nothing is backfilled",
            settings.name,
            value,
        )
        return 0
    return max(0, value)
