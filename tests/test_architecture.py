"""The house rules of the tree: who may import whom, what only one file may know, what each plug-in brings along."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

HOUSE = Path(__file__).resolve().parents[1]
ROOT = HOUSE / "Middleware"
FLOORS = (
    "common",
    "config",
    "utilities",
    "services",
    "llmapis",
    "protocols",
    "workflows",
    "api",
)  # low to high
ROOMS = (
    "models",
    "variables",
    "dispatch",
    "memory",
    "handlers",
    "processors",
    "managers",
)  # of workflows, low to high
SIDE_ROOMS = ("tools", "streaming")  # of workflows: know none of the others
FILES = sorted(ROOT.glob("*/**/*.py"))

ONLY_IN = {
    "flask": {"api"},
    "requests": {"llmapis/wire/http.py", "workflows/tools/web.py"},
    "jsonschema": {"config/validation.py"},
    "prometheus_client": {"api/wsgi/metrics.py"},
    "platformdirs": {"utilities/install_layout.py"},
}
INNER_IMPORTS = {  # file that imports a module of the house inside a function -> why
    "workflows/tools/mcp_doors.py": "the module needs the optional package `mcp`",
    "api/workflow_gateway.py": "the engine is loaded by the first question: model lists must not wait for it",
    "api/serving/startup.py": "the same, at a start",
    "api/console/console_door.py": "the views are loaded by the first look: a start must not wait for them",
    "api/api_server.py": "a front end that cannot be loaded is told in one sentence",
}
PLUG_INS = {  # package of plug-ins -> docs folder
    "cleaning/rules": "rules",
    "llmapis/handlers/impl": "backends",
    "workflows/handlers/impl": "nodes",
    "api/handlers/impl": "frontends",
}
EMPTY_INIT_EXCEPT = {"cleaning", *PLUG_INS}


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imported_names(path: Path) -> set[str]:
    """Every module that a file imports, also inside functions."""
    return {name for node in ast.walk(ast.parse(path.read_text("utf-8"))) for name in _imported(node)}


def _imported(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names}
    if isinstance(node, ast.ImportFrom) and node.module:
        assert node.level == 0, f"relative import of {node.module}"
        return {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return set()


def may_use(package: str) -> set[str]:
    if package in ("common", "cleaning"):
        return {package}
    floor = FLOORS.index(package)
    below = set(FLOORS[: floor + 1]) - ({"llmapis"} if package == "protocols" else set())
    return below | ({"cleaning"} if floor >= FLOORS.index("utilities") else set())


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_imports_run_one_way(path: Path) -> None:
    """Also those inside functions: `ast.walk` sees every one."""
    package = path.relative_to(ROOT).parts[0]
    used = {name.split(".")[1] for name in imported_names(path) if name.startswith("Middleware.")}
    assert used <= may_use(package), used - may_use(package)


@pytest.mark.parametrize("path", sorted((ROOT / "workflows").glob("*/**/*.py")), ids=relative)
def test_rooms_of_workflows_run_one_way(path: Path) -> None:
    """managers > processors > handlers > memory > dispatch > variables > models; tools and streaming know none."""
    room = path.relative_to(ROOT).parts[1]
    prefix = "Middleware.workflows."
    used = {name[len(prefix) :].split(".")[0] for name in imported_names(path) if name.startswith(prefix)}
    if room in SIDE_ROOMS:
        assert used <= {room}
    else:
        assert used <= set(ROOMS[: ROOMS.index(room) + 1]) | set(SIDE_ROOMS)


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_imports_stand_at_the_top(path: Path) -> None:
    """Those inside functions are listed with their reason, and none hides in a string."""
    tree = ast.parse(path.read_text("utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    inner = [
        name
        for function in functions
        for node in ast.walk(function)
        for name in _imported(node)
        if name.startswith("Middleware")
    ]
    hidden = [
        node.args[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant)
        if ast.unparse(node.func).rpartition(".")[2] == "import_module"
    ]
    assert bool(inner) is (relative(path) in INNER_IMPORTS)
    assert not hidden


@pytest.mark.parametrize("library", sorted(ONLY_IN))
def test_a_library_is_known_in_one_place(library: str) -> None:
    """What only one file knows can be changed in one file."""
    users = {relative(p) for p in FILES if library in {name.split(".")[0] for name in imported_names(p)}}
    strangers = {user for user in users if not any(user.startswith(place) for place in ONLY_IN[library])}
    assert not strangers


@pytest.mark.parametrize(
    "path", [p for p in FILES if relative(p).split("/")[0] in ("common", "cleaning")], ids=relative
)
def test_ground_floor_is_standard_library_only(path: Path) -> None:
    """`common` and `cleaning` need nothing that must be installed."""
    import sys

    outside = (
        {name.split(".")[0] for name in imported_names(path)} - set(sys.stdlib_module_names) - {"Middleware"}
    )
    assert not outside


@pytest.mark.parametrize("path", sorted(ROOT.glob("**/__init__.py")), ids=relative)
def test_init_files_are_empty(path: Path) -> None:
    """But for the face of `cleaning` and the four packages that load their own modules."""
    if path.parent.relative_to(ROOT).as_posix() not in EMPTY_INIT_EXCEPT:
        assert path.read_text("utf-8").strip() == ""


@pytest.mark.parametrize(
    "path",
    [p for folder in (*PLUG_INS, "api/commands") for p in sorted((ROOT / folder).glob("[!_]*.py"))],
    ids=relative,
)
def test_a_plug_in_brings_its_test(path: Path) -> None:
    """`Middleware/a/x.py` -> `tests/a/test_x.py`."""
    folder = HOUSE / "tests" / path.parent.relative_to(ROOT)
    assert (folder / f"test_{path.name}").is_file()


def test_no_circle_of_modules() -> None:
    """A module never reaches itself through its imports."""
    modules = {"Middleware." + relative(p)[:-3].replace("/", ".").removesuffix(".__init__"): p for p in FILES}
    graph = {
        name: {n for n in imported_names(p) if n in modules and n != name} for name, p in modules.items()
    }
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " -> ".join((*trail[trail.index(name) :], name))
        if name not in done:
            for other in sorted(graph[name]):
                visit(other, (*trail, name))
            done.add(name)

    for module in sorted(graph):
        visit(module, ())
