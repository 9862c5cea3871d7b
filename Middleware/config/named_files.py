"""Files that a name leads to: found among the places where they may lie, and read.

A name that leads nowhere is a ConfigMissing with the paths that were tried and the nearest name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from Middleware.common.errors import ConfigMissing
from Middleware.config import paths
from Middleware.config.keys import ANY, FLAG, TEXT, TEXTS, TEXTS_BY_NAME, WHOLE, one_of
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.users import UserSettings
from Middleware.config.validation import nearest_file, state_file, without_nulls


def _missing(what: str, name: str, tried: Sequence[str], known: Sequence[str]) -> ConfigMissing:
    """`no endpoint "smal-model" in Endpoints/lan (did you mean "small-model"?); tried ...`."""
    near = nearest_file(name, known)
    hint = f' (did you mean "{near}"?)' if near else ""
    folder = tried[0].rpartition("/")[0]
    return ConfigMissing(f'no {what} "{name}" in {folder}{hint}; tried {", ".join(tried)}')


def lost_folder(snapshot: ConfigSnapshot, folder: str) -> str:
    """`there is no folder Endpoints/lna (did you mean "lan"?)`; "" when it is there, or one of all trees."""
    if "/" not in folder or snapshot.find(folder):
        return ""
    above, _, name = folder.rpartition("/")
    near = nearest_file(name, snapshot.folders(above))
    return f"there is no folder {folder}" + (f' (did you mean "{near}"?)' if near else "")


def find_first(snapshot: ConfigSnapshot, what: str, name: str, tried: Sequence[str]) -> str:
    """The first path that exists. Raises ConfigMissing."""
    file = snapshot.first(tried)
    if file is None:
        folders = [path.rpartition("/")[0] for path in tried]
        gone = lost_folder(snapshot, folders[-1])
        if gone:
            raise ConfigMissing(f'no {what} "{name}": {gone}; tried {", ".join(tried)}')
        known = {n.removesuffix(paths.EXAMPLE): None for folder in folders for n in snapshot.files(folder)}
        raise _missing(what, name, tried, list(known))
    return file


# --------------------------------------------------------------------------
# Prompt templates.


_MARK = TEXT("", default="")

PROMPT_TEMPLATE_KEYS = {
    "promptTemplateSystemPrefix": _MARK("Before the system prompt."),
    "promptTemplateSystemSuffix": _MARK("After the system prompt."),
    "promptTemplateUserPrefix": _MARK("Before each user turn."),
    "promptTemplateUserSuffix": _MARK("After each user turn."),
    "promptTemplateAssistantPrefix": _MARK("Before each assistant turn."),
    "promptTemplateAssistantSuffix": _MARK("After each assistant turn."),
    "promptTemplateSystemmesPrefix": _MARK("Before system notes inside the conversation."),
    "promptTemplateSystemmesSuffix": _MARK("After system notes inside the conversation."),
    "promptTemplateToolPrefix": _MARK("Before each tool turn."),
    "promptTemplateToolSuffix": _MARK("After each tool turn."),
    "promptTemplateEndToken": _MARK("After the mark that asks for an answer."),
    "promptTemplateGenSeparator": ANY("Accepted; not read."),
}
state_file(
    "prompttemplate",
    "Prompt template",
    "PromptTemplates/<name>.json: the marks around turns, for backends that take one text.",
    PROMPT_TEMPLATE_KEYS,
    patternProperties={"^promptTemplate[A-Z][a-z]*(Prefix|Suffix)$": TEXT.schema()},
)


def load_prompt_template(snapshot: ConfigSnapshot, name: str | None) -> Mapping[str, str]:
    """The object of a prompt template; no name: an empty one (all marks are empty). Raises ConfigMissing."""
    if not name:
        return MappingProxyType({})
    document = snapshot.read(
        find_first(snapshot, "prompt template", name, (paths.prompt_template_file(name),))
    )
    return MappingProxyType(without_nulls(document))


# --------------------------------------------------------------------------
# Schemas of structured outputs.


state_file(
    "structuredoutput",
    "Structured output",
    "StructuredOutputs/[<folder>/]<name>.json: a JSON Schema that an answer must fit.",
    {},
    minProperties=1,
    open=True,
)


def load_structured_schema(snapshot: ConfigSnapshot, user: UserSettings, name: str) -> dict[str, Any]:
    """The JSON Schema that `structuredOutputFile` names: a non-empty object. Raises ConfigMissing,
    ConfigError.
    """
    tried = paths.structured_output_files(user, name)
    schema: dict[str, Any] = snapshot.read(find_first(snapshot, "structured output schema", name, tried))
    return schema


# --------------------------------------------------------------------------
# Tool servers. Their secrets and types are filled in where they are called (`workflows/tools`).


MCP_SERVER_KEYS = {
    "transport": one_of("stdio", "sse", "streamable_http")("How the server is reached.", required=True),
    "command": TEXT("Program to start (stdio).", minLength=1),
    "args": TEXTS("Its arguments (stdio); `${ENV:NAME}` allowed.", default=[]),
    "env": TEXTS_BY_NAME("Added to a small environment (stdio); `${ENV:NAME}` allowed."),
    "cwd": TEXT("Working folder (stdio).", empty=None),
    "url": TEXT("Address (sse, streamable_http); `${ENV:NAME}` allowed.", minLength=1),
    "headers": TEXTS_BY_NAME("Headers (sse, streamable_http); `${ENV:NAME}` allowed."),
    "allowedTools": TEXTS("Tools that may be called; absent: all."),
    "maxResultBytes": WHOLE("Longer results are cut.", minimum=1),
    "blockPrivateAddresses": FLAG.strict("Refuse private addresses."),
    "allowedHosts": TEXTS("Hosts that may be called.", minItems=1),
}


def _needs(key: str, *transports: str) -> dict[str, Any]:
    """A server that is reached in one of these ways needs the key."""
    condition = {"properties": {"transport": {"enum": list(transports)}}, "required": ["transport"]}
    return {"if": condition, "then": {"required": [key]}}


state_file(
    "mcpserver",
    "MCP server",
    "MCPServers/<name>.json: a server whose tools MCPToolCall nodes may call.",
    MCP_SERVER_KEYS,
    allOf=[_needs("command", "stdio"), _needs("url", "sse", "streamable_http")],
)


def load_mcp_server(snapshot: ConfigSnapshot, name: str) -> Mapping[str, Any]:
    """The object of `MCPServers/<name>.json`, `${ENV:NAME}` not replaced yet. Raises ConfigMissing,
    ConfigError.
    """
    server: Mapping[str, Any] = snapshot.read(
        find_first(snapshot, "MCP server", name, (paths.mcp_server_file(name),))
    )
    return server
