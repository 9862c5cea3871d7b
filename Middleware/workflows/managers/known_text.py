"""What a text that may hold a placeholder says before any run, by the values of its workflow file. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_ONE_PLACEHOLDER = re.compile(r"\{([^{}\[\].!:]+)\}")


def known_text(value: object, variables: Mapping[str, Any]) -> str | None:
    """A name as it will be: as written, or the workflow variable that it is; None: only a run can tell."""
    if not isinstance(value, str) or not value:
        return None
    match = _ONE_PLACEHOLDER.fullmatch(value)
    if match:
        value = variables.get(match.group(1))
    return value if isinstance(value, str) and "{" not in value else None
