"""Everything that can be written into a config file, and the pages that tell of it: the index of Help.

Made of what the program itself is checked by: the schemas for editors, the tables of node types, rules and
variables, and the docs. Source: spec console.md 12.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from Middleware.api.console.page_files import matches_etag
from Middleware.api.console.view_contract import ApiRoute, Ask, Reply, ViewRefused, json_bytes
from Middleware.cleaning.stage import RULES, StatedRule
from Middleware.common.constants import VERSION
from Middleware.common.instance_global_variables import INSTALL_DIRECTORY, SHIPPED_DIRECTORY, is_installed
from Middleware.common.secrets import SECRET_KEYS
from Middleware.common.types import JsonObject
from Middleware.workflows.checks.editor_schemas import FILE_KINDS, editor_schemas
from Middleware.workflows.checks.workflow_check import is_filled
from Middleware.workflows.handlers.node_types import NODES, every_node, model_nodes
from Middleware.workflows.variables.providers import VARIABLES

NUMBERED = (
    ("agent1Output", "The output of node 1 in this run, once it has run; the same for 2, 3, ..."),
    (
        "agent1Input",
        "The first value that the parent workflow passed on (`scoped_variables`); the same for 2, 3, ...",
    ),
    (
        "agent1Thinking",
        "The thoughts of the model of node 1, empty if there are none; the same for 2, 3, ...",
    ),
    (
        "agent1ToolCalls",
        "The calls of tools that node 1 made, as JSON, if it is an Agent; the same for 2, 3, ...",
    ),
)
"""Variables that exist in any number."""

_NORMATIVE = "spec"
"""The folder of the docs that tells how the program is made; nobody looks for help there."""
_OWN = "1"
"""With this begins what an editor sorts a type's own fields by."""
_DEFAULT = re.compile(r"Default: (\S+)\.$")
_ORDER = re.compile(r"^Order \d+: ")
_HEADING = re.compile(r"^# +(.+?) *$", re.MULTILINE)
_CODE = re.compile(r"[`*]")
_CONTENTS = "README"
"""The page that lists the others, in the order in which a reader needs them."""
_LINK = re.compile(r"\]\(([^)#:]+)\.md\)")


def docs_folder() -> Path:
    """The docs that came with the program: a wheel carries them as it carries the examples."""
    return (SHIPPED_DIRECTORY if is_installed() else INSTALL_DIRECTORY) / "docs"


@cache
def help_index() -> JsonObject:
    """The whole index, made once. Shared: not to be changed."""
    return index_of(docs_folder())


@cache
def help_pages() -> Mapping[str, Path]:
    """Name of a page -> its file, found once."""
    return pages_of(docs_folder())


def index_of(docs: Path) -> JsonObject:
    """The index with the pages of this folder."""
    pages = pages_of(docs)
    schemas = editor_schemas()
    return {
        "version": VERSION,
        "types": [_type(name, schemas[f"node/{name}.json"], pages) for name in sorted(NODES)],
        "common": list(_common(schemas["node/Standard.json"], pages)),
        "variables": list(_variables()),
        "rules": [_rule(order, RULES[order], pages) for order in sorted(RULES)],
        "files": [_file(kind, schemas[f"{kind}.json"]) for kind in FILE_KINDS],
        "pages": [{"name": name, "title": title_of(file)} for name, file in pages.items()],
    }


def pages_of(docs: Path) -> dict[str, Path]:
    """Name (`nodes/Standard`) -> file: in the order of the page that lists them, the others by name."""
    found = {file.relative_to(docs).with_suffix("").as_posix(): file for file in docs.rglob("*.md")}
    listed = _LINK.findall(found[_CONTENTS].read_text("utf-8")) if _CONTENTS in found else []
    names = [name for name in dict.fromkeys([*listed, *sorted(found)]) if name in found]
    return {name: found[name] for name in names if not name.startswith(f"{_NORMATIVE}/")}


def title_of(file: Path) -> str:
    """The first heading, without its marks; else the file's name."""
    heading = _HEADING.search(file.read_text("utf-8"))
    return _CODE.sub("", heading[1]) if heading else file.stem


# --- node types ---


