"""Presets in a pack. A preset file holds the names of one kind of backend, and the one who unpacks may have
another kind: so a pack has a preset for each kind that its author has, and one is made of it for the rest.

Source: spec workbench.md 17, backends.md 4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from Middleware.common.errors import ConfigError
from Middleware.config import paths
from Middleware.config.endpoints import API_TYPE_KEYS, EndpointConfig, load_endpoint
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


def presets_asked(
    snapshot: ConfigSnapshot, user: UserSettings, walk: UserWalk
) -> Iterator[tuple[str, EndpointConfig, str]]:
    """(file, endpoint, preset) of each place of a user's files that asks a model with a preset."""
    asked = [
        (use.file, known_text(use.endpoint, use.variables), known_text(use.preset, use.variables))
        for use in walk.model_uses()
    ]
    for file, name, preset in dict.fromkeys([*asked, *walk.presets_followed]):
        if not name or not preset:
            continue
        try:
            yield file, load_endpoint(snapshot, user, name), preset
        except ConfigError:
            continue  # the walk says so


def preset_files_of(snapshot: ConfigSnapshot, user: UserSettings, walk: UserWalk) -> dict[str, bytes]:
    """Path below the config root -> bytes of the presets that the user reaches, for each kind of backend."""
    found: dict[str, bytes] = {}
    for _, endpoint, preset in presets_asked(snapshot, user, walk):
        try:
            samplers = load_samplers(snapshot, user, endpoint, preset)
        except ConfigError:
            continue  # the walk says so
        if samplers.canonical:  # they stand in an endpoint file, which stays here
            native = translate(samplers.block, endpoint.api_type, of=preset)
            found[paths.preset_files(user, endpoint.preset_type, preset)[1]] = json_bytes(native)
            continue
        file = snapshot.first(paths.preset_files(user, endpoint.preset_type, preset)) or ""
        _, rest = _kind_and_rest(file)
        for kind in snapshot.folders(PRESETS):
            if snapshot.exists(same := f"{PRESETS}/{kind}/{rest}"):
                found[same] = snapshot.text(same)
        found[file] = snapshot.text(file)
    return found


def fitting_presets(
    snapshot: ConfigSnapshot,
    packed: Mapping[str, bytes],
    asked: Iterable[tuple[EndpointConfig, str]],
    user: UserSettings,
    new_user: UserSettings,
) -> Iterator[tuple[str, bytes, str]]:
    """The presets that a machine needs for these endpoints: (path, bytes, what was lost, or empty).

    `packed`: the config files of a pack of `user`, who is to be `new_user`; `asked`: endpoints of the
    machine, each with the name of a preset. One that neither the pack nor the machine has for a kind is made
    of the pack's first.
    """
    by_rest: dict[str, dict[str, bytes]] = {}
    for file, raw in packed.items():
        if file.startswith(f"{PRESETS}/"):
            kind, rest = _kind_and_rest(file)
            by_rest.setdefault(rest.casefold(), {})[kind] = raw
    wanted = {
        paths.preset_files(user, endpoint.preset_type, preset): (endpoint, preset)
        for endpoint, preset in asked
    }
    for files, (endpoint, preset) in sorted(wanted.items()):
        found = {file: by_rest.get(_kind_and_rest(file)[1].casefold(), {}) for file in files}
        own_kind = endpoint.preset_type.casefold()
        same = [
            (f, raw)
            for f, kinds in found.items()
            for kind, raw in kinds.items()
            if kind.casefold() == own_kind
        ]
        others = [(f, *one) for f, kinds in found.items() for one in sorted(kinds.items())]
        if same:
            yield *same[0], ""
        elif others and snapshot.first(paths.preset_files(new_user, endpoint.preset_type, preset)) is None:
            file, source, raw = others[0]
            native, lost = _translated(snapshot, parse(raw, file), source, endpoint)
            left_out = f", without {', '.join(lost)}" if lost else ""
            yield file, json_bytes(native), f"made of that for {source}{left_out}"


def _kind_and_rest(file: str) -> tuple[str, str]:
    """Of a preset file: the folder of its kind, and its name below."""
    kind, _, rest = file.removeprefix(f"{PRESETS}/").partition("/")
    return kind, rest


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
        if str(api_type.get("presetType")).casefold() == kind.casefold() and api_type.get(_FIELDS):
            fields: Mapping[str, str] = API_TYPE_KEYS[_FIELDS].value_in(api_type, _FIELDS)
            return fields
    return {}
