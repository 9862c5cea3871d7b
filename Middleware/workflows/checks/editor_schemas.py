"""The JSON Schemas of all config files as editors want them (nodes.md 4). Pure: file name -> schema.

Made for the JSON language service of VS Code: besides the keywords of JSON Schema it knows `suggestSortText`
(where a completion stands), `doNotSuggest` (allowed, but not offered) and `enumDescriptions`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from Middleware.config.key_file import KEYS_KIND
from Middleware.config.offered_names import ALIASES_KIND
from Middleware.config.samplers import SAMPLER_KEYS
from Middleware.config.validation import DIALECT, known_fields, schema
from Middleware.workflows.handlers import impl
from Middleware.workflows.handlers.node_types import (
    NODES,
    common_schema,
    descriptions,
    every_node,
    model_nodes,
)
from Middleware.workflows.memory.settings import COMPACTOR_KIND, MEMORY_KIND
from Middleware.workflows.models.node_keys import DEFAULT_TYPE

# --------------------------------------------------------------------------
# Names of samplers that single backends have, in words, for editors: presets hold native names.


NATIVE_SAMPLERS: Mapping[str, str] = {
    "rep_pen": "KoboldCpp: punishes tokens that came before; 1: off.",
    "rep_pen_range": "KoboldCpp: how many of the last tokens count as repeated.",
    "rep_pen_slope": "KoboldCpp: how the penalty falls with distance.",
    "repetition_penalty": "vLLM and text-generation-webui: punishes tokens that came before; 1: off.",
    "typical": "KoboldCpp: locally typical sampling; 1: off.",
    "tfs": "KoboldCpp: tail free sampling; 1: off.",
    "top_a": "KoboldCpp and text-generation-webui: leave out tokens by the square of the likeliest one.",
    "sampler_order": "KoboldCpp: order of the samplers, as numbers.",
    "sampler_seed": "KoboldCpp: start of the random numbers.",
    "num_keep": "Ollama: so many tokens of the beginning stay when the context is full.",
    "num_predict": "Ollama: limit of the answer; a node's `maxResponseSizeInTokens` goes before it.",
    "num_ctx": "Ollama: context window; the endpoint's `maxContextTokenSize` goes before it.",
    "skip_special_tokens": "text-generation-webui: leave marks of the model out of the text.",
    "custom_token_bans": "text-generation-webui: tokens that never come.",
    "dynamic_temperature": "text-generation-webui: let the temperature move.",
    "reasoning_effort": "OpenAI: how much the model thinks: minimal, low, medium or high.",
    "verbosity": "OpenAI: how long answers are: low, medium or high.",
    "stop_sequences": "Claude: texts that end the answer.",
    "thinking": "Claude: how much the model thinks.",
    "cache_prompt": "llama.cpp: keep the prompt's state for the next request.",
}


# --------------------------------------------------------------------------

NODE_HANDLERS = impl.__name__
"""The package that fills the table of node types; imported for that."""

FILE_KINDS = (
    *("user", "endpoint", "apitype", "preset", "prompttemplate", "routing", "mcpserver"),
    *("machines", ALIASES_KIND, KEYS_KIND),
    *(MEMORY_KIND, COMPACTOR_KIND, "mcptool"),
)
REMARKS: Mapping[str, Any] = {"^_": {}, "^[cC]omment": {}, "^description$": {}, r"^\$schema$": {}, "^//": {}}
"""Fields that nothing reads and nobody minds."""

_FIRST = ("$schema", "title", "description", "type", "enum", "default", "properties")
"""The keywords that a reader looks for first, in this order; the others stand behind them."""
_NAMED = ("properties", "patternProperties", "$defs")
"""Keywords whose value is no schema but names of schemas."""
_VALUES = ("default", "const", "enum", "enumDescriptions", "examples", "required", "type")
"""Keywords whose value holds no schema."""

_OWN, _COMMON = "1", "2"
"""The first sign of what completions are sorted by."""


def editor_schemas() -> dict[str, dict[str, Any]]:
    """`user.json`, ..., `workflow.json`, and `node/<type>.json` for each node type."""
    files = {f"{kind}.json": _strict(schema(kind)) for kind in FILE_KINDS}
    files["preset.json"] |= {"properties": _preset_fields()}
    files["workflow.json"] = _workflow()
    files |= {f"node/{name}.json": _node(name) for name in NODES}
    return {name: _in_order(_with_nulls(content)) for name, content in files.items()}


def _in_order(schema: Any) -> Any:
    """The schema with its keywords in one order, whoever stated them: what it is, what it holds, the rest."""
    if isinstance(schema, list):
        return [_in_order(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {word: _content_in_order(word, schema[word]) for word in sorted(schema, key=_rank)}


def _content_in_order(word: str, content: Any) -> Any:
    if word in _VALUES:
        return content
    if word in _NAMED:
        return {name: _in_order(inner) for name, inner in content.items()}
    return _in_order(content)


def _rank(word: str) -> tuple[int, str]:
    return (_FIRST.index(word) if word in _FIRST else len(_FIRST), word)


def _with_nulls(schema: Any) -> Any:
    """The schema for files as they are written, where null means that a key is not there."""
    if isinstance(schema, list):
        return [_with_nulls(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    changed = {key: _with_nulls(value) for key, value in schema.items()}
    if isinstance(properties := changed.get("properties"), dict):
        changed["properties"] = {name: _or_null(value) for name, value in properties.items()}
    return changed


def _or_null(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    changed = dict(schema)
    if "type" in changed:
        kinds = changed["type"] if isinstance(changed["type"], list) else [changed["type"]]
        changed["type"] = kinds if "null" in kinds else [*kinds, "null"]
    if "enum" in changed:
        changed["enum"] = [*changed["enum"], None]
    for choice in ("anyOf", "oneOf"):
        if choice in changed:
            changed[choice] = [*changed[choice], {"type": "null"}]
    return changed


def _strict(part: Any) -> Any:
    """The schema with unknown fields forbidden in each object whose fields are known, but for remarks."""
    if isinstance(part, list):
        return [_strict(item) for item in part]
    if not isinstance(part, Mapping):
        return part
    changed = {key: _strict(value) for key, value in part.items()}
    is_object = "object" in _kinds(part)
    if is_object and part.get("properties") and not part.get("x-open") and "additionalProperties" not in part:
        changed["patternProperties"] = {**REMARKS, **part.get("patternProperties", {})}
        changed["additionalProperties"] = False
    return changed


def _kinds(part: Mapping[str, Any]) -> list[str]:
    kinds = part.get("type", [])
    return [kinds] if isinstance(kinds, str) else list(kinds) if isinstance(kinds, list) else []


def _preset_fields() -> dict[str, Any]:
    """The samplers that backends commonly know; a preset may hold any other field too."""
    named = {name: key.sentence for name, key in SAMPLER_KEYS.items() if name != "thinkingMode"}
    return {name: {"description": text} for name, text in {**named, **NATIVE_SAMPLERS}.items()}


def _node(name: str) -> dict[str, Any]:
    """Common fields and both parts; `type` is that type (for the default type it may be left out)."""
    handler = NODES[name]
    fields = _fields(name)
    demands = [d for d in map(_without_fields, (handler.SCHEMA, handler.ADVICE)) if d]
    return {
        "$schema": DIALECT,
        "title": name,
        "description": _handler_summary(name),
        "type": "object",
        "properties": {
            "type": {"enum": [name], "description": descriptions()["type"], "x-group": "what"},
            **fields,
        },
        "required": [] if name == DEFAULT_TYPE else ["type"],
        "patternProperties": REMARKS,
        "additionalProperties": False,
        **({"allOf": [_sorted_alike(demand, fields) for demand in demands]} if demands else {}),
    }


def _handler_summary(name: str) -> str:
    """The first paragraph of the handler's docstring."""
    return " ".join((NODES[name].__doc__ or "").strip().partition("\n\n")[0].split())


