"""What a secret is called, what a key looks like, and how texts and values are shown without them. Pure.

The one place for it: logs, error messages, the console's page, the dry run and the tools ask here, so that a
kind of key that is added to `KEY_STARTS` is masked in all of them. Two searches share its tables:
`mask_secrets` for what nobody edits (log lines, errors), which rather masks too much, and `mask_text` for
what people read and save again (config files, prompts), where prose about keys stays as it is.
Source: spec memory.md 14 and 18.7, console.md 2.6.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

MASK = "***"

# --------------------------------------------------------------------------
# The tables.

SECRET_WORDS = ("auth", "cookie", "credential", "key", "passw", "secret", "session", "signature", "token")
"""A name that holds one of these is a secret's, whatever stands around it: of headers, variables of the
environment, options of commands and parameters of a query.
"""
SECRET_NAME = re.compile("|".join(SECRET_WORDS), re.IGNORECASE)
SECRET_KEYS = frozenset(
    {
        "access_token",
        "api_key",
        "api_secret",
        "apikey",
        "auth",
        "auth_token",
        "authorization",
        "bearer_token",
        "client_secret",
        "passwd",
        "password",
        "private_key",
        "privatekey",
        "pwd",
        "refresh_token",
        "secret",
        "token",
    }
)
"""Keys of config files whose values are secrets, in lower case. Whole names: `maxTokens` is a number that
people want to see, and `keywords` is no key.
"""
SECRET_HOLDERS = frozenset({"extraheaders", "headers", "env"})
"""Keys, in lower case, of objects whose values are secrets when their own names hold a secret word."""
KEY_STARTS = (
    *("sk", "pk", "rk"),  # OpenAI, Anthropic, OpenRouter, DeepSeek and many others; Stripe
    *("xai", "gsk", "hf", "nvapi"),  # xAI, Groq, Hugging Face, NVIDIA
    *("pplx", "r8", "csk", "tgp"),  # Perplexity, Replicate, Cerebras, Together
    *("jina", "tvly"),  # Jina, Tavily
    *("ghp", "gho", "ghu", "ghs", "ghr", "github_pat", "glpat"),  # GitHub, GitLab
    *("xoxb", "xoxp"),  # Slack
)
"""How keys of services begin, up to the `-` or `_` that follows. Source: the services' own documentation, and
GitHub's "Supported secret scanning patterns".
"""
UNMARKED_KEY_STARTS = ("AIza",)
"""The same for keys that go on without a mark: Google's."""

MIN_SECRET = 6
"""A shorter key is not searched for in texts: it would be found everywhere."""
MIN_SECRET_OF_CALL = 4
"""The same for a text that answers the very call which carried the key."""
_AS_LONG_AS_A_TOKEN = 16


def is_secret_header(name: str, written: object = "") -> bool:
    """Whether a header may hold a key: by its name, or because `written`, its value in the file, is filled
    from the environment.
    """
    return bool(SECRET_NAME.search(name)) or "${" in str(written)


def is_secret_value(key: str, holder: str, value: object) -> bool:
    """Whether a config value is a secret as a whole. `key`: by which the object `holder` has it. What is
    empty, or null, hides nothing.
    """
    if value in (None, "", [], {}):
        return False
    if key.lower() in SECRET_KEYS:
        return True
    return holder.lower() in SECRET_HOLDERS and is_secret_header(key, value if isinstance(value, str) else "")


def is_secret_place(path: Sequence[object]) -> bool:
    """Whether the value at a path of a config file may be one: a wrong value may stand under a wrong name, so
    parts of names count; but `token` alone, which counts tokens in most names.
    """
    if not path:
        return False
    name, holder = str(path[-1]).lower(), str(path[-2]).lower() if len(path) > 1 else ""
    if name in SECRET_KEYS or holder in SECRET_HOLDERS:
        return True
    return any(word in name for word in SECRET_WORDS if word != "token")


# --------------------------------------------------------------------------
# Secrets that are known, or stand where one must be.


def mask_known(text: str, secrets: Iterable[str | None], min_length: int = MIN_SECRET) -> str:
    """`text` without these secrets, but for those that are shorter."""
    for secret in secrets:
        if secret and len(secret) >= min_length:
            text = text.replace(secret, MASK)
    return text


