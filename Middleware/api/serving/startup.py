"""From the command line to an application that can serve: users checked, logging, locks, doors.

Binds nothing. What is heavy (the engine, the check of what users can reach) is `warm_up`: behind the bound
port where the server is ours, before the application is handed over where it is not.
Source: spec frontend-api.md 2.3 and workflows.md 16.12.
"""

from __future__ import annotations

import gc
import logging
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from Middleware.api.api_server import ApiServer
from Middleware.api.command_registry import check_config_folder
from Middleware.api.launch_arguments import Launch
from Middleware.api.requests.model_names import served_users
from Middleware.api.wsgi.processes import act_as_one, limit_arenas
from Middleware.common.errors import ConfigError, ConfigMissing, escape_controls
from Middleware.common.instance_global_variables import LaunchFacts, launch_facts, set_launch_facts
from Middleware.config.loader import ConfigSnapshot, default_snapshot
from Middleware.config.users import UserSettings, load_user, pointer_user, user_names
from Middleware.services.backup.tree_use import TreeBusy, enter_data
from Middleware.services.data_folders import discussions_root, lock_database_of
from Middleware.services.locking_service import LockingService
from Middleware.utilities.file_utils import LogFile, network_file_system, remove_stale_temporaries
from Middleware.utilities.install_layout import is_shipped, make_own_endpoints
from Middleware.utilities.sensitive_logging_utils import SensitiveFilter

logger = logging.getLogger(__name__)


# --------------------------------------------------------------------------
# What a starting server says of where a user's discussions lie. Source: spec memory.md 18.6 (4), 18.8.


def tell_of_memories(user: UserSettings, root: Path) -> None:
    """`root`: the folder of the user's discussions."""
    if user.encrypt_using_api_key:
        logger.info(
            "user %s: encryptUsingApiKey does not encrypt vector memories (vector_memory.db)", user.name
        )
    kind = network_file_system(root)
    if kind is not None:
        logger.warning(
            "%s is on a network file system (%s), where several servers cannot share it safely", root, kind
        )


# --------------------------------------------------------------------------
# Where log lines go: the console, one rotating file, or one file a user. Called once, at the start.


FILE_NAME = "wilmerai.log"
MAX_BYTES = 3 * 1024 * 1024
BACKUPS = 7
FORMAT = "%(asctime)s %(levelname)s [%(user)s] %(message)s"
DEBUG_FORMAT = "%(asctime)s %(levelname)s [%(user)s] %(name)s: %(message)s"
_QUIET = {
    "urllib3": logging.ERROR,  # its warnings quote whole addresses
    "waitress": logging.WARNING,
    "waitress.queue": logging.ERROR,
    "werkzeug": logging.WARNING,
}


def _leave_out_what_no_line_shows() -> None:
    """Source: "Optimization" in Python's Logging HOWTO."""
    logging._srcfile = None
    logging.logThreads = logging.logMultiprocessing = False  # gunicorn's own lines show the process


def configure_logging(level: str, folder: Path | None, users: tuple[str, ...] = ()) -> None:
    """`folder`: where files go, None for the console only.

    With two or more `users` each has a file of its own.
    """
    _leave_out_what_no_line_shows()
    handlers: list[logging.Handler] = [logging.StreamHandler(sys.stderr)]
    if folder is not None:
        handlers.append(_UserFiles(folder, users) if len(users) > 1 else _file(folder))
    formatter = _EachLineStamped(DEBUG_FORMAT if level == "DEBUG" else FORMAT)
    root = logging.getLogger()
    for old in [handler for handler in root.handlers if getattr(handler, "is_headrace", False)]:
        root.removeHandler(old)
        old.close()
    for handler in handlers:
        handler.addFilter(SensitiveFilter())
        handler.setFormatter(formatter)
        handler.is_headrace = True  # type: ignore[attr-defined]
        root.addHandler(handler)
    root.setLevel(level)
    for name, least in _QUIET.items():
        logging.getLogger(name).setLevel(max(least, root.level))


MOST_LINES = 60
"""Lines of a traceback. A deep one says the same again and again, and each takes its room in the log."""


class _EachLineStamped(logging.Formatter):
    """Time, level and user stand before each line of a record: no line can pass for another's, and a search
    for a time or a user finds tracebacks whole. No line can steer the terminal that shows it.
    """

    def formatException(self, ei: Any) -> str:
        return _shorten_traceback(super().formatException(ei))

    def format(self, record: logging.LogRecord) -> str:
        if record.exc_text:  # the filter's, masked; it is never built again from the error
            record.exc_text = _shorten_traceback(record.exc_text)
        text = escape_controls(super().format(record), lines=True)
        if "\n" not in text:
            return text
        stamp = f"{record.asctime} {record.levelname} [{getattr(record, 'user', 'system')}] | "
        return text.replace("\n", "\n" + stamp)


def _shorten_traceback(traceback: str) -> str:
    lines = traceback.split("\n")
    if len(lines) <= MOST_LINES:
        return traceback
    first = MOST_LINES // 3
    last = MOST_LINES - first - 1
    left_out = f"  ... {len(lines) - first - last} lines left out ..."
    return "\n".join([*lines[:first], left_out, *lines[-last:]])


def _file(folder: Path) -> LogFile:
    return LogFile(folder / FILE_NAME, max_bytes=MAX_BYTES, backups=BACKUPS)


