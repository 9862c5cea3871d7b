"""Thin faces of the config floor that users' scripts import (tools.md 8.4). Our own code calls none of them.

They answer for the current request's user, and for the single or pointer user when there is no request.
"""

from __future__ import annotations

from typing import Any

from Middleware.common.instance_global_variables import launch_facts
from Middleware.common.request_context import current_request
from Middleware.config.loader import default_snapshot
from Middleware.config.users import load_user, pointer_user


def get_config_path(sub_directory: str, file_name: str) -> str:
    """Full path of `<Configs>/<sub_directory>/<file_name>.json`, whether it exists or not."""
    return str(launch_facts().config_directory / sub_directory / f"{file_name}.json")


def get_user_config() -> dict[str, Any]:
    """A copy of the user file's object. Raises ConfigMissing, ConfigError."""
    snapshot = default_snapshot()
    request = current_request()
    users = launch_facts().users
    name = request.user if request else users[0] if users else pointer_user(snapshot)
    return dict(load_user(snapshot, name).raw)


def get_default_tool_prompt_path() -> str:
    """Full path of `<Configs>/default_tool_prompt.txt`."""
    return str(launch_facts().config_directory / "default_tool_prompt.txt")
