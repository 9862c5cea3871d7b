"""Secrets that configs name and the environment holds: `${ENV:NAME}` and `apiKeyEnv`. Read when used; which
values were used is known only so that the log can mask them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from Middleware.common.errors import ConfigError

ENV_REFERENCE = re.compile(r"\$\{ENV:([^}]*)\}")


_used: set[str] = set()


def secrets_in_use() -> tuple[str, ...]:
    """Every value that was read so far, longest first: what no log line may show."""
    return tuple(sorted(_used.copy(), key=len, reverse=True))


def from_environment(name: str, *, file: str = "", pointer: str = "") -> str:
    """The value of an environment variable. Raises ConfigError, naming it, when it is not set."""
    value = os.environ.get(name)
    if value is None:
        raise ConfigError(f"environment variable {name!r} is not set", file=file, pointer=pointer)
    _used.add(value.strip())
    return value


def expand(text: str, *, file: str = "", pointer: str = "") -> str:
    """`text` with each `${ENV:NAME}` replaced. Raises ConfigError when one is not set."""
    return ENV_REFERENCE.sub(lambda m: from_environment(m.group(1), file=file, pointer=pointer), text)


def expand_all(texts: Mapping[str, str], *, file: str = "", pointer: str = "") -> dict[str, str]:
    """As `expand`, for each value of an object of texts."""
    return {key: expand(str(text), file=file, pointer=f"{pointer}/{key}") for key, text in texts.items()}
