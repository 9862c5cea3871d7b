"""Secrets inside of a longer text of a config file: in an address, a header, a command line, JSON in a text.
Pure.

Only what is written as nobody writes prose is hidden: a prompt that speaks of keys stays readable. What was
hidden once is found again, so that a mask that stands for nothing is known. Source: spec console.md 2.6.
"""

from __future__ import annotations

import re

from Middleware.utilities.sensitive_logging_utils import (
    MASK,
    SECRET_NAME,
    has_url_password,
    without_url_passwords,
)

_NO_VARIABLE = r"(?![{$<%])"
"""A value that begins so is filled in later, or stands for one in a manual."""
_WORD = rf"{_NO_VARIABLE}[^\s\"'`&]+"
_SCHEME = r"(?:[A-Za-z][\w-]{0,20}[ \t]+)?"
_KNOWN_SCHEME = r"(?:(?:bearer|basic|digest|token)[ \t]+)?"
_END = r"(?=[ \t]*(?:[\"'`\r\n,;)\]}]|\Z))"
_PART = r"[^\s=&#?'\"]{0,60}"
_COMPOUND = (
    r"(?:x-(?:[a-z0-9]{1,30}-){0,5}(?:key|token|secret|auth|password)"
    r"|(?:[a-z]{1,20}-){0,3}(?:api|access|auth|client|private|refresh|bearer|session)[-_]?"
    r"(?:key|token|secret|password))"
)
"""Names that are no words of prose: `X-Api-Key`, `client_secret`."""
_PLAIN = r"(?:proxy-)?authorization|(?:set-)?cookie|auth|token|password|passwd|pwd|secret"
"""Names that prose uses, too: they count where the form leaves no doubt."""
_SIGNS = re.compile(
    r"auth|key|secret|token|passw|pwd|cookie|bearer|@|[?&]|[sprx]k[-_]|xai|hf[-_]|ghp|aiza", re.IGNORECASE
)
"""A text without any of these needs no closer look."""

_IN_QUERY = rf"([?&]{_PART}?(?:{SECRET_NAME.pattern}){_PART}=){_NO_VARIABLE}[^\s&#'\"]+"
_NAMED_SECRET = rf"((?<![\w-]){_COMPOUND}[\"']?[ \t]*[:=][ \t]*[\"']?){_WORD}"
_IN_JSON = (
    rf"((?:\"(?:{_PLAIN})\"[ \t]*:[ \t]*\"|'(?:{_PLAIN})'[ \t]*:[ \t]*'){_KNOWN_SCHEME})"
    rf"{_NO_VARIABLE}(?=[^\"'\r\n]*[\w*])[^\"'\r\n]+"
)
_AUTHORIZATION = (
    rf"((?<![\w-])(?:proxy-)?authorization"
    rf"(?:[:=](?=\S)|[ \t]*[:=][ \t]*{_SCHEME}(?=\*\*\*|\S+?{_END}))){_WORD}"
)
_COOKIE = rf"((?<![\w-])(?:set-)?cookie:[ \t]*){_NO_VARIABLE}(?:[^\s=\"']{{1,60}}=[^\"'\r\n]+|\*\*\*)"
_BEARER = r"(\bbearer[ \t]+)(?:\*\*\*|(?=\S{0,200}\d)[\w.~+/=-]{16,})"
_OPTION = (
    rf"((?<!\S)--[\w-]{{0,60}}?(?:{SECRET_NAME.pattern})[\w-]{{0,60}}(?:=|[ \t]+)[\"']?)"
    rf"(?!-){_WORD}"
)
_ENVIRONMENT = (
    r"((?<![A-Za-z0-9_])[A-Z][A-Z0-9_]{0,60}?(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD)[A-Z0-9_]{0,20}=[\"']?)"
    rf"{_WORD}"
)
_KEY_LIKE = r"(\b(?:(?:sk|pk|rk|xai|gsk|hf|ghp)[-_]|AIza))(?:\*\*\*|(?=[\w-]{0,100}\d)[A-Za-z0-9_-]{12,})"
_IN_ANY_CASE = (_IN_QUERY, _NAMED_SECRET, _IN_JSON, _AUTHORIZATION, _COOKIE, _BEARER, _OPTION)
_FORMS = (
    *(re.compile(form, re.IGNORECASE) for form in _IN_ANY_CASE),
    *map(re.compile, (_ENVIRONMENT, _KEY_LIKE)),
)
_ANY_NAME = re.compile(
    rf"((?<![\w-])[\w-]{{0,60}}?(?:{SECRET_NAME.pattern})[\w-]{{0,60}}[\"']?"
    rf"[ \t]*[:=][ \t]*[\"']?{_KNOWN_SCHEME}){_WORD}",
    re.IGNORECASE,
)
"""In what is no prose: any name that says so, and its value."""

_QUOTED = re.compile(r"found [\"'].*?(?=, allowed: |\Z)", re.DOTALL)


def mask_text(text: str, *, is_prose: bool = True) -> str | None:
    """The text without its secrets; None: it holds none, and none was hidden in it.

    `is_prose`: false for headers and command lines.
    """
    if not _SIGNS.search(text):
        return None
    found = has_url_password(text)
    text = without_url_passwords(text)
    for form in _FORMS if is_prose else (*_FORMS, _ANY_NAME):
        text, count = form.subn(rf"\1{MASK}", text)
        found = found or count > 0
    return text if found else None


def without_quoted_secrets(sentence: str) -> str:
    """What is wrong with a file, without the value that it quotes where that holds a secret: the quote may be
    cut, or written as JSON writes it.
    """
    plain = sentence.replace("\\n", "\n").replace('\\"', '"')
    holds = any(mask_text(quote[0], is_prose=False) is not None for quote in _QUOTED.finditer(plain))
    return _QUOTED.sub(f"found {MASK}", sentence) if holds else sentence
