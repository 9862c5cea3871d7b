"""Faults are told all at once: file, JSON pointer, what was found, what is allowed, the nearest known name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from Middleware.common.errors import Position
from Middleware.config import validation
from Middleware.config.validation import (
    ERROR,
    KINDS,
    NOTE,
    WARNING,
    Finding,
    check,
    check_file,
    describe_value,
    distance,
    errors_of,
    json_pointer,
    nearest,
    nearest_file,
    schema,
    unknown_fields,
)

ENDPOINT = {"endpoint": "http://h", "apiTypeConfigFileName": "A"}

# file, document, pointer, level, words of the message
TYPOS = [
    ("user-field", "Users/a.json", {"customWorkflowOveride": True}, "/customWorkflowOveride", WARNING, "customWorkflowOverride"),
    ("user-type", "Users/a.json", {"port": "x"}, "/port", ERROR, 'found "x", allowed: a whole number'),
    ("user-choice", "Users/a.json", {"outboundPolicy": "blok-private"}, "/outboundPolicy", ERROR, "'block-private'"),
    ("user-flag", "Users/a.json", {"allowSharedWorkflows": "no"}, "/allowSharedWorkflows", WARNING, "true or false"),
    ("user-list", "Users/a.json", [], "", ERROR, "found a list, allowed: an object"),
    ("user-liveness", "Users/a.json", {"livenessToolCall": {"toolname": "x"}}, "/livenessToolCall", WARNING, "'toolName' is missing"),
    ("user-folder-leaves", "Users/a.json", {"endpointConfigsSubDirectory": "../x"}, "/endpointConfigsSubDirectory", ERROR, "a folder name"),
    ("user-folder-absolute", "Users/a.json", {"sharedWorkflowsSubDirectoryOverride": "/x"}, "/sharedWorkflowsSubDirectoryOverride", ERROR, "a folder name"),
    ("user-folder-deep", "Users/a.json", {"presetConfigsSubDirectoryOverride": "a/./b"}, "/presetConfigsSubDirectoryOverride", ERROR, "a folder name"),
    ("user-folder-drive", "Users/a.json", {"structuredOutputConfigsSubDirectory": "c:\\x"}, "/structuredOutputConfigsSubDirectory", ERROR, "a folder name"),
    ("user-timeout", "Users/a.json", {"connectTimeoutInSeconds": 10**30}, "/connectTimeoutInSeconds", ERROR, "2000000 or less"),
    ("user-depth", "Users/a.json", {"maxWorkflowDepth": 10**30}, "/maxWorkflowDepth", ERROR, "2000 or less"),
    ("endpoint-timeout-large", "Endpoints/a.json", ENDPOINT | {"readTimeoutInSeconds": 1e30}, "/readTimeoutInSeconds", ERROR, "2000000 or less"),
    ("pointer", "Users/_current-user.json", {"currentUsr": "a"}, "", ERROR, "'currentUser' is missing (is 'currentUsr' meant"),
    ("endpoint-missing", "Endpoints/x/a.json", {"endpoint": "u", "apiTypeConfigFileNam": "A"}, "", ERROR, "'apiTypeConfigFileNam' meant"),
    ("endpoint-two-missing", "Endpoints/a.json", {}, "", ERROR, "'endpoint' is missing; 'apiTypeConfigFileName' is missing"),
    ("endpoint-field", "Endpoints/a.json", ENDPOINT | {"remove_thinking_": True}, "/remove_thinking_", WARNING, "removeThinking"),
    ("endpoint-choice", "Endpoints/a.json", ENDPOINT | {"reasoningOutput": "dropp"}, "/reasoningOutput", ERROR, "did you mean 'drop'"),
    ("endpoint-sampler", "Endpoints/a.json", ENDPOINT | {"presetSamplers": {"temprature": 1}}, "/presetSamplers/temprature", WARNING, "temperature"),
    ("endpoint-header", "Endpoints/a.json", ENDPOINT | {"extraHeaders": {"X-A/B": 5}}, "/extraHeaders/X-A~1B", ERROR, "a string"),
    ("endpoint-key", "Endpoints/a.json", ENDPOINT | {"apiKey": 8137}, "/apiKey", ERROR, "found a number, allowed: a string"),
    ("endpoint-key-header", "Endpoints/a.json", ENDPOINT | {"extraHeaders": {"X-Id": 8137}}, "/extraHeaders/X-Id", ERROR, "found a number, allowed: a string"),
    ("mcp-env", "MCPServers/a.json", {"transport": "stdio", "command": "x", "env": {"T": 8137}}, "/env/T", ERROR, "found a number"),
    ("endpoint-level", "Endpoints/a.json", ENDPOINT | {"wilmerContextEstimationLevel": "bold"}, "/wilmerContextEstimationLevel", WARNING, "balanced"),
    ("endpoint-window", "Endpoints/a.json", ENDPOINT | {"maxContextTokenSize": 0}, "/maxContextTokenSize", ERROR, "1 or more"),
    ("endpoint-timeout", "Endpoints/a.json", ENDPOINT | {"readTimeoutInSeconds": 0}, "/readTimeoutInSeconds", ERROR, "more than 0"),
    ("apitype", "ApiTypes/a.json", {"tpye": "x"}, "", ERROR, "'type' is missing (is 'tpye' meant"),
    ("apitype-mode", "ApiTypes/a.json", {"type": "x", "thinking": {"mode": "effrt"}}, "/thinking/mode", WARNING, "'effort'"),
    ("apitype-nested", "ApiTypes/a.json", {"type": "x", "structuredOutput": {"filed": "f"}}, "/structuredOutput/filed", WARNING, "'field'"),
    ("preset", "Presets/A/a.json", ["temperature"], "", ERROR, "an object"),
    ("template", "PromptTemplates/a.json", {"promptTemplateSystemPrefx": "S:"}, "/promptTemplateSystemPrefx", WARNING, "promptTemplateSystemPrefix"),
    ("template-role", "PromptTemplates/a.json", {"promptTemplateOtherPrefix": 5}, "/promptTemplateOtherPrefix", ERROR, "a string"),
    ("routing", "Routing/a.json", {"CODE": {"descripton": "x", "workflow": "y"}}, "/CODE", ERROR, "'descripton' meant"),
    ("mcp", "MCPServers/a.json", {"transport": "stdoi"}, "/transport", ERROR, "'stdio'"),
    ("mcp-empty", "MCPServers/a.json", {}, "", ERROR, "'transport' is missing"),
    ("mcp-command", "MCPServers/a.json", {"transport": "stdio"}, "", ERROR, "'command' is missing"),
    ("mcp-url", "MCPServers/a.json", {"transport": "sse", "command": "x"}, "", ERROR, "'url' is missing"),
    ("mcp-guard", "MCPServers/a.json", {"transport": "sse", "url": "u", "blockPrivateAddresses": "no"}, "/blockPrivateAddresses", ERROR, "true or false"),
    ("mcp-hosts", "MCPServers/a.json", {"transport": "sse", "url": "u", "allowedHosts": []}, "/allowedHosts", ERROR, "at least 1"),
    ("structured", "StructuredOutputs/a.json", {}, "", ERROR, "not empty"),
    ("workflow", "Workflows/a/b.json", "text", "", ERROR, "a list of nodes, or an object"),
    ("workflow-nodes", "Workflows/a/b.json", {"nodes": {}}, "/nodes", ERROR, "a list of nodes"),
    ("workflow-node", "Workflows/a/b.json", [{}, "x"], "/1", ERROR, 'found "x", allowed: an object'),
]  # fmt: skip


@pytest.mark.parametrize(
    ("file", "document", "pointer", "level", "words"), [c[1:] for c in TYPOS], ids=[c[0] for c in TYPOS]
)
def test_a_typo_is_told_with_its_place_and_a_way_out(file, document, pointer, level, words):
    """One table for every kind of file."""
    finding = next(f for f in check_file(file, document) if words in f.message)
    assert (finding.file, finding.pointer, finding.level) == (file, pointer, level)


WITH_A_SLIP = ("user-liveness", "pointer", "endpoint-missing", "apitype", "routing")
"""A required name is there, misspelt."""

GOOD = [
    ("null-is-absent", "Endpoints/a.json", ENDPOINT | {"apiKey": None, "promptTemplate": None, "presetSamplers": None}),
    ("nested-null", "ApiTypes/a.json", {"type": "x", "thinking": {"field": None}}),
    ("clamp-word", "Users/a.json", {"clampPromptToContextWindow": "yes"}),
    ("preset-native", "Presets/A/a.json", {"tempature": 1, "anything": [None]}),
    ("role-template", "PromptTemplates/a.json", {"promptTemplateOtherPrefix": "x"}),
    ("workflow-list", "Workflows/a/b.json", [{}]),
    ("workflow-object", "Workflows/a/b.json", {"nodes": [], "x": 1}),
    ("workflow-settings", "Workflows/a/b.json", {"x": 1}),
    ("workflow-null-nodes", "Workflows/a/b.json", {"nodes": None}),
    ("folder-without-schema", "Other/b.json", 5),
]  # fmt: skip


@pytest.mark.parametrize(("file", "document"), [c[1:] for c in GOOD], ids=[c[0] for c in GOOD])
def test_what_is_right_is_not_told_of(file, document):
    assert check_file(file, document) == []


@pytest.mark.parametrize(
    ("file", "document", "count"),
    [(*case[1:3], 1 + (case[0] in WITH_A_SLIP)) for case in TYPOS],
    ids=[case[0] for case in TYPOS],
)
def test_a_typo_is_told_once(file, document, count):
    """A name that slipped is missing, and is unknown; nothing else follows from a fault."""
    assert len(check_file(file, document)) == count


def test_an_unknown_field_without_a_near_name_is_a_note():
    """Often a comment."""
    (finding,) = check_file("Users/a.json", {"_remark": "x"})
    assert (finding.level, finding.pointer) == (NOTE, "/_remark")
    assert str(finding) == "Users/a.json: note: _remark: unknown field '_remark' is ignored"


def test_a_part_of_a_whole_says_nothing_of_other_fields():
    """SCHEMA and ADVICE of a node are parts; their breaches have the level that was asked for."""
    part = {"allOf": [{"properties": {"a": {"type": "string"}}}, {"required": ["b"]}]}
    findings = check({"a": 1, "bb": 2}, part, "W.json", pointer="/nodes/0", level=WARNING)
    assert [(f.pointer, f.level) for f in findings] == [("/nodes/0", WARNING), ("/nodes/0/a", WARNING)]
    assert [f.pointer for f in unknown_fields({"a": 1, "c1": 2}, [part], "W.json", pointer="/0")] == ["/0/c1"]


@pytest.mark.parametrize(
    ("name", "level", "said"),
    [
        ("port", WARNING, "unknown field 'port' is ignored: it belongs in the user file"),
        ("PORT", WARNING, "unknown field 'PORT' is ignored: it belongs in the user file"),
        ("prot", NOTE, "unknown field 'prot' is ignored"),
        ("titel", WARNING, "unknown field 'titel' (did you mean 'title'?)"),
    ],
)
def test_a_field_of_another_file(name, level, said):
    """Where it belongs is said, unless one of this file is meant."""
    known = [{"properties": {"title": {"type": "string"}}}]
    (found,) = unknown_fields({name: "x"}, known, "W.json", elsewhere={"Port": "it belongs in the user file"})
    assert (found.level, found.message, found.pointer) == (level, said, f"/{name}")


def test_of_an_open_file_only_slips_are_told():
    """Other names are somebody else's."""
    rule = {"properties": {"title": {"type": "string"}}, "x-open": True}
    assert [f.pointer for f in check({"titel": "x", "remark": "y"}, rule, "x.json")] == ["/titel"]


