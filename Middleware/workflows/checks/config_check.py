"""The whole config tree checked: every file by itself, then what the files say of each other (workflows.md
16.12).

One checker serves `--validate` (`check_tree`), the start of the server (`check_users`) and the loader
(`checked_tree`). It changes nothing, resolves no host name and calls no backend.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from Middleware.common.errors import ConfigError, ConfigMissing
from Middleware.common.secrets import MASK, has_masked_part, is_secret_value, secrets_of_words
from Middleware.config import validation
from Middleware.config.endpoints import ENV_REFERENCE, address_fault, load_endpoint
from Middleware.config.json_positions import place_findings, repeated_keys
from Middleware.config.loader import ConfigSnapshot, ConfigTree, tree_of
from Middleware.config.paths import (
    ALIASES_FILE,
    MACHINES_FILE,
    USER_POINTER,
    WORKFLOWS,
    is_archived_user,
    is_flat_name,
    is_tool_file,
    shared_folder,
    user_file,
    workflow_folder,
)
from Middleware.config.samplers import load_samplers
from Middleware.config.users import UserSettings, load_user, pointer_user, user_names
from Middleware.config.validation import ERROR, NOTE, WARNING, Finding, json_pointer, schema
from Middleware.config.workflows import is_workflow, routing_faults, tool_faults
from Middleware.llmapis.sampler_translation import deep_merge, thinking_is_off, translate
from Middleware.workflows.checks import endpoint_check, workflow_check
from Middleware.workflows.checks.alias_check import alias_findings
from Middleware.workflows.checks.user_walk import ModelUse, UserWalk
from Middleware.workflows.checks.workflow_check import INCOMPLETE
from Middleware.workflows.checks.workflow_graph import known_text
from Middleware.workflows.handlers import impl
from Middleware.workflows.memory.settings import COMPACTOR_KIND, MEMORY_KIND

# --------------------------------------------------------------------------
# Environment variables that config files name and that are not set here.


_FOLDERS = ("Endpoints/", "MCPServers/")
_OBJECTS = ("extraHeaders", "headers", "env")


def environment_findings(snapshot: ConfigSnapshot, files: Iterable[str], level: str) -> Iterator[Finding]:
    """A finding for each variable that a readable endpoint or MCP server file names in vain."""
    for file in files:
        if not file.startswith(_FOLDERS):
            continue
        try:
            document = snapshot.read(file)
        except ConfigError:
            continue
        for pointer, name in _names(document):
            if name not in os.environ:
                yield Finding(file, pointer, level, f"environment variable {name!r} is not set")


MASKED = (
    f"found {MASK}, which a backup without secrets has in the place of a key; allowed: the key itself, or "
    "nothing where none is needed"
)


def masked_findings(snapshot: ConfigSnapshot, files: Iterable[str]) -> Iterator[Finding]:
    """An error for each key, header, variable and address that still has its mask. Source: operate.md 3."""
    for file in files:
        try:
            document, _ = snapshot.inspect(file)
        except ConfigMissing:
            continue
        for path in _masked_places(document, (), ""):
            yield Finding(file, json_pointer(path), ERROR, MASKED)


def _masked_places(
    value: Any, path: tuple[str | int, ...], key: str, holder: str = ""
) -> Iterator[tuple[str | int, ...]]:
    """`key`: by which the object `holder` has the value."""
    if isinstance(value, str):
        if MASK in value and (has_masked_part(value) or _is_masked_key(value, key, holder)):
            yield path
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _masked_places(item, (*path, str(name)), str(name), key)
    elif isinstance(value, list):
        words = set(secrets_of_words([item if isinstance(item, str) else "" for item in value]))
        for index, item in enumerate(value):
            if isinstance(item, str) and MASK in words and MASK in item:
                yield (*path, index)
            else:
                yield from _masked_places(item, (*path, index), "", key)


def _is_masked_key(value: str, key: str, holder: str) -> bool:
    return value == MASK and is_secret_value(key, holder, value)


def _names(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(pointer, variable) of `apiKeyEnv` (an `apiKey` goes before it) and of each `${ENV:NAME}`."""
    variable = document.get("apiKeyEnv")
    if isinstance(variable, str) and variable and not document.get("apiKey"):
        yield "/apiKeyEnv", variable
    texts: dict[str, object] = {"/url": document.get("url")}
    for key in _OBJECTS:
        inner = document.get(key)
        if isinstance(inner, Mapping):
            texts |= {json_pointer([key, name]): value for name, value in inner.items()}
    words = document.get("args")
    texts |= {f"/args/{at}": word for at, word in enumerate(words if isinstance(words, list) else ())}
    for pointer, text in texts.items():
        if isinstance(text, str):
            yield from ((pointer, match[1]) for match in ENV_REFERENCE.finditer(text))


