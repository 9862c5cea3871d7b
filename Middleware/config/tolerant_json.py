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
    blanked = _TOKENS.sub(_blank_comment, text)
    blanked = _TOKENS.sub(_blank_comma, blanked)
    try:
        return json.loads(blanked)
    except json.JSONDecodeError as error:
        message = f"line {error.lineno}, column {error.colno}: not JSON: {error.msg}"
        raise ConfigError(message, file=file) from error
    except RecursionError as error:
        raise ConfigError("nested too deeply", file=file) from error


def _blank_comment(match: re.Match[str]) -> str:
    token = match.group()
    return _COMMENT.sub(" ", token) if token.startswith("/") else token


def _blank_comma(match: re.Match[str]) -> str:
    """A comma after a value and before a closing bracket goes; one that follows no value stays an error."""
    if match.group() != ",":
        return match.group()
    before = match.start() - 1
    while before >= 0 and match.string[before].isspace():
        before -= 1
    return "," if before < 0 or match.string[before] in "[{,:" else " "
