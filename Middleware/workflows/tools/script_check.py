"""What of a user's script cannot work, found without running it: its syntax, its imports, its `Invoke`.

Reads the script and the house's own modules as text; nothing is imported. Source: tools.md 8.
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from Middleware.common.instance_global_variables import INSTALL_DIRECTORY
from Middleware.config.validation import ERROR, WARNING, nearest
from Middleware.utilities.script_library import SUBJECTS
from Middleware.utilities.script_library import __all__ as LIBRARY

# --------------------------------------------------------------------------
# `import utilities.x`, as older scripts write it, means `Middleware.utilities.x`: the very same module.


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


# --------------------------------------------------------------------------

LIBRARY_MODULE = "Middleware.utilities.script_library"
MANUAL = "docs/nodes/PythonModule.md says what scripts may import"
MOST_BYTES = 2_000_000
"""A longer file is data; it is not looked into."""
_CATCHES = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}


Roots = tuple[str, ...] | None
"""Folders beside those of Python where modules may be; None: anywhere."""


class ScriptFault(NamedTuple):
    """`message` begins with the line. `level`: an error where loading fails, else a warning."""

    level: str
    message: str


def script_faults(path: Path, roots: Iterable[Path] = ()) -> list[ScriptFault]:
    """What cannot work of the script `path`. `roots`: further folders that its imports may come from.

    A file that cannot be read has no faults here.
    """
    try:
        facts = path.stat()
        if not path.is_file() or facts.st_size > MOST_BYTES:
            return []
        script = _read_script(str(path), facts.st_mtime_ns, facts.st_size)
    except OSError:
        return []
    places = None if script.changes_path else tuple(map(str, roots))
    return [
        *script.faults,
        *(
            ScriptFault(WARNING if is_later else ERROR, f"line {node.lineno}: {why}")
            for node, is_later in script.imports
            for why in _wrong_names(node, places)
        ),
    ]


class _Script(NamedTuple):
    """`imports`: each with whether it happens later, if at all. `changes_path`: it may find modules
    anywhere."""

    faults: tuple[ScriptFault, ...] = ()
    imports: tuple[tuple[ast.Import | ast.ImportFrom, bool], ...] = ()
    changes_path: bool = False


@lru_cache(maxsize=256)
def _read_script(name: str, mtime_ns: int, size: int) -> _Script:
    """Raises OSError."""
    try:
        tree = ast.parse(Path(name).read_bytes(), name)
    except SyntaxError as error:
        return _Script((ScriptFault(ERROR, f"line {error.lineno or 1}: not Python: {error.msg}"),))
    except ValueError as error:
        return _Script((ScriptFault(ERROR, f"line 1: not Python: {error}"),))
    except (RecursionError, MemoryError):
        return _Script((ScriptFault(ERROR, "line 1: not Python: its expressions are nested too deeply"),))
    return _Script(tuple(_without_invoke(tree)), tuple(_imports(tree.body)), _changes_path(tree))


def _without_invoke(tree: ast.Module) -> Iterator[ScriptFault]:
    defined = names_defined(tree)
    if not {"Invoke", "*", "__getattr__"} & defined:
        near = nearest("Invoke", defined)
        hint = f" (is {near!r} meant to be it?)" if near else ""
        yield ScriptFault(ERROR, f"line 1: the script has no function 'Invoke'{hint}")


def _changes_path(tree: ast.Module) -> bool:
    return any(
        (isinstance(node, ast.Attribute) and node.attr in ("path", "meta_path", "addsitedir", "path_hooks"))
        and isinstance(node.value, ast.Name)
        and node.value.id in ("sys", "site")
        for node in ast.walk(tree)
    )


def _imports(
    body: Iterable[ast.AST], later: bool = False
) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """Each import that is not caught when it fails, and whether it may never happen: in a function, in a
    branch."""
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node, later
        elif isinstance(node, ast.Try) and any(map(_catches_imports, node.handlers)):
            yield from _imports((*node.orelse, *node.finalbody), later)
        elif not _is_for_types(node) and not _suppresses(node):
            yield from _imports(ast.iter_child_nodes(node), later or isinstance(node, _MAYBE))


_MAYBE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.If, ast.For, ast.While, ast.Match, ast.ExceptHandler)


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def _suppresses(node: ast.AST) -> bool:
    return isinstance(node, ast.With) and any("suppress" in ast.unparse(item) for item in node.items)


def _catches_imports(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    return any(isinstance(one, ast.Name) and one.id in _CATCHES for one in ast.walk(handler.type))


def _wrong_names(node: ast.Import | ast.ImportFrom, roots: Roots) -> Iterator[str]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield from _wrong_module(alias.name, roots)
    elif node.level:
        yield "a script is not part of a package, so an import that begins with a dot cannot work"
    elif node.module:
        yield from _wrong_from(node.module, [alias.name for alias in node.names], roots)


def _wrong_from(module: str, names: list[str], roots: Roots) -> Iterator[str]:
    ours = _ours(module)
    file = ours and _file_of(ours)
    if not ours or not file:
        yield from _wrong_module(module, roots, names)
        return
    defined = _names_of(file)
    for name in names:
        if name != "*" and not {name, "__getattr__"} & defined and not _file_of(f"{ours}.{name}"):
            near = nearest(name, (one for one in defined if not one.startswith("_")))
            hint = f" (did you mean {near!r}?)" if near else _instead(name)
            yield f"{ours} has no name {name!r}{hint}; {MANUAL}"


def _wrong_module(module: str, roots: Roots, names: Iterable[str] = ()) -> Iterator[str]:
    ours = _ours(module)
    if ours and not _file_of(ours):
        hints = dict.fromkeys(hint for name in names if (hint := _instead(name)))
        yield f"there is no module {ours!r}{''.join(hints)}; {MANUAL}"
    elif not ours and not _is_installed(module.partition(".")[0], roots):
        yield f"no module {module.partition('.')[0]!r} is installed here"


def _ours(module: str) -> str | None:
    """The whole name of a module of the house, however it is spelled; None: it is somebody else's."""
    top = module.partition(".")[0]
    if top == HOUSE:
        return module
    return f"{HOUSE}.{module}" if top in packages_of_the_house() else None


