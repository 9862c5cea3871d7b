"""One user's settings: the user file as one frozen value. Empty texts mean "not set".

A new setting is one more field of `UserSettings`, which states its key.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from Middleware.common.errors import ConfigError, ConfigMissing
from Middleware.common.request_context import NO_PROGRESS
from Middleware.config import paths
from Middleware.config.keys import (
    ANY,
    FLAG,
    OBJECT,
    TEXT,
    TEXTS,
    WHOLE,
    Key,
    key_field,
    keys_of_fields,
    object_of,
    one_of,
    whole_number,
)
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.validation import nearest_file, state_file

logger = logging.getLogger(__name__)


_NOTHING: Mapping[str, Any] = MappingProxyType({})
_TRUE_WORDS = ("true", "1", "yes", "on")
BY_COMPACTOR = "compactor"
"""The `steadyWindow` that begins behind what the compactor has summarised."""
LEAST_SLACK, MOST_SLACK = 8, 1000
STEADY_WINDOW_ALLOWED = f'true, false, a whole number from {LEAST_SLACK} to {MOST_SLACK}, or "{BY_COMPACTOR}"'
NO_CUSTOM_WORKFLOW = "is empty, but customWorkflowOverride is true"
"""What is wrong of `customWorkflow` then."""


def means_true(value: object) -> bool:
    """Truth of `clampPromptToContextWindow`: the words `true 1 yes on` in any case, other texts are false."""
    if isinstance(value, str):
        return value.strip().casefold() in _TRUE_WORDS
    return bool(value)


def _variables(value: Any) -> Mapping[str, Any] | None:
    return MappingProxyType(dict(value)) if isinstance(value, Mapping) else None


def _liveness(value: Any) -> Mapping[str, Any] | None:
    """`{"toolName": str, "arguments": object}`; malformed: a warning, and no such setting. Source:
    workflows.md 2.3.
    """
    if isinstance(value, Mapping):
        name, arguments = value.get("toolName"), value.get("arguments")
        if isinstance(name, str) and name.strip() and (arguments is None or isinstance(arguments, Mapping)):
            return MappingProxyType({"toolName": name.strip(), "arguments": dict(arguments or {})})
    logger.warning(
        "livenessToolCall is ignored: it must be an object with `toolName` and an object `arguments`"
    )
    return None


def _texts(value: Any) -> tuple[str, ...] | None:
    return tuple(str(item) for item in value) if isinstance(value, list) else None


TRUTH = Key(should={"type": ["boolean", "string"]}, read=means_true)
"""A flag that may be written as a word (`means_true`)."""
FOLDER = TEXT(
    "",
    pattern=r"^(?:(?!\.{1,2}(?:/|$))[^/\\:\u0000]+(?:/(?!\.{1,2}(?:/|$))[^/\\:\u0000]+)*/*)?$",
    allowed="a folder name, with `/` for a nested one and no part that is `.` or `..`",
)
"""A folder that stays in its tree."""


def read_steady_window(value: Any) -> bool | int | str | None:
    """`steadyWindow`: a truth, how many more messages a window may hold, or `"compactor"`; also as the text
    that a placeholder became. None for anything else. Source: prompt-reuse.md 1.
    """
    if isinstance(value, str):
        word = value.strip().lower()
        is_number = word.isdecimal() and len(word) <= len(str(MOST_SLACK))
        value = {"true": True, "false": False}.get(word, int(word) if is_number else word)
    if isinstance(value, bool):
        return value
    if value == BY_COMPACTOR:
        return BY_COMPACTOR
    return value if isinstance(value, int) and LEAST_SLACK <= value <= MOST_SLACK else None


STEADY_WINDOW = Key(
    must={
        "type": ["boolean", "integer", "string"],
        "minimum": LEAST_SLACK,
        "maximum": MOST_SLACK,
        "pattern": f"^{BY_COMPACTOR}$",
        "x-allowed": STEADY_WINDOW_ALLOWED,
        "examples": [True, False, BY_COMPACTOR],
    },
    read=read_steady_window,
)
"""Whether windows of the conversation stand."""


def _exposed(value: Any) -> bool | tuple[str, ...] | None:
    if isinstance(value, list):
        return tuple(name for name in value if isinstance(name, str))
    return value if isinstance(value, bool) else None


EXPOSED = Key(
    must={
        "type": ["boolean", "array"],
        "items": {"type": "string", "minLength": 1},
        "x-allowed": "true, false, or a list of endpoint names",
    },
    read=_exposed,
)
"""Which endpoints clients can ask for."""
_OF_A_RULE = ANY("", empty=False, read=bool)
"""A flag that a cleaning rule reads, too, and states."""
_LIVENESS_KEYS = {
    "toolName": TEXT("Name of the tool.", required=True, minLength=1).lenient,
    "arguments": OBJECT("Arguments of the call.").lenient,
}


@dataclass(frozen=True, slots=True)
class UserSettings:
    """The user file with every default. Source: workflows.md 2.3 and 17.1; a key `camelCase` is `snake_case`
    here.

    `name` is the user's name as given; `raw` the file's object, read-only (what `user_config` is to
    cleaning).
    """

    name: str
    raw: Mapping[str, Any] = field(default_factory=lambda: _NOTHING, repr=False)

    port: int = key_field(
        WHOLE, "Port of the server when this is its only user.", default=5000, minimum=0, maximum=65535
    )
    custom_workflow_override: bool = key_field(FLAG, "Every request runs `customWorkflow`; no routing.")
    custom_workflow: str = key_field(TEXT, "Workflow that answers when `customWorkflowOverride` is true.")
    routing_config: str = key_field(
        TEXT, "File in Routing/ that is used when `customWorkflowOverride` is false."
    )
    categorization_workflow: str = key_field(TEXT, "Workflow that names a category of the routing file.")
    max_categorization_attempts: int = key_field(
        WHOLE,
        "How often the categorisation workflow may be asked; less than 1 counts as 1.",
        default=1,
        read=lambda value: whole_number(value, minimum=1),
    )
    discussion_id_memory_file_workflow_settings: str = key_field(
        TEXT, "Settings file for memories, in the user's workflow folder."
    )
    file_memory_tool_workflow: str = key_field(TEXT, "Accepted; not read.")
    chat_summary_tool_workflow: str = key_field(TEXT, "Workflow that writes the chat summary.")
    conversation_memory_tool_workflow: str = key_field(TEXT, "Workflow of the ConversationMemory node.")
    recent_memory_tool_workflow: str = key_field(TEXT, "Workflow of the RecentMemory node.")
    context_compactor_settings_file: str = key_field(
        TEXT, "Settings file of the ContextCompactor node, in the user's workflow folder."
    )
    discussion_directory: str = key_field(
        TEXT, "Folder for discussions; empty: DiscussionIds below the public folder."
    )
    sql_lite_directory: str = key_field(
        TEXT, "Folder for the lock database; empty: SqlLiteDBs below the public folder."
    )
    endpoint_configs_sub_directory: str = key_field(
        FOLDER, "Sub-folder of Endpoints/; empty: Endpoints/ itself."
    )
    workflow_configs_sub_directory_override: str = key_field(
        TEXT, "Folder below Workflows/; empty: the user's name."
    )
    preset_configs_sub_directory_override: str = key_field(
        FOLDER, "Sub-folder below each preset type; empty: the user's name."
    )
    structured_output_configs_sub_directory: str = key_field(
        FOLDER, "Sub-folder of StructuredOutputs/; empty: the user's name."
    )
    shared_workflows_sub_directory_override: str = key_field(
        FOLDER, "Folder below Workflows/ whose sub-folders can be picked as models.", default="_shared"
    )
    allow_shared_workflows: bool = key_field(FLAG, "List the shared workflows as models.")
    chat_prompt_template_name: str = key_field(
        TEXT, "Prompt template of nodes without an endpoint, and of endpoints that name none."
    )
    chat_complete_add_user_assistant: bool = key_field(_OF_A_RULE)
    chat_completion_add_missing_assistant_generator: bool = key_field(_OF_A_RULE)
    separate_conversation_in_variables: bool = key_field(
        FLAG, "Put `conversationSeparationDelimiter` between the messages of conversation variables."
    )
    conversation_separation_delimiter: str = key_field(TEXT, "The delimiter.", default="\n")
    user_wide_workflow_variables: Mapping[str, Any] = key_field(
        OBJECT.lenient, "Variables of all workflows of this user.", empty=_NOTHING, read=_variables
    )
    clamp_prompt_to_context_window: bool = key_field(
        TRUTH, "Cut conversations to the context window of the model.", default=False
    )
    steady_window: bool | int | str = key_field(
        STEADY_WINDOW,
        "Let windows of the conversation begin at the same message for many turns; nodes may differ.",
        default=False,
    )
    connect_timeout_in_seconds: int = key_field(
        WHOLE, "Seconds to wait for a connection to a backend.", default=30, minimum=1, maximum=2000000
    )
    liveness_tool_call: Mapping[str, Any] | None = key_field(
        object_of(_LIVENESS_KEYS).lenient,
        "A tool call that is added to answers of nodes with `injectLivenessToolCall`.",
        read=_liveness,
    )
    encrypt_using_api_key: bool = key_field(
        FLAG, "Encrypt the files of discussions with the client's API key."
    )
    redact_log_output: bool = key_field(FLAG, "Keep texts of conversations out of the log.")
    intercept_open_web_ui_tool_requests: bool = key_field(
        FLAG,
        "Answer Open WebUI's tool selection requests at once with an empty choice.",
        "interceptOpenWebUIToolRequests",
    )
    use_offline_wiki_api: bool = key_field(FLAG, "Switch on the offline Wikipedia nodes.")
    offline_wiki_api_host: str = key_field(
        TEXT, "Host of the offline Wikipedia service.", default="127.0.0.1"
    )
    offline_wiki_api_port: int = key_field(
        WHOLE, "Port of the offline Wikipedia service.", default=5728, minimum=1, maximum=65535
    )
    use_offline_researcher_api: bool = key_field(FLAG, "Switch on the offline researcher nodes.")
    offline_researcher_api_host: str = key_field(
        TEXT, "Host of the offline researcher service.", default="127.0.0.1"
    )
    offline_researcher_api_port: int = key_field(
        WHOLE, "Port of the offline researcher service.", default=8890, minimum=1, maximum=65535
    )
    use_file_logging: bool = key_field(FLAG, "Also write the log to a file.")
    max_workflow_depth: int = key_field(
        WHOLE, "How deep workflows may be nested.", default=64, minimum=1, maximum=2000
    )
    max_parallel_nodes: int = key_field(
        WHOLE, "How many nodes of a `parallelGroup` run at once.", default=4, minimum=1
    )
    static_stream_delay_ms: int = key_field(
        WHOLE, "Milliseconds per word when a text that no model wrote is streamed.", default=0, minimum=0
    )
    advertised_context_length: int = key_field(
        WHOLE, "Context length that model lists state.", default=131072, minimum=1
    )
    open_web_ui_task_workflow: str = key_field(
        TEXT, "Workflow that serves Open WebUI's title, tag and query requests.", "openWebUITaskWorkflow"
    )
    embeddings_endpoint: str = key_field(
        TEXT,
        "Endpoint of an embeddings type that answers `/v1/embeddings` and `/api/embed`; empty: not served.",
    )
    expose_endpoints: bool | tuple[str, ...] = key_field(
        EXPOSED,
        "Let clients ask endpoints without a workflow, as the models `<user>:raw/<endpoint>`: `true` for all "
        "of the user's endpoint folder, or a list of names.",
        default=False,
    )
    discussion_id_from_header: str = key_field(TEXT, "Name of a request header that holds the discussion id.")
    progress_output: str = key_field(
        one_of(NO_PROGRESS, "reasoning", "status"),
        "Show in streams which node starts: as `reasoning`, or as a `status` of Open WebUI.",
        default=NO_PROGRESS,
    )
    outbound_policy: str = key_field(
        one_of("off", "block-private"),
        "`block-private`: nodes may not fetch private addresses.",
        default="off",
    )
    python_module_roots: tuple[str, ...] | None = key_field(
        TEXTS, "Folders in which the scripts of PythonModule nodes must lie; absent: anywhere.", read=_texts
    )
    offline_wiki_api_url: str = key_field(
        TEXT, "Base URL of the offline Wikipedia service, instead of host and port."
    )

    @property
    def workflow_folder(self) -> str:
        """The user's workflow folder below `Workflows/`."""
        return paths.workflow_folder(self)

    @property
    def shared_folder(self) -> str:
        """The folder (below the config root) whose sub-folders can be picked by model name."""
        return paths.shared_folder(self)


