"""A cleaning rule in one new file: `--validate` and the editors know its keys without a second place."""

from __future__ import annotations

import importlib.util

import pytest

from Middleware.cleaning import ResponseCleaner, stage
from Middleware.cleaning.stage import RULES
from Middleware.workflows.checks.editor_schemas import editor_schemas
from tests.workflows.checks.conftest import llm

FILE = '''
from Middleware.cleaning.head_strip import HeadStrip
from Middleware.cleaning.stage import FLAG, TEXT
from Middleware.cleaning.stage import Inputs, Stage, rule, text_of


@rule(
    order=350,
    endpoint={"removeDiagnosticPrefix": FLAG, "diagnosticPrefix": TEXT("What it looks like.")},
    node={"keepDiagnosticPrefix": FLAG("The prefix stays in this node.")},
    user={"diagnosticsEverywhere": FLAG("Every endpoint has the prefix.")},
)
def diagnostic_prefix(inputs: Inputs) -> Stage | None:
    """Remove the mark of a diagnosis from the start of answers."""
    asked = inputs.endpoint.get("removeDiagnosticPrefix") or inputs.user.get("diagnosticsEverywhere")
    if not asked or inputs.node.get("keepDiagnosticPrefix"):
        return None
    return HeadStrip([text_of(inputs.endpoint, "diagnosticPrefix") or "[DIAGNOSTIC]:"])
'''
KEYS = {"removeDiagnosticPrefix", "diagnosticPrefix", "keepDiagnosticPrefix", "diagnosticsEverywhere"}


@pytest.fixture
def rule_file(tmp_path, monkeypatch):
    """A rule is loaded from its file, and forgotten after the test."""
    table = dict(RULES)
    monkeypatch.setattr(stage, "RULES", table)
    for reader in ("Middleware.cleaning.cleaner", "Middleware.utilities.streaming_utils"):
        monkeypatch.setattr(f"{reader}.RULES", table)

    def load():
        (tmp_path / "diagnostic_prefix.py").write_text(FILE, "utf-8")
        spec = importlib.util.spec_from_file_location("diagnostic_prefix", tmp_path / "diagnostic_prefix.py")
        spec.loader.exec_module(importlib.util.module_from_spec(spec))

    return load


def put_all(checked, *, right):
    """Each key of the rule where it belongs, with a value of the right or of a wrong type."""
    flag, text = (True, "[D]:") if right else ("yes", 5)
    checked.change("Endpoints/lan/small-model.json", removeDiagnosticPrefix=flag, diagnosticPrefix=text)
    checked.change("Users/ana.json", diagnosticsEverywhere=flag)
    checked.flow(llm(keepDiagnosticPrefix=flag))


def test_without_the_file_nobody_knows_the_keys(checked):
    put_all(checked, right=True)
    assert {key for key in KEYS if any(f"unknown field '{key}'" in line for line in checked.lines())} == KEYS


def test_validate_knows_the_keys(checked, rule_file):
    """No word about keys that are right."""
    rule_file()
    put_all(checked, right=True)
    assert checked.lines() == []


def test_validate_tells_a_wrong_type(checked, rule_file):
    """A wrong flag is a warning, a number in the place of a text an error, as with every other key."""
    rule_file()
    put_all(checked, right=False)
    assert sorted(checked.lines()) == [
        "Endpoints/lan/small-model.json: error: diagnosticPrefix: found 5, allowed: a string",
        'Endpoints/lan/small-model.json: warning: removeDiagnosticPrefix: found "yes", allowed: true or false',
        'Users/ana.json: warning: diagnosticsEverywhere: found "yes", allowed: true or false',
        'Workflows/ana/Main.json: warning: node 1, keepDiagnosticPrefix: found "yes", allowed: true or false',
    ]


def test_validate_tells_a_slip(checked, rule_file):
    """With the name that is meant."""
    rule_file()
    checked.change("Endpoints/lan/small-model.json", removeDiagnosticPrefx=True)
    (line,) = checked.lines()
    assert "unknown field 'removeDiagnosticPrefx' (did you mean 'removeDiagnosticPrefix'?)" in line


def test_editors_complete_the_keys(rule_file):
    """With a sentence each: its own, else the rule's."""
    rule_file()
    schemas = editor_schemas()
    flag = schemas["endpoint.json"]["properties"]["removeDiagnosticPrefix"]
    assert flag["description"] == "Remove the mark of a diagnosis from the start of answers."
    assert (flag["type"], flag["default"]) == (["boolean", "null"], False)
    node = schemas["node/Standard.json"]["properties"]["keepDiagnosticPrefix"]
    assert node["description"] == "The prefix stays in this node. Default: false."
    assert "diagnosticsEverywhere" in schemas["user.json"]["properties"]


def test_the_rule_cleans(rule_file):
    """As soon as it is loaded."""
    rule_file()
    cleaner = ResponseCleaner({"removeDiagnosticPrefix": True}, {})
    assert cleaner.feed("[DIAGNOSTIC]: well") + cleaner.finish() == "well"
