"""Workflow files as the page shows them: which there are and how right they are, and one file's graph; and
what is wrong with any other file.

Reads the config tree as it is on disk, like `--validate`, not as requests see it: of a broken edit the page
must show the fault. One a process and config root; thread-safe. Source: spec console.md 9.1, 9.2.
"""

from __future__ import annotations

import posixpath
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from Middleware.api.console.config_files import (
    ConfigText,
    config_file,
    read_config_text,
    why_not_writable,
)
from Middleware.api.console.endpoint_views import shown_addresses
from Middleware.api.console.model_name_views import started_by
from Middleware.api.console.view_contract import NO_FILE, ApiRoute, Ask, ViewRefused
from Middleware.common.errors import ConfigError, node_index
from Middleware.common.secrets import MASK, MIN_SECRET, mask_secrets
from Middleware.common.types import JsonObject
from Middleware.config import paths
from Middleware.config.drafts import FreshTree, draft_snapshot
from Middleware.config.endpoints import load_endpoint
from Middleware.config.json_positions import Positions, count_values, parse, positions
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.paths import COMMON_FOLDER, WORKFLOWS
from Middleware.config.users import UserSettings, load_user
from Middleware.config.validation import ERROR, NOTE, WARNING, Finding, describe_value
from Middleware.config.workflows import child_file, is_workflow, shared_names, shared_root
from Middleware.services.run_trace import RunTrace
from Middleware.utilities.config_masks import secrets_in, shown_text, shown_value
from Middleware.utilities.config_text import with_line_feeds
from Middleware.utilities.file_utils import beside_the_loop
from Middleware.workflows.checks import workflow_check
from Middleware.workflows.checks.config_check import UNNAMED, all_files, check_tree, check_workflow_file
from Middleware.workflows.checks.workflow_graph import EndpointFacts, Lookups, workflow_graph
from Middleware.workflows.handlers.base.base_workflow_node_handler import ChildName

# --------------------------------------------------------------------------
# How large a text may be that the page has checked: a look must not hold the server. Pure.


MOST_CHARS = 1 << 17
MOST_VALUES = 5_000
MOST_BRACES = 20_000
MOST_PROBLEMS = 500
"""So many are told of one file, the worst first."""


def too_large(text: str) -> str:
    """Why a text is not checked here; empty: it is."""
    if len(text) > MOST_CHARS:
        return _more_than(MOST_CHARS, "characters")
    if text.count("{") > MOST_BRACES:
        return _more_than(MOST_BRACES, "braces")
    if count_values(text, MOST_VALUES + 1) > MOST_VALUES:
        return _more_than(MOST_VALUES, "values")
    return ""


def _more_than(most: int, what: str) -> str:
    return f"this text has more than {most:,} {what} and is not checked here; --validate checks it"


def count_sentence(count: int) -> str:
    """What is said of the problems behind the first `MOST_PROBLEMS`."""
    return f"and {count:,} more; --validate lists them all"


# --------------------------------------------------------------------------
# Findings of one config file as the page shows them: at their places in the text that it is shown. Pure.


def problems(
    findings: Iterable[Finding], file: str, text: str, shown: Positions | None = None
) -> list[JsonObject]:
    """The findings of `file`, in their order, each `{"line", "column", "end_line", "end_column", "pointer",
    "node", "level", "message"}`.

    `text`: of the file, secrets and all. `shown`: the map of it as it is shown, made here when not given.
    `node`: its number, null for what is in none. Of very many the first ones, then how many there are more.
    """
    own = [finding for finding in findings if finding.file == file]
    if not own:
        return []
    told = shown or positions(shown_text(text))
    secrets = secrets_in(text)
    shown_ones, rest = own[:MOST_PROBLEMS], len(own) - MOST_PROBLEMS
    made = [
        {
            **_span(told, finding),
            "pointer": finding.pointer,
            "node": None if (index := node_index(file, finding.pointer)) is None else index + 1,
            "level": finding.level,
            "message": _message(finding.message, secrets),
        }
        for finding in shown_ones
    ]
    return [*made, problem(NOTE, count_sentence(rest))] if rest > 0 else made


