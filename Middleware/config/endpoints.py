"""Endpoint + API type + preset, found, merged and typed. Knows names and files; never the shape of a
request.

`user` is whose folders are searched. A name that leads nowhere is a ConfigMissing with the paths that were
tried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from Middleware.common.errors import ConfigError, ConfigMissing
from Middleware.config import environment, paths
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.users import UserSettings
from Middleware.config.validation import nearest_file

EMBEDDING_TYPES = ("openAIEmbeddings", "ollamaEmbeddings")


@dataclass(frozen=True, slots=True)
class EndpointConfig:
    """An endpoint and its API type. `raw` and `api_type` are the files' objects, read-only.

    `file`: the endpoint's path below the config root. `url`: base address without slashes at its end.
    """

    name: str
    raw: Mapping[str, Any] = field(repr=False)
    api_type_name: str
    api_type: Mapping[str, Any] = field(repr=False)
    file: str = ""

    @property
    def type(self) -> str:
        """The API type's `type`, which picks the backend."""
        return str(self.api_type.get("type") or "")

    @property
    def url(self) -> str:
        return str(self.raw.get("endpoint") or "").strip().rstrip("/")

    @property
    def model(self) -> str:
        """`modelNameToSendToAPI`."""
        return str(self.raw.get("modelNameToSendToAPI") or "")

    def setting(self, name: str) -> Any:
        """A field that the API type may give a default for: the endpoint's own, else the API type's."""
        return self.raw[name] if self.raw.get(name) is not None else self.api_type.get(name)

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
        headers = self.raw.get("extraHeaders") or {}
        return environment.expand_all(headers, file=self.file, pointer="/extraHeaders")


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
    append = endpoint.raw.get("appendPresetName")
    extra = None
    if append:
        with snapshot.spelling.named_at(endpoint.file, "/appendPresetName"):
            extra = snapshot.read(_preset_file(snapshot, user, endpoint, str(append)))
    if not preset_name:
        own = endpoint.raw.get("presetSamplers") or {}
        return Samplers(own, canonical=True, append=extra)
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
