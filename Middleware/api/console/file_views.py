"""Config files that the page reads as text and writes: over, or new. Source: spec console.md
5.2, 9.6, 9.7."""

from __future__ import annotations

import errno
import json
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from Middleware.api.console.config_files import (
    ENDING,
    OTHER_FOLDERS,
    SHIPPED,
    ConfigFile,
    ConfigText,
    NotKept,
    came_with_the_program,
    config_file,
    is_config_path,
    is_kept_name,
    keep_old,
    kept_copies,
    read_config_text,
    why_not_writable,
)
from Middleware.api.console.view_contract import NO_FILE, ApiRoute, Ask, Reply, ViewRefused
from Middleware.api.console.workflow_files import problems, workflow_file, workflow_files
from Middleware.common.errors import ConfigError
from Middleware.common.types import JsonObject
from Middleware.config.drafts import draft_snapshot
from Middleware.config.endpoints import endpoint_names, ensure_generates, load_endpoint
from Middleware.config.json_positions import parse
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.paths import COMMON_FOLDER, WORKFLOWS, endpoint_folder, is_flat_name, workflow_folder
from Middleware.config.users import UserSettings, load_user
from Middleware.config.validation import ERROR, Finding, describe_value
from Middleware.config.workflows import list_workflow_files, shared_root
from Middleware.utilities.config_masks import LOST, restore_secrets, shown_text, told_of_file
from Middleware.utilities.config_text import like_old, text_of, with_line_feeds
from Middleware.utilities.file_locks import hold_lock, lock_file_for
from Middleware.utilities.file_utils import atomic_write, is_windows_name
from Middleware.workflows.checks.config_check import file_findings, finding_of, named_settings

logger = logging.getLogger(__name__)


# --------------------------------------------------------------------------
# What the page may write into the config tree: a text over an old one, or a new file. Raises Refused.


CHANGED = "the file was changed meanwhile"
_UNREAD = "\ufffd"
"""Stands in a text for what could not be decoded."""


def save(snapshot: ConfigSnapshot, path: str, folders: Sequence[str], text: str, version: str) -> ConfigText:
    """Write `text`, as the page was shown it, over a file that has this version. Gives what stands there now.

    404 for no file, 403 for one that cannot be written, 409 for another version, 422 for a text with errors
    of its own, 500 where the old text or the new one cannot be kept.
    """
    place = config_file(snapshot.root, path, folders)
    with _locked_file(place.real, path):
        place = config_file(snapshot.root, path, folders)
        if why := _why_not(place, folders):
            raise ViewRefused(403, f"{path} cannot be written: {why}")
        old = read_held(snapshot, place)
        if old.version != version:
            raise ViewRefused(409, CHANGED, version=old.version, text=old.shown_text)
        raw = checked_bytes(snapshot, path, text, old)
        if raw == old.raw:
            return old
        try:
            keep_old(snapshot.root, old)
        except NotKept as error:
            raise ViewRefused(500, f"the old text could not be kept: {error}") from error
        atomic_write(place.real, raw)
    logger.info("console: saved %s", path)
    return ConfigText(place, raw)


def make(snapshot: ConfigSnapshot, path: str, raw: bytes) -> None:
    """Write a new file, and the folder that it lies in. 409 where something is, 422 for errors of its own.

    `path`: one that may be made.
    """
    target = snapshot.root / path
    if came_with_the_program(Path(os.path.realpath(target))):
        raise ViewRefused(403, f"{path} cannot be created: {SHIPPED}")
    if os.path.lexists(target):
        raise ViewRefused(409, f"{path} already exists")
    _refuse_other_case(snapshot.root, path)
    refuse_errors(snapshot, path, raw)
    with _locked_file(target, path):
        target.parent.mkdir(parents=True, exist_ok=True)
        if os.path.lexists(target):
            raise ViewRefused(409, f"{path} already exists")
        atomic_write(target, raw)
    logger.info("console: created %s", path)


def _refuse_other_case(root: Path, path: str) -> None:
    """409 for a name that differs in case alone from what is there: some systems have one file for both."""
    folder = root
    for part in path.split("/"):
        names: list[str] = []
        with suppress(OSError):  # what the system refuses is told when the file is written
            names = os.listdir(folder)
        same = [name for name in names if name.casefold() == part.casefold()]
        if same and part not in same:
            raise ViewRefused(409, f"{same[0]} already exists; some systems cannot tell {part} from it")
        folder /= part


