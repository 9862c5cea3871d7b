"""`--unpack FILE`: puts a pack into the configuration, whole or not at all, and never over what is there.

Source: spec workbench.md 17.
"""

from __future__ import annotations

import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from Middleware.api.command_registry import (
    COMMANDS,
    Command,
    OwnArguments,
    check_config_folder,
    nonempty_text,
)
from Middleware.api.commands.pack import needs_lines
from Middleware.api.commands.setup_files import write_beside
from Middleware.api.commands.setup_questions import Questions
from Middleware.common.errors import ConfigError
from Middleware.common.instance_global_variables import LaunchFacts, launch_facts, set_launch_facts
from Middleware.config.endpoints import EndpointConfig
from Middleware.config.loader import ConfigSnapshot
from Middleware.services.pack_archive import SCRIPTS, Pack, PackRefused, read_pack
from Middleware.utilities.file_utils import remove_stale_temporaries
from Middleware.utilities.install_layout import is_shipped, program, quote_words
from Middleware.utilities.text_utils import count_of
from Middleware.workflows.checks.config_check import checked_tree
from Middleware.workflows.checks.pack_names import SCRIPT_FOLDER
from Middleware.workflows.checks.pack_plan import (
    UnpackPlan,
    best_cast,
    candidates,
    cast_of,
    endpoints_there,
    findings_of,
    plan_unpack,
    programs_of,
    refuse_what_fails,
    refuse_what_is_there,
    sentence_of_finding,
    strangers_in,
)

INTERRUPTED = 130


@COMMANDS.register("unpack")
class Unpack(Command):
    """Puts a pack into the configuration."""

    SHARED_FLAGS = ("--preview",)

    def add_arguments(self, parser: OwnArguments) -> None:
        parser.add_argument(
            "--unpack",
            type=nonempty_text,
            metavar="FILE",
            help="Put a pack into your configuration, as a new user.",
        )
        parser.add_argument(
            "--map",
            action="append",
            default=[],
            type=nonempty_text,
            metavar="ROLE=ENDPOINT",
            help="Let --unpack use this endpoint of yours for a role of the pack. Repeat it for more roles.",
        )
        parser.add_argument(
            "--prefix",
            type=nonempty_text,
            metavar="TEXT",
            help="Put this before the names that --unpack writes, if files of these names are there.",
        )
        parser.add_argument(
            "--with-programs",
            action="store_true",
            help="Let --unpack write a pack that runs scripts or programs.",
        )

    def run(self, arguments: Namespace) -> int:
        """Exit status 0; 1 if the pack can't be unpacked, 2 for a usage error, 130 when it was stopped."""
        facts = launch_facts()
        check_config_folder(facts)
        pairs = [pair.partition("=") for pair in arguments.map]
        if not all(role.strip() and endpoint.strip() for role, _, endpoint in pairs):
            print("--map takes ROLE=ENDPOINT, such as Main=Ollama", file=sys.stderr)
            return 2
        wanted = {role.strip(): endpoint.strip().removesuffix(".json") for role, _, endpoint in pairs}
        try:
            return _unpack(arguments, facts, wanted)
        except (KeyboardInterrupt, EOFError):
            print("\nstopped; nothing was written")
            return INTERRUPTED
        except (PackRefused, ConfigError) as error:
            print(f"error: nothing was written: {error}")
        except FileExistsError as error:
            print(f"error: nothing was written: {error.filename} was made by somebody else meanwhile")
        except OSError as error:
            print(f"error: nothing was written: {error.filename}: {error.strerror or error}")
        return 1


