"""`--restore FILE.zip`: puts a backup into the folders that the command line names, whole or not at all.

Source: spec operate.md 3.
"""

from __future__ import annotations

import tempfile
from argparse import Namespace
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from Middleware.api.backup_roots import (
    CONFIG,
    DATA,
    DISCUSSIONS,
    HISTORY,
    KEYS,
    PUBLIC,
    log_folders,
    place_of,
)
from Middleware.api.command_registry import COMMANDS, Command, OwnArguments, nonempty_text
from Middleware.api.commands.backup import (
    BEFORE,
    FAULTS,
    error_places,
    new_file,
    new_manifest,
    sentence_about,
)
from Middleware.common.constants import VERSION
from Middleware.common.instance_global_variables import launch_facts, set_launch_facts
from Middleware.config.validation import ERROR, Finding
from Middleware.services.backup.archive import Archive, BackupRefused, Manifest
from Middleware.services.backup.restoring import (
    Plan,
    keep_links,
    kept_files,
    lacking_space,
    plan_restore,
    refused_names,
    run_restore,
    show_what_stays,
    unpack,
    unpacked_roots,
)
from Middleware.services.backup.taking import Root, take_backup
from Middleware.services.backup.tree_use import (
    NEWER_MAJOR,
    DataVersion,
    TreeBusy,
    data_version_bytes,
    existing,
    folders_of,
    hold_all,
    newer_than_program,
    numbers_of,
    read_data_version,
    use_together,
)
from Middleware.utilities.install_layout import is_shipped
from Middleware.utilities.text_utils import count_of
from Middleware.workflows.checks.config_check import MASKED, check_tree, checked_tree

_MOST_TOLD = 20


@COMMANDS.register("restore")
class Restore(Command):
    """Puts a backup back."""

    SHARED_FLAGS = ("--preview",)
    USES_FOLDERS = False

    def add_arguments(self, parser: OwnArguments) -> None:
        parser.add_argument(
            "--restore",
            type=nonempty_text,
            metavar="FILE",
            help="Put a backup back: into empty folders, or with --replace over what is there.",
        )
        parser.add_argument(
            "--replace",
            action="store_true",
            help="Let --restore replace files that are there. A backup of them is written first.",
        )

    def run(self, arguments: Namespace) -> int:
        """Exit status 0; 1 if nothing was restored, or what was restored has errors."""
        try:
            with Archive(Path(arguments.restore).expanduser().absolute()) as archive:
                return _restore(archive, arguments)
        except (*FAULTS, TreeBusy) as error:
            print(f"error: nothing was changed: {sentence_about(error)}")
            return 1


def _restore(archive: Archive, arguments: Namespace) -> int:
    manifest = archive.manifest
    _refuse_newer(manifest)
    _settle()
    plan = _plan(archive)
    _tell_plan(archive, plan)
    _refuse_what_cannot_be(plan)
    in_the_way = plan.in_the_way()
    if in_the_way and not arguments.replace:
        raise BackupRefused(
            f"already there: {_some(in_the_way)}; name empty folders, or give --replace, "
            "which writes a backup of what is there first"
        )
    if arguments.preview:
        return _preview(archive, plan, in_the_way)
    return _exchange(archive, plan, in_the_way)


def _refuse_newer(manifest: Manifest) -> None:
    for version in (manifest.version, manifest.data_version):
        if newer_than_program(version) == NEWER_MAJOR:
            raise BackupRefused(f"the backup is of version {version}, which this one, {VERSION}, cannot read")


def _settle() -> None:
    """What a killed restore has left is undone before anybody looks. Raises TreeBusy."""
    facts = launch_facts()
    if folders := folders_of(facts):
        use_together(facts.data_root, folders).give_back()


def _plan(archive: Archive) -> Plan:
    facts, manifest = launch_facts(), archive.manifest
    targets = {}
    for name, root in manifest.roots.items():
        place = place_of(facts, name, root["written"])
        if place is None:
            print(f"{name}: not restored, because the command line names no folder for it (--{name} DIR)")
        elif is_shipped(place):
            print(f"{name}: not restored, because {place} came with the program; name another folder")
        else:
            targets[name] = place.absolute()
    kept = [*log_folders(facts), archive.source]
    kept += [file for name in (PUBLIC, DATA) if name in targets for file in kept_files(targets[name])]
    return plan_restore(manifest, targets, facts.data_root.absolute(), kept)


def _tell_plan(archive: Archive, plan: Plan) -> None:
    manifest = plan.manifest
    print(f"{archive.source}: written {manifest.time} by version {manifest.version}")
    for name, place in plan.targets.items():
        count = sum(each.startswith(f"{name}/") for each in plan.places)
        print(f"  {name}: {count_of(count, 'file')} to {place}")
    if plan.aside:
        print(f"  left aside, because another part of the backup goes there: {_some(plan.aside)}")
    if newer_than_program(manifest.version):
        print(f"warning: version {manifest.version} is newer than this one, {VERSION}")


def _refuse_what_cannot_be(plan: Plan) -> None:
    if problems := [*refused_names(plan), *lacking_space(plan)]:
        raise BackupRefused("; ".join(problems[:_MOST_TOLD]))


