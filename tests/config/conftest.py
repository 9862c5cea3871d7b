"""A config tree on disk that a test fills, and a clock that it moves."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

import Middleware.utilities.streaming_utils  # noqa: F401  (hands in the keys of cleaning rules, as a start does)
from Middleware.config import endpoints, users  # noqa: F401  (hand in their fields)
from Middleware.config.loader import ConfigSnapshot, ConfigTree
from tests.config.endpoint_files import endpoint


class Configs:
    """A config root. `put` writes a file, `tree` reads it; `later` moves the tree's clock on."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._ahead = 0
        self.tree = ConfigTree(root, clock=lambda: time.time_ns() + self._ahead)

    def put(self, relative: str, content: Any) -> None:
        path = self.root / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")

    def later(self, seconds: float = 10) -> None:
        self._ahead += int(seconds * 1e9)

    def snapshot(self) -> ConfigSnapshot:
        return self.tree.snapshot()


@pytest.fixture
def configs(tmp_path: Path) -> Configs:
    return Configs(tmp_path / "Configs")


@pytest.fixture
def tree(configs: Configs) -> Configs:
    """Endpoints: `main` of everybody, `small-model` of the folder `lan`."""
    configs.put("ApiTypes/Open-AI-API.json", {"type": "openAIChatCompletion", "presetType": "T"})
    configs.put("ApiTypes/Emb.json", {"type": "ollamaEmbeddings"})
    configs.put("Endpoints/main.json", endpoint(modelNameToSendToAPI="m", apiKey="k"))
    configs.put("Endpoints/lan/small-model.json", endpoint(presetSamplers={"temperature": 0.5}))
    return configs
