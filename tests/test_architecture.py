"""The house rules of the tree: who may import whom, what only one file may know, what each plug-in brings along."""

from __future__ import annotations

import ast
import sys
from functools import cache
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
ROOMS = {  # folders and single modules of a floor, low to high
    "llmapis": (
        "backend_errors",
        "llm_text",
        "reasoning_parser",
        "sampler_translation",
        "dialects",
        "wire",
        "call",
        "handlers",
        "script_calls",
        "egress",
        "addresses",
        "failover",
        "response_parser",
        "llm_api",
        "read_ahead",
        "repeated_call",
        "llm_handler",
        "embedding_service",
        "endpoint_probe",
        "loaded_now",
        "find_servers",
    ),
    "workflows": (
        "models",
        "variables",
        "dispatch",
        "memory",
        "agents",
        "handlers",
        "processors",
        "managers",
        "checks",
    ),
    "api": (
        "client_watch",
        "wsgi",
        "requests",
        "command_registry",
        "backup_roots",
        "commands",
        "launch_arguments",
        "api_helpers",
        "workflow_gateway",
        "console",
        "traces",
        "handlers",
        "concurrency_middleware",
        "front_door",
        "app",
        "api_server",
        "serving",
    ),
}
SIDE_ROOMS = ("tools", "streaming")  # of workflows: know none of the others
FILES = sorted(ROOT.glob("*/**/*.py"))

ONLY_IN = {
    "flask": {"api"},
    "requests": {"llmapis/wire/http.py", "workflows/tools/web.py"},
    "jsonschema": {"config/validation.py"},
    "opentelemetry": {"api/traces/sending.py"},
    "prometheus_client": {"api/wsgi/metrics.py"},
    "platformdirs": {"utilities/install_layout.py"},
}
INNER_IMPORTS = {  # file that imports a module of the house inside a function -> why
    "workflows/tools/mcp_doors.py": "the module needs the optional package `mcp`",
    "api/workflow_gateway.py": "the engine is loaded by the first question: model lists must not wait for it",
    "api/serving/startup.py": "the same, at a start",
    "api/serving/waitress_server.py": "the same: sessions with tool servers need asyncio",
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


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


@cache
def imported_names(path: Path) -> frozenset[str]:
    """Every module that a file imports, also inside functions."""
    return frozenset(name for node in ast.walk(tree_of(path)) for name in _imported(node))


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


def test_imports_run_one_way() -> None:
    """Also those inside functions: `ast.walk` sees every one."""
    offenders = {}
    for path in FILES:
        used = {name.split(".")[1] for name in imported_names(path) if name.startswith("Middleware.")}
        offenders[relative(path)] = used - may_use(path.relative_to(ROOT).parts[0])
    assert not {path: strangers for path, strangers in offenders.items() if strangers}


def room_of(path: Path) -> str:
    """The folder of a file below its floor; of a file that lies right on the floor, its own name."""
    return path.relative_to(ROOT).parts[1].removesuffix(".py")


@pytest.mark.parametrize("floor", sorted(ROOMS))
def test_rooms_of_a_floor_run_one_way(floor: str) -> None:
    """What two rooms use lies in a lower one; `tools` and `streaming` of the workflows know no other room."""
    offenders = {}
    for path in (ROOT / floor).glob("**/*.py"):
        room = room_of(path)
        if room == "__init__":
            continue
        prefix = f"Middleware.{floor}."
        used = {name[len(prefix) :].split(".")[0] for name in imported_names(path) if name.startswith(prefix)}
        lower = ROOMS[floor][: ROOMS[floor].index(room) + 1] if room in ROOMS[floor] else (room,)
        side = SIDE_ROOMS if floor == "workflows" and room not in SIDE_ROOMS else ()
        offenders[relative(path)] = used - set(lower) - set(side)
    assert not {path: strangers for path, strangers in offenders.items() if strangers}


def test_imports_are_at_the_top() -> None:
    """Those inside functions are listed with their reason, and none hides in a string."""
    trees = ((relative(path), tree_of(path)) for path in FILES)
    found = {path: (_inner_imports(tree), _hidden_imports(tree)) for path, tree in trees}
    assert {path for path, (inner, _) in found.items() if inner} == set(INNER_IMPORTS)
    assert not {path: hidden for path, (_, hidden) in found.items() if hidden}


def _inner_imports(tree: ast.Module) -> list[str]:
    functions = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return [
        name
        for function in functions
        for node in ast.walk(function)
        for name in _imported(node)
        if name.startswith("Middleware")
    ]


def _hidden_imports(tree: ast.Module) -> list[str]:
    return [
        str(node.args[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant)
        if ast.unparse(node.func).rpartition(".")[2] == "import_module"
    ]


@pytest.mark.parametrize("library", sorted(ONLY_IN))
def test_a_library_is_known_in_one_place(library: str) -> None:
    """What only one file knows can be changed in one file."""
    users = {relative(p) for p in FILES if library in {name.split(".")[0] for name in imported_names(p)}}
    strangers = {user for user in users if not any(user.startswith(place) for place in ONLY_IN[library])}
    assert not strangers


def test_ground_floor_is_standard_library_only() -> None:
    """`common` and `cleaning` need nothing that must be installed."""
    known = {*sys.stdlib_module_names, "Middleware"}
    ground = [path for path in FILES if relative(path).split("/")[0] in ("common", "cleaning")]
    offenders = {
        relative(path): {name.split(".")[0] for name in imported_names(path)} - known for path in ground
    }
    assert not {path: outside for path, outside in offenders.items() if outside}


def test_init_files_are_empty() -> None:
    """But for the face of `cleaning` and the four packages that load their own modules."""
    filled = {
        path.parent.relative_to(ROOT).as_posix()
        for path in ROOT.glob("**/__init__.py")
        if path.read_text("utf-8").strip()
    }
    assert filled <= EMPTY_INIT_EXCEPT


def test_a_plug_in_brings_its_test() -> None:
    """`Middleware/a/x.py` -> `tests/a/test_x.py`."""
    plug_ins = [p for folder in (*PLUG_INS, "api/commands") for p in (ROOT / folder).glob("[!_]*.py")]
    tests = {p: HOUSE / "tests" / p.parent.relative_to(ROOT) / f"test_{p.name}" for p in plug_ins}
    assert not [relative(path) for path, test in tests.items() if not test.is_file()]


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


def test_what_one_test_file_takes_from_another_is_there() -> None:
    """Told here in a second: a run of all tests ends before the file that could not be read is named."""
    modules = {
        ".".join(path.relative_to(HOUSE).with_suffix("").parts): path.read_text("utf-8")
        for path in HOUSE.glob("tests/**/*.py")
    }
    taken = [
        (name, node.module, alias.name)
        for name, text in modules.items()
        if "from tests." in text
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and node.module in modules
        for alias in node.names
    ]
    sources = {source for _, source, _ in taken}
    defined = {source: {*_bound_names(ast.parse(modules[source])), "*"} for source in sources}
    assert not [f"{name}: {source}.{what}" for name, source, what in taken if what not in defined[source]]


def _bound_names(tree: ast.Module) -> set[str]:
    """The names that a module has: bound outside its functions and classes."""
    bound: set[str] = set()
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            bound.add(node.name)
            continue
        waiting.extend(ast.iter_child_nodes(node))
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            bound |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    return bound