# --------------------------------------------------------------------------

_LEVELS = (ERROR, WARNING, NOTE)
_NAMED_ON_THE_WAY = tuple(f"{folder}/" for folder in validation.KINDS if folder != "Users")
"""Folders of which a walk reads what is named, and nothing else."""
FOLDERS = (*validation.KINDS, "Workflows")
UNNAMED = "no setting, route or node names this workflow"
"""What a note says of a workflow file that nobody runs."""
NODE_HANDLERS = impl.__name__
"""The package that fills the table of node types; imported for that."""


def checked_tree(root: Path) -> ConfigTree:
    """The process's tree of a config root; its workflow files are checked node by node when they are read."""
    tree = tree_of(root)
    tree.check_workflow, tree.advise = workflow_check.own_errors, document_findings
    return tree


def check_tree(snapshot: ConfigSnapshot) -> list[Finding]:
    """Every finding of the whole tree, errors first, each once."""
    snapshot.spelling.notes = []
    settings = named_settings(snapshot)
    findings = [f for file in all_files(snapshot) for f in file_findings(snapshot, file, settings.get(file))]
    users = _users(snapshot)
    walks = [UserWalk(snapshot, user) for user in users]
    unnamed = _reach_unnamed(snapshot, users, walks, settings)
    for walk in walks:
        findings += walk.findings()
    findings += endpoint_check.all_findings(snapshot, users)
    findings += environment_findings(snapshot, all_files(snapshot), NOTE)
    findings += masked_findings(snapshot, all_files(snapshot))
    findings += _pointer_findings(snapshot)
    findings += alias_findings(snapshot)
    findings += snapshot.spelling.notes
    findings += [Finding(file, "", NOTE, UNNAMED) for file in unnamed]
    return _sort_findings(snapshot, findings)


def check_workflow_file(snapshot: ConfigSnapshot, file: str) -> list[Finding]:
    """The findings of one file below Workflows/ that `check_tree` gives, without a look into the others."""
    snapshot.spelling.notes = []
    settings = named_settings(snapshot)
    users = _users(snapshot)
    walks = [UserWalk(snapshot, user) for user in users]
    unnamed = _reach_unnamed(snapshot, users, walks, settings)
    findings = file_findings(snapshot, file, settings.get(file))
    for walk in walks:
        findings += walk.findings(file)
    findings += snapshot.spelling.notes
    if file in unnamed:
        findings.append(Finding(file, "", NOTE, UNNAMED))
    return _sort_findings(snapshot, (finding for finding in findings if finding.file == file))


def _reach_unnamed(
    snapshot: ConfigSnapshot,
    users: Sequence[UserSettings],
    walks: Sequence[UserWalk],
    settings: Collection[str],
) -> list[str]:
    """The workflow files that no walk reaches; from now on each belongs to the walk of its folder's user, if
    it has one. `settings`: files that hold no workflow. Source: spec workbench.md 16.4.
    """
    for walk in walks:
        walk.findings()
    reached = {file for walk in walks for file in walk.files_read}.union(settings)
    files = (file for file in _files_below(snapshot, WORKFLOWS) if file not in reached)
    unnamed = [file for file in files if is_workflow(snapshot, file)]
    owners = _folder_owners(snapshot, users) if unnamed else {}
    for walk, own in zip(walks, _files_by_owner(unnamed, owners, len(walks)), strict=True):
        walk.reach_unnamed(own)
    return unnamed


def _folder_owners(snapshot: ConfigSnapshot, users: Sequence[UserSettings]) -> dict[str, int]:
    """Folder as it is spelled on disk -> the place of its user: of one that several have, the first; a shared
    one is that of whoever shares it."""
    owners: dict[str, int] = {}
    for folder_of in (lambda user: f"{WORKFLOWS}/{workflow_folder(user)}", shared_folder):
        for place, user in enumerate(users):
            try:
                folder = snapshot.find(folder_of(user).rstrip("/"))
            except ConfigError:  # told where the user's files are followed
                continue
            if folder is not None:
                owners.setdefault(folder, place)
    return owners


