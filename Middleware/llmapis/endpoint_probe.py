"""One endpoint looked at: is it reachable, does it know its model, does it stream, how soon, does it think.

Asks for the list of models, then for a few tokens (an embeddings endpoint: for one vector), and leaves as
soon as it knows. One try each, no failover, no preset of a node. Source: spec backends.md 20, item 33.
"""

from __future__ import annotations

import difflib
import socket
import ssl
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from urllib.parse import urlsplit

from Middleware.common.errors import BackendError, escape_controls
from Middleware.common.secrets import mask_secrets, shown_url
from Middleware.common.types import Batches, Chunk, close_batches
from Middleware.config.endpoints import EMBEDDING_TYPES, EndpointConfig, load_endpoint
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.users import UserSettings
from Middleware.llmapis.addresses import guarded_hosts
from Middleware.llmapis.call.call_arguments import CallArguments
from Middleware.llmapis.embedding_service import EmbeddingService
from Middleware.llmapis.handlers.base.base_llm_api_handler import LlmApiHandler
from Middleware.llmapis.handlers.impl.embedding_api_handler import EmbeddingBackend
from Middleware.llmapis.handlers.json_get import get_json
from Middleware.llmapis.llm_api import LlmApiService
from Middleware.llmapis.wire.http import causes_of

CONNECT_S = 10.0
LIST_S = 10.0
FIRST_WORD_S = 120.0
"""A model may have to be loaded first."""
GREETING = "Hello"
FEW_TOKENS = 16
"""Enough to tell a thought from an answer."""
TOO_FEW = "output limit was reached"
"""How OpenAI's reasoning models refuse (400) to answer within so few tokens. They are well, and think."""
_TAGS = ("<think", "<thought", "<reason", "<reflection", "[think", "<|channel|>analysis", "<|start|>")
_LONGEST_TAG = max(map(len, _TAGS))
"""How thoughts begin that a model writes into its text, in small letters without white space."""


@dataclass(frozen=True, slots=True)
class Probe:
    """What an endpoint showed. `url`: what was called, "" for the built-in demo. `model`: the name that is
    sent, None when none is. `models`: the server's list, None without one. `seconds`: to the first word or
    the vector. `whole`: it was asked to stream and answered in one piece. `numbers`: length of a vector.
    `thinks`: it began with a thought. `error`: why it does not work. `more_address`: the one of
    `moreEndpoints` that was called; empty: the first address."""

    endpoint: EndpointConfig
    url: str
    has_key: bool = False
    model: str | None = None
    models: tuple[str, ...] | None = None
    seconds: float = 0.0
    whole: bool = False
    numbers: int = 0
    thinks: bool = False
    error: BackendError | None = None
    more_address: str = ""

    @property
    def model_is_listed(self) -> bool | None:
        """None: there is no list, or no model is named."""
        return None if self.model is None or self.models is None else self.model in self.models

    @property
    def symptom(self) -> str:
        """What went wrong, finer than the error's kind: `refused`, `unknown_host`, `certificate`, `no_tls`,
        `no_connection`, `no_key`, `model`, `path`, `web_page`, `public`, else the kind. Empty: nothing
        did."""
        return _symptom(self) if self.error is not None else ""


def probes(snapshot: ConfigSnapshot, user: UserSettings, name: str) -> Iterator[Probe]:
    """Call each address of the endpoint, the first one first: its list of models is that of all. Raises as
    `probe`."""
    first = probe(snapshot, user, name)
    yield first
    if first.url:
        for url in first.endpoint.addresses[1:]:
            yield _probe_another(_handler(snapshot, user, first.endpoint), first, url)


def _probe_another(handler: LlmApiHandler, first: Probe, url: str) -> Probe:
    """The look at an address of `moreEndpoints`, of which no list is asked."""
    seen = replace(first, more_address=url, seconds=0.0, whole=False, numbers=0, thinks=False, error=None)
    try:
        pinned = guarded_hosts(first.endpoint, url)
        handler = type(handler)(replace(handler.settings, address=url, pinned=pinned))
        return _probe_answer(replace(seen, url=handler._get_api_endpoint_url()), handler)
    except BackendError as error:
        return replace(seen, error=error)


