"""Headrace: the entry point. Command line -> application -> waitress; also the WSGI application for gunicorn.

    python server.py --User mira        installed: headrace --User mira
    gunicorn -k gevent 'server:get_application("--User", "mira")'

`application` is `get_application()`, built when the name is first read. Importing this module starts nothing.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from Middleware.api.launch_arguments import Launch, parse
from Middleware.common.instance_global_variables import is_installed, set_launch_facts
from Middleware.utilities.standard_streams import NOBODY_READS, keep_streams_from_failing, lost_output

if TYPE_CHECKING:
    from flask import Flask

    from Middleware.api.command_registry import Command
    from Middleware.services.backup.tree_use import FolderUse


CANNOT_BE_LOADED = 4
"""The exit status of a worker by which gunicorn ends; after another it starts the next worker, for ever."""

_uses: list[FolderUse] = []
"""Of applications that were handed to a server: held until the process ends."""


@cache
def get_application(*words: str) -> Flask:
    """The WSGI application of a command line. Raises SystemExit (status `CANNOT_BE_LOADED`) when it cannot
    serve; stderr says why.
    """
    try:
        return _application(words)
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        raise SystemExit(CANNOT_BE_LOADED) from end


def _application(words: Sequence[str]) -> Flask:
    keep_streams_from_failing()
    launch, use = _enter(words)
    _uses.append(use)
    startup = importlib.import_module("Middleware.api.serving.startup")
    server = startup.prepare(launch)
    startup.warm_up()
    importlib.import_module("Middleware.api.serving.foreign_servers").stop_in_order(server.door)
    importlib.import_module("Middleware.api.serving.foreign_servers").refuse_in_our_form(server.door)
    for line in server.console_lines(""):
        print(line, flush=True)
    application: Flask = server.app
    return application


def __getattr__(name: str) -> Any:
    if name == "application":
        return get_application()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def main(words: Sequence[str] | None = None) -> int:
    """Serve until a signal, or run a command. The exit status. This is what `headrace` calls, too."""
    keep_streams_from_failing()
    try:
        return _main(sys.argv[1:] if words is None else words)
    except KeyboardInterrupt:
        return 130
    except ModuleNotFoundError as missing:
        if (missing.name or "Middleware").startswith("Middleware"):
            raise
        raise SystemExit(f"{sys.executable} has no module '{missing.name}'. {_way_to_libraries()}") from None


def _way_to_libraries() -> str:
    if is_installed():
        return "Install headrace again with pip, without --no-deps."
    return (
        "Start with ./run (Windows: run.bat) instead of python server.py: it installs what is needed once and"
        " takes the same arguments."
    )


def _main(words: Sequence[str]) -> int:
    launch, use = _enter(words)
    try:
        if launch.command is None:
            return _serve(launch)
        status = _run(launch.command, launch)
    finally:
        use.give_back()
    then = launch.command.words_to_serve(words) if status == 0 else None
    return status if then is None else _main(then)


def _enter(words: Sequence[str]) -> tuple[Launch, FolderUse]:
    """What the command line says, and the folders that it names, held with others; a restore that was killed
    is undone. Raises SystemExit.
    """
    tree_use = importlib.import_module("Middleware.services.backup.tree_use")
    launch = parse(words)
    if launch.command is not None and not launch.command.USES_FOLDERS:
        return launch, tree_use.FolderUse((), False)
    try:
        use = tree_use.use_together(launch.facts.data_root, tree_use.folders_of(launch.facts))
    except tree_use.TreeBusy as error:
        raise SystemExit(str(error)) from error
    return (parse(words) if use.undone else launch), use


def _serve(launch: Launch) -> int:
    startup = importlib.import_module("Middleware.api.serving.startup")
    serving = importlib.import_module("Middleware.api.serving.waitress_server")
    status: int = serving.serve(launch, startup.prepare(launch))
    return status


def _run(command: Command, launch: Launch) -> int:
    set_launch_facts(launch.facts)
    status = command.run_plainly(launch.arguments)
    lost = lost_output()
    if lost is None or lost.errno in NOBODY_READS:
        return status
    print(f"error: not all of the output could be written: {lost.strerror or lost}", file=sys.stderr)
    return status or 1


if __name__ == "__main__":
    sys.exit(main())