class _UserFiles(logging.Handler):
    """One rotating file a user; what belongs to no request goes to the file above them."""

    def __init__(self, folder: Path, users: tuple[str, ...]) -> None:
        super().__init__()
        self._common = _file(folder)
        self._files = {user: _file(folder / user) for user in users}

    def setFormatter(self, fmt: logging.Formatter | None) -> None:
        super().setFormatter(fmt)
        for handler in (self._common, *self._files.values()):
            handler.setFormatter(fmt)

    def emit(self, record: logging.LogRecord) -> None:
        self._files.get(getattr(record, "user", ""), self._common).emit(record)

    def close(self) -> None:
        for handler in (self._common, *self._files.values()):
            handler.close()
        super().close()


# --------------------------------------------------------------------------

COLLECT_AFTER = 10_000
"""So many new objects, more than were freed, before the collector looks for circles (CPython: 700). A request
leaves none behind; with many of them open a look at 700 cost a quarter of what a request costs."""


def prepare(launch: Launch) -> ApiServer:
    """The application of this command line. Raises SystemExit when it cannot serve."""
    set_launch_facts(launch.facts)
    limit_arenas()
    if not _users_are_fit(default_snapshot(), _users_to_serve(launch), launch.strict):
        raise SystemExit(1)
    configure_logging(launch.log_level, launch.log_folder, launch.facts.users)
    _enter_data(launch.facts)
    _make_own_endpoints(launch.facts)
    for warning in launch.warnings:
        logger.warning("%s", warning)
    if launch.strict and not check_reachable():
        raise SystemExit(1)
    act_as_one()
    for user in _readable_users():
        _tidy_up(user)
    try:
        return ApiServer(rules=launch.rules)
    except RuntimeError as error:
        print(error, file=sys.stderr)
        raise SystemExit(1) from error


def _enter_data(facts: LaunchFacts) -> None:
    """Raises SystemExit, one sentence, for data of a version that this one cannot read."""
    try:
        enter_data(facts)
    except TreeBusy as error:
        raise SystemExit(str(error)) from error


def _make_own_endpoints(facts: LaunchFacts) -> None:
    """What came with a wheel is not for changing, and a tree that cannot be written is served as it is."""
    if is_shipped(facts.config_directory):
        return
    with suppress(OSError):
        make_own_endpoints(facts.config_directory)


def _users_to_serve(launch: Launch) -> tuple[str, ...]:
    """The given users, or the pointer's. Raises SystemExit, one sentence, where there is nobody."""
    check_config_folder(launch.facts)
    if launch.facts.users:
        return launch.facts.users
    snapshot = default_snapshot()
    try:
        return (pointer_user(snapshot),)
    except ConfigError as error:
        there = ", ".join(user_names(snapshot))
        raise SystemExit(
            f"no user to serve: {error}; name one with --User NAME ({snapshot.root}/Users has "
            f"{there or 'none'})"
        ) from error


def _users_are_fit(snapshot: ConfigSnapshot, users: tuple[str, ...], strict: bool) -> bool:
    """Each problem of a user file is printed.

    A missing file stops the start; a faulty one only when `strict`.
    """
    fit = True
    for user in users:
        try:
            load_user(snapshot, user)
        except ConfigMissing as error:
            print(error, file=sys.stderr)
            fit = False
        except ConfigError as error:
            print(error, file=sys.stderr)
            fit = fit and not strict
    return fit


def check_reachable() -> bool:
    """Check all that the served users can reach and log the findings. True: no errors."""
    from Middleware.workflows.checks import config_check

    snapshot = config_check.checked_tree(launch_facts().config_directory).snapshot()
    levels = {"error": logging.ERROR, "warning": logging.WARNING}
    findings = [f for f in config_check.check_users(snapshot, served_users()) if f.level in levels]
    for finding in findings:
        logger.log(levels[finding.level], "%s", finding)
    return all(finding.level != "error" for finding in findings)


def _readable_users() -> list[UserSettings]:
    """The served users whose files can be read; the others have been told of."""
    users = []
    for name in served_users():
        with suppress(ConfigError):
            users.append(load_user(default_snapshot(), name))
    return users


def _tidy_up(user: UserSettings) -> None:
    """What instances that are gone have left goes: their locks, their half-written files.

    Never stops a start.
    """
    try:
        LockingService(lock_database_of(user), launch_facts().instance_id).remove_dead()
        remove_stale_temporaries(discussions_root(user))
    except OSError as error:
        logger.warning(
            "the locks and temporary files that earlier servers left for user %s could not be removed: %s",
            user.name,
            error,
        )


def warm_up() -> None:
    """Load the engine and check what can be reached.

    The edge of a start: what fails here must not stop a server that can answer.
    """
    try:
        from Middleware.workflows.managers import categorization  # noqa: F401

        for user in _readable_users():
            _tell_of_scripts(default_snapshot(), user)
            tell_of_memories(user, discussions_root(user))
        check_reachable()
    except Exception:
        logger.exception("the configuration could not be checked")
    gc.collect()
    gc.set_threshold(COLLECT_AFTER, *gc.get_threshold()[1:])
    gc.freeze()  # what is loaded now stays: no later collection has to look at it


def _tell_of_scripts(snapshot: ConfigSnapshot, user: UserSettings) -> None:
    """Scripts run with the server's rights; without `pythonModuleRoots` they may lie anywhere. Source:
    tools.md 11.7.
    """
    from Middleware.workflows.checks.user_walk import UserWalk

    walk = UserWalk(snapshot, user)
    if user.python_module_roots is None and "PythonModule" in walk.node_types():
        logger.info(
            "user %s: PythonModule nodes may run scripts from any folder; set pythonModuleRoots "
            "to limit them",
            user.name,
        )
