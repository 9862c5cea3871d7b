"""`--update-check`: asks the package index once which version is the newest. Nothing else in the program asks
for a version, and this only when told to. Changes nothing. Source: spec operate.md 2.

pip is asked, not the index itself: it knows the index of this machine, its proxy and its certificates.
"""

from __future__ import annotations

import subprocess
import sys
from argparse import Namespace
from importlib.metadata import PackageNotFoundError, metadata

from Middleware.api.command_registry import COMMANDS, Command, OwnArguments
from Middleware.common.constants import VERSION
from Middleware.common.instance_global_variables import INSTALL_DIRECTORY, is_installed
from Middleware.services.backup.tree_use import numbers_of
from Middleware.utilities.install_layout import NAME

LIMIT_S = 60
"""For pip, which starts slowly on a small machine."""
_ASK = ("-P", "-m", "pip", "index", "versions", NAME, "--disable-pip-version-check", "--no-input")
_ONCE = ("--retries", "0", "--timeout", "10")
_WITH_REASONS = "-vv"
"""Else pip calls a package unknown when it could not ask."""
_NOT_ASKED = "Could not fetch URL "
_CHANGES = "Changelog"


@COMMANDS.register("update_check")
class UpdateCheck(Command):
    """Prints the version of the program and the newest one."""

    USES_FOLDERS = False

    def add_arguments(self, parser: OwnArguments) -> None:
        parser.add_argument(
            "--update-check",
            action="store_true",
            help="Ask the package index once which version is the newest, and print it.",
        )

    def run(self, arguments: Namespace) -> int:
        """Exit status 0; 1 when the index says nothing."""
        print(f"installed: {VERSION}", flush=True)
        try:
            newest = _newest_version()
        except RuntimeError as error:
            print(f"newest:    unknown, {error}")
            print(_where_changes_are())
            return 1
        is_newer = numbers_of(newest) > numbers_of(VERSION)
        print(f"newest:    {newest}{'' if is_newer else ', so there is no update'}")
        print(_where_changes_are())
        return 0


def _newest_version() -> str:
    """Raises RuntimeError, the end of a sentence."""
    try:
        told = subprocess.run(
            [sys.executable, *_ASK, *_ONCE, _WITH_REASONS],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            timeout=LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"the package index did not answer within {LIMIT_S} s") from None
    except OSError as error:
        raise RuntimeError(f"pip cannot be started: {error}") from None
    lines = [line.strip() for line in told.stdout.splitlines()]
    for line in lines if told.returncode == 0 else ():
        if line.startswith(f"{NAME} (") and line.endswith(")"):
            return line.removeprefix(f"{NAME} (").removesuffix(")")
    said = [line.strip() for line in told.stderr.splitlines() if line.strip()]
    said += [line.removesuffix(" - skipping") for line in lines if line.startswith(_NOT_ASKED)]
    raise RuntimeError(f"pip says: {said[-1] if said else 'nothing'}")


def _where_changes_are() -> str:
    """The line that names the changelog's address; in a folder of the source, its file."""
    if not is_installed():
        return f"changes:   {INSTALL_DIRECTORY / 'CHANGELOG.md'}, after `git pull`"
    try:
        addresses = metadata(NAME).get_all("Project-URL") or []
    except PackageNotFoundError:
        addresses = []
    named = dict(address.split(", ", 1) for address in addresses if ", " in address)
    return f"changes:   {named.get(_CHANGES, 'CHANGELOG.md, on the page of the release')}"
