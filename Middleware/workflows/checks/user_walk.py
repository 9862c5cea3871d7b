"""What one user can reach: from the user file through routing and workflows to endpoints and presets.

A `UserWalk` reads through its snapshot, follows every name and notes where one leads nowhere. It knows no
schema.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from Middleware.common.errors import ConfigError, ConfigMissing
from Middleware.common.types import NodeConfig
from Middleware.config import paths
from Middleware.config.endpoints import (
    EndpointConfig,
    endpoint_names,
    ensure_embeds,
    ensure_generates,
    load_endpoint,
)
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.named_files import (
    load_mcp_server,
    load_prompt_template,
    load_structured_schema,
    lost_folder,
)
from Middleware.config.samplers import load_samplers
from Middleware.config.users import NO_CUSTOM_WORKFLOW, UserSettings
from Middleware.config.validation import ERROR, NOTE, WARNING, Finding, json_pointer, missing_nodes
from Middleware.config.workflows import (
    BY_MEANING,
    WorkflowFile,
    input_count,
    load_routing,
    load_settings,
    load_workflow,
    shared_root,
    tool_file,
    tool_offer,
)
from Middleware.workflows.checks.agent_check import Children, agent_findings
from Middleware.workflows.checks.endpoint_check import endpoint_findings, reading_remarks, with_backups
from Middleware.workflows.checks.routing_check import lost_categories, meaning_remarks
from Middleware.workflows.checks.workflow_check import (
    NodePlace,
    WorkflowReach,
    moving_times,
    node_places,
    unguarded_findings,
    variable_findings,
)
from Middleware.workflows.checks.workflow_graph import cycles, known_text
from Middleware.workflows.handlers.base.base_workflow_node_handler import ModelChoice
from Middleware.workflows.handlers.node_types import known_type, node_handler
from Middleware.workflows.models.node_keys import COMMON_KEYS

ANY = 1_000_000
"""More agent inputs than any workflow names: a caller that nobody can count."""

TOOL_WORKFLOWS = (
    ("chatSummaryToolWorkflow", "chat_summary_tool_workflow"),
    ("conversationMemoryToolWorkflow", "conversation_memory_tool_workflow"),
    ("recentMemoryToolWorkflow", "recent_memory_tool_workflow"),
    ("openWebUITaskWorkflow", "open_web_ui_task_workflow"),
)
_SETTINGS = (
    ("discussionIdMemoryFileWorkflowSettings", "discussion_id_memory_file_workflow_settings"),
    ("contextCompactorSettingsFile", "context_compactor_settings_file"),
)
_SETTINGS_WORKFLOWS = ("fileMemoryWorkflowName", "vectorMemoryWorkflowName", "stateDocumentWorkflowName")
LIMIT = "maxResponseSizeInTokens"
_SETTINGS_MODELS = (
    ("endpointName", "preset"),
    ("condenseMemoriesEndpointName", "condenseMemoriesPreset"),
    ("vectorMemoryEndpointName", "vectorMemoryPreset"),
)


@dataclass(slots=True)
class _Reached:
    """A workflow that the user reaches. `children`: (file, whether a condition decides)."""

    workflow: WorkflowFile
    inputs: int = 0
    categorises: bool = False
    children: list[tuple[str, bool]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A name to follow: who names it (`file`, `pointer`), and how it is looked up."""

    name: str
    file: str
    pointer: str
    folder: str | None = None
    calling_folder: str | None = None
    inputs: int = 0
    categorises: bool = False
    level: str = ERROR
    is_tool: bool = False


@dataclass(frozen=True, slots=True)
class ModelUse:
    """A place that calls a model: a node, or a settings file. `endpoint`, `preset`: as written there.

    `holder` has the limit of the answer under `limit_key`; without one it is `default_limit`.
    """

    file: str
    pointer: str
    holder: Mapping[str, Any]
    variables: Mapping[str, Any]
    endpoint: object
    preset: object
    limit_key: str = LIMIT
    default_limit: int = COMMON_KEYS[LIMIT].default


