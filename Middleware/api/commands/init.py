"""`--init [DIR]`: writes the Public folder that came with the program into a folder, whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from Middleware.api.command_registry import COMMANDS, Command, OwnArguments, nonempty_text
from Middleware.common.instance_global_variables import shipped_public
from Middleware.utilities.file_utils import is_stale
from Middleware.utilities.install_layout import OWN_FOLDER, make_own_endpoints, program, quote_words

PARTS = ("Configs", "workflow_python_scripts")
"""What ships. A clone's Public folder may also hold the data of the server that runs there."""
BESIDE = ".Public.making-"
"""Begins the name of the folder beside the new one in which it is made."""


@COMMANDS.register("init")
class Init(Command):
    """Writes the examples as files of the user's own."""

    USES_FOLDERS = False

    def add_arguments(self, parser: OwnArguments) -> None:
        parser.add_argument(
            "--init",
            nargs="?",
            const=".",
            type=nonempty_text,
            metavar="DIR",
            help="Write the example configuration to Public in this folder, or in the current one.",
        )

    def run(self, arguments: Namespace) -> int:
        """Exit status 0, or 1 when `arguments.init` has a `Public` already or cannot be written."""
        public = Path(arguments.init).expanduser().absolute() / "Public"
        if os.path.lexists(public):
            print(f"{public}: error: it already exists and is not overwritten; give --init another folder")
            return 1
        source = shipped_public()
        if not (source / PARTS[0]).is_dir():
            print(f"{source}: error: the examples that come with the program are missing")
            return 1
        try:
            count = _write(source, public)
        except OSError as error:
            print(f"{public}: error: cannot be written: {error.strerror or error}")
            return 1
        print(
            f"{public}: wrote {count} files\n"
            f"Start the server with: {program()} {quote_words('--PublicDirectory', str(public))}"
        )
        print(
            "To use your own model server, change three fields of "
            f"{public / PARTS[0] / OWN_FOLDER / 'Main.json'}"
        )
        return 0


def _write(source: Path, public: Path) -> int:
    """How many files. Raises OSError; then, and when it is stopped, there is no `public`."""
    public.parent.mkdir(parents=True, exist_ok=True)
    with making_folder(public.parent) as making:
        made = making / public.name  # in it, not it: a temporary folder is closed to other accounts
        count = copy_examples(source, made)
        own = make_own_endpoints(made / PARTS[0])
        os.rename(made, public)
    return count + len(own)


@contextmanager
def making_folder(beside: Path) -> Iterator[Path]:
    """A folder in which a tree is made before it gets its place; what killed processes have left of theirs
    goes.
    """
    for left in beside.glob(f"{BESIDE}*"):
        with suppress(OSError):
            if is_stale(left):
                shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=BESIDE, dir=beside) as making:
        yield Path(making)


def copy_examples(source: Path, target: Path) -> int:
    """How many files of the shipped Public folder `source` were copied. Raises OSError, which names the copy
    that could not be made.
    """
    files = list(_files(source))
    for file in files:
        copy = target / file.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        try:
            shutil.copyfile(file, copy)  # the text alone: an installer may have made its files read only
        except OSError as error:  # of a full disk it names what was read, or nothing
            raise OSError(error.errno, error.strerror, str(copy)) from error
    return len(files)


def _files(source: Path) -> Iterator[Path]:
    for part in PARTS:
        for file in sorted((source / part).rglob("*")):
            if file.is_file() and file.parent.name != "__pycache__":
                yield file
