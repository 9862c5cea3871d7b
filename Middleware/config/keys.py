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
        "thinking": object_of({"field": TEXT("Name of the field.")})("How it thinks."),
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
        max_depth: int = key_field(WHOLE, "How deep it may go.", default=64, minimum=1)

    FIELDS = keys_of_fields(ServerSettings)           {"maxDepth": its field, key and default}
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

Shape = Mapping[str, Any]
"""Keywords of JSON Schema (draft 2020-12) for a value."""

NOTHING: Mapping[str, Any] = MappingProxyType({})

MOST_AT_ONCE = 2**31 - 1
"""The largest limit of what is counted at once: every store of counts takes it."""
_WORDS = {
    "allowed": "x-allowed",
    "open": "x-open",
    "elsewhere": "x-elsewhere",
    "group": "x-group",
    "form": "x-form",
}
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
        typed = self.typed(found)
        return self.absent if typed is None else typed

    def value_in(self, document: Mapping[str, Any], name: str) -> Any:
        """The typed value under `name`."""
        return self.value(document.get(name))

    @property
    def absent(self) -> Any:
        """What is read without the key: the default, else `empty`."""
        return self.empty if self.default is None else self.default

    def typed(self, found: Any) -> Any:
        """The typed value of what is found; None for null and for what is of a wrong kind."""
        return None if found is None else self._read(found)

    def _read(self, found: Any) -> Any:
        if self.read is not None:
            return self.read(found)
        shape = {**self.should, **self.must}
        kind = shape.get("type")
        if kind == "boolean":
            return bool(found)
        if kind == "integer":
            return whole_number(found, shape.get("minimum"))
        expected = _CLASSES.get(kind) if isinstance(kind, str) else None
        return found if expected is None or isinstance(found, expected) else None


_CLASSES: Mapping[str, Any] = {"string": str, "array": list, "object": Mapping}
_FIELDS = frozenset(each.name for each in fields(Key))


def _given_texts(found: Any) -> dict[str, str] | None:
    if not isinstance(found, Mapping):
        return None
    return {name: text for name, text in found.items() if text is not None}


ANY = Key()
FLAG = Key(should={"type": "boolean"}, default=False)
TEXT = Key(must={"type": "string"}, empty="")
WHOLE = Key(must={"type": "integer"})
NUMBER = Key(must={"type": "number"})
TEXTS = Key(must={"type": "array", "items": {"type": "string"}})
OBJECT = Key(must={"type": "object"})
TEXTS_BY_NAME = Key(
    must={"type": "object", "additionalProperties": {"type": "string"}}, empty=NOTHING, read=_given_texts
)
"""An object whose values are texts; one that is null is absent."""


def one_of(*words: str) -> Key:
    """The kind of key that holds one of these words."""
    return Key(must={"enum": list(words)}, empty="", read=lambda found: found if found in words else None)


def object_of(keys: Mapping[str, Key], **words: Any) -> Key:
    """The kind of key that holds an object with these keys; `words` as in `object_schema`."""
    return replace(OBJECT, must=object_schema(keys, **words))


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
    """A field of a dataclass: its name there, its key, and what it holds without the key."""

    attribute: str
    key: Key
    absent: Any

    def value(self, found: Any) -> Any:
        """What the field holds when this is found in the file."""
        typed = self.key.typed(found)
        return self.absent if typed is None else typed


_OF_THE_KEY: Any = object()


def key_field(
    kind: Key,
    sentence: str = "",
    name: str = "",
    *,
    init: bool = True,
    absent: Any = _OF_THE_KEY,
    **changed: Any,
) -> Any:
    """A field of a dataclass that holds the value of a key, which is `kind(sentence, **changed)`.

    `name`: the key's name in the file, where it is not the field's in camelCase. `absent`: what the field
    holds without the key, where that is not the key's default.
    """
    key = kind(sentence, **changed)
    without = key.absent if absent is _OF_THE_KEY else absent
    return field(
        init=init, default_factory=lambda: without, metadata={"key": key, "name": name, "absent": without}
    )


def keys_of_fields(made: type) -> dict[str, KeyField]:
    """Name in the file -> field, of all fields of a dataclass that state a key."""
    return {
        each.metadata["name"] or _camel_case(each.name): KeyField(
            each.name, each.metadata["key"], each.metadata["absent"]
        )
        for each in fields(made)
        if each.metadata
    }


