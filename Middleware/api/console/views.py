"""The JSON routes of the console: path and method -> view, and its answer -> status, headers, bytes.

Checks the right of a route before its view is asked, and knows no view by name but in `MODULES`. Loaded by
the first look at the console. Source: spec console.md 5.2.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from itertools import chain
from typing import Any

from werkzeug.exceptions import HTTPException, MethodNotAllowed
from werkzeug.routing import Map, PathConverter, Rule

from Middleware.api.console import (
    again,
    call_views,
    chat_corrections,
    chat_views,
    dry_run_views,
    edit_views,
    endpoint_views,
    events,
    file_views,
    find_views,
    help_index,
    history_views,
    key_views,
    loaded_views,
    model_name_views,
    pack_views,
    workflow_files,
)
from Middleware.api.console.call_views import NO_RUN, run_of
from Middleware.api.console.recorder import MOST_PINNED, Cut
from Middleware.api.console.run_texts import (
    RUN_STATES,
    Secrets,
    Text,
    all_texts,
    find,
    whole_text,
    workflow_names,
)
from Middleware.api.console.shapes import KEPT, ODD, SLOW, Look, name_asked
from Middleware.api.console.view_contract import NO_FILE, ApiRoute, Ask, Hub, Reply, ViewRefused
from Middleware.api.wsgi.doors import on_one_line
from Middleware.common.asker import NO_NAME
from Middleware.common.errors import ConfigError, MiddlewareError, let_go
from Middleware.common.types import JsonObject
from Middleware.config import paths
from Middleware.config.endpoints import endpoint_names, load_endpoint
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.paths import WORKFLOWS
from Middleware.config.users import UserSettings, load_user
from Middleware.config.validation import describe_value
from Middleware.config.workflows import folders_to_try, list_workflow_files
from Middleware.services.cancellation_service import cancellation_service
from Middleware.services.run_trace import RunTrace
from Middleware.utilities.config_masks import told_of_file
from Middleware.utilities.text_utils import sentence_of
from Middleware.workflows.checks.workflow_check import node_places
from Middleware.workflows.handlers.node_types import known_type

logger = logging.getLogger(__name__)


# --------------------------------------------------------------------------
# The names that exist for a user, for the completion of the editor: endpoints, presets, workflows and so
# on.


_ANY = "any"
"""Stands for a name, where only the folders of it are wanted."""


def names(ask: Ask) -> Mapping[str, list[str]]:
    """GET `names?user=&path=`: `{"endpoints","presets","workflows","structured_outputs",...}`, each sorted.

    `user`: one that is served, else the first. `path`: the file that names them. Raises Refused, ConfigError.
    """
    words = ask.words("user", "path")
    served = ask.hub.served_users()
    user = words["user"] or (served[0] if served else "")
    if user not in served:
        raise ViewRefused(404, "this server does not serve such a user")
    snapshot = ask.hub.snapshot()
    return names_for(snapshot, load_user(snapshot, user), words["path"])


def names_for(snapshot: ConfigSnapshot, user: UserSettings, path: str) -> Mapping[str, list[str]]:
    """What can be named in a file of this user, each list sorted and without repeats."""
    endpoints = endpoint_names(snapshot, paths.endpoint_folder(user))
    return {
        "endpoints": endpoints,
        "presets": _files(snapshot, _preset_folders(snapshot, user, endpoints)),
        "workflows": _files(snapshot, _workflow_folders(user, path)),
        "structured_outputs": _files(snapshot, map(_parent, paths.structured_output_files(user, _ANY))),
        "prompt_templates": snapshot.files("PromptTemplates"),
        "mcp_servers": snapshot.files("MCPServers"),
        "api_types": snapshot.files("ApiTypes"),
        "variables": sorted(user.user_wide_workflow_variables),
        "types": _types_used(snapshot, user),
    }


_MOST_TYPES = 6


def _types_used(snapshot: ConfigSnapshot, user: UserSettings) -> list[str]:
    """The types of nodes that the user's workflows have most of, the commonest first."""
    folder = f"{WORKFLOWS}/{paths.workflow_folder(user)}"
    counted: Counter[str] = Counter()
    for file in list_workflow_files(snapshot, folder):
        try:
            nodes = node_places(file, snapshot.read(file))
        except ConfigError:
            continue
        counted.update(known_type(place.config.get("type")) for place in nodes)
    return [name for name, _ in counted.most_common(_MOST_TYPES)]


