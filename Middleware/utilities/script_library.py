"""What users' scripts may import beside the names of tools.md 8.4: tokens, messages, texts, config files.

Thin faces; our own code calls none of them. A message is `{"role": str, "content": str, ...}`. Each name
stays where it is and keeps its arguments; `script_check` proposes one in place of a name that does not exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from Middleware.common.types import Messages
from Middleware.config.loader import default_snapshot
from Middleware.utilities.config_utils import (
    get_config_path,
    get_default_tool_prompt_path,
    get_user_config,
)
from Middleware.utilities.prompt_extraction_utils import (
    discussion_id,
    message_cost,
    newest_first,
    newest_within,
    system_text,
    text_between,
    text_in_tag,
    without_discussion_tags,
    without_system,
)
from Middleware.utilities.streaming_utils import remove_thinking_from_text
from Middleware.utilities.text_utils import estimate_tokens, return_brackets_in_string

__all__ = (
    "discussion_id",
    "estimate_tokens",
    "estimate_tokens_of_messages",
    "get_config_path",
    "get_default_tool_prompt_path",
    "get_user_config",
    "last_messages",
    "last_user_message",
    "read_config",
    "remove_thinking_from_text",
    "return_brackets_in_string",
    "system_prompt",
    "text_between",
    "text_in_tag",
    "without_discussion_tags",
    "without_system",
)

SUBJECTS: Mapping[str, str] = {
    "discussion_id": "discussion id",
    "estimate_tokens": "token tokens count estimate length size",
    "estimate_tokens_of_messages": "token tokens messages conversation",
    "last_messages": "last messages turns history conversation extract recent chat",
    "last_user_message": "last user message prompt",
    "system_prompt": "system prompt",
    "text_in_tag": "tag tags xml",
    "without_system": "without remove system messages",
    "without_discussion_tags": "discussion tag tags remove strip",
    "remove_thinking_from_text": "thinking think remove strip",
    "return_brackets_in_string": "bracket brackets brace braces curly",
    "read_config": "config load read json file endpoint preset settings",
    "get_config_path": "config path directory folder file",
    "get_user_config": "user config settings",
    "get_default_tool_prompt_path": "tool prompt path",
}
"""Name -> the words by which older names for the same thing are likely made."""


def estimate_tokens_of_messages(messages: Messages) -> int:
    """The estimated tokens of the contents of these messages together."""
    return sum(map(message_cost, messages))


def last_messages(
    messages: Messages, count: int | None = None, max_tokens: int | None = None, include_system: bool = False
) -> Messages:
    """The newest messages, oldest first: at most `count`, and no more than fit in `max_tokens` (the newest
    one always comes). None: no such limit. Without system messages, unless `include_system`.
    """
    newest = reversed(messages) if include_system else newest_first(messages, drop_all_system=True)
    return newest_within(newest, count=count, budget=max_tokens)


def last_user_message(messages: Messages) -> str:
    """The content of the newest message of the user; "" without one."""
    return next((message["content"] for message in reversed(messages) if message["role"] == "user"), "")


def system_prompt(messages: Messages) -> str:
    """The contents of the system messages at the front, joined by blanks; "" without one."""
    return system_text(messages, everywhere=False)


def read_config(sub_directory: str, file_name: str) -> Any:
    """A copy of what `<Configs>/<sub_directory>/<file_name>.json` holds, as the current request sees it.

    Raises ConfigMissing, ConfigError.
    """
    return deepcopy(default_snapshot().read(f"{sub_directory}/{file_name}.json"))
