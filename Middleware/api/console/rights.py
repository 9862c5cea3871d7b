"""Who may see the console, and do what there. Pure rules over header values.

Source: spec console.md 2 and 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from Middleware.api.requests.access import AccessRules, bearer_of, is_loopback, same_key
from Middleware.api.serving.api_rules import NEEDS_KEY, ConsoleWish

LOOK, ACT, SAVE = "look", "act", "save"
NEEDS = {
    LOOK: "this needs the right to look: a browser on this machine has it, --console-key gives it to"
    " others, --console view to everybody",
    ACT: "this needs the right to act: a browser on this machine has it, --console-key gives it to others",
    SAVE: "this needs the right to save: start with --console edit",
}
"""Right -> what is said to one who has it not."""

NEEDS_ONE_PROCESS = "the console needs one process; gunicorn -w 1 -k gevent serves 1,000 streams"
NEEDS_GIVEN_KEY = (
    "--console edit needs --console-key where several processes serve: each would make a key of its own"
)

Place = Literal["page", "file", "api"]
_PROXY_MARKS = (
    "HTTP_FORWARDED",
    "HTTP_X_FORWARDED_FOR",
    "HTTP_X_FORWARDED_HOST",
    "HTTP_X_REAL_IP",
    "HTTP_VIA",
)
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Rules:
    """A console that is on. `mode`: `view` or `edit`. `is_open`: without a key everybody may look.
    `made`: nobody gave the key.
    """

    mode: str
    access: AccessRules
    key: str = field(default="", repr=False)
    is_open: bool = False
    made: bool = False


class RightsRefusal(NamedTuple):
    """`wrong_key`: a key was given, and is not this console's."""

    status: int
    sentence: str
    wrong_key: bool = False


def settle_rules(wish: ConsoleWish, access: AccessRules, processes: int) -> Rules | str:
    """The rules of the console; where it is off by itself the sentence that says why, `""` where it is asked
    to be off. Raises RuntimeError for a wish that cannot be had.
    """
    if wish.mode == "off":
        return ""
    if access.api_keys and not wish.key and wish.mode != "edit":
        return NEEDS_KEY
    if processes > 1 and wish.mode is None:
        return NEEDS_ONE_PROCESS
    if wish.mode != "edit":
        return Rules("view", access, wish.key, is_open=wish.mode == "view" and not wish.key)
    if processes > 1 and not wish.key:
        raise RuntimeError(NEEDS_GIVEN_KEY)
    return Rules("edit", access, wish.key or _made_key(), made=not wish.key)


def _made_key() -> str:
    import secrets  # most starts make none, and need not wait for it

    return secrets.token_urlsafe(16)


def check(rules: Rules, environ: Mapping[str, Any], place: Place) -> tuple[str, ...] | RightsRefusal:
    """The rights of a request; none where it needs none. Looks at headers only, in the order of 2.4."""
    refusal = _source(rules, environ, place)
    if refusal is not None or place != "api":
        return refusal or ()
    if environ.get("HTTP_X_HEADRACE_CONSOLE") != "1":
        return RightsRefusal(403, "the header 'X-Headrace-Console: 1' is needed here")
    if not rules.key:
        if is_local(environ):
            return (LOOK, ACT)
        return (LOOK,) if rules.is_open else ()
    given = bearer_of(environ)
    if not given or not same_key(given, rules.key):
        return RightsRefusal(401, "this console needs its key", wrong_key=bool(given))
    return (LOOK, ACT, SAVE) if rules.mode == "edit" else (LOOK, ACT)


def is_local(environ: Mapping[str, Any]) -> bool:
    """Whether a program of this machine asks, and that no proxy says that it asks for somebody else."""
    return is_loopback(environ.get("REMOTE_ADDR", "")) and not any(mark in environ for mark in _PROXY_MARKS)


def _source(rules: Rules, environ: Mapping[str, Any], place: Place) -> RightsRefusal | None:
    """What is wrong with where a request comes from."""
    host = environ.get("HTTP_HOST", "")
    if not rules.access.allows_host(host):
        way = f"--cors-origin https://{host} opens it"
        return RightsRefusal(
            403, f"host {host!r} is not allowed: this server answers local names only; {way}"
        )
    if host and not rules.key and not rules.access.knows_host(host):
        way = f"--console-key or --cors-origin https://{host} opens it"
        return RightsRefusal(
            403, f"host {host!r} is not allowed: without a key the console answers local names only; {way}"
        )
    origin = environ.get("HTTP_ORIGIN")
    if origin is not None and not _allows_origin(rules, origin, host):
        return RightsRefusal(403, f"origin {origin!r} is not allowed: only the console's own page may ask")
    if not _is_own_fetch(environ, place):
        return RightsRefusal(403, "a page of another site asked; only the console's own page may")
    return None


def _allows_origin(rules: Rules, origin: str, host: str) -> bool:
    if rules.key and origin.lower() in rules.access.cors_origins and origin != "*":
        return True
    scheme, _, place = origin.lower().partition("://")
    default = _PORTS.get(scheme)
    if default is None or not place:
        return False
    return _with_port(place, default) == _with_port(host.lower(), default)


def _with_port(place: str, default: int) -> tuple[str, int] | str:
    """`name[:port]` as name and port; a place that has no such form stays itself."""
    try:
        parts = urlsplit(f"//{place}")
        port = parts.port or default
    except ValueError:
        return place
    name = parts.hostname
    return (name, port) if name and parts.netloc == place and "@" not in place else place


def _is_own_fetch(environ: Mapping[str, Any], place: Place) -> bool:
    """What browsers say of who asks (Fetch Metadata). A link from elsewhere may lead to the page."""
    if environ.get("HTTP_SEC_FETCH_SITE", "none") in ("same-origin", "none"):
        return True
    mode, target = environ.get("HTTP_SEC_FETCH_MODE"), environ.get("HTTP_SEC_FETCH_DEST")
    return place == "page" and mode == "navigate" and target == "document"