def _workflow_folders(user: UserSettings, path: str) -> Iterable[str]:
    """Where a node of the file `path` finds its children."""
    folder = _parent(path.removeprefix(f"{paths.WORKFLOWS}/"))
    return (f"{paths.WORKFLOWS}/{each}" for each in folders_to_try(user, None, folder) if each)


def _preset_folders(snapshot: ConfigSnapshot, user: UserSettings, endpoints: Iterable[str]) -> Iterable[str]:
    """Those of the preset types of the user's endpoints; an endpoint that cannot be read has none."""
    kinds: dict[str, None] = {}
    for name in endpoints:
        try:
            kinds[load_endpoint(snapshot, user, name).preset_type] = None
        except ConfigError:
            continue
    return (_parent(file) for kind in kinds for file in paths.preset_files(user, kind, _ANY))


def _files(snapshot: ConfigSnapshot, folders: Iterable[str]) -> list[str]:
    return sorted({name for folder in folders if _stays(folder) for name in snapshot.files(folder)})


def _stays(folder: str) -> bool:
    """Whether a folder lies in the tree: the path of a question may say anything."""
    return all(paths.is_flat_name(part) for part in folder.split("/"))


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


NAME_ROUTES = (ApiRoute("GET", "names", "look", names),)


# --------------------------------------------------------------------------
# The runs of this process: their list, each one, its texts, its end. Source: spec console.md 5.2, 6, 11.


MOST = 200
DEFAULT = 50
BY_CONSOLE = "the console"
PRIVATE = "The user's settings keep texts private; times and counts only."
NO_TEXT = "this run has no such text"

Fits = Callable[[RunTrace], bool]


def runs(ask: Ask) -> JsonObject:
    """GET `runs`: the newest first; `next`: the id before which the next page begins, None: that was all;
    `counts`: of all that are kept, how many fit each of the words that `state` knows beside a run's own.
    """
    wish = ask.words("user", "key", "workflow", "name", "state", "text", "discussion", "before", "limit")
    limit = ask.number("limit", DEFAULT, 1, MOST)
    states = _states(wish["state"])
    look = Look(ask.hub)
    fits = _filters(look, wish, states)
    found_runs: list[RunTrace] = []
    for run in _runs_before(look.runs, wish["before"]):
        if all(fit(run) for fit in fits):
            found_runs.append(run)
            if len(found_runs) > limit:
                break
    shown = found_runs[:limit]
    return {
        "runs": [look.summary(run) for run in shown],
        "next": shown[-1].id if len(found_runs) > limit else None,
        "seq": look.seq,
        "counts": look.counts(),
    }


def run(ask: Ask, run_id: str) -> JsonObject:
    """GET `runs/<id>`."""
    ask.words()
    return Look(ask.hub).run_json(run_of(ask, run_id))


def text(ask: Ask, run_id: str, ref: str) -> JsonObject:
    """GET `runs/<id>/texts/<ref>`."""
    ask.words()
    kept = run_of(ask, run_id)
    value = find(kept, ref)
    if value is None:
        raise ViewRefused(404, PRIVATE if kept.private else NO_TEXT)
    return whole_text(ref, value, Look(ask.hub).secrets(kept))


def cancel(ask: Ask, run_id: str) -> JsonObject:
    """POST `runs/<id>/cancel`: as DELETE of a client."""
    ask.words()
    ask.no_fields()
    kept = run_of(ask, run_id)
    active = cancellation_service.is_running(kept.id)
    if active:
        cancellation_service.request_cancellation(kept.id, BY_CONSOLE)
    return {"status": "cancelled", "active": active}


def keep(ask: Ask, run_id: str) -> JsonObject:
    """POST `runs/<id>/keep`: whether it stays until the restart. Source: spec workbench.md 10, 12."""
    ask.words()
    wish: bool = ask.fields(keep=bool)["keep"]
    if not ask.hub.recorder.pin(run_of(ask, run_id).id, wish):
        raise ViewRefused(409, f"{MOST_PINNED} runs are kept already; let one of them go first")
    return {"kept": wish}


