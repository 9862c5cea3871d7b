"""One user's settings: the user file as one frozen value. Empty texts mean "not set"."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from types import MappingProxyType
from typing import Any

from Middleware.common.errors import ConfigError, ConfigMissing
from Middleware.config import paths
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.validation import nearest_file

logger = logging.getLogger(__name__)

_NOTHING: Mapping[str, Any] = MappingProxyType({})
_TRUE_WORDS = ("true", "1", "yes", "on")


def means_true(value: object) -> bool:
    """Truth of `clampPromptToContextWindow`: the words `true 1 yes on` in any case, other texts are false."""
    if isinstance(value, str):
        return value.strip().casefold() in _TRUE_WORDS
    return bool(value)


@dataclass(frozen=True, slots=True)
class UserSettings:
    """The user file with every default. Source: workflows.md 2.3 and 17.1; a key `camelCase` is `snake_case`
    here.

    `name` is the user's name as given; `raw` the file's object, read-only (what `user_config` is to
    cleaning).
    """

    name: str
    raw: Mapping[str, Any] = field(default_factory=lambda: _NOTHING, repr=False)

    port: int = 5000
    custom_workflow_override: bool = False
    custom_workflow: str = ""
    routing_config: str = ""
    categorization_workflow: str = ""
    max_categorization_attempts: int = 1
    discussion_id_memory_file_workflow_settings: str = ""
    file_memory_tool_workflow: str = ""
    chat_summary_tool_workflow: str = ""
    conversation_memory_tool_workflow: str = ""
    recent_memory_tool_workflow: str = ""
    context_compactor_settings_file: str = ""
    discussion_directory: str = ""
    sql_lite_directory: str = ""
    endpoint_configs_sub_directory: str = ""
    workflow_configs_sub_directory_override: str = ""
    preset_configs_sub_directory_override: str = ""
    structured_output_configs_sub_directory: str = ""
    shared_workflows_sub_directory_override: str = "_shared"
    allow_shared_workflows: bool = False
    chat_prompt_template_name: str = ""
    chat_complete_add_user_assistant: bool = False
    chat_completion_add_missing_assistant_generator: bool = False
    separate_conversation_in_variables: bool = False
    conversation_separation_delimiter: str = "\n"
    user_wide_workflow_variables: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    clamp_prompt_to_context_window: bool = False
    connect_timeout_in_seconds: int = 30
    liveness_tool_call: Mapping[str, Any] | None = None
    encrypt_using_api_key: bool = False
    redact_log_output: bool = False
    intercept_open_web_ui_tool_requests: bool = field(
        default=False, metadata={"key": "interceptOpenWebUIToolRequests"}
    )
    use_offline_wiki_api: bool = False
    offline_wiki_api_host: str = "127.0.0.1"
    offline_wiki_api_port: int = 5728
    use_offline_researcher_api: bool = False
    offline_researcher_api_host: str = "127.0.0.1"
    offline_researcher_api_port: int = 8890
    use_file_logging: bool = False
    max_workflow_depth: int = 64
    max_parallel_nodes: int = 4
    static_stream_delay_ms: int = 0
    advertised_context_length: int = 131072
    open_web_ui_task_workflow: str = field(default="", metadata={"key": "openWebUITaskWorkflow"})
    discussion_id_from_header: str = ""
    outbound_policy: str = "off"
    python_module_roots: tuple[str, ...] | None = None
    offline_wiki_api_url: str = ""

    @property
    def workflow_folder(self) -> str:
        """The user's workflow folder below `Workflows/`."""
        return paths.workflow_folder(self)

    @property
    def shared_folder(self) -> str:
        """The folder (below the config root) whose sub-folders can be picked by model name."""
        return paths.shared_folder(self)


def _key(setting: Field[Any]) -> str:
    spelled = setting.metadata.get("key")
    return str(spelled) if spelled else re.sub(r"_([a-z])", lambda m: m.group(1).upper(), setting.name)


SETTINGS = {_key(f): f for f in fields(UserSettings) if f.name not in ("name", "raw")}
"""Key of the user file -> field of UserSettings."""


def load_user(snapshot: ConfigSnapshot, name: str) -> UserSettings:
    """The settings of `Users/<name in lower case>.json`. Raises ConfigMissing, ConfigError."""
    file = snapshot.find(paths.user_file(name))
    if file is None or paths.is_user_pointer(file):
        known = user_names(snapshot)
        near = nearest_file(name, known)
        hint = f" (did you mean {near!r}?)" if near else f"; there are: {', '.join(known) or 'none'}"
        raise ConfigMissing(f"no user {name!r}: there is no file {paths.user_file(name)}{hint}")
    return snapshot.derived(file, name, lambda document: settings_of(name, document))


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
    for key, setting in SETTINGS.items():
        value = document.get(key)
        if value is not None and value != "":
            typed = _typed(key, setting, value)
            if typed is not None:
                values[setting.name] = typed
    return UserSettings(name=name, raw=MappingProxyType(dict(document)), **values)


def _typed(key: str, setting: Field[Any], value: Any) -> Any:
    special = _SPECIAL.get(key)
    if special is not None:
        return special(value)
    default = setting.default
    if isinstance(default, bool):
        return bool(value)
    if isinstance(default, int):
        return _whole(value, minimum=_MINIMUM.get(key))
    return value if isinstance(value, str) else None


_MINIMUM = {
    "maxCategorizationAttempts": 1,
    "connectTimeoutInSeconds": 1,
    "maxWorkflowDepth": 1,
    "maxParallelNodes": 1,
    "advertisedContextLength": 1,
}


def _whole(value: Any, minimum: int | None) -> int | None:
    """The number, or of a text that holds one; None for anything else or below the minimum."""
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if minimum is None or number >= minimum else None


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


_SPECIAL = {
    "userWideWorkflowVariables": _variables,
    "clampPromptToContextWindow": means_true,
    "livenessToolCall": _liveness,
    "pythonModuleRoots": _texts,
}