def checked_bytes(snapshot: ConfigSnapshot, path: str, text: str, old: ConfigText) -> bytes:
    """The bytes of a text that takes the place of an old one: its masks filled, its errors refused.

    What is no JSON is told first: where its values stand, and so which masks are whose, is only guessed.
    Source: spec workbench.md 16.5.
    """
    given = with_line_feeds(text).removeprefix("\ufeff")
    _refuse_no_json(path, given)
    new, lost = restore_secrets(given, old.text)
    if lost:
        _refuse([Finding(path, pointer, ERROR, LOST) for pointer in lost], path, new, of=lost[0])
    if _UNREAD in new and _UNREAD in old.text and _UNREAD.encode() not in old.raw:
        said = (
            f"{_UNREAD} marks bytes that are not UTF-8: replace it with the right character, "
            "or save the file as UTF-8"
        )
        raise ViewRefused(422, said, problems=[])
    try:
        raw = like_old(new, old.raw)
    except UnicodeEncodeError as error:
        raise ViewRefused(400, "text: found half of a character, allowed: whole characters") from error
    refuse_errors(snapshot, path, raw)
    return raw


def _refuse_no_json(path: str, text: str) -> None:
    try:
        parse(text.encode("utf-8", "replace"), path, half_characters=True)
    except ConfigError as error:
        _refuse([finding_of(error, path)], path, text)


def refuse_errors(snapshot: ConfigSnapshot, path: str, raw: bytes) -> None:
    """422 for what the loader would refuse, and every error that the file has by itself."""
    draft = draft_snapshot(snapshot, path, raw)
    found = [f for f in file_findings(draft, path, named_settings(draft).get(path)) if f.level == ERROR]
    try:
        draft.read(path)
    except ConfigError as error:
        found = found or [finding_of(error, path)]
    if found:
        _refuse(found, path, raw.decode("utf-8", "replace").removeprefix("\ufeff"))


def _refuse(found: list[Finding], path: str, text: str, *, of: str = "") -> None:
    told = problems(found, path, text)
    first = told[0]
    place = of or f"{first['line']}:{first['column']}"
    more = f" (and {len(told) - 1} more)" if len(told) > 1 else ""
    raise ViewRefused(422, f"{place}: {first['message']}{more}", problems=told)


def _why_not(place: ConfigFile, folders: Sequence[str]) -> str:
    """As `why_not_writable`; also for a link into a folder that is none of these."""
    if place.real_folder not in folders:
        return f"it is a link to {place.real_folder}/, which is only edited by hand"
    return why_not_writable(place)


def read_held(snapshot: ConfigSnapshot, place: ConfigFile) -> ConfigText:
    """403 for a file that this account may not read."""
    try:
        return read_config_text(snapshot.tree, place)
    except OSError as error:
        raise ViewRefused(403, f"{place.file} cannot be read: {error.strerror}") from error


@contextmanager
def _locked_file(file: Path, path: str) -> Iterator[None]:
    """The lock of a file. What the system refuses inside is an answer with its reason: 403 for want of a
    right, else 500.
    """
    try:
        with hold_lock(lock_file_for(file)):
            yield
    except OSError as error:
        status = 403 if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS) else 500
        raise ViewRefused(status, f"{path} cannot be written: {error.strerror or error}") from error


# --------------------------------------------------------------------------
# New workflow files: where one may lie, and the text that it begins with. Raises Refused.


COPY = "copy:"
_FOLDER = Path(__file__).with_name("templates")
_ENDPOINT = '"ENDPOINT"'
_BRANCHES = ('"FIRST_WORKFLOW"', '"SECOND_WORKFLOW"')


@cache
def templates() -> Mapping[str, str]:
    """Name -> text; the first line of each is a comment that says what it does."""
    return {path.stem: path.read_text("utf-8") for path in sorted(_FOLDER.glob(f"*{ENDING}"))}


def owner_of(snapshot: ConfigSnapshot, path: str, names: Iterable[str]) -> UserSettings:
    """The served user for whom a new file is, whose names it may use; 403 where none may be made."""
    is_named = not path.endswith(f"/{ENDING}")
    if not is_named or not is_config_path(path, (WORKFLOWS,)) or not path.isprintable():
        raise ViewRefused(404, NO_FILE)
    refuse_name(path)
    folder = path.rpartition("/")[0]
    users, amiss = _users(snapshot, names)
    for is_home in (_is_own, _is_shared, _is_common):
        for user in users:
            if is_home(snapshot, user, folder):
                refuse_links(snapshot.root, folder)
                return user
    allowed = [f"{WORKFLOWS}/{workflow_folder(user)}" for user in users]
    allowed += [f"a folder of {shared_root(snapshot, user)}" for user in users]
    said = ", ".join(dict.fromkeys(allowed))
    where = f"new files go into {said or 'no folder of a user'} or {WORKFLOWS}/{COMMON_FOLDER}"
    raise ViewRefused(403, "; ".join([where, f"found {describe_value(folder)}", *amiss]))