def probe(snapshot: ConfigSnapshot, user: UserSettings, name: str) -> Probe:
    """Call the endpoint at its first address. Raises ConfigError, ValueError when its files cannot be
    used."""
    endpoint = load_endpoint(snapshot, user, name)
    handler = _handler(snapshot, user, endpoint)
    sent = handler.whole_payload(_greeting(handler))
    seen = Probe(
        endpoint,
        handler._get_api_endpoint_url(),
        has_key=bool(handler.settings.api_key or handler.settings.headers),
        model=sent.get("model"),
    )
    try:
        seen = replace(seen, models=_models(handler))
        return _probe_answer(seen, handler)
    except BackendError as error:
        return replace(seen, error=error)


def _handler(snapshot: ConfigSnapshot, user: UserSettings, endpoint: EndpointConfig) -> LlmApiHandler:
    """One that asks for an answer of a few tokens, or for a vector."""
    name = endpoint.name
    if endpoint.type in EMBEDDING_TYPES:
        handler: LlmApiHandler = EmbeddingService(name, user=user, snapshot=snapshot).handler
    else:
        service = LlmApiService(name, None, FEW_TOKENS, stream=True, user=user, snapshot=snapshot)
        handler = service.handler_for(True)
    return _impatient(handler)


def _probe_answer(seen: Probe, handler: LlmApiHandler) -> Probe:
    """Raises BackendError."""
    if isinstance(handler, EmbeddingBackend):
        return _probe_embedding(seen, handler)
    return _probe_model(seen, handler)


def _impatient(handler: LlmApiHandler) -> LlmApiHandler:
    """The same handler: one try, no long waits."""
    settings = handler.settings
    return type(handler)(
        replace(
            settings,
            suppress_retries=True,
            connect_timeout_s=min(settings.connect_timeout_s, CONNECT_S),
            read_timeout_s=min(settings.read_timeout_s, FIRST_WORD_S),
        )
    )


def _greeting(handler: LlmApiHandler) -> CallArguments:
    if handler.takes_messages and handler.generates:
        return CallArguments(conversation=[{"role": "user", "content": GREETING}])
    return CallArguments(prompt=GREETING)


def _models(handler: LlmApiHandler) -> tuple[str, ...] | None:
    """The server's list; None when it has none that can be read. Raises BackendError without an answer."""
    wanted = handler.model_list()
    if wanted is None:
        return None
    settings = handler.settings
    listed = get_json(
        handler,
        wanted.url,
        connect_timeout_s=settings.connect_timeout_s,
        limit_s=min(settings.read_timeout_s, LIST_S),
    )
    if listed is None:
        return None
    try:
        return tuple(wanted.names(listed))
    except (ValueError, LookupError, TypeError):
        return None


def _probe_model(seen: Probe, handler: LlmApiHandler) -> Probe:
    """Ask for a few tokens, streamed, and leave when it is known how the answer begins."""
    began = time.monotonic()
    try:
        batches: Batches = handler.stream_batches(_greeting(handler))
    except BackendError as error:
        if error.status == 400 and TOO_FEW in error.message:
            return replace(seen, seconds=time.monotonic() - began, thinks=True)
        raise
    try:
        first = next((batch for batch in batches if batch), [])
        seconds = time.monotonic() - began
        thinks = handler.calls_out and _begins_with_a_thought(chain(first, chain.from_iterable(batches)))
        return replace(seen, seconds=seconds, whole=bool(getattr(batches, "is_whole", False)), thinks=thinks)
    finally:
        close_batches(batches)


