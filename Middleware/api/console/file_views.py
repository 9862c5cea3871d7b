"""Config files that the page reads as text and writes: over, or new. Source: spec console.md
5.2, 9.6, 9.7."""

from __future__ import annotations

from pathlib import Path

from Middleware.api.console import workflow_views
from Middleware.api.console.config_files import ConfigText, read_config_text
from Middleware.api.console.config_paths import OTHER_FOLDERS, config_file
from Middleware.api.console.config_saving import make, save
from Middleware.api.console.new_files import new_file_bytes, owner_of
from Middleware.api.console.problems import problems
from Middleware.api.console.view_contract import NO_FILE, ApiRoute, Ask, Reply, ViewRefused
from Middleware.api.console.workflow_files import workflow_files
from Middleware.common.types import JsonObject
from Middleware.config.paths import WORKFLOWS

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
    return Reply(workflow_views.file(ask, path), 201)


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
    ApiRoute("GET", "files/<path:path>", "look", file),
    ApiRoute("PUT", "files/<path:path>", "save", save_file),
    ApiRoute("PUT", "workflows/<path:path>", "save", save_workflow),
    ApiRoute("POST", "workflows", "save", new_workflow),
)
