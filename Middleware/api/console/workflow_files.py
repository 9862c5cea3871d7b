"""Workflow files as the page shows them: which there are and how right they are, and one file's graph; and
what is wrong with any other file.

Reads the config tree as it is on disk, like `--validate`, not as requests see it: of a broken edit the page
must show the fault. One a process and config root; thread-safe. Source: spec console.md 9.1, 9.2.
"""

from __future__ import annotations

import posixpath
import threading
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from Middleware.api.console.check_limits import too_large
from Middleware.api.console.config_masks import shown_text, shown_value
from Middleware.api.console.problems import problem, problems
from Middleware.api.console.view_contract import ViewRefused
from Middleware.common.errors import ConfigError
from Middleware.common.types import JsonObject
from Middleware.config import paths
from Middleware.config.drafts import draft_snapshot
from Middleware.config.endpoints import load_endpoint
from Middleware.config.fresh_tree import FreshTree
from Middleware.config.json_positions import Positions, positions
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.users import UserSettings, load_user
from Middleware.config.validation import ERROR, WARNING, Finding
from Middleware.config.workflows import child_file, is_workflow, shared_names, shared_root
from Middleware.utilities.blocking_calls import beside_the_loop
from Middleware.workflows.handlers.base.base_workflow_node_handler import ChildName
from Middleware.workflows.managers import workflow_check
from Middleware.workflows.managers.config_check import UNNAMED, all_files, check_tree, check_workflow_file
from Middleware.workflows.managers.workflow_graph import EndpointFacts, Lookups, workflow_graph

_TOP = f"{paths.WORKFLOWS}/"
_PATIENCE_S = 10.0
"""How long a text waits for the check of another one: they are checked one at a time."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One file below Workflows/. `kind`: `workflow`, `settings` (no nodes) or `unreadable` (no JSON)."""

    path: str
    kind: str
    nodes: int
    errors: int
    warnings: int
    unused: bool


@dataclass(frozen=True, slots=True)
class _Checked:
    """`findings`: of each file that has any. `entries`: of each file below Workflows/."""

    findings: dict[str, list[Finding]]
    entries: dict[str, FileEntry]


@dataclass(frozen=True, slots=True)
class Homes:
    """Where workflow files live, as paths below `Workflows/`. `users`: name -> folder; `shared`: folder ->
    the model that a client picks.
    """

    users: Mapping[str, str]
    shared: Mapping[str, str]

    def of(self, path: str) -> str | None:
        """The innermost of these folders that a file lies in, `_common` among them; None: in none."""
        folder = path.removeprefix(_TOP).rpartition("/")[0]
        known = {*self.users.values(), *self.shared, paths.COMMON_FOLDER}
        while folder and folder not in known:
            folder = folder.rpartition("/")[0]
        return folder or None


@dataclass(frozen=True, slots=True)
class Reading:
    """What a text of a workflow file is. `problems`, `graph`: as 9.2 and 9.3 of the spec."""

    kind: str
    problems: list[JsonObject]
    graph: JsonObject | None


class WorkflowFiles:
    """The workflow files of one config root."""

    def __init__(self, root: Path) -> None:
        self._tree = FreshTree(root, workflow_check.own_errors)
        self._guard, self._reading = threading.Lock(), threading.Lock()
        self._kept: tuple[Any, _Checked] = (None, _Checked({}, {}))

    def entries(self) -> dict[str, FileEntry]:
        """Every file below Workflows/ by its path."""
        return self._check_tree().entries

    def findings(self, path: str) -> list[Finding]:
        """Those of any file of the tree."""
        return self._check_tree().findings.get(path, [])

    def _check_tree(self) -> _Checked:
        """The check of the whole tree; made anew only once a file of it has changed."""
        with self._guard:
            snapshot = self._tree.snapshot()
            marks = self._tree.marks(all_files(snapshot))
            if self._kept[0] == marks:
                return self._kept[1]
            checked = _check(snapshot)
            self._kept = (marks if self._tree.is_settled(marks) else None, checked)
            return checked

    def homes(self, names: list[str]) -> Homes:
        """Of the users of these names; one whose file has faults has none."""
        snapshot = self._tree.snapshot()
        users: dict[str, str] = {}
        shared: dict[str, str] = {}
        for user in _users(snapshot, names):
            users[user.name] = _below(snapshot, paths.workflow_folder(user))
            try:
                root = shared_root(snapshot, user).removeprefix(_TOP)
                picked = shared_names(snapshot, user)
            except ConfigError:
                continue
            for name in picked:
                shared.setdefault(f"{root}/{name}", f"{user.name}:{name}")
        return Homes(users, shared)

    def user_of(self, path: str, names: list[str]) -> str | None:
        """In whose folders the names in a file are looked up: the first user whose folder it lies in, else
        the first user.
        """
        homes = self.homes(names)
        home = homes.of(path)
        owners = (name for name, folder in homes.users.items() if folder == home)
        return next(owners, next(iter(names), None))

    def read_file(self, path: str, text: str, raw: bytes, user: str | None) -> Reading:
        """A file with these bytes, whatever is on disk. `text`: the same decoded, secrets and all.

        One that is too large to be checked has one problem, which says so. Raises Refused (503) where others
        are checked for long.
        """
        if why := too_large(text):
            return Reading("workflow", [problem(WARNING, why)], None)
        if not self._reading.acquire(timeout=_PATIENCE_S):
            raise ViewRefused(503, "other texts are being checked: try again", {"Retry-After": "5"})
        try:
            return self._read_uncached(path, text, raw, user)
        finally:
            self._reading.release()

    def _read_uncached(self, path: str, text: str, raw: bytes, user: str | None) -> Reading:
        snapshot = draft_snapshot(self._tree.snapshot(), path, raw)
        findings = check_workflow_file(snapshot, path)
        shown = beside_the_loop(lambda: positions(shown_text(text)))
        told = beside_the_loop(lambda: problems(findings, path, text, shown))
        document, error = snapshot.inspect(path)
        if error is not None:
            return Reading("unreadable", told, None)
        settings = next(iter(_users(snapshot, [user] if user else [])), None)
        lookups = _lookups(snapshot, settings, path, shown)
        graph = workflow_graph(path, document, lookups, [problem["node"] for problem in told])
        graph = shown_value(graph)
        return Reading("workflow" if is_workflow(snapshot, path) else "settings", told, graph)


