"""A command is one file: its arguments stand in it, and go with it alone (workflows.md 17.4)."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

import pytest

import server
from Middleware.api import commands
from Middleware.api.command_registry import COMMANDS, Command
from Middleware.api.launch_arguments import full_parser, parse
from Middleware.common.instance_global_variables import launch_facts, set_launch_facts
from Middleware.common.registry import load_all
from tests.patience import PATIENCE_S

HOUSE = Path(__file__).resolve().parents[2]
FILE = '''
"""`--count-rivers`: says how many users there are."""

from argparse import Namespace

from Middleware.api.command_registry import COMMANDS, Command, OwnArguments
from Middleware.common.instance_global_variables import launch_facts


@COMMANDS.register("count_rivers")
class CountRivers(Command):
    """Says how many users there are."""

    def add_arguments(self, parser: OwnArguments) -> None:
        parser.add_argument("--count-rivers", action="store_true", help="Print the number of users.")
        parser.add_argument("--beginning", default="", metavar="TEXT", help="only such names")

    def run(self, arguments: Namespace) -> int:
        files = (launch_facts().config_directory / "Users").glob(f"{arguments.beginning}*.json")
        print(f"users: {len(list(files))}")
        return 0
'''


@pytest.fixture
def command_file(tmp_path, monkeypatch):
    """`command_file(text)` puts a module beside the commands; it is forgotten after the test."""
    monkeypatch.setattr(COMMANDS, "_table", dict(COMMANDS._table))
    monkeypatch.setattr(commands, "__path__", [*commands.__path__, str(tmp_path / "more")])
    before = launch_facts()

    def put(text):
        (tmp_path / "more").mkdir()
        (tmp_path / "more" / "count_rivers.py").write_text(text, "utf-8")

    yield put
    set_launch_facts(before)
    sys.modules.pop("Middleware.api.commands.count_rivers", None)


@pytest.fixture
def users(tmp_path):
    """A config folder with three users."""
    folder = tmp_path / "Configs" / "Users"
    folder.mkdir(parents=True)
    for name in ("ana", "anna", "bo"):
        (folder / f"{name}.json").write_text("{}", "utf-8")
    return str(folder.parent)


def refusal(capsys, *words):
    """The last line that a usage error prints."""
    with pytest.raises(SystemExit) as caught:
        parse(words)
    assert caught.value.code == 2
    return capsys.readouterr().err.splitlines()[-1]


class TestANewFile:
    def test_it_stands_in_the_help(self, command_file, capsys):
        """With its own argument behind it."""
        command_file(FILE)
        with pytest.raises(SystemExit) as caught:
            parse(["--help"])
        shown = capsys.readouterr().out
        assert caught.value.code == 0
        assert shown.index("--count-rivers ") < shown.index("--beginning TEXT ") < shown.index("--doctor ")

    @pytest.mark.parametrize(
        ("more", "count"), [((), 3), (("--beginning", "an"), 2), (("--beginning=an",), 2)]
    )
    def test_it_runs(self, command_file, users, capsys, more, count):
        """On the folder of the command line."""
        command_file(FILE)
        assert server.main(["--ConfigDirectory", users, "--count-rivers", *more]) == 0
        assert capsys.readouterr().out == f"users: {count}\n"

    @pytest.mark.parametrize("others", [(), ("--User", "ana", "--port", "0"), ("--validate",)], ids=str)
    @pytest.mark.parametrize(
        "words", [("--beginning", "an"), ("--beginning=an",), ("--beginning", "")], ids=str
    )
    def test_its_argument_without_it_is_refused(self, command_file, capsys, others, words):
        """Nobody would read it; also when it says what holds without it."""
        command_file(FILE)
        told = refusal(capsys, *others, *words)
        assert told == "headrace: error: argument --beginning: works only with --count-rivers"

    def test_beside_another_command_it_is_refused(self, command_file, capsys):
        command_file(FILE)
        assert "give at most one of --count-rivers, --validate" in refusal(
            capsys, "--validate", "--count-rivers"
        )

    def test_a_name_that_is_no_argument_is_told(self, command_file):
        """At the first word that is not the server's."""
        command_file(FILE.replace('register("count_rivers")', 'register("count")'))
        with pytest.raises(ValueError, match="command 'count' has no argument --count"):
            parse(["--validate"])

    def test_a_short_argument_is_told(self, command_file):
        command_file(FILE.replace('"--beginning"', '"-b"'))
        with pytest.raises(ValueError, match="found '-b', allowed: an argument that begins with --"):
            parse(["--validate"])