def _file_of(module: str) -> Path | None:
    place = INSTALL_DIRECTORY.joinpath(*module.split("."))
    files = (place.with_suffix(".py"), place / "__init__.py")
    return next((file for file in files if file.is_file()), None)


def _is_installed(top: str, roots: Roots) -> bool:
    """Without importing it."""
    if roots is None or top in sys.stdlib_module_names or top in sys.modules:
        return True
    return find_spec(top) is not None or PathFinder.find_spec(top, list(roots)) is not None


@lru_cache(maxsize=128)
def _names_of(file: Path) -> frozenset[str]:
    """Our own modules do not change while the server runs."""
    return frozenset(names_defined(ast.parse(file.read_bytes())))


def names_defined(tree: ast.Module) -> set[str]:
    """The names that a module has when it is loaded; `*` when it takes all of another one."""
    names: set[str] = set()
    pending: list[ast.AST] = list(tree.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif not _is_for_types(node):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("globals", "exec"):
                names.add("*")
            pending.extend(ast.iter_child_nodes(node))
    return names


def _instead(name: str) -> str:
    """What of the library does the work that a name promises; "" when nothing sounds like it."""
    words = {word for word in name.casefold().split("_") if word}
    scored = [(len(words & set(SUBJECTS.get(one, "").split())), one) for one in LIBRARY]
    best = max(scored, key=lambda pair: pair[0])
    near = nearest(name, LIBRARY) or (best[1] if best[0] else None)
    return f"; {LIBRARY_MODULE} has {near!r}" if near else ""
