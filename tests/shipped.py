"""The configuration as it ships: a clone in which a server ran also holds the developer's own endpoints."""

from __future__ import annotations

import shutil
from pathlib import Path

from Middleware.common.instance_global_variables import INSTALL_DIRECTORY
from Middleware.utilities.install_layout import OWN_FOLDER

PUBLIC = INSTALL_DIRECTORY / "Public"
CONFIGS = PUBLIC / "Configs"
OWN = CONFIGS / OWN_FOLDER
SCHEMA_FILES = {
    "user.json": "Users/[!_]*.json",
    "endpoint.json": "Endpoints/**/*.json",
    "apitype.json": "ApiTypes/*.json",
    "preset.json": "Presets/**/*.json",
    "prompttemplate.json": "PromptTemplates/*.json",
    "routing.json": "Routing/*.json",
    "mcpserver.json": "MCPServers/*.json",
    "workflow.json": "Workflows/**/*.json",
    "memorysettings.json": "Workflows/**/Memory-Settings.json",
    "compactorsettings.json": "Workflows/**/Compactor-Settings.json",
}
"""Schema for editors -> the files below `CONFIGS` that it is for."""


def is_own(file: Path) -> bool:
    """Whether git does not know this file of the config tree: it is the developer's."""
    return file.parent == OWN and not file.name.endswith(".example.json")


def copy_configs(target: Path) -> Path:
    """Copy what ships to a folder that is not there yet; the folder."""
    own = {file.name for file in OWN.iterdir() if is_own(file)}

    def left_out(folder: str, names: list[str]) -> set[str]:
        return own & set(names) if Path(folder) == OWN else set()

    shutil.copytree(CONFIGS, target, ignore=left_out)
    return target


def shipped_files(folder: str = "", pattern: str = "*.json") -> list[Path]:
    """Those that ship, of a folder and all below it, sorted. A list of tests that is made of them does not grow
    while the tests run: a worker that takes the place of another lists them anew."""
    return [file for file in sorted((CONFIGS / folder).rglob(pattern)) if not is_own(file)]
