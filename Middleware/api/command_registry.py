"""COMMANDS: what prints and exits instead of serving. A command is one module beside this one.

    @COMMANDS.register("count_users")
    class CountUsers(Command):
        '''`--count-users`: says how many users there are.'''

        def add_arguments(self, parser: OwnArguments) -> None:
            parser.add_argument("--count-users", action="store_true", help="Print the number of users.")

        def run(self, arguments: Namespace) -> int:
            ...

The name is that of the argument which asks for it; a command with several (`dry_run`, `explain`) has several.
Its modules are loaded when the command line has a word that is none of the server's, so a start to serve does
without them. Source: spec workflows.md 17.4.
"""

from __future__ import annotations

import argparse
import sys
from abc import ABC, abstractmethod
from argparse import Namespace
from collections.abc import Iterable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, ClassVar, NoReturn, TextIO, cast

from Middleware.common.errors import ConfigError, escape_controls
from Middleware.common.instance_global_variables import LaunchFacts
from Middleware.common.registry import Registry
from Middleware.config import json_positions
from Middleware.utilities.install_layout import program


class OwnArguments:
    """Takes the arguments of one command. `dests`: flag -> name of its value."""

    def __init__(self, group: argparse._ArgumentGroup) -> None:
        self._group = group
        self.dests: dict[str, str] = {}

    def add_argument(self, *flags: str, **how: Any) -> None:
        """As `add_argument` of `argparse`. Raises ValueError for one that does not begin with `--`."""
        for flag in flags:
            if not flag.startswith("--"):
                raise ValueError(f"found {flag!r}, allowed: an argument that begins with --")
        action = self._group.add_argument(*flags, **how)
        self.dests.update(dict.fromkeys(flags, action.dest))


class Command(ABC):
    """One thing to do instead of serving. `SHARED_FLAGS`: arguments of other commands that it takes, too.

    `USES_FOLDERS`: it works with the folders of the installation, which no restore may exchange meanwhile.
    """

    SHARED_FLAGS: ClassVar[tuple[str, ...]] = ()
    USES_FOLDERS: ClassVar[bool] = True

    @abstractmethod
    def add_arguments(self, parser: OwnArguments) -> None:
        """Adds the argument that asks for the command, and those that only go with it."""

    @abstractmethod
    def run(self, arguments: Namespace) -> int:
        """The exit status: 0 when all is well, 1 when it found something wrong, 2 for a usage error.

        The facts of the launch are set; what it has to say is printed.
        """

    def run_plainly(self, arguments: Namespace) -> int:
        """`run`, with all that it prints on plain streams."""
        out, errors = cast(TextIO, _PlainStream(sys.stdout)), cast(TextIO, _PlainStream(sys.stderr))
        with redirect_stdout(out), redirect_stderr(errors):
            return self.run(arguments)

    def words_to_serve(self, words: Sequence[str]) -> Sequence[str] | None:
        """The command line of the server that starts when the command has ended well; None: no server.

        `words`: the command line of the command.
        """
        return None


COMMANDS: Registry[type[Command]] = Registry("command", Command)


class _PlainStream:
    """Nothing that a command prints can steer the terminal: names, prompts, packs and what model servers say
    are not its own.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(escape_controls(text, lines=True))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def document_of(file: str) -> Any:
    """The value of a JSON file that a command is given, read as a config file is.

    Raises ConfigError, which names the file and the position.
    """
    try:
        raw = Path(file).expanduser().read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror or error}", file=file) from error
    return json_positions.parse(raw, file, half_characters=True)


def check_config_folder(facts: LaunchFacts) -> None:
    """Raises SystemExit, one sentence, when the config folder is not there."""
    root = facts.config_directory
    if not root.is_dir():
        raise SystemExit(
            f"{root}: there is no such folder. Name your folder with --ConfigDirectory or --PublicDirectory, "
            f"or create one from the examples with {program()} --init DIR."
        )


def nonempty_text(text: str) -> str:
    """A `type` for values that are there: an empty one comes from a shell variable that nobody set."""
    if not text.strip():
        raise argparse.ArgumentTypeError("must not be empty")
    return text


def positive_number(text: str) -> int:
    """A `type` for whole numbers from 1 on."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError("must be a number from 1 on")
    return int(text)


class CommandArguments:
    """The arguments of all commands on one parser, in order of name."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        """Needs the commands loaded. Raises ValueError for one whose name is no argument of its own."""
        self._error = parser.error
        self._group = parser.add_argument_group("commands, which run instead of the server (at most one)")
        classes = dict.fromkeys(COMMANDS[name] for name in sorted(COMMANDS))
        self._stated = [self._state(kind) for kind in classes]

    def _state(self, kind: type[Command]) -> _Stated:
        command, own = kind(), OwnArguments(self._group)
        command.add_arguments(own)
        names = [name for name in COMMANDS if COMMANDS[name] is kind]
        for name in names:
            if name not in own.dests.values():
                raise ValueError(f"command {name!r} has no argument {_flag(name)}")
        return _Stated(command, names, own.dests)

    def find_command(self, words: Sequence[str]) -> Command | None:
        """The command that the words ask for.

        Two of them, or an argument of a command that is not asked for, are a usage error (SystemExit, 2).
        """
        flags = _flags(words)
        asked = [(name, one) for one in self._stated for name in one.requested_names(flags)]
        if len(asked) > 1:
            self._refuse("give at most one of " + ", ".join(_flag(name) for name, _ in asked))
        chosen = asked[0][1] if asked else None
        for flag in flags:
            owners = [one for one in self._stated if one.takes(flag)]
            if owners and not (chosen and chosen.takes(flag)):
                names = " or ".join(_flag(name) for one in owners for name in one.names)
                self._refuse(f"argument {flag}: works only with {names}")
        return chosen.command if chosen else None

    def _refuse(self, message: str) -> NoReturn:
        self._error(message)


class _Stated:
    """One command, its names, and the flags that are its own."""

    def __init__(self, command: Command, names: Sequence[str], dests: dict[str, str]) -> None:
        self.command, self.names, self.dests = command, names, dests

    def takes(self, flag: str) -> bool:
        """Whether the flag asks for this command or belongs to it."""
        return flag in self.dests or flag in self.command.SHARED_FLAGS

    def requested_names(self, flags: Iterable[str]) -> list[str]:
        """The names that the flags ask for."""
        given = {self.dests.get(flag) for flag in flags}
        return [name for name in self.names if name in given]


def _flags(words: Sequence[str]) -> list[str]:
    """The flags among the words: `--messages=x` is `--messages`; behind `--` there are none."""
    before = words[: list(words).index("--")] if "--" in words else words
    return [word.partition("=")[0] for word in before if word.startswith("--")]


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