def numbers(ask: Ask) -> JsonObject:
    """GET `numbers`; `history`: whether there is one of more than an hour; `keys`: whether there is a keys
    file."""
    ask.words()
    series: JsonObject = ask.hub.hour.series()
    return {**series, "history": ask.hub.history is not None, "keys": ask.hub.has_keys()}


def _states(wish: str) -> set[str]:
    """The states asked for; empty: any. Raises Refused."""
    states = {state.strip() for state in wish.split(",") if state.strip()}
    known = (*RUN_STATES, ODD, SLOW, KEPT)
    for state in sorted(states - set(known)):
        raise ViewRefused(400, f"state: found {describe_value(state)}, allowed: {', '.join(known)}")
    return states


def _runs_before(kept: list[RunTrace], run_id: str) -> list[RunTrace]:
    """Those that arrived before this run. Raises Refused when it is not kept."""
    if not run_id:
        return kept
    for i, one in enumerate(kept):
        if one.id == run_id:
            return kept[i + 1 :]
    raise ViewRefused(404, NO_RUN)


def _filters(look: Look, wish: dict[str, str], states: set[str]) -> list[Fits]:
    """What a run must fit; the quick ones first."""
    fits: list[Fits] = []
    if wish["user"]:
        fits.append(lambda run: run.user == wish["user"])
    if wish["key"]:
        fits.append(lambda run: (run.key or NO_NAME) == wish["key"])
    if wish["name"]:
        fits.append(lambda run: name_asked(run) == wish["name"])
    if states:
        fits.append(lambda run: run.state in states or look.is_any(run, states))
    if wish["discussion"]:
        fits.append(lambda run: run.discussion == wish["discussion"])
    if wish["workflow"]:
        fits.append(lambda run: wish["workflow"] in workflow_names(run))
    if wish["text"]:
        needle = wish["text"].casefold()
        fits.append(lambda run: _holds_text(look, run, needle))
    return fits


def _holds_text(look: Look, run: RunTrace, needle: str) -> bool:
    """Whether its facts or texts hold this, as a reader sees them: what is masked is not found."""
    secrets = look.secrets(run)
    needles = (needle, json.dumps(needle)[1:-1])
    nodes = list(run.nodes)
    facts: list[Text] = [run.id, run.user, run.key, *workflow_names(run), run.error]
    facts.append(" ".join((name_asked(run), *workflow_names(run))))  # as its row reads
    facts += [fact for node in nodes for fact in (node.title, node.endpoint, node.error)]
    facts += [fact for node in nodes for call in list(node.calls) for fact in (call.endpoint, call.error)]
    return any(
        _is_in(kept, needles) and _is_in(_as_seen(kept, secrets), needles)
        for kept in chain(facts, all_texts(run))
    )


def _as_seen(kept: Text, secrets: Secrets) -> Text:
    return secrets.out_of_cut(kept) if isinstance(kept, Cut) else secrets.out_of(kept)


def _is_in(kept: Text, needles: tuple[str, ...]) -> bool:
    parts = (kept.head, kept.tail) if isinstance(kept, Cut) else (kept,)
    return any(needle in part.casefold() for part in parts for needle in needles)


RUN_ROUTES = (
    ApiRoute("GET", "runs", "look", runs),
    ApiRoute("GET", "runs/<run_id>", "look", run),
    ApiRoute("GET", "runs/<run_id>/texts/<ref>", "look", text),
    ApiRoute("POST", "runs/<run_id>/cancel", "act", cancel),
    ApiRoute("POST", "runs/<run_id>/keep", "act", keep),
    ApiRoute("GET", "numbers", "look", numbers),
)


# --------------------------------------------------------------------------

BELOW = "/console/api/"
_FILES = ("workflows/", "files/")
_CODED = ("%2f", "%5c", "%00")

