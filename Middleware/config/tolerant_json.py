"""JSON as people write it: a byte order mark, `//` and `/* */` comments and trailing commas are forgiven.

Pure. Anything else that is not JSON is a ConfigError with line and column of the text as written, and the
line itself.
"""

from __future__ import annotations

import codecs
import json
import math
import re
from collections.abc import Iterable
from typing import Any

from Middleware.common.errors import ConfigError
from Middleware.common.places import Position

_TOKENS = re.compile(r'"(?:[^"\\\n]|\\.)*"?|//[^\n]*|/\*.*?(?:\*/|\Z)|,(?=\s*[\]}])', re.DOTALL)
_COMMENT = re.compile(r"[^\n]")
_OUTSIDE = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s{}\[\],:"]+', re.DOTALL)
_LONG_NUMBER = re.compile(r"\d{4000,}")
_SECRET = re.compile(
    r"""(["'][^"']*(?:key|token|secret|password|authorization)[^"']*["']\s*:\s*["'])([^"']*)""", re.IGNORECASE
)
_MOST_BEFORE = 60
_CURLY = "\u201c\u201d\u201e\u2018\u2019\u00ab\u00bb"
_WORD = re.compile(r"[A-Za-z]+")
_BARE_NAME = re.compile(r"([A-Za-z_][\w-]{0,60})\s*:")
_OTHER_WORDS = {"true": "true", "false": "false", "none": "null", "null": "null", "undefined": "null"}
_HALF_A_CHARACTER = re.compile(r"\\u[dD][89a-fA-F]")
MAX_DEPTH = 100
"""Levels of lists and objects in a file; what walks through a document may recurse."""
_TOO_DEEP = f"nested too deeply: more than {MAX_DEPTH} levels"


def parse(raw: bytes, file: str) -> Any:
    """The value of a file's bytes. Raises ConfigError (`file`, position, the line with a caret)."""
    text = _decode_bytes(raw, file)
    try:
        try:
            value = _loads(text)
        except json.JSONDecodeError:
            value = _loads(without_comments(text))
    except json.JSONDecodeError as error:
        # Python's sentence goes on with the place, which stands before ours.
        said = error.msg.removesuffix(" at").removesuffix(" starting")
        raise syntax_error(f"not JSON: {said}{_hint(text, error, file)}", file, text, error.pos) from error
    except _NoNumber as error:
        raise syntax_error(str(error), file, text, _number_at(text, error.word)) from error
    except ValueError as error:  # Python reads no number of thousands of digits
        at = _offset(_LONG_NUMBER, text)
        raise syntax_error("holds a number with too many digits", file, text, at) from error
    except RecursionError as error:
        raise ConfigError(_TOO_DEEP, file=file) from error
    if _depth_exceeds(value, MAX_DEPTH):
        raise ConfigError(_TOO_DEEP, file=file)
    if _HALF_A_CHARACTER.search(text):
        _refuse_half_characters(value, file, text)
    return value


def _decode_bytes(raw: bytes, file: str) -> str:
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in raw[:4]:
        raise ConfigError("the file is UTF-16 or UTF-32 text, allowed: UTF-8; save it as UTF-8", file=file)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode("utf-8-sig")
        text = before + raw[error.start :].decode("utf-8", "replace")
        raise syntax_error("not UTF-8 text; save it as UTF-8", file, text, len(before)) from error


def syntax_error(message: str, file: str, text: str, at: int) -> ConfigError:
    """The error at an offset of the text, with its line and a caret below."""
    start = text.rfind("\n", 0, at) + 1
    position = Position(text.count("\n", 0, at) + 1, at - start + 1)
    return ConfigError(message, file=file, position=position, excerpt=_excerpt(text, start, at))


def _excerpt(text: str, start: int, at: int) -> str:
    """The line that begins at `start`, cut around `at`, secrets masked; below it a caret."""
    line = text[start:].partition("\n")[0].rstrip("\r")
    line = _SECRET.sub(lambda match: match[1] + "*" * len(match[2]), line)
    first = max(0, at - start - _MOST_BEFORE)
    shown = line[first : first + 2 * _MOST_BEFORE].replace("\t", " ")
    return f"\n    {shown}\n    {' ' * (at - start - first)}^" if line.strip() else ""


