"""`--pack NAME [FILE]`: writes one zip file with a user, or one of its workflows, and all that they reach,
for other people.

Source: spec workbench.md 17.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

from Middleware.api.command_registry import (
    COMMANDS,
    Command,
    OwnArguments,
    check_config_folder,
    nonempty_text,
)
from Middleware.api.commands.setup_files import write_beside
from Middleware.common.errors import ConfigError, escape_controls
from Middleware.common.instance_global_variables import launch_facts
from Middleware.services.pack_archive import PACK_ENDING, Pack, PackNeeds, PackRefused, file_name, pack_bytes
from Middleware.utilities.text_utils import count_of
from Middleware.workflows.checks.config_check import checked_tree
from Middleware.workflows.checks.pack_contents import meant_by, pack_user
from Middleware.workflows.checks.pack_plan import programs_of


@COMMANDS.register("pack")
class PackCommand(Command):
    """Writes a pack."""

    def add_arguments(self, parser: OwnArguments) -> None:
        parser.add_argument(
            "--pack",
            nargs="+",
            type=nonempty_text,
            metavar=("NAME", "FILE"),
            help="Write a user, or a workflow of a user (USER:WORKFLOW), with all that it reaches, to one "
            f"zip file. The default for FILE is NAME{PACK_ENDING}.",
        )
        parser.add_argument(
            "--user",
            dest="pack_user",
            type=nonempty_text,
            metavar="USER",
            help="The user whose workflow --pack writes, like --User.",
        )

    def run(self, arguments: Namespace) -> int:
        """Exit status 0; 1 if nothing was written, 2 for a usage error."""
        facts = launch_facts()
        check_config_folder(facts)
        owners = list(dict.fromkeys([arguments.pack_user] if arguments.pack_user else facts.users))
        if len(arguments.pack) > 2 or len(owners) > 1:
            print("--pack takes a name and a file, and at most one --user", file=sys.stderr)
            return 2
        name, *rest = arguments.pack
        target = Path(rest[0] if rest else file_name(name))
        target = target.expanduser().absolute()
        try:
            snapshot = checked_tree(facts.config_directory).snapshot()
            packed = pack_user(snapshot, *meant_by(snapshot, name, owners[0] if owners else ""))
            data = pack_bytes(packed.pack)
            if not target.parent.is_dir():
                raise PackRefused(f"there is no folder {target.parent}")
            write_beside({target: data})
        except (PackRefused, ConfigError) as error:
            print(f"error: nothing was written: {error}")
            return 1
        except FileExistsError:
            print(f"error: nothing was written: {target} already exists and is not overwritten")
            return 1
        except OSError as error:
            print(f"error: {error.filename or target}: cannot be written: {error.strerror or error}")
            return 1
        print(f"{target}: {count_of(len(packed.pack.files), 'file')} of {packed.pack.name}")
        for file in sorted(packed.pack.files):
            print(f"  {file}")
        print("\n".join([*needs_lines(packed.pack), *(f"warning: {one}" for one in packed.remarks)]))
        return 0


def needs_lines(pack: Pack) -> Iterator[str]:
    """What a pack needs, and what in it runs programs; for people."""
    needs: PackNeeds = pack.needs
    for role, abilities in needs.roles.items():
        model = f" (its author used {needs.models[role]})" if role in needs.models else ""
        yield f"needs an endpoint for the role {role}: {', '.join(abilities)}{model}"
    for what, names in (
        ("extras", needs.extras),
        ("programs", needs.programs),
        ("variables of the environment", needs.environment),
    ):
        if names:
            yield f"needs the {what}: {', '.join(names)}"
    for place in programs_of(pack):
        yield f"runs a program: {escape_controls(place)}"