def test_nulls_go_at_every_depth():
    """A list keeps its own."""
    document = {"a": None, "b": [{"c": None, "d": 1}, None]}
    assert validation.without_nulls(document) == {"b": [{"d": 1}, None]}


OTHER_RULES = [
    ({"multipleOf": 2}, 3, "multiple"),
    ({"type": "null"}, {"a": 1}, "found an object, allowed: null"),
    ({"type": "integer"}, "x" * 99, "xxx..., allowed"),
    (False, 1, "found 1"),
]


@pytest.mark.parametrize(("rule", "value", "words"), OTHER_RULES, ids=lambda v: str(v)[:20])
def test_every_rule_has_words(rule, value, words):
    (finding,) = check({"f": value}, {"properties": {"f": rule}}, "x.json")
    assert words in finding.message


SAYINGS = [  # a schema, what it does not allow, what is said of that
    ({"minimum": 3}, 2, "found 2, allowed: 3 or more"),
    ({"maximum": 3}, 4, "found 4, allowed: 3 or less"),
    ({"exclusiveMinimum": 3}, 3, "found 3, allowed: more than 3"),
    ({"minLength": 1}, "", 'found "", allowed: a string that is not empty'),
    ({"minItems": 2}, ["a"], "found a list, allowed: a list of at least 2"),
    ({"maxItems": 1}, ["a", "b"], "found a list, allowed: a list of at most 1"),
    ({"minProperties": 1}, {}, "found an object, allowed: an object that is not empty"),
    ({"pattern": "^a+$"}, "b", 'found "b", allowed: a string like ^a+$'),
    ({"pattern": "^\\d+$|\\{"}, "b", 'found "b", allowed: a whole number, or a text with a {placeholder}'),
    ({"const": "ü"}, "u", 'found "u", allowed: "ü"'),
    ({"pattern": "^a+$", "x-allowed": "some a"}, "b", 'found "b", allowed: some a'),
    ({"type": ["string", "integer"]}, True, "found true, allowed: a string or a whole number"),
    ({"enum": ["red", "green"]}, "gren", "found \"gren\", allowed: \"red\", \"green\" (did you mean 'green'?)"),
    ({"enum": ["red", 5]}, "x", 'found "x", allowed: "red", 5'),
    ({"required": ["a"]}, {}, "'a' is missing"),
    ({"anyOf": [{"required": ["a"]}, {"required": ["b"]}], "x-breach": "say a or b"}, {}, "say a or b"),
    ({"anyOf": [{"type": "object"}], "x-allowed": "a thing"}, 1, "found 1, allowed: a thing"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "value", "said"), SAYINGS, ids=[c[2][:60] for c in SAYINGS])
