"""Presets in a pack. A preset file holds the names of one kind of backend, and the one who unpacks may have
another kind: so a pack has a preset for each kind that its author has, and one is made of it for the rest.

Source: spec workbench.md 17, backends.md 4.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from Middleware.common.errors import ConfigError
from Middleware.config import paths
from Middleware.config.endpoints import API_TYPE_KEYS, EMBEDDING_TYPES, EndpointConfig, load_endpoint
from Middleware.config.json_positions import parse
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.samplers import load_samplers
from Middleware.config.users import UserSettings
from Middleware.llmapis.sampler_translation import translate
from Middleware.utilities.config_text import json_bytes
from Middleware.workflows.checks.user_walk import UserWalk
from Middleware.workflows.checks.workflow_graph import known_text

PRESETS = "Presets"
_FIELDS = "samplerFieldMap"


def preset_files_of(snapshot: ConfigSnapshot, user: UserSettings, walk: UserWalk) -> dict[str, bytes]:
    """Path below the config root -> bytes of the presets that the user reaches, for each kind of backend."""
    found: dict[str, bytes] = {}
    for use in walk.model_uses():
        endpoint_name = known_text(use.endpoint, use.variables)
        preset = known_text(use.preset, use.variables)
        if not endpoint_name or not preset:
            continue
        try:
            endpoint = load_endpoint(snapshot, user, endpoint_name)
            samplers = load_samplers(snapshot, user, endpoint, preset)
        except ConfigError:
            continue  # the walk says so
        if samplers.canonical:  # they stand in an endpoint file, which stays here
            native = translate(samplers.block, endpoint.api_type, of=preset)
            found[paths.preset_files(user, endpoint.preset_type, preset)[1]] = json_bytes(native)
            continue
        file = snapshot.first(paths.preset_files(user, endpoint.preset_type, preset)) or ""
        rest = file.removeprefix(f"{PRESETS}/{endpoint.preset_type}/")
        for kind in snapshot.folders(PRESETS):
            if snapshot.exists(same := f"{PRESETS}/{kind}/{rest}"):
                found[same] = snapshot.text(same)
        found[file] = snapshot.text(file)
    return found


def fitting_presets(
    snapshot: ConfigSnapshot, packed: Mapping[str, bytes], endpoints: Mapping[str, EndpointConfig]
) -> Iterator[tuple[str, bytes, str]]:
    """The presets that a machine needs for these endpoints: (path, bytes, what was lost, or empty).

    `packed`: the config files of a pack. A preset that neither the pack nor the machine has for a kind is
    made of the pack's first.
    """
    by_rest: dict[str, dict[str, bytes]] = {}
    for file, raw in packed.items():
        if file.startswith(f"{PRESETS}/"):
            kind, _, rest = file.removeprefix(f"{PRESETS}/").partition("/")
            by_rest.setdefault(rest, {})[kind] = raw
    kinds = {one.preset_type: one for one in endpoints.values() if one.type not in EMBEDDING_TYPES}
    for rest, by_kind in sorted(by_rest.items()):
        for kind, endpoint in sorted(kinds.items()):
            file = f"{PRESETS}/{kind}/{rest}"
            if kind in by_kind:
                yield file, by_kind[kind], ""
            elif not snapshot.exists(file):
                source, raw = min(by_kind.items())
                document = parse(raw, f"{PRESETS}/{source}/{rest}")
                native, lost = _translated(snapshot, document, source, endpoint)
                left_out = f", without {', '.join(lost)}" if lost else ""
                yield file, json_bytes(native), f"made of that for {source}{left_out}"


def _translated(
    snapshot: ConfigSnapshot, document: Mapping[str, Any], source: str, endpoint: EndpointConfig
) -> tuple[dict[str, Any], list[str]]:
    """A preset in the names of another kind of backend, and the names of what that one doesn't know."""
    canonical_of = {native: name for name, native in _fields_of_kind(snapshot, source).items()}
    known = API_TYPE_KEYS[_FIELDS].value_in(endpoint.api_type, _FIELDS)
    fit = {key: canonical_of[key] for key in document if canonical_of.get(key) in known}
    native = {known[name]: document[key] for key, name in fit.items()}
    return native, sorted(set(document) - set(fit))


def _fields_of_kind(snapshot: ConfigSnapshot, kind: str) -> Mapping[str, str]:
    """The names of samplers for a kind of presets, as the first API type of that kind that has some says."""
    for name in snapshot.files("ApiTypes"):
        try:
            api_type = snapshot.read(paths.api_type_file(name))
        except ConfigError:
            continue
        if api_type.get("presetType") == kind and api_type.get(_FIELDS):
            fields: Mapping[str, str] = API_TYPE_KEYS[_FIELDS].value_in(api_type, _FIELDS)
            return fields
    return {}
