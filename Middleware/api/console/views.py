"""The JSON routes of the console: path and method -> view, and its answer -> status, headers, bytes.

Checks the right of a route before its view is asked, and knows no view by name but in `MODULES`. Loaded by
the first look at the console. Source: spec console.md 5.2.
"""

from __future__ import annotations

import logging
from typing import Any

from werkzeug.exceptions import HTTPException, MethodNotAllowed
from werkzeug.routing import Map, PathConverter, Rule

from Middleware.api.console import (
    call_views,
    endpoint_views,
    events,
    file_views,
    help_views,
    state_views,
    workflow_views,
)
from Middleware.api.console.dry_run_views import DRY_RUN_ROUTES
from Middleware.api.console.name_views import NAME_ROUTES
from Middleware.api.console.run_views import RUN_ROUTES
from Middleware.api.console.masks import told_of_file
from Middleware.api.console.view_contract import NO_FILE, ApiRoute, Ask, Hub, Reply, ViewRefused
from Middleware.api.serving.wsgi_replies import on_one_line
from Middleware.common.errors import ConfigError, MiddlewareError, let_go
from Middleware.utilities.text_utils import sentence_of

logger = logging.getLogger(__name__)

BELOW = "/console/api/"
_FILES = ("workflows/", "files/")
_CODED = ("%2f", "%5c", "%00")

# Each module of views adds its import above and its routes here: one line each.
MODULES: tuple[tuple[ApiRoute, ...], ...] = (
    state_views.STATE_ROUTES,
    RUN_ROUTES,
    events.ROUTES,
    call_views.ROUTES,
    endpoint_views.ROUTES,
    help_views.HELP_ROUTES,
    file_views.ROUTES,
    DRY_RUN_ROUTES,
    NAME_ROUTES,
    workflow_views.ROUTES,
)


def all_routes() -> tuple[ApiRoute, ...]:
    """Every route of the console, in the order of the modules."""
    return tuple(route for routes in MODULES for route in routes)


class _AnyPath(PathConverter):
    """What stands below a folder, whatever it holds: the view says what is a path."""

    regex = ".+"
    part_isolating = False


class Views:
    """The routes over one `hub`."""

    def __init__(self, hub: Hub, routes: tuple[ApiRoute, ...] | None = None) -> None:
        self.hub = hub
        rules = [
            Rule(f"/{route.rule}", endpoint=route, methods=[route.method])
            for route in (all_routes() if routes is None else routes)
        ]
        self._map = Map(rules, converters={"path": _AnyPath}, merge_slashes=False).bind("console")

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
            said = f"internal error ({type(error).__name__}); the server's log says more"
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
