"""`import utilities.x`, as older scripts write it, means `Middleware.utilities.x`: the very same module.

A second copy would have state of its own (an empty list of node types, other launch facts).
Touches no other name. Source: spec nodes.md 3.14, tools.md 8.4.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from functools import lru_cache
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, spec_from_loader
from types import ModuleType

from Middleware.common.instance_global_variables import INSTALL_DIRECTORY

HOUSE = "Middleware"


@lru_cache(maxsize=1)
def packages_of_the_house() -> frozenset[str]:
    """The names that stand below `Middleware`."""
    folders = (INSTALL_DIRECTORY / HOUSE).iterdir()
    return frozenset(folder.name for folder in folders if (folder / "__init__.py").exists())


class _OldStyle(MetaPathFinder, Loader):
    """Finds what stands below `Middleware` under its name without `Middleware.`."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if (
            fullname.partition(".")[0] not in packages_of_the_house()
            or find_spec(f"{HOUSE}.{fullname}") is None
        ):
            return None
        return spec_from_loader(fullname, self)

    def exec_module(self, module: ModuleType) -> None:
        """The import system hands out what stands in `sys.modules` afterwards."""
        sys.modules[module.__name__] = importlib.import_module(f"{HOUSE}.{module.__name__}")


def allow_old_style_imports() -> None:
    """Once a process; later calls do nothing."""
    if not any(isinstance(finder, _OldStyle) for finder in sys.meta_path):
        sys.meta_path.insert(0, _OldStyle())
