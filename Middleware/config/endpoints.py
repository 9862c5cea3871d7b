"""Endpoint + API type, found, merged and typed. Knows names and files; never the shape of a request.

`user` is whose folders are searched. A name that leads nowhere is a ConfigMissing with the paths that were
tried.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from Middleware.common.errors import ConfigError, ConfigMissing
from Middleware.config import paths
from Middleware.config.keys import (
    ANY,
    FLAG,
    MOST_AT_ONCE,
    NUMBER,
    TEXT,
    TEXTS,
    TEXTS_BY_NAME,
    WHOLE,
    key_field,
    keys_of_fields,
    object_of,
    one_of,
)
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.named_files import find_first
from Middleware.config.prices import PRICE, Price
from Middleware.config.samplers import SAMPLER_KEYS
from Middleware.config.users import TRUTH, UserSettings
from Middleware.config.validation import nearest_file, state_file

# --------------------------------------------------------------------------
# What a kind of backend speaks: the keys of API type files.


PROMPT_CACHE_BREAKPOINT = "prompt_cache_breakpoint"
CACHE_CONTROL = "cache_control"
PROMPT_CACHE_MARKS = (CACHE_CONTROL, PROMPT_CACHE_BREAKPOINT)
"""The fields of content blocks that paid services read as marks. Source: prompt-reuse.md 5."""
STRUCTURED_OUTPUT_STYLES = ("openaiJsonSchema", "raw", "anthropicJsonSchema")
THINKING_KEYS = {
    "mode": one_of("bool", "effort", "boolOrEffort", "unsupported")("Kind of value.", type="string").lenient,
    "field": TEXT("Payload key."),
    "location": one_of("top", "chat_template_kwargs")("Where the key stands.", default="top").lenient,
}
STRUCTURED_OUTPUT_KEYS = {
    "field": TEXT("Payload key; dots nest.", minLength=1).lenient,
    "style": one_of(*STRUCTURED_OUTPUT_STYLES)("Shape of its value.").lenient,
    "strict": FLAG("Ask for strict following.", default=True),
}
API_TYPE_KEYS = {
    "type": TEXT(
        "The handler that speaks it: openAIChatCompletion, openAIApiChatImageSpecific, "
        "claudeMessages, ollamaApiChat, ollamaApiChatImageSpecific, openAIV1Completion, "
        "koboldCppGenerate, koboldCppGenerateImageSpecific, ollamaApiGenerate, openAIEmbeddings, "
        "ollamaEmbeddings, builtInDemo.",
        required=True,
        minLength=1,
    ),
    "nameForDisplayOnly": TEXT("A comment; name in log lines."),
    "presetType": TEXT("Folder below Presets/."),
    "truncateLengthPropertyName": TEXT("Payload key that gets the context size; empty: none."),
    "maxNewTokensPropertyName": TEXT("Payload key that gets the length limit; empty: none."),
    "streamPropertyName": TEXT("Payload key that gets the stream flag; empty: none."),
    "samplerFieldMap": TEXTS_BY_NAME("Canonical sampler name -> name of this backend.", default={}),
    "backendStream": one_of("asRequested", "always")(
        "Default for endpoints of this type. `always`: the backend streams also when the client wants a "
        "whole answer."
    ),
    "requestStreamUsage": FLAG(
        "Default for endpoints of this type: ask the backend for token counts at the end of a stream."
        " false: never, also when the client wants them.",
        default=None,
    ),
    "supportsChatTemplateKwargs": FLAG("`chat_template_kwargs` of presetSamplers may be sent."),
    "thinking": object_of(THINKING_KEYS)("How this backend is told to think."),
    "structuredOutput": object_of(STRUCTURED_OUTPUT_KEYS).lenient("How this backend is given a JSON Schema."),
    "promptCacheMark": one_of(*PROMPT_CACHE_MARKS)(
        "Field of a content block that marks how much of a prompt is held, for endpoints with "
        "`promptCaching`; absent: `cache_control` for Claude, else none."
    ).lenient,
    "promptCacheKeyPropertyName": TEXT(
        "Payload key that gets a key of the chat, for endpoints with `promptCacheKey`; empty: none."
    ),
}

state_file("apitype", "API type", "ApiTypes/<name>.json: what a kind of backend speaks.", API_TYPE_KEYS)


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


def _value_or_none(value: Any) -> Any:
    """0, an empty text and an empty object say as little as null."""
    return value or None


def _size(value: Any) -> int | float | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if number and value > 0 else None


SWITCH = FLAG("", read=lambda found: found if isinstance(found, bool) else None)
"""A flag of which only true and false count: what else stands there is the default."""
NAME = TEXT("", read=lambda found: found.strip() if isinstance(found, str) else None)


def _address(found: Any) -> str | None:
    """A base address without slashes at its end; None for what is no text."""
    return found.strip().rstrip("/") if isinstance(found, str) else None


def _addresses(found: Any) -> tuple[str, ...] | None:
    """What is no text, or an empty one, is no address."""
    return tuple(filter(None, map(_address, found))) if isinstance(found, list) else None


_URL = TEXT("", read=_address)
ESTIMATION_LEVEL = TEXT(
    "",
    pattern=r"(?i)^\s*(conservative|balanced|aggressive|xaggressive|measured)\s*$",
    allowed="conservative, balanced, aggressive, xaggressive, measured",
    read=_value_or_none,
).lenient
"""How much of a window is used. What is no level is taken for the most careful one, with a warning."""

_of_file = partial(key_field, init=False)
"""A field that `EndpointConfig` reads from its files."""


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

    url: str = _of_file(
        _URL, "Base URL of the backend, e.g. http://127.0.0.1:11434.", "endpoint", required=True
    )
    """Base address without slashes at its end."""
    more_endpoints: tuple[str, ...] = _of_file(
        TEXTS,
        "More base URLs that serve the same model. Each call goes to one of them.",
        default=[],
        absent=(),
        read=_addresses,
    )
    model: str = _of_file(TEXT, "Name of the model in requests.", "modelNameToSendToAPI", default="")
    dont_include_model: bool = _of_file(SWITCH, "Leave the model out of requests.")
    written_headers: Mapping[str, str] = _of_file(
        TEXTS_BY_NAME,
        "Headers added to each request; `${ENV:NAME}` is replaced by an environment variable.",
        "extraHeaders",
        default={},
    )
    """`extraHeaders` as they stand in the file."""
    max_context_token_size: int | float | None = _of_file(
        WHOLE, "Context window of the model in tokens.", minimum=1, read=_size
    )
    wilmer_context_estimation_level: str | None = _of_file(
        ESTIMATION_LEVEL,
        "How freely the window is used: conservative, balanced, aggressive, xaggressive, or measured: as far "
        "as the server's own counts allow.",
        default="conservative",
        absent=None,
    )
    clamp_prompt_to_context_window: bool | None = _of_file(TRUTH, "Cut conversations to the context window.")
    prompt_template: str = _of_file(
        TEXT,
        "File in PromptTemplates/, for backends that take one text; null: the user's.",
        form="names:prompt_templates",
    )
    strict_prompt_template: bool = _of_file(
        SWITCH, "Exact flat prompts: nothing trimmed, no second begin-of-text token."
    )
    add_generation_prompt: bool = _of_file(
        SWITCH, "Put the mark of an assistant turn at the end of the prompt."
    )
    injected_texts: InjectedTexts = field(init=False)
    """`addTextToStartOf...`, `textToAddToStartOf...`, `ensureTextAddedToAssistantWhenChatCompletion`."""
    backend_supports_tool_turns: bool = _of_file(
        SWITCH, "The backend takes tool calls and tool results as turns.", default=True
    )
    claude_prefill: bool = _of_file(
        SWITCH,
        "Claude: the start of the answer may be given as a last assistant message.",
        default=True,
    )
    reasoning_parser: str | None = _of_file(
        one_of("none", "think", "minimax", "mistral", "harmony", "auto"),
        "Takes thoughts out of the text of models that write them there.",
        default="none",
        absent=None,
    )
    preset_samplers: Mapping[str, Any] | None = _of_file(
        object_of(SAMPLER_KEYS, open=True),
        "Samplers under their canonical names; a preset of this endpoint's name means them.",
        read=_value_or_none,
    )
    append_preset_name: str = _of_file(TEXT, "Preset file that is merged on top, native names.")
    backup_endpoint_name: str = _of_file(
        NAME, "Endpoint that takes over when this one fails.", form="names:endpoints"
    )
    """The endpoint to fail over to."""
    backup_preset_name: str = _of_file(TEXT, "Preset for the backup; absent: the request's own.")
    allow_remote_backup: bool = _of_file(
        SWITCH.strict,
        "May take over for a local endpoint though its own host is public; `moreEndpoints` of a local one "
        "may be public.",
    )
    max_concurrent_requests: int | None = _of_file(
        WHOLE,
        "How many requests this endpoint gets at once (each of its addresses).",
        minimum=1,
        maximum=MOST_AT_ONCE,
    )
    machine: str = _of_file(
        NAME,
        "Name of the machine, for models that cannot be loaded there at the same time: calls for one wait "
        "until those for another have ended.",
        pattern=r"^\s*\S*\s*$",
        allowed="a word without blanks",
    )
    """Endpoints of one word share it; empty: its model stays loaded beside all others."""
    connect_timeout_in_seconds: float | None = _of_file(
        NUMBER,
        "Seconds to wait for a connection; absent: the user's.",
        exclusiveMinimum=0,
        maximum=2000000,
    )
    read_timeout_in_seconds: float | None = _of_file(
        NUMBER,
        "Seconds to wait for the next bytes of the backend.",
        exclusiveMinimum=0,
        maximum=2000000,
        default=14400,
        absent=None,
    )
    backend_stream: str = _of_file(
        one_of("asRequested", "always"),
        "`always`: the backend streams also when the client wants a whole answer.",
        default="asRequested",
    )
    """`always`: the backend is asked to stream also where a whole answer is wanted."""
    request_stream_usage: bool | None = _of_file(
        FLAG,
        "Ask the backend for token counts at the end of a stream.",
        read=lambda found: found,
        absent=None,
    )

    prompt_caching: str = _of_file(
        one_of("off", "5m", "1h"),
        "Paid services: mark how much of a prompt they hold for the next call, for 5 minutes or 1 hour.",
        default="off",
    )
    prompt_cache_key: bool = _of_file(
        SWITCH, "Paid services: send a key of the chat, so that its requests meet the same server."
    )

    price: Price | None = field(init=False)
    """`pricePerMillionTokens`; None: nothing is said of what calls cost."""

    def __post_init__(self) -> None:
        for name, one in _HELD.items():
            value = self.raw.get(name)
            if value is None and name in API_TYPE_KEYS:
                value = self.api_type.get(name)  # the type's default for its endpoints
            object.__setattr__(self, one.attribute, one.value(value))
        object.__setattr__(self, "injected_texts", InjectedTexts.of(self.raw))
        object.__setattr__(self, "price", Price.of(self.raw.get("pricePerMillionTokens")))

    def __repr__(self) -> str:
        return f"EndpointConfig({self.name!r}, {self.api_type_name!r}, {self.file!r})"  # never a key or a URL

    @property
    def model_on_machine(self) -> str:
        """What the machine must have loaded for a call: the address and the name that are sent to it."""
        return f"{self.url} {'' if self.dont_include_model else self.model}"

    @property
    def type(self) -> str:
        """The API type's `type`, which picks the backend."""
        return str(self.api_type.get("type") or "")

    @property
    def addresses(self) -> tuple[str, ...]:
        """`url` and `more_endpoints`, each once."""
        if not self.more_endpoints:
            return (self.url,)
        return tuple(dict.fromkeys((self.url, *self.more_endpoints)))

    @property
    def preset_type(self) -> str:
        """The folder below `Presets/`."""
        return str(self.api_type.get("presetType") or "")

    @property
    def cache_mark(self) -> str:
        """The field that marks how much of a prompt is held; empty: the API type names none."""
        return str(API_TYPE_KEYS["promptCacheMark"].value_in(self.api_type, "promptCacheMark"))

    @property
    def cache_key_name(self) -> str:
        """The payload key that gets a key of the chat; empty: none is sent."""
        named = API_TYPE_KEYS["promptCacheKeyPropertyName"]
        return (
            str(named.value_in(self.api_type, "promptCacheKeyPropertyName")) if self.prompt_cache_key else ""
        )

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


