"""Endpoint files that belong to the user, made once from the examples beside them.

`Endpoints/my-model/Main.example.json` ships; `Main.json` is what the user edits, and git ignores it, so that
an update never meets an edit. Where a tree cannot be written, the example itself is used
(`paths.endpoint_files`).
"""

from __future__ import annotations

import logging
from pathlib import Path

from Middleware.common.errors import ConfigError
from Middleware.config.loader import ConfigSnapshot, ConfigTree
from Middleware.config.paths import EXAMPLE
from Middleware.utilities.file_utils import atomic_write

logger = logging.getLogger(__name__)

OWN_FOLDER = "Endpoints/my-model"
"""The one folder whose endpoints the example users share."""
FIELDS = ("endpoint", "apiTypeConfigFileName", "modelNameToSendToAPI")
"""What points an endpoint at another server."""
FORMER = {
    "Endpoints/examples/Main.json": ("http://127.0.0.1:11434", "OllamaApiChat", "llama3.1:8b"),
    "Endpoints/demo/Demo.json": ("http://127.0.0.1:11434", "BuiltInDemo", "demo"),
}
"""The tracked files that were edited before there was `OWN_FOLDER`, with their fields as they ship."""


def make_own_endpoints(config: Path) -> list[Path]:
    """Write each endpoint of `OWN_FOLDER` that has only its example yet; the new files. Raises OSError."""
    snapshot = ConfigTree(config).snapshot()
    made = []
    for example in sorted((config / OWN_FOLDER).glob(f"*{EXAMPLE}.json")):
        target = example.with_name(f"{example.name.removesuffix(f'{EXAMPLE}.json')}.json")
        if target.exists():
            continue
        former = _edited_file(snapshot) if target.name == "Main.json" else None
        atomic_write(target, (config / former if former else example).read_bytes())
        if former:
            logger.info("%s/%s is a copy of %s, which you edited", OWN_FOLDER, target.name, former)
        made.append(target)
    return made


def _edited_file(snapshot: ConfigSnapshot) -> str | None:
    """The first of the former files that leads to another server or model than it ships with."""
    for file, shipped in FORMER.items():
        try:
            document = snapshot.read(file)
        except ConfigError:
            continue
        if tuple(document.get(field) for field in FIELDS) != shipped:
            return file
    return None