SETTINGS = keys_of_fields(UserSettings)
"""Key of the user file -> field of UserSettings."""
DEFAULT_PORT: int = SETTINGS["port"].absent
CONNECT_TIMEOUT_S = float(SETTINGS["connectTimeoutInSeconds"].absent)

_UNREAD_KEYS = {
    "stream": ANY("Accepted; the request decides."),
    "verboseLogging": ANY("Accepted; not read."),
    "defaultParallelProcessWorkflow": ANY("Accepted; not read."),
    "description": ANY("A comment."),
}
state_file(
    "user",
    "User",
    "Users/<name>.json: one user, that is one model name that clients see.",
    {**_UNREAD_KEYS, **{name: one.key for name, one in SETTINGS.items()}},
    minProperties=1,
)
state_file(
    "userpointer",
    "Default user",
    "Users/_current-user.json: who is served without --User.",
    {"currentUser": TEXT("Name of a user file.", required=True, minLength=1)},
)


_SHAPES_CONVERSATIONS = (
    "chatCompleteAddUserAssistant",
    "chatCompletionAddMissingAssistantGenerator",
    "livenessToolCall",
    "openWebUITaskWorkflow",
    "progressOutput",
    "steadyWindow",
)
"""Settings that add to a conversation or to its answer, or bring in a workflow."""