load_all(commands)
NAMES = sorted(COMMANDS)


def flag_of(name):
    return f"--{name.replace('_', '-')}"


def arguments_beside_names():
    """(names of a command, one of its other flags, a value for it or None), of every command."""
    for kind in dict.fromkeys(COMMANDS[name] for name in NAMES):
        own = [name for name in NAMES if COMMANDS[name] is kind]
        parser = argparse.ArgumentParser()
        kind().add_arguments(parser)
        for action in parser._actions:
            if action.dest not in ("help", *own):
                value = None if action.nargs == 0 else "1"
                flag = action.option_strings[0]
                names = [
                    name for name in NAMES if COMMANDS[name] is kind or flag in COMMANDS[name].SHARED_FLAGS
                ]
                yield pytest.param(names, flag, value, id=action.dest)


@pytest.mark.parametrize(("names", "flag", "value"), list(arguments_beside_names()))
@pytest.mark.parametrize("others", [(), ("--User", "ana")], ids=["alone", "serving"])
def test_an_argument_of_a_command_goes_with_it_only(capsys, names, flag, value, others):
    """One sentence says with what."""
    told = refusal(capsys, *others, flag, *([value] if value else []))
    assert told == f"headrace: error: argument {flag}: works only with {' or '.join(map(flag_of, names))}"


def test_behind_two_dashes_are_no_arguments(configs, tmp_path):
    """A folder may have any name."""
    made = parse(["--PublicDirectory", str(tmp_path), "--", "--messages"])
    assert made.command is None and made.facts.config_directory == Path("--messages")


@pytest.mark.parametrize("name", NAMES)
def test_every_command_is_chosen_by_its_name(name, configs, tmp_path):
    """Which is an argument with or without a value."""
    parser = argparse.ArgumentParser()
    COMMANDS[name]().add_arguments(parser)
    count = next(a for a in parser._actions if a.dest == name).nargs
    value = ["x"] * (count if isinstance(count, int) else 1)
    made = parse(["--PublicDirectory", str(tmp_path), flag_of(name), *value])
    assert isinstance(made.command, Command) and type(made.command) is COMMANDS[name]


@pytest.mark.parametrize("action", full_parser()[0]._actions, ids=lambda action: action.dest)
def test_every_argument_has_a_sentence_of_help(action):
    """It begins with a capital letter and ends with a full stop; `./run` has one argument more."""
    assert re.fullmatch(r"[A-Z].*\.", action.help or "")


def test_the_help_names_the_argument_of_run():
    """The server alone cannot start the local model."""
    assert "--local-model" in full_parser()[0].format_help()


def test_at_most_one(capsys):
    """Also of one command's two names."""
    assert "at most one of --dry-run, --explain" in refusal(capsys, "--dry-run", "A", "--explain", "B")


def test_a_start_to_serve_loads_no_command():
    """Nor what they need."""
    code = (
        "import sys; from Middleware.api.launch_arguments import full_parser, parse\n"
        "parse(['--User', 'demo', '--port', '0', '--log-level', 'error'])\n"
        "loaded = [m for m in sys.modules if m.startswith(('Middleware.api.commands.', 'Middleware.workflows'))]\n"
        "print(sorted(loaded))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], cwd=HOUSE, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert shown.stdout.strip() == "[]", shown.stderr


def test_nothing_that_a_command_prints_steers_the_terminal(users, command_file, capsys):
    """Names, prompts and answers are not its own; line ends and tabs are."""
    said = 'print("\\x1b[2Ja\\tb\\x9b", file=__import__("sys").stderr)'
    command_file(FILE.replace('print(f"users', f'{said}; print("\\x1b[8m"); print(f"users'))
    assert server.main(["--ConfigDirectory", users, "--count-rivers"]) == 0
    told = capsys.readouterr()
    assert (told.out, told.err) == ("\\x1b[8m\nusers: 3\n", "\\x1b[2Ja\tb\\x9b\n")
