"""`Keys.json`: who may ask what, as values. The file holds digests and never a key.

Stricter than other config files: an unknown field, a wrong type or a name that stands twice makes it faulty,
so that a misspelt limit is not none. Source: spec keys.md 1.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time, timedelta
from types import MappingProxyType
from typing import Any

from Middleware.common.asker import BACKGROUND, PEOPLE
from Middleware.common.wildcards import fits
from Middleware.config.json_positions import parse, place_findings, repeated_keys, without_comments
from Middleware.config.keys import (
    FLAG,
    MOST_AT_ONCE,
    TEXT,
    TEXTS,
    WHOLE,
    Key,
    object_of,
    object_schema,
    one_of,
)
from Middleware.config.paths import KEYS_FILE
from Middleware.config.validation import ERROR, WARNING, Finding, check, errors_of, schema, state_file

QUEUED = 50
"""How many requests of a name may wait where its entry does not say."""
MOST_A_DAY = 10**15
"""The largest limit of what is counted over a day."""


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """What an entry may use. None: no limit. `cost_per_day`: currency -> amount. Source: spec keys.md 4."""

    concurrent: int | None = None
    queued: int = QUEUED
    requests_per_minute: int | None = None
    tokens_per_day: int | None = None
    cost_per_day: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """One key. `sha256`: of its bytes, lower case. `users`: patterns of users that it may ask. `folder`: of
    its discussions, `""`: that of chats without a key, None: the key's hash. `expires`: unix seconds from
    which on it is none. `turns_by`: the header whose values take turns as names of their own. `metrics`: it
    may read them.
    """

    name: str
    sha256: str = field(repr=False)
    users: tuple[str, ...] = ()
    folder: str | None = None
    expires: float | None = None
    limits: KeyLimits = field(default_factory=KeyLimits)
    priority: str = PEOPLE
    turns_by: str = ""
    metrics: bool = False

    def may_ask(self, user: str) -> bool:
        """Upper and lower case differ."""
        return any(fits(pattern, user) for pattern in self.users)

    def has_expired(self, now: float) -> bool:
        """`now`: unix seconds."""
        return self.expires is not None and now >= self.expires


# --------------------------------------------------------------------------
# What the file may hold.


_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
_SHA256 = r"^[0-9a-fA-F]{64}$"
_FOLDER = r"^([a-z0-9][a-z0-9_-]{0,63})?$"
_HEADER = r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$"
_CURRENCY = r"^\S{1,16}$"
_DEVICES = {"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in "0123456789")}
_SECRET_HEADERS = {"authorization", "proxy-authorization", "x-api-key", "api-key", "cookie"}
"""Headers whose values must not become a name."""

LIMIT_KEYS: dict[str, Key] = {
    "concurrent": WHOLE("How many requests may run at once.", minimum=1, maximum=MOST_AT_ONCE),
    "queued": WHOLE(
        "How many requests may wait for their turn; 0: none.",
        default=QUEUED,
        minimum=0,
        maximum=MOST_AT_ONCE,
    ),
    "requestsPerMinute": WHOLE("How many requests a minute.", minimum=1, maximum=MOST_AT_ONCE),
    "tokensPerDay": WHOLE(
        "How many tokens a day: of prompts and answers, over all calls.", minimum=1, maximum=MOST_A_DAY
    ),
    "costPerDay": Key(
        must={
            "type": "object",
            "additionalProperties": {"type": "number", "exclusiveMinimum": 0, "maximum": MOST_A_DAY},
            "propertyNames": {"pattern": _CURRENCY, "x-allowed": "a currency, such as USD"},
        }
    )('How much a day, by currency: `{"USD": 2.5}`.'),
}

ENTRY_KEYS: dict[str, Key] = {
    "name": TEXT(
        "Stands in logs, metrics and the console.",
        required=True,
        pattern=_NAME,
        allowed="1 to 64 letters, digits, `.`, `_`, `-`, the first one a letter or digit",
    ),
    "sha256": TEXT(
        "SHA-256 of the key, as `--keys add` writes it.",
        required=True,
        pattern=_SHA256,
        allowed="64 hex digits",
    ),
    "users": TEXTS(
        "Users whose workflows the key may ask; `*` stands for any run of characters.", required=True
    ),
    "folder": TEXT(
        "Folder of its discussions in place of the key's hash; empty: that of chats without a key.",
        pattern=_FOLDER,
        allowed="up to 64 of a-z, 0-9, `_`, `-`, the first one a letter or digit",
    ),
    "expires": TEXT("Its last day, `2027-06-30`, or a time with its zone."),
    "limits": object_of(LIMIT_KEYS, additionalProperties=False)("What it may use."),
    "priority": one_of(PEOPLE, BACKGROUND)("Whether it lets people go first.", default=PEOPLE),
    "turnsBy": TEXT(
        "A header, each value of which takes turns as a name of its own.",
        pattern=_HEADER,
        allowed="the name of a header",
    ),
    "metrics": FLAG.strict("Whether it may read `/metrics`.", default=False),
}

KEYS_KIND = "keys"
state_file(
    KEYS_KIND,
    "Keys",
    "Keys.json: who may ask what. It holds digests of keys, never a key.",
    {
        "keys": Key(must={"type": "array", "items": object_schema(ENTRY_KEYS, additionalProperties=False)})(
            "One entry for each key.", required=True
        )
    },
    additionalProperties=False,
)


def digest_of(key: str) -> str:
    """The SHA-256 of a key, blanks around it cut, as 64 hex digits."""
    return hashlib.sha256(key.strip().encode("utf-8", "surrogatepass")).hexdigest()


def read_keys(raw: bytes, file: str = KEYS_FILE) -> tuple[KeyEntry, ...]:
    """The entries of a file's bytes. Raises ConfigError that holds every fault, with their places."""
    document = parse(raw, file)
    faults = [*keys_findings(document, file), *_doubled(raw, file)]
    if error := errors_of(place_findings(faults, raw)):
        raise error
    return tuple(_entry(one) for one in document["keys"])


