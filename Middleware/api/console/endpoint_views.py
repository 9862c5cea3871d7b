"""The endpoints of the served users: how they are, and a call to see it.

Source: spec console.md 10 and workbench.md 16.3.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from Middleware.api.console.hour import MOST_CALLS, Call, medians_of
from Middleware.api.console.model_name_views import names_that_run
from Middleware.api.console.view_contract import ApiRoute, Ask, Hub, NotNow, ViewRefused
from Middleware.common.errors import ConfigError
from Middleware.common.secrets import is_secret_header, secrets_of_header, secrets_of_url
from Middleware.common.types import JsonObject
from Middleware.config.endpoints import (
    EMBEDDING_TYPES,
    EndpointConfig,
    endpoint_names,
    load_endpoint,
    secrets_in_use,
)
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.paths import endpoint_file, endpoint_folder
from Middleware.config.users import UserSettings, load_user
from Middleware.llmapis.addresses import outages, servers_of
from Middleware.llmapis.call.call_arguments import HandlerSettings
from Middleware.llmapis.endpoint_probe import is_well, line, probes, step_after
from Middleware.llmapis.failover import endpoint_gate
from Middleware.llmapis.handlers.backends import BACKENDS
from Middleware.utilities.config_masks import Mask, mask_of
from Middleware.workflows.checks.endpoint_check import with_backups
from Middleware.workflows.checks.user_walk import UserWalk

# --------------------------------------------------------------------------
# How an endpoint is, seen from its latest calls. Pure. Source: spec console.md 10.


class Health(NamedTuple):
    """`state`: `well`, `failing`, `quiet`. `since`: the first of the unbroken row of such calls, None without
    one. `failure`: the newest that failed."""

    state: str
    since: float | None
    failure: Call | None


def health_of(calls: Sequence[Call]) -> Health:
    """Of calls, oldest first; one that was broken off says nothing of its endpoint."""
    telling = [call for call in calls if call.ok is not None]
    failure = next((call for call in reversed(telling) if not call.ok), None)
    if not telling:
        return Health("quiet", None, failure)
    newest = since = telling[-1]
    for call in reversed(telling):
        if call.ok != newest.ok:
            break
        since = call
    return Health("well" if newest.ok else "failing", since.unix, failure)


def failing_count(hub: Hub) -> int:
    """How many files of endpoints fail now, as `health_of` the calls of all their users says. The page asks
    for it with every state: no file is read unless a call failed."""
    calls = hub.hour.newest_calls()
    if all(call.ok for call in calls.values()):
        return 0
    snapshot, served = hub.snapshot(), hub.served_users()
    newest: dict[str, Call] = {}
    for (user, name), call in calls.items():
        with suppress(ConfigError):
            file = file_of(snapshot, load_user(snapshot, user), name) if user in served else ""
            if file and snapshot.exists(file) and (file not in newest or newest[file].unix < call.unix):
                newest[file] = call
    return sum(not call.ok for call in newest.values())


# --------------------------------------------------------------------------

MOST_MODELS = 200


BROKEN = "config_error"
"""The kind of failure of a file that cannot be read."""
_STATES = ("failing", "well", "quiet")
"""In the order in which cards stand."""


class Reached(NamedTuple):
    """An endpoint of a user. `users`: the workflows that name it, or the one that it backs."""

    user: UserSettings
    name: str
    users: list[str]


def endpoints(ask: Ask) -> JsonObject:
    """GET `endpoints` (10): each file once, those that fail first, those that nobody called last."""
    ask.words()
    snapshot = ask.hub.snapshot()
    by_file: dict[str, list[Reached]] = {}
    for name in ask.hub.served_users():
        for one in _endpoints_of(snapshot, name):
            by_file.setdefault(file_of(snapshot, one.user, one.name), []).append(one)
    told = [_endpoint_json(ask, snapshot, file, ones) for file, ones in by_file.items()]
    down = {card["url"] for card in told if card["state"] == "failing"} - {""}
    for card, ones in zip(told, by_file.values(), strict=True):
        would_fail = card["state"] == "failing" or (card["state"] == "quiet" and card["url"] in down)
        card["affects"] = list(_affected(snapshot, ones)) if would_fail or _is_broken(card) else []
    return {"endpoints": sorted(told, key=_place)}


def _place(told: JsonObject) -> tuple[int, str, str]:
    """Where a card stands; one whose file is broken has failed before it was called."""
    return 0 if _is_broken(told) else _STATES.index(told["state"]), told["name"], told["file"]


def _is_broken(told: JsonObject) -> bool:
    error = told["last_error"]
    return error is not None and error["kind"] == BROKEN


def file_of(snapshot: ConfigSnapshot, user: UserSettings, name: str) -> str:
    """The file of an endpoint, as it is spelled on disk; one that cannot be read has it too."""
    try:
        return load_endpoint(snapshot, user, name).file
    except ConfigError:
        wanted = endpoint_file(user, name)
        return snapshot.find(wanted) or wanted


def reachable_endpoints(snapshot: ConfigSnapshot, user_name: str) -> Iterator[Reached]:
    """What one user's workflows reach, backups too; nothing for a user whose file cannot be read."""
    try:
        user = load_user(snapshot, user_name)
    except ConfigError:
        return  # the page of the workflows says what is wrong with it
    walk = UserWalk(snapshot, user)
    given: set[str] = set()
    for first in walk.endpoints():
        files = list(walk.endpoint_users.get(first, ()))
        for name in with_backups(snapshot, user, [first]):
            if name not in given:
                given.add(name)
                yield Reached(user, name, list(walk.endpoint_users.get(name, files)))


