"""One user's settings: the user file as one frozen value. Empty texts mean "not set".

A new setting is one more field of `UserSettings`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields
from types import MappingProxyType
from typing import Any

from Middleware.common.errors import ConfigError, ConfigMissing
from Middleware.common.request_context import NO_PROGRESS
from Middleware.config import paths
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.validation import hand_in, nearest_file

logger = logging.getLogger(__name__)


# --------------------------------------------------------------------------
# How a setting is stated: a field of a dataclass says type, default and meaning; all else is made of it.


_KEYWORD = {"allowed": "x-allowed", "level": "x-level"}
_KINDS = {bool: "boolean", int: "integer", str: "string"}


def setting(
    default: Any,
    description: str = "",
    *,
    key: str = "",
    read: Callable[[Any], Any] | None = None,
    **shape: Any,
) -> Any:
    """A field of a settings class.

    `shape`: keywords of JSON Schema for its value; the type is that of the default unless it is given.
    `allowed`: words for what a pattern allows; `level`: of a breach, `error` by itself, `warning` for a
    flag. `key`: the name in the file, where it is not the field's in camelCase. `read`: what makes the value
    of what the file holds (None: it counts as not set). Without a description a cleaning rule states it.
    """
    stated = {_KEYWORD.get(word, word): value for word, value in shape.items()}
    kind = _KINDS.get(type(default))
    if kind and not stated.keys() & {"type", "enum"}:
        stated = {"type": kind, **stated}
    if default is False:
        stated.setdefault("x-level", "warning")
    if default not in ("", None) and not isinstance(default, Mapping):
        stated["default"] = default
    if description:
        stated["description"] = description
    made = {"default_factory": lambda: default} if isinstance(default, Mapping) else {"default": default}
    return field(**made, metadata={"key": key, "read": read, "schema": stated})


def key_of(one: Field[Any]) -> str:
    """The setting's name in the file."""
    return one.metadata["key"] or re.sub(r"_([a-z])", lambda match: match[1].upper(), one.name)


def schema_of(one: Field[Any]) -> Mapping[str, Any]:
    """JSON Schema of the setting's value, with `description` and `default`."""
    stated: Mapping[str, Any] = one.metadata["schema"]
    return stated


def value_of(one: Field[Any], value: Any) -> Any:
    """The typed value of what a file holds; None where that is of a wrong type and counts as not set."""
    read = one.metadata["read"]
    if read is not None:
        return read(value)
    default = one.default
    if isinstance(default, bool):
        return bool(value)
    if isinstance(default, int):
        return whole_number(value, minimum=schema_of(one).get("minimum"))
    return value if isinstance(value, str) else None


def whole_number(value: Any, minimum: int | None) -> int | None:
    """The number, or of a text that holds one; None for anything else or below the minimum."""
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if minimum is None or number >= minimum else None


# --------------------------------------------------------------------------

_NOTHING: Mapping[str, Any] = MappingProxyType({})
_TRUE_WORDS = ("true", "1", "yes", "on")
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


_FOLDER: dict[str, Any] = {
    "pattern": r"^(?:(?!\.{1,2}(?:/|$))[^/\\:\u0000]+(?:/(?!\.{1,2}(?:/|$))[^/\\:\u0000]+)*/*)?$",
    "allowed": "a folder name, with `/` for a nested one and no part that is `.` or `..`",
}
"""A folder that stays in its tree."""