class UserWalk:
    """The walk of one user. Made lazily, once. `with_shared`: whether shared workflows, which a client can
    pick by the model name, belong to it.
    """

    def __init__(self, snapshot: ConfigSnapshot, user: UserSettings, *, with_shared: bool = True) -> None:
        self._snapshot, self._user, self._with_shared = snapshot, user, with_shared
        self._file = snapshot.find(paths.user_file(user.name)) or paths.user_file(user.name)
        self._reached: dict[str, _Reached] = {}
        self._findings: list[Finding] = []
        self._model_uses: list[ModelUse] = []
        self._children: Children = {}
        self.files_read = {self._file}
        """Every file that the user reaches, faulty ones too; complete after `findings`."""
        self.endpoint_users: dict[str, dict[str, None]] = {}
        """Endpoint -> the files that name it, in the order of the walk; complete after `findings`."""
        self.endpoint_places: list[tuple[str, str, str | None]] = []
        """(file, JSON pointer, the endpoint that is named there; None where only a run knows it); complete
        after `findings`."""
        self.presets_followed: list[tuple[str, str, str]] = []
        """(file, endpoint, preset) of each preset that is named beside an endpoint; complete after
        `findings`."""
        self.workflows_named: list[tuple[str | None, str, str]] = []
        """(folder that stands beside the name, name, file) of each workflow that is named and is there;
        complete after `findings`."""

    def findings(self, only: str | None = None) -> list[Finding]:
        """Names that lead nowhere, variables that nobody sets, cycles. `only`: the file whose own count."""
        reached = self._walk_workflows
        found = [*self._findings, *self._unfit_tools()]
        user_variables = frozenset(self._user.user_wide_workflow_variables)
        for file, entry in reached.items():
            if only not in (None, file):
                continue
            inputs = None if entry.inputs >= ANY else entry.inputs
            reach = WorkflowReach(user_variables, inputs, entry.categorises)
            found += variable_findings(file, self._snapshot.read(file), reach)
            if self._user.outbound_policy == "off":
                named = self._user.user_wide_workflow_variables
                found += unguarded_findings(file, self._snapshot.read(file), named)
        if self._user.python_module_roots is None and "PythonModule" in self.node_types():
            message = "not set, so PythonModule nodes may run scripts from any folder"
            found.append(Finding(self._file, "/pythonModuleRoots", NOTE, message))
        found += cycles({file: entry.children for file, entry in reached.items()})
        files = [file for file in reached if only in (None, file)]
        found += agent_findings(self._snapshot, files, self._children)
        return found

    def reach_unnamed(self, files: Iterable[str]) -> None:
        """Follow workflow files that nothing names as if the user named them; from now on they, and what they
        name, belong to the walk. Who will call them is not known, so no agent input is missed.
        Source: spec workbench.md 16.4.
        """
        queue = deque(
            Wanted(name, file, "", folder=folder, inputs=ANY, categorises=True)
            for file in files
            if file not in self._walk_workflows
            for folder, _, name in [file.removeprefix(f"{paths.WORKFLOWS}/")[: -len(".json")].rpartition("/")]
        )
        while queue:
            queue.extend(self._follow(queue.popleft()))

    def endpoints(self) -> list[str]:
        """The names of the endpoints that are reached; all of the folder where only a run knows a name."""
        self.findings()
        folder = paths.endpoint_folder(self._user)
        files = (file for file in self.files_read if file.startswith(folder))
        return sorted({paths.endpoint_name(self._user, file) for file in files})

    def node_types(self) -> set[str]:
        """The types of all nodes that are reached."""
        return {known_type(node.get("type")) for node in self.nodes()}

    def model_uses(self) -> Iterator[ModelUse]:
        """What is reached and calls a model, in the order of the walk."""
        self.findings()
        yield from self._model_uses

    def callers_of(self, files: Iterable[str]) -> set[str]:
        """These workflow files, and those that run one of them, however deep."""
        reached, found, left = self._walk_workflows, set[str](), list(files)
        while left:
            file = left.pop()
            if file not in found:
                found.add(file)
                left += [one for one, entry in reached.items() if file in dict(entry.children)]
        return found

    def nodes(self) -> Iterator[NodeConfig]:
        """All nodes that are reached, as they stand in their files."""
        for file in self._walk_workflows:
            yield from (place.config for place in node_places(file, self._snapshot.read(file)))

    @cached_property
    def _walk_workflows(self) -> dict[str, _Reached]:
        queue = deque(self._roots())
        while queue:
            queue.extend(self._follow(queue.popleft()))
        return self._reached

    def _follow(self, wanted: Wanted) -> list[Wanted]:
        """Load a workflow; the names in its nodes, when it is seen for the first time."""
        try:
            with self._snapshot.spelling.named_at(wanted.file, wanted.pointer):
                workflow = load_workflow(
                    self._snapshot,
                    self._user,
                    wanted.name,
                    folder=wanted.folder,
                    calling_folder=wanted.calling_folder,
                )
        except ConfigError as error:
            if isinstance(error, ConfigMissing) or not error.file:
                self._note(wanted.file, wanted.pointer, wanted.level, error.message)
            else:
                self._faulty(error.file)
            return []
        self.workflows_named.append((wanted.folder, wanted.name, workflow.file))
        if wanted.file in self._reached:
            conditional = wanted.is_tool or "/conditionalWorkflows/" in wanted.pointer
            self._reached[wanted.file].children.append((workflow.file, conditional))
            self._children.setdefault(wanted.file, []).append((wanted.pointer, workflow.file))
        entry = self._reached.get(workflow.file)
        if entry is None:
            entry = self._reached[workflow.file] = _Reached(workflow)
            self.files_read.add(workflow.file)
            names = list(self._names_in(workflow))
        else:
            names = []
        entry.inputs = max(entry.inputs, wanted.inputs)
        entry.categorises = entry.categorises or wanted.categorises
        return names

    def _faulty(self, file: str) -> None:
        """A file with faults of its own, told where it is checked; that it is no workflow is told here."""
        self.files_read.add(file)
        document, _ = self._snapshot.inspect(file)
        self._findings += missing_nodes(document, file)

    def _folders(self) -> None:
        """Folders that the user file names and that are not there."""
        named = {
            "endpointConfigsSubDirectory": paths.endpoint_folder,
            "workflowConfigsSubDirectoryOverride": lambda user: (
                f"{paths.WORKFLOWS}/{paths.workflow_folder(user)}"
            ),
            "sharedWorkflowsSubDirectoryOverride": paths.shared_folder,
        }
        for key, folder_of in named.items():
            if not self._user.raw.get(key):
                continue
            try:
                gone = lost_folder(self._snapshot, folder_of(self._user).rstrip("/"))
            except ConfigError as error:  # a name that leaves the tree, or one that is spelled twice on disk
                gone = error.message
            if gone:
                self._note(self._file, f"/{key}", WARNING, gone)

    def _roots(self) -> Iterator[Wanted]:
        """Where requests of this user begin, and what the user file names besides."""
        self._folders()
        user, snapshot = self._user, self._snapshot
        shared = list(self._shared_workflows()) if self._with_shared else []
        yield from self._own_roots(lives_on_shared=bool(shared))
        if user.chat_prompt_template_name:
            template = user.chat_prompt_template_name
            self._follow_name(
                self._file, "/chatPromptTemplateName", lambda: load_prompt_template(snapshot, template)
            )
        self._embedder(self._file, "", user.raw, "embeddingsEndpoint")
        self._plain_models()
        for key, attribute in TOOL_WORKFLOWS:
            if name := getattr(user, attribute):
                yield Wanted(name, self._file, f"/{key}", inputs=ANY)
        for key, attribute in _SETTINGS:
            if name := getattr(user, attribute):
                yield from self._settings(key, name)
        yield from shared

    def _own_roots(self, *, lives_on_shared: bool = False) -> Iterator[Wanted]:
        """The workflow that answers the user's own name, or all that it may be routed to."""
        user = self._user
        if not user.custom_workflow_override:
            yield from self._routes(lives_on_shared=lives_on_shared)
        elif user.custom_workflow:
            yield Wanted(user.custom_workflow, self._file, "/customWorkflow")
        else:
            level = NOTE if lives_on_shared else ERROR
            self._note(self._file, "/customWorkflow", level, NO_CUSTOM_WORKFLOW)

    def _shared_workflows(self) -> Iterator[Wanted]:
        """The workflows that a client can pick by the model name."""
        pointer = "/sharedWorkflowsSubDirectoryOverride"
        with self._snapshot.spelling.named_at(self._file, pointer):
            root = shared_root(self._snapshot, self._user)
        below = root.removeprefix("Workflows/")
        for folder in self._snapshot.folders(root):
            if not self._snapshot.exists(f"{root}/{folder}/{paths.DEFAULT_WORKFLOW}.json"):
                continue
            inputs = input_count(self._snapshot, tool_file(f"{root}/{folder}"))
            yield Wanted(
                paths.DEFAULT_WORKFLOW, self._file, pointer, folder=f"{below}/{folder}", inputs=inputs
            )

    def _unfit_tools(self) -> list[Finding]:
        """What keeps a shared workflow from being the tool that its file makes it."""
        if not self._with_shared:
            return []
        try:
            offer = tool_offer(self._snapshot, self._user)
        except ConfigError:  # of the shared folder itself: told where it is followed
            return []
        self.files_read |= {error.file for error in offer.faulty}
        return offer.unfit

    def _routes(self, *, lives_on_shared: bool) -> Iterator[Wanted]:
        user = self._user
        default = Wanted(paths.DEFAULT_WORKFLOW, self._file, "/routingConfig", level=WARNING)
        if not (user.routing_config and user.categorization_workflow):
            level = NOTE if lives_on_shared else ERROR
            yield Wanted(paths.DEFAULT_WORKFLOW, self._file, "/customWorkflowOverride", level=level)
            return
        yield default
        yield Wanted(user.categorization_workflow, self._file, "/categorizationWorkflow", categorises=True)
        try:
            with self._snapshot.spelling.named_at(self._file, "/routingConfig"):
                routing = load_routing(self._snapshot, user.routing_config)
        except ConfigMissing as error:
            self._note(self._file, "/routingConfig", ERROR, error.message)
            return
        except ConfigError as error:
            self.files_read.add(error.file)
            return
        file = routing.file
        self.files_read.add(file)
        for lost, why in lost_categories(routing.categories):
            self._note(file, json_pointer([lost.name]), WARNING, why)
        for pointer, why in meaning_remarks(routing):
            self._note(file, pointer, WARNING, why)
        if routing.by_meaning is not None:
            key = "embeddingEndpointName"
            own = {key: routing.by_meaning.embedding_endpoint_name}
            self._embedder(file, json_pointer([BY_MEANING]), own, key)
        for category in routing.categories:
            yield Wanted(category.workflow, file, json_pointer([category.name, "workflow"]))

    def _settings(self, key: str, name: str) -> Iterator[Wanted]:
        """The names in a settings object."""
        try:
            with self._snapshot.spelling.named_at(self._file, f"/{key}"):
                settings = load_settings(self._snapshot, self._user, name)
        except ConfigMissing as error:
            self._note(self._file, f"/{key}", ERROR, error.message)
            return
        except ConfigError as error:
            self.files_read.add(error.file)
            return
        file = paths.workflow_file(self._user.workflow_folder, name)
        self.files_read.add(file)
        for workflow_key in _SETTINGS_WORKFLOWS:
            if isinstance(settings.get(workflow_key), str) and settings[workflow_key]:
                yield Wanted(settings[workflow_key], file, f"/{workflow_key}", inputs=ANY)
        for endpoint_key, preset_key in _SETTINGS_MODELS:
            self._model(file, "", settings, {}, (endpoint_key, preset_key))
        self._model_uses += _uses_of_settings(key, file, settings)
        self._embedder(file, "", settings, "embeddingEndpointName")

    def _names_in(self, workflow: WorkflowFile) -> Iterator[Wanted]:
        document = self._snapshot.read(workflow.file)
        for place in node_places(workflow.file, document):
            self._node(place, workflow)
            for child in node_handler(place.config.get("type")).children(place.config):
                yield Wanted(
                    child.name,
                    workflow.file,
                    f"{place.pointer}{child.pointer}",
                    folder=child.folder,
                    calling_folder=workflow.folder,
                    inputs=child.inputs,
                    is_tool=child.is_tool,
                )

    def _node(self, place: NodePlace, workflow: WorkflowFile) -> None:
        """Endpoint, preset and schema that a node names."""
        config = place.config
        preset = "preset" if config.get("preset") else "presetName"
        endpoint = self._model(
            place.file, place.pointer, config, workflow.variables, ("endpointName", preset)
        )
        if config.get("endpointName"):
            names = (config["endpointName"], config.get(preset))
            self._model_uses.append(ModelUse(place.file, place.pointer, config, workflow.variables, *names))
        if endpoint is not None and node_handler(config.get("type")).CALLS_MODEL:
            self._fits(place.file, f"{place.pointer}/endpointName", lambda: ensure_generates(endpoint))
        self._further_models(place, workflow, endpoint)
        self._embedder(place.file, place.pointer, config, "embeddingEndpointName")
        if endpoint is not None and config.get("readAhead") in ("start", "end"):
            for level, message in reading_remarks(endpoint):
                self._note(place.file, f"{place.pointer}/readAhead", level, message)
        if note := moving_times(config, self._user.steady_window):
            self._note(place.file, f"{place.pointer}/useRelativeTimestamps", NOTE, note)
        for key in node_handler(config.get("type")).user_settings(config):
            if not self._user.raw.get(key):
                message = f"this node needs `{key}` in {self._file}"
                self._note(place.file, f"{place.pointer}/type", ERROR, message)
        variables = {**self._user.user_wide_workflow_variables, **workflow.variables}
        faults = node_handler(config.get("type")).outside_faults(
            config, lambda text: None if config.get("jinja2") else known_text(text, variables)
        )
        written = {
            name for node in workflow.nodes for name in node_handler(node.get("type")).files_written(node)
        }
        for key, level, why in faults:
            if config.get(key) not in written:
                self._note(place.file, f"{place.pointer}/{key}", level, why)
        schema = config.get("structuredOutputFile")
        if isinstance(schema, str) and schema:
            self._follow_name(
                place.file,
                f"{place.pointer}/structuredOutputFile",
                lambda: load_structured_schema(self._snapshot, self._user, schema),
            )
        for pointer, named in node_handler(config.get("type")).servers(config):
            if server := known_text(named, workflow.variables):
                self._follow_name(
                    place.file, f"{place.pointer}{pointer}", partial(load_mcp_server, self._snapshot, server)
                )

    def _further_models(self, place: NodePlace, workflow: WorkflowFile, own: EndpointConfig | None) -> None:
        """Follow the other models that a node asks. `own`: its endpoint; None: it is not known."""
        handler, variables = node_handler(place.config.get("type")), workflow.variables
        for choice in handler.model_choices(place.config):
            name, preset = (choice.holder.get(key) for key in choice.keys)
            pointer = f"{place.pointer}{choice.pointer}"
            if own is None and name == place.config.get("endpointName"):
                known = known_text(name, variables)
                self.endpoint_places.append((place.file, f"{pointer}/{choice.keys[0]}", known))
                continue
            endpoint = self._model(place.file, pointer, choice.holder, variables, choice.keys)
            if endpoint is not None:
                self._fits(place.file, f"{pointer}/{choice.keys[0]}", partial(ensure_generates, endpoint))
                use = ModelUse(place.file, place.pointer, place.config, variables, name, preset)
                self._model_uses.append(use)
        for choice in handler.equal_calls(place.config):
            if self._never_varies(choice, variables):
                message = "equal candidates give equal answers, because their preset has the temperature 0"
                self._note(place.file, f"{place.pointer}{choice.pointer}", NOTE, message)

    def _never_varies(self, choice: ModelChoice, variables: Mapping[str, Any]) -> bool:
        """Whether the model is asked with the temperature 0, as far as the files say."""
        name, preset = (known_text(choice.holder.get(key), variables) for key in choice.keys)
        if not name:
            return False
        try:
            endpoint = load_endpoint(self._snapshot, self._user, name)
            samplers = load_samplers(self._snapshot, self._user, endpoint, preset)
        except ConfigError:  # told where the name is followed
            return False
        temperature = {**samplers.block, **(samplers.append or {})}.get("temperature")
        return temperature == 0 and not isinstance(temperature, bool)

    def _model(
        self,
        file: str,
        pointer: str,
        holder: Mapping[str, Any],
        variables: Mapping[str, Any],
        keys: tuple[str, str],
    ) -> EndpointConfig | None:
        """Follow an endpoint and a preset name; None when there is none, or none that can be known now."""
        name, preset = (known_text(holder.get(key), variables) for key in keys)
        place = f"{pointer}/{keys[0]}"
        if not name:
            if holder.get(keys[0]):
                self.endpoint_places.append((file, place, None))
                self._preload(paths.endpoint_folder(self._user))
            return None
        self.endpoint_places.append((file, place, name))
        with self._snapshot.spelling.named_at(file, place):
            try:
                endpoint = load_endpoint(self._snapshot, self._user, name)
            except ConfigError as error:
                if not error.file:
                    self._note(file, place, ERROR, error.message)
                    return None
                endpoint = None
                self.files_read.add(error.file)
            for each in with_backups(self._snapshot, self._user, [name]):
                self._findings += endpoint_findings(self._snapshot, self._user, each)
            self.endpoint_users.setdefault(name, {})[file] = None
        if endpoint is None:
            return None
        self.files_read |= {endpoint.file, paths.api_type_file(endpoint.api_type_name)}
        if preset:
            self.presets_followed.append((file, name, preset))
            self._follow_name(
                file,
                f"{pointer}/{keys[1]}",
                lambda: load_samplers(self._snapshot, self._user, endpoint, preset),
            )
        return endpoint

    def _embedder(self, file: str, pointer: str, holder: Mapping[str, Any], key: str) -> None:
        """Follow the name of an endpoint that gives vectors."""
        if (endpoint := self._model(file, pointer, holder, {}, (key, ""))) is not None:
            self._fits(file, f"{pointer}/{key}", lambda: ensure_embeds(endpoint))

    def _plain_models(self) -> None:
        """Follow the endpoints that clients can ask without a workflow."""
        key, exposed = "exposeEndpoints", self._user.expose_endpoints
        if isinstance(exposed, bool):
            folder = paths.endpoint_folder(self._user)
            for name in endpoint_names(self._snapshot, folder) if exposed else ():
                self._model(self._file, "", {key: name}, {}, (key, ""))
            return
        for number, name in enumerate(exposed):
            item = str(number)
            endpoint = self._model(self._file, f"/{key}", {item: name}, {}, (item, ""))
            if endpoint is not None:
                self._fits(self._file, f"/{key}/{item}", partial(ensure_generates, endpoint))

    def _fits(self, file: str, pointer: str, ensure: Callable[[], None]) -> None:
        try:
            ensure()
        except ConfigError as error:
            self._note(file, pointer, ERROR, error.message)

    def _follow_name(self, file: str, pointer: str, load: Callable[[], object]) -> None:
        """Follow a name by loading what it names; a file with faults of its own is told of at that file."""
        try:
            with self._snapshot.spelling.named_at(file, pointer):
                load()
        except ConfigError as error:
            if error.file and not isinstance(error, ConfigMissing):
                self.files_read.add(error.file)
            else:
                self._note(file, pointer, ERROR, error.message)

    def _preload(self, folder: str) -> None:
        """Read a whole folder: only a run will tell which of its files is meant."""
        for name in self._snapshot.files(folder):
            self.files_read.add(f"{folder}{name}.json")
            self._snapshot.exists(f"{folder}{name}.json")

    def _note(self, file: str, pointer: str, level: str, message: str) -> None:
        self._findings.append(Finding(file, pointer, level, message))


def _uses_of_settings(key: str, file: str, settings: Mapping[str, Any]) -> Iterator[ModelUse]:
    """The calls of a model that a settings file makes without a workflow. `key`: the user's that names it."""

    def use(prefix: str, limit_key: str, default: int) -> ModelUse:
        endpoint = settings.get(f"{prefix}EndpointName") or settings.get("endpointName")
        preset = settings.get(f"{prefix}Preset") or settings.get("preset")
        return ModelUse(file, "", settings, {}, endpoint, preset, limit_key, default)

    if key == "contextCompactorSettingsFile":
        yield use("", LIMIT, 750)
        return
    if settings.get("useVectorForQualityMemory"):
        if not settings.get("vectorMemoryWorkflowName"):
            yield use("vectorMemory", "vectorMemoryMaxResponseSizeInTokens", 1024)
    elif not settings.get("fileMemoryWorkflowName"):
        yield use("", LIMIT, 400)
    if settings.get("condenseMemories"):
        own = "condenseMemoriesMaxResponseSizeInTokens"
        yield use("condenseMemories", own if own in settings else LIMIT, 500)