def _endpoints_of(snapshot: ConfigSnapshot, user_name: str) -> Iterator[Reached]:
    """What a user's workflows reach, and the other files of the folder, which no workflow leads to yet."""
    reached = list(reachable_endpoints(snapshot, user_name))
    yield from reached
    with suppress(ConfigError):
        user = load_user(snapshot, user_name)
        names = {one.name for one in reached}
        for name in endpoint_names(snapshot, endpoint_folder(user)):
            if name not in names:
                yield Reached(user, name, [])


def _endpoint_json(ask: Ask, snapshot: ConfigSnapshot, file: str, ones: Sequence[Reached]) -> JsonObject:
    """One file, whoever uses it: its health is that of all their calls. Source: spec workbench.md 16.3."""
    one, keys = ones[0], [(each.user.name, each.name) for each in ones]
    made = sorted((call for key in keys for call in ask.hub.hour.calls(*key)), key=lambda call: call.unix)
    calls = made[-MOST_CALLS:]
    health = health_of(calls)
    try:
        endpoint: EndpointConfig | None = load_endpoint(snapshot, one.user, one.name)
        wrong = ""
    except ConfigError as error:
        endpoint, wrong = None, str(error)
    return {
        "user": one.user.name,
        "name": one.name,
        "users": [each.user.name for each in ones],
        **_facts(ask, endpoint, file),
        "state": health.state,
        "since": health.since,
        "last_error": _last_error(ask, health, endpoint, wrong),
        "addresses": _addresses(ask, endpoint, calls) if endpoint else [],
        "calls": [[call.unix, call.first_s, call.rate, call.ok] for call in calls if call.ok is not None],
        "median": medians_of(calls),
        "held": ask.hub.hour.held_share(*keys),
        "used_by": list(dict.fromkeys(user for each in ones for user in each.users)),
        "probe": max(
            filter(None, map(ask.hub.probes.last, keys)), key=lambda probe: probe["at"], default=None
        ),
    }


def _affected(snapshot: ConfigSnapshot, ones: Sequence[Reached]) -> Iterator[JsonObject]:
    """`{"user", "names"}`: whose requests of which model names may need it."""
    for user, name, files in ones:
        callers = UserWalk(snapshot, user).callers_of(files)
        names = list(names_that_run(snapshot, user.name, callers, name))
        if names:
            yield {"user": user.name, "names": names}


def _facts(ask: Ask, endpoint: EndpointConfig | None, file: str) -> JsonObject:
    """What its file says; empty for one that cannot be read."""
    return {
        "file": endpoint.file if endpoint else file,
        "type": endpoint.api_type_name if endpoint else "",
        "backend": endpoint.type if endpoint else "",
        "url": mask_endpoint(ask, endpoint)(_address(endpoint)) if endpoint else "",
        "model": endpoint.model if endpoint else "",
        "embeddings": endpoint is not None and endpoint.type in EMBEDDING_TYPES,
        "gate": _gate(endpoint) if endpoint else None,
    }


def _address(endpoint: EndpointConfig) -> str:
    """Empty for a backend that stays inside this program, whatever its file says."""
    backend = BACKENDS.get(endpoint.type)
    calls = backend is None or backend(HandlerSettings(endpoint))._get_api_endpoint_url()
    return endpoint.url if calls else ""


def shown_addresses(endpoint: EndpointConfig) -> list[str]:
    """Where its server is, without secrets; empty for a backend that stays inside this program."""
    mask = mask_of((*secrets_in_use(), *_secrets(endpoint)))
    return [mask(url) for url in endpoint.addresses] if _address(endpoint) else []


def _addresses(ask: Ask, endpoint: EndpointConfig, calls: Sequence[Call]) -> list[JsonObject]:
    """Of an endpoint with several: how each is; empty for one address. `running`: calls of all processes.
    `out_s`: seconds for which it is left out, 0 for one that is in."""
    if len(endpoint.addresses) < 2 or not _address(endpoint):
        return []
    under_way = servers_of(endpoint).under_way()
    return [
        _address_json(ask, endpoint, url, [call for call in calls if call.address == url])
        | {"running": under_way[url], "out_s": round(outages().left_s(url), 1)}
        for url in endpoint.addresses
    ]


