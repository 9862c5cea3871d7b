"""JSON Schema checks of config documents: every fault at once, in words that can be acted on.

The only module that knows `jsonschema`. It reads no config file, and knows no node type: the schemas of
nodes are handed in. Levels: `error` (a request would fail), `warning` (hardly as meant), `note` (shown by
`--validate` only).

Keywords of our own in the schemas: `x-elsewhere` (name in lower case -> what to do with a field that
belongs to another file), `x-level` (the level of a breach of this sub-schema, default `error`),
`x-open` (other field names are ordinary here and not reported), `x-allowed` (words for what is allowed) and
`x-breach` (the whole sentence, for an object of which no choice of an `anyOf` holds). How a key is shown in
a form: `x-group` (of its fields) and `x-form` (`text`: of several lines, `names:endpoints`: the name of one).
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from Middleware.common.errors import NOWHERE, ConfigError, Position, escape_controls, file_place, subject
from Middleware.common.secrets import is_secret_place, mask_keys
from Middleware.config.keys import Key, field_meant, object_schema
from Middleware.config.paths import (
    ALIASES_FILE,
    KEYS_FILE,
    MACHINES_FILE,
    is_archived_user,
    is_tool_file,
    is_user_pointer,
)
from Middleware.config.plain_schema import plainly_fits
from Middleware.config.text_patterns import has_pattern

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import ValidationError

DIALECT = "https://json-schema.org/draft/2020-12/schema"


# --------------------------------------------------------------------------
# What a file of a kind may hold: the keys that its reader states, and the fields that others hand in.


Fields = Mapping[str, Mapping[str, Any]]
"""Name of a field -> its JSON Schema (draft 2020-12)."""

_FILES: dict[str, dict[str, Any]] = {}
_SOURCES: dict[str, list[Callable[[], Fields]]] = {}
_WHOLE: dict[str, tuple[list[Fields], dict[str, Any]]] = {}


def state_file(kind: str, title: str, description: str, keys: Mapping[str, Key], **words: Any) -> None:
    """State the keys of the files of a kind; said by the module that reads them, when it is imported.

    `title`, `description`: for editors. `words`: more keywords of the schema, as in `object_schema`.
    """
    head = {"$schema": DIALECT, "title": title, "description": description}
    _FILES[kind] = {**head, **object_schema(keys, **words)}


def hand_in(kind: str, fields: Callable[[], Fields]) -> None:
    """More fields of the files of a kind. `fields` gives the same object while nothing changes."""
    _SOURCES.setdefault(kind, []).append(fields)


def schema(kind: str) -> dict[str, Any]:
    """The schema of the files of a kind. Shared: not to be changed.

    Raises ValueError when two sources state a field differently, LookupError while the reader of such files
    has not been imported.
    """
    parts = [fields() for fields in _SOURCES.get(kind, ())]
    kept = _WHOLE.get(kind)
    if kept is None or list(map(id, kept[0])) != list(map(id, parts)):
        kept = _WHOLE[kind] = (parts, _with_fields(kind, parts))
    return kept[1]


def _with_fields(kind: str, parts: list[Fields]) -> dict[str, Any]:
    if kind not in _FILES:
        raise LookupError(f"nobody has stated the keys of {kind} files: the module that reads them does")
    whole = _FILES[kind]
    if not parts:
        return whole
    together: dict[str, Mapping[str, Any]] = dict(whole["properties"])
    for fields in parts:
        for name, own in fields.items():
            together[name] = _merge_fields(kind, name, together.get(name, {}), own)
    return {**whole, "properties": together}


def _merge_fields(
    kind: str, name: str, one: Mapping[str, Any], other: Mapping[str, Any]
) -> Mapping[str, Any]:
    """What two sources say of one field, put together. Raises ValueError where they differ."""
    for keyword in one.keys() & other.keys():
        if one[keyword] != other[keyword]:
            raise ValueError(
                f"{kind} field {name!r}: {keyword} is stated as {one[keyword]!r} and as {other[keyword]!r}"
            )
    return {**one, **other}


# --------------------------------------------------------------------------

ERROR, WARNING, NOTE = "error", "warning", "note"

KINDS = {
    "Users": "user",
    "Endpoints": "endpoint",
    "ApiTypes": "apitype",
    "Presets": "preset",
    "PromptTemplates": "prompttemplate",
    "Routing": "routing",
    "MCPServers": "mcpserver",
    "StructuredOutputs": "structuredoutput",
}
"""Top folder below the config root -> name of the schema of its files. Workflows: `workflow_shape`."""
_SINGLE_FILES = {MACHINES_FILE: "machines", ALIASES_FILE: "aliases", KEYS_FILE: "keys"}
"""Files directly in the config root."""

_WORDS = {
    "object": "an object",
    "array": "a list",
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault. `file`: path below the config root; `pointer`: JSON pointer; `level`: see the module.

    `position`: filled in before it is shown (`positions.placed`). `excerpt`: the line that is no JSON.
    """

    file: str
    pointer: str
    level: str
    message: str
    position: Position = field(default=NOWHERE, compare=False)
    excerpt: str = field(default="", compare=False)

    def __str__(self) -> str:
        head = f"{file_place(self.file, self.position)}: {self.level}"
        about = subject(self.file, self.pointer, self.position)
        said = ": ".join(filter(None, [head, about, escape_controls(self.message)]))
        return said + escape_controls(self.excerpt, lines=True)