def for_plain_model(user: UserSettings) -> UserSettings:
    """The same user for a request that runs no workflow: no setting changes what the client sent. Source:
    operate.md 4.
    """
    kept = {name: value for name, value in user.raw.items() if name not in _SHAPES_CONVERSATIONS}
    without = {SETTINGS[name].attribute: SETTINGS[name].absent for name in _SHAPES_CONVERSATIONS}
    return replace(user, raw=MappingProxyType(kept), **without)


def load_user(snapshot: ConfigSnapshot, name: str) -> UserSettings:
    """The settings of `Users/<name in lower case>.json`. Raises ConfigMissing, ConfigError."""
    return snapshot.once((load_user, name), lambda: _read_user(snapshot, name))


def _read_user(snapshot: ConfigSnapshot, name: str) -> UserSettings:
    file = snapshot.find(paths.user_file(name))
    if file is None or paths.is_user_pointer(file):
        known = user_names(snapshot)
        near = nearest_file(name, known)
        hint = f" (did you mean {near!r}?)" if near else f"; there are: {', '.join(known) or 'none'}"
        raise ConfigMissing(f"no user {name!r}: there is no file {paths.user_file(name)}{hint}")
    return snapshot.derive(file, name, lambda document: settings_of(name, document))


def user_names(snapshot: ConfigSnapshot) -> list[str]:
    """The names of all user files: what stands in `Users/` itself, the pointer excepted."""
    return [name for name in snapshot.files("Users") if not paths.is_user_pointer(f"Users/{name}.json")]


def pointer_user(snapshot: ConfigSnapshot) -> str:
    """`currentUser` of `Users/_current-user.json`: who is served without `--User`. Raises ConfigError."""
    document = snapshot.read(paths.USER_POINTER)
    name = document.get("currentUser")
    if not isinstance(name, str) or not name.strip():
        raise ConfigError(
            "found no name, allowed: the name of a user", file=paths.USER_POINTER, pointer="/currentUser"
        )
    return name.strip()


def settings_of(name: str, document: Mapping[str, Any]) -> UserSettings:
    """The typed value of a user file's object; what has a wrong type counts as not set."""
    given = ((one, document.get(name)) for name, one in SETTINGS.items())
    values = {one.attribute: one.value(found) for one, found in given if found is not None and found != ""}
    return UserSettings(name=name, raw=MappingProxyType(dict(document)), **values)