def secrets_of_header(value: str) -> tuple[str, ...]:
    """A header's value, and what stands behind its scheme."""
    return value, *value.split()[-1:]


def secrets_of_url(url: str) -> tuple[str, ...]:
    """The password in a URL, as it is written, as it is meant, and as `Authorization` carries it; a long
    user name without one, which is a token then; and what its query names a secret.
    """
    if "@" not in url and "?" not in url:
        return ()
    try:
        parts = urlsplit(url)
    except ValueError:
        return ()
    queried = [value for name, value in parse_qsl(parts.query) if SECRET_NAME.search(name)]
    if not parts.password:
        token = parts.username or ""
        return (*queried, token, unquote(token)) if len(token) >= _AS_LONG_AS_A_TOKEN else tuple(queried)
    user, password = unquote(parts.username or ""), unquote(parts.password)
    return (*queried, parts.password, password, base64.b64encode(f"{user}:{password}".encode()).decode())


def shown_url(url: str) -> str:
    """An address for people: scheme, host, port and path; no user, no query."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "an address that cannot be read"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


_ACCOUNTS = ("-u", "--user", "-U", "--proxy-user")
_NAME_AND_VALUE = re.compile(r"-{0,2}([\w.-]+)\s*[=:]\s*(.*)", re.DOTALL)
"""A name and its value in one word of a command line."""


def secrets_of_words(args: Sequence[str]) -> list[str]:
    """Secrets on a command line: `--token X`, `--token=X`, `-e API_KEY=X`, `--header "X-Key: X"`, URLs, and
    curl's `-u name:X`.
    """
    found: list[str] = []
    before = ""
    for arg in args:
        found += secrets_of_url(arg)
        found += _password_of(before, arg)
        named = _NAME_AND_VALUE.fullmatch(arg)
        if named and SECRET_NAME.search(named[1]):
            found += secrets_of_header(named[2].strip())
        elif before.startswith("-") and "=" not in before and SECRET_NAME.search(before):
            found.append(arg)
        before = arg
    return found


def _password_of(before: str, arg: str) -> list[str]:
    """Of a `name:password` behind one of curl's options, or in one word with it. A number is none: to other
    programs `--user 1000:1000` is an account and its group.
    """
    option, _, account = arg.partition("=") if arg.startswith("--") else (before, "", arg)
    password = account.partition(":")[2] if option in _ACCOUNTS else ""
    return [password] if password and not password.isdigit() else []


# --------------------------------------------------------------------------
# URLs, and keys that are known by their look.

_URL_PASSWORD = re.compile(r"((?<=[a-zA-Z0-9+.-])://[^\s/:@'\"]*+:)[^\s/@'\"]++(@)")
_URL_TOKEN = re.compile(rf"((?<=[a-zA-Z0-9+.-])://)[^\s/:@'\"]{{{_AS_LONG_AS_A_TOKEN},}}+(@)")
"""A user name as long as a token, without a password."""


def without_url_passwords(text: str) -> str:
    """`text` without passwords in URLs, and without user names there that are as long as a token."""
    if "@" not in text:
        return text
    return _URL_TOKEN.sub(rf"\1{MASK}\2", _URL_PASSWORD.sub(rf"\1{MASK}\2", text))


def has_url_password(text: str) -> bool:
    """Whether `without_url_passwords` finds something in a text, or found it before."""
    return "@" in text and bool(
        _URL_PASSWORD.search(text) or _URL_TOKEN.search(text) or f"://{MASK}@" in text
    )


_MASKED_PART = re.compile(r"://[^\s/@'\"]*\*\*\*@|[?&][^\s=&#]{1,60}=\*\*\*")


def has_masked_part(text: str) -> bool:
    """Whether an address in the text has a mask where a password, or a key of its query, was."""
    return _MASKED_PART.search(text) is not None


def mask_keys(text: str, *, same_length: bool = False) -> str:
    """`text` without what looks like a key; how it begins stays, so that people see which one it is. A word
    without a digit is none. `same_length`: a star for each character, where columns count.
    """
    lowered = text.lower()
    if not any(start in lowered for start in _key_hints()):
        return text
    if same_length:
        return _key_in_prose().sub(lambda match: match[1] + "*" * len(match[0][len(match[1]) :]), text)
    return _key_in_prose().sub(rf"\1{MASK}", text)


@cache
def _key_hints() -> tuple[str, ...]:
    """Lower case; a text without any of these holds no key."""
    marked = tuple(f"{start}{mark}" for start in KEY_STARTS for mark in "-_")
    return tuple(start.lower() for start in (*UNMARKED_KEY_STARTS, *marked))


@cache
def _key_like() -> re.Pattern[str]:
    marked, unmarked = "|".join((*KEY_STARTS, *UNMARKED_KEY_STARTS)), "|".join(UNMARKED_KEY_STARTS)
    return re.compile(rf"\b(?:{marked})[-_][A-Za-z0-9_-]{{12,}}+|\b(?:{unmarked})[A-Za-z0-9_-]{{20,}}+")


@cache
def _key_in_prose() -> re.Pattern[str]:
    """Group 1: how it begins. Prose has long words with a hyphen, but none of them has a digit."""
    start = rf"(?:{'|'.join(KEY_STARTS)})[-_]|{'|'.join(UNMARKED_KEY_STARTS)}"
    return re.compile(rf"(\b(?:{start}))(?:\*\*\*|(?=[\w-]{{0,100}}\d)[A-Za-z0-9_-]{{12,}})")


# --------------------------------------------------------------------------
# Log lines and messages. Each pattern starts at a literal and never gives back what it took, or the time
# would grow with the square of a long prompt's length.

_BEARER = re.compile(r"(?i)\b(bearer\s++)[^\s'\",;]++")
_AUTHORIZATION = re.compile(r"(?i)(authorization['\"]?\s*+[:=]\s*+['\"]?[a-z]++\s++)[^\s'\",;]++")
_KEY_AND_VALUE, _TOKEN_AND_VALUE = (re.compile(rf"{word}['\"]?\s*+[:=]") for word in ("key", "token"))
"""Words that many log lines hold: here a value follows. One pattern each: that begins with a text, which is
found many times faster than one of two."""
_NAMED = re.compile(
    r"(?i)(['\"]?\b(?:x-)?(?:" + "|".join(sorted(SECRET_KEYS)).replace("_", "[_-]?") + r")['\"]?\s*+[:=]\s*+)"
    r"(['\"]?)(?!bearer\b)[^\s'\",;}&]++"
)


_HINTS = ("secret", "auth", "passw", "pwd", "bearer", "@", *map(str.lower, UNMARKED_KEY_STARTS))
"""A text without any of these, without `key:`, `token:` and a marked key needs no closer look."""


@cache
def _like_a_marked_key() -> tuple[re.Pattern[str], ...]:
    """What stands behind a start, and the last two letters of any, for each mark. Each log line comes here:
    this spares nearly all of them a search for each start, also those with the id of a request.
    """
    before, last = ("".join(sorted({start[at] for start in KEY_STARTS})) for at in (-2, -1))
    form = rf"(?<=[{before}][{last}].)[A-Za-z0-9_-]{{12}}"
    return tuple(re.compile(mark + form) for mark in "-_")  # one mark at a time is found fastest


def _may_hold_secret(text: str) -> bool:
    """Whether a text needs a closer look. Nearly no log line does, and each comes here."""
    lowered = text.lower()
    return (
        any(map(lowered.__contains__, _HINTS))
        or ("key" in lowered and _KEY_AND_VALUE.search(lowered) is not None)
        or ("token" in lowered and _TOKEN_AND_VALUE.search(lowered) is not None)
        or (
            any(form.search(text) for form in _like_a_marked_key())
            and any(map(lowered.__contains__, _key_hints()))
        )
    )


def mask_secrets(text: str, *secrets: str | None) -> str:
    """`text` without bearer tokens, values of secret names, passwords in URLs, and the given secrets."""
    text = mask_known(text, secrets)
    if not _may_hold_secret(text):
        return text
    text = _AUTHORIZATION.sub(rf"\1{MASK}", text)
    text = _BEARER.sub(rf"\1{MASK}", text)
    text = _NAMED.sub(rf"\1\2{MASK}", text)
    return _key_like().sub(MASK, without_url_passwords(text))


def mask_answer(text: str, secrets: Iterable[str]) -> str:
    """What a backend said, without the keys of the call that it answers and without what looks like one."""
    return mask_keys(mask_known(text, secrets, MIN_SECRET_OF_CALL))


def mask_config(value: Any) -> Any:
    """A copy of a config value in which the values of secret names are masked, and keys inside of texts."""
    if isinstance(value, dict):
        return {
            key: MASK if str(key).lower() in SECRET_KEYS else mask_config(item) for key, item in value.items()
        }
    if isinstance(value, list):
        return [mask_config(item) for item in value]
    return mask_keys(value) if isinstance(value, str) else value


# --------------------------------------------------------------------------
# Texts that people read and save again: a secret in an address, a header, a command line, JSON in a text.

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
_OTHER_SIGNS = ("pwd", "bearer", "@", "?", "&")

_IN_QUERY = rf"([?&]{_PART}?(?:{SECRET_NAME.pattern}){_PART}=){_NO_VARIABLE}[^\s&#'\"]+"
_NAMED_SECRET = rf"((?<![\w-]){_COMPOUND}[\"']?[ \t]*[:=][ \t]*[\"']?){_WORD}"
_IN_JSON = (
    rf"((?:\"(?:{_PLAIN})\"[ \t]*:[ \t]*\"|'(?:{_PLAIN})'[ \t]*:[ \t]*'){_KNOWN_SCHEME})"
    rf"{_NO_VARIABLE}(?=[^\"'\r\n]*[\w*])[^\"'\r\n]+"
)
_HEADER_OF_KEY = (
    rf"((?<![\w-])(?:proxy-)?authorization"
    rf"(?:[:=](?=\S)|[ \t]*[:=][ \t]*{_SCHEME}(?=\*\*\*|\S+?{_END}))){_WORD}"
)
_COOKIE = rf"((?<![\w-])(?:set-)?cookie:[ \t]*){_NO_VARIABLE}(?:[^\s=\"']{{1,60}}=[^\"'\r\n]+|\*\*\*)"
_BEARER_IN_PROSE = r"(\bbearer[ \t]+)(?:\*\*\*|(?=\S{0,200}\d)[\w.~+/=-]{16,})"
_OPTION = (
    rf"((?<!\S)--[\w-]{{0,60}}?(?:{SECRET_NAME.pattern})[\w-]{{0,60}}(?:=|[ \t]+)[\"']?)"
    rf"(?!-){_WORD}"
)
_ENVIRONMENT = (
    r"((?<![A-Za-z0-9_])[A-Z][A-Z0-9_]{0,60}?(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD)[A-Z0-9_]{0,20}=[\"']?)"
    rf"{_WORD}"
)
_IN_ANY_CASE = (_IN_QUERY, _NAMED_SECRET, _IN_JSON, _HEADER_OF_KEY, _COOKIE, _BEARER_IN_PROSE, _OPTION)
_ANY_NAME = (
    rf"((?<![\w-])[\w-]{{0,60}}?(?:{SECRET_NAME.pattern})[\w-]{{0,60}}[\"']?"
    rf"[ \t]*[:=][ \t]*[\"']?{_KNOWN_SCHEME}){_WORD}"
)
"""In what is no prose: any name that says so, and its value."""
_QUOTED = re.compile(r"found [\"'].*?(?=, allowed: |\Z)", re.DOTALL)


@cache
def _signs() -> tuple[str, ...]:
    """A text without any of these needs no closer look."""
    return (*SECRET_WORDS, *_OTHER_SIGNS, *_key_hints())


@cache
def _forms(is_prose: bool) -> tuple[re.Pattern[str], ...]:
    """Made when the first text is looked at: a start of the server needs none of them."""
    in_any_case = tuple(re.compile(form, re.IGNORECASE) for form in _IN_ANY_CASE)
    forms = (*in_any_case, re.compile(_ENVIRONMENT), _key_in_prose())
    return forms if is_prose else (*forms, re.compile(_ANY_NAME, re.IGNORECASE))


def mask_text(text: str, *, is_prose: bool = True) -> str | None:
    """The text without its secrets; None: it holds none, and none was hidden in it.

    `is_prose`: false for headers and command lines.
    """
    lowered = text.lower()
    if not any(map(lowered.__contains__, _signs())):
        return None
    found = has_url_password(text)
    text = without_url_passwords(text)
    for form in _forms(is_prose):
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