_HELD = keys_of_fields(EndpointConfig)
"""Key of the endpoint file -> field of EndpointConfig."""

ENDPOINT_KEYS = {
    **{name: one.key for name, one in _HELD.items()},
    "apiTypeConfigFileName": TEXT(
        "File in ApiTypes/ that tells what the backend speaks.",
        required=True,
        minLength=1,
        form="names:api_types",
    ),
    "modelNameForDisplayOnly": TEXT("A comment."),
    "apiKey": TEXT("Key for the backend.", default=""),
    "apiKeyEnv": TEXT("Environment variable that holds the key; used when `apiKey` is empty."),
    "addTextToStartOfSystem": SWITCH("Put `textToAddToStartOfSystem` before the system prompt."),
    "textToAddToStartOfSystem": TEXT("The text."),
    "addTextToStartOfPrompt": SWITCH("Put `textToAddToStartOfPrompt` before the user's words."),
    "textToAddToStartOfPrompt": TEXT("The text."),
    "addTextToStartOfCompletion": SWITCH("Put `textToAddToStartOfCompletion` at the start of the answer."),
    "textToAddToStartOfCompletion": TEXT("The text."),
    "ensureTextAddedToAssistantWhenChatCompletion": SWITCH(
        "Also do that for chat backends, as an assistant message."
    ),
    "pricePerMillionTokens": PRICE("What one million tokens cost, for the sums that Headrace shows."),
    "thinkTagText": ANY("Found in old files; no effect."),
}
READ_TIMEOUT_S = float(ENDPOINT_KEYS["readTimeoutInSeconds"].default)
"""How long a backend may be silent, where its endpoint says nothing."""

state_file("endpoint", "Endpoint", "Endpoints/<folder>/<name>.json: one model on one backend.", ENDPOINT_KEYS)


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
    if not url.isprintable():
        return "it holds a character that cannot be shown"
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