def problem(level: str, message: str) -> JsonObject:
    """One about the whole text."""
    span = {"line": 1, "column": 1, "end_line": 1, "end_column": 1}
    return {**span, "pointer": "", "node": None, "level": level, "message": message}


def _span(told: Positions, finding: Finding) -> dict[str, int]:
    """Where the value stands that a finding is about, or the sign that is no JSON."""
    broken = None if finding.pointer else _syntax_error_position(told)
    if broken is not None:
        line, column = broken
        return {"line": line, "column": column, "end_line": line, "end_column": column + 1}
    pointer = finding.pointer
    if told.find(pointer) is None and told.find("/nodes") is None:
        pointer = pointer.removeprefix("/nodes")  # some findings name the nodes of a bare list so
    start, end = told.value(pointer)
    place = told.find(pointer)
    if place is not None and place.members is not None:
        end = start + 1  # as for a field that an object lacks: its bracket, not all that it holds
    (line, column), (end_line, end_column) = told.line_column(start), told.line_column(end)
    return {"line": line, "column": column, "end_line": end_line, "end_column": end_column}


def _syntax_error_position(told: Positions) -> tuple[int, int] | None:
    """Line and column where the text that is shown is no JSON; None: it is."""
    try:
        parse(told.text.encode("utf-8", "replace"), "")
    except ConfigError as error:
        return (error.position.line, error.position.column) if error.position.line else None
    return None


def _message(message: str, secrets: Iterable[Any]) -> str:
    for secret in secrets:
        message = message.replace(f"found {describe_value(secret)}", f"found {describe_value(MASK)}")
        if len(secret) >= MIN_SECRET:
            message = message.replace(secret, MASK)
    return mask_secrets(message)


# --------------------------------------------------------------------------

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
        """The check of the whole tree; made again only once a file of it has changed."""
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
            raise ViewRefused(503, "other texts are being checked; try again", {"Retry-After": "5"})
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
        endpoint = load_endpoint(snapshot, user, name)
        return EndpointFacts(file, endpoint.model, shown_addresses(endpoint))
    except ConfigError:
        return EndpointFacts(file)


# --------------------------------------------------------------------------
# The routes of the page Workflows: the tree of files, one file, a text that is not saved (9.1 to 9.3).


_MARK = "\ufeff"


def tree(ask: Ask) -> JsonObject:
    """GET `workflows`: the files of each served user, of each shared folder, of `_common`, and the others."""
    ask.words()
    files = _files(ask)
    entries = files.entries()
    homes = files.homes(ask.hub.served_users())
    listing = _Listing(ask.hub.recorder.runs(), started_by(ask.hub.snapshot()))
    by_home: dict[str | None, list[FileEntry]] = {}
    for entry in entries.values():
        by_home.setdefault(homes.of(entry.path), []).append(entry)

    def list_folder(folder: str | None) -> list[JsonObject]:
        return [listing.file(entry, folder or "") for entry in by_home.get(folder, ())]

    taken = set(homes.users.values())
    return {
        "users": [
            {"name": name, "folder": folder, "files": list_folder(folder)}
            for name, folder in homes.users.items()
        ],
        "shared": [
            {"folder": folder, "model": model, "files": list_folder(folder)}
            for folder, model in homes.shared.items()
            if folder not in taken
        ],
        "common": [] if COMMON_FOLDER in taken else list_folder(COMMON_FOLDER),
        "other": list_folder(None),
    }


