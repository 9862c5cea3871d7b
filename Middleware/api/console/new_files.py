"""New workflow files: where one may lie, and the text that it begins with. Raises Refused.

Source: spec console.md 9.7.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from Middleware.api.console.config_files import read_config_text
from Middleware.api.console.config_paths import ENDING, config_file, is_config_path
from Middleware.api.console.config_saving import refuse_errors
from Middleware.api.console.masks import told_of_file
from Middleware.api.console.view_contract import NO_FILE, ViewRefused
from Middleware.common.errors import ConfigError
from Middleware.config.endpoints import endpoint_names, ensure_generates, load_endpoint
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.paths import COMMON_FOLDER, WORKFLOWS, endpoint_folder, is_flat_name, workflow_folder
from Middleware.config.users import UserSettings, load_user
from Middleware.config.validation import describe_value
from Middleware.config.workflows import list_workflow_files, shared_root

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
    folder = path.rpartition("/")[0]
    users, amiss = _users(snapshot, names)
    for is_home in (_is_own, _is_shared, _is_common):
        for user in users:
            if is_home(snapshot, user, folder):
                _refuse_links(snapshot.root, folder)
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


def _refuse_links(root: Path, folder: str) -> None:
    """404 for a folder that a link leads out of `Workflows/`."""
    base = os.path.realpath(root / WORKFLOWS)
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
    why = f"no endpoint in {folder}: a model's address belongs there first"
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
        422, "the template branch needs a workflow to go on with: make that one first", problems=[]
    )


def _runs(snapshot: ConfigSnapshot, file: str) -> bool:
    try:
        return bool(snapshot.read(file))
    except ConfigError:
        return False


def _quote_name(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)
