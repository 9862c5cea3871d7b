"""Find servers: which model servers answer, and an endpoint file for one of them. Nothing is asked but by a
click. Source: spec workbench.md 6.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from Middleware.api.console.file_views import make, refuse_links, refuse_name
from Middleware.api.console.view_contract import NO_FILE, ApiRoute, Ask, NotNow, Reply, ViewRefused
from Middleware.common.errors import ConfigError
from Middleware.common.types import JsonObject
from Middleware.config.endpoints import address_fault, load_endpoint
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.paths import endpoint_folder, is_flat_name
from Middleware.config.users import load_user
from Middleware.config.validation import describe_value
from Middleware.llmapis.find_servers import (
    DEMO_TYPE,
    SPACING_S,
    FoundServer,
    addresses_to_ask,
    own_files_that_use,
    search_addresses,
)
from Middleware.llmapis.found_endpoints import (
    CONTAINER_MARK,
    HOST_OF_CONTAINER,
    endpoint_document,
    is_variable_name,
    key_variable_of,
    likely_model,
)
from Middleware.utilities.config_text import json_bytes
from Middleware.workflows.checks.user_walk import UserWalk

MOST_MODELS = 200
"""Names of one server that are told."""


def find_hosts(ask: Ask) -> JsonObject:
    """GET `find`: `{"hosts", "folders", "demo"}`: what stands in the field for hosts, the folders that a new
    endpoint file can go to with their users, and the files that play the built-in model. Asks nobody."""
    ask.words()
    snapshot = ask.hub.snapshot()
    folders = list(_folders(snapshot, ask.hub.served_users()))
    return {
        "hosts": [HOST_OF_CONTAINER] if CONTAINER_MARK.exists() else [],
        "folders": [{"folder": one.folder, "user": one.user} for one in folders],
        "demo": list(_demo_files(snapshot, ask.hub.served_users())),
    }


def post_find(ask: Ask) -> JsonObject:
    """POST `find`: this machine at the usual ports, and the hosts of the body."""
    ask.words()
    hosts = ask.fields(hosts=list)["hosts"]
    for host in hosts:
        if not isinstance(host, str):
            raise ViewRefused(400, f"hosts: found {describe_value(host)}, allowed: a text")
    try:
        asked = addresses_to_ask(hosts, own_ports(ask))
    except ValueError as error:
        raise ViewRefused(400, f"hosts: {error}") from error
    try:
        ask.hub.searches.begin(SPACING_S)
    except NotNow as wait:
        raise ViewRefused(429, str(wait), {"Retry-After": str(math.ceil(wait.wait_s))}) from wait
    search = search_addresses(asked)
    snapshot = ask.hub.snapshot()
    return {
        "servers": [_server_json(snapshot, server) for server in search.servers],
        "asked": list(search.asked),
        "took_s": round(search.took_s, 3),
    }


def own_ports(ask: Ask) -> tuple[int, ...]:
    """Where this server itself answers."""
    port = str(ask.environ.get("SERVER_PORT", ""))
    return (int(port),) if port.isascii() and port.isdigit() else ()


def _server_json(snapshot: ConfigSnapshot, server: FoundServer) -> JsonObject:
    return {
        "kind": server.kind,
        "version": server.version or None,
        "url": server.url,
        "models": list(server.models[:MOST_MODELS]),
        "used_by": own_files_that_use(snapshot, server.url),
        "api_type": server.api_type or None,
        "wants_key": server.wants_key,
        "model": likely_model(server.models) or None,
        "key_env": key_variable_of(server.url) if server.wants_key else None,
        "file": _file_text(server),
    }


def _file_text(server: FoundServer) -> str | None:
    """The file that `Use` would write, for those who write it by hand; None for another Headrace."""
    if not server.api_type:
        return None
    key = {"apiKeyEnv": key_variable_of(server.url)} if server.wants_key else None
    return json_bytes(
        endpoint_document(server.url, server.api_type, likely_model(server.models), key)
    ).decode()


# --------------------------------------------------------------------------
# A new endpoint file.


class _Folder(NamedTuple):
    folder: str
    user: str


def _folders(snapshot: ConfigSnapshot, users: Iterable[str]) -> Iterator[_Folder]:
    """Where the served users' endpoints are, each folder once with its first user."""
    seen: set[str] = set()
    for name in users:
        try:
            folder = endpoint_folder(load_user(snapshot, name)).rstrip("/")
        except ConfigError:  # its page says what is wrong with it
            continue
        if folder not in seen:
            seen.add(folder)
            yield _Folder(folder, name)


def _demo_files(snapshot: ConfigSnapshot, users: Iterable[str]) -> Iterator[str]:
    """The endpoint files that the users' workflows reach and that answer without a server."""
    seen: set[str] = set()
    for name in users:
        try:
            user = load_user(snapshot, name)
            found = [load_endpoint(snapshot, user, each) for each in UserWalk(snapshot, user).endpoints()]
        except ConfigError:
            continue
        for endpoint in found:
            if endpoint.api_type_name == DEMO_TYPE and endpoint.file not in seen:
                seen.add(endpoint.file)
                yield endpoint.file


def post_endpoint(ask: Ask) -> Reply:
    """POST `endpoints`: a new file. 404 for a folder that is no served user's, 409 where it is."""
    ask.words()
    fields = ask.fields(path=str, url=str, api_type=str, model=str, key_env=str | None)
    snapshot = ask.hub.snapshot()
    path = fields["path"]
    folder, _, name = path.removesuffix(".json").rpartition("/")
    owner = next((one for one in _folders(snapshot, ask.hub.served_users()) if one.folder == folder), None)
    if owner is None or not path.endswith(".json") or not all(map(is_flat_name, path.split("/"))):
        raise ViewRefused(404, NO_FILE)
    refuse_name(path)
    refuse_links(snapshot.root, folder)
    raw = json_bytes(_checked_document(snapshot, fields))
    make(snapshot, path, raw)
    return Reply({"path": path, "user": owner.user, "name": name}, 201)


def _checked_document(snapshot: ConfigSnapshot, fields: JsonObject) -> JsonObject:
    """Raises Refused (422) for an address that is none, a type that is not there, and a variable that has no
    such name: it is a key."""
    if why := address_fault(fields["url"]):
        raise ViewRefused(422, f"url: {why}", problems=[])
    types = snapshot.files("ApiTypes")
    if fields["api_type"] not in types:
        found = describe_value(fields["api_type"])
        raise ViewRefused(422, f"api_type: found {found}, allowed: {', '.join(types)}", problems=[])
    variable = fields["key_env"]
    if variable is not None and not is_variable_name(variable):
        said = (
            "key_env: allowed: the name of an environment variable, such as MODEL_API_KEY, not the key itself"
        )
        raise ViewRefused(422, said, problems=[])
    key = None if variable is None else {"apiKeyEnv": variable}
    return endpoint_document(fields["url"], fields["api_type"], fields["model"], key)


FIND_ROUTES = (
    ApiRoute("GET", "find", "look", find_hosts),
    ApiRoute("POST", "find", "act", post_find),
    ApiRoute("POST", "endpoints", "save", post_endpoint),
)