_SLIPS = {
    "Invalid control character at": r'a text ends on its own line with "; a line end in it is \n, a tab \t',
    "Unterminated string starting at": 'the " that closes this text is missing',
    "Invalid \\escape": "a backslash in a text is written \\\\",
    "Invalid \\uXXXX escape": "a backslash in a text is written \\\\",
    "Extra data": "the value of the file has ended before this",
}
"""What Python's parser says -> what to do about it."""


def _smallest(file: str) -> str:
    if file.startswith("Workflows/"):
        return 'the smallest workflow is [{"type": "Standard", "endpointName": "..."}]'
    return "the smallest object is {}"


def _hint(text: str, error: json.JSONDecodeError, file: str) -> str:
    """What people mean who write this."""
    at = error.pos
    if not text.strip():
        return f" (the file is empty; {_smallest(file)})"
    if error.msg in _SLIPS:
        return f" ({_SLIPS[error.msg]})"
    if not text[at:].strip():
        return " (the file ends here: a closing ] or } is missing)"
    sign = text[at : at + 1]
    if sign == "'":
        return " (JSON puts texts in double quotes, not single ones)"
    if sign in _CURLY and sign:
        return ' (JSON puts texts in straight double quotes ", not curly ones)'
    word = _WORD.match(text, at)
    if word and word[0].lower() in _OTHER_WORDS:
        return f" (JSON writes {_OTHER_WORDS[word[0].lower()]}, not {word[0]})"
    if error.msg.startswith("Expecting property name") and (name := _BARE_NAME.match(text, at)):
        return f' (names stand in double quotes: "{name[1]}":)'
    if error.msg.startswith("Expecting ',' delimiter"):
        return _after_a_value(text, at)
    return ""


def _after_a_value(text: str, at: int) -> str:
    """What is missing where a comma, or the end of a list or object, should follow a value."""
    before = text[:at].rstrip()
    between = text[len(before) : at]
    if before.endswith('"') and "\n" not in between and text[at : at + 1] not in "{[":
        return ' (a " inside a text is written \\")'
    return " (a comma is missing before this)" if "\n" in between or text[at : at + 1] in '"{[' else ""


def _number_at(text: str, word: str) -> int:
    """Where a number or word stands outside of texts and comments."""
    for match in _OUTSIDE.finditer(without_comments(text)):
        if match[0] == word:
            return match.start()
    return 0


def _offset(pattern: re.Pattern[str], text: str) -> int:
    match = pattern.search(text)
    return match.start() if match else 0


def _refuse_half_characters(value: Any, file: str, text: str) -> None:
    r"""An escape like `\ud83d` alone is no character: it could be neither sent, written nor logged."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        escape = f"\\u{ord(error.object[error.start]):04x}"
        at = _offset(re.compile(re.escape(escape), re.IGNORECASE), text)
        raise syntax_error(f"the escape {escape} is only half of a character", file, text, at) from error


class _NoNumber(ValueError):
    """A word that Python would read as an infinite number or as none; no setting can mean it."""

    def __init__(self, message: str, word: str) -> None:
        self.word = word
        super().__init__(message)


def _loads(text: str) -> Any:
    return json.loads(text, parse_constant=_no_constant, parse_float=_finite)


def _no_constant(word: str) -> Any:
    raise _NoNumber(f"not JSON: {word} is no number", word)


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise _NoNumber(f"the number {digits[:60]} is too large", digits)
    return number


def _depth_exceeds(value: Any, limit: int) -> bool:
    """Whether lists and objects stand more than `limit` levels inside each other. Without recursion."""
    level = [value]
    for _ in range(limit):
        level = [item for holder in level for item in _items(holder) if isinstance(item, (dict, list))]
        if not level:
            return False
    return True


def _items(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def without_comments(text: str) -> str:
    """Comments, then commas before a closing bracket, become blanks of the same length."""
    return _TOKENS.sub(_blank_comma, _TOKENS.sub(_blank_comment, text))


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