def schema_kind(file: str) -> str | None:
    """The schema name for a file below the config root; None: files of this folder have none."""
    if is_user_pointer(file):
        return "userpointer"
    if is_archived_user(file):
        return None
    if file in _SINGLE_FILES:
        return _SINGLE_FILES[file]
    if is_tool_file(file):
        return "mcptool"
    return KINDS.get(file.partition("/")[0])


def check_file(file: str, document: Any) -> list[Finding]:
    """The findings of one file by itself, nodes not looked into."""
    kind = schema_kind(file)
    if kind is None and file.startswith("Workflows/"):
        return workflow_shape(document, file)
    return check(document, schema(kind), file) if kind else []


NO_NODES = "found no nodes, allowed: a list of nodes, or an object with `nodes`"


def has_nodes(document: Any) -> bool:
    """Whether a workflow document holds at least one node."""
    return bool(document.get("nodes") if isinstance(document, Mapping) else document)


def missing_nodes(document: Any, file: str) -> list[Finding]:
    """An error for an object that is read as a workflow and has no `nodes` (settings have none)."""
    if not isinstance(document, Mapping) or document.get("nodes") is not None:
        return []
    near = [
        name for name, value in document.items() if nearest(name, ["nodes"]) and _is_list_of_objects(value)
    ]
    message = f"'nodes' is missing (is {near[0]!r} meant to be it?)" if near else NO_NODES
    return [Finding(file, "", ERROR, message)]


def _is_list_of_objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, Mapping) for item in value)


def workflow_shape(document: Any, file: str) -> list[Finding]:
    """A list of objects, or an object whose `nodes` is one.

    An object without `nodes` may be a settings file, but not when it is empty or has a misspelt `nodes`.
    """
    if isinstance(document, Mapping):
        missing = missing_nodes(document, file)
        if missing:
            return [] if document and missing[0].message == NO_NODES else missing
        nodes, base = document["nodes"], "/nodes"
    else:
        nodes, base = document, ""
    if not isinstance(nodes, list):
        allowed = "a list of nodes" if base else "a list of nodes, or an object with `nodes`"
        return [Finding(file, base, ERROR, f"found {describe_value(nodes)}, allowed: {allowed}")]
    return [
        Finding(file, f"{base}/{index}", ERROR, f"found {describe_value(node)}, allowed: an object (a node)")
        for index, node in enumerate(nodes)
        if not isinstance(node, Mapping)
    ]


def errors_of(findings: Iterable[Finding]) -> ConfigError | None:
    """One ConfigError that tells every finding of level `error`; None if there is none."""
    errors = [finding for finding in findings if finding.level == ERROR]
    if not errors:
        return None
    first, rest = errors[0], errors[1:]
    also = "".join(f"; also {_short_place(e)}: {e.message}" for e in rest)
    return ConfigError(first.message + also, file=first.file, pointer=first.pointer, position=first.position)


def _short_place(finding: Finding) -> str:
    """`7:12: node 2, content`: a further place in the same file."""
    line = f"{finding.position.line}:{finding.position.column}" if finding.position.line else ""
    about = subject(finding.file, finding.pointer, finding.position)
    return ": ".join(filter(None, [line, about])) or finding.file


