"""Names -> paths below the config root, as text with `/`. Pure: touches no disk.

A name that would leave its folder is refused with a ConfigError that repeats it. `user` is a `UserSettings`.
"""

from __future__ import annotations

import posixpath
import re
from functools import lru_cache
from typing import Protocol, TypeGuard

from Middleware.common.errors import ConfigError

USER_POINTER = "Users/_current-user.json"
MACHINES_FILE = "Machines.json"
"""The limits of machines, directly in the config root."""
ALIASES_FILE = "ModelAliases.json"
"""Model names of clients, directly in the config root."""
KEYS_FILE = "Keys.json"
"""Who may ask what, directly in the config root unless the command line names another file."""
WORKFLOWS = "Workflows"
COMMON_FOLDER = "_common"
DEFAULT_WORKFLOW = "_DefaultWorkflow"
TOOL_FILE = "_mcpTool"
EXAMPLE = ".example"
"""Ends the name of an endpoint that ships as an example. Git ignores the file without it: the user's own."""


class UserFolders(Protocol):
    """What a `UserSettings` says of folders."""

    @property
    def name(self) -> str: ...
    @property
    def endpoint_configs_sub_directory(self) -> str: ...
    @property
    def preset_configs_sub_directory_override(self) -> str: ...
    @property
    def structured_output_configs_sub_directory(self) -> str: ...
    @property
    def workflow_configs_sub_directory_override(self) -> str: ...
    @property
    def shared_workflows_sub_directory_override(self) -> str: ...


_FORBIDDEN = re.compile(r"[\\:\x00]")
_HALF_A_CHARACTER = re.compile("[\ud800-\udfff]")
_OF_THE_HOUSE = re.compile(
    r"\.(lock|rekey_journal\.json|(making|importing|restoring)-.*|.*\.(lease|tmp|partial))", re.I | re.S
)
"""Names that files and folders between discussions have: a discussion of that name would be taken for one."""
_LONGEST_NAME = 255
"""Bytes of one name on the usual file systems."""


def is_flat_name(value: object) -> bool:
    r"""One path component: a non-empty text, not `.` or `..`, without `/`, `\` and `:`. Source: workflows.md
    1.3.

    What no file system takes as a name is none either: NUL, half a character, more than 255 bytes.
    """
    return (
        isinstance(value, str)
        and value not in ("", ".", "..")
        and "/" not in value
        and not _FORBIDDEN.search(value)
        and (value.isascii() or not _HALF_A_CHARACTER.search(value))
        and len(value.encode()) <= _LONGEST_NAME
    )


def is_discussion_id(value: object) -> TypeGuard[str]:
    """A flat name that is not blank, and none of those that the house itself needs beside discussions.

    Source: memory.md 1.
    """
    return (
        isinstance(value, str)
        and is_flat_name(value)
        and bool(value.strip())
        and not _OF_THE_HOUSE.fullmatch(value)
    )


def nested_name(value: object, what: str) -> str:
    r"""A name that may reach a nested folder with `/` but stays where it is: no part empty, `.` or `..`."""
    if isinstance(value, str) and _stays(value):
        return value
    raise ConfigError(
        f"{value!r} cannot be the name of {what}, because it is empty or leads out of its folder"
    )


@lru_cache(maxsize=4096)
def _stays(value: str) -> bool:
    return all(is_flat_name(part) for part in value.split("/"))


@lru_cache(maxsize=4096)
def _folder(value: str, what: str) -> str:
    """`<value>/`, or nothing for an empty value. Slashes at the end are forgiven."""
    value = value.rstrip("/")
    return f"{nested_name(value, what)}/" if value else ""


def is_user_pointer(file: str) -> bool:
    """Whether a file is the pointer. Any other name that begins with `_` is a user's."""
    return file.casefold() == USER_POINTER.casefold()


def is_archived_user(file: str) -> bool:
    """Whether a file lies in a folder below `Users/`: no user, whatever is in it."""
    return file.startswith("Users/") and file.count("/") > 1


def user_file(name: str) -> str:
    """`Users/<name in lower case>.json`. A folder below `Users/` (an archive) holds no users."""
    if not is_flat_name(name):
        raise ConfigError(f"{name!r} cannot be the name of a user; it must be a plain file name")
    return f"Users/{name.lower()}.json"


