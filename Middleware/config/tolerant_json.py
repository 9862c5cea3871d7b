"""JSON as people write it: a byte order mark, `//` and `/* */` comments and trailing commas are forgiven.

Pure. Anything else that is not JSON is a ConfigError with line and column of the text as written.
"""

from __future__ import annotations

import json
import re
from typing import Any

from Middleware.common.errors import ConfigError

_TOKENS = re.compile(r'"(?:[^"\\\n]|\\.)*"?|//[^\n]*|/\*.*?(?:\*/|\Z)|,(?=\s*[\]}])', re.DOTALL)
_COMMENT = re.compile(r"[^\n]")


def parse(raw: bytes, file: str) -> Any:
    """The value of a file's bytes. Raises ConfigError (`file`, line, column)."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"line {line}: not UTF-8 text", file=file) from error
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return _forgiving(text, file)
    except RecursionError as error:
        raise ConfigError("nested too deeply", file=file) from error


def _forgiving(text: str, file: str) -> Any:
    """Comments, then commas before a closing bracket, become blanks of the same length; then it must be
    JSON.
    """
    blanked = _without(text, "/")
    blanked = _without(blanked, ",")
    try:
        return json.loads(blanked)
    except json.JSONDecodeError as error:
        message = f"line {error.lineno}, column {error.colno}: not JSON: {error.msg}"
        raise ConfigError(message, file=file) from error
    except RecursionError as error:
        raise ConfigError("nested too deeply", file=file) from error


def _without(text: str, first: str) -> str:
    """`text` with the tokens that begin with `first` blanked out; strings and line ends stay."""

    def blank(match: re.Match[str]) -> str:
        token = match.group()
        return _COMMENT.sub(" ", token) if token.startswith(first) else token

    return _TOKENS.sub(blank, text)
