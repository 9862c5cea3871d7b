"""The schemas that editors get."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from Middleware.config.validation import known_fields
from Middleware.workflows.checks.editor_schemas import FILE_KINDS, NATIVE_SAMPLERS, editor_schemas
from Middleware.workflows.handlers.node_types import NODES
from tests.shipped import CONFIGS, SCHEMA_FILES

SCHEMAS = editor_schemas()


def test_there_is_one_for_each_kind_of_file_and_node():
    assert set(SCHEMAS) == {f"{kind}.json" for kind in FILE_KINDS} | {"workflow.json"} | {
        f"node/{n}.json" for n in NODES
    }


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_each_is_a_schema(name):
    Draft202012Validator.check_schema(SCHEMAS[name])


def test_keywords_have_one_order():
    """A field's description comes before its type and its type before the rest, whoever states them."""
    for file, name in [("user", "port"), ("endpoint", "readTimeoutInSeconds"), ("memorysettings", "prompt")]:
        field = SCHEMAS[f"{file}.json"]["properties"][name]
        assert list(field)[:2] == ["description", "type"]
    assert list(SCHEMAS["user.json"])[:4] == ["$schema", "title", "description", "type"]
    assert next(iter(SCHEMAS["endpoint.json"]["properties"])) == "endpoint"  # names keep theirs


def valid(document, name="workflow.json") -> bool:
    """Held against a schema, with its neighbours beside it."""
    registry = Registry().with_resources(
        (name, Resource.from_contents(schema)) for name, schema in SCHEMAS.items()
    )
    return Draft202012Validator(SCHEMAS[name], registry=registry).is_valid(document)


WORKFLOWS = [
    ("list", [{"endpointName": "e"}], True),
    ("object", {"nodes": [{"type": "Standard", "endpointName": "e"}], "x": 1}, True),
    ("text", "x", False),
    ("standard-without-endpoint", [{"prompt": "x"}], False),
    ("flag-of-a-wrong-type", [{"endpointName": "e", "is_responder": "yes"}], False),
    ("own-fields-of-a-type", [{"type": "StaticResponse", "content": 5}], False),
    ("null-is-absent", [{"type": "Standard", "endpointName": "e", "preset": None, "jinja2": None}], True),
    (
        "null-among-choices",
        [{"endpointName": "e", "onNodeError": None, "clampPromptToContextWindow": None}],
        True,
    ),
    ("other-fields", [{"type": "StaticResponse", "content": "x", "colour": 1}], False),
    (
        "remarks",
        [{"endpointName": "e", "_x": 1, "comment_y": 2, "Comment": 3, "description": 4, "// z": 5}],
        True,
    ),
    ("unknown-type", [{"type": "Standrad", "endpointName": "e"}], False),
    ("no-nodes", [], False),
]


@pytest.mark.parametrize(("document", "right"), [c[1:] for c in WORKFLOWS], ids=[c[0] for c in WORKFLOWS])
def test_a_node_is_held_against_its_type(document, right):
    assert valid(document) is right


@pytest.mark.parametrize("name", SCHEMA_FILES)
def test_no_shipped_file_is_underlined(name):
    """An editor that uses the schemas is content with what we ship."""
    found = sorted(CONFIGS.glob(SCHEMA_FILES[name]))
    files = [file for file in found if "settings" in name or not file.stem.endswith("-Settings")]
    assert files
    assert [file.name for file in files if not valid(json.loads(file.read_text("utf-8")), name)] == []


def fields_of(schema, path=""):
    """Each named field of a schema, at any depth: (path, its schema)."""
    for name, field in schema.get("properties", {}).items():
        yield f"{path}{name}", field
        yield from fields_of(field, f"{path}{name}.")


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_every_field_has_a_description(name):
    """Which an editor shows under the mouse."""
    parts = [SCHEMAS[name], SCHEMAS[name].get("$defs", {}).get("node", {})]
    described = {path: bool(field.get("description")) for part in parts for path, field in fields_of(part)}
    assert [path for path, is_there in described.items() if not is_there] == []


@pytest.mark.parametrize("name", sorted(NODES))
def test_descriptions_are_of_fields_that_exist(name):
    handler = NODES[name]
    assert set(handler.FIELDS) == {*known_fields(handler.SCHEMA), *known_fields(handler.ADVICE)}


@pytest.mark.parametrize("name", ["user.json", "endpoint.json", "mcpserver.json"])
def test_every_field_may_be_null(name):
    """Which says that it is not there."""
    schema = SCHEMAS[name]
    document = dict.fromkeys(schema["properties"])
    wrong = {error.validator for error in Draft202012Validator(schema).iter_errors(document)}
    assert wrong == set()


def test_samplers_that_one_kind_of_backend_has():
    """An editor knows them beside those of all."""
    known = SCHEMAS["preset.json"]["properties"]
    names = {
        *(
            "rep_pen",
            "rep_pen_range",
            "rep_pen_slope",
            "typical",
            "tfs",
            "top_a",
            "sampler_order",
            "sampler_seed",
        ),
        *("num_keep", "num_predict", "num_ctx"),
        *("repetition_penalty", "skip_special_tokens", "custom_token_bans", "dynamic_temperature"),
        *("reasoning_effort", "verbosity", "stop_sequences", "thinking", "cache_prompt"),
    }
    assert set(NATIVE_SAMPLERS) == names <= known.keys()
    assert {"temperature", "top_p"} <= known.keys() and "thinkingMode" not in known
