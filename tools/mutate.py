"""Mutation testing: puts small faults, one at a time, into a copy of the project. Which do its tests notice?

    .venv/bin/python tools/mutate.py [--count 60] [--seed 1] [PATH[:LINE] ...]

Each draw takes the next folder of Middleware, picks a kind of fault and then one fault of that kind. The
tests of the changed module run first (`tests/a/b/test_c.py` for `Middleware/a/b/c.py`), then those of its
folder, then those of `tests/a`, until one fails. That one has to fail again when it runs alone, and to pass
without the fault: a test which only had too little time on a busy machine does not count. A fault that
survives either breaks a rule that no test there checks, or changes nothing: look at each. The project itself
is never edited. Needs only the standard library and pytest.

Kinds: `compare` (`<` becomes `<=`, `==` becomes `!=`, ...), `constant`, `none` (`return None`), `removed` (a
statement, or an `if` that guards what follows it), `negated` (a condition) and `and-or`. Left out, because
they change no behaviour: docstrings, annotations, `__all__`, `TYPE_CHECKING` blocks, assertions, and prose
that only editors and help pages show. Prose is what stands at the keys of `PROSE_KEYS`, and a sentence
(several words and a full stop) that a table outside of functions gives to a call or holds in a dict, as in
`TEXT("Folder below Presets/.")`. Faults in log lines are marked with [log] and counted in a row of their own.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import copy
import os
import py_compile
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

HOUSE = Path(__file__).resolve().parents[1]
FOLDERS = ("cleaning", "config", "llmapis", "protocols", "services", "workflows")
OUTCOMES = ("killed", "timeout", "survived", "untested")
KINDS = ("compare", "constant", "none", "removed", "negated", "and-or")
CODE_BYTES = 6 << 30
"""Address space of one run of pytest: a loop that no longer ends must not take the machine's memory."""

PATIENCE_S = 45.0
"""Takes the place of the tests' own: with a fault, what they wait for often never comes."""
TEST_S = 150
"""A test that takes longer than this fails: with a fault, some never end (`timeout` of pytest-timeout)."""

FLIPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
NO_TESTS = 5
"""An exit status of pytest."""
LOG_CALLS = {"debug", "info", "warning", "error", "exception", "critical", "log"}
TYPING_CALLS = {"TypeVar", "ParamSpec", "NewType"}
PROSE_NAMES = {"FIELDS", "__all__", "__slots__"}
"""Assigned to these: sentences for editors and pages, and lists of names."""
PROSE_KEYS = {"about", "description", "help", "repr", "slots", "frozen"}
"""Keyword arguments and keys of the same sort."""
SENTENCE = re.compile(r"[\w`].*\s.*\.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault: `new` replaces the bytes from `start` to `end` of `file`, a path below the top folder.

    `in_log`: its line does nothing but write to the log.
    """

    file: str
    line: int
    kind: str
    start: int
    end: int
    old: str
    new: str
    in_log: bool = False

    @property
    def folder(self) -> str:
        return Path(self.file).parts[1]

    def __str__(self) -> str:
        mark = " [log]" if self.in_log else ""
        return f"{self.file}:{self.line}: {self.kind}{mark}: {_short(self.old)} -> {_short(self.new)}"

    def applied(self, source: bytes) -> bytes:
        return source[: self.start] + self.new.encode() + source[self.end :]


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 90 else line[:87] + "..."


class _Finder:
    """All mutants of one file, in the order of the text."""

    def __init__(self, file: str, source: bytes) -> None:
        self.file, self.source = file, source
        self.starts = [0]
        for line in source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.found: list[Mutant] = []

    def add(self, kind: str, node: ast.AST, new: str | Callable[[str], str], in_log: bool) -> None:
        start, end = self._span(node)
        old = self.source[start:end].decode()
        text = new if isinstance(new, str) else new(old)
        line = self.source.count(b"\n", 0, start) + 1
        self.found.append(Mutant(self.file, line, kind, start, end, old, text, in_log))

    def _span(self, node: ast.AST) -> tuple[int, int]:
        assert isinstance(node, ast.expr | ast.stmt) and node.end_lineno and node.end_col_offset is not None
        return (
            self.starts[node.lineno - 1] + node.col_offset,
            self.starts[node.end_lineno - 1] + node.end_col_offset,
        )

    def visit(self, node: ast.AST, in_log: bool = False, in_body: bool = False) -> None:
        """`in_body`: of a function; there a sentence is no prose, but what the program says."""
        in_log = in_log or _is_log_line(node)
        for kind, new in _faults(node):
            self.add(kind, node, new, in_log)
        for condition in _conditions(node):
            self.add("negated", condition, lambda old: f"(not ({old}))", in_log)
        ran = node.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) else []
        bodies = ran if isinstance(ran, list) else [ran]
        for child in _looked_into(node):
            if in_body or not _is_prose(child, node):
                self.visit(child, in_log, in_body or child in bodies)


def _faults(node: ast.AST) -> Iterator[tuple[str, str]]:
    """(kind, new text) of what can be wrong with a node itself."""
    match node:
        case ast.Compare():
            for index, operator in enumerate(node.ops):
                changed = copy.deepcopy(node)
                changed.ops[index] = FLIPPED[type(operator)]()
                yield "compare", f"({ast.unparse(changed)})"
        case ast.BoolOp():
            changed_op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield "and-or", f"({ast.unparse(ast.BoolOp(changed_op, node.values))})"
        case ast.JoinedStr():
            yield "constant", "'XX'"
        case ast.Constant():
            if (other := _other_value(node.value)) is not None:
                yield "constant", repr(other)
        case ast.Return(value=value):
            if value is not None and not (isinstance(value, ast.Constant) and not value.value):
                yield "none", "return None"
        case ast.stmt() if _can_go(node):
            yield "removed", "pass"


def _other_value(value: object) -> object:
    """Another constant of the same type; None: there is none to try."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1 if value < 100 else value * 2
        case float():
            return value * 2 or 1.0
        case str():
            return "XX" if value != "XX" else "YY"
        case bytes():
            return b"XX" if value != b"XX" else b"YY"
    return None


def _can_go(node: ast.stmt) -> bool:
    """Whether a statement can be left out without that a name is missing, which every test would notice."""
    match node:
        case ast.Expr(value=value):
            return not isinstance(value, ast.Constant)
        case ast.Assign(targets=targets):
            return all(isinstance(target, ast.Attribute | ast.Subscript) for target in targets)
        case ast.If(orelse=[], body=body):
            return isinstance(body[-1], ast.Return | ast.Raise | ast.Continue | ast.Break)
    return isinstance(node, ast.AugAssign | ast.Raise | ast.Delete | ast.Continue | ast.Break)


def _conditions(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.If() | ast.While() | ast.IfExp():
            return [] if _name(node.test) == "TYPE_CHECKING" else [node.test]
        case ast.comprehension():
            return node.ifs
    return []


def _looked_into(node: ast.AST) -> list[ast.AST]:
    """The children in which a fault changes what the program does."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            names = {_name(decorator) for decorator in node.decorator_list}
            if names & {"overload", "abstractmethod"}:
                return []
            defaults = [default for default in node.args.kw_defaults if default is not None]
            return [*node.decorator_list, *node.args.defaults, *defaults, *node.body]
        case ast.ClassDef():
            if any(_name(base) == "Protocol" for base in node.bases):
                return []
            decorators = [each for each in node.decorator_list if _name(each) != "dataclass"]
            return [*decorators, *node.keywords, *node.body]
        case ast.Lambda():
            return [*node.args.defaults, node.body]
        case ast.AnnAssign(target=target, value=value):
            return [] if value is None or _name(target) in PROSE_NAMES else [value]
        case ast.Assign(targets=targets, value=value):
            return [] if any(_name(target) in PROSE_NAMES for target in targets) else [value]
        case ast.If(test=test) if _name(test) == "TYPE_CHECKING":
            return list(node.orelse)
        case ast.Expr(value=ast.Constant()) | ast.Assert() | ast.JoinedStr():
            return []
        case ast.Call(func=func) if _name(func) in TYPING_CALLS:
            return []
        case ast.Call(func=func) if _name(func) == "cast":
            return list(node.args[1:])
        case ast.Dict(keys=keys, values=values):
            pairs = zip(keys, values, strict=True)
            kept = [
                pair
                for pair in pairs
                if not (isinstance(pair[0], ast.Constant) and pair[0].value in PROSE_KEYS)
            ]
            return [part for pair in kept for part in pair if part is not None]
        case ast.keyword(arg=arg, value=value):
            return [] if arg in PROSE_KEYS else [value]
    return list(ast.iter_child_nodes(node))


def _is_prose(node: ast.AST, parent: ast.AST) -> bool:
    """Whether this is a sentence in a table: an argument of a call, or a value of a dict."""
    match parent:
        case ast.Call(args=places) | ast.Dict(values=places):
            text = _shown_text(node)
            return node in places and text is not None and SENTENCE.fullmatch(text) is not None
    return False


def _shown_text(node: ast.AST) -> str | None:
    """A text with `{}` for what is put into it; None: this is no text."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_shown_text(part) or "{}" for part in parts)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            texts = _shown_text(left), _shown_text(right)
            return "".join(text or "{}" for text in texts) if any(texts) else None
    return None


def _name(node: ast.AST) -> str:
    """`b` of `b`, `a.b`, `b(...)` and `b[...]`."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Call(func=inner) | ast.Subscript(value=inner):
            return _name(inner)
    return ""


def _is_log_line(node: ast.AST) -> bool:
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="logger"), attr=attr))):
            return attr in LOG_CALLS
    return False


def mutants_of(file: str, source: bytes) -> list[Mutant]:
    """All faults that could be put into one file."""
    finder = _Finder(file, source)
    for statement in ast.parse(source).body:
        finder.visit(statement)
    return finder.found


def is_code(source: bytes) -> bool:
    """Whether Python can read a file with a fault in it."""
    try:
        compile(source, "mutant", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True


def draw(mutants: Iterable[Mutant], count: int, seed: int, fits: Callable[[Mutant], bool]) -> list[Mutant]:
    """At most `count` that fit: the next folder, a kind by chance, then one of that kind by chance."""
    chance = random.Random(seed)
    left: dict[str, dict[str, list[Mutant]]] = {}
    for one in mutants:
        left.setdefault(one.folder, {}).setdefault(one.kind, []).append(one)
    drawn: list[Mutant] = []
    while left and len(drawn) < count:
        for folder in sorted(left)[: count - len(drawn)]:
            kind = chance.choice(sorted(left[folder]))
            those = left[folder][kind]
            if fits(one := those.pop(chance.randrange(len(those)))):
                drawn.append(one)
            if not those:
                del left[folder][kind]
            if not left[folder]:
                del left[folder]
    return drawn


def test_sets(root: Path, file: str) -> list[str]:
    """What runs for a module: its own tests, those of its folder, those of its top folder."""
    mirrored = Path("tests", *Path(file).parts[1:])
    near = [mirrored.with_name(f"test_{mirrored.name}"), *mirrored.parents][:-2]
    found = [
        each.as_posix() for each in near if (root / each).is_file() or list((root / each).rglob("test_*.py"))
    ]
    return list(dict.fromkeys([*found[:2], *found[-1:]]))


@dataclass
class Verdict:
    """What became of a mutant: `killed`, `timeout`, `survived`, or `untested`: no tests could run.

    `by`: the test that noticed it. `timeout`: the tests did not end, and none of them failed.
    """

    mutant: Mutant
    outcome: str
    by: str = ""


@dataclass
class Bench:
    """A copy of the project in which tests run.

    `timeout_s`: how long one set of tests may take; what it says until then counts for nothing.
    """

    root: Path
    timeout_s: float
    _passes: dict[str, bool] = field(default_factory=dict)

    def judge(self, mutant: Mutant) -> Verdict:
        """Run one set of tests after the other until one fails."""
        verdicts = [Verdict(mutant, "untested")]
        for tests in test_sets(self.root, mutant.file):
            verdicts.append(self._judged_by(mutant, tests))
            if verdicts[-1].outcome in ("killed", "timeout"):
                break
        return min(verdicts, key=lambda one: OUTCOMES.index(one.outcome))

    def _judged_by(self, mutant: Mutant, tests: str) -> Verdict:
        """What one set of tests says. A test that fails without the fault, or once only, is left out."""
        left_out = [each for each, passes in self._passes.items() if not passes]
        while tests not in left_out:
            status, failed = self._with_fault(mutant, [tests, *(f"--deselect={each}" for each in left_out)])
            if status is None:
                return Verdict(mutant, "timeout", tests)
            if status in (0, NO_TESTS):
                return Verdict(mutant, "untested" if status else "survived")
            by = failed[0] if failed and failed[0] not in left_out else tests
            if not self._passes_without(by):
                print(f"{by} fails without any fault and is left out", file=sys.stderr)
            elif self._has_failed(self._with_fault(mutant, [by])):
                return Verdict(mutant, "killed", by)
            else:
                print(f"{by} failed once with {mutant}, and not again alone", file=sys.stderr)
            left_out.append(by)
        return Verdict(mutant, "untested")

    def _passes_without(self, test: str) -> bool:
        if test not in self._passes:
            self._passes[test] = not self._has_failed(self._pytest([test]))
        return self._passes[test]

    def _has_failed(self, run: tuple[int | None, list[str]]) -> bool:
        return run[0] not in (0, NO_TESTS, None)

    def _with_fault(self, mutant: Mutant, words: Sequence[str]) -> tuple[int | None, list[str]]:
        path = self.root / mutant.file
        source = path.read_bytes()
        path.write_bytes(mutant.applied(source))
        try:
            return self._pytest(["-x", *words])
        finally:
            path.write_bytes(source)

    def _pytest(self, words: Sequence[str]) -> tuple[int | None, list[str]]:
        """Its exit status and the tests that failed; None when the time is over."""
        call = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-n",
            "0",
            "-p",
            "no:cacheprovider",
            "-o",
            f"timeout={TEST_S}",
        ]
        with tempfile.TemporaryFile() as said:
            run = subprocess.Popen(
                [*call, "--hypothesis-seed=0", "--tb=no", *words],
                cwd=self.root,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_limit_memory if os.name == "posix" else None,
            )
            try:
                status = run.wait(self.timeout_s)
            except subprocess.TimeoutExpired:
                return None, []
            finally:
                _end(run)
            said.seek(0)
            lines = said.read().decode(errors="replace").splitlines()
        return status, [
            _test_id(line.partition(" ")[2]) for line in lines if line.startswith(("FAILED ", "ERROR "))
        ]


def _test_id(line: str) -> str:
    """The test of a line of pytest's summary, `<id> - <reason>`. One with spaces: all of its siblings, as the
    reason could begin anywhere."""
    name = line.partition(" - ")[0]
    return name.partition("[")[0] if " " in name or ("[" in name and not name.endswith("]")) else name


def _limit_memory() -> None:
    import resource  # of POSIX only

    resource.setrlimit(resource.RLIMIT_AS, (CODE_BYTES, CODE_BYTES))


def _end(run: subprocess.Popen[bytes]) -> None:
    """End the tests, and what they started and left behind."""
    try:
        if os.name == "posix":
            os.killpg(run.pid, signal.SIGKILL)
        else:
            run.kill()
    except ProcessLookupError:  # nothing is left
        pass
    run.wait()


def make_copy(house: Path, root: Path) -> None:
    """Copy every file that git does not ignore, as it is now.

    Compiled code is checked by its content: by time and size, two faults of equal length within one tick of
    the clock would pass for one another. What never comes is waited for a short while only.
    """
    asked = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(asked, cwd=house, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        if (house / name).is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(house / name, root / name)
    mode = py_compile.PycInvalidationMode.CHECKED_HASH
    patience = root / "tests" / "patience.py"
    if patience.is_file():
        text = patience.read_text("utf-8")
        patience.write_text(
            re.sub(r"^PATIENCE_S = .*$", f"PATIENCE_S = {PATIENCE_S}", text, flags=re.M), "utf-8"
        )
    compileall.compile_dir(root / "Middleware", quiet=2, invalidation_mode=mode)


def wanted(house: Path, places: Sequence[str]) -> Iterator[Mutant]:
    """The mutants of the named files, folders and lines. Raises SystemExit for a missing one."""
    for place in places:
        name, _, line = place.partition(":")
        path = (house / name).resolve()
        if not path.is_relative_to(house / "Middleware") or not path.exists():
            raise SystemExit(f"{name}: there is no such file or folder in {house / 'Middleware'}")
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            for one in mutants_of(file.relative_to(house).as_posix(), file.read_bytes()):
                if not line or one.line == int(line):
                    yield one


def table(verdicts: Sequence[Verdict]) -> str:
    """One row per folder, one for log lines. The share is that of the killed: a time-out shows nothing."""
    rows: dict[str, Counter[str]] = {}
    for one in verdicts:
        rows.setdefault(_row(one), Counter())[one.outcome] += 1
    counted = Counter(one.outcome for one in verdicts if not one.mutant.in_log)
    judged = counted.total() - counted["untested"]
    share = f"{100 * counted['killed'] / judged:8.1f} %" if judged else ""
    head = f"{'folder':<14}{'drawn':>9}" + "".join(f"{outcome:>10}" for outcome in OUTCOMES)
    lines = [_line(name, outcomes) for name, outcomes in sorted(rows.items())]
    return "\n".join([head, *lines, _line("all but logs", counted) + share])


def _row(verdict: Verdict) -> str:
    return "log lines" if verdict.mutant.in_log else verdict.mutant.folder


def _line(name: str, outcomes: Counter[str]) -> str:
    return f"{name:<14}{outcomes.total():>9}" + "".join(f"{outcomes[outcome]:>10}" for outcome in OUTCOMES)


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    head, _, rest = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        description=head,
        epilog=rest.partition("\n\n")[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "places",
        nargs="*",
        metavar="PATH[:LINE]",
        default=[f"Middleware/{folder}" for folder in FOLDERS],
        help="draw from these files, folders or lines of Middleware only; by default: " + ", ".join(FOLDERS),
    )
    parser.add_argument("--count", type=int, default=60, help="how many faults to try (default: %(default)s)")
    parser.add_argument(
        "--seed", type=int, default=1, help="the same seed draws the same faults (default: %(default)s)"
    )
    parser.add_argument(
        "--kind", choices=KINDS, action="append", help="draw faults of this kind only; may be repeated"
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=1800.0,
        metavar="SECONDS",
        help="stop a set of tests that takes longer; the fault then counts as neither noticed nor survived"
        " (default: %(default)s)",
    )
    parser.add_argument("--list", action="store_true", help="print what would be tried, and run nothing")
    parser.add_argument(
        "--nice", type=int, default=10, help="priority of the tests, POSIX only (default: %(default)s)"
    )
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    """The exit status: 1 when a fault outside of log lines has survived, or let the tests run on for ever."""
    asked = _arguments(words)
    kinds = asked.kind or KINDS
    possible = [one for one in wanted(HOUSE, asked.places) if one.kind in kinds]
    drawn = draw(
        possible, asked.count, asked.seed, lambda one: is_code(one.applied((HOUSE / one.file).read_bytes()))
    )
    if asked.list:
        print(*drawn, sep="\n")
        return 0
    if hasattr(os, "nice"):
        os.nice(asked.nice)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # not without the copy being removed
    with tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as folder:
        make_copy(HOUSE, Path(folder))
        bench = Bench(Path(folder), asked.timeout)
        verdicts = []
        for number, mutant in enumerate(drawn, 1):
            verdicts.append(bench.judge(mutant))
            by = f" ({verdicts[-1].by})" if verdicts[-1].by else ""
            print(f"{number}/{len(drawn)} {verdicts[-1].outcome}: {mutant}{by}", flush=True)
    survivors = [one.mutant for one in verdicts if one.outcome in ("survived", "timeout")]
    print("", table(verdicts), "", "survived:" if survivors else "none survived", *survivors, sep="\n")
    return int(any(not one.in_log for one in survivors))


if __name__ == "__main__":
    sys.exit(main())
