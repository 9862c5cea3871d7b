"""What unpacking a pack would write on this machine: which endpoints play its roles, how its names change,
and whether the result works. Nothing is written here.

Source: spec workbench.md 17.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from Middleware.common.errors import ConfigError, escape_controls
from Middleware.common.types import JsonObject
from Middleware.config import paths
from Middleware.config.drafts import drafts_snapshot
from Middleware.config.endpoints import EMBEDDING_TYPES, EndpointConfig, load_endpoint
from Middleware.config.json_positions import parse
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.samplers import embedded_samplers
from Middleware.config.users import UserSettings, load_user, settings_of
from Middleware.config.validation import ERROR, NOTE, Finding
from Middleware.services.pack_archive import CONFIG, SCRIPTS, Pack, PackRefused
from Middleware.utilities.config_text import json_bytes, with_values
from Middleware.workflows.checks.config_check import MASKED, check_users
from Middleware.workflows.checks.pack_contents import LEFT_OUT_KEYS
from Middleware.workflows.checks.pack_names import (
    CURL_TYPE,
    Renames,
    edits_of,
    imported_scripts,
    names_made_in_a_run,
    script_below,
    scripts_named,
    servers_named,
)
from Middleware.workflows.checks.pack_presets import PRESETS, fitting_presets, presets_asked
from Middleware.workflows.checks.user_walk import UserWalk
from Middleware.workflows.checks.workflow_check import node_places
from Middleware.workflows.checks.workflow_graph import known_text
from Middleware.workflows.handlers.node_types import known_type

PREFIX_ALLOWED = "up to 32 small letters, digits, - and _, a letter or digit first"
_PREFIX = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_EXAMPLES = "examples/"
"""Endpoints to copy from: they play no role."""
_SERVERS, _WORKFLOWS, _ROUTING, _USERS = "MCPServers/", "Workflows/", "Routing/", "Users/"
_TEMPLATES, _SCHEMAS = "PromptTemplates/", "StructuredOutputs/"
_SHARED = "_shared"
_STDIO = "stdio"


@dataclass(frozen=True, slots=True)
class Cast:
    """Who plays the roles of a pack. `folder`: below `Endpoints/`, with `/` at its end or empty; `names`:
    role -> endpoint of that folder.
    """

    folder: str
    names: Mapping[str, str]


@dataclass(slots=True)
class UnpackPlan:
    """What would be done. `files`: path below the config root -> bytes, the user file last; `scripts`: name
    below the folder of scripts -> bytes: all of them new. `unchanged`: what is there already, exactly so.
    `in_the_way`: what is there with another content. `remarks`: sentences.
    """

    user: str
    files: dict[str, bytes] = field(default_factory=dict)
    scripts: dict[str, bytes] = field(default_factory=dict)
    unchanged: list[str] = field(default_factory=list)
    in_the_way: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


# --------------------------------------------------------------------------
# Programs.


def programs_of(pack: Pack) -> list[str]:
    """Each thing in a pack that runs a program on this machine, in words. What the pack says of itself isn't
    asked.
    """
    told = [f"the script {name}" for name in sorted(pack.below(SCRIPTS))]
    for file, document in _documents(pack):
        if file.startswith(_SERVERS) and document.get("transport") == _STDIO:
            words = " ".join(map(str, [document.get("command"), *(document.get("args") or [])]))
            told.append(f"{file}: {words}")
        if file.startswith(_WORKFLOWS):
            own = document if isinstance(document, Mapping) else {}
            for place in node_places(file, document):
                if known_type(place.config.get("type")) == CURL_TYPE:
                    told.append(f"{file}, node {place.number}: curl")
                for _, written in scripts_named(place.config):
                    script = script_below(known_text(written, own) or "")
                    if SCRIPTS + (script or "") not in pack.files:
                        told.append(f"{file}, node {place.number}: {written}")
    return told


def _documents(pack: Pack) -> Iterator[tuple[str, Any]]:
    """The config files as values. Raises PackRefused for one that cannot be read."""
    for file, raw in pack.below(CONFIG).items():
        try:
            document = parse(raw, file)
        except ConfigError as error:
            raise PackRefused(f"{file} cannot be read: {error.message}") from error
        if not isinstance(document, dict | list) or (
            not isinstance(document, dict) and not file.startswith(_WORKFLOWS)
        ):
            raise PackRefused(f"{file} must be an object")
        yield file, document


# --------------------------------------------------------------------------
# Roles.


def endpoints_there(snapshot: ConfigSnapshot) -> dict[str, EndpointConfig]:
    """`folder/name` -> endpoint, of all that can be read and are no examples to copy from."""
    found: dict[str, EndpointConfig] = {}
    for folder in _endpoint_folders(snapshot, ""):
        user = settings_of("unpack", {"endpointConfigsSubDirectory": folder.rstrip("/")})
        names = {name.removesuffix(paths.EXAMPLE) for name in snapshot.files(f"Endpoints/{folder}")}
        for name in sorted(names):
            try:
                found[folder + name] = load_endpoint(snapshot, user, name)
            except ConfigError:
                continue  # `--validate` tells of it
    return found


def _endpoint_folders(snapshot: ConfigSnapshot, folder: str) -> Iterator[str]:
    yield folder
    for name in snapshot.folders(f"Endpoints/{folder}"):
        if f"{folder}{name}/" != _EXAMPLES:
            yield from _endpoint_folders(snapshot, f"{folder}{name}/")


def fits_role(endpoint: EndpointConfig, abilities: tuple[str, ...]) -> bool:
    """Whether an endpoint gives what a role is asked for: vectors, or texts."""
    return (endpoint.type in EMBEDDING_TYPES) == (abilities == ("embeddings",))


def candidates(
    pack: Pack, there: Mapping[str, EndpointConfig], wanted: Mapping[str, str]
) -> dict[str, list[str]]:
    """Role -> the endpoints that can play it, the best first. `wanted`: role -> name or `folder/name`, which
    is the only one then. Raises PackRefused where there is none.
    """
    found: dict[str, list[str]] = {}
    for role, abilities in pack.needs.roles.items():
        fit = [name for name, one in there.items() if fits_role(one, abilities)]
        if role in wanted:
            fit = [name for name in fit if wanted[role] in (name, name.rpartition("/")[2])]
        fit.sort(key=lambda name: name.rpartition("/")[2] != role)
        if not fit:
            what = f"{wanted[role]!r}, which" if role in wanted else "one that"
            known = ", ".join(there) or "none"
            raise PackRefused(
                f"no endpoint for the role {role} ({', '.join(abilities)}): needed is {what} gives "
                f"{'vectors' if abilities == ('embeddings',) else 'texts'}; there are: {known}"
            )
        found[role] = fit
    if unknown := sorted(set(wanted) - set(pack.needs.roles)):
        raise PackRefused(
            f"the pack has no role {unknown[0]!r}; it has: {', '.join(pack.needs.roles) or 'none'}"
        )
    return found


def cast_of(chosen: Mapping[str, str], folder: str = "") -> Cast:
    """The cast of role -> `folder/name`. Raises PackRefused where the endpoints aren't in one folder: a user
    has one folder of endpoints.
    """
    folders = {name.rpartition("/")[0] for name in chosen.values()}
    if len(folders) > 1:
        pairs = ", ".join(f"{role}={name}" for role, name in chosen.items())
        raise PackRefused(
            f"the endpoints {pairs} are in different folders, but a user has one folder of endpoints: "
            "copy one of the files, or choose others"
        )
    folder = folders.pop() if folders else folder
    return Cast(
        f"{folder}/" if folder else "", {role: name.rpartition("/")[2] for role, name in chosen.items()}
    )


def best_cast(found: Mapping[str, list[str]]) -> dict[str, str]:
    """Role -> `folder/name`: all from one folder where that can be, and with the names of the roles."""
    folders = list(dict.fromkeys(name.rpartition("/")[0] for names in found.values() for name in names))

    def names_in(folder: str) -> dict[str, str]:
        inside = {role: [n for n in names if n.rpartition("/")[0] == folder] for role, names in found.items()}
        return {role: names[0] for role, names in inside.items() if names}

    def by_name(folder: str) -> tuple[int, int]:
        there = names_in(folder)
        return len(there), sum(name.rpartition("/")[2] == role for role, name in there.items())

    best = names_in(max(folders, key=by_name)) if folders else {}
    return {role: best.get(role, names[0]) for role, names in found.items()}


# --------------------------------------------------------------------------
# The plan.


def plan_unpack(
    snapshot: ConfigSnapshot, pack: Pack, cast: Cast, prefix: str, scripts_there: Mapping[str, bytes]
) -> UnpackPlan:
    """What unpacking would write. `scripts_there`: those of this machine that have a name of the pack's.

    Raises PackRefused for names that cannot be changed, ConfigError.
    """
    if prefix and not _PREFIX.fullmatch(prefix):
        raise PackRefused(f"{prefix!r} cannot be a prefix; allowed: {PREFIX_ALLOWED}")
    documents = dict(_documents(pack))
    _refuse_own_places(documents[f"{_USERS}{pack.user}.json"])
    plan = UnpackPlan(prefix + pack.user)
    _Unpacking(snapshot, pack, documents, cast, prefix, plan).run(scripts_there)
    return plan


def _refuse_own_places(user: Mapping[str, Any]) -> None:
    """Raises PackRefused for a user file that says where this machine's data and scripts are: none that was
    packed does.
    """
    if places := [key for key in LEFT_OUT_KEYS if key in user]:
        raise PackRefused(
            f"its user file sets {', '.join(places)}: folders and endpoints of a machine are never packed"
        )


class _Unpacking:
    """One pack that is being planned."""

    def __init__(
        self,
        snapshot: ConfigSnapshot,
        pack: Pack,
        documents: Mapping[str, Any],
        cast: Cast,
        prefix: str,
        plan: UnpackPlan,
    ) -> None:
        self._snapshot, self._pack, self._cast = snapshot, pack, cast
        self._prefix, self._plan = prefix, plan
        self._documents = documents
        self._config = pack.below(CONFIG)
        self._user: JsonObject = dict(documents[f"{_USERS}{pack.user}.json"])
        self._settings: UserSettings = settings_of(pack.user, self._user)

    def run(self, scripts_there: Mapping[str, bytes]) -> None:
        self._refuse_unknown_names()
        renames = self._renamed(scripts_there)
        user = self._new_user(renames)
        for file, raw in self._placed(renames, user):
            self._take(file, raw)
        for name, text in self._pack.below(SCRIPTS).items():
            new = renames.scripts.get(name, name)
            there = scripts_there.get(new)
            if there is None:
                self._plan.scripts[new] = text
            elif there == text:
                self._plan.unchanged.append(SCRIPTS + new)
            else:
                self._plan.in_the_way.append(SCRIPTS + new)
        self._take(f"{_USERS}{self._plan.user}.json", json_bytes(user))

    def _take(self, file: str, raw: bytes) -> None:
        """A file that is to be written, unless it is there already."""
        if self._plan.files.get(file, raw) != raw:
            raise PackRefused(f"two files of the pack would become {file}")
        there = self._snapshot.find(file)
        if there is None:
            self._plan.files[file] = raw
        elif there == file and self._snapshot.text(file) == raw:
            self._plan.unchanged.append(file)
        else:
            self._plan.in_the_way.append(there)

    def _refuse_unknown_names(self) -> None:
        """Names that a run puts together can't be changed."""
        unknown: list[str] = []
        if any(role != name for role, name in self._cast.names.items()):
            unknown += [file + pointer for file, pointer, name in self._walk.endpoint_places if name is None]
        if self._prefix:
            variables = self._settings.user_wide_workflow_variables
            for file, document in self._documents.items():
                if file.startswith(_WORKFLOWS):
                    unknown += names_made_in_a_run(file, document, variables)
        if unknown:
            raise PackRefused(
                f"{unknown[0]}: only a run knows this name, so no name in the pack can be changed; "
                "give the endpoints the names of the roles, and leave out --prefix"
            )

    @cached_property
    def _walk(self) -> UserWalk:
        """Of the pack's user, with the names that the pack has: done."""
        draft = _draft(self._snapshot, self._config)
        walk = UserWalk(draft, load_user(draft, self._pack.user))
        walk.findings()
        return walk

    def _endpoint_edits(self, file: str) -> dict[str, str]:
        """JSON pointer -> endpoint of this machine, of the roles that a file names."""
        names = self._cast.names
        return {
            pointer: names[name]
            for each, pointer, name in self._walk.endpoint_places
            if each == file and name is not None and names.get(name, name) != name
        }

    # --- names ---

    def _renamed(self, scripts_there: Mapping[str, bytes]) -> Renames:
        """With a prefix: what belongs to the user gets it, and of the rest what is in the way."""
        if not self._prefix:
            return Renames()
        servers = {
            name: self._prefix + name
            for file in self._config
            if file.startswith(_SERVERS) and self._is_in_the_way(file)
            for name in [file.removeprefix(_SERVERS).removesuffix(".json")]
        }
        texts = self._pack.below(SCRIPTS)
        scripts = {
            name: self._prefix + name for name in texts if scripts_there.get(name, texts[name]) != texts[name]
        }
        tops = {
            file.split("/")[1] for file in self._config if file.startswith(_WORKFLOWS) and file.count("/") > 1
        }
        return Renames(servers=servers, scripts=scripts, folders={top: self._prefix + top for top in tops})

    def _is_in_the_way(self, file: str) -> bool:
        return self._differs_here(file, self._config[file])

    def _differs_here(self, file: str, raw: bytes) -> bool:
        """Whether this machine has a file of that name, but not exactly this one."""
        there = self._snapshot.find(file)
        return there is not None and (there != file or self._snapshot.text(there) != raw)

    def _own_folder(self, key: str) -> str:
        """The user's folder of presets or schemas, in the pack."""
        return (str(self._user.get(key) or "") or self._pack.user).rstrip("/")

    def _new_user(self, renames: Renames) -> JsonObject:
        """The user file's document for this machine."""
        user, prefix = dict(self._user), self._prefix
        if self._cast.folder:
            user["endpointConfigsSubDirectory"] = self._cast.folder.rstrip("/")
        embedder = user.get("embeddingsEndpoint")
        if isinstance(embedder, str) and embedder in self._cast.names:
            user["embeddingsEndpoint"] = self._cast.names[embedder]
        if not prefix:
            return user
        own, shared = "workflowConfigsSubDirectoryOverride", "sharedWorkflowsSubDirectoryOverride"
        if user.get(own) or renames.folder(self._settings.workflow_folder):
            user[own] = self._own_workflows(renames)
        folder = (self._settings.shared_workflows_sub_directory_override or _SHARED).rstrip("/")
        if any(_below(folder, file.removeprefix(_WORKFLOWS)) for file in self._config):
            user[shared] = renames.folder(folder)
        for key in ("presetConfigsSubDirectoryOverride", "structuredOutputConfigsSubDirectory"):
            user[key] = prefix + self._own_folder(key)
        if user.get("routingConfig"):
            user["routingConfig"] = f"{prefix}{user['routingConfig']}"
        template = f"{user.get('chatPromptTemplateName')}.json"
        for file in self._config:
            name = _below(_TEMPLATES.rstrip("/"), file)
            if name and name.casefold() == template.casefold() and self._template_moves(file):
                user["chatPromptTemplateName"] = prefix + name.removesuffix(".json")
        return user

    def _own_workflows(self, renames: Renames) -> str:
        """The new name of the user's own folder of workflows."""
        return renames.folder(self._settings.workflow_folder) or self._prefix + self._settings.workflow_folder

    def _template_moves(self, file: str) -> bool:
        return bool(self._prefix) and file in self._config and self._is_in_the_way(file)

    # --- files ---

    def _placed(self, renames: Renames, new_user: JsonObject) -> Iterator[tuple[str, bytes]]:
        """Each file but the user's, with its new place and text."""
        edited = dict(self._config)
        for file, raw in sorted(self._config.items()):
            if file.startswith((_USERS, f"{PRESETS}/")):
                continue
            edited[file] = raw = with_values(raw, self._endpoint_edits(file))
            if file.startswith(_WORKFLOWS):
                variables = self._settings.user_wide_workflow_variables
                raw = with_values(raw, edits_of(file, self._documents[file], variables, renames))
            for new in self._new_places(file, renames):
                yield new, raw
        asked = self._presets_asked(edited)
        for file, raw, said in fitting_presets(
            self._snapshot, self._config, asked, self._settings, settings_of(self._plan.user, new_user)
        ):
            new = self._preset_place(file, raw)
            if said:
                self._plan.remarks.append(f"{new} is {said}")
            yield new, raw

    def _presets_asked(self, edited: Mapping[str, bytes]) -> Iterator[tuple[EndpointConfig, str]]:
        """Endpoints of this machine, each with a preset that a file of the pack asks it with. `edited`: the
        pack's files with the names of these endpoints.
        """
        folder = {"endpointConfigsSubDirectory": self._cast.folder.rstrip("/")}
        user_file = f"{_USERS}{self._pack.user}.json"
        draft = _draft(self._snapshot, {**edited, user_file: json_bytes(self._user | folder)})
        user = load_user(draft, self._pack.user)
        for file, endpoint, preset in presets_asked(draft, user, UserWalk(draft, user)):
            if file in edited and not embedded_samplers(draft, user, preset):
                yield endpoint, preset

    def _new_places(self, file: str, renames: Renames) -> list[str]:
        rest = file.removeprefix(_WORKFLOWS)
        if not self._prefix or rest == file:
            return [self._new_place(file, renames)]
        named = {(folder, name) for folder, name, found in self._walk.workflows_named if found == file}
        if not named or _below(paths.COMMON_FOLDER, rest) is None:
            return [f"{_WORKFLOWS}{self._prefix}{rest}"]
        places = {f"{_WORKFLOWS}{self._prefix}{rest}" for folder, _ in named if folder}
        for name in (name for folder, name in named if not folder):
            # The last place of search, which keeps its name: the first one is the user's own.
            at_end = file.split("/")[-1 - name.strip("/").count("/") :]
            places.add("/".join([_WORKFLOWS.rstrip("/"), self._own_workflows(renames), *at_end]))
        return sorted(places)

    def _new_place(self, file: str, renames: Renames) -> str:
        prefix = self._prefix
        if not prefix:
            return file
        top, _, rest = file.partition("/")
        if file.startswith(_ROUTING):
            return f"{_ROUTING}{prefix}{rest}"
        if file.startswith(_SERVERS):
            name = rest.removesuffix(".json")
            return f"{_SERVERS}{renames.servers.get(name, name)}.json"
        if file.startswith(_SCHEMAS):
            return f"{_SCHEMAS}{self._below_own(rest, 'structuredOutputConfigsSubDirectory')}"
        return f"{top}/{prefix}{rest}" if self._template_moves(file) else file

    def _preset_place(self, file: str, raw: bytes) -> str:
        """With a prefix a preset that differs from this machine's goes into the user's own folder."""
        if not self._prefix:
            return file
        key = "presetConfigsSubDirectoryOverride"
        kind, _, rest = file.removeprefix(f"{PRESETS}/").partition("/")
        if _below(self._own_folder(key), rest) is not None or self._differs_here(file, raw):
            return f"{PRESETS}/{kind}/{self._below_own(rest, key)}"
        return file

    def _below_own(self, rest: str, key: str) -> str:
        """A name below the user's own folder of this machine."""
        own = self._own_folder(key)
        return f"{self._prefix}{own}/{_below(own, rest) or rest}"


