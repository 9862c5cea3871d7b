"""A key that is `***` is an error: a backup without secrets was restored. Source: spec operate.md 3."""

from __future__ import annotations

import pytest

from Middleware.utilities.config_masks import shown_text
from Middleware.workflows.checks import config_check
from Middleware.workflows.checks.config_check import MASKED
from tests.workflows.checks.conftest import GOOD

ENDPOINT = GOOD["Endpoints/lan/small-model.json"]
STDIO = {"transport": "stdio", "command": "npx"}


def places(checked):
    return [f"{f.file}{f.pointer}" for f in checked.findings() if f.message == MASKED and f.level == "error"]


@pytest.mark.parametrize(
    ("file", "document", "pointer"),
    [
        ("Endpoints/lan/small-model.json", {**ENDPOINT, "apiKey": "***"}, "/apiKey"),
        (
            "Endpoints/lan/small-model.json",
            {**ENDPOINT, "extraHeaders": {"X-Api-Key": "***"}},
            "/extraHeaders/X-Api-Key",
        ),
        ("Endpoints/lan/small-model.json", {**ENDPOINT, "endpoint": "http://me:***@h"}, "/endpoint"),
        ("Endpoints/lan/small-model.json", {**ENDPOINT, "endpoint": "http://h/?key=***"}, "/endpoint"),
        ("MCPServers/m.json", {**STDIO, "env": {"API_TOKEN": "***"}}, "/env/API_TOKEN"),
        ("MCPServers/m.json", {**STDIO, "args": ["--token", "***"]}, "/args/1"),
        ("MCPServers/m.json", {**STDIO, "args": ["--token=***"]}, "/args/0"),
        (
            "MCPServers/m.json",
            {"transport": "sse", "url": "http://u", "headers": {"Authorization": "***"}},
            "/headers/Authorization",
        ),
    ],
    ids=str,
)
def test_it_is_told_where_it_stands(checked, file, document, pointer):
    checked.put(file, document)
    assert places(checked) == [f"{file}{pointer}"]


@pytest.mark.parametrize(
    ("file", "document"),
    [
        ("Workflows/ana/Main.json", [{"type": "StaticResponse", "content": "one\n***\ntwo"}]),
        ("Workflows/ana/Main.json", [{"type": "StaticResponse", "content": "***"}]),
        ("Endpoints/lan/small-model.json", {**ENDPOINT, "apiKey": ""}),
        ("Endpoints/lan/small-model.json", {**ENDPOINT, "extraHeaders": {"X-Title": "***"}}),
        ("MCPServers/m.json", {**STDIO, "args": ["***"]}),
    ],
    ids=str,
)
def test_stars_elsewhere_are_text(checked, file, document):
    checked.put(file, document)
    assert places(checked) == []


def test_what_the_user_reaches_is_checked_at_a_start(checked):
    checked.put("Endpoints/lan/small-model.json", {**ENDPOINT, "apiKey": "***"})
    findings = config_check.check_users(checked.tree.snapshot(), ["ana"])
    assert MASKED in [finding.message for finding in findings if finding.level == "error"]


@pytest.mark.parametrize(
    "text",
    [
        '{"endpoint": "http://h", "apiTypeConfigFileName": "Api", "apiKey": "abcdef-123456"}',
        '{"endpoint": "http://me:secret12@h", "apiTypeConfigFileName": "Api"}',
        '{"endpoint": "http://h", "apiTypeConfigFileName": "Api", "extraHeaders": {"X-Auth": "abcdef-123456"}}',
    ],
)
def test_what_a_backup_masks_is_found(checked, text):
    """Both go by the same rules."""
    checked.put("Endpoints/lan/small-model.json", shown_text(text))
    assert len(places(checked)) == 1