def check(
    document: Any,
    schema: Mapping[str, Any],
    file: str,
    *,
    pointer: str = "",
    level: str | None = None,
) -> list[Finding]:
    """All breaches of `schema` by `document`, in order of their place, and (without `level`) its unknown
    fields.

    Null counts as an absent key. `pointer`: where the document stands in `file`. `level`: that of a breach;
    given when the schema is a part of a whole (`SCHEMA` or `ADVICE` of a node), which says nothing of other
    fields.
    """
    document = without_nulls(document)
    findings = [
        Finding(file, pointer + json_pointer(error.absolute_path), _level_of(error, level), explain(error))
        for error in _breaches(document, schema)
    ]
    if level is None:
        findings.extend(_unknown_fields(document, schema, file, pointer))
    return list(dict.fromkeys(findings))


def _breaches(document: Any, schema: Mapping[str, Any]) -> list[ValidationError]:
    if plainly_fits(document, schema):
        return []
    errors = _validator_of(schema).iter_errors(document)
    return sorted(errors, key=lambda error: [str(part) for part in error.absolute_path])


def _level_of(error: ValidationError, level: str | None) -> str:
    marked = error.schema.get("x-level") if isinstance(error.schema, Mapping) else None
    return level or (marked if isinstance(marked, str) else ERROR)


_MOST_VALIDATORS = 500
_VALIDATORS: dict[int, tuple[Mapping[str, Any], Draft202012Validator]] = {}


def _validator_of(schema: Mapping[str, Any]) -> Draft202012Validator:
    """The compiled validator of a schema object, kept with it (an id is unique while its object lives)."""
    kept = _VALIDATORS.get(id(schema))
    if kept is None or kept[0] is not schema:
        if len(_VALIDATORS) >= _MOST_VALIDATORS:
            _VALIDATORS.clear()
        kept = _VALIDATORS[id(schema)] = (schema, _validator_kind()(schema))
    return kept[1]


@cache
def _validator_kind() -> type[Draft202012Validator]:
    """That of the library, with patterns as `has_pattern` reads them."""
    from jsonschema import Draft202012Validator  # slow to load: only once something is to be looked at
    from jsonschema.exceptions import ValidationError
    from jsonschema.validators import extend

    def pattern(validator: Any, wanted: str, found: Any, schema: Any) -> Iterator[ValidationError]:
        if isinstance(found, str) and not has_pattern(found, wanted):
            yield ValidationError(f"{found!r} does not match {wanted!r}")

    make: Callable[..., type[Draft202012Validator]] = extend
    kind = make(Draft202012Validator, {"pattern": pattern})
    return kind


ForeignBreach = tuple[tuple[str | int, ...], str, Any, Any]
"""(path in the document, keyword of the schema, its value, what the document has there)"""


def foreign_check(schema: dict[str, Any]) -> Callable[[Any], list[ForeignBreach]]:
    """What a schema that is not ours says of a document, in the order of the places; an unsound schema finds
    fault with nothing. Each `$ref` of the schema leads to a place in it (others would be fetched), and never
    back to itself for the same value.
    """
    from jsonschema import Draft202012Validator  # slow to load, as above
    from jsonschema.exceptions import UnknownType
    from jsonschema.validators import validator_for

    if is_unsound(schema):
        return lambda document: []
    validator = validator_for(schema, default=Draft202012Validator)(schema)

    def find_breaches(document: Any) -> list[ForeignBreach]:
        try:
            errors = sorted(validator.iter_errors(document), key=lambda e: [str(p) for p in e.absolute_path])
        except (UnknownType, RecursionError):
            return []
        return [(tuple(e.absolute_path), str(e.validator), e.validator_value, e.instance) for e in errors]

    return find_breaches


def is_unsound(schema: dict[str, Any]) -> bool:
    """Whether it is no JSON Schema."""
    from jsonschema import Draft202012Validator  # slow to load, as above
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for

    try:
        validator_for(schema, default=Draft202012Validator).check_schema(schema)
    except (SchemaError, RecursionError):
        return True
    return False


def without_nulls(document: Any) -> Any:
    """The document without the keys whose value is null (at every depth); lists keep theirs."""
    if isinstance(document, Mapping):
        return {key: without_nulls(value) for key, value in document.items() if value is not None}
    if isinstance(document, list):
        return [without_nulls(value) for value in document]
    return document


