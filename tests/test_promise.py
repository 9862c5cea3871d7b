"""`tools/promise.py`: everything that a minor version may not take away is found when it is gone."""

from __future__ import annotations

import copy
import importlib.util
import json
from pathlib import Path

import pytest

HOUSE = Path(__file__).resolve().parents[1]
spec = importlib.util.spec_from_file_location("promise", HOUSE / "tools/promise.py")
assert spec is not None and spec.loader is not None
promise = importlib.util.module_from_spec(spec)
spec.loader.exec_module(promise)


@pytest.fixture(scope="module")
def now():
    """What the code holds."""
    return promise.current()


def test_the_code_keeps_what_the_last_version_promised(now):
    """docs/promise holds the list; whoever breaks it reads here what is gone."""
    kept = json.loads(promise.kept_file().read_text("utf-8"))
    assert promise.broken(kept, now) == []
    assert list(kept) == list(promise.KINDS)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("arguments", "--require-api-key"),
        ("fields", "user.json maxWorkflowDepth"),
        ("fields", "node/WebFetch.json allowedHosts"),
        ("fields", "user.json livenessToolCall/toolName"),
        ("routes", "/v1/chat/completions"),
        ("routes", "/v1/models/<>"),
        ("variables", "chat_system_prompt"),
        ("node types", "StringConcatenator"),
        ("metrics", "headrace_requests"),
        ("names", "Middleware.api.workflow_gateway.handle_user_prompt"),
        ("names", "Middleware.utilities.script_library.last_messages"),
    ],
)
def test_what_is_taken_away_is_found(now, kind, name):
    """A renamed one is one that is gone and one that came."""
    changed = copy.deepcopy(now)
    changed[kind][f"{name}2"] = changed[kind].pop(name)
    assert promise.broken(now, changed) == [f"{kind}: {name} is gone"]
    assert promise.broken(changed, now) == [f"{kind}: {name}2 is gone"]


@pytest.mark.parametrize(
    ("kind", "name", "change", "fault"),
    [
        ("arguments", "--port", ["no value"], "no longer has: one value"),
        ("fields", "user.json allowSharedWorkflows", ["null"], "no longer has: boolean"),
        ("routes", "/api/chat", ["POST"], "no longer has: DELETE"),
        ("metrics", "headrace_answer_seconds", ["kind histogram", "label user"], "no longer has: label workflow"),
        ("node types", "WebFetch", ["needs type", "needs prompt"], "now needs prompt"),
        ("names", "Middleware.api.api_helpers.sse_format", ["data"], "no longer takes output_format"),
        ("names", "Middleware.api.api_helpers.sse_format", ["output_format", "data"], "takes output_format in place of data"),
        ("names", "Middleware.api.api_helpers.sse_format", ["data", "output_format", "more"], "now needs more"),
    ],
)  # fmt: skip
def test_what_means_less_than_before_is_found(now, kind, name, change, fault):
    """It is there, and somebody's file, scrape or script that used it fails."""
    changed = copy.deepcopy(now)
    changed[kind][name] = change
    assert promise.broken(now, changed) == [f"{kind}: {name} {fault}"]


def test_more_is_no_fault(now):
    """New names, further types, methods, labels and optional parameters, and a node that needs less."""
    more = copy.deepcopy(now)
    for entries in more.values():
        entries["new"] = ["anything"]
    more["fields"]["user.json steadyWindow"] = [*now["fields"]["user.json steadyWindow"], "array"]
    more["fields"]["user.json port"] = ["any"]
    more["routes"]["/api/chat"] = [*now["routes"]["/api/chat"], "PUT"]
    more["node types"]["WebFetch"] = []
    more["names"]["Middleware.api.api_helpers.sse_format"] = [
        "data",
        "output_format (optional)",
        "more (optional)",
    ]
    assert promise.broken(now, more) == []


def test_the_readers_look_at_the_code_itself(monkeypatch):
    """Each reads what the program uses, and not a list of its own."""
    monkeypatch.delitem(promise.VARIABLES, "Discussion_Id")
    schemas = {
        "user.json": {"properties": {"a": {"anyOf": [{"type": "string"}, {"const": 1}]}}},
        "node/X.json": {},
    }
    monkeypatch.setattr(promise, "editor_schemas", lambda: schemas)
    monkeypatch.setattr(promise, "NAMES", {"json": ("dumps", "gone")})
    now = promise.current()
    assert "Discussion_Id" not in now["variables"]
    assert now["fields"] == {"user.json a": ["string", "value 1"]}
    assert now["node types"] == {"X": []}
    assert [name for name in now["names"]] == ["json.dumps"]


def test_the_file_of_a_version_is_made_by_the_tool(monkeypatch, tmp_path, capsys):
    """One line a name. The newest minor version counts, and one of another major does not."""
    monkeypatch.setattr(promise, "FOLDER", tmp_path)
    monkeypatch.setattr(promise, "VERSION", "3.10.2")
    monkeypatch.setattr(promise, "current", lambda: {"routes": {"/a": ["GET"], "/b": []}})
    assert promise.main(["--write"]) == 0
    assert (tmp_path / "3.10.json").read_text("utf-8") == '{\n"routes": {\n "/a": ["GET"],\n "/b": []\n}\n}\n'
    (tmp_path / "3.9.json").write_text("{}", "utf-8")
    (tmp_path / "4.0.json").write_text("{}", "utf-8")
    assert promise.kept_file(tmp_path).name == "3.10.json"
    monkeypatch.setattr(promise, "kept_file", lambda: tmp_path / "3.10.json")
    monkeypatch.setattr(promise, "current", lambda: {"routes": {"/a": ["GET"]}})
    capsys.readouterr()
    assert promise.main([]) == 1
    assert capsys.readouterr().out == "routes: /b is gone\n"


def test_a_major_version_without_a_promise_says_so(monkeypatch, tmp_path):
    """A new one begins with `--write`."""
    monkeypatch.setattr(promise, "VERSION", "9.0.0")
    with pytest.raises(SystemExit, match="holds no promise of version 9; --write makes one"):
        promise.kept_file(tmp_path)