def test_what_is_said_of_a_breach(rule, value, said):
    """What was found, and what is allowed, in words of people."""
    (finding,) = check(value, rule, "Users/x.json", level=ERROR)
    assert (finding.message, finding.level, finding.pointer) == (said, ERROR, "")


DISTANCES = [("", "", 0), ("abc", "abc", 0), ("abc", "acb", 1), ("abc", "ab", 1), ("abc", "xbz", 2), ("abc", "xyz", 3), ("a", "abcd", 3), ("ca", "abc", 3)]  # fmt: skip


@pytest.mark.parametrize(("one", "other", "steps"), DISTANCES)
def test_edit_distance(one, other, steps):
    """Insert, delete, replace, swap; more than two is three."""
    assert distance(one, other) == steps == distance(other, one)


@given(st.text("abc", max_size=9), st.text("abc", max_size=9), st.integers(0, 3))
def test_a_limit_changes_no_distance_within_it(one, other, limit):
    """What is further away is not counted to its end."""
    assert distance(one, other, limit) == min(distance(one, other, 99), limit + 1)


NEAREST = [
    ("isResponder", ["is_responder", "type"], "is_responder"),
    ("ENDPOINTNAME", ["endpointName"], "endpointName"),
    ("typo", ["type"], "type"),
    ("abcd", ["abxy"], None),
    ("abcd", ["abxd"], "abxd"),
    ("abc", ["abx"], "abx"),
    ("ab", ["ax"], None),
    ("ab", ["AB"], "AB"),
    ("abcde", ["abxye"], "abxye"),
    ("abcde", ["axxxe"], None),
    ("abcdef", ["abcxxx", "abcdex"], "abcdex"),
    ("temprature", ["temperature", "top_p"], "temperature"),
    ("x", [], None),
]


