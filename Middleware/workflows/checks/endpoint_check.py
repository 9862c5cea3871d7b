"""Where the names in endpoint and API type files lead. Resolves no host name and calls no backend."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Iterator
from urllib.parse import urlsplit

from Middleware.common.errors import ConfigError, ConfigMissing
from Middleware.config import paths, validation
from Middleware.config.endpoints import (
    EMBEDDING_TYPES,
    EndpointConfig,
    address_fault,
    endpoint_names,
    load_endpoint,
)
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.machines import machine_names
from Middleware.config.named_files import load_prompt_template
from Middleware.config.samplers import load_samplers
from Middleware.config.users import UserSettings
from Middleware.config.validation import ERROR, NOTE, WARNING, Finding
from Middleware.llmapis.dialects.model_lists import ends_in_openai_route
from Middleware.llmapis.dialects.prompt_caching import CacheMark
from Middleware.llmapis.handlers import impl
from Middleware.llmapis.handlers.backends import BACKENDS

BACKEND_HANDLERS = impl.__name__
"""The package that fills the table of backends; imported for that."""

_LOCAL_ENDINGS = (".local", ".lan", ".internal", ".home", ".localhost", ".home.arpa")


def all_findings(snapshot: ConfigSnapshot, users: Iterable[UserSettings]) -> list[Finding]:
    """The endpoints of every folder (as its users see them) and the types of all API types."""
    by_folder = {paths.endpoint_folder(user): user for user in users}
    findings: list[Finding] = []
    for folder in ["", *_folders(snapshot, "")]:
        user = by_folder.get(f"Endpoints/{folder}") or UserSettings(
            "", endpoint_configs_sub_directory=folder.rstrip("/"), preset_configs_sub_directory_override="-"
        )
        for name in endpoint_names(snapshot, f"Endpoints/{folder}"):
            findings += endpoint_findings(snapshot, user, name)
    for name in snapshot.files("ApiTypes"):
        findings += api_type_findings(snapshot, name)
    return [*findings, *machine_findings(snapshot)]


def machine_findings(snapshot: ConfigSnapshot) -> Iterator[Finding]:
    """A warning for each machine in Machines.json that no endpoint names."""
    try:
        machines = machine_names(snapshot)
    except ConfigError:
        return
    named = set(models_of_machines(snapshot)) if machines else set()
    for machine in machines:
        if machine not in named:
            near = validation.nearest(machine, sorted(named))
            hint = f" (did you mean {near!r}?)" if near else ""
            pointer = validation.json_pointer([machine])
            message = f"no endpoint has this machine in its `machine`{hint}"
            yield Finding(paths.MACHINES_FILE, pointer, WARNING, message)


def models_of_machines(snapshot: ConfigSnapshot) -> dict[str, set[str]]:
    """Machine -> the models (`model_on_machine`) of all endpoints that name it, whoever uses them. Faulty
    files are left out.
    """
    models: dict[str, set[str]] = {}
    for folder in ["", *_folders(snapshot, "")]:
        user = UserSettings("", endpoint_configs_sub_directory=folder.rstrip("/"))
        for name in endpoint_names(snapshot, f"Endpoints/{folder}"):
            try:
                endpoint = load_endpoint(snapshot, user, name)
            except ConfigError:
                continue
            if endpoint.machine:
                models.setdefault(endpoint.machine, set()).add(endpoint.model_on_machine)
    return models


def _folders(snapshot: ConfigSnapshot, below: str) -> Iterator[str]:
    for name in snapshot.folders(f"Endpoints/{below}"):
        yield f"{below}{name}/"
        yield from _folders(snapshot, f"{below}{name}/")


def api_type_findings(snapshot: ConfigSnapshot, name: str) -> Iterator[Finding]:
    """An error for a `type` that no backend has."""
    file = f"ApiTypes/{name}.json"
    try:
        kind = snapshot.read(file)["type"]
    except ConfigError:
        return
    yield from _type_findings(file, kind)


def _type_findings(file: str, kind: str) -> Iterator[Finding]:
    known = sorted({*BACKENDS, *EMBEDDING_TYPES})
    if kind not in known:
        near = validation.nearest(kind, known)
        hint = f" (did you mean {near!r}?)" if near else ""
        allowed = ", ".join(known)
        yield Finding(
            file, "/type", ERROR, f"found {validation.describe_value(kind)}, allowed: {allowed}{hint}"
        )


def endpoint_findings(snapshot: ConfigSnapshot, user: UserSettings, name: str) -> list[Finding]:
    """API type (and its backend), template, preset and backup of one endpoint."""
    file = next(filter(snapshot.exists, paths.endpoint_files(user, name)), paths.endpoint_file(user, name))
    try:
        endpoint = load_endpoint(snapshot, user, name)
    except ConfigMissing as error:
        return [Finding(file, error.pointer, ERROR, error.message)]
    except ConfigError:
        return []
    api_file = paths.api_type_file(endpoint.api_type_name)
    findings = list(
        _type_findings(snapshot.find(api_file, (file, "/apiTypeConfigFileName")) or api_file, endpoint.type)
    )
    findings += _address_findings(endpoint)
    findings += _more_address_findings(endpoint)
    template = endpoint.prompt_template
    if template:
        findings += missing_file_findings(
            snapshot, (file, "/promptTemplate"), lambda: load_prompt_template(snapshot, template)
        )
    if endpoint.append_preset_name:
        findings += missing_file_findings(
            snapshot, (file, "/appendPresetName"), lambda: load_samplers(snapshot, user, endpoint, None)
        )
    findings += _backup_findings(snapshot, user, endpoint)
    findings += _other_face_findings(endpoint)
    findings += _caching_findings(endpoint)
    return findings


def _address_findings(endpoint: EndpointConfig) -> list[Finding]:
    """An error for what is no address; the built-in demo has none."""
    why = address_fault(str(endpoint.raw.get("endpoint") or ""))
    calls_nobody = endpoint.type in BACKENDS and not BACKENDS[endpoint.type].calls_out
    return [Finding(endpoint.file, "/endpoint", ERROR, why)] if why and not calls_nobody else []


def _more_address_findings(endpoint: EndpointConfig) -> Iterator[Finding]:
    """An error for each further address that is none; a warning for one that is there twice, and for a public
    one behind a local one, which is never called without its flag. Source: prompt-reuse.md 7."""
    first = endpoint.url
    known = {first}
    for number, url in enumerate(endpoint.raw.get("moreEndpoints") or ()):
        pointer, bare = f"/moreEndpoints/{number}", str(url).strip().rstrip("/")
        if why := address_fault(str(url)):
            yield Finding(endpoint.file, pointer, ERROR, why)
        elif bare in known:
            yield Finding(endpoint.file, pointer, WARNING, f'"{url}" is there twice and counts once')
        elif is_remote(bare) and not is_remote(first) and not endpoint.allow_remote_backup:
            message = (
                f'"{url}" is not on a local network as `endpoint` is, and the file does not set '
                "`allowRemoteBackup`, so it is never called"
            )
            yield Finding(endpoint.file, pointer, WARNING, message)
        known.add(bare)


def missing_file_findings(
    snapshot: ConfigSnapshot, place: tuple[str, str], load: Callable[[], object]
) -> list[Finding]:
    """An error when what is loaded has no file; a file with faults of its own is told of at that file."""
    file, pointer = place
    try:
        with snapshot.spelling.named_at(file, pointer):
            load()
    except ConfigMissing as error:
        return [Finding(file, pointer, ERROR, error.message)]
    except ConfigError as error:
        return [] if error.file else [Finding(file, pointer, ERROR, error.message)]
    return []


def _other_face_findings(endpoint: EndpointConfig) -> Iterator[Finding]:
    """An Ollama type on the address of Ollama's OpenAI face. Source: backends.md 1."""
    if not endpoint.type.startswith("ollama"):
        return
    places = {"/endpoint": endpoint.url}
    places |= {f"/moreEndpoints/{number}": url for number, url in enumerate(endpoint.more_endpoints)}
    for pointer, url in places.items():
        if ends_in_openai_route(url):
            message = (
                f'"{url}" is an address for OpenAI types; Ollama types need it without `/v1`. '
                'Remove `/v1`, or use an OpenAI type such as "Open-AI-API"'
            )
            yield Finding(endpoint.file, pointer, WARNING, message)


