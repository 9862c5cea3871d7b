"""The settings file of memories as one value: wrong types are corrected if possible, else reported.

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
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.users import UserSettings
from Middleware.config.workflows import load_settings
from Middleware.utilities.text_utils import estimation_factor
from Middleware.workflows.models.execution_context import ExecutionContext

logger = logging.getLogger(__name__)

FILE_SETTING = "discussionIdMemoryFileWorkflowSettings"
DEFAULT_LOCK_TIMEOUT_S = 600.0
MEMORY_LEASE = "memory"
"""Whoever makes memories of a discussion holds it, of whichever kind they are."""
SUMMARY_LEASE, SUMMARY_WORKFLOW_LEASE = "summary", "summary-workflow"
"""Whoever folds memories into the summary; whoever runs the workflow that does. Two, for such a workflow may
run its nodes in threads of their own.
"""


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """A settings object and its file (`name`); every value is read through it. Raises ConfigError (file,
    key).
    """

    name: str
    values: Mapping[str, Any] = field(repr=False)

    def whole_number(self, key: str, default: int, *, minimum: int = 0) -> int:
        """A whole number, also one in a text."""
        number = self.number(key, default, minimum=minimum)
        if number != int(number):
            raise self._wrong(key, f"a whole number >= {minimum}")
        return int(number)

    def number(self, key: str, default: float, *, minimum: float = 0) -> float:
        """A number, also one in a text."""
        value = self.values.get(key)
        if value is None:
            return default
        try:
            number = float("" if isinstance(value, bool) else value)
        except (TypeError, ValueError):
            raise self._wrong(key, f"a number >= {minimum}") from None
        if not minimum <= number < float("inf"):
            raise self._wrong(key, f"a number >= {minimum}")
        return number

    def text(self, key: str, default: str = "") -> str:
        """A text; null counts as absent."""
        value = self.values.get(key)
        if value is None:
            return default
        if not isinstance(value, str):
            raise self._wrong(key, "a string")
        return value

    def flag(self, key: str) -> bool:
        value = self.values.get(key, False)
        return value.strip().lower() == "true" if isinstance(value, str) else bool(value)

    def scaled_size(self, key: str, default: int) -> int:
        """A size in tokens, times the factor of the estimation level."""
        return int(self.whole_number(key, default, minimum=1) * self._factor())

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
    return settings_file(context.snapshot, context.user, name)


def settings_file(snapshot: ConfigSnapshot, user: UserSettings, name: str) -> SettingsFile:
    """The settings object `name` of a user. Raises ConfigMissing, ConfigError."""
    file = paths.workflow_file(paths.workflow_folder(user), name)
    return SettingsFile(file, load_settings(snapshot, user, name))


def lock_timeout_s(settings: SettingsFile) -> float | None:
    """How long a run waits for its turn; None: for ever. What is no number counts as the default."""
    value = settings.values.get("condensationLockTimeoutSeconds", DEFAULT_LOCK_TIMEOUT_S)
    try:
        seconds = float("" if isinstance(value, bool) else value)
    except (TypeError, ValueError):
        seconds = DEFAULT_LOCK_TIMEOUT_S
    return seconds if seconds > 0 else None


def backfill_size(settings: SettingsFile) -> int:
    """How many older memories get a vector per chunk; 0 (with a warning) for what is no whole number."""
    value = settings.values.get("embeddingBackfillBatchSize", 20)
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