@pytest.mark.parametrize(("name", "known", "answer"), NEAREST, ids=[c[0] for c in NEAREST])
def test_the_nearest_name_disregards_case_and_underscores(name, known, answer):
    assert nearest(name, known) == answer


def test_file_names_are_matched_more_loosely():
    assert nearest_file("smal-modl-q4", ["small-model-q4", "other"]) == "small-model-q4"
    assert nearest_file("Main.json", ["Main"]) == "Main"
    assert nearest_file("zzz", ["Main"]) is None


def test_errors_become_one_exception():
    """Warnings and notes do not."""
    findings = check_file("Endpoints/a.json", {"endpoint": 1, "apiTypeConfigFileName": 2, "foo": 3})
    error = errors_of(findings)
    assert error is not None
    assert (error.file, error.pointer) == ("Endpoints/a.json", "/apiTypeConfigFileName")
    assert "also endpoint" in str(error) and "foo" not in str(error)
    assert errors_of([f for f in findings if f.level != ERROR]) is None


def test_pointers_are_escaped():
    assert json_pointer(["a/b", 0, "c~d"]) == "/a~1b/0/c~0d"


OTHER_KINDS = ["userpointer", "memorysettings", "compactorsettings", "mcptool"]


@pytest.mark.parametrize("kind", [*KINDS.values(), *OTHER_KINDS])
def test_every_schema_is_one(kind):
    """Draft 2020-12, described for editors, and closed to nobody."""
    loaded = schema(kind)
    Draft202012Validator.check_schema(loaded)
    assert loaded["description"]
    assert '"additionalProperties": false' not in str(loaded).replace("False", "false").replace("'", '"')