def _preview(archive: Archive, plan: Plan, in_the_way: list[Path]) -> int:
    """What would be done; reads all of the backup, writes to a temporary folder alone."""
    for path in in_the_way:
        print(f"  would be replaced: {path}")
    archive.check()
    with tempfile.TemporaryDirectory() as folder:
        looked_at = replace_discussions(plan)

        def folder_of(number: int) -> Path:
            return _numbered(Path(folder), plan, number)

        unpack(archive, looked_at, folder_of)
        keep_links(looked_at, folder_of)
        errors = _new_errors(looked_at, unpacked_roots(looked_at, folder_of))
    _tell_findings(errors)
    _tell_masked(plan.manifest)
    return 1 if errors else 0


def _numbered(folder: Path, plan: Plan, number: int) -> Path:
    """A folder for a base, called as the base itself."""
    made = folder / str(number) / (plan.bases[number].name or "root")
    made.mkdir(parents=True, exist_ok=True)
    return made


def replace_discussions(plan: Plan) -> Plan:
    """The plan without discussions: the check needs none."""
    places = {name: place for name, place in plan.places.items() if not name.startswith("discussions")}
    targets = {name: path for name, path in plan.targets.items() if not name.startswith("discussions")}
    return replace(plan, places=places, targets=targets)


def _exchange(archive: Archive, plan: Plan, in_the_way: list[Path]) -> int:
    facts = launch_facts()
    home = plan.home
    home.mkdir(parents=True, exist_ok=True)
    folders = existing([*folders_of(facts), *plan.bases])
    with ExitStack() as stack:
        holds = hold_all(folders, alone=True)
        if holds is None:
            raise TreeBusy("a server or another command uses these folders; stop it first")
        for hold in holds:
            stack.callback(hold.give_back)
        kept = _keep_a_backup(archive, plan) if in_the_way else None
        errors: list[Finding] = []

        def is_fit(roots: Mapping[str, Path]) -> bool:
            errors.extend(_new_errors(plan, roots))
            return not (errors and in_the_way)

        done = run_restore(archive, plan, _version_file(plan), is_fit)
    _tell_findings(errors)
    if not done:
        if kept is not None:
            kept.unlink(missing_ok=True)  # it is all still there
        print(
            "error: nothing was changed, because the configuration of the backup has errors here that it did "
            "not have when it was written; restore it into an empty folder to correct them"
        )
        return 1
    before = f"; what was there is in {kept}" if kept else ""
    print(f"restored {count_of(len(plan.places), 'file')}{before}")
    _tell_masked(plan.manifest)
    return 1 if errors else 0


def _keep_a_backup(archive: Archive, plan: Plan) -> Path:
    """Write what is there beside the backup, in the form of the backup itself. Raises BackupRefused where
    something of it cannot be kept.
    """
    facts = launch_facts()
    target = new_file(archive.source.parent, BEFORE)
    snapshot = checked_tree(facts.config_directory).snapshot()
    roots = [_root_there(name, plan) for name in plan.targets]
    manifest = new_manifest(snapshot, roots)
    take_backup(target, roots, manifest, kept_out=log_folders(facts))
    if manifest.troubles:
        told = "; ".join(f"{each.path}: {each.why}" for each in manifest.troubles[:_MOST_TOLD])
        raise BackupRefused(f"not all of what is there could be kept in {target}: {told}")
    return target


def _root_there(name: str, plan: Plan) -> Root:
    """What is where a root of the backup goes. Of a Public folder, what has the same names at the top."""
    files = (each.split("/") for each in plan.manifest.files)
    same = frozenset(parts[1] for parts in files if parts[0] == name)
    install = launch_facts().old_data_directory if name == DISCUSSIONS else None
    return Root(
        name,
        plan.targets[name],
        plan.manifest.roots[name]["written"],
        only=same if name in (PUBLIC, DATA, HISTORY, KEYS) else None,
        install=install,
    )


def _version_file(plan: Plan) -> bytes | None:
    """What the data root says afterwards: the version of the backup's data, as it takes their place."""
    known = read_data_version(plan.home)
    was = plan.manifest.data_version or plan.manifest.version
    if known.version and not plan.manifest.has_discussions and numbers_of(known.version) > numbers_of(was):
        return None
    return data_version_bytes(DataVersion(was, known.backups))


def _new_errors(plan: Plan, roots: Mapping[str, Path]) -> list[Finding]:
    """Errors that the configuration will have and did not have when it was backed up; keys that were taken
    out are told by themselves.
    """
    if CONFIG not in roots:
        return []
    before = launch_facts()
    public = roots.get(PUBLIC, before.public_directory)
    looked_at = {name: folder for name, folder in roots.items() if name in (CONFIG, PUBLIC)}
    set_launch_facts(replace(before, config_directory=roots[CONFIG], public_directory=public))
    try:
        with show_what_stays(plan, looked_at):
            findings = check_tree(checked_tree(roots[CONFIG]).snapshot())
    finally:
        set_launch_facts(before)
    return [
        finding
        for finding in findings
        if finding.level == ERROR
        and finding.message != MASKED
        and error_places([finding])[0] not in plan.manifest.errors
    ]


def _tell_findings(findings: list[Finding]) -> None:
    for finding in findings:
        print(finding)


def _tell_masked(manifest: Manifest) -> None:
    """Where keys have to be written again."""
    for file, places in manifest.masked.items():
        for place in places:
            where = f"{file}, {place[1:]}" if place else file
            print(f"{where}: the backup has no secrets; write yours in place of ***")


def _some(items: list[Path] | list[str]) -> str:
    told = ", ".join(map(str, items[:_MOST_TOLD]))
    return told if len(items) <= _MOST_TOLD else f"{told} and {len(items) - _MOST_TOLD} more"
