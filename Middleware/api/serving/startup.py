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

from Middleware.api.api_server import ApiServer
from Middleware.api.commands.memory_notes import tell_of_memories
from Middleware.api.launch_arguments import Launch, check_config_folder
from Middleware.api.requests.model_names import served_users
from Middleware.api.serving.heap import limit_arenas
from Middleware.api.serving.install_layout import is_shipped
from Middleware.api.serving.logging_setup import configure_logging
from Middleware.api.serving.own_endpoints import make_own_endpoints
from Middleware.api.serving.processes import act_as_one
from Middleware.common.errors import ConfigError, ConfigMissing
from Middleware.common.instance_global_variables import LaunchFacts, launch_facts, set_launch_facts
from Middleware.config.loader import ConfigSnapshot, default_snapshot
from Middleware.config.users import UserSettings, load_user, pointer_user, user_names
from Middleware.services.locking_service import LockingService
from Middleware.utilities.file_utils import remove_stale_temporaries
from Middleware.workflows.processors.run import discussions_root, lock_database_of

logger = logging.getLogger(__name__)

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
            f"no user to serve: {error}; --User NAME names one ({snapshot.root}/Users has {there or 'none'})"
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
    from Middleware.workflows.managers import config_check as check

    snapshot = check.checked_tree(launch_facts().config_directory).snapshot()
    levels = {"error": logging.ERROR, "warning": logging.WARNING}
    findings = [f for f in check.check_users(snapshot, served_users()) if f.level in levels]
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
        logger.warning("what former servers left of user %s is not tidied up: %s", user.name, error)


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
        logger.exception("the check of the configuration failed")
    gc.collect()
    gc.set_threshold(COLLECT_AFTER, *gc.get_threshold()[1:])
    gc.freeze()  # what is loaded now stays: no later collection has to look at it


def _tell_of_scripts(snapshot: ConfigSnapshot, user: UserSettings) -> None:
    """Scripts run with the server's rights; without `pythonModuleRoots` they may lie anywhere. Source:
    tools.md 11.7.
    """
    from Middleware.workflows.managers.user_walk import UserWalk

    walk = UserWalk(snapshot, user)
    if user.python_module_roots is None and "PythonModule" in walk.node_types():
        logger.info(
            "user %s: PythonModule nodes may run scripts from any folder; pythonModuleRoots limits them",
            user.name,
        )