def _files_by_owner(files: Iterable[str], owners: Mapping[str, int], count: int) -> list[list[str]]:
    """For each user the files whose innermost folder with an owner is theirs."""
    by_owner: list[list[str]] = [[] for _ in range(count)]
    for file in files:
        folder = file.rpartition("/")[0]
        while folder and folder not in owners:
            folder = folder.rpartition("/")[0]
        if folder:
            by_owner[owners[folder]].append(file)
    return by_owner


def check_users(snapshot: ConfigSnapshot, names: Iterable[str]) -> list[Finding]:
    """The findings of what some users can reach. Their files are read on the way, so the loader has good
    versions.

    Names that differ in case alone are logged, as at a request, unless `snapshot.spelling` keeps notes.
    """
    names = tuple(names)
    findings: list[Finding] = list(alias_findings(snapshot, names))
    reached: dict[str, str | None] = {ALIASES_FILE: None}
    for name in names:
        try:
            user = load_user(snapshot, name)
        except ConfigError as error:
            findings.append(finding_of(error, user_file(name) if is_flat_name(name) else "Users"))
            continue
        walk = UserWalk(snapshot, user)
        findings += walk.findings()
        reached |= dict.fromkeys(walk.files_read) | settings_files(user)
    reached = (
        dict.fromkeys(file for file in snapshot.looked_at() if file.startswith(_NAMED_ON_THE_WAY)) | reached
    )
    findings += environment_findings(snapshot, reached, WARNING)
    findings += masked_findings(snapshot, reached)
    for file, settings_kind in reached.items():
        findings += file_findings(snapshot, file, settings_kind)
    return _sort_findings(snapshot, [*findings, *(snapshot.spelling.notes or ())])


def finding_of(error: ConfigError, file: str = "") -> Finding:
    """A raised error as a finding; of `file` when it names none."""
    return Finding(error.file or file, error.pointer, ERROR, error.message, error.position, error.excerpt)


def _sort_findings(snapshot: ConfigSnapshot, findings: Iterable[Finding]) -> list[Finding]:
    """Errors first, each file from top to bottom; each once, with its position."""
    by_file = sorted(dict.fromkeys(findings), key=lambda f: f.file)
    told = [
        finding
        for file, those in groupby(by_file, key=lambda f: f.file)
        for finding in place_findings(those, snapshot.text(file))
    ]
    return sorted(told, key=_order)


def _order(finding: Finding) -> tuple[int, str, int, int, str, str]:
    line, column = finding.position.line, finding.position.column
    return _LEVELS.index(finding.level), finding.file, line, column, finding.pointer, finding.message


def file_findings(snapshot: ConfigSnapshot, file: str, settings_kind: str | None = None) -> list[Finding]:
    """What one file by itself shows. `settings_kind`: the schema of an object in Workflows/ that is no
    workflow.
    """
    try:
        document, error = snapshot.inspect(file)
    except ConfigMissing:
        return []
    if error is not None:
        return [finding_of(error)]
    findings = repeated_keys(snapshot.text(file), file)
    if settings_kind is not None:
        return [*findings, *validation.check(document, schema(settings_kind), file)]
    return [*findings, *document_findings(file, document)]


def document_findings(file: str, document: Any) -> list[Finding]:
    """What a file's value shows by itself; a settings object in Workflows/ is taken for a workflow."""
    findings = [*validation.check_file(file, document), *_slips(file, document)]
    if file.startswith("Workflows/"):
        findings += workflow_check.own_findings(file, document)
    return findings


def _slips(file: str, document: Any) -> Iterator[Finding]:
    """What no schema can say of one file: settings without their partner, addresses that are none."""
    ask = INCOMPLETE.get(file.partition("/")[0])
    if not isinstance(document, Mapping) or file == USER_POINTER:
        return
    yield from (Finding(file, f"/{field}", WARNING, why) for field, why in (ask(document) if ask else ()))
    if is_tool_file(file):
        yield from (Finding(file, pointer, ERROR, why) for pointer, why in tool_faults(document))
    if file.startswith("Routing/"):
        yield from (Finding(file, pointer, ERROR, why) for pointer, why in routing_faults(document))
    for folder, field in (("MCPServers/", "url"), ("Users/", "offlineWikiApiUrl")):
        url = document.get(field)
        if file.startswith(folder) and isinstance(url, str) and url and (why := address_fault(url)):
            yield Finding(file, f"/{field}", ERROR, why)


