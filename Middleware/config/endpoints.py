"""Endpoint + API type + preset, found, merged and typed. Knows names and files; never the shape of a
request.

`user` is whose folders are searched. A name that leads nowhere is a ConfigMissing with the paths that were
tried.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from Middleware.common.errors import ConfigError, ConfigMissing
from Middleware.config import paths
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.named_files import find_first
from Middleware.config.users import UserSettings, means_true
from Middleware.config.validation import hand_in, nearest_file

# --------------------------------------------------------------------------
# Secrets that configs name and the environment holds: `${ENV:NAME}` and `apiKeyEnv`. Read when used;
# which values were used is known only so that the log can mask them.


ENV_REFERENCE = re.compile(r"\$\{ENV:([^}]*)\}")


_used: set[str] = set()


def secrets_in_use() -> tuple[str, ...]:
    """Every value that was read so far, longest first: what no log line may show."""
    return tuple(sorted(_used.copy(), key=len, reverse=True))


def from_environment(name: str, *, file: str = "", pointer: str = "") -> str:
    """The value of an environment variable. Raises ConfigError, naming it, when it is not set."""
    value = os.environ.get(name)
    if value is None:
        raise ConfigError(f"environment variable {name!r} is not set", file=file, pointer=pointer)
    _used.add(value.strip())
    return value


def expand(text: str, *, file: str = "", pointer: str = "") -> str:
    """`text` with each `${ENV:NAME}` replaced. Raises ConfigError when one is not set."""
    return ENV_REFERENCE.sub(lambda m: from_environment(m.group(1), file=file, pointer=pointer), text)


def expand_all(texts: Mapping[str, str], *, file: str = "", pointer: str = "") -> dict[str, str]:
    """As `expand`, for each value of an object of texts."""
    return {key: expand(str(text), file=file, pointer=f"{pointer}/{key}") for key, text in texts.items()}


# --------------------------------------------------------------------------

_KEYWORD = {"allowed": "x-allowed", "level": "x-level"}
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


def _value_or_none(value: Any) -> Any:
    """0, an empty text and an empty object say as little as null."""
    return value or None


def _size(value: Any) -> int | float | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if number and value > 0 else None


_FLAG = {"type": "boolean", "level": "warning"}
_SHAPES: dict[Callable[[Any], Any], dict[str, Any]] = {
    _is_true: {**_FLAG, "default": False},
    _is_not_false: {**_FLAG, "default": True},
    _text: {"type": "string"},
    _name: {"type": "string"},
}
"""What a file may hold where a reader asks for nothing else."""


def _of(
    key: str, description: str, *, read: Callable[[Any], Any], else_of_api_type: bool = False, **shape: Any
) -> Any:
    """A field: where it comes from, what the file may hold there, and how that is read.

    `shape`: keywords of JSON Schema; `level` of a breach and `allowed` words as in `settings.py`.
    `else_of_api_type`: the API type may give a default.
    """
    words = {**_SHAPES.get(read, {}), **shape, "description": description}
    stated = {_KEYWORD.get(word, word): value for word, value in words.items() if value != "error"}
    metadata = {"key": key, "read": read, "else_of_api_type": else_of_api_type, "schema": stated}
    return field(init=False, metadata=metadata)


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

    url: str = _of(
        "endpoint",
        "Base URL of the backend, e.g. http://127.0.0.1:11434.",
        type="string",
        read=lambda value: _name(value).rstrip("/"),
    )
    """Base address without slashes at its end."""
    model: str = _of("modelNameToSendToAPI", "Name of the model in requests.", default="", read=_text)
    dont_include_model: bool = _of("dontIncludeModel", "Leave the model out of requests.", read=_is_true)
    written_headers: Mapping[str, str] = _of(
        "extraHeaders",
        "Headers added to each request; `${ENV:NAME}` is replaced by an environment variable.",
        type="object",
        additionalProperties={"type": "string"},
        default={},
        read=lambda value: value or {},
    )
    """`extraHeaders` as they stand in the file."""
    max_context_token_size: int | float | None = _of(
        "maxContextTokenSize", "Context window of the model in tokens.", type="integer", minimum=1, read=_size
    )
    wilmer_context_estimation_level: str | None = _of(
        "wilmerContextEstimationLevel",
        "How freely the window is used: conservative, balanced, aggressive, xaggressive.",
        level="warning",
        type="string",
        default="conservative",
        pattern="(?i)^\\s*(conservative|balanced|aggressive|xaggressive)\\s*$",
        allowed="conservative, balanced, aggressive, xaggressive",
        read=_value_or_none,
    )
    clamp_prompt_to_context_window: bool | None = _of(
        "clampPromptToContextWindow",
        "Cut conversations to the context window.",
        type=["boolean", "string"],
        level="warning",
        read=lambda value: None if value is None else means_true(value),
    )
    prompt_template: str = _of(
        "promptTemplate",
        "File in PromptTemplates/, for backends that take one text; null: the user's.",
        read=_text,
    )
    strict_prompt_template: bool = _of(
        "strictPromptTemplate",
        "Exact flat prompts: nothing trimmed, no second begin-of-text token.",
        read=_is_true,
    )
    add_generation_prompt: bool = _of(
        "addGenerationPrompt", "Put the mark of an assistant turn at the end of the prompt.", read=_is_true
    )
    injected_texts: InjectedTexts = field(init=False)
    """`addTextToStartOf...`, `textToAddToStartOf...`, `ensureTextAddedToAssistantWhenChatCompletion`."""
    backend_supports_tool_turns: bool = _of(
        "backendSupportsToolTurns",
        "The backend takes tool calls and tool results as turns.",
        read=_is_not_false,
    )
    claude_prefill: bool = _of(
        "claudePrefill",
        "Claude: the start of the answer may be given as a last assistant message.",
        read=_is_not_false,
    )
    reasoning_parser: str | None = _of(
        "reasoningParser",
        "Takes thoughts out of the text of models that write them there.",
        enum=["none", "think", "minimax", "mistral", "harmony", "auto"],
        default="none",
        read=_value_or_none,
    )
    preset_samplers: Mapping[str, Any] | None = _of(
        "presetSamplers",
        "Samplers under their canonical names; a preset of this endpoint's name means them.",
        read=_value_or_none,
    )
    append_preset_name: str = _of(
        "appendPresetName", "Preset file that is merged on top, native names.", read=_text
    )
    backup_endpoint_name: str = _of(
        "backupEndpointName", "Endpoint that takes over when this one fails.", read=_name
    )
    """The endpoint to fail over to."""
    backup_preset_name: str = _of(
        "backupPresetName", "Preset for the backup; absent: the request's own.", read=_text
    )
    allow_remote_backup: bool = _of(
        "allowRemoteBackup",
        "May take over for a local endpoint though its own host is public.",
        read=_is_true,
        level="error",
    )
    max_concurrent_requests: int | None = _of(
        "maxConcurrentRequests",
        "How many requests this endpoint gets at once.",
        type="integer",
        minimum=1,
        read=_value_or_none,
    )
    connect_timeout_in_seconds: float | None = _of(
        "connectTimeoutInSeconds",
        "Seconds to wait for a connection; absent: the user's.",
        type="number",
        exclusiveMinimum=0,
        maximum=2000000,
        read=_value_or_none,
    )
    read_timeout_in_seconds: float | None = _of(
        "readTimeoutInSeconds",
        "Seconds to wait for the next bytes of the backend.",
        type="number",
        exclusiveMinimum=0,
        maximum=2000000,
        default=14400,
        read=_value_or_none,
    )
    backend_stream: str = _of(
        "backendStream",
        "`always`: the backend streams also when the client wants a whole answer.",
        enum=["asRequested", "always"],
        default="asRequested",
        read=lambda value: value or "asRequested",
        else_of_api_type=True,
    )
    """`always`: the backend is asked to stream also where a whole answer is wanted."""
    request_stream_usage: bool | None = _of(
        "requestStreamUsage",
        "Ask the backend for token counts at the end of a stream.",
        type="boolean",
        default=False,
        level="warning",
        read=lambda value: value,
        else_of_api_type=True,
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
        return from_environment(str(variable), file=self.file, pointer="/apiKeyEnv").strip()

    @property
    def extra_headers(self) -> dict[str, str]:
        """`extraHeaders` with each `${ENV:NAME}` replaced (read now). Raises ConfigError."""
        return expand_all(self.written_headers, file=self.file, pointer="/extraHeaders")


_READ = tuple(
    (each.name, each.metadata["key"], each.metadata["read"], each.metadata["else_of_api_type"])
    for each in fields(EndpointConfig)
    if each.metadata
)
"""Field, its key, how the value is read, whether the API type may give a default."""

_FIELDS = {each.metadata["key"]: each.metadata["schema"] for each in fields(EndpointConfig) if each.metadata}
hand_in("endpoint", lambda: _FIELDS)


@dataclass(frozen=True, slots=True)
class Samplers:
    """What a preset says. `canonical`: `block` holds canonical names, to be translated; else native ones.

    `append`: the file of `appendPresetName`, native names, merged on top of the result; None: there is none.
    """

    block: Mapping[str, Any]
    canonical: bool
    append: Mapping[str, Any] | None = None


def endpoint_names(snapshot: ConfigSnapshot, folder: str) -> list[str]:
    """The endpoints of a folder, sorted; one that has an example beside it (or is none but that) once."""
    return sorted({name.removesuffix(paths.EXAMPLE) for name in snapshot.files(folder)})


def load_endpoint(snapshot: ConfigSnapshot, user: UserSettings, name: str) -> EndpointConfig:
    """An endpoint with its API type. Raises ConfigMissing, ConfigError."""
    own, example = paths.endpoint_files(user, name)
    file = snapshot.first((own, example)) or find_first(snapshot, "endpoint", name, (own,))
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
    return snapshot.derive(
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
    embedded = _embedded_samplers(snapshot, user, preset_name)
    if embedded:
        return Samplers(embedded, canonical=True, append=extra)
    block = snapshot.read(_preset_file(snapshot, user, endpoint, preset_name))
    return Samplers(block, canonical=False, append=extra)


def _embedded_samplers(
    snapshot: ConfigSnapshot, user: UserSettings, preset_name: str
) -> Mapping[str, Any] | None:
    """`presetSamplers` of the endpoint that has exactly the preset's name; None: there is none."""
    if not paths.is_flat_name(preset_name):
        return None
    file = next(filter(snapshot.exists, paths.endpoint_files(user, preset_name)), None)
    if file is None:
        return None
    samplers: Mapping[str, Any] | None = snapshot.read(file).get("presetSamplers")
    return samplers


