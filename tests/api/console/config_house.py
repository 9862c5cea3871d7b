"""A config tree in a temporary folder, and the console's routes over it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from Middleware.api.console.config_files import version_of
from Middleware.api.console.view_contract import json_bytes
from Middleware.api.console.views import Views
from Middleware.workflows.checks.config_check import check_tree, checked_tree
from tests.api.console.conftest import a_hub, asking

FILES: dict[str, Any] = {
    "Users/mira": {"port": 5000, "customWorkflowOverride": True, "customWorkflow": "Main"},
    "ApiTypes/Demo": {"type": "builtInDemo"},
    "Endpoints/Big": {"endpoint": "", "apiTypeConfigFileName": "Demo"},
    "Workflows/mira/Main": [
        {"title": "Answer", "type": "Standard", "endpointName": "Big", "prompt": "say it"}
    ],
}
RIGHTS = ("look", "act", "save")


@dataclass
class House:
    """`root`: the config root. `hub`: what the routes know."""

    root: Path
    hub: Any

    _routes: Views | None = field(default=None, init=False)

    @property
    def views(self) -> Views:
        """One router for all requests, until the test gives the house another hub."""
        if self._routes is None or self._routes.hub is not self.hub:
            self._routes = Views(self.hub)
        return self._routes

    def write(self, file: str, content: Any) -> bytes:
        """A file below the root (`Workflows/mira/Main.json`): bytes, a text, or a value that becomes JSON."""
        path = self.root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str | bytes) else json.dumps(content)
        data = text if isinstance(text, bytes) else text.encode()
        path.write_bytes(data)
        return data

    def bytes_of(self, file: str) -> bytes:
        return (self.root / file).read_bytes()

    def version(self, file: str) -> str:
        return version_of(self.bytes_of(file))

    def ask(
        self, method: str, path: str, *, rights: tuple[str, ...] = RIGHTS, **request: Any
    ) -> tuple[int, Any]:
        """(status, value) of a request below `console/api/`."""
        reply = self.views.answer(asking(method, path, **request), rights)
        return reply.status, json.loads(json_bytes(reply.value))

    def save(self, file: str, text: str, version: str | None = None) -> tuple[int, Any]:
        """PUT of a text over the file as it is now, or over this version of it."""
        route = "workflows" if file.startswith("Workflows/") else "files"
        body = {"text": text, "version": self.version(file) if version is None else version}
        return self.ask("PUT", f"{route}/{file}", body=body)

    def backups(self) -> list[Path]:
        """All copies of old texts, by name."""
        return sorted(path for path in (self.root.parent / "ConfigBackups").rglob("*") if path.is_file())

    def findings(self) -> list[str]:
        """What `--validate` says."""
        return [str(finding) for finding in check_tree(checked_tree(self.root).snapshot())]


def recorder() -> Any:
    """One that has seen no run."""
    return SimpleNamespace(runs=list)


@pytest.fixture
def house(tmp_path: Path) -> House:
    """The tree of `FILES`, whole and right: `mira` is served."""
    root = tmp_path / "Public" / "Configs"
    made = House(
        root, a_hub(snapshot=lambda: checked_tree(root).snapshot(), mode="edit", recorder=recorder())
    )
    for name, document in FILES.items():
        made.write(f"{name}.json", document)
    assert made.views  # made once, before threads ask it
    return made