def workflow_file(ask: Ask, path: str) -> JsonObject:
    """GET `workflows/<path>?user=`: the text of one file, what is wrong with it, and its graph."""
    snapshot = ask.hub.snapshot()
    place = config_file(snapshot.root, path)
    wanted = ask.words("user")["user"]
    files = _files(ask)
    user = _user(ask, files, path, wanted or None)
    try:
        held = read_config_text(snapshot.tree, place)
    except OSError as error:
        raise ViewRefused(404, NO_FILE) from error
    return {**_facts(held, files, user), "last": last_of_file(ask.hub.recorder.runs(), path)}


def _facts(held: ConfigText, files: WorkflowFiles, user: str | None) -> JsonObject:
    path = held.place.file
    reading = files.read_file(path, held.text, held.raw, user)
    return {
        "path": path,
        "user": user,
        "kind": reading.kind,
        "text": held.shown_text,
        "version": held.version,
        "writable": not why_not_writable(held.place),
        "problems": reading.problems,
        "graph": reading.graph,
    }


def check(ask: Ask) -> JsonObject:
    """POST `check`: `{"problems", "graph"}` of a text in place of a file's own."""
    fields = ask.fields(path=str, text=str, user=str | None)
    path = config_file(ask.hub.snapshot().root, fields["path"]).file
    files = _files(ask)
    user = _user(ask, files, path, fields["user"])
    text = with_line_feeds(fields["text"]).removeprefix(_MARK)
    reading = files.read_file(path, text, text.encode("utf-8", "surrogatepass"), user)
    return {"problems": reading.problems, "graph": reading.graph}


def _files(ask: Ask) -> WorkflowFiles:
    return workflow_files(ask.hub.snapshot().root)


def _user(ask: Ask, files: WorkflowFiles, path: str, wanted: str | None) -> str | None:
    """In whose folders names are looked up. Raises Refused for one who is not served."""
    names = ask.hub.served_users()
    if wanted is None:
        return files.user_of(path, names)
    if wanted not in names:
        raise ViewRefused(400, f"user: found {describe_value(wanted)}, allowed: {', '.join(names)}")
    return wanted


class _Listing:
    """Entries as the page gets them, with the newest ended run of each file, and the model names whose
    requests it answers."""

    def __init__(self, runs: Iterable[RunTrace], started: Mapping[str, list[str]]) -> None:
        self._started = started
        self._last: dict[str, RunTrace] = {}
        for run in runs:
            if run.ended:
                for node in list(run.nodes):
                    self._last.setdefault(node.workflow, run)

    def file(self, entry: FileEntry, folder: str) -> JsonObject:
        run = self._last.get(entry.path)
        below = f"{WORKFLOWS}/{folder}/" if folder else f"{WORKFLOWS}/"
        return {
            "path": entry.path,
            "name": entry.path.removeprefix(below).removesuffix(".json"),
            "kind": entry.kind,
            "nodes": entry.nodes,
            "errors": entry.errors,
            "warnings": entry.warnings,
            "unused": entry.unused,
            "starts": self._started.get(entry.path, []),
            "last": None if run is None else _last_run(run),
        }


def _last_run(run: RunTrace) -> JsonObject:
    return {
        "id": run.id,
        "at": round(run.wall, 3),
        "state": run.state,
        "took_s": round(run.ended - run.arrived, 3),
    }


def last_of_file(runs: Iterable[RunTrace], path: str) -> JsonObject | None:
    """The newest ended run in which a file ran: `{"id", "at", "nodes": {"1": {"s", "state"}}}`. A node that
    ran more than once: its last time.
    """
    for run in runs:
        nodes = [node for node in list(run.nodes) if node.workflow == path] if run.ended else []
        if nodes:
            times = {
                str(node.number): {
                    "s": round(node.seconds, 3) if node.ended else None,
                    "state": node.state,
                }
                for node in nodes
            }
            return {"id": run.id, "at": round(run.wall, 3), "nodes": times}
    return None


ROUTES = (
    ApiRoute("GET", "workflows", "look", tree),
    ApiRoute("GET", "workflows/<path:path>", "look", workflow_file),
    ApiRoute("POST", "check", "look", check),
)