def _camel_case(name: str) -> str:
    return re.sub(r"_([a-z])", lambda match: match[1].upper(), name)


# --------------------------------------------------------------------------
# The field that is meant by a name that is none: other programs' words for it, or a part of its name.
# Pure.


_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_VAGUE = frozenset(
    (
        *("a", "api", "data", "file", "id", "in", "is", "max", "min", "name"),
        *("number", "of", "path", "size", "text", "the", "to", "type", "use", "value"),
    )
)
"""Words that many fields share: alone they mean none of them."""
_MOST_MORE = 2
"""So many more words a field may have than a name that is not its beginning."""

OTHER_WORDS: Mapping[str, str] = {
    "apiKey": "key token authorization bearer accessToken",
    "apiTypeConfigFileName": "apiType type backend provider",
    "condition": "expression if",
    "content": "text message response value body output",
    "customWorkflow": "workflow workflowName",
    "description": "desc",
    "endpoint": "url uri baseUrl baseUri apiBase host address server",
    "endpointConfigsSubDirectory": "endpointsFolder endpointFolder endpointsDirectory endpointDirectory",
    "endpointName": "endpoint model modelName llm",
    "filepath": "path file filename",
    "input": "text content",
    "is_responder": "responder isResponse answers",
    "kwargs": "keywordArguments namedArguments",
    "args": "arguments params parameters",
    "lastMessagesToSendInsteadOfPrompt": "lastMessages numberOfMessages messagesToSend",
    "maxContextTokenSize": "contextSize contextLength contextWindow maxContext numCtx nCtx",
    "maxResponseSizeInTokens": "maxTokens maxNewTokens maxOutputTokens maxResponseTokens numPredict",
    "modelNameToSendToAPI": "model modelName",
    "module_path": "module script scriptPath file path",
    "preset": "presetFile samplers",
    "prompt": "userPrompt userMessage message",
    "promptToSearch": "query search",
    "requestTimeoutSeconds": "timeout timeoutSeconds",
    "returnToUser": "respond",
    "separator": "delimiter joiner",
    "strings": "texts parts values",
    "systemPrompt": "system sysPrompt systemMessage",
    "toolName": "tool",
    "serverName": "server",
    "timeoutSeconds": "timeout",
    "url": "uri address link",
    "workflow": "workflowName",
    "workflowConfigsSubDirectoryOverride": "workflowFolder workflowsFolder workflowDirectory",
    "workflowLockId": "lock lockId lockName",
    "workflowName": "workflow name child subWorkflow",
}
"""Field -> what other programs call it. A word counts only where the field may stand."""


def _bare(name: str) -> str:
    return name.replace("_", "").replace("-", "").casefold()


@lru_cache(maxsize=1)
def _fields_of() -> Mapping[str, list[str]]:
    """Word -> the fields that it may stand for."""
    fields: dict[str, list[str]] = {}
    for name, words in OTHER_WORDS.items():
        for word in words.split():
            fields.setdefault(_bare(word), []).append(name)
    return fields


def field_meant(name: str, fields: Iterable[str]) -> str | None:
    """Which of `fields` the name stands for; None where nothing or more than one comes to mind."""
    known = list(fields)
    named = [field for field in _fields_of().get(_bare(name), ()) if field in known]
    if named:
        return named[0] if len(named) == 1 else None
    words = _words_of(name)
    if not set(words) - _VAGUE:
        return None
    holding = [(len(more), field) for field in known if (more := _words_of(field)) and _is_part(words, more)]
    least = min(holding, default=(0, ""))[0]
    shortest = [field for length, field in holding if length == least]
    return shortest[0] if len(shortest) == 1 else None


@lru_cache(maxsize=2048)
def _words_of(name: str) -> tuple[str, ...]:
    return tuple(part.casefold().rstrip("s") for part in _PART.findall(name))


def _is_part(words: tuple[str, ...], more: tuple[str, ...]) -> bool:
    if len(words) >= len(more):
        return False
    if more[: len(words)] == words:
        return True
    return set(words) <= set(more) and len(more) - len(words) <= _MOST_MORE
