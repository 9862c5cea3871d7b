"""A small config tree that is right in every file, for the tests of the checkers to break."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from Middleware.common.errors import NOWHERE
from Middleware.config.loader import ConfigTree
from Middleware.config.validation import Finding
from Middleware.workflows.checks import config_check, workflow_check

ABSENT = object()

GOOD: dict[str, Any] = {
    "Users/_current-user.json": {"currentUser": "ana"},
    "Users/ana.json": {
        "customWorkflowOverride": True,
        "customWorkflow": "Main",
        "endpointConfigsSubDirectory": "lan",
        "chatPromptTemplateName": "plain",
    },
    "ApiTypes/Api.json": {"type": "openAIChatCompletion", "presetType": "T"},
    "Endpoints/lan/small-model.json": {"endpoint": "http://127.0.0.1:1", "apiTypeConfigFileName": "Api"},
    "Presets/T/cold.json": {"temperature": 0},
    "PromptTemplates/plain.json": {"promptTemplateEndToken": ""},
    "Workflows/ana/Main.json": [
        {"type": "Standard", "endpointName": "small-model", "preset": "cold", "prompt": "x"}
    ],
}


def without_position(finding: Finding) -> str:
    return str(replace(finding, position=NOWHERE))


class CheckedConfigs:
    """`put` writes a file (`ABSENT` removes it); `findings` is the check of the whole tree, as lines."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.tree = ConfigTree(root, workflow_check.own_errors)
        for file, document in GOOD.items():
            self.put(file, document)

    def put(self, file: str, document: Any) -> None:
        path = self.root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        if document is ABSENT:
            path.unlink()
        else:
            path.write_text(document if isinstance(document, str) else json.dumps(document), encoding="utf-8")

    def change(self, file: str, **fields: Any) -> None:
        """Write an object of GOOD with other fields; `ABSENT` removes one."""
        merged = GOOD[file] | fields
        self.put(file, {key: value for key, value in merged.items() if value is not ABSENT})

    def flow(self, *nodes: Any, name: str = "Main", folder: str = "ana", **variables: Any) -> None:
        """A workflow of these nodes; without any, one that says a text."""
        said = list(nodes) or [{"type": "StaticResponse", "content": "x"}]
        self.put(f"Workflows/{folder}/{name}.json", {"nodes": said, **variables})

    def findings(self) -> list[Finding]:
        return config_check.check_tree(self.tree.snapshot())

    def lines(self) -> list[str]:
        """Without line and column, which `test_config_check.py` looks at."""
        return [without_position(finding) for finding in self.findings()]


@pytest.fixture
def checked(tmp_path: Path) -> CheckedConfigs:
    return CheckedConfigs(tmp_path / "Configs")


def llm(**fields: Any) -> dict[str, Any]:
    return {"type": "Standard", "endpointName": "small-model", "prompt": "x"} | fields