def new_file_bytes(
    snapshot: ConfigSnapshot, user: UserSettings, path: str, template: str, endpoint: str
) -> bytes:
    """The bytes of a new file. `endpoint`: empty for the user's first.

    400 for an unknown template, 404 for a file to copy that is none, 422 where the template needs what is not
    there.
    """
    if template.startswith(COPY):
        return _copied_bytes(snapshot, template.removeprefix(COPY))
    text = templates().get(template)
    if text is None:
        allowed = f"{', '.join(templates())}, {COPY}<path>"
        raise ViewRefused(400, f"template: found {describe_value(template)}, allowed: {allowed}")
    if _ENDPOINT in text:
        text = text.replace(_ENDPOINT, _quote_name(_endpoint(snapshot, user, endpoint)))
    if _BRANCHES[0] in text:
        for place, name in zip(_BRANCHES, _branches(snapshot, user, path), strict=True):
            text = text.replace(place, _quote_name(name))
    return text.encode("utf-8")


def refuse_name(path: str) -> None:
    """422 for a name that another system than this one cannot store, or nobody can see, and for one so long
    that the file could never be saved again. Source: spec workbench.md 16.11.
    """
    for part in path.removesuffix(ENDING).split("/"):
        if not part.strip() or part == "." or not is_windows_name(part):
            allowed = 'names that Windows can store, too: not blank or reserved, without < > " | ? *'
            said = f"path: found {describe_value(part)}, allowed: {allowed}, and no dot or blank at the end"
            raise ViewRefused(422, said, problems=[])
    if not is_kept_name(path.rpartition("/")[2]):
        raise ViewRefused(422, "path: the name of the file is too long to keep copies of it", problems=[])


def _users(snapshot: ConfigSnapshot, names: Iterable[str]) -> tuple[list[UserSettings], list[str]]:
    """Those whose file can be read, and of the others what is wrong with it."""
    users, amiss = [], []
    for name in names:
        try:
            users.append(load_user(snapshot, name))
        except ConfigError as error:
            amiss.append(told_of_file(error))
    return users, amiss


def _is_own(_: ConfigSnapshot, user: UserSettings, folder: str) -> bool:
    return folder == f"{WORKFLOWS}/{workflow_folder(user)}"


def _is_shared(snapshot: ConfigSnapshot, user: UserSettings, folder: str) -> bool:
    """Whether it lies right below the user's shared folder. It need not be there yet."""
    try:
        return folder.rpartition("/")[0] == shared_root(snapshot, user)
    except ConfigError:
        return False


def _is_common(_: ConfigSnapshot, user: UserSettings, folder: str) -> bool:
    return folder == f"{WORKFLOWS}/{COMMON_FOLDER}"


def refuse_links(root: Path, folder: str) -> None:
    """404 for a folder that a link leads out of its top folder, such as `Workflows/`."""
    base = os.path.realpath(root / folder.partition("/")[0])
    if not Path(os.path.realpath(root / folder)).is_relative_to(base):
        raise ViewRefused(404, NO_FILE)


def _copied_bytes(snapshot: ConfigSnapshot, path: str) -> bytes:
    """The bytes of a file without errors of its own: who copies one must be told which it is."""
    try:
        raw = read_config_text(snapshot.tree, config_file(snapshot.root, path)).raw
    except OSError as error:
        raise ViewRefused(404, NO_FILE) from error
    try:
        refuse_errors(snapshot, path, raw)
    except ViewRefused as refused:
        raise ViewRefused(refused.status, f"{path}:{refused.sentence}", **refused.fields) from refused
    return raw


def _endpoint(snapshot: ConfigSnapshot, user: UserSettings, wanted: str) -> str:
    """The name of an endpoint that answers."""
    folder = endpoint_folder(user)
    names = [wanted] if wanted else endpoint_names(snapshot, folder)
    why = f"there is no endpoint in {folder}: first create one with the address of a model"
    for name in names:
        try:
            ensure_generates(load_endpoint(snapshot, user, name))
            return name
        except ConfigError as error:
            why = told_of_file(error)
    raise ViewRefused(422, why, problems=[])


def _branches(snapshot: ConfigSnapshot, user: UserSettings, path: str) -> tuple[str, str]:
    """Two workflows that are there: of the folder of the new file, else of the user's, else of `_common`."""
    own = f"{WORKFLOWS}/{workflow_folder(user)}"
    for folder in (path.rpartition("/")[0], own, f"{WORKFLOWS}/{COMMON_FOLDER}"):
        names = [
            file.removeprefix(f"{folder}/").removesuffix(ENDING)
            for file in list_workflow_files(snapshot, folder)
        ]
        names = [name for name in names if is_flat_name(name) and _runs(snapshot, f"{folder}/{name}{ENDING}")]
        if names:
            return names[0], names[-1]
    raise ViewRefused(
        422, "the template branch needs a workflow to continue with: create that one first", problems=[]
    )