def _caching_findings(endpoint: EndpointConfig) -> Iterator[Finding]:
    """A warning for each setting of a prompt cache that its API type cannot send. Source: prompt-reuse.md
    5.
    """
    known = BACKENDS[endpoint.type].cache_marks if endpoint.type in BACKENDS else ()
    api_type = endpoint.api_type_name
    if endpoint.prompt_caching != "off" and CacheMark.of(endpoint, known) is None:
        why = f'the API type "{api_type}" names no mark that its backend knows; set its `promptCacheMark` to '
        why = why + " or ".join(known) if known else f'the backend "{endpoint.type}" has no marks'
        message = f"has no effect, because {why}"
        yield Finding(endpoint.file, "/promptCaching", WARNING, message)
    if endpoint.prompt_cache_key and not endpoint.cache_key_name:
        message = f'has no effect, because the API type "{api_type}" names no `promptCacheKeyPropertyName`'
        yield Finding(endpoint.file, "/promptCacheKey", WARNING, message)


def _backup_findings(
    snapshot: ConfigSnapshot, user: UserSettings, endpoint: EndpointConfig
) -> Iterator[Finding]:
    """A backup that does not exist, one that leads back, and a remote one without its flag. Source:
    backends.md 15.6.
    """
    name, pointer = endpoint.backup_endpoint_name, "/backupEndpointName"
    if not name:
        return
    yield from missing_file_findings(
        snapshot, (endpoint.file, pointer), lambda: load_endpoint(snapshot, user, name)
    )
    chain = [endpoint.name]
    while name and name not in chain:
        chain.append(name)
        try:
            backup = load_endpoint(snapshot, user, name)
        except ConfigError:
            return
        if len(chain) == 2 and is_remote(backup.url) and not backup.allow_remote_backup:
            message = (
                f'"{name}" is not on a local network and its file does not set '
                "`allowRemoteBackup`, so it will be refused"
            )
            yield Finding(endpoint.file, pointer, WARNING, message)
        name = backup.backup_endpoint_name
    if name:
        yield Finding(
            endpoint.file, pointer, WARNING, f"the backups form a circle: {' > '.join([*chain, name])}"
        )


