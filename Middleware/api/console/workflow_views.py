"""The routes of the page Workflows: the tree of files, one file, a text that is not saved (9.1 to 9.3)."""

from __future__ import annotations

from collections.abc import Iterable

from Middleware.api.console.config_files import (
    ConfigText,
    read_config_text,
    why_not_writable,
    with_line_feeds,
)
from Middleware.api.console.config_paths import config_file
from Middleware.api.console.view_contract import NO_FILE, ApiRoute, Ask, ViewRefused
from Middleware.api.console.workflow_files import FileEntry, WorkflowFiles, workflow_files
from Middleware.common.types import JsonObject
from Middleware.config.paths import COMMON_FOLDER, WORKFLOWS
from Middleware.config.validation import describe_value
from Middleware.services.run_trace import RunTrace

_MARK = "\ufeff"


def tree(ask: Ask) -> JsonObject:
    """GET `workflows`: the files of each served user, of each shared folder, of `_common`, and the others."""
    ask.words()
    files = _files(ask)
    entries = files.entries()
    homes = files.homes(ask.hub.served_users())
    listing = _Listing(ask.hub.recorder.runs())
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


def file(ask: Ask, path: str) -> JsonObject:
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
    """Entries as the page gets them, with the newest ended run of each file."""

    def __init__(self, runs: Iterable[RunTrace]) -> None:
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
    ApiRoute("GET", "workflows/<path:path>", "look", file),
    ApiRoute("POST", "check", "look", check),
)
