"""What a pack holds: everything that a user, or one of its workflows, reaches, without the secrets, the
folders and the endpoints of the machine that it comes from.

Reads the config tree and the scripts; writes nothing. Source: spec workbench.md 17.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from Middleware.common.constants import VERSION
from Middleware.common.errors import ConfigError
from Middleware.common.secrets import MASK, is_secret_value, mask_keys
from Middleware.common.types import JsonObject
from Middleware.config import paths
from Middleware.config.drafts import draft_snapshot
from Middleware.config.endpoints import EMBEDDING_TYPES, ENV_REFERENCE, EndpointConfig, load_endpoint
from Middleware.config.json_positions import parse
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.users import UserSettings, load_user, user_names
from Middleware.config.validation import ERROR
from Middleware.config.workflows import picked_folder, workflow_exists
from Middleware.services.pack_archive import CONFIG, SCRIPTS, Pack, PackNeeds, PackRefused
from Middleware.utilities.config_text import json_bytes, text_of, with_values
from Middleware.workflows.checks.pack_names import (
    CURL_TYPE,
    FETCH_TYPE,
    SCRIPT_FOLDER,
    imported_scripts,
    names_made_in_a_run,
    script_name,
    script_of,
    scripts_named,
    servers_named,
)
from Middleware.workflows.checks.pack_presets import preset_files_of
from Middleware.workflows.checks.pack_secrets import without_secrets
from Middleware.workflows.checks.user_walk import UserWalk
from Middleware.workflows.checks.workflow_check import NodePlace, node_places
from Middleware.workflows.checks.workflow_graph import known_text
from Middleware.workflows.handlers.node_types import known_type, node_handler

LEFT_OUT_KEYS = (
    *("discussionDirectory", "sqlLiteDirectory", "pythonModuleRoots"),
    *("endpointConfigsSubDirectory", "exposeEndpoints"),
)
"""Of a user file: folders and endpoints of one machine."""
_ROUTED_KEYS = ("routingConfig", "categorizationWorkflow", "maxCategorizationAttempts")
_FOLLOWED = ("Workflows/", "Routing/", "StructuredOutputs/", "MCPServers/")
"""What a walk reads there belongs to the user."""
_ABILITIES = ("chat", "tools", "vision", "json", "embeddings")
_STDIO = "stdio"
_MOST_TOLD = 5


@dataclass(slots=True)
class Packed:
    """A pack, and what whoever makes it should know. `remarks`: sentences."""

    pack: Pack
    remarks: list[str] = field(default_factory=list)


def pack_user(snapshot: ConfigSnapshot, name: str, workflow: str | None = None) -> Packed:
    """The pack of a user, or of one workflow of it. Raises PackRefused, ConfigError."""
    user_file = snapshot.find(paths.user_file(name)) or paths.user_file(name)
    document = _portable_user(snapshot, load_user(snapshot, name), workflow)
    draft = draft_snapshot(snapshot, user_file, json_bytes(document))
    return _Packing(draft, load_user(draft, name), user_file, workflow).made()


def _portable_user(snapshot: ConfigSnapshot, user: UserSettings, workflow: str | None) -> JsonObject:
    """The document of the user file as it is followed: with its endpoint folder, but nothing else of the
    machine; with one workflow, if one is wanted.
    """
    document, _ = snapshot.inspect(snapshot.find(paths.user_file(user.name)) or paths.user_file(user.name))
    kept = {key: value for key, value in document.items() if not is_secret_value(key, "", value)}
    for key in LEFT_OUT_KEYS:
        if key != "endpointConfigsSubDirectory":
            kept.pop(key, None)
    if workflow is None:
        return kept
    for key in _ROUTED_KEYS:
        kept.pop(key, None)
    if not workflow_exists(snapshot, user, workflow):
        folder = picked_folder(snapshot, user, workflow)
        if folder is None:
            raise PackRefused(f"user {user.name} has no workflow {workflow!r}")
        kept["workflowConfigsSubDirectoryOverride"], workflow = folder, paths.DEFAULT_WORKFLOW
    return {**kept, "customWorkflowOverride": True, "customWorkflow": workflow}


def meant_by(snapshot: ConfigSnapshot, name: str, owner: str) -> tuple[str, str | None]:
    """The user and the workflow that a name means (`ann`, `ann:Draft`, or a workflow that one user has);
    None: the whole user. `owner`: whose workflow it is. Raises PackRefused, ConfigError.
    """
    users = user_names(snapshot)
    if owner:
        return owner, None if name.casefold() == owner.casefold() else name
    if name.casefold() in (user.casefold() for user in users):
        return name, None
    user, _, workflow = name.partition(":")
    if workflow:
        return user, workflow
    owners = [user for user in users if _has_workflow(snapshot, user, name)]
    if len(owners) == 1:
        return owners[0], name
    if owners:
        raise PackRefused(f"several users have a workflow {name!r}: {', '.join(owners)}; name the user, too")
    raise PackRefused(
        f"there is no user and no user's workflow {name!r}; the users are: {', '.join(users) or 'none'}"
    )


def _has_workflow(snapshot: ConfigSnapshot, user: str, name: str) -> bool:
    try:
        return workflow_exists(snapshot, load_user(snapshot, user), name)
    except ConfigError:
        return False


class _Packing:
    """One pack that is being made. `user`: as it is followed."""

    def __init__(
        self, snapshot: ConfigSnapshot, user: UserSettings, user_file: str, workflow: str | None
    ) -> None:
        self._snapshot, self._user, self._user_file = snapshot, user, user_file
        self._workflow = workflow
        self._walk = UserWalk(snapshot, user, with_shared=workflow is None)
        self._config: dict[str, bytes] = {}
        self._scripts: dict[str, bytes] = {}
        self._masked: dict[str, tuple[str, ...]] = {}
        self._remarks: list[str] = []

    def made(self) -> Packed:
        findings = self._walk.findings()
        for file in self._files():
            self._config[file] = self._snapshot.text(file)
        wrong = [finding for finding in findings if finding.level == ERROR and finding.file in self._config]
        if wrong:
            told = "; ".join(map(str, wrong[:_MOST_TOLD]))
            raise PackRefused(f"what {self._user.name} reaches has errors: {told}")
        self._config[self._user_file] = json_bytes(self._user_document())
        self._config |= preset_files_of(self._snapshot, self._user, self._walk)
        self._take_scripts()
        self._take_servers()
        self._hide_secrets()
        unknown = [file + place for file, place, endpoint in self._walk.endpoint_places if endpoint is None]
        for file, document in self._documents():
            unknown += names_made_in_a_run(file, document, self._variables)
        self._remarks += [f"not followed, because only a run knows the name: {name}" for name in unknown]
        files = {CONFIG + file: data for file, data in self._config.items()}
        files |= {SCRIPTS + name: data for name, data in self._scripts.items()}
        pack = Pack(
            name=f"{self._user.name}:{self._workflow}" if self._workflow else self._user.name,
            user=self._user_file.removeprefix("Users/").removesuffix(".json"),
            version=VERSION,
            needs=self._needs(),
            files=files,
            masked=self._masked,
        )
        return Packed(pack, self._remarks)

    @property
    def _variables(self) -> Mapping[str, Any]:
        return self._user.user_wide_workflow_variables

    def _files(self) -> list[str]:
        """The files that the walk read and that belong to the user."""
        read = {*self._walk.files_read, *self._snapshot.looked_at()}
        found = [file for file in sorted(read) if file.startswith(_FOLLOWED)]
        if template := self._user.chat_prompt_template_name:
            found += filter(None, [self._snapshot.find(paths.prompt_template_file(template))])
        return [file for file in found if self._snapshot.exists(file)]

    def _user_document(self) -> JsonObject:
        document, _ = self._snapshot.inspect(self._user_file)
        return {key: value for key, value in document.items() if key not in LEFT_OUT_KEYS}

    def _documents(self) -> Iterator[tuple[str, Any]]:
        """The workflows and settings of the pack, as values."""
        for file in sorted(self._config):
            if file.startswith("Workflows/"):
                yield file, self._snapshot.read(file)

    def _places(self) -> Iterator[tuple[NodePlace, Mapping[str, Any]]]:
        """Each node, and the variables that fill its names."""
        for file, document in self._documents():
            own = document if isinstance(document, Mapping) else {}
            for place in node_places(file, document):
                yield place, {**self._variables, **own}

    # --- scripts and servers ---

    def _take_scripts(self) -> None:
        edits: defaultdict[str, dict[str, object]] = defaultdict(dict)
        for place, variables in self._places():
            for below, written in scripts_named(place.config):
                if name := known_text(written, variables):
                    found = script_of(name)
                    if found is None:
                        raise PackRefused(
                            f"{place.file}, node {place.number}: the script {name} isn't in the folder "
                            f"{SCRIPT_FOLDER}, so it can't be packed; move it there"
                        )
                    self._take_script(found[1], found[0].read_bytes())
                    if written != script_name(found[1]):
                        edits[place.file][place.pointer + below] = script_name(found[1])
        for file, values in edits.items():
            self._config[file] = with_values(self._config[file], values)

    def _take_script(self, name: str, text: bytes) -> None:
        """A script, and what it imports from the folder of scripts."""
        if name in self._scripts:
            return
        self._scripts[name] = text
        if mask_keys(said := text.decode("utf-8", "replace")) != said:
            self._remarks.append(f"the script {name} seems to hold a key: look before you share it")
        for imported in imported_scripts(text):
            try:
                found = script_of(script_name(imported))
            except FileNotFoundError:
                continue  # a name of the module before it
            if found is not None:
                self._take_script(found[1], found[0].read_bytes())

    def _take_servers(self) -> None:
        """The files of the servers that scripts and agents are handed; others are read by the walk."""
        known = self._snapshot.files("MCPServers")
        for place, variables in self._places():
            for _, server in servers_named(place.config, variables, known):
                file = paths.mcp_server_file(server)
                self._config[file] = self._snapshot.text(file)

    def _hide_secrets(self) -> None:
        taken: dict[str, object] = {}
        for file, raw in sorted(self._config.items()):
            self._config[file], places = without_secrets(file, raw, taken)
            if places:
                self._masked[file] = tuple(places)
                self._remarks.append(f"{file}: {MASK} is in the place of a secret at {', '.join(places)}")

    # --- what it needs ---

    def _needs(self) -> PackNeeds:
        roles: defaultdict[str, set[str]] = defaultdict(set)
        models: dict[str, str] = {}
        for use in self._walk.model_uses():
            if name := known_text(use.endpoint, use.variables):
                roles[name] |= set(_abilities(use.holder))
        for name in self._walk.endpoint_users:
            endpoint = self._endpoint(name)
            if endpoint is not None:
                if endpoint.type in EMBEDDING_TYPES:
                    roles[name] = {"embeddings"}
                if model := endpoint.raw.get("modelNameToSendToAPI"):
                    models[name] = str(model)
        servers = {
            file.removeprefix("MCPServers/").removesuffix(".json"): parse(raw, file)
            for file, raw in sorted(self._config.items())
            if file.startswith("MCPServers/")
        }
        started = {str(one.get("command")) for one in servers.values() if one.get("transport") == _STDIO}
        curls = any(known_type(place.config.get("type")) == CURL_TYPE for place, _ in self._places())
        return PackNeeds(
            roles={
                name: tuple(one for one in _ABILITIES if one in (roles[name] or {"chat"}))
                for name in self._walk.endpoint_users
            },
            models=models,
            extras=(
                *(["encryption"] if self._user.encrypt_using_api_key else []),
                *(["mcp"] if servers else []),
            ),
            programs=tuple(sorted(started | ({"curl"} if curls else set()))),
            mcp_servers=tuple(servers),
            environment=tuple(sorted(self._environment())),
        )

    def _endpoint(self, name: str) -> EndpointConfig | None:
        try:
            return load_endpoint(self._snapshot, self._user, name)
        except ConfigError:
            return None

    def _environment(self) -> set[str]:
        """The variables that MCP servers and fetches are given keys by."""
        servers = [text_of(raw) for file, raw in self._config.items() if file.startswith("MCPServers/")]
        fetches = [
            json.dumps(place.config.get("headers"))
            for file, raw in self._config.items()
            if file.startswith("Workflows/")
            for place in node_places(file, parse(raw, file))
            if known_type(place.config.get("type")) == FETCH_TYPE
        ]
        return {name for text in (*servers, *fetches) for name in ENV_REFERENCE.findall(text)}


def _abilities(holder: Mapping[str, Any]) -> Iterator[str]:
    """What a node, or a settings file, asks of its endpoint."""
    yield "chat"
    if holder.get("allowTools") or holder.get("agentTools"):
        yield "tools"
    if node_handler(holder.get("type")).takes_pictures(holder):
        yield "vision"
    if holder.get("structuredOutputFile"):
        yield "json"