def test_what_plainly_fits_needs_no_validator(monkeypatch):
    """The library is slow to load, and slow."""
    monkeypatch.setattr(validation, "_validator_of", lambda schema: pytest.fail("it was asked"))
    assert check({"a": 1}, {"properties": {"a": {"type": "integer"}}}, "x.json") == []


def test_a_validator_is_made_once_for_a_schema():
    one, other = {"type": "string"}, {"type": "string"}
    assert validation._validator_of(one) is validation._validator_of(one)
    assert validation._validator_of(one) is not validation._validator_of(other)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({}, "'workflow' is missing"),
        ({"colour": 1}, "'workflow' is missing"),
        ({"workflwo": "x"}, "'workflow' is missing (is 'workflwo' meant to be it?)"),
        ({"workflowName": "x"}, "'workflow' is missing (is 'workflowName' meant to be it?)"),
    ],
    ids=["nothing", "another", "a-slip", "another-word-for-it"],
)
def test_a_field_that_is_missing(document, said):
    """With the name that may stand for it."""
    schema = {"properties": {"workflow": {}}, "required": ["workflow"]}
    assert [
        finding.message for finding in check(document, schema, "x.json") if "missing" in finding.message
    ] == [said]


def test_validators_are_kept_but_not_for_ever(monkeypatch):
    """Schemas that come and go do not fill the memory."""
    assert validation._MOST_VALIDATORS == 500
    monkeypatch.setattr(validation, "_MOST_VALIDATORS", 20)
    monkeypatch.setattr(validation, "_VALIDATORS", {})
    for index in range(2 * validation._MOST_VALIDATORS):
        check({"f": index}, {"properties": {"f": {"type": "string"}}}, "x.json")
        assert 0 < len(validation._VALIDATORS) <= 20


def test_the_kind_of_a_file_by_its_place():
    """Users that were put away have none, and no folder of others has."""
    kinds = {
        "Users/_current-user.json": "userpointer",
        "Users/ana.json": "user",
        "Users/old/ana.json": None,
        "Endpoints/lan/Main.json": "endpoint",
        "Workflows/_shared/Trip/_mcpTool.json": "mcptool",
        "Workflows/ana/Main.json": None,
        "Notes/x.json": None,
    }
    assert {file: validation.schema_kind(file) for file in kinds} == kinds


def test_keys_that_nobody_has_stated():
    with pytest.raises(LookupError, match="nobody has stated the keys of tide files"):
        schema("tide")


def test_two_sources_may_not_differ(monkeypatch):
    """What they say of one field is put together."""
    monkeypatch.setattr(
        validation, "_FILES", {"tide": {"title": "Tide", "properties": {"a": {"type": "string"}}}}
    )
    monkeypatch.setattr(validation, "_SOURCES", {})
    monkeypatch.setattr(validation, "_WHOLE", {})
    assert schema("tide") == {"title": "Tide", "properties": {"a": {"type": "string"}}}
    more = {"a": {"default": "x"}, "b": {"type": "integer"}}
    validation.hand_in("tide", lambda: more)
    together = {"a": {"type": "string", "default": "x"}, "b": {"type": "integer"}}
    assert schema("tide")["properties"] == together
    assert schema("tide") is schema("tide")
    odd = {"a": {"type": "integer"}}
    validation.hand_in("tide", lambda: odd)
    with pytest.raises(ValueError, match="tide field 'a': type is stated as 'string' and as 'integer'"):
        schema("tide")


@pytest.mark.parametrize(
    ("value", "message"),
    [("x", "unknown field 'url' (did you mean 'endpoint'?)"), (5, "unknown field 'url' is ignored")],
)
def test_another_word_is_meant_where_its_value_would_fit(value, message):
    """Else it means something else."""
    rule = {"properties": {"endpoint": {"type": "string"}}}
    assert [finding.message for finding in check({"url": value}, rule, "x.json")] == [message]


def test_what_stands_there_is_told_in_sixty_characters():
    """Of a longer text the beginning."""
    assert validation.describe_value("x" * 58) == f'"{"x" * 58}"'
    assert validation.describe_value("x" * 59) == f'"{"x" * 56}...'