def _runs(snapshot: ConfigSnapshot, file: str) -> bool:
    try:
        return bool(snapshot.read(file))
    except ConfigError:
        return False


def _quote_name(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


# --------------------------------------------------------------------------

EDITABLE = ("Endpoints", "Presets", "Routing", "PromptTemplates", "StructuredOutputs")
"""Folders besides Workflows/ whose files may be saved."""
BY_HAND = "this folder is edited by hand"


def file(ask: Ask, path: str) -> JsonObject:
    """GET `files/<path>`: `{"text", "version", "problems"}` of a file that is no workflow."""
    ask.words()
    snapshot = ask.hub.snapshot()
    try:
        held = read_config_text(snapshot.tree, config_file(snapshot.root, path, OTHER_FOLDERS))
    except OSError as error:
        raise ViewRefused(404, NO_FILE) from error
    return {"text": held.shown_text, **_version_and_problems(snapshot.root, held)}


def save_file(ask: Ask, path: str) -> JsonObject:
    """PUT `files/<path>`: as for a workflow, in the folders that are not edited by hand."""
    place = config_file(ask.hub.snapshot().root, path, OTHER_FOLDERS)
    if place.file.partition("/")[0] not in EDITABLE:
        raise ViewRefused(403, BY_HAND)
    return _save_result(ask, path, EDITABLE)


def save_workflow(ask: Ask, path: str) -> JsonObject:
    """PUT `workflows/<path>`: `{"version", "problems"}` of what is on the disk then."""
    return _save_result(ask, path, (WORKFLOWS,))


def new_workflow(ask: Ask) -> Reply:
    """POST `workflows`: 201 and the file that was made of a template, as GET tells it."""
    fields = ask.fields(path=str, template=str, endpoint=str | None)
    snapshot, path = ask.hub.snapshot(), fields["path"]
    user = owner_of(snapshot, path, ask.hub.served_users())
    make(snapshot, path, new_file_bytes(snapshot, user, path, fields["template"], fields["endpoint"] or ""))
    return Reply(workflow_file(ask, path), 201)


def earlier_texts(ask: Ask, path: str) -> JsonObject:
    """GET `workflows/<path>/earlier`: `{"texts": [{"at", "saved", "bytes"}]}`, what saving kept.

    The newest first; `saved`: Unix seconds. Source: spec workbench.md 16.12.
    """
    ask.words()
    root = ask.hub.snapshot().root
    kept = kept_copies(root, config_file(root, path).file)
    return {"texts": [{"at": one.at, "saved": one.saved, "bytes": one.size} for one in kept]}


def earlier_text(ask: Ask, path: str, at: str) -> JsonObject:
    """GET `workflows/<path>/earlier/<at>`: `{"at", "text"}` of one of them, as the page is shown texts."""
    ask.words()
    root = ask.hub.snapshot().root
    kept = kept_copies(root, config_file(root, path).file)
    copy = next((one.path for one in kept if one.at == at), None)
    try:
        raw = copy.read_bytes() if copy is not None else None
    except OSError:  # another save has just pruned it
        raw = None
    if raw is None:
        raise ViewRefused(404, "there is no earlier text of that time")
    return {"at": at, "text": shown_text(text_of(raw))}


def _save_result(ask: Ask, path: str, folders: tuple[str, ...]) -> JsonObject:
    """Version and problems of what was saved, whatever somebody else may have written since."""
    snapshot = ask.hub.snapshot()
    config_file(snapshot.root, path, folders)
    fields = ask.fields(text=str, version=str)
    return _version_and_problems(
        snapshot.root, save(snapshot, path, folders, fields["text"], fields["version"])
    )


def _version_and_problems(root: Path, held: ConfigText) -> JsonObject:
    """Version and problems: those that `--validate` has with this file."""
    path = held.place.file
    files = workflow_files(root)
    if path.startswith(f"{WORKFLOWS}/"):
        told = files.read_file(path, held.text, held.raw, None).problems
    else:
        told = problems(files.findings(path), path, held.text)
    return {"version": held.version, "problems": told}


ROUTES = (
    ApiRoute("GET", "workflows/<path:path>/earlier", "look", earlier_texts),
    ApiRoute("GET", "workflows/<path:path>/earlier/<at>", "look", earlier_text),
    ApiRoute("GET", "files/<path:path>", "look", file),
    ApiRoute("PUT", "files/<path:path>", "save", save_file),
    ApiRoute("PUT", "workflows/<path:path>", "save", save_workflow),
    ApiRoute("POST", "workflows", "save", new_workflow),
)
