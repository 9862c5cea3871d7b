"""A real model behind a real server: SmolLM2-135M in llama.cpp's HTTP server, asked through the official clients."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

HOUSE = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.realmodel, pytest.mark.timeout(300)]

USERS = {  # user -> its endpoint
    "chatty": {"apiTypeConfigFileName": "LlamaCppServer"},
    "flat": {"apiTypeConfigFileName": "OpenAI-Compatible-Completions", "promptTemplate": "chatml", "addGenerationPrompt": True},
}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), "utf-8")


def write_configs(public: Path, model_url: str) -> None:
    """One user for each shape of backend, all pointed to the model."""
    configs = public / "Configs"
    for folder in ("ApiTypes", "PromptTemplates"):
        (configs / folder).parent.mkdir(parents=True, exist_ok=True)
        (configs / folder).symlink_to(HOUSE / "Public" / "Configs" / folder)
    node = {
        "title": "Answer",
        "type": "Standard",
        "endpointName": "Model",
        "systemPrompt": "You are a helpful assistant.",
        "maxResponseSizeInTokens": 24,
        "forceGenerationPromptIfEndpointAllows": True,
    }
    for user, endpoint in USERS.items():
        settings = {"customWorkflowOverride": True, "customWorkflow": "Chat", "chatPromptTemplateName": "_chatonly"}
        write(configs / "Users" / f"{user}.json", {**settings, "endpointConfigsSubDirectory": user})
        file = {"endpoint": model_url, "modelNameToSendToAPI": "smollm2", "maxContextTokenSize": 2048, **endpoint}
        write(configs / "Endpoints" / user / "Model.json", file)
        write(configs / "Workflows" / user / "Chat.json", [node])


@dataclass(frozen=True)
class House:
    """A running server. `url`: its root."""

    url: str


@pytest.fixture(scope="session")
def model_url() -> str:
    sys.path.insert(0, str(HOUSE))
    pytest.importorskip("xllamacpp", reason='needs the extra: pip install -e ".[local-model]"')
    import run_local_model

    port = free_port()
    model = run_local_model.start_model_server(port)
    globals()["_model"] = model  # lives as long as the process
    return str(model.listening_address)


@pytest.fixture(scope="session")
def house(model_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    public = tmp_path_factory.mktemp("public")
    write_configs(public, model_url)
    port = free_port()
    command = [sys.executable, "server.py", "--PublicDirectory", str(public), "--port", str(port), "--concurrency", "0"]
    for user in USERS:
        command += ["--User", user]
    log = (public / "server.log").open("wb")
    server = subprocess.Popen(
        command, cwd=HOUSE, stdout=log, stderr=subprocess.STDOUT, env={**os.environ, "PYTHONUNBUFFERED": "1"}
    )
    try:
        url = f"http://127.0.0.1:{port}"
        until = time.monotonic() + 30
        while True:
            try:
                urllib.request.urlopen(f"{url}/health", timeout=2).close()
                break
            except OSError:
                assert server.poll() is None and time.monotonic() < until, (public / "server.log").read_text()
                time.sleep(0.05)
        yield House(url)
    finally:
        server.terminate()
        server.wait(20)
        log.close()


MESSAGES = [{"role": "user", "content": "Name a colour."}]
BOTH = pytest.mark.parametrize("user", sorted(USERS))


def looks_clean(text: str) -> bool:
    return bool(text.strip()) and text == text.lstrip() and "<|im_" not in text


@BOTH
class TestOpenAIClient:
    def test_chat_whole(self, house: House, user: str) -> None:
        """A typed answer with text, a true finish reason and real numbers."""
        import openai

        with openai.OpenAI(base_url=f"{house.url}/v1", api_key="none") as client:
            answer = client.chat.completions.create(model=user, messages=MESSAGES)  # type: ignore[arg-type]
        assert looks_clean(answer.choices[0].message.content or "")
        assert answer.choices[0].finish_reason in ("stop", "length")
        assert answer.usage is not None and answer.usage.completion_tokens > 0

    def test_chat_streamed(self, house: House, user: str) -> None:
        """The pieces make one clean text; the last one says why it ended."""
        import openai

        with openai.OpenAI(base_url=f"{house.url}/v1", api_key="none") as client:
            chunks = list(client.chat.completions.create(model=user, messages=MESSAGES, stream=True))  # type: ignore[call-overload]
        assert looks_clean("".join(c.choices[0].delta.content or "" for c in chunks if c.choices))
        assert chunks[-1].choices[0].finish_reason in ("stop", "length")

    @pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
    def test_completion(self, house: House, user: str, stream: bool) -> None:
        """The old text route as well."""
        import openai

        with openai.OpenAI(base_url=f"{house.url}/v1", api_key="none") as client:
            answer = client.completions.create(model=user, prompt="Name a colour.", stream=stream)
            parts = list(answer) if stream else [answer]  # type: ignore[arg-type]
        assert looks_clean("".join(part.choices[0].text for part in parts))


@BOTH
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
class TestOllamaClient:
    def test_chat(self, house: House, user: str, stream: bool) -> None:
        """An Ollama client sees an Ollama server."""
        import ollama

        answer = ollama.Client(host=house.url).chat(model=user, messages=MESSAGES, stream=stream)
        parts = list(answer) if stream else [answer]
        assert looks_clean("".join(part.message.content or "" for part in parts))
        assert parts[-1].done and parts[-1].eval_count > 0

    def test_generate(self, house: House, user: str, stream: bool) -> None:
        """And so does one that asks for a completion."""
        import ollama

        answer = ollama.Client(host=house.url).generate(model=user, prompt="Name a colour.", stream=stream)
        parts = list(answer) if stream else [answer]
        assert looks_clean("".join(part.response for part in parts))
        assert parts[-1].done