NODES_OR_NOT = [  # a document, whether it holds nodes, what is said of its shape
    ([], False, []),
    ([{"type": "Standard"}], True, []),
    ({"nodes": [{}]}, True, []),
    ({"nodes": []}, False, []),
    ({"tone": "dry"}, False, []),
    ({}, False, [("", validation.NO_NODES)]),
    ({"node": [{}]}, False, [("", "'nodes' is missing (is 'node' meant to be it?)")]),
    ({"node": []}, False, []),
    ({"node": [1]}, False, []),
    ({"nodes": 5}, True, [("/nodes", "found 5, allowed: a list of nodes")]),
    (5, True, [("", "found 5, allowed: a list of nodes, or an object with `nodes`")]),
    ([{}, 5], True, [("/1", "found 5, allowed: an object (a node)")]),
    ({"nodes": ["x"]}, True, [("/nodes/0", 'found "x", allowed: an object (a node)')]),
]


@pytest.mark.parametrize(("document", "holds", "said"), NODES_OR_NOT, ids=[str(c[0]) for c in NODES_OR_NOT])
def test_the_shape_of_a_workflow(document, holds, said):
    """An object without nodes may hold settings, unless it is empty or means to be a workflow."""
    assert validation.has_nodes(document) is holds
    found = check_file("Workflows/ana/x.json", document)
    assert [(finding.pointer, finding.message) for finding in found] == said
    assert {finding.level for finding in found} <= {ERROR}


FOLDERS = ["", "lan", "lan/", "lan/fast", "..lan", ".hidden/x", "a b", "_shared"]


@pytest.mark.parametrize("folder", FOLDERS)
def test_folders_of_a_user(folder):
    """What stays in its tree is a folder, nested ones too."""
    assert check_file("Users/a.json", {"endpointConfigsSubDirectory": folder}) == []


HARMLESS = [
    ("isResponder", False, "boolean", None), ("Prompt", "", "string", None), ("arg", [], "array", None),
    ("kwarg", {}, "object", None), ("stream_it", True, "boolean", True),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "kind", "default"), HARMLESS, ids=[c[0] for c in HARMLESS])
def test_a_misspelt_field_that_changes_nothing_is_a_note(name, value, kind, default):
    """Its value is what holds without it; any other value is a warning."""
    known = {
        "isResponder": "is_responder",
        "Prompt": "prompt",
        "arg": "args",
        "kwarg": "kwargs",
        "stream_it": "streamIt",
    }
    field = {"type": kind} | ({} if default is None else {"default": default})
    (finding,) = check({name: value}, {"properties": {known[name]: field}}, "x.json")
    assert (finding.level, finding.message) == (
        NOTE,
        f"unknown field {name!r} is ignored and has no effect",
    )


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (True, {"type": "boolean"}),
        (0, {"type": "boolean"}),
        (False, {"type": "boolean", "default": True}),
        (False, {}),
        (False, {"type": ["boolean", "string"]}),
        (False, False),
    ],
    ids=["true", "zero", "not-the-default", "any-type", "two-types", "no-schema"],
)
def test_a_misspelt_field_that_was_meant_to_do_something_is_a_warning(value, field):
    (finding,) = check({"isResponder": value}, {"properties": {"is_responder": field}}, "x.json")
    assert finding.level == WARNING


class TestSchemasOfOthers:
    """What a tool server says of its arguments: judged, and never trusted."""

    def test_what_does_not_fit_with_its_place(self):
        schema = {"properties": {"a": {"items": {"type": "integer"}}}, "required": ["b"]}
        breaches = validation.foreign_check(schema)({"a": [1, "x"]})
        assert [(path, rule, value) for path, rule, value, _ in breaches] == [
            ((), "required", ["b"]),
            (("a", 1), "type", "integer"),
        ]

    @pytest.mark.parametrize(
        "schema",
        [
            {"type": "strange"},
            {"required": True},
            {"$schema": "own", "type": 5},
        ],
    )
    def test_an_unsound_schema_finds_no_fault(self, schema):
        assert validation.foreign_check(schema)({"a": 1}) == []


def test_a_finding_steers_no_terminal():
    """Whatever a file of somebody else has for names, and where it is no JSON."""
    finding = Finding(
        "Workflows/a.json", "/0/x\x1b", ERROR, "found \n", Position(1, 2, "t\x9b"), "\n  a\x1b\n  ^"
    )
    assert str(finding) == (
        'Workflows/a.json:1:2: error: node 1 "t\\x9b", x\\x1b: found \\x0a\n  a\\x1b\n  ^'
    )
    assert describe_value("a\x9b") == '"a\\x9b"'