def json_pointer(path: Iterable[Any]) -> str:
    """`/nodes/2/endpointName`. Source: RFC 6901."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def describe_value(value: Any) -> str:
    """What stands there, short: a text, number or word as JSON, a list or object by name. Keys are masked."""
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, (list, tuple)):
        return "a list"
    text = escape_controls(mask_keys(json.dumps(value, ensure_ascii=False)))
    return text if len(text) <= 60 else f"{text[:57]}..."


def _describe_instance(error: ValidationError) -> str:
    """As `found`; of a secret, which may stand there as a number, only what it is."""
    value: Any = error.instance
    if not is_secret_place(list(error.absolute_path)):
        return describe_value(value)
    kinds = {bool: "true or false", str: "a string", int: "a number", float: "a number"}
    return kinds.get(type(value)) or describe_value(value)


def explain(error: ValidationError) -> str:
    """`found ..., allowed: ...` for one breach, with the nearest allowed word where there is one."""
    value: Any = error.validator_value
    rule, instance = str(error.validator), cast(Any, error.instance)
    if rule == "required":
        return "; ".join(_missing(name, instance) for name in value if name not in instance)
    if rule == "type" and not _described_allowed(error):
        kinds = [value] if isinstance(value, str) else value
        return f"found {_describe_instance(error)}, allowed: {' or '.join(_WORDS[kind] for kind in kinds)}"
    if rule == "anyOf" and isinstance(error.schema, Mapping) and "x-breach" in error.schema:
        return str(error.schema["x-breach"])
    if rule == "additionalProperties" and value is False:
        fields = known_fields(cast(Mapping[str, Any], error.schema))
        return "; ".join(_refused_field(name, instance, fields) for name in instance if name not in fields)
    if rule == "enum":
        near = nearest(str(instance), [str(v) for v in value])
        hint = f" (did you mean {near!r}?)" if near else ""
        return (
            f"found {describe_value(instance)}, allowed: {', '.join(describe_value(v) for v in value)}{hint}"
        )
    return f"found {_describe_instance(error)}, allowed: {_describe_allowed(error)}"


def _missing(name: str, document: Iterable[str]) -> str:
    names = list(document)
    near = nearest(name, names) or next((other for other in names if field_meant(other, [name])), None)
    return f"{name!r} is missing" + (f" (is {near!r} meant to be it?)" if near else "")


def _refused_field(name: str, document: Mapping[str, Any], fields: Mapping[str, Any]) -> str:
    near = _meant(name, document, fields)
    hint = f" (is {near!r} meant?)" if near else ""
    return f"unknown field {name!r}{hint}, allowed: {', '.join(fields)}"


def _described_allowed(error: ValidationError) -> str:
    """What the schema itself says is allowed; empty: nothing."""
    described = error.schema.get("x-allowed") if isinstance(error.schema, Mapping) else None
    return described if isinstance(described, str) else ""


def _describe_allowed(error: ValidationError) -> str:
    value, rule = error.validator_value, str(error.validator)
    if described := _described_allowed(error):
        return described
    sayings = {
        "minimum": f"{value} or more",
        "maximum": f"{value} or less",
        "exclusiveMinimum": f"more than {value}",
        "minLength": "a string that is not empty",
        "minItems": f"a list of at least {value}",
        "maxItems": f"a list of at most {value}",
        "minProperties": "an object that is not empty",
        "pattern": "a whole number, or a text with a {placeholder}"
        if str(value).endswith(r"\{")
        else f"a string like {value}",
        "const": json.dumps(value, ensure_ascii=False),
    }
    return sayings.get(rule, error.message)


def _same(name: str) -> str:
    return name.replace("_", "").casefold()


def distance(one: str, other: str, limit: int = 2) -> int:
    """Edit distance (insert, delete, replace, swap of neighbours), or `limit + 1` when it is more than
    `limit`.
    """
    if abs(len(one) - len(other)) > limit:
        return limit + 1
    older: list[int] = []
    above = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        row = [i]
        for j, b in enumerate(other, 1):
            cost = min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                cost = min(cost, older[j - 2] + 1)
            row.append(cost)
        if min(row) > limit:
            return limit + 1  # no later row is nearer: a swap costs one more than the row before
        older, above = above, row
    return min(above[-1], limit + 1)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name within an edit distance of 2, without regard to case and `_`; None if there is none.

    Short names need to be nearer: 1 up to four letters, 0 up to two.
    """
    bare = _same(name)
    limit = 2 if len(bare) > 4 else 1 if len(bare) > 2 else 0
    scored = [(distance(bare, _same(other), limit), other) for other in known]
    best = min(scored, default=None, key=lambda pair: pair[0])
    return best[1] if best and best[0] <= limit else None