def _type(name: str, schema: JsonObject, pages: Mapping[str, Path]) -> JsonObject:
    """A node type with the fields that it reads itself; what every node may have stands once, beside it."""
    required = _required_fields(schema)
    shared = {*every_node(), *model_nodes()}
    own = {
        field: shape
        for field, shape in schema["properties"].items()
        if field != "type" and (str(shape.get("suggestSortText", "")).startswith(_OWN) or field in required)
    }
    return {
        "name": name,
        "summary": schema["description"],
        "page": _page(f"nodes/{name}", pages),
        "calls_model": NODES[name].CALLS_MODEL,
        "group": NODES[name].PALETTE,
        "fields": [
            _field(field, shape, required=field in required, common=field in shared)
            for field, shape in own.items()
        ],
    }


_COMMON_PAGES = ("nodes/README", "nodes/Standard")
"""Where fields of every node are told."""


def _common(schema: JsonObject, pages: Mapping[str, Path]) -> Iterator[JsonObject]:
    """The fields that every node may have. `of_models`: where a model is called only. `page`: that tells
    of it."""
    texts = {name: pages[name].read_text("utf-8") for name in _COMMON_PAGES if name in pages}
    for names, of_models in ((every_node(), False), (model_nodes(), True)):
        for name in names:
            made = _field(name, schema["properties"][name], required=False, common=True)
            yield {**made, "of_models": of_models, "page": _page_of_field(name, texts)}


def _page_of_field(name: str, texts: Mapping[str, str]) -> str | None:
    """The page with a row for the field alone, else with one for it and others, else one that names it.
    `texts`: page -> its text.
    """
    for place in (
        rf"^\| *`{re.escape(name)}` *\|",
        rf"^\|[^|]*`{re.escape(name)}`",
        rf"`{re.escape(name)}`",
        "",
    ):
        for page, text in texts.items():
            if re.search(place, text, re.MULTILINE):
                return page
    return None


def _required_fields(schema: Mapping[str, Any]) -> set[str]:
    """Without which fields an object cannot do."""
    parts = (schema, *schema.get("allOf", ()))
    return {name for part in parts for name in part.get("required", ())}


def _page(name: str, pages: Mapping[str, Path]) -> str | None:
    return name if name in pages else None


# --- fields ---


def _field(name: str, shape: Mapping[str, Any], *, required: bool, common: bool = False) -> JsonObject:
    """`group`, `form`: where and how a form shows it; `fills`: whether placeholders are filled in it, in a
    node. `of`: what a map's values are, where they are names.
    """
    words = _words(shape)
    form = _form(shape)
    of = shape.get("additionalProperties")
    named = of.get("x-form") if form == "map" and isinstance(of, Mapping) else None
    return {
        "name": name,
        "required": required,
        "kinds": _kinds(shape),
        "enum": words or None,
        "default": _default(shape, words),
        "description": shape.get("description", ""),
        "common": common,
        "group": shape.get("x-group", _OWN_GROUP),
        "form": form,
        "fills": is_filled(name) and form != "switch" and "enum" not in shape,
        **({"of": named} if named else {}),
    }


_OWN_GROUP = "own"
"""The group of fields that state none."""


def _form(shape: Mapping[str, Any]) -> str:
    """How a value is written in a form: as its schema states, else by the kinds that it may have."""
    if "x-form" in shape:
        return str(shape["x-form"])
    kinds = set(_kinds(shape))
    if "enum" in shape or "examples" in shape:
        return "choice"
    if kinds == {"boolean"} or kinds == {"boolean", "string"}:
        return "switch"
    if kinds & {"integer", "number"} and not kinds & {"array", "object"}:
        return "number"
    if kinds == {"array"}:
        return "texts" if _holds_texts(shape.get("items")) else "json"
    if kinds == {"object"}:
        return "map" if _holds_texts(shape.get("additionalProperties")) else "json"
    return "line" if kinds in (set(), {"string"}) and "type" in shape else "json"


def _holds_texts(shape: object) -> bool:
    return isinstance(shape, Mapping) and set(_kinds(shape)) == {"string"}