def endpoint_folder(user: UserFolders) -> str:
    """`Endpoints/[<endpointConfigsSubDirectory>/]`."""
    return f"Endpoints/{_folder(user.endpoint_configs_sub_directory, 'an endpoint folder')}"


def endpoint_file(user: UserFolders, name: str) -> str:
    """The endpoint file that the user writes."""
    return f"{endpoint_folder(user)}{nested_name(name, 'an endpoint')}.json"


def endpoint_files(user: UserFolders, name: str) -> tuple[str, str]:
    """The user's file first, then the example that ships beside it: `Main.json`, `Main.example.json`."""
    file = endpoint_file(user, name)
    return file, f"{file.removesuffix('.json')}{EXAMPLE}.json"


def endpoint_name(user: UserFolders, file: str) -> str:
    """The name that leads to an endpoint file of the user's folder: `Main` for either of the two."""
    return file.removeprefix(endpoint_folder(user)).removesuffix(".json").removesuffix(EXAMPLE)


def api_type_file(name: str) -> str:
    return f"ApiTypes/{nested_name(name, 'an API type')}.json"


def preset_files(user: UserFolders, preset_type: str, name: str) -> tuple[str, str]:
    """The user's own folder first, then the folder of the preset type."""
    base = f"Presets/{_folder(preset_type, 'a preset type')}"
    name = nested_name(name, "a preset")
    own = _folder(user.preset_configs_sub_directory_override or user.name, "a preset folder")
    return f"{base}{own}{name}.json", f"{base}{name}.json"


def prompt_template_file(name: str) -> str:
    return f"PromptTemplates/{nested_name(name, 'a prompt template')}.json"


def routing_file(name: str) -> str:
    return f"Routing/{nested_name(name, 'a routing file')}.json"


def mcp_server_file(name: str) -> str:
    if not is_flat_name(name):
        raise ConfigError(f"{name!r} cannot be the name of an MCP server; it must be a plain file name")
    return f"MCPServers/{name}.json"


def structured_output_files(user: UserFolders, name: str) -> tuple[str, str]:
    """The user's own folder first. `structuredOutputFile` must be a plain file name."""
    if not is_flat_name(name):
        raise ConfigError(f"structuredOutputFile {name!r} must be a plain file name, without folders")
    own = _folder(user.structured_output_configs_sub_directory or user.name, "a structured output folder")
    return f"StructuredOutputs/{own}{name}.json", f"StructuredOutputs/{name}.json"


def workflow_folder(user: UserFolders) -> str:
    """The user's own workflow folder, below `Workflows/`."""
    return (user.workflow_configs_sub_directory_override or user.name).rstrip("/")


def is_tool_file(file: str) -> bool:
    """Whether a file makes the shared workflow beside it a tool: it is no workflow."""
    return file.startswith(f"{WORKFLOWS}/") and file.endswith(f"/{TOOL_FILE}.json")


@lru_cache(maxsize=4096)
def workflow_file(folder: str, name: str) -> str:
    """`Workflows/<folder>/<name>.json`. Either may hold `/`; a path that leaves `Workflows/` is refused."""
    path = posixpath.normpath(f"{WORKFLOWS}/{folder}/{name}.json")
    absolute = folder.startswith("/") or name.startswith("/")
    if absolute or not name or _FORBIDDEN.search(path) or not path.startswith(f"{WORKFLOWS}/"):
        raise ConfigError(f"workflow {name!r} in folder {folder!r} would be outside {WORKFLOWS}/")
    return path


def shared_folder(user: UserFolders) -> str:
    """`Workflows/<sharedWorkflowsSubDirectoryOverride or "_shared">`: its sub-folders can be picked as
    models.
    """
    return f"{WORKFLOWS}/{_folder(user.shared_workflows_sub_directory_override, 'a shared folder')}".rstrip(
        "/"
    )


def shared_workflow_folder(user: UserFolders, picked: str) -> str:
    """Folder value (below `Workflows/`) of a workflow that the model field picked."""
    return f"{shared_folder(user)}/{picked}".removeprefix(f"{WORKFLOWS}/")
