"""One call of a tool server, as a value: what the session pool is asked, in this process or in its helper.

The server's file is read, checked and its `${ENV:NAME}` filled here, at the caller's side. Source: spec
tools.md 5.2 and 11.5.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from Middleware.common.errors import ConfigError
from Middleware.common.secrets import SECRET_NAME, secrets_of_header, secrets_of_url, secrets_of_words
from Middleware.config.endpoints import ENV_REFERENCE, expand, expand_all, from_environment
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.named_files import MCP_SERVER_KEYS, load_mcp_server
from Middleware.config.validation import without_nulls


class MCPToolCallError(RuntimeError):
    """A call of a tool server failed, whatever the reason."""


@dataclass(frozen=True, slots=True)
class McpServer:
    """A server's file with its secrets filled in. `secrets`: what no log line may show."""

    name: str
    transport: str
    command: str = ""
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = None
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    allowed_tools: tuple[str, ...] | None = None
    max_result_bytes: int | None = None
    block_private_addresses: bool = False
    allowed_hosts: tuple[str, ...] | None = None
    secrets: tuple[str, ...] = field(default=(), repr=False)

    def allows(self, tool: str) -> bool:
        return self.allowed_tools is None or tool in self.allowed_tools


@dataclass(frozen=True, slots=True)
class McpRequest:
    """`tool`: None = the list of tools. `timeout_s`: for all of it, the wait for a session included.

    `private`: the request's texts may stand in no log; where nobody knows, they may not.
    """

    server: McpServer
    user: str
    tool: str | None
    arguments: Mapping[str, Any] = field(default_factory=dict, repr=False)
    timeout_s: float = 30.0
    private: bool = True
    waited_s: float = 0.0
    """How much of the time limit is over: the first call has waited for the package to be imported."""
    brief_media: bool = False
    """Pictures, sounds and other bytes of a result stand as what they are, not as their base64."""

    @property
    def key(self) -> str:
        """One session serves all requests with the same server file (secrets filled) and the same user."""
        facts = json.dumps([self.user, asdict(self.server)], sort_keys=True)
        return hashlib.sha256(facts.encode("utf-8", "surrogatepass")).hexdigest()

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def request_from(document: Mapping[str, Any]) -> McpRequest:
    """The request of a `to_json` that was read."""
    server: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in document["server"].items()
    }
    return McpRequest(**{**document, "server": McpServer(**server)})


def read_server(snapshot: ConfigSnapshot, name: str) -> McpServer:
    """The server of `MCPServers/<name>.json`. Raises MCPToolCallError for whatever is wrong with it."""
    try:
        return _filled_server(name, without_nulls(load_mcp_server(snapshot, name)))
    except ConfigError as error:
        raise MCPToolCallError(f"MCP server {name!r}: {error}") from error


def _filled_server(name: str, file: Mapping[str, Any]) -> McpServer:
    """Raises ConfigError for a secret that the environment does not hold."""
    place = f"MCPServers/{name}.json"
    said = {key: one.value_in(file, key) for key, one in MCP_SERVER_KEYS.items()}
    url, headers, env, written = said["url"], said["headers"], said["env"], said["args"]
    texts = (url, *headers.values(), *env.values(), *written)
    named = [found for text in texts for found in ENV_REFERENCE.findall(text)]
    args = tuple(expand(arg, file=place, pointer=f"/args/{at}") for at, arg in enumerate(written))
    return McpServer(
        name=name,
        transport=said["transport"],
        command=said["command"],
        args=args,
        env=expand_all(env, file=place, pointer="/env"),
        cwd=said["cwd"],
        url=expand(url, file=place, pointer="/url"),
        headers=expand_all(headers, file=place, pointer="/headers"),
        allowed_tools=_texts(said["allowedTools"]),
        max_result_bytes=said["maxResultBytes"],
        block_private_addresses=said["blockPrivateAddresses"],
        allowed_hosts=_texts(said["allowedHosts"]),
        secrets=_with_lines(
            [
                *(from_environment(variable, file=place) for variable in named),
                *(word for value in headers.values() for word in secrets_of_header(value)),
                *(value for variable, value in env.items() if SECRET_NAME.search(variable)),
                *secrets_of_words(args),
                *(secret for text in (url, *env.values()) for secret in secrets_of_url(text)),
            ]
        ),
    )


def _with_lines(secrets: Iterable[str]) -> tuple[str, ...]:
    """Each secret and its lines, longest first: what a server says is masked line by line."""
    parts = dict.fromkeys(part for secret in secrets for part in (secret, *secret.splitlines()))
    return tuple(sorted(parts, key=len, reverse=True))


def _texts(value: Any) -> tuple[str, ...] | None:
    return None if value is None else tuple(value)