def _kinds(shape: Mapping[str, Any]) -> list[str]:
    """JSON's names of what the value may be; none where anything may stand. That null means "not there" is
    true of every field and said of none.
    """
    given = shape.get("type", [])
    kinds = [given] if isinstance(given, str) else list(given)
    for choice in (*shape.get("anyOf", ()), *shape.get("oneOf", ())):
        kinds += [kind for kind in _kinds(choice) if kind not in kinds]
    if not kinds and "enum" in shape:
        kinds = sorted({_kind_of(word) for word in shape["enum"] if word is not None})
    return [kind for kind in kinds if kind != "null"]


def _kind_of(value: object) -> str:
    if isinstance(value, bool):
        return "boolean"
    return "string" if isinstance(value, str) else "number"


def _words(shape: Mapping[str, Any]) -> list[Any]:
    """The values of an enum, else those that are worth offering."""
    return [word for word in shape.get("enum") or shape.get("examples", ()) if word is not None]


def _default(shape: Mapping[str, Any], words: list[Any]) -> Any:
    """What holds without the field: stated in the schema, else told by its sentence."""
    if "default" in shape:
        return shape["default"]
    told = _DEFAULT.search(shape.get("description", ""))
    if told is None:
        return None
    if told[1] in words:
        return told[1]
    try:
        return json.loads(told[1])
    except ValueError:
        return None  # words that say where it comes from


# --- the rest ---

EACH_ENTRY = "<name>"
"""Stands for any name, in a file whose entries have no fields."""


def _file(kind: str, schema: Mapping[str, Any]) -> JsonObject:
    """A kind of config file. Of one that holds entries by name: the fields of an entry, or what each is, and
    its own beside them.
    """
    holder, entries = schema, schema.get("additionalProperties")
    if isinstance(entries, Mapping):
        holder = entries if "properties" in entries else {"properties": {EACH_ENTRY: entries}}
        holder = {**holder, "properties": {**holder["properties"], **schema.get("properties", {})}}
    required = _required_fields(holder)
    return {
        "kind": kind,
        "title": schema.get("title", kind),
        "summary": schema.get("description", ""),
        "fields": [
            {**_field(name, shape, required=name in required), "secret": name.lower() in SECRET_KEYS}
            for name, shape in holder.get("properties", {}).items()
        ],
    }


def _rule(order: int, rule: StatedRule, pages: Mapping[str, Path]) -> JsonObject:
    return {
        "name": rule.name,
        "order": order,
        "summary": summary_of(rule),
        "page": _page(f"rules/{rule.name}", pages),
        "keys": [
            {
                "place": place,
                **_field(name, {**key.shape, "description": key.description}, required=False),
                "default": key.default,
            }
            for place, keys in rule.keys.items()
            for name, key in keys.items()
        ],
    }


def summary_of(rule: StatedRule) -> str:
    """The first paragraph of its file's docstring, which says what it does to a text."""
    about = sys.modules[rule.function.__module__].__doc__ or rule.function.__doc__ or ""
    said = _ORDER.sub("", " ".join(about.strip().partition("\n\n")[0].split()))
    return said[:1].upper() + said[1:]


def _variables() -> Iterator[JsonObject]:
    for name, about in NUMBERED:
        yield {"name": name, "description": about, "example": ""}
    for name, provider in VARIABLES.items():
        yield {"name": name, "description": provider.about, "example": provider.example}


# --------------------------------------------------------------------------
# Help: the index of all that can be written, and the pages of the docs. Source: spec console.md 12.


def index(ask: Ask) -> Reply:
    """GET `help`: the whole index; 304 for a reader that has it."""
    ask.words()
    body, etag = _encoded_index()
    headers = {"ETag": etag}
    if matches_etag(etag, ask.headers.get("If-None-Match", "")):
        return Reply(b"", 304, headers)
    return Reply(body, 200, headers)


def page(ask: Ask, name: str) -> JsonObject:
    """GET `help/<page>`: a page that stands in the index; no path is made of the name."""
    ask.words()
    file = help_pages().get(name)
    if file is None:
        raise ViewRefused(404, "no such page")
    return {"title": title_of(file), "markdown": file.read_text("utf-8")}


@cache
def _encoded_index() -> tuple[bytes, str]:
    """The index as bytes, and its entity tag."""
    body = json_bytes(help_index())
    return body, f'"{hashlib.sha256(body).hexdigest()[:16]}"'


HELP_ROUTES = (
    ApiRoute("GET", "help", "look", index),
    ApiRoute("GET", "help/<path:name>", "look", page),
)