def reading_remarks(endpoint: EndpointConfig) -> Iterator[tuple[str, str]]:
    """(level, sentence) of what must be said of a node that has prompts read ahead by this endpoint. Source:
    prompt-reuse.md 6.
    """
    backend = BACKENDS.get(endpoint.type)
    if backend is not None and not backend.takes_messages:
        yield NOTE, f"has no effect: endpoint '{endpoint.name}' takes no messages"
    elif is_remote(endpoint.url):
        message = (
            f"endpoint '{endpoint.name}' is not on a local network: if you pay it by the token, you also "
            "pay for each prompt that is read ahead"
        )
        yield NOTE, message


def with_backups(snapshot: ConfigSnapshot, user: UserSettings, names: Iterable[str]) -> list[str]:
    """The names, each followed by the chain of its backups; each once."""
    found: list[str] = []
    for name in names:
        while name and name not in found:
            found.append(name)
            try:
                name = load_endpoint(snapshot, user, name).backup_endpoint_name
            except ConfigError:
                break
    return found


def is_remote(url: str) -> bool:
    """Whether a URL's host is surely public: a public address, or a full name outside the usual local
    domains.
    """
    try:
        host = (urlsplit(url).hostname or "").rstrip(".").lower()
    except ValueError:
        return False
    try:
        return ipaddress.ip_address(host).is_global
    except ValueError:
        return "." in host and not host.endswith(_LOCAL_ENDINGS)
