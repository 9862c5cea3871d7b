"""The JSON Schemas of all config files as editors want them (nodes.md 4). Pure: file name -> schema."""

from __future__ import annotations

from typing import Any

from Middleware.config.validation import schema
from Middleware.workflows.handlers import impl
from Middleware.workflows.handlers.registry import DEFAULT_TYPE, NODES, node_schema

NODE_HANDLERS = impl.__name__
"""The package that fills the table of node types; imported for that."""

DIALECT = "https://json-schema.org/draft/2020-12/schema"
FILE_KINDS = ("user", "endpoint", "apitype", "preset", "prompttemplate", "routing", "mcpserver")


def editor_schemas() -> dict[str, dict[str, Any]]:
    """`user.json`, ..., `workflow.json`, and `node/<type>.json` for each node type."""
    files = {f"{kind}.json": schema(kind) for kind in FILE_KINDS}
    files["workflow.json"] = _workflow()
    files |= {f"node/{name}.json": _node(name) for name in NODES}
    return {name: _with_nulls(content) for name, content in files.items()}


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


def _node(name: str) -> dict[str, Any]:
    """Common fields and both parts; `type` is that type (for the default type it may be left out)."""
    must, should = node_schema(name)
    handler_text = (NODES[name].__doc__ or "").strip().partition("\n\n")[0]
    return {
        "$schema": DIALECT,
        "title": name,
        "description": " ".join(handler_text.split()),
        "type": "object",
        "properties": {"type": {"const": name}},
        "required": [] if name == DEFAULT_TYPE else ["type"],
        "allOf": [*must["allOf"], *should["allOf"]],
    }


def _workflow() -> dict[str, Any]:
    """A list of nodes, or an object with `nodes`; each node is held against the schema of its type."""
    by_type = [
        {
            "if": {"properties": {"type": {"const": name}}, "required": ["type"]},
            "then": {"$ref": f"node/{name}.json"},
        }
        for name in NODES
    ]
    untyped = {"if": {"not": {"required": ["type"]}}, "then": {"$ref": f"node/{DEFAULT_TYPE}.json"}}
    nodes = {"type": "array", "items": {"$ref": "#/$defs/node"}}
    return {
        "$schema": DIALECT,
        "title": "Workflow",
        "description": "Workflows/<folder>/<name>.json: nodes that run in order; other keys are variables.",
        "oneOf": [nodes, {"type": "object", "properties": {"nodes": nodes}, "required": ["nodes"]}],
        "$defs": {"node": {"type": "object", "allOf": [*by_type, untyped]}},
    }