def nearest_file(name: str, known: Iterable[str]) -> str | None:
    """As `nearest`, for a name in a config that leads nowhere; a looser match if nothing is that near."""
    names = list(known)
    bare = name.removesuffix(".json")
    close = difflib.get_close_matches(bare.casefold(), [n.casefold() for n in names], 1, 0.75)
    return nearest(bare, names) or next((n for n in names if n.casefold() in close), None)


def known_fields(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Property name -> its schema, `allOf` parts put together."""
    fields: dict[str, Any] = {}
    for part in schema.get("allOf", ()):
        fields.update(known_fields(part))
    fields.update(schema.get("properties", {}))
    return fields


def _unknown_fields(document: Any, schema: Mapping[str, Any], file: str, pointer: str) -> Iterator[Finding]:
    """A warning for a field whose name is nearly a known one, a note for other unknown fields."""
    fields = known_fields(schema)
    rest = schema.get("additionalProperties")
    if not isinstance(document, Mapping) or not (fields or isinstance(rest, Mapping)):
        return
    patterns = [re.compile(pattern) for pattern in schema.get("patternProperties", {})]
    for name, value in document.items():
        place = Finding(file, f"{pointer}{json_pointer([name])}", NOTE, "")
        inner = fields.get(name, rest)
        if isinstance(inner, Mapping):
            yield from _unknown_fields(value, inner, file, place.pointer)
        elif name not in fields and not any(pattern.search(name) for pattern in patterns):
            yield from _unknown_field(
                (name, value), fields, schema, place, near=_meant(name, document, fields)
            )


_OF_AN_ABSENT = {"boolean": False, "string": "", "array": [], "object": {}}


def _changes_nothing(value: Any, field: Any) -> bool:
    """Whether a field has this value when it is absent, so that nothing is lost where it is misspelt."""
    kind = field.get("type") if isinstance(field, Mapping) else None
    if not isinstance(kind, str):
        return False
    absent = field.get("default", _OF_AN_ABSENT.get(kind))
    return type(value) is type(absent) and bool(value == absent)


def _meant(name: str, document: Mapping[str, Any], fields: Mapping[str, Any]) -> str | None:
    """The field that a name of the document stands for: a slip, or another word for a field that is absent
    and could have this value.
    """
    if near := nearest(name, fields):
        return near
    other = field_meant(name, (field for field in fields if field not in document))
    return other if other and not _breaches(document[name], fields[other]) else None


def _unknown_field(
    field: tuple[str, Any],
    fields: Mapping[str, Any],
    schema: Mapping[str, Any],
    place: Finding,
    *,
    near: str | None,
) -> Iterator[Finding]:
    """`near`: the one of `fields` that is meant. Of `schema` count `x-open` and `x-elsewhere`."""
    name, value = field
    elsewhere = schema.get("x-elsewhere", {}).get(name.casefold())
    if near and _changes_nothing(value, fields[near]):
        yield Finding(place.file, place.pointer, NOTE, f"unknown field {name!r} is ignored and has no effect")
    elif near:
        yield Finding(place.file, place.pointer, WARNING, f"unknown field {name!r} (did you mean {near!r}?)")
    elif elsewhere:
        said = f"unknown field {name!r} is ignored: {elsewhere}"
        yield Finding(place.file, place.pointer, WARNING, said)
    elif not schema.get("x-open"):
        yield Finding(place.file, place.pointer, NOTE, f"unknown field {name!r} is ignored")


def unknown_fields(
    document: Mapping[str, Any],
    schemas: Iterable[Mapping[str, Any]],
    file: str,
    *,
    pointer: str = "",
    elsewhere: Mapping[str, str] | None = None,
) -> list[Finding]:
    """Unknown fields of a document; known are those of several schemas together (the parts of a node).

    `elsewhere`: fields of other files that people write here -> where they belong.
    """
    fields = {name: field for part in schemas for name, field in known_fields(part).items()}
    places = {name.casefold(): place for name, place in (elsewhere or {}).items()}
    together = {"properties": fields, "x-elsewhere": places}
    return list(_unknown_fields(without_nulls(document), together, file, pointer))