@dataclass(frozen=True, slots=True)
class UserSettings:
    """The user file with every default. Source: workflows.md 2.3 and 17.1; a key `camelCase` is `snake_case`
    here.

    `name` is the user's name as given; `raw` the file's object, read-only (what `user_config` is to
    cleaning).
    """

    name: str
    raw: Mapping[str, Any] = field(default_factory=lambda: _NOTHING, repr=False)

    port: int = setting(5000, "Port of the server when this is its only user.", minimum=0, maximum=65535)
    custom_workflow_override: bool = setting(False, "Every request runs `customWorkflow`; no routing.")
    custom_workflow: str = setting("", "Workflow that answers when `customWorkflowOverride` is true.")
    routing_config: str = setting("", "File in Routing/ that is used when `customWorkflowOverride` is false.")
    categorization_workflow: str = setting("", "Workflow that names a category of the routing file.")
    max_categorization_attempts: int = setting(
        1,
        "How often the categorisation workflow may be asked; less than 1 counts as 1.",
        read=lambda value: whole_number(value, minimum=1),
    )
    discussion_id_memory_file_workflow_settings: str = setting(
        "", "Settings file for memories, in the user's workflow folder."
    )
    file_memory_tool_workflow: str = setting("", "Accepted; not read.")
    chat_summary_tool_workflow: str = setting("", "Workflow that writes the chat summary.")
    conversation_memory_tool_workflow: str = setting("", "Workflow of the ConversationMemory node.")
    recent_memory_tool_workflow: str = setting("", "Workflow of the RecentMemory node.")
    context_compactor_settings_file: str = setting(
        "", "Settings file of the ContextCompactor node, in the user's workflow folder."
    )
    discussion_directory: str = setting(
        "", "Folder for discussions; empty: DiscussionIds below the public folder."
    )
    sql_lite_directory: str = setting(
        "", "Folder for the lock database; empty: SqlLiteDBs below the public folder."
    )
    endpoint_configs_sub_directory: str = setting(
        "", "Sub-folder of Endpoints/; empty: Endpoints/ itself.", **_FOLDER
    )
    workflow_configs_sub_directory_override: str = setting(
        "", "Folder below Workflows/; empty: the user's name."
    )
    preset_configs_sub_directory_override: str = setting(
        "", "Sub-folder below each preset type; empty: the user's name.", **_FOLDER
    )
    structured_output_configs_sub_directory: str = setting(
        "", "Sub-folder of StructuredOutputs/; empty: the user's name.", **_FOLDER
    )
    shared_workflows_sub_directory_override: str = setting(
        "_shared", "Folder below Workflows/ whose sub-folders can be picked as models.", **_FOLDER
    )
    allow_shared_workflows: bool = setting(False, "List the shared workflows as models.")
    chat_prompt_template_name: str = setting(
        "", "Prompt template of nodes without an endpoint, and of endpoints that name none."
    )
    chat_complete_add_user_assistant: bool = setting(False)
    chat_completion_add_missing_assistant_generator: bool = setting(False)
    separate_conversation_in_variables: bool = setting(
        False, "Put `conversationSeparationDelimiter` between the messages of conversation variables."
    )
    conversation_separation_delimiter: str = setting("\n", "The delimiter.")
    user_wide_workflow_variables: Mapping[str, Any] = setting(
        _NOTHING, "Variables of all workflows of this user.", type="object", level="warning", read=_variables
    )
    clamp_prompt_to_context_window: bool = setting(
        False,
        "Cut conversations to the context window of the model.",
        type=["boolean", "string"],
        read=means_true,
    )
    connect_timeout_in_seconds: int = setting(
        30, "Seconds to wait for a connection to a backend.", minimum=1, maximum=2000000
    )
    liveness_tool_call: Mapping[str, Any] | None = setting(
        None,
        "A tool call that is added to answers of nodes with `injectLivenessToolCall`.",
        type="object",
        level="warning",
        properties={
            "toolName": {
                "type": "string",
                "description": "Name of the tool.",
                "minLength": 1,
                "x-level": "warning",
            },
            "arguments": {"type": "object", "x-level": "warning", "description": "Arguments of the call."},
        },
        required=["toolName"],
        read=_liveness,
    )
    encrypt_using_api_key: bool = setting(
        False, "Encrypt the files of discussions with the client's API key."
    )
    redact_log_output: bool = setting(False, "Keep texts of conversations out of the log.")
    intercept_open_web_ui_tool_requests: bool = setting(
        False,
        "Answer Open WebUI's tool selection requests at once with an empty choice.",
        key="interceptOpenWebUIToolRequests",
    )
    use_offline_wiki_api: bool = setting(False, "Switch on the offline Wikipedia nodes.")
    offline_wiki_api_host: str = setting("127.0.0.1", "Host of the offline Wikipedia service.")
    offline_wiki_api_port: int = setting(
        5728, "Port of the offline Wikipedia service.", minimum=1, maximum=65535
    )
    use_offline_researcher_api: bool = setting(False, "Switch on the offline researcher nodes.")
    offline_researcher_api_host: str = setting("127.0.0.1", "Host of the offline researcher service.")
    offline_researcher_api_port: int = setting(
        8890, "Port of the offline researcher service.", minimum=1, maximum=65535
    )
    use_file_logging: bool = setting(False, "Also write the log to a file.")
    max_workflow_depth: int = setting(64, "How deep workflows may be nested.", minimum=1, maximum=2000)
    max_parallel_nodes: int = setting(4, "How many nodes of a `parallelGroup` run at once.", minimum=1)
    static_stream_delay_ms: int = setting(
        0, "Milliseconds per word when a text that no model wrote is streamed.", minimum=0
    )
    advertised_context_length: int = setting(131072, "Context length that model lists state.", minimum=1)
    open_web_ui_task_workflow: str = setting(
        "", "Workflow that serves Open WebUI's title, tag and query requests.", key="openWebUITaskWorkflow"
    )
    embeddings_endpoint: str = setting(
        "",
        "Endpoint of an embeddings type that answers `/v1/embeddings` and `/api/embed`; empty: not served.",
    )
    discussion_id_from_header: str = setting("", "Name of a request header that holds the discussion id.")
    progress_output: str = setting(
        NO_PROGRESS,
        "Show in streams which node starts: as `reasoning`, or as a `status` of Open WebUI.",
        enum=[NO_PROGRESS, "reasoning", "status"],
    )
    outbound_policy: str = setting(
        "off", "`block-private`: nodes may not fetch private addresses.", enum=["off", "block-private"]
    )
    python_module_roots: tuple[str, ...] | None = setting(
        None,
        "Folders in which the scripts of PythonModule nodes must lie; absent: anywhere.",
        type="array",
        items={"type": "string"},
        read=_texts,
    )
    offline_wiki_api_url: str = setting(
        "", "Base URL of the offline Wikipedia service, instead of host and port."
    )

    @property
    def workflow_folder(self) -> str:
        """The user's workflow folder below `Workflows/`."""
        return paths.workflow_folder(self)

    @property
    def shared_folder(self) -> str:
        """The folder (below the config root) whose sub-folders can be picked by model name."""
        return paths.shared_folder(self)


SETTINGS = {key_of(f): f for f in fields(UserSettings) if f.name not in ("name", "raw")}
"""Key of the user file -> field of UserSettings."""

_FIELDS = {key: schema_of(one) for key, one in SETTINGS.items()}
hand_in("user", lambda: _FIELDS)


def load_user(snapshot: ConfigSnapshot, name: str) -> UserSettings:
    """The settings of `Users/<name in lower case>.json`. Raises ConfigMissing, ConfigError."""
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
    values: dict[str, Any] = {}
    for key, one in SETTINGS.items():
        value = document.get(key)
        if value is not None and value != "":
            typed = value_of(one, value)
            if typed is not None:
                values[one.name] = typed
    return UserSettings(name=name, raw=MappingProxyType(dict(document)), **values)
