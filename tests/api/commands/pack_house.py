"""A small installation for the tests of `--pack` and `--unpack`, and one to unpack into."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from Middleware.api.launch_arguments import parse
from Middleware.common.instance_global_variables import set_launch_facts
from Middleware.services.pack_archive import Pack, read_pack

API_TYPES = {
    "Ollama": {
        "type": "ollamaApiChat",
        "presetType": "OllamaKind",
        "samplerFieldMap": {"temperature": "temperature", "min_p": "min_p", "stop": "stop"},
    },
    "Other": {
        "type": "openAIChatCompletion",
        "presetType": "OtherKind",
        "samplerFieldMap": {"temperature": "heat", "stop": "stop_at"},
    },
    "Vectors": {"type": "ollamaEmbeddings", "presetType": "OllamaKind"},
}


class Terminal(io.StringIO):
    """Somebody who types these lines."""

    def isatty(self) -> bool:
        return True


class PackHouse:
    """A Public folder. `write` and `script` add files to it; `run` runs a command on it."""

    def __init__(
        self, public: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.public, self.configs = public, public / "Configs"
        self._capsys, self._monkeypatch = capsys, monkeypatch
        for name, document in API_TYPES.items():
            self.write(f"ApiTypes/{name}", document)

    def write(self, name: str, document: Any) -> Path:
        """A config file; a text is written as it is."""
        file = self.configs / f"{name}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(document if isinstance(document, str) else json.dumps(document), encoding="utf-8")
        return file

    def endpoint(self, name: str, api_type: str = "Ollama", **fields: Any) -> None:
        document = {"endpoint": "http://127.0.0.1:9", "apiTypeConfigFileName": api_type, **fields}
        self.write(f"Endpoints/{name}", document)

    def script(self, name: str, text: str = "def Invoke(*args, **kwargs):\n    return 'x'\n") -> Path:
        file = self.public / "workflow_python_scripts" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def read(self, name: str) -> Any:
        return json.loads((self.configs / f"{name}.json").read_text("utf-8"))

    def files(self) -> dict[str, bytes]:
        """All files below the Public folder."""
        found = [file for file in self.public.rglob("*") if file.is_file()]
        return {file.relative_to(self.public).as_posix(): file.read_bytes() for file in found}

    def run(self, *words: str, lines: Sequence[str] | None = None) -> tuple[int, str]:
        """Exit status and what was printed. `lines`: what is typed on a terminal; None: there is none."""
        typed = "".join(f"{line}\n" for line in lines or ())
        self._monkeypatch.setattr("sys.stdin", io.StringIO() if lines is None else Terminal(typed))
        self._capsys.readouterr()
        launch = parse(["--PublicDirectory", str(self.public), *words])
        assert launch.command is not None
        set_launch_facts(launch.facts)
        status = launch.command.run(launch.arguments)
        printed = self._capsys.readouterr()
        return status, printed.out + printed.err

    def pack(self, *words: str) -> Pack:
        """The pack of a name, which is written to a file of its own."""
        target = self.public.parent / f"{len(list(self.public.parent.glob('*.zip')))}.zip"
        status, told = self.run("--pack", words[0], str(target), *words[1:])
        assert status == 0, told
        return read_pack(target)

    def packed(self, *words: str) -> str:
        """The path of such a file."""
        self.pack(*words)
        return str(max(self.public.parent.glob("*.zip"), key=lambda file: int(file.stem)))


def small_user(house: PackHouse) -> None:
    """User `ann`: a workflow that runs another, with a preset, a template, a schema and a tool server."""
    house.endpoint("lan/Main", modelNameToSendToAPI="gemma3:4b", apiKey="sk-secret-secret-1234")
    house.endpoint("lan/Vec", "Vectors", modelNameToSendToAPI="nomic")
    house.write("Presets/OllamaKind/Cold", {"temperature": 0.1, "min_p": 0.05, "stop": ["x"]})
    house.write(
        "PromptTemplates/plain",
        {
            key: ""
            for key in (
                "promptTemplateAssistantPrefix",
                "promptTemplateAssistantSuffix",
                "promptTemplateEndToken",
                "promptTemplateSystemPrefix",
                "promptTemplateSystemSuffix",
                "promptTemplateUserPrefix",
                "promptTemplateUserSuffix",
            )
        },
    )
    house.write("StructuredOutputs/ann/Event", {"type": "object"})
    house.write(
        "Users/ann",
        {
            "description": "Ann's user.",
            "customWorkflowOverride": True,
            "customWorkflow": "Main",
            "chatPromptTemplateName": "plain",
            "endpointConfigsSubDirectory": "lan",
            "discussionDirectory": str(house.public / "chats"),
            "sqlLiteDirectory": str(house.public / "locks"),
            "pythonModuleRoots": [str(house.public)],
            "exposeEndpoints": True,
            "apiKey": "hunter2hunter2",
            "embeddingsEndpoint": "Vec",
        },
    )
    (house.public / "chats").mkdir(exist_ok=True)
    (house.public / "locks").mkdir(exist_ok=True)
    node = {"title": "Ask", "type": "Standard", "endpointName": "Main", "preset": "Cold"}
    house.write(
        "Workflows/ann/Main",
        {
            "fast": "Main",
            "nodes": [
                {**node, "structuredOutputFile": "Event"},
                {**node, "endpointName": "{fast}", "allowTools": True},
                {"title": "Rest", "type": "CustomWorkflow", "workflowName": "Child"},
            ],
        },
    )
    house.write("Workflows/ann/Child", [{**node, "title": "Child"}])
    house.write("Workflows/ann/Unused", [{**node, "title": "Nobody runs it"}])
