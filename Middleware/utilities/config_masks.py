"""Secrets of config files: taken out of what the page is shown, put back into what it saves. Pure.

A value is found by its place in the text (`config/json_positions.py`), so comments, spaces and the order of
keys stay as they are written. Source: spec console.md 2.6, 9.6 step 3.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from Middleware.common.errors import ConfigError
from Middleware.common.secrets import (
    MASK,
    SECRET_HOLDERS,
    is_secret_value,
    mask_secrets,
    mask_text,
    secrets_of_words,
    without_quoted_secrets,
)
from Middleware.config.endpoints import secrets_in_use
from Middleware.config.json_positions import MAX_DEPTH, JsonPlace, parse, positions
from Middleware.utilities.text_utils import sentence_of

# --------------------------------------------------------------------------
# Which items of a list are those of an older one: what was added, taken away or moved shifts the others.


@dataclass(frozen=True, slots=True)
class Item:
    """`seen`: what a reader sees of it. `name`: what it is called, None for nothing. `real`: what it is."""

    seen: Hashable
    name: Hashable | None = None
    real: Hashable = None


def matches(new: Sequence[Item], old: Sequence[Item]) -> dict[int, int]:
    """Index in `new` -> index in `old`: items that nobody changed, those of the same name, those changed in
    their place.
    """
    found = dict(_unchanged_items(new, old))
    taken = set(found.values())
    names_new = _unique_names({index: item.name for index, item in enumerate(new) if index not in found})
    names_old = _unique_names({index: item.name for index, item in enumerate(old) if index not in taken})
    found |= {names_new[name]: names_old[name] for name in names_new.keys() & names_old.keys()}
    taken = set(found.values())
    for start, end in list(_gaps(found, len(new))):
        low, high = found.get(start - 1, -1) + 1, found.get(end, len(old))
        if high - low == end - start and taken.isdisjoint(range(low, high)):
            found |= zip(range(start, end), range(low, high), strict=True)
    return found


def _unchanged_items(new: Sequence[Item], old: Sequence[Item]) -> Iterator[tuple[int, int]]:
    """Items that look the same; several of them in their order, if none is missing or they are the same."""
    olds = _places(old)
    for seen, places in _places(new).items():
        before = olds.get(seen, [])
        if len(before) == len(places):
            yield from zip(places, before, strict=True)
        elif before and len({old[index].real for index in before}) == 1:
            yield from ((place, before[0]) for place in places)


def _places(items: Sequence[Item]) -> dict[Hashable, list[int]]:
    places: dict[Hashable, list[int]] = defaultdict(list)
    for index, item in enumerate(items):
        places[item.seen].append(index)
    return places


def _gaps(found: dict[int, int], length: int) -> Iterator[tuple[int, int]]:
    """(first, end) of each run of items that are not found yet."""
    start = 0
    for index in (*sorted(found), length):
        if index > start:
            yield start, index
        start = index + 1


def _unique_names(names: dict[int, Hashable | None]) -> dict[Hashable, int]:
    """Name -> index, of names that stand once."""
    places: dict[Hashable, list[int]] = defaultdict(list)
    for index, name in names.items():
        if name is not None:
            places[name].append(index)
    return {name: indexes[0] for name, indexes in places.items() if len(indexes) == 1}


# --------------------------------------------------------------------------

LOST = f"{MASK} stands for no old value"

_COMMAND = "args"
"""Key of a list that is a command line."""
_NO_PROSE = SECRET_HOLDERS | {_COMMAND, "command"}
"""Keys of headers, variables and command lines, where they are one text."""
_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"?|(?P<said>//[^\n]*|/\*.*?(?:\*/|\Z))', re.DOTALL)
_CALLED = ("title", "agentName", "type")
"""What tells one node from another."""
_MOST_WORDS = 100
_ALL = ("",)
"""Secrets of a command line that has so many that each of its words is hidden."""
_HOLDER = object()
"""Stands for the value of an object or a list that is not empty."""

_Member = tuple[JsonPlace | None, str | None]
"""What holds values, and the key that they have there: it may stand twice. None: the items of a list."""
_Part = tuple[int, int, str]
"""Start and end in a text, and what stands there instead."""


@dataclass(frozen=True, slots=True, repr=False)
class _Spot:
    """A value that holds a secret. `raw`: as it is written; `shown`: what is shown in its place."""

    start: int
    end: int
    raw: str
    value: Any
    shown: str

    @property
    def is_mask(self) -> bool:
        """Whether the value is one that was shown already."""
        return MASK in self.shown and self.value == self.shown


def shown_text(text: str) -> str:
    """The text of a config file without its secrets."""
    return _comments_shown(_with_masks(text)) if _is_json(text) else _with_masks(_lines_shown(text))


def stand_in_for_secrets(text: str, stand_in: Callable[[str, Any, str], str | None]) -> str:
    """The text of a JSON config file, in which each value that holds a secret is another text.

    `stand_in(pointer, value, shown)` gives it; `shown` is what `shown_text` has there. None: the value stays.
    """
    spots = _Values(text).spots()
    made = [(spot, stand_in(place.pointer, spot.value, spot.shown)) for place, spot in spots.items()]
    parts = [
        (spot.start, spot.end, json.dumps(new, ensure_ascii=False)) for spot, new in made if new is not None
    ]
    return _comments_shown(_replace_parts(text, parts))


def restore_secrets(text: str, old: str) -> tuple[str, list[str]]:
    """(a text that was made of `shown_text(old)`, with its secrets again; pointers of masks that stand for
    none).

    A secret belongs to its place. Where items of a list were added, taken away or moved, it goes with its
    item, if it is plain which one that is; so it does where a key stands more than once in an object.
    """
    if _is_json(old):
        return _values_restored(_comments_restored(text, old), old)
    text = _lines_restored(_values_restored(text, _lines_shown(old))[0], old)
    literal = {spot.raw for spot in _Values(old).spots(inner=True).values()}
    spots = _Values(text).spots(inner=True)
    return text, [place.pointer for place, spot in spots.items() if spot.is_mask and spot.raw not in literal]


def secret_places(text: str) -> list[str]:
    """JSON pointers of the values in which `shown_text` hides something."""
    return [place.pointer for place in _Values(text).spots()]


def secrets_in(text: str) -> list[str]:
    """The texts that are secrets in a config file, for messages about it; longest first."""
    values = {spot.value for spot in _Values(text).spots().values() if isinstance(spot.value, str)}
    return sorted(values, key=len, reverse=True)


def shown_value(value: Any, key: str = "", holder: str = "") -> Any:
    """A copy of a config value without its secrets. `key`: by which the object `holder` has it."""
    if is_secret_value(key, holder, value):
        return MASK
    if isinstance(value, dict):
        return {name: shown_value(item, str(name), key) for name, item in value.items()}
    if isinstance(value, list):
        words = _secret_words(value) if key == _COMMAND else ()
        return [shown_value(_strip_secrets(item, words), "", key) for item in value]
    return _mask_word(value, key, holder) or value if isinstance(value, str) else value


_LENIENT = json.JSONDecoder(strict=False)


class _Values:
    """Every value of a text, in its order, with its place; an object or a list as None.

    What lies deeper than a config file may is not looked at.
    """

    def __init__(self, text: str) -> None:
        self._text, self._places = text, positions(text).places
        self._words: dict[int, tuple[str, ...]] = {}

    def __iter__(self) -> Iterator[tuple[JsonPlace, Any]]:
        depths: dict[JsonPlace | None, int] = {None: -1}
        for place in self._places:
            depth = depths[place] = depths[place.parent] + 1
            if depth <= MAX_DEPTH:
                yield place, self._value(place)

    def members(self) -> dict[_Member, list[JsonPlace]]:
        """The values together that a key, or a list, has; what holds some comes before them."""
        found: dict[_Member, list[JsonPlace]] = defaultdict(list)
        for place, _ in self:
            found[place.parent, str(place.name) if place.key else None].append(place)
        return found

    def spots(self, *, inner: bool = False) -> dict[JsonPlace, _Spot]:
        """The secrets. `inner`: also those inside of a value that is one as a whole."""
        found: dict[JsonPlace, _Spot] = {}
        end = 0
        for place, value in self:
            if place.start < end and not inner:
                continue
            shown = self._masked_value(place, value)
            if shown is not None:
                found[place] = _Spot(
                    place.start, place.end, self._text[place.start : place.end], value, shown
                )
                end = place.end
        return found

    def items(self, places: Iterable[JsonPlace], *, masked_too: bool) -> list[Item]:
        """Values, to be found in another text. `masked_too`: as they are shown, not as they stand."""
        return [
            Item(
                self._comparable_value(place, masked_too),
                self._name(place),
                self._text[place.start : place.end],
            )
            for place in places
        ]

    def _comparable_value(self, place: JsonPlace, masked_too: bool, depth: int = 0) -> Hashable:
        if depth > MAX_DEPTH:
            return self._text[place.start : place.end]
        value = self._value(place)
        if masked_too and (shown := self._masked_value(place, value)) is not None:
            return "str", shown
        if place.members is None:
            return type(value).__name__, value
        return tuple(
            (name, self._comparable_value(item, masked_too, depth + 1))
            for name, item in place.members.items()
        )

    def _name(self, place: JsonPlace) -> Hashable | None:
        """What a node is called, and its type."""
        members = place.members or {}
        named = [self._value(members[key]) if key in members else None for key in _CALLED]
        return tuple(named) if any(isinstance(one, str) and one for one in named) else None

    def _value(self, place: JsonPlace) -> Any:
        if place.members is not None:
            return None
        raw = self._text[place.start : place.end]
        try:
            return _LENIENT.decode(raw)
        except ValueError:
            return raw.strip('"')

    def _masked_value(self, place: JsonPlace, value: Any) -> str | None:
        """What is shown in place of a value that holds a secret; None: it holds none."""
        holder = place.parent
        key = str(place.name) if place.key else ""
        above = str(holder.name) if holder is not None and holder.key else ""
        if is_secret_value(key, above, _HOLDER if place.members else value):
            return MASK
        if not isinstance(value, str):
            return None
        words = self._secret_words(holder) if holder is not None and above == _COMMAND else ()
        without = str(_strip_secrets(value, words))
        made = _mask_word(without, key, above)
        return made or (without if any(word in value for word in words) else None)

    def _secret_words(self, holder: JsonPlace) -> tuple[str, ...]:
        if id(holder) not in self._words:
            items = [self._value(place) for place in (holder.members or {}).values()]
            self._words[id(holder)] = _secret_words(items)
        return self._words[id(holder)]


def _mask_word(text: str, key: str, holder: str) -> str | None:
    """As `mask_text`; of a list that is a command line each item is one word, or stands behind its option."""
    return mask_text(text, is_prose=(key or holder).lower() not in _NO_PROSE)


def _secret_words(words: list[Any]) -> tuple[str, ...]:
    """The secrets of a command line, longest first."""
    found = secrets_of_words([word if isinstance(word, str) else "" for word in words])
    known = sorted({word for word in found if word}, key=len, reverse=True)
    return tuple(known) if len(known) <= _MOST_WORDS else _ALL


def _strip_secrets(value: Any, secrets: Iterable[str]) -> Any:
    if secrets == _ALL:
        return MASK
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, MASK)
    return value


def _with_masks(text: str) -> str:
    """The text with its values masked; what stands in comments, or between broken values, is left."""
    spots = _Values(text).spots().values()
    return _replace_parts(
        text, [(spot.start, spot.end, json.dumps(spot.shown, ensure_ascii=False)) for spot in spots]
    )


def _values_restored(text: str, old: str) -> tuple[str, list[str]]:
    """Values that are as `_with_masks` showed them become what they were, as they were written. Second: as of
    `restore_secrets`.
    """
    before, now = _Values(old), _Values(text)
    olds, news = before.spots(), now.spots(inner=True)
    literal = {place for place, value in before if isinstance(value, str) and MASK in value}
    was = _old_places(now, before, olds.keys() | literal)
    parts: dict[JsonPlace, _Part] = {}
    lost: list[str] = []
    for place, value in now:
        old_place = was.get(place)
        kept = olds.get(old_place) if old_place is not None else None
        if kept is not None and value == kept.shown:
            parts[place] = place.start, place.end, kept.raw
        elif place in news and news[place].is_mask and old_place not in literal:
            lost.append(place.pointer)
    made = _replace_parts(text, parts.values())
    return made, lost + list(_readable(made, parts))


def _readable(made: str, parts: Mapping[JsonPlace, _Part]) -> Iterator[str]:
    """Pointers of the secrets that everybody could read where they would stand in the new text."""
    hidden = {place.start for place in _Values(made).spots(inner=True)}
    moved = 0
    for place, (start, end, raw) in parts.items():
        if start + moved not in hidden:
            yield place.pointer
        moved += len(raw) - (end - start)


def _old_places(now: _Values, before: _Values, wanted: Iterable[JsonPlace]) -> dict[JsonPlace, JsonPlace]:
    """Place -> the one that it had, of all on the way to those that are wanted."""
    needed: set[JsonPlace] = set()
    for place in wanted:
        at: JsonPlace | None = place
        while at is not None and at not in needed:
            needed.add(at)
            at = at.parent
    olds = before.members()
    was: dict[JsonPlace, JsonPlace] = {}
    for (holder, name), places in now.members().items():
        if holder is None or holder in was:
            there = olds.get((was[holder] if holder else None, name), [])
            if not needed.isdisjoint(there):
                found = _matches(now, places, before, there, is_key=name is not None)
                was |= {places[new]: there[old] for new, old in found.items() if there[old] in needed}
    return was


def _matches(
    now: _Values, new: Sequence[JsonPlace], before: _Values, old: Sequence[JsonPlace], *, is_key: bool
) -> dict[int, int]:
    """Index in `new` -> index in `old`. `is_key`: they have one key; the last of them is the one that counts,
    and stays it while it looks the same.
    """
    if len(new) == len(old) == 1:
        return {0: 0}
    items, olds = now.items(new, masked_too=False), before.items(old, masked_too=True)
    found = matches(items, olds)
    if is_key and items[-1].seen == olds[-1].seen:
        found.setdefault(len(new) - 1, len(old) - 1)
    return found


def _lines_shown(text: str) -> str:
    """For a text that is no JSON: nobody knows where its values end."""
    return "\n".join(map(mask_secrets, text.split("\n")))


def _comments_shown(text: str) -> str:
    return _COMMENT.sub(lambda match: mask_secrets(match[0]) if match["said"] else match[0], text)


def _comments_restored(text: str, old: str) -> str:
    """Comments that are as they were shown become what they were, the first of several that look the same
    first.
    """
    kept: dict[str, deque[str]] = defaultdict(deque)
    for match in _COMMENT.finditer(old):
        if match["said"] and (shown := mask_secrets(match[0])) != match[0]:
            kept[shown].append(match[0])
    return _COMMENT.sub(
        lambda match: kept[match[0]].popleft() if match["said"] and kept.get(match[0]) else match[0], text
    )


def _lines_restored(text: str, old: str) -> str:
    """Lines of a text that was no JSON, each if it is plain which one it was."""
    lines, olds = text.split("\n"), old.split("\n")
    before = [Item(mask_secrets(line), real=line) for line in olds]
    for new, was in matches([Item(line) for line in lines], before).items():
        if lines[new] == before[was].seen:
            lines[new] = olds[was]
    return "\n".join(lines)


def _replace_parts(text: str, parts: Iterable[_Part]) -> str:
    """`text` with other texts in it; the parts do not overlap and stand in order."""
    made: list[str] = []
    at = 0
    for start, end, new in parts:
        made += text[at:start], new
        at = end
    return "".join([*made, text[at:]])


def _is_json(text: str) -> bool:
    try:
        parse(text.encode("utf-8", "replace"), "")
    except ConfigError:
        return False
    return True


# --------------------------------------------------------------------------
# How secrets are taken out of what the console shows: whole, and as JSON writes them.


Mask = Callable[[str], str]
"""A text -> the same without secrets."""
_AS_JSON = json.JSONEncoder(ensure_ascii=False)


def mask_of(secrets: Iterable[str | None]) -> Mask:
    """Hides these secrets, the longest first, and what looks like one."""
    known = {secret for secret in secrets if secret}
    known |= {_AS_JSON.encode(secret)[1:-1] for secret in known}
    ordered = sorted(known, key=len, reverse=True)
    return lambda text: mask_secrets(text, *ordered)


def told_of_file(error: ConfigError, secrets: Iterable[str | None] = ()) -> str:
    """What is wrong with a config file, in one sentence: file, field, what was found and is allowed.

    `secrets`: keys of this server.
    """
    said = without_quoted_secrets(" ".join(str(error).split()))
    return sentence_of(mask_of((*secrets, *secrets_in_use()))(said))