def _doubled(raw: bytes, file: str) -> list[Finding]:
    """A field that stands twice in its object: nobody sees which of them counts."""
    if not _has_doubled(raw):  # to say where takes as long as all the rest
        return []
    return [Finding(file, one.pointer, ERROR, one.message) for one in repeated_keys(raw, file)]


def _has_doubled(raw: bytes) -> bool:
    found = False

    def look(pairs: list[tuple[str, Any]]) -> None:
        nonlocal found
        found = found or len({name for name, _ in pairs}) < len(pairs)

    json.loads(without_comments(raw.decode("utf-8-sig")), object_pairs_hook=look)
    return found


def keys_findings(document: Any, file: str = KEYS_FILE) -> list[Finding]:
    """Every fault of the document; each is an error."""
    found = [Finding(file, pointer, ERROR, "found null, allowed: a value") for pointer in _nulls(document)]
    found += [_without_digest(one) for one in check(document, schema(KEYS_KIND), file) if one.level == ERROR]
    if found:
        return found
    entries = document["keys"]
    for index, entry in enumerate(entries):
        found += (Finding(file, f"/keys/{index}/{name}", ERROR, why) for name, why in _faults_of_entry(entry))
    for name, fold in (("name", str.casefold), ("sha256", str.lower)):
        found += _found_twice([fold(entry[name]) for entry in entries], name, file)
    return found


def _without_digest(finding: Finding) -> Finding:
    """Where a digest should stand somebody may have put the key."""
    if not finding.pointer.endswith("/sha256"):
        return finding
    return replace(
        finding, message=f"found something else, allowed: {ENTRY_KEYS['sha256'].must['x-allowed']}"
    )


def _nulls(value: Any, pointer: str = "") -> Iterator[str]:
    """Where null stands: elsewhere it is an absent key, here a limit that somebody meant."""
    if value is None:
        yield pointer
    members: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, Mapping):
        members = value.items()
    elif isinstance(value, list):
        members = enumerate(value)
    for name, member in members:
        yield from _nulls(member, f"{pointer}/{str(name).replace('~', '~0').replace('/', '~1')}")


