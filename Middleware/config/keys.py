"""How a key is stated: once, by the module that reads it. Schemas, checks and defaults come from that. Pure.

A `Key` is one key of a config file or of a workflow's node. Its kind comes first, then a sentence, then what
sets it apart from its kind; a table of keys is a mapping from names to them.

    KEYS = {
        "transport": one_of("stdio", "sse")("How the server is reached.", required=True),
        "command": TEXT("Program to start.", minLength=1),
        "args": TEXTS("Its arguments.", default=[]),
        "port": WHOLE("Port of the server.", default=5000, minimum=0, maximum=65535),
        "folder": TEXT("Where it works.", pattern=r"^\\w+$", allowed="a word of letters and digits"),
        "verbose": FLAG("Log more."),
        "thinking": object_key("How it thinks.", {"field": TEXT("Name of the field.")}),
    }

    object_schema(KEYS)             the JSON Schema (draft 2020-12) of an object with these keys
    KEYS["port"].value("5001")      5001: a number is also read from a text
    KEYS["port"].value(None)        5000, and so for a value of a wrong kind
    KEYS["command"].value(None)     "": a text without a default is empty

There are two levels: what `must` hold (else an error) and what `should` hold (else a warning). A text must be
one, but a flag only should be: `1` is read as true. A key may state both, as the numbers of nodes do:

    NUMBER_OR_PLACEHOLDER = Key(
        must={"type": ["integer", "string"]},
        should={"pattern": r"^\\d+$|\\{", "minimum": 0, "x-allowed": "a whole number, or a {placeholder}"},
        read=number_in,
    )
    "limit": NUMBER_OR_PLACEHOLDER("How many are found.", default=5, minimum=1)

A dataclass that holds the typed values states its keys in its own fields, by the field's name in camelCase:

    @dataclass(frozen=True)
    class ServerSettings:
        max_depth: int = key_field(WHOLE("How deep it may go.", default=64, minimum=1))

    FIELDS = keys_of_fields(ServerSettings)           {"maxDepth": ("max_depth", the key)}
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

Shape = Mapping[str, Any]
"""Keywords of JSON Schema (draft 2020-12) for a value."""

NOTHING: Mapping[str, Any] = MappingProxyType({})
_WORDS = {"allowed": "x-allowed", "open": "x-open", "elsewhere": "x-elsewhere"}
"""Keywords of our own (`validation.py`) as Python can spell them."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key. Called with a sentence it gives a key of the same kind: `FLAG("Log more.", default=True)`.

    `sentence`: what the key means. `must`, `should`: the shape of its value at the two levels. `default`:
    what holds without the key; None: nothing is stated, and `empty` is read. `required`: the key must be
    there. `read`: makes the typed value of what is found (never of null); None: it is of a wrong kind and
    counts as absent. Without `read` the type of the shape decides.
    """

    sentence: str = ""
    must: Shape = field(default_factory=dict)
    should: Shape = field(default_factory=dict)
    default: Any = None
    empty: Any = None
    required: bool = False
    read: Callable[[Any], Any] | None = None

    def __call__(self, sentence: str, **changed: Any) -> Key:
        """The same kind of key with its own sentence. `changed`: other fields by name; every other word is a
        keyword for the shape (of what should hold, where that is stated), e.g. `minimum=1`; `allowed`: words
        for what a pattern or range allows.
        """
        own = {name: changed.pop(name) for name in _FIELDS & changed.keys()}
        made = replace(self, sentence=sentence, **own)
        words = {_WORDS.get(word, word): value for word, value in changed.items()}
        if made.should:
            return replace(made, should={**made.should, **words})
        return replace(made, must={**made.must, **words})

    @property
    def strict(self) -> Key:
        """The same key of which all must hold that should."""
        return replace(self, must={**self.must, **self.should}, should={})

    @property
    def lenient(self) -> Key:
        """The same key of which all should hold and nothing must."""
        return replace(self, must={}, should={**self.must, **self.should})

    def schema(self) -> dict[str, Any]:
        """JSON Schema of the value in a file, with `default` and `description`."""
        advice = {**self.should, "x-level": "warning"} if self.should else {}
        shape = {**self.must, "allOf": [advice]} if self.must and advice else {**self.must, **advice}
        if self.default is not None:
            shape["default"] = self.default
        if self.sentence:
            shape["description"] = self.sentence
        return shape

    def value(self, found: Any) -> Any:
        """The typed value of what is found; the default for null and for what is of a wrong kind."""
        typed = None if found is None else self._read(found)
        if typed is not None:
            return typed
        return self.empty if self.default is None else self.default

    def value_in(self, document: Mapping[str, Any], name: str) -> Any:
        """The typed value under `name`."""
        return self.value(document.get(name))

    def _read(self, found: Any) -> Any:
        if self.read is not None:
            return self.read(found)
        kind = self.must.get("type", self.should.get("type"))
        if kind == "boolean":
            return bool(found)
        if kind == "integer":
            return whole_number(found, self.must.get("minimum", self.should.get("minimum")))
        if kind == "string":
            return found if isinstance(found, str) else None
        return found


_FIELDS = frozenset(each.name for each in fields(Key))

ANY = Key()
FLAG = Key(should={"type": "boolean"}, default=False)
TEXT = Key(must={"type": "string"}, empty="")
WHOLE = Key(must={"type": "integer"})
NUMBER = Key(must={"type": "number"})
TEXTS = Key(must={"type": "array", "items": {"type": "string"}})
OBJECT = Key(must={"type": "object"})
TEXTS_BY_NAME = Key(must={"type": "object", "additionalProperties": {"type": "string"}})
"""An object whose values are texts."""


def one_of(*words: str) -> Key:
    """The kind of key that holds one of these words."""
    return Key(must={"enum": list(words)}, empty="")


def object_key(sentence: str, keys: Mapping[str, Key], **words: Any) -> Key:
    """A key that holds an object with these keys."""
    return Key(sentence, must=object_schema(keys, **words))


def object_schema(keys: Mapping[str, Key], **words: Any) -> dict[str, Any]:
    """JSON Schema of an object with these keys. `words`: more keywords; `open`: other names are ordinary."""
    required = [name for name, key in keys.items() if key.required]
    return {
        "type": "object",
        "properties": {name: key.schema() for name, key in keys.items()},
        **({"required": required} if required else {}),
        **{_WORDS.get(word, word): value for word, value in words.items()},
    }


def whole_number(found: Any, minimum: int | None = None) -> int | None:
    """The number, or of a text that holds one; None for anything else or below the minimum."""
    try:
        number = int(found)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if minimum is None or number >= minimum else None


# --------------------------------------------------------------------------
# Keys whose typed values a dataclass holds.


class KeyField(NamedTuple):
    """A field of a dataclass: its name there, its key, and what else was said of it (`key_field`)."""

    attribute: str
    key: Key
    more: Mapping[str, Any] = NOTHING


def key_field(key: Key, name: str = "", *, init: bool = True, **more: Any) -> Any:
    """A field of a dataclass that holds the value of a key; absent: the default.

    `name`: the key's name in the file, where it is not the field's in camelCase. `more`: for the reader.
    """
    metadata = {"key": key, "name": name, "more": more}
    return field(init=init, default_factory=partial(key.value, None), metadata=metadata)


def keys_of_fields(made: type) -> dict[str, KeyField]:
    """Name in the file -> field, of all fields of a dataclass that state a key."""
    stated = [each for each in fields(made) if "key" in each.metadata]
    return {
        each.metadata["name"] or _camel_case(each.name): KeyField(
            each.name, each.metadata["key"], each.metadata["more"]
        )
        for each in stated
    }


def _camel_case(name: str) -> str:
    return re.sub(r"_([a-z])", lambda match: match[1].upper(), name)