def _below(folder: str, file: str) -> str | None:
    """The name of a file below a folder, in whatever case that is named; None: it lies elsewhere."""
    depth = folder.count("/") + 1
    parts = file.split("/")
    return "/".join(parts[depth:]) if "/".join(parts[:depth]).casefold() == folder.casefold() else None


def _draft(snapshot: ConfigSnapshot, files: Mapping[str, bytes]) -> ConfigSnapshot:
    """The tree with these files in it. What differs in case alone isn't logged."""
    draft = drafts_snapshot(snapshot, files)
    draft.spelling.notes = []
    return draft


# --------------------------------------------------------------------------
# Does it work?


def findings_of(snapshot: ConfigSnapshot, plan: UnpackPlan) -> list[Finding]:
    """What a check of the new user finds but notes. Scripts are looked for where the launch facts say."""
    draft = _draft(snapshot, plan.files)
    return [finding for finding in check_users(draft, [plan.user]) if finding.level != NOTE]


def strangers_in(snapshot: ConfigSnapshot, plan: UnpackPlan, scripts: Mapping[str, bytes]) -> list[str]:
    """Files of the plan that its user doesn't reach: a pack that holds some isn't what it says. `scripts`: of
    the pack and of the plan.
    """
    draft = _draft(snapshot, plan.files)
    check_users(draft, [plan.user])
    user = load_user(draft, plan.user)
    variables = user.user_wide_workflow_variables
    known = draft.files(_SERVERS.rstrip("/"))
    reached, used = set(draft.looked_at()), set[str]()
    for _, endpoint, preset in presets_asked(draft, user, UserWalk(draft, user)):
        reached |= {draft.first(paths.preset_files(user, endpoint.preset_type, preset)) or ""}
    for file in draft.looked_at():
        if not file.startswith(_WORKFLOWS):
            continue
        document = draft.read(file)
        own = {**variables, **(document if isinstance(document, Mapping) else {})}
        for place in node_places(file, document):
            reached |= {f"{_SERVERS}{name}.json" for _, name in servers_named(place.config, own, known)}
            names = (known_text(written, own) for _, written in scripts_named(place.config))
            used |= {script_below(name or "") or "" for name in names}
    while more := {one for name in used for one in imported_scripts(scripts.get(name, b""))} - used:
        used |= more
    return sorted(set(plan.files) - reached) + [SCRIPTS + one for one in sorted(set(plan.scripts) - used)]


def refuse_what_is_there(plan: UnpackPlan) -> None:
    """Raises PackRefused for a plan that would write over a file, or nothing."""
    if plan.in_the_way:
        raise PackRefused(
            f"already there with another content: {', '.join(plan.in_the_way)}; add --prefix TEXT, which "
            "puts TEXT before the names of the pack"
        )
    if not plan.files and not plan.scripts:
        raise PackRefused("all of it is there already")


def refuse_what_fails(findings: Iterable[Finding], strangers: Sequence[str]) -> None:
    """Raises PackRefused for a pack that has errors here, or isn't what it says."""
    if any(finding.level == ERROR and finding.message != MASKED for finding in findings):
        raise PackRefused("the pack would not work here")
    if strangers:
        raise PackRefused(f"the pack holds files that its user doesn't use: {', '.join(strangers)}")


def sentence_of_finding(finding: Finding) -> str:
    """A secret that its author left out is to be filled in; all else is as the check says it."""
    if finding.message == MASKED:
        place = escape_controls(f"{finding.file}, {finding.pointer}")
        return f"warning: {place}: fill in the secret that is *** there"
    return str(finding)
