"""`tools/mutate.py`: which faults it makes, which tests it runs for them, and that it edits a copy only."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

HOUSE = Path(__file__).resolve().parents[1]
spec = importlib.util.spec_from_file_location("mutate", HOUSE / "tools/mutate.py")
assert spec is not None and spec.loader is not None
mutate = importlib.util.module_from_spec(spec)
sys.modules["mutate"] = mutate  # where its dataclasses look for their names
spec.loader.exec_module(mutate)

FILE = "Middleware/cleaning/x.py"


def faults(source):
    """(kind, old, new) of all mutants, in the order in which they are found."""
    return [(one.kind, one.old, one.new) for one in mutate.mutants_of(FILE, source.encode())]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("x = a < b", [("compare", "a < b", "(a <= b)")]),
        ("x = a is not b", [("compare", "a is not b", "(a is b)")]),
        ("x = a < b >= c", [("compare", "a < b >= c", "(a <= b >= c)"), ("compare", "a < b >= c", "(a < b > c)")]),
        ("x = 3", [("constant", "3", "4")]),
        ("x = 600.0", [("constant", "600.0", "1200.0")]),
        ("x = 65536", [("constant", "65536", "131072")]),
        ("x = True", [("constant", "True", "False")]),
        ("x = None", []),
        ("x = f'a {b} c'", [("constant", "f'a {b} c'", "'XX'")]),
        ("x = a and b", [("and-or", "a and b", "(a or b)")]),
        ("def f(): return a", [("none", "return a", "return None")]),
        ("def f(): return ''", [("constant", "''", "'XX'")]),
        ("a.close()", [("removed", "a.close()", "pass")]),
        ("a.b = c", [("removed", "a.b = c", "pass")]),
        ("b = c", []),
        ("raise a", [("removed", "raise a", "pass")]),
        ("x = a if b else c", [("negated", "b", "(not (b))")]),
        ("x = [a for a in b if a]", [("negated", "a", "(not (a))")]),
        (
            "def f():\n if a:\n  return\n g()",
            [("removed", "if a:\n  return", "pass"), ("negated", "a", "(not (a))"), ("removed", "g()", "pass")],
        ),
        ("if a:\n b = c\nelse:\n b = d", [("negated", "a", "(not (a))")]),
    ],
)  # fmt: skip
def test_the_faults_of_a_statement(source, found):
    """Of each kind, and none that every test would notice."""
    assert faults(source) == found


@pytest.mark.parametrize(
    "source",
    [
        '"""What it is for."""',
        "X: Final[Literal['a']]",
        "def f(a: 'A') -> 'B': ...",
        "__all__ = ['a']",
        "if TYPE_CHECKING:\n x = 1",
        "assert a is not None",
        "T = TypeVar('T', bound='A')",
        "@overload\ndef f(a=1): return a",
        "class A(Protocol):\n b = 1",
        "FIELDS: ClassVar[Mapping[str, str]] = {'content': 'What is counted.'}",
        "@dataclass(frozen=True, slots=True)\nclass A:\n b: int",
        "class A:\n b: str = field(repr=False)",
        "X = {a: TEXT('Folder below Presets/.')}",
        "X = {a: '`full` gives the whole answer.', **b}",
        "X = TEXT(f'How many seconds to wait. Default: {a}.')",
        "class A:\n KEYS = (a(b, 'The text of ' + c + '.'),)",
        "@variable('The time in words.')\ndef f(): ...",
    ],
)
def test_what_changes_no_behaviour_is_not_drawn(source):
    """By its form alone."""
    assert faults(source) == []


@pytest.mark.parametrize(
    "source",
    [
        "X = 'There are no memories.'",
        "X = TEXT('Presets')",
        "X = {'The key of a row.': a}",
        "def f(): g('It is over.')",
        "def f(a=g(b)): g({a: 'It is over.'})",
        "X = lambda: g('It is over.')",
    ],
)
def test_what_the_program_says_is_drawn(source):
    """A sentence of its own, one inside a function, and what is no sentence."""
    assert "constant" in [kind for kind, _, _ in faults(source)]


def test_log_lines_are_marked():
    """What decides whether there is one is not."""
    found = mutate.mutants_of(FILE, b"if a:\n  logger.info('x %s', b or 1)\n")
    assert [(one.kind, one.in_log) for one in found] == [
        ("negated", False),
        ("removed", True),
        ("constant", True),
        ("and-or", True),
        ("constant", True),
    ]
    assert "[log]" in str(found[1]) and "[log]" not in str(found[0])


def test_a_fault_takes_the_place_of_its_own_text_only():
    """Also behind letters of several bytes, and on a later line."""
    source = "x = 'äöü'; y = a < b\nz = 1  # ü\n".encode()
    mutants = mutate.mutants_of(FILE, source)
    assert [one.applied(source).decode() for one in mutants] == [
        "x = 'XX'; y = a < b\nz = 1  # ü\n",
        "x = 'äöü'; y = (a <= b)\nz = 1  # ü\n",
        "x = 'äöü'; y = a < b\nz = 2  # ü\n",
    ]
    assert str(mutants[2]) == f"{FILE}:2: constant: 1 -> 2"


MUTANTS = [
    one
    for folder in ("cleaning", "config")
    for one in mutate.mutants_of(f"Middleware/{folder}/x.py", b"x = [1, 2, 3, a < b, a == b, a and b]")
]


class TestDrawing:
    def test_a_seed_draws_the_same_again(self):
        """Another one draws others."""
        first, again, other = (mutate.draw(MUTANTS, 6, seed, lambda one: True) for seed in ("a", "a", "b"))
        assert first == again != other
        assert [one.folder for one in first] == ["cleaning", "config"] * 3
        assert len(set(first)) == 6

    def test_more_than_there_are(self):
        """Each once."""
        drawn = mutate.draw(MUTANTS, 99, 1, lambda one: True)
        assert len(drawn) == len(set(drawn)) == len(MUTANTS)

    def test_what_python_cannot_read_is_not_tried(self):
        """Another one is drawn in its place."""
        drawn = mutate.draw(MUTANTS, 4, 1, lambda one: one.kind == "compare")
        assert [one.kind for one in drawn] == ["compare"] * 4
        assert mutate.is_code(b"x = 1") and not mutate.is_code(b"x = (")


@pytest.mark.parametrize(
    ("file", "tests"),
    [
        ("Middleware/a/x.py", ["tests/a/test_x.py", "tests/a"]),
        ("Middleware/a/b/y.py", ["tests/a/b/test_y.py", "tests/a/b", "tests/a"]),
        ("Middleware/a/b/c/z.py", ["tests/a/b/c/test_z.py", "tests/a/b/c", "tests/a"]),
        ("Middleware/a/b/other.py", ["tests/a/b", "tests/a"]),
        ("Middleware/a/no/folder.py", ["tests/a"]),
        ("Middleware/untested/x.py", []),
    ],
)
def test_the_nearest_tests_come_first(tmp_path, file, tests):
    """Its own, its folder's, its top folder's."""
    for name in ("a/test_x.py", "a/b/test_y.py", "a/b/c/test_z.py", "untested/conftest.py"):
        (tmp_path / "tests" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tests" / name).touch()
    assert mutate.test_sets(tmp_path, file) == tests


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with one module and one test of half of it."""
    root = tmp_path / "project"
    for name, text in {
        "Middleware/__init__.py": "",
        "Middleware/cleaning/__init__.py": "",
        "Middleware/cleaning/x.py": "def plus_one(a):\n    return a + 1\n\n\ndef plus_two(a):\n    return a + 2\n",
        "tests/cleaning/test_x.py": "import sys\nsys.path.insert(0, '.')\n"
        "from Middleware.cleaning.x import plus_one\n\n\ndef test_it():\n    assert plus_one(1) == 2\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    monkeypatch.setattr(mutate, "HOUSE", root)
    return root


def contents(root):
    return {
        path: path.read_bytes() for path in root.rglob("*") if path.is_file() and ".git" not in path.parts
    }


def test_a_run_tells_what_was_noticed_and_leaves_the_project_alone(project, capsys):
    """The survivors are named with their place and the change."""
    before = contents(project)
    assert mutate.main(["Middleware/cleaning", "--kind", "constant", "--nice", "0"]) == 1
    said = capsys.readouterr().out
    assert f"killed: {FILE}:2: constant: 1 -> 2 (tests/cleaning/test_x.py::test_it)" in said
    assert said.endswith(f"\nsurvived:\n{FILE}:6: constant: 2 -> 3\n")
    assert [line.split() for line in said.splitlines() if line.startswith(("folder", "cleaning", "all"))] == [
        ["folder", "drawn", "killed", "timeout", "survived", "untested"],
        ["cleaning", "2", "1", "0", "1", "0"],
        ["all", "but", "logs", "2", "1", "0", "1", "0", "50.0", "%"],
    ]
    assert contents(project) == before


def test_tests_that_fail_without_a_fault_judge_nothing(project, capsys):
    """They would notice everything."""
    (project / "tests/cleaning/test_x.py").write_text("def test_it():\n    assert False\n")
    assert mutate.main([f"{FILE}:6", "--kind", "constant", "--nice", "0"]) == 0
    said = capsys.readouterr()
    assert "tests/cleaning/test_x.py::test_it fails without any fault and is left out" in said.err
    assert f"untested: {FILE}:6: constant: 2 -> 3" in said.out and said.out.endswith("none survived\n")


def test_the_other_tests_of_a_file_still_judge(project, capsys):
    """One that fails anyway does not silence its neighbours."""
    tests = project / "tests/cleaning/test_x.py"
    tests.write_text("def test_broken():\n    assert False\n\n\n" + tests.read_text())
    assert mutate.main([f"{FILE}:2", "--kind", "constant", "--nice", "0"]) == 0
    said = capsys.readouterr()
    assert "test_x.py::test_broken fails without any fault and is left out" in said.err
    assert f"killed: {FILE}:2: constant: 1 -> 2 (tests/cleaning/test_x.py::test_it)" in said.out


def test_only_what_is_asked_for(project, capsys):
    """`--list` runs nothing; a line takes the faults of that line."""
    assert mutate.main([f"{FILE}:2", "--list"]) == 0
    assert sorted(capsys.readouterr().out.splitlines()) == [
        f"{FILE}:2: constant: 1 -> 2",
        f"{FILE}:2: none: return a + 1 -> return None",
    ]
    with pytest.raises(SystemExit, match=r"^Middleware/no\.py: there is no such file or folder"):
        mutate.main(["Middleware/no.py", "--list"])


def fault(project, place):
    (mutant,) = [one for one in mutate.wanted(project, [place]) if one.kind == "constant"]
    return mutant


def test_tests_that_do_not_end_have_noticed_nothing(project):
    """The machine may be busy. Whatever happens, the fault is taken out again."""
    before = contents(project)
    mutant = fault(project, f"{FILE}:6")
    verdict = mutate.Bench(project, 0.0).judge(mutant)
    assert (verdict.outcome, verdict.by) == ("timeout", "tests/cleaning/test_x.py")
    assert contents(project).items() >= before.items()
    *_, row, total = mutate.table([verdict, mutate.Verdict(mutant, "killed")]).splitlines()
    assert row.split() == ["cleaning", "2", "1", "1", "0", "0"] and total.endswith(" 50.0 %")


def test_one_failure_is_no_verdict(project, capsys):
    """The test has to fail again, alone; if it does not, the others are asked."""
    tests = project / "tests/cleaning/test_x.py"
    with tests.open("a") as file:
        file.write(
            "\n\nfrom pathlib import Path\n\n\ndef test_hurried(n=0):\n"
            "    runs = Path('runs')\n    runs.touch()\n    runs.write_text(runs.read_text() + '.')\n"
            "    assert len(runs.read_text()) != 1\n"
        )
    assert mutate.main([f"{FILE}:6", "--kind", "constant", "--nice", "0"]) == 1
    said = capsys.readouterr()
    assert f"survived: {FILE}:6: constant: 2 -> 3" in said.out
    assert "test_x.py::test_hurried failed once with" in said.err


def test_a_test_whose_id_has_spaces_is_asked_with_its_siblings(project):
    """The report of pytest cuts such an id where its reason could begin."""
    (project / "tests/cleaning/test_x.py").write_text(
        "import sys\nsys.path.insert(0, '.')\nimport pytest\nfrom Middleware.cleaning.x import plus_one\n\n\n"
        "@pytest.mark.parametrize('a', [1], ids=['a - b'])\ndef test_it(a):\n    assert plus_one(a) == 2\n"
    )
    verdict = mutate.Bench(project, 600.0).judge(fault(project, f"{FILE}:2"))
    assert (verdict.outcome, verdict.by) == ("killed", "tests/cleaning/test_x.py::test_it")


def test_a_test_that_never_ends_fails(project, monkeypatch):
    """A fault can make a loop endless; the test is stopped, and has failed."""
    monkeypatch.setattr(mutate, "TEST_S", 1)
    (project / "tests/cleaning/test_x.py").write_text(
        "import sys\nsys.path.insert(0, '.')\nfrom Middleware.cleaning.x import plus_one\n\n\n"
        "def test_it():\n    while plus_one(1) != 2:\n        pass\n"
    )
    verdict = mutate.Bench(project, 600.0).judge(fault(project, f"{FILE}:2"))
    assert (verdict.outcome, verdict.by) == ("killed", "tests/cleaning/test_x.py::test_it")
