"""Endpoint + API type + preset, found, merged and typed. Knows names and files; never the shape of a
request.

`user` is whose folders are searched. A name that leads nowhere is a ConfigMissing with the paths that were
tried.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

from Middleware.common.errors import ConfigError, ConfigMissing
from Middleware.config import environment, paths
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.users import UserSettings, means_true
from Middleware.config.validation import nearest_file

EMBEDDING_TYPES = ("openAIEmbeddings", "ollamaEmbeddings")


@dataclass(frozen=True, slots=True)
class InjectedTexts:
    """The texts that an endpoint adds to what is sent; `""` = none."""

    system: str = ""
    prompt: str = ""
    completion: str = ""
    own_assistant_turn: bool = False

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> InjectedTexts:
        """Read from the endpoint file: a text counts when its flag is true."""

        def text(place: str) -> str:
            value = raw.get(f"textToAddToStartOf{place}")
            return value if raw.get(f"addTextToStartOf{place}") is True and isinstance(value, str) else ""

        own_turn = raw.get("ensureTextAddedToAssistantWhenChatCompletion") is True
        return cls(text("System"), text("Prompt"), text("Completion"), own_turn)


def _is_true(value: Any) -> bool:
    return value is True


def _is_not_false(value: Any) -> bool:
    return value is not False


def _text(value: Any) -> str:
    return str(value or "")


def _name(value: Any) -> str:
    return _text(value).strip()


def _given(value: Any) -> Any:
    """0, an empty text and an empty object say as little as null."""
    return value or None


def _size(value: Any) -> int | float | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if number and value > 0 else None


def _of(key: str, read: Callable[[Any], Any], *, else_of_api_type: bool = False) -> dict[str, Any]:
    """Where a field comes from. `else_of_api_type`: the API type may give a default for it."""
    return {"key": key, "read": read, "else_of_api_type": else_of_api_type}


@dataclass(frozen=True, slots=True, repr=False)
class EndpointConfig:
    """An endpoint and its API type. `raw` and `api_type` are the files' objects, read-only; what cleaning
    rules want to know of an endpoint they read from `raw` themselves, every other key is a field here.

    `file`: the endpoint's path below the config root. Source: backends.md 2; a key `camelCase` is
    `snake_case` here, empty texts mean "not set".
    """

    name: str
    raw: Mapping[str, Any]
    api_type_name: str
    api_type: Mapping[str, Any]
    file: str = ""

    url: str = field(init=False, metadata=_of("endpoint", lambda value: _name(value).rstrip("/")))
    """Base address without slashes at its end."""
    model: str = field(init=False, metadata=_of("modelNameToSendToAPI", _text))
    dont_include_model: bool = field(init=False, metadata=_of("dontIncludeModel", _is_true))
    written_headers: Mapping[str, str] = field(
        init=False, metadata=_of("extraHeaders", lambda value: value or {})
    )
    """`extraHeaders` as they stand in the file."""
    max_context_token_size: int | float | None = field(init=False, metadata=_of("maxContextTokenSize", _size))
    wilmer_context_estimation_level: str | None = field(
        init=False, metadata=_of("wilmerContextEstimationLevel", _given)
    )
    clamp_prompt_to_context_window: bool | None = field(
        init=False,
        metadata=_of(
            "clampPromptToContextWindow", lambda value: None if value is None else means_true(value)
        ),
    )
    prompt_template: str = field(init=False, metadata=_of("promptTemplate", _text))
    strict_prompt_template: bool = field(init=False, metadata=_of("strictPromptTemplate", _is_true))
    add_generation_prompt: bool = field(init=False, metadata=_of("addGenerationPrompt", _is_true))
    injected_texts: InjectedTexts = field(init=False)
    """`addTextToStartOf...`, `textToAddToStartOf...`, `ensureTextAddedToAssistantWhenChatCompletion`."""
    backend_supports_tool_turns: bool = field(
        init=False, metadata=_of("backendSupportsToolTurns", _is_not_false)
    )
    claude_prefill: bool = field(init=False, metadata=_of("claudePrefill", _is_not_false))
    reasoning_parser: str | None = field(init=False, metadata=_of("reasoningParser", _given))
    preset_samplers: Mapping[str, Any] | None = field(init=False, metadata=_of("presetSamplers", _given))
    append_preset_name: str = field(init=False, metadata=_of("appendPresetName", _text))
    backup_endpoint_name: str = field(init=False, metadata=_of("backupEndpointName", _name))
    """The endpoint to fail over to."""
    backup_preset_name: str = field(init=False, metadata=_of("backupPresetName", _text))
    allow_remote_backup: bool = field(init=False, metadata=_of("allowRemoteBackup", _is_true))
    max_concurrent_requests: int | None = field(init=False, metadata=_of("maxConcurrentRequests", _given))
    connect_timeout_in_seconds: float | None = field(
        init=False, metadata=_of("connectTimeoutInSeconds", _given)
    )
    read_timeout_in_seconds: float | None = field(init=False, metadata=_of("readTimeoutInSeconds", _given))
    backend_stream: str = field(
        init=False, metadata=_of("backendStream", lambda value: value or "asRequested", else_of_api_type=True)
    )
    """`always`: the backend is asked to stream also where a whole answer is wanted."""
    request_stream_usage: bool | None = field(
        init=False, metadata=_of("requestStreamUsage", lambda value: value, else_of_api_type=True)
    )

    def __post_init__(self) -> None:
        for place, key, read, else_of_api_type in _READ:
            value = self.raw.get(key)
            if value is None and else_of_api_type:
                value = self.api_type.get(key)
            object.__setattr__(self, place, read(value))
        object.__setattr__(self, "injected_texts", InjectedTexts.of(self.raw))

    def __repr__(self) -> str:
        return f"EndpointConfig({self.name!r}, {self.api_type_name!r}, {self.file!r})"  # never a key or a URL

    @property
    def type(self) -> str:
        """The API type's `type`, which picks the backend."""
        return str(self.api_type.get("type") or "")

    @property
    def preset_type(self) -> str:
        """The folder below `Presets/`."""
        return str(self.api_type.get("presetType") or "")

    @property
    def api_key(self) -> str:
        """`apiKey`, else the environment variable `apiKeyEnv` (read now), else "". Raises ConfigError."""
        key, variable = self.raw.get("apiKey"), self.raw.get("apiKeyEnv")
        if key or not variable:
            return str(key or "").strip()
        return environment.from_environment(str(variable), file=self.file, pointer="/apiKeyEnv").strip()

    @property
    def extra_headers(self) -> dict[str, str]:
        """`extraHeaders` with each `${ENV:NAME}` replaced (read now). Raises ConfigError."""
        return environment.expand_all(self.written_headers, file=self.file, pointer="/extraHeaders")


