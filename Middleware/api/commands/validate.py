"""`--validate`: checks the whole config tree, or what the users of `--User` reach.

Prints one line per finding, and says how many there are.
"""

from __future__ import annotations

from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Iterator

from Middleware.api.command_registry import COMMANDS, Command, OwnArguments
from Middleware.common.errors import ConfigError
from Middleware.common.instance_global_variables import launch_facts
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.paths import user_file
from Middleware.config.users import load_user, user_names
from Middleware.config.validation import ERROR, NOTE, WARNING, Finding
from Middleware.utilities.text_utils import count_of
from Middleware.workflows.checks.config_check import check_tree, check_users, checked_tree
from Middleware.workflows.checks.keys_check import keys_file_findings
from Middleware.workflows.checks.reuse_advice import reading_note


@COMMANDS.register("validate")
class Validate(Command):
    """Checks the whole config tree."""

    def add_arguments(self, parser: OwnArguments) -> None:
        parser.add_argument(
            "--validate",
            action="store_true",
            help="Check the configuration: all of it, or what the users of --User can reach.",
        )

    def run(self, arguments: Namespace) -> int:
        """Exit status 0 without errors, else 1. Reads the config directory of the launch facts."""
        root = launch_facts().config_directory
        if not root.is_dir():
            print(f"{root}: error: there is no such folder")
            return 1
        snapshot, users = checked_tree(root).snapshot(), launch_facts().users
        if not user_names(snapshot):
            print(f"{root}: error: there is no user file in Users/; is this the folder Public/Configs?")
            return 1
        snapshot.spelling.notes = []
        findings = check_users(snapshot, users) if users else check_tree(snapshot)
        served = users or sorted(user_names(snapshot))
        findings += _reading_notes(snapshot, served)
        findings += keys_file_findings(snapshot, launch_facts(), served)
        for finding in findings:
            print(finding)
        count = Counter(finding.level for finding in findings)
        place = f"{root}, what {', '.join(users)} can reach" if users else str(root)
        print(
            f"{place}: {count_of(count[ERROR], 'error')}, {count_of(count[WARNING], 'warning')}, "
            f"{count_of(count[NOTE], 'note')}"
        )
        return 1 if count[ERROR] else 0


def _reading_notes(snapshot: ConfigSnapshot, names: Iterable[str]) -> Iterator[Finding]:
    """At most one for each user. Source: prompt-reuse.md 4."""
    for name in names:
        try:
            user = load_user(snapshot, name)
        except ConfigError:  # a finding already
            continue
        if note := reading_note(snapshot, user):
            file = user_file(name)
            yield Finding(snapshot.find(file) or file, "", NOTE, note)