def all_files(snapshot: ConfigSnapshot) -> list[str]:
    """The files that mean something: an archive of old users, below `Users/`, does not."""
    files = [file for folder in FOLDERS for file in _files_below(snapshot, folder)]
    files += filter(snapshot.exists, (MACHINES_FILE, ALIASES_FILE))
    return sorted(file for file in files if not is_archived_user(file))


def _files_below(snapshot: ConfigSnapshot, folder: str) -> Iterable[str]:
    yield from (f"{folder}/{name}.json" for name in snapshot.files(folder))
    for name in snapshot.folders(folder):
        yield from _files_below(snapshot, f"{folder}/{name}")


def _users(snapshot: ConfigSnapshot) -> list[UserSettings]:
    """The users whose files can be read; the others have their findings already."""
    users = []
    spelled = {name.lower(): name for name in _pointed_user(snapshot)}
    for name in user_names(snapshot):
        try:
            users.append(load_user(snapshot, spelled.get(name.lower(), name)))
        except ConfigError:
            continue
    return users


def _pointed_user(snapshot: ConfigSnapshot) -> list[str]:
    """The name in the pointer file as it is spelled there: so this user's folders are looked for."""
    try:
        return [pointer_user(snapshot)]
    except ConfigError:
        return []


def settings_files(user: UserSettings) -> dict[str, str]:
    """File -> schema name of the settings objects that a user file names."""
    named = {
        user.discussion_id_memory_file_workflow_settings: MEMORY_KIND,
        user.context_compactor_settings_file: COMPACTOR_KIND,
    }
    return {f"Workflows/{user.workflow_folder}/{name}.json": kind for name, kind in named.items() if name}


def named_settings(snapshot: ConfigSnapshot) -> dict[str, str]:
    """`settings_files` of every user that can be read."""
    return {file: kind for user in _users(snapshot) for file, kind in settings_files(user).items()}


def _pointer_findings(snapshot: ConfigSnapshot) -> list[Finding]:
    if not snapshot.exists(USER_POINTER):
        return []
    try:
        load_user(snapshot, pointer_user(snapshot))
    except ConfigMissing as error:
        return [Finding(USER_POINTER, "/currentUser", ERROR, error.message)]
    except ConfigError:
        return []
    return []


# --------------------------------------------------------------------------
# Nodes whose answers are too short for a model that thinks: its thoughts use the tokens up.


ENOUGH = 1000
"""Tokens. Thoughts about a short question are mostly shorter; every example has twice as many."""


def short_of_tokens(
    snapshot: ConfigSnapshot, user: UserSettings, walk: UserWalk, thinking: Collection[str]
) -> Iterator[Finding]:
    """A warning for each use of a model in `thinking` (names of endpoints) that has fewer than `ENOUGH`."""
    found: dict[str, list[Finding]] = {}
    for use in walk.model_uses():
        name = known_text(use.endpoint, use.variables)
        limit = _limit(use)
        if (
            name is not None
            and name in thinking
            and limit < ENOUGH
            and not _is_off(snapshot, user, name, use)
        ):
            pointer = f"{use.pointer}/{use.limit_key}" if use.limit_key in use.holder else use.pointer
            message = (
                f"{limit} tokens may be too few for endpoint {name!r}, whose model thinks: the "
                "thoughts can use "
                f"them up and leave the answer empty. Set `{use.limit_key}` to at least {ENOUGH}"
            )
            found.setdefault(use.file, []).append(Finding(use.file, pointer, WARNING, message))
    for file, findings in found.items():
        yield from place_findings(findings, snapshot.text(file))


def _limit(use: ModelUse) -> int:
    """As written, or the default; a limit that only a run knows counts as enough."""
    written = use.holder.get(use.limit_key, use.default_limit)
    text = known_text(written, use.variables) if isinstance(written, str) else written
    try:
        return int(text) if text is not None else ENOUGH
    except (TypeError, ValueError):
        return use.default_limit


def _is_off(snapshot: ConfigSnapshot, user: UserSettings, name: str, use: ModelUse) -> bool:
    """Whether the preset of this use tells the model not to think."""
    preset = known_text(use.preset, use.variables)
    try:
        endpoint = load_endpoint(snapshot, user, name)
        samplers = load_samplers(snapshot, user, endpoint, preset)
    except ConfigError:
        return False
    native: Mapping[str, Any] = samplers.block
    if samplers.canonical:
        native = translate(native, endpoint.api_type)
    return thinking_is_off(deep_merge(native, samplers.append or {}), endpoint.api_type)
