"""Where things lie when nobody says so: beside `server.py` in a clone; for a program that came out of a wheel
beside the configuration that is named, else in the user's data folder. Writes nothing.
"""

from __future__ import annotations

import logging
import os
import shlex
import subprocess
from pathlib import Path

from Middleware.common.errors import ConfigError
from Middleware.common.instance_global_variables import (
    SHIPPED_DIRECTORY,
    LaunchFacts,
    is_installed,
    is_same_path,
    shipped_public,
)
from Middleware.config.loader import ConfigSnapshot, ConfigTree
from Middleware.config.paths import EXAMPLE
from Middleware.utilities.file_utils import atomic_write

logger = logging.getLogger(__name__)

NAME = "headrace"


def program() -> str:
    """What a user types to start the program."""
    if is_installed():
        return NAME
    return "run.bat" if os.name == "nt" else "./run"


def quote_words(*words: str) -> str:
    """Words of a command line as the user's shell reads them."""
    return subprocess.list2cmdline(words) if os.name == "nt" else shlex.join(words)


def tree_words(facts: LaunchFacts) -> list[str]:
    """The words of a command line that lead to the tree of `facts`; none where it is found without."""
    words = []
    if not is_same_path(facts.public_directory, shipped_public()):
        words += ["--PublicDirectory", str(facts.public_directory)]
    if not is_same_path(facts.config_directory, facts.public_directory / "Configs"):
        words += ["--ConfigDirectory", str(facts.config_directory)]
    return words


def default_public(config: Path | None) -> Path:
    """The Public root that nobody named. `config`: the named config root.

    Source: workflows.md 1.1, operate.md 2; a wheel has no folder beside `server.py` that could be the user's.
    """
    if not is_installed():
        return shipped_public()
    if config is not None:
        return Path(os.path.abspath(config)).parent
    own = own_public()
    return own if (own / "Configs").is_dir() else shipped_public()


def own_public() -> Path:
    """Where `--setup` of a program that came out of a wheel writes, and what is served once it is there."""
    return _user_data_folder() / "Public"


def data_directory(public: Path) -> Path | None:
    """The user's data folder where `public` is what came with a wheel; else None, the Public root itself."""
    return _user_data_folder() if is_shipped(public) else None


def _user_data_folder() -> Path:
    from platformdirs import user_data_path  # here: a Python without the libraries can still be told the way

    return user_data_path(NAME, appauthor=False)


def layout_notes(facts: LaunchFacts) -> list[str]:
    """What a user should know who is served the examples that came with a wheel."""
    if not is_shipped(facts.config_directory):
        return []
    notes = [
        f"the server uses the examples that came with the program and keeps its data in {facts.data_root}; "
        f"create files that you can change with {program()} --setup, or with {program()} --init DIR"
    ]
    here = Path.cwd() / "Public"
    if (here / "Configs").is_dir() and not is_shipped(here):
        notes.append(f"{here} is not used; name it with --PublicDirectory to use it")
    return notes


def is_shipped(path: Path) -> bool:
    """Whether a file or folder came with a wheel: the next install overwrites it."""
    return is_installed() and Path(os.path.realpath(path)).is_relative_to(os.path.realpath(SHIPPED_DIRECTORY))


# --------------------------------------------------------------------------
# Endpoint files that belong to the user, made once from the examples beside them.


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
            logger.info(
                "%s/%s was created as a copy of %s, because you had edited that file",
                OWN_FOLDER,
                target.name,
                former,
            )
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