def _fields(name: str) -> dict[str, Any]:
    """Each field with its description: own ones first, then common ones; those that do not fit unoffered."""
    handler = NODES[name]
    parts = (*common_schema(), handler.SCHEMA, handler.ADVICE)
    merged: dict[str, Any] = {}
    for part in parts:
        for field, wanted in known_fields(part).items():
            merged[field] = {**merged.get(field, {}), **wanted}
    own = [*handler.FIELDS, *handler.FITTING]
    fitting = {*every_node(), *(model_nodes() if handler.CALLS_MODEL else ())}
    described = {**descriptions(), **handler.FIELDS}
    ordered = dict.fromkeys([*own, *described, *merged])
    return {
        field: {
            "description": described.get(field, ""),
            **merged.get(field, {}),
            "suggestSortText": f"{_OWN if field in own else _COMMON}{at:03}",
            **({} if field in own or field in fitting else {"doNotSuggest": True}),
        }
        for at, field in enumerate(ordered)
        if field != "type"
    }


def _sorted_alike(demand: Any, fields: Mapping[str, Any]) -> Any:
    """A demand whose mentions of fields stand where the fields do: of two completions the first counts."""
    if isinstance(demand, list):
        return [_sorted_alike(item, fields) for item in demand]
    if not isinstance(demand, Mapping):
        return demand
    changed = {key: _sorted_alike(value, fields) for key, value in demand.items()}
    for name, mention in changed.get("properties", {}).items():
        mention["suggestSortText"] = fields[name]["suggestSortText"]
    return changed


def _without_fields(part: Mapping[str, Any]) -> dict[str, Any]:
    """What a part demands besides its fields."""
    return {key: value for key, value in part.items() if key not in ("properties", "type")}


def _workflow() -> dict[str, Any]:
    """A list of nodes, or an object with `nodes`; each node is held against the schema of its type."""
    by_type = [
        {
            "if": {"properties": {"type": {"const": name, "suggestSortText": "0"}}, "required": ["type"]},
            "then": {"$ref": f"node/{name}.json"},
        }
        for name in NODES
    ]
    untyped = {"if": {"not": {"required": ["type"]}}, "then": {"$ref": f"node/{DEFAULT_TYPE}.json"}}
    nodes = {"type": "array", "items": {"$ref": "#/$defs/node"}, "minItems": 1}
    kinds = {
        "enum": list(NODES),
        "enumDescriptions": [_handler_summary(name) for name in NODES],
        "description": descriptions()["type"],
        "suggestSortText": "0",
    }
    named = {**nodes, "description": "The nodes, which run in order."}
    return {
        "$schema": DIALECT,
        "title": "Workflow",
        "description": "Workflows/<folder>/<name>.json: nodes that run in order; other keys are variables.",
        "oneOf": [nodes, {"type": "object", "properties": {"nodes": named}, "required": ["nodes"]}],
        "$defs": {"node": {"type": "object", "properties": {"type": kinds}, "allOf": [*by_type, untyped]}},
    }