def _unpack(arguments: Namespace, facts: LaunchFacts, wanted: Mapping[str, str]) -> int:
    """`wanted`: role -> endpoint, as the command line says."""
    pack = read_pack(Path(arguments.unpack).expanduser().absolute())
    print(f"{arguments.unpack}: {pack.name}, packed by version {pack.version}")
    print("\n".join(needs_lines(pack)))
    if is_shipped(facts.config_directory):
        raise PackRefused(f"this program has no configuration of yours yet: run {program()} --setup first")
    if programs_of(pack) and not (arguments.with_programs or arguments.preview):
        raise PackRefused("the pack runs programs; if you trust its author, add --with-programs")
    snapshot = checked_tree(facts.config_directory).snapshot()
    scripts = facts.public_directory / SCRIPT_FOLDER
    chosen = _chosen(pack, endpoints_there(snapshot), wanted, asks=not arguments.preview)
    for role, endpoint in chosen.items():
        print(f"role {role}: Endpoints/{endpoint}.json")
    prefix = arguments.prefix or ""
    there = dict(_scripts_there(pack, prefix, scripts))
    plan = plan_unpack(snapshot, pack, cast_of(chosen), prefix, there)
    refuse_what_is_there(plan)
    _refuse_what_fails(snapshot, pack, plan, facts)
    _tell(plan, facts, wrote=not arguments.preview)
    if arguments.preview:
        print("nothing was written (--preview)")
        return 0
    for folder in (scripts, facts.config_directory):
        remove_stale_temporaries(folder)
    files = {scripts / name: text for name, text in plan.scripts.items()}
    write_beside(files | {facts.config_directory / name: text for name, text in plan.files.items()})
    print(f"Start it with: {program()} {quote_words(*_start_words(arguments, plan))}")
    return 0


def _chosen(
    pack: Pack, there: Mapping[str, EndpointConfig], wanted: Mapping[str, str], *, asks: bool
) -> dict[str, str]:
    """Role -> `folder/name`. Asks on a terminal if the command line doesn't say it and there is a choice."""
    found = candidates(pack, there, wanted)
    best = best_cast(found)
    if not asks or not sys.stdin.isatty():
        return best
    questions = Questions(takes_defaults=False)
    for role, names in found.items():
        if role in wanted or len(names) < 2:
            continue
        choices = [best[role], *(name for name in names if name != best[role])]
        print(f"Which endpoint plays the role {role} ({', '.join(pack.needs.roles[role])})?")
        best[role] = choices[questions.choose("Endpoint", choices)]
    return best


def _scripts_there(pack: Pack, prefix: str, folder: Path) -> Iterator[tuple[str, bytes]]:
    """The scripts of this machine that have a name which the pack's could get."""
    for name in pack.below(SCRIPTS):
        for each in dict.fromkeys((name, prefix + name)):
            if (folder / each).is_file():
                yield each, (folder / each).read_bytes()


def _refuse_what_fails(snapshot: ConfigSnapshot, pack: Pack, plan: UnpackPlan, facts: LaunchFacts) -> None:
    """Check the result before anything is written; the scripts lie in a folder for this alone."""
    with tempfile.TemporaryDirectory() as folder:
        public = Path(folder) / "Public"
        scripts = {**pack.below(SCRIPTS), **plan.scripts}
        for name, text in scripts.items():
            script = public / SCRIPT_FOLDER / name
            script.parent.mkdir(parents=True, exist_ok=True)
            script.write_bytes(text)
        try:
            set_launch_facts(replace(facts, public_directory=public))
            findings = findings_of(snapshot, plan)
            strangers = strangers_in(snapshot, plan, scripts)
        finally:
            set_launch_facts(facts)
    for finding in findings:
        print(sentence_of_finding(finding))
    refuse_what_fails(findings, strangers)


def _tell(plan: UnpackPlan, facts: LaunchFacts, *, wrote: bool) -> None:
    count = count_of(len(plan.files) + len(plan.scripts), "file")
    print(f"{facts.config_directory}: {'writing' if wrote else 'would write'} {count}, as user {plan.user}")
    for name in [*plan.files, *(f"{SCRIPT_FOLDER}/{script}" for script in plan.scripts)]:
        print(f"  {name}")
    if plan.unchanged:
        print(f"there already, unchanged: {', '.join(plan.unchanged)}")
    for remark in plan.remarks:
        print(f"note: {remark}")


def _start_words(arguments: Namespace, plan: UnpackPlan) -> list[str]:
    words = []
    for name in ("PublicDirectory", "ConfigDirectory"):
        if given := (getattr(arguments, name) or "").strip():
            words += [f"--{name}", given]
    return [*words, "--User", plan.user]