def _address_json(ask: Ask, endpoint: EndpointConfig, url: str, calls: Sequence[Call]) -> JsonObject:
    health = health_of(calls)
    return {
        "url": mask_endpoint(ask, endpoint)(url),
        "state": health.state,
        "since": health.since,
        "calls": sum(call.ok is not None for call in calls),
        "failed": sum(call.ok is False for call in calls),
    }


def _gate(endpoint: EndpointConfig) -> JsonObject | None:
    """Of several addresses the sums."""
    if len(endpoint.addresses) > 1:
        servers = servers_of(endpoint)
        if servers.limit is None:
            return None
        gates = [servers.gate(url) for url in servers.urls]
        return {
            "limit": servers.limit * len(gates),
            "running": sum(gate.held_slots for gate in gates),
            "waiting": sum(gate.waiting for gate in gates),
        }
    gate = endpoint_gate(endpoint)
    if gate is None:
        return None
    return {"limit": gate.limit, "running": gate.held_slots, "waiting": gate.waiting}


def _last_error(ask: Ask, health: Health, endpoint: EndpointConfig | None, wrong: str) -> JsonObject | None:
    """The newest failure; of a file that cannot be read what is wrong with it now."""
    if wrong:
        text = mask_endpoint(ask)(wrong)
        return {
            "at": round(time.time(), 3),
            "kind": BROKEN,
            "text": text,
            "advice": "correct the file",
        }
    failure = health.failure
    if failure is None or endpoint is None:
        return None
    return {
        "at": failure.unix,
        "kind": failure.kind,
        "text": mask_endpoint(ask, endpoint)(failure.text),
        "advice": step_after(failure.kind, endpoint),
    }


def mask_endpoint(ask: Ask, endpoint: EndpointConfig | None = None) -> Mask:
    """Hides the keys of the server, what configs took from the environment, and those of an endpoint."""
    of_endpoint = _secrets(endpoint) if endpoint is not None else ()
    return mask_of((*ask.hub.secrets, *secrets_in_use(), *of_endpoint))


def _secrets(endpoint: EndpointConfig) -> Iterator[str]:
    """The key, what an address holds, and the values of headers that may hold a key.

    A variable that is not set holds nothing to hide.
    """
    for url in endpoint.addresses:
        yield from secrets_of_url(url)
    with suppress(ConfigError):
        yield endpoint.api_key
    headers = dict(endpoint.written_headers)
    with suppress(ConfigError):
        headers = endpoint.extra_headers
    for name, value in headers.items():
        if is_secret_header(name, endpoint.written_headers[name]):
            yield from secrets_of_header(str(value))


def post_probe(ask: Ask, user: str, name: str) -> JsonObject:
    """POST `endpoints/<user>/<name>/probe`: the doctor's look at one endpoint (10)."""
    ask.words()
    ask.no_fields()
    snapshot = ask.hub.snapshot()
    users = ask.hub.served_users()
    settings = _owner(snapshot, user, name) if user in users else None
    if settings is None:
        raise ViewRefused(
            404, "no such endpoint: no workflow of a served user uses it, and none has its file"
        )
    try:
        return ask.hub.probes.run((user, name), lambda: _probe_json(ask, settings, name))
    except NotNow as wait:
        raise ViewRefused(429, str(wait), {"Retry-After": str(math.ceil(wait.wait_s))}) from wait


def _owner(snapshot: ConfigSnapshot, user_name: str, name: str) -> UserSettings | None:
    """The user, if there is such an endpoint: one that is reached, or a file in the folder, which a workflow
    may name later."""
    one = next((one for one in reachable_endpoints(snapshot, user_name) if one.name == name), None)
    if one is not None:
        return one.user
    try:
        user = load_user(snapshot, user_name)
    except ConfigError:
        return None
    return user if name in endpoint_names(snapshot, endpoint_folder(user)) else None


def _probe_json(ask: Ask, user: UserSettings, name: str) -> JsonObject:
    """What the endpoint shows, in the doctor's words."""
    result: dict[str, Any] = {"at": round(time.time(), 3)}
    try:
        seen, *others = probes(ask.hub.snapshot(), user, name)
    except (ConfigError, ValueError) as error:
        said = f"endpoint {name}: error: {mask_endpoint(ask)(str(error))}"
        symptom = BROKEN
        facts: JsonObject = {"others": [], "seconds": None, "model_is_listed": None, "models": []}
        return {"well": False, "line": said, "symptom": symptom, **facts, **result}
    return {
        "well": all(map(is_well, (seen, *others))),
        "line": mask_endpoint(ask, seen.endpoint)(line(seen)),
        "others": [mask_endpoint(ask, seen.endpoint)(line(other)) for other in others],
        "symptom": seen.symptom,
        "seconds": round(seen.seconds, 3) if seen.error is None else None,
        "model_is_listed": seen.model_is_listed,
        "models": list(seen.models or ())[:MOST_MODELS],
        **result,
    }


ROUTES = (
    ApiRoute("GET", "endpoints", "look", endpoints),
    ApiRoute("POST", "endpoints/<user>/<name>/probe", "act", post_probe),
)