def _begins_with_a_thought(chunks: Iterable[Chunk]) -> bool:
    """Whether an answer thinks: in a field of its own, in a tag, or unseen until its tokens are used up."""
    text = ""
    for chunk in chunks:
        if chunk.get("thinking"):
            return True
        text += "".join(str(chunk.get("token") or "").lower().split())
        if text.startswith(_TAGS):
            return True
        if len(text) >= _LONGEST_TAG or (text and not any(tag.startswith(text) for tag in _TAGS)):
            return False
        if chunk.get("finish_reason"):
            return not text and chunk["finish_reason"] == "length"
    return False


def _probe_embedding(seen: Probe, handler: EmbeddingBackend) -> Probe:
    began = time.monotonic()
    try:
        vectors = handler.embed([GREETING]) or [[]]
    except ValueError as error:
        raise BackendError(seen.endpoint.name, "protocol_error", str(error)) from error
    return replace(seen, seconds=time.monotonic() - began, numbers=len(vectors[0]))


def _symptom(seen: Probe) -> str:
    error = seen.error
    assert error is not None
    if error.kind == "connect_error":
        return _why_not_connected(error)
    if error.kind == "timeout" and error.status is None and error.retryable:
        return "no_connection"
    if error.kind == "auth" and not seen.has_key:
        return "no_key"
    if error.kind == "not_found":
        return "model" if seen.model_is_listed is False or "model" in error.message.lower() else "path"
    if error.kind == "bad_request" and seen.model_is_listed is False and "model" in error.message.lower():
        return "model"
    if error.kind == "protocol_error" and "web page" in error.message:
        return "web_page"
    if error.kind == "config_error" and "allowRemoteBackup" in error.message:
        return "public"
    return error.kind


def _why_not_connected(error: BackendError) -> str:
    causes = list(causes_of(error))
    for kind, symptom in (
        (socket.gaierror, "unknown_host"),
        (ssl.SSLCertVerificationError, "certificate"),
        (ssl.SSLError, "no_tls"),
        (ConnectionRefusedError, "refused"),
    ):
        if any(isinstance(cause, kind) for cause in causes):
            return symptom
    return error.kind


# --------------------------------------------------------------------------
# What a probe of an endpoint says to people: one line, and the next step when something is wrong. Pure.


SHOWN_CHARACTERS = 200
SHOWN_NAMES = 5
NEAR_NAMES = 3

STEPS = {
    "refused": "start the server, or correct `endpoint` in {file}",
    "unknown_host": "the host name does not exist: correct `endpoint` in {file}, or check your network",
    "certificate": (
        "its certificate is not trusted: set REQUESTS_CA_BUNDLE to a file with its certificate authority"
    ),
    "no_tls": "it does not speak TLS there: write http:// instead of https:// in {file}, or correct the port",
    "no_connection": "check that the machine is on and the port is open, or correct `endpoint` in {file}",
    "connect_error": (
        "start the server, or correct `endpoint` in {file}; if it is on another machine, check the network"
    ),
    "config_error": "correct `apiKey`, its variable, or `extraHeaders` in {file}",
    "bad_url": "write the address as http://host:port in {file}",
    "timeout": "it may be busy or still loading its model: check its log, then try again",
    "no_key": "it requires a key: set `apiKey` or `apiKeyEnv` in {file}",
    "auth": "it rejects this key: correct `apiKey` in {file}, or the variable that `apiKeyEnv` names",
    "model": "set `modelNameToSendToAPI` in {file} to a name that it knows{names}",
    "path": "`endpoint` in {file} must be the base address, and the API type {api_type} must be the server's",
    "public": "remove it, or set `allowRemoteBackup` to true in {file} if prompts may go there",
    "web_page": "`endpoint` in {file} leads to a web page: correct host, port and path",
    "backend_error": "it refuses such calls: check the address and your account",
    "bad_request": (
        "check with --explain what a node sends, and whether the API type {api_type} fits this server"
    ),
    "context_overflow": (
        "the server's context is too small for any prompt: start the server with a larger one"
    ),
    "rate_limited": "wait, or check your account",
    "overloaded": "it is busy or still loading its model: wait and try again",
    "server_error": "look at the server's log",
    "stream_error": "look at the server's log",
    "connection_lost": "check that the port is right, and look at the server's log",
    "protocol_error": (
        "this does not look like an API of the type {api_type}: correct `endpoint` or the API type in {file}"
    ),
}
"""Symptom of a probe -> what to do."""

