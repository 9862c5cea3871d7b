"""Private parts of libraries are used in one module, and are there."""

from __future__ import annotations

import ast
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import Middleware
from Middleware.utilities import library_internals
from Middleware.utilities.library_internals import PRIVATE_PARTS, PrivatePart, require

HOUSE = Path(Middleware.__path__[0])
FILES = [path for path in sorted(HOUSE.rglob("*.py")) if path != Path(library_internals.__file__)]
DOCUMENTED = {
    "_asdict": "a namedtuple's, public by its documentation",
    "_srcfile": "named in Python's Logging HOWTO, under Optimization",
    "_ArgumentGroup": "the type of what `add_argument_group` gives; used for a hint of type only",
    "_read_status": "http.client's, wrapped by `_FinalResponse` with its reason",
}
PARTS = {part.name for part in PRIVATE_PARTS} | {"_transport"}
BASES = ("self", "cls", "super()")


def is_private(name: object) -> bool:
    return isinstance(name, str) and name.startswith("_") and not name.endswith("__") and len(name) > 1


def own_names(tree: ast.Module) -> set[str]:
    """What a module defines: functions, classes, names and attributes that it binds."""
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                found.add(node.name)
            case ast.Name(ctx=ast.Store()):
                found.add(node.id)
            case ast.Attribute(ctx=ast.Store()):
                found.add(node.attr)
    return found


def private_uses(tree: ast.Module) -> list[tuple[str, str]]:
    """(whose, private name) of every look at one, also by `getattr` and by an import."""
    found: list[tuple[str, str]] = []
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=value, attr=name) if is_private(name):
                found.append((ast.unparse(value), name))
            case ast.Call(
                func=ast.Name(id="getattr" | "hasattr" | "setattr"),
                args=[value, ast.Constant(value=name), *_],
            ):
                found.append((f"{ast.unparse(value)} by name", str(name)))
            case ast.ImportFrom(module=str(module), names=names) if not module.startswith("Middleware"):
                found += [(module, part) for part in module.split(".")]
                found += [(module, alias.name) for alias in names]
    return [(whose, name) for whose, name in found if is_private(name)]


@cache
def uses_by_file() -> dict[str, list[tuple[str, str]]]:
    return {
        path.relative_to(HOUSE).as_posix(): private_uses(ast.parse(path.read_text("utf-8"))) for path in FILES
    }


@cache
def ours() -> Counter[str]:
    """Name -> how many of our modules define it."""
    return Counter(name for path in FILES for name in own_names(ast.parse(path.read_text("utf-8"))))


def is_of_a_library(whose: str, name: str) -> bool:
    if name in DOCUMENTED:
        return False
    return name not in ours() or whose.endswith(" by name") or (name in PARTS and whose not in BASES)


def test_no_other_module_uses_private_parts_of_libraries():
    """But for those that documentation names."""
    assert not [
        (file, *use) for file, uses in uses_by_file().items() for use in uses if is_of_a_library(*use)
    ]


def test_what_we_put_in_the_place_of_a_librarys_own_is_checked_too():
    """A method that calls the one of the same name above it, of a class that is not ours, is in the table."""
    above = {name for uses in uses_by_file().values() for whose, name in uses if whose == "super()"}
    foreign = {name for name in above if ours()[name] == 1}
    assert "_put_conn" in foreign
    assert foreign <= PARTS | set(DOCUMENTED)


@pytest.mark.parametrize(
    ("source", "seen"),
    [
        ("answer._fp", True),
        ("getattr(answer, '_fp', None)", True),
        ("from urllib3 import _collections", True),
        ("from urllib3._base_connection import X", True),
        ("x._not_known_anywhere", True),
        ("self._put_conn(1)", False),
        ("step._asdict()", False),
    ],
)
def test_the_scan_sees_each_kind_of_use(source, seen):
    """An attribute, a name in a text, an import."""
    assert any(is_of_a_library(*use) for use in private_uses(ast.parse(source))) is seen


@pytest.mark.parametrize("part", PRIVATE_PARTS, ids=lambda part: f"{part.module}.{part.name}")
def test_the_parts_are_there(part):
    """In the versions that are installed here."""
    module = pytest.importorskip(part.module)
    assert hasattr(part.owner(module), part.name)


def test_a_part_that_is_gone_is_named(monkeypatch):
    """With the version that lacks it, and what to do."""
    library = ModuleType("anylib")
    library.__version__ = "9.1"
    monkeypatch.setitem(sys.modules, "anylib", library)
    with pytest.raises(ImportError) as raised:
        require("anylib", [PrivatePart("anylib", "anylib", lambda module: module, "_inside")])
    assert "anylib 9.1 has no _inside in anylib" in str(raised.value) and "setup.cfg" in str(raised.value)


@pytest.mark.parametrize("library", sorted({part.library for part in PRIVATE_PARTS}))
def test_the_next_major_version_is_not_installed(library):
    """Each requirement of such a library has an upper bound."""
    lines = [line.strip() for line in (HOUSE.parent / "setup.cfg").read_text("utf-8").splitlines()]
    wanted = [line for line in lines if line.startswith(f"{library}>")]
    assert wanted and all(",<" in line for line in wanted)
