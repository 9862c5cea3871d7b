"""JSON as people write it: a byte order mark, `//` and `/* */` comments and trailing commas are forgiven.

Pure. Anything else that is not JSON is a ConfigError with line and column of the text as written.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from typing import Any

from Middleware.common.errors import ConfigError

_TOKENS = re.compile(r'"(?:[^"\\\n]|\\.)*"?|//[^\n]*|/\*.*?(?:\*/|\Z)|,(?=\s*[\]}])', re.DOTALL)
_COMMENT = re.compile(r"[^\n]")
_HALF_A_CHARACTER = re.compile(r"\\u[dD][89a-fA-F]")
MAX_DEPTH = 100
"""Levels of lists and objects in a file; what walks through a document may recurse."""
_TOO_DEEP = f"nested too deeply: more than {MAX_DEPTH} levels"


def parse(raw: bytes, file: str) -> Any:
    """The value of a file's bytes. Raises ConfigError (`file`, line, column)."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"line {line}: not UTF-8 text", file=file) from error
    try:
        try:
            value = _loads(text)
        except json.JSONDecodeError:
            value = _forgiving(text, file)
    except _NoNumber as error:
        raise ConfigError(str(error), file=file) from error
    except ValueError as error:  # Python reads no number of thousands of digits
        raise ConfigError("holds a number with too many digits", file=file) from error
    except RecursionError as error:
        raise ConfigError(_TOO_DEEP, file=file) from error
    if _depth_exceeds(value, MAX_DEPTH):
        raise ConfigError(_TOO_DEEP, file=file)
    if _HALF_A_CHARACTER.search(text):
        _refuse_half_characters(value, file)
    return value


def _refuse_half_characters(value: Any, file: str) -> None:
    r"""An escape like `\ud83d` alone is no character: it could be neither sent, written nor logged."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        escape = f"\\u{ord(error.object[error.start]):04x}"
        raise ConfigError(f"the escape {escape} is only half of a character", file=file) from error


class _NoNumber(ValueError):
    """A word that Python would read as an infinite number or as none; no setting can mean it."""


def _loads(text: str) -> Any:
    return json.loads(text, parse_constant=_no_constant, parse_float=_finite)


def _no_constant(word: str) -> Any:
    raise _NoNumber(f"not JSON: {word} is no number")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise _NoNumber(f"the number {digits[:60]} is too large")
    return number


def _depth_exceeds(value: Any, limit: int) -> bool:
    """Claims that lists and objects stand more than `limit` levels inside each other. Without recursion."""
    level = [value]
    for _ in range(limit):
        level = [item for holder in level for item in _items(holder) if isinstance(item, (dict, list))]
        if not level:
            return False
    return True


def _items(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _forgiving(text: str, file: str) -> Any:
    """Comments, then commas before a closing bracket, become blanks of the same length; then it must be
    JSON.
    """
    blanked = _TOKENS.sub(_blank_comment, text)
    blanked = _TOKENS.sub(_blank_comma, blanked)
    try:
        return _loads(blanked)
    except json.JSONDecodeError as error:
        message = f"line {error.lineno}, column {error.colno}: not JSON: {error.msg}"
        raise ConfigError(message, file=file) from error


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