NOT_STREAMED = (
    "streaming does not work: the answer came in one piece. `streamPropertyName` in ApiTypes/{api_type}.json "
    "must be the server's field, usually `stream`"
)


_OF_CALLS = {
    "not_found": f"{STEPS['path']}; or {STEPS['model']}",
    "slot_timeout": "more requests need it than `maxConcurrentRequests` in {file} or --concurrency allows",
}
"""Kinds of failures that a probe sees more finely, or never."""


def step_after(kind: str, endpoint: EndpointConfig) -> str:
    """What to do when a call of an endpoint has failed in this way (`BackendError.kind`)."""
    step = _OF_CALLS.get(kind) or STEPS.get(kind) or STEPS["server_error"]
    return step.format(file=endpoint.file, api_type=endpoint.api_type_name, names="")


def line(seen: Probe) -> str:
    """`<file>: ok | error: <address>: ...`."""
    endpoint = seen.endpoint
    level = "ok" if is_well(seen) else "error"
    place = shown_url(seen.more_address) if seen.more_address else shown_address(seen.url)
    return escape_controls(f"{endpoint.file}: {level}: {place}: {_describe_probe(seen)}")


def is_well(seen: Probe) -> bool:
    return seen.error is None and not seen.whole


def shown_address(url: str) -> str:
    """Scheme, host, port: no user, no path, no query."""
    if not url:
        return "inside this program"
    try:
        parts = urlsplit(url)
    except ValueError:
        return "no address"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _describe_probe(seen: Probe) -> str:
    if seen.error is not None:
        return _failure(seen)
    facts = ["reachable", _model(seen)]
    if seen.numbers:
        facts.append(f"vectors of {seen.numbers} numbers")
    elif seen.whole:
        facts.append(NOT_STREAMED.format(api_type=seen.endpoint.api_type_name))
    else:
        facts.append("streaming works")
    if seen.thinks:
        facts.append("thinks before it answers")
    return ", ".join([*facts, f"{seen.seconds * 1000:.0f} ms"])


def _model(seen: Probe) -> str:
    if seen.model is None:
        return f"serves {_names(seen.models)}" if seen.models else "no model is set"
    if seen.model_is_listed is False and seen.models:
        return f'model "{seen.model}" answers but is not in its list ({_names(seen.models)})'
    return f'model "{seen.model}" {"known" if seen.model_is_listed else "answers"}'


def _failure(seen: Probe) -> str:
    error, symptom = seen.error, seen.symptom
    assert error is not None
    text = " ".join(error.message.split())
    if text.startswith("<"):
        text = "a web page"
    status = f"answered {error.status}: " if error.status is not None else ""
    step = STEPS.get(symptom, STEPS["server_error"]).format(
        file=seen.endpoint.file, api_type=seen.endpoint.api_type_name, names=_list_near_names(seen)
    )
    if seen.more_address:
        step = step.replace("`endpoint`", "`moreEndpoints`")
    return f"{status}{mask_secrets(text[:SHOWN_CHARACTERS])}; {step}"


def _list_near_names(seen: Probe) -> str:
    """`: "a", "b"`: the names that are most like the one that is sent, else the first of the list."""
    if not seen.models:
        return ""
    near = difflib.get_close_matches(seen.model or "", seen.models, NEAR_NAMES, 0.5)
    return f": {_names(tuple(near) or seen.models)}"


def _names(names: tuple[str, ...]) -> str:
    shown = ", ".join(f'"{name}"' for name in names[:SHOWN_NAMES])
    return f"{shown}, ..." if len(names) > SHOWN_NAMES else shown