def is_key_folder(name: str) -> bool:
    """Whether an entry may name this folder."""
    return re.fullmatch(_FOLDER, name) is not None and name not in _DEVICES


def _faults_of_entry(entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(field, what is wrong) of an entry that fits the schema."""
    for name, key in ENTRY_KEYS.items():
        pattern = key.must.get("pattern")
        if pattern and name in entry and entry[name].endswith("\n"):  # `$` also fits before it
            yield name, f"found a line break, allowed: {key.must['x-allowed']}"
    if entry.get("folder") in _DEVICES:
        yield "folder", "found the name of a device of Windows, allowed: another name"
    if str(entry.get("turnsBy", "")).lower() in _SECRET_HEADERS:
        yield "turnsBy", "found a header that holds a secret, allowed: a header that names a person"
    try:
        _expiry(entry.get("expires"))
    except (ValueError, OverflowError):
        yield (
            "expires",
            "allowed: a date like 2027-06-30, or a time with its zone like 2027-06-30T18:00+02:00",
        )


def _found_twice(values: Sequence[str], field_name: str, file: str) -> Iterator[Finding]:
    first: dict[str, int] = {}
    for index, value in enumerate(values):
        other = first.setdefault(value, index)
        if other != index:
            why = f"entry {other + 1} has the same {field_name}; each must have its own"
            yield Finding(file, f"/keys/{index}/{field_name}", ERROR, why)


_LATEST_DAY = date.max - timedelta(days=1)
"""Python knows no day behind the one after it."""


def _expiry(text: str | None) -> float | None:
    """Unix seconds from which on the key has expired. Raises ValueError."""
    if text is None:
        return None
    if re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII):
        last_day = min(date.fromisoformat(text), _LATEST_DAY)
        return datetime.combine(last_day + timedelta(days=1), time()).timestamp()
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("a time needs its zone")
    return moment.timestamp()


def _entry(found: Mapping[str, Any]) -> KeyEntry:
    return KeyEntry(
        name=found["name"],
        sha256=found["sha256"].lower(),
        users=tuple(found["users"]),
        folder=found.get("folder"),
        expires=_expiry(found.get("expires")),
        limits=_limits(found.get("limits", {})),
        priority=found.get("priority", PEOPLE),
        turns_by=found.get("turnsBy", ""),
        metrics=found.get("metrics", False),
    )


def _limits(found: Mapping[str, Any]) -> KeyLimits:
    whole = {name: int(value) for name, value in found.items() if name != "costPerDay"}  # 1e6 is whole, too
    return KeyLimits(
        concurrent=whole.get("concurrent"),
        queued=whole.get("queued", QUEUED),
        requests_per_minute=whole.get("requestsPerMinute"),
        tokens_per_day=whole.get("tokensPerDay"),
        cost_per_day=MappingProxyType(dict(found.get("costPerDay", {}))),
    )


def limits_json(limits: KeyLimits) -> dict[str, Any]:
    """The limits as the file writes them; what is not limited is left out."""
    told = {
        "concurrent": limits.concurrent,
        "queued": limits.queued,
        "requestsPerMinute": limits.requests_per_minute,
        "tokensPerDay": limits.tokens_per_day,
        "costPerDay": dict(limits.cost_per_day) or None,
    }
    return {name: value for name, value in told.items() if value is not None}


def lost_patterns(entries: Sequence[KeyEntry], users: Sequence[str], file: str = KEYS_FILE) -> list[Finding]:
    """A warning for each pattern that fits none of the served users."""
    return [
        Finding(
            file,
            f"/keys/{index}/users/{place}",
            WARNING,
            f"the key {entry.name} may ask {pattern!r}, but no user here has such a name: {', '.join(users)}",
        )
        for index, entry in enumerate(entries)
        for place, pattern in enumerate(entry.users)
        if not any(fits(pattern, user) for user in users)
    ]


def mixed_pair(key: str, user: str) -> str:
    """What is wrong with an entry that has a folder and a user that encrypts. `key`: the entry's name."""
    return (
        f"the key {key} has a `folder`, but user {user} encrypts its files with the key itself "
        "(`encryptUsingApiKey`); remove one of the two"
    )