# Each module of views adds its import above and its routes here: one line each.
MODULES: tuple[tuple[ApiRoute, ...], ...] = (
    events.STATE_ROUTES,
    RUN_ROUTES,
    events.ROUTES,
    call_views.ROUTES,
    chat_views.CHAT_ROUTES,
    chat_corrections.CORRECTION_ROUTES,
    endpoint_views.ROUTES,
    find_views.FIND_ROUTES,
    loaded_views.LOADED_ROUTES,
    history_views.HISTORY_ROUTES,
    key_views.KEY_ROUTES,
    help_index.HELP_ROUTES,
    file_views.ROUTES,
    edit_views.EDIT_ROUTES,
    dry_run_views.DRY_RUN_ROUTES,
    again.AGAIN_ROUTES,
    NAME_ROUTES,
    model_name_views.MODEL_NAME_ROUTES,
    pack_views.ROUTES,
    workflow_files.ROUTES,
)


def all_routes() -> tuple[ApiRoute, ...]:
    """Every route of the console, in the order of the modules."""
    return tuple(route for routes in MODULES for route in routes)


class _AnyPath(PathConverter):
    """What stands below a folder, whatever it holds: the view says what is a path."""

    regex = ".+"
    part_isolating = False


@lru_cache(maxsize=8)
def _map_of(routes: tuple[ApiRoute, ...]) -> Map:
    """Made once: the same routes may stand over many hubs."""
    rules = [Rule(f"/{route.rule}", endpoint=route, methods=[route.method]) for route in routes]
    return Map(rules, converters={"path": _AnyPath}, merge_slashes=False)


class Views:
    """The routes over one `hub`."""

    def __init__(self, hub: Hub, routes: tuple[ApiRoute, ...] | None = None) -> None:
        self.hub = hub
        self._map = _map_of(all_routes() if routes is None else tuple(routes)).bind("console")

    def answer(self, environ: dict[str, Any], rights: tuple[str, ...]) -> Reply:
        """The answer to a request below `BELOW`. Raises nothing."""
        try:
            route, parts = self._route(environ)
            ask = Ask(self.hub, rights, environ)
            ask.require_right(route.right)
            given = route.view(ask, **parts)
            return given if isinstance(given, Reply) else Reply(given)
        except ViewRefused as refused:
            return Reply(refused.value, refused.status, refused.headers)
        except HTTPException as error:
            return Reply({"error": error.name.lower()}, error.code or 500)
        except ConfigError as error:  # no fault of the server: the page is there to tell of such
            return Reply({"error": told_of_file(error, self.hub.secrets)}, 422)
        except MiddlewareError as error:
            return Reply({"error": sentence_of(str(error))}, error.status_hint)
        except Exception as error:
            let_go(error)
            logger.exception("the console failed: %s", on_one_line(environ.get("PATH_INFO", "")))
            said = f"internal error ({type(error).__name__}); see the server's log for details"
            return Reply({"error": said}, 500)

    def _route(self, environ: dict[str, Any]) -> tuple[ApiRoute, dict[str, Any]]:
        """The route of a request and the parts of its path. Raises Refused."""
        method = environ.get("REQUEST_METHOD", "GET")
        try:
            path = _path(environ)
            return self._map.match(f"/{path}", method)  # type: ignore[return-value]
        except MethodNotAllowed as error:
            allowed = {"Allow": ", ".join(sorted(error.valid_methods or ()))}
            raise ViewRefused(405, f"method not allowed: {method}", allowed) from error
        except HTTPException as error:
            raise ViewRefused(404, _nothing_at(environ)) from error


def _path(environ: dict[str, Any]) -> str:
    """The path below `BELOW`, decoded.

    Raises Refused for one that is no UTF-8, or hides a slash in a part.
    """
    written = str(environ.get("REQUEST_URI") or environ.get("RAW_URI") or "").partition("?")[0].lower()
    if any(code in written for code in _CODED):
        raise ViewRefused(404, _nothing_at(environ))
    try:
        whole = str(environ.get("PATH_INFO", "")).encode("latin-1").decode("utf-8")
    except UnicodeError as error:
        raise ViewRefused(404, _nothing_at(environ)) from error
    return whole.removeprefix(BELOW)


def _nothing_at(environ: dict[str, Any]) -> str:
    """The same for every path of a file: nothing is told of what lies where."""
    path = str(environ.get("PATH_INFO", "")).removeprefix(BELOW)
    return NO_FILE if path.startswith(_FILES) else "no such route"
