"""What the configuration names by path: files and folders of this machine that it needs beside itself.

Reads config only, and asks the disk what is there. Source: spec operate.md 3.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from Middleware.common.errors import ConfigError
from Middleware.config.loader import ConfigSnapshot
from Middleware.workflows.checks.config_check import all_files
from Middleware.workflows.tools.dynamic_module_loader import locate

_SCRIPT = "module_path"
_RELATIVE = ("filepath", "returnFile", "cursorDirectory")
"""Fields whose relative paths count from the working directory."""
_ABSOLUTE = re.compile(r"[/~]|[A-Za-z]:[\\/]")
_LONGEST = 1024


def named_paths(snapshot: ConfigSnapshot) -> list[Path]:
    """The files and folders that a text of a config file names and that are there; absolute, sorted.

    Of a path that is filled when a workflow runs, the folder before the first variable counts.
    """
    found: set[Path] = set()
    for file in all_files(snapshot):
        try:
            document, _ = snapshot.inspect(file)
        except ConfigError:
            continue
        for key, text in _texts(document, ""):
            path = _path_in(key, text)
            if path is not None and path.parent != path:
                found.add(path)
    return sorted(found)


def _texts(value: Any, key: str) -> Iterator[tuple[str, str]]:
    """Each text of a document, with the key that holds it."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _texts(item, str(name))
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, key)


def _path_in(key: str, text: str) -> Path | None:
    """The path that a text is; None: it is none, or nothing is there."""
    fixed, variable, _ = text.partition("{")
    if variable:
        fixed = fixed[: max(fixed.rfind("/"), fixed.rfind("\\")) + 1]
    if not fixed.strip() or len(text) > _LONGEST or "\n" in text or "\0" in text:
        return None
    try:
        if key == _SCRIPT and not variable:
            return Path(os.path.abspath(locate(text)[0]))
        if key in _RELATIVE or _ABSOLUTE.match(fixed):
            path = Path(os.path.abspath(os.path.expanduser(fixed)))
            return path if path.exists() else None
    except OSError:
        return None
    return None
