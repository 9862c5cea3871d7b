"""A JSON file that a command is given: read as a config file is, and what is wrong is said as there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from Middleware.common.errors import ConfigError
from Middleware.config import json_positions as tolerant_json


def document_of(file: str) -> Any:
    """Its value. Raises ConfigError, which names the file and the place."""
    try:
        raw = Path(file).expanduser().read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror or error}", file=file) from error
    return tolerant_json.parse(raw, file)