@lru_cache(maxsize=8)
def workflow_files(root: Path) -> WorkflowFiles:
    """The one of a config root in this process."""
    return WorkflowFiles(root)


def _check(snapshot: ConfigSnapshot) -> _Checked:
    by_file: defaultdict[str, list[Finding]] = defaultdict(list)
    for finding in check_tree(snapshot):
        by_file[finding.file].append(finding)
    files = [file for file in all_files(snapshot) if file.startswith(_TOP)]
    return _Checked(by_file, {file: _entry(snapshot, file, by_file.get(file, [])) for file in files})


def _entry(snapshot: ConfigSnapshot, path: str, findings: list[Finding]) -> FileEntry:
    levels = Counter(finding.level for finding in findings)
    unused = any(finding.message == UNNAMED for finding in findings)
    try:
        document, error = snapshot.inspect(path)
    except ConfigError as missing:
        document, error = None, missing
    nodes = document.get("nodes") if isinstance(document, Mapping) else document
    kind = "unreadable" if error else "workflow" if is_workflow(snapshot, path) else "settings"
    count = len(nodes) if isinstance(nodes, list) else 0
    return FileEntry(path, kind, count, levels[ERROR], levels[WARNING], unused)


def _users(snapshot: ConfigSnapshot, names: list[str]) -> list[UserSettings]:
    """The settings of those whose file can be read."""
    users = []
    for name in names:
        try:
            users.append(load_user(snapshot, name))
        except ConfigError:
            continue
    return users


def _below(snapshot: ConfigSnapshot, folder: str) -> str:
    """A workflow folder as it is spelled on disk."""
    wanted = posixpath.normpath(f"{_TOP}{folder}")
    try:
        found = snapshot.find(wanted)
    except ConfigError:
        found = None
    return (found or wanted).removeprefix(_TOP)


def _lookups(snapshot: ConfigSnapshot, user: UserSettings | None, path: str, told: Positions) -> Lookups:
    """Where the names in a file lead for a user; nowhere without one."""
    folder = path.removeprefix(_TOP).rpartition("/")[0]
    if user is not None:
        own = _below(snapshot, paths.workflow_folder(user))
        folder = own if f"{folder}/".startswith(f"{own}/") else folder

    def lines(pointer: str) -> tuple[int, int]:
        place = told.find(pointer)
        start, end = place.span if place else (0, 1)
        return told.line_column(start)[0], told.line_column(max(start, end - 1))[0]

    def child(named: ChildName) -> str | None:
        if user is None:
            return None
        return child_file(snapshot, user, named.name, folder=named.folder, calling_folder=folder)

    def endpoint(name: str) -> EndpointFacts:
        return _endpoint(snapshot, user, name)

    if user is None:
        return Lookups(endpoint, child, lines)
    return Lookups(endpoint, child, lines, user.user_wide_workflow_variables, user.max_parallel_nodes)


def _endpoint(snapshot: ConfigSnapshot, user: UserSettings | None, name: str) -> EndpointFacts:
    if user is None:
        return EndpointFacts()
    try:
        file = snapshot.first(paths.endpoint_files(user, name))
    except ConfigError:
        return EndpointFacts()
    if file is None:
        return EndpointFacts()
    try:
        return EndpointFacts(file, load_endpoint(snapshot, user, name).model)
    except ConfigError:
        return EndpointFacts(file)
