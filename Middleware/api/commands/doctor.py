"""`--doctor`: calls each endpoint that a user's workflows can reach, once, and says how it is; and which
nodes have too few tokens for a model that thinks. Prints, never serves.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator

from Middleware.api.command_registry import COMMANDS, Command, OwnArguments, check_config_folder
from Middleware.common.errors import ConfigError
from Middleware.common.instance_global_variables import launch_facts
from Middleware.config.endpoints import load_endpoint
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.machines import machine_limit
from Middleware.config.paths import MACHINES_FILE
from Middleware.config.users import UserSettings, load_user, pointer_user
from Middleware.config.validation import ERROR
from Middleware.llmapis.endpoint_probe import Probe, is_well, line, probes
from Middleware.utilities.text_utils import count_of
from Middleware.workflows.checks.config_check import check_users, checked_tree, short_of_tokens
from Middleware.workflows.checks.endpoint_check import models_of_machines, with_backups
from Middleware.workflows.checks.reuse_advice import reading_note
from Middleware.workflows.checks.user_walk import UserWalk


@COMMANDS.register("doctor")
class Doctor(Command):
    """Calls each endpoint of a user once."""

    def add_arguments(self, parser: OwnArguments) -> None:
        parser.add_argument(
            "--doctor",
            action="store_true",
            help="Call every endpoint of a user's workflows once and report problems.",
        )

    def run(self, arguments: Namespace) -> int:
        """Exit status 0 when all is well, 1 when something is wrong, 2 for a usage error."""
        facts = launch_facts()
        check_config_folder(facts)
        if len(facts.users) > 1:
            print("--doctor checks one user: give --User once", file=sys.stderr)
            return 2
        snapshot = checked_tree(facts.config_directory).snapshot()
        try:
            user = load_user(snapshot, facts.users[0] if facts.users else pointer_user(snapshot))
        except ConfigError as error:
            print(f"error: {error}")
            return 1
        errors = [finding for finding in check_users(snapshot, [user.name]) if finding.level == ERROR]
        for finding in errors:
            print(finding)
        walk = UserWalk(snapshot, user)
        names = with_backups(snapshot, user, walk.endpoints())
        told = {(finding.file, finding.pointer) for finding in errors}
        seen = {name: _looked_at(snapshot, user, name, told) for name in names}
        well = [name for name, looks in seen.items() if any(map(is_well, looks))]
        lost = sum(not is_well(look) for name in well for look in seen[name])
        thinking = [name for name in well if any(look.thinks for look in seen[name])]
        short = list(short_of_tokens(snapshot, user, walk, thinking)) if thinking else []
        for finding in short:
            print(finding)
        print(
            f"user {user.name}: {len(well)} of {count_of(len(names), 'endpoint')} can be used"
            + (f" ({lost} of their addresses cannot); " if lost else "; ")
            + f"{count_of(len(errors), 'error')} in files"
            + (f"; {count_of(len(short), 'token limit')} too low for a model that thinks" if short else "")
        )
        for advice in machine_advice(snapshot, user, names):
            print(advice)
        if note := reading_note(snapshot, user):
            print(f"user {user.name}: {note}")
        return 0 if well == names and not lost and not errors and not short else 1


def machine_advice(snapshot: ConfigSnapshot, user: UserSettings, names: Iterable[str]) -> Iterator[str]:
    """A line for each machine of these endpoints with two models, when whole requests wait for each other
    one by one: who waits for a model holds up everybody else. Source: prompt-reuse.md 7.1.
    """
    facts = launch_facts()
    if facts.concurrency != 1 or facts.concurrency_level != "request":
        return
    models = models_of_machines(snapshot)
    for machine in sorted(set(_machines(snapshot, user, names))):
        if len(models.get(machine, ())) > 1:
            limit = (
                ""
                if _has_limit(snapshot, machine)
                else (f' and put {{"{machine}": {{"maxConcurrentRequests": 1}}}} into {MACHINES_FILE}')
            )
            yield (
                f"machine {machine}: {len(models[machine])} models share it, and --concurrency is 1, so a "
                f"request for one model holds up all others: start the server with --concurrency 4{limit}"
            )


def _machines(snapshot: ConfigSnapshot, user: UserSettings, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        try:
            yield load_endpoint(snapshot, user, name).machine
        except ConfigError:
            continue


def _has_limit(snapshot: ConfigSnapshot, machine: str) -> bool:
    try:
        return machine_limit(snapshot, machine) is not None
    except ConfigError:
        return False


def _looked_at(
    snapshot: ConfigSnapshot, user: UserSettings, name: str, told: set[tuple[str, str]]
) -> list[Probe]:
    """Call one endpoint and print a line for each of its addresses, unless its fault is told already. Empty:
    it cannot be called."""
    seen: list[Probe] = []
    try:
        for look in probes(snapshot, user, name):
            print(line(look), flush=True)
            seen.append(look)
    except ConfigError as error:
        if (error.file, error.pointer) not in told:
            print(f"endpoint {name}: error: {error}", flush=True)
    except ValueError as error:
        print(f"endpoint {name}: error: {error}", flush=True)
    return seen