def _preset_file(snapshot: ConfigSnapshot, user: UserSettings, endpoint: EndpointConfig, name: str) -> str:
    return find_first(snapshot, "preset", name, paths.preset_files(user, endpoint.preset_type, name))


def ensure_generates(endpoint: EndpointConfig) -> None:
    """Raise ConfigError for an embeddings endpoint, which cannot answer."""
    if endpoint.type in EMBEDDING_TYPES:
        raise ConfigError(
            f'endpoint "{endpoint.name}" is for embeddings ({endpoint.type}) and cannot answer',
            file=endpoint.file,
        )


def ensure_embeds(endpoint: EndpointConfig) -> None:
    """Raise ConfigError for an endpoint that gives no vectors."""
    if endpoint.type not in EMBEDDING_TYPES:
        raise ConfigError(
            f'endpoint "{endpoint.name}" ({endpoint.type}) is not for embeddings; these types are: '
            f"{', '.join(EMBEDDING_TYPES)}",
            file=endpoint.file,
        )


# --------------------------------------------------------------------------
# Is a text the address of an HTTP server? Pure: resolves no name and calls nobody.


EXAMPLE = "an address such as http://127.0.0.1:11434"
_BLANK = re.compile(r"\s")


def address_fault(url: str) -> str | None:
    """What is wrong with an address, as `found ..., allowed: ...`; None for a right one.

    One with `${ENV:NAME}` is known at run time only.
    """
    if ENV_REFERENCE.search(url):
        return None
    why = why_no_address(url.strip())
    return f'found "{url}", allowed: {EXAMPLE} ({why})' if why else None


def why_no_address(url: str) -> str | None:
    """What is wrong, without the text itself, which may hold a secret; None for an address."""
    if not url:
        return "it is empty"
    if _BLANK.search(url):
        return "it holds a blank"
    if not url.lower().startswith(("http://", "https://")):
        return "it does not begin with http:// or https://"
    try:
        parts = urlsplit(url)
    except ValueError:
        return "the brackets around its host do not fit"
    if not parts.hostname:
        return "it has no host"
    try:
        port = parts.port
    except ValueError:
        port = 0
    return "its port is no number from 1 to 65535" if port == 0 else None