_READ = tuple(
    (each.name, each.metadata["key"], each.metadata["read"], each.metadata["else_of_api_type"])
    for each in fields(EndpointConfig)
    if each.metadata
)
"""Field, its key, how the value is read, whether the API type may give a default."""


@dataclass(frozen=True, slots=True)
class Samplers:
    """What a preset says. `canonical`: `block` holds canonical names, to be translated; else native ones.

    `append`: the file of `appendPresetName`, native names, merged on top of the result; None: there is none.
    """

    block: Mapping[str, Any]
    canonical: bool
    append: Mapping[str, Any] | None = None


def _missing(what: str, name: str, tried: Sequence[str], known: Sequence[str]) -> ConfigMissing:
    """`no endpoint "smal-model" in Endpoints/lan (did you mean "small-model"?); tried ...`."""
    near = nearest_file(name, known)
    hint = f' (did you mean "{near}"?)' if near else ""
    folder = tried[0].rpartition("/")[0]
    return ConfigMissing(f'no {what} "{name}" in {folder}{hint}; tried {", ".join(tried)}')


def _found(snapshot: ConfigSnapshot, what: str, name: str, tried: Sequence[str]) -> str:
    """The first path that exists. Raises ConfigMissing."""
    file = snapshot.first(tried)
    if file is None:
        folders = [path.rpartition("/")[0] for path in tried]
        raise _missing(what, name, tried, [n for folder in folders for n in snapshot.files(folder)])
    return file


def load_endpoint(snapshot: ConfigSnapshot, user: UserSettings, name: str) -> EndpointConfig:
    """An endpoint with its API type. Raises ConfigMissing, ConfigError."""
    file = _found(snapshot, "endpoint", name, (paths.endpoint_file(user, name),))
    raw = snapshot.read(file)
    api_name = str(raw.get("apiTypeConfigFileName") or "")
    api_file = snapshot.find(paths.api_type_file(api_name), (file, "/apiTypeConfigFileName"))
    if api_file is None:
        known = snapshot.files("ApiTypes")
        near = nearest_file(api_name, known)
        hint = f' (did you mean "{near}"?)' if near else f"; there are: {', '.join(known)}"
        raise ConfigMissing(
            f'no API type "{api_name}" in ApiTypes{hint}', file=file, pointer="/apiTypeConfigFileName"
        )
    api_type = snapshot.read(api_file)

    def build(_: Any) -> EndpointConfig:
        return EndpointConfig(name, MappingProxyType(raw), api_name, MappingProxyType(api_type), file)

    # Both files decide: the value is kept with the version of the one, keyed by that of the other.
    return snapshot.derived(
        file, (name, id(api_type)), lambda document: _Kept(api_type, build(document))
    ).endpoint


@dataclass(frozen=True, slots=True)
class _Kept:
    """An endpoint with the API type object of its key, which must live as long as its id is used."""

    api_type: Any
    endpoint: EndpointConfig


def load_samplers(
    snapshot: ConfigSnapshot, user: UserSettings, endpoint: EndpointConfig, preset_name: str | None
) -> Samplers:
    """The samplers that a node asks for by preset name. Raises ConfigMissing, ConfigError. Source:
    backends.md 4.

    An endpoint of that name with `presetSamplers` comes first, then the preset files. Without a name: the
    endpoint's own `presetSamplers`, else none.
    """
    extra = None
    if endpoint.append_preset_name:
        with snapshot.spelling.named_at(endpoint.file, "/appendPresetName"):
            extra = snapshot.read(_preset_file(snapshot, user, endpoint, endpoint.append_preset_name))
    if not preset_name:
        return Samplers(endpoint.preset_samplers or {}, canonical=True, append=extra)
    embedded = _embedded(snapshot, user, preset_name)
    if embedded:
        return Samplers(embedded, canonical=True, append=extra)
    block = snapshot.read(_preset_file(snapshot, user, endpoint, preset_name))
    return Samplers(block, canonical=False, append=extra)


def _embedded(snapshot: ConfigSnapshot, user: UserSettings, preset_name: str) -> Mapping[str, Any] | None:
    """`presetSamplers` of the endpoint that has exactly the preset's name; None: there is none."""
    if not paths.is_flat_name(preset_name):
        return None
    file = paths.endpoint_file(user, preset_name)
    if not snapshot.exists(file):
        return None
    samplers: Mapping[str, Any] | None = snapshot.read(file).get("presetSamplers")
    return samplers


def _preset_file(snapshot: ConfigSnapshot, user: UserSettings, endpoint: EndpointConfig, name: str) -> str:
    return _found(snapshot, "preset", name, paths.preset_files(user, endpoint.preset_type, name))


def load_prompt_template(snapshot: ConfigSnapshot, name: str | None) -> Mapping[str, str]:
    """The object of a prompt template; no name: an empty one (all marks are empty). Raises ConfigMissing."""
    if not name:
        return MappingProxyType({})
    document = snapshot.read(_found(snapshot, "prompt template", name, (paths.prompt_template_file(name),)))
    return MappingProxyType(document)


def load_structured_schema(snapshot: ConfigSnapshot, user: UserSettings, name: str) -> dict[str, Any]:
    """The JSON Schema that `structuredOutputFile` names: a non-empty object. Raises ConfigMissing,
    ConfigError.
    """
    tried = paths.structured_output_files(user, name)
    schema: dict[str, Any] = snapshot.read(_found(snapshot, "structured output schema", name, tried))
    return schema


def load_mcp_server(snapshot: ConfigSnapshot, name: str) -> Mapping[str, Any]:
    """The object of `MCPServers/<name>.json`, `${ENV:NAME}` not replaced yet. Raises ConfigMissing,
    ConfigError.
    """
    server: Mapping[str, Any] = snapshot.read(
        _found(snapshot, "MCP server", name, (paths.mcp_server_file(name),))
    )
    return server


def ensure_generates(endpoint: EndpointConfig) -> None:
    """Raise ConfigError for an embeddings endpoint, which cannot answer."""
    if endpoint.type in EMBEDDING_TYPES:
        raise ConfigError(
            f'endpoint "{endpoint.name}" is for embeddings ({endpoint.type}) and cannot answer',
            file=endpoint.file,
        )
