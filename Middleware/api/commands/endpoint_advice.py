"""What a probe of an endpoint says to people: one line, and the next step when something is wrong. Pure.

Never shows a key.
"""

from __future__ import annotations

import difflib
from urllib.parse import urlsplit

from Middleware.config.endpoints import EndpointConfig
from Middleware.llmapis.endpoint_probe import Probe
from Middleware.utilities.sensitive_logging_utils import mask_secrets

SHOWN_CHARACTERS = 200
SHOWN_NAMES = 5
NEAR_NAMES = 3

STEPS = {
    "refused": "start the server, or correct `endpoint` in {file}",
    "unknown_host": "there is no such host name: correct `endpoint` in {file}, or look after the network",
    "certificate": "its certificate is not trusted: name a file with its authority in REQUESTS_CA_BUNDLE",
    "no_tls": "it does not speak TLS there: write http:// instead of https:// in {file}, or another port",
    "no_connection": "is the machine on, and the port open? Correct `endpoint` in {file}",
    "connect_error": "look after the network, and correct `endpoint` in {file}",
    "config_error": "correct `apiKey`, its variable, or `extraHeaders` of {file}",
    "bad_url": "write the address as http://host:port in {file}",
    "timeout": "it may be busy, or still loading its model: wait, look at its log, try again",
    "no_key": "it wants a key: set `apiKey` or `apiKeyEnv` in {file}",
    "auth": "it does not take this key: correct `apiKey`, or the variable of `apiKeyEnv`, of {file}",
    "model": "set `modelNameToSendToAPI` in {file} to a name that it knows{names}",
    "path": "`endpoint` in {file} must be the base address, and the API type {api_type} must be the server's",
    "web_page": "`endpoint` in {file} leads to a web page: correct host, port and path",
    "backend_error": "it refuses such calls: is the address right, and the account in order?",
    "bad_request": "see with --explain what a node sends; does the API type {api_type} fit this server?",
    "context_overflow": "the server's context is too small for any prompt: start it with a larger one",
    "rate_limited": "wait, or look after the account",
    "overloaded": "it is busy, or still loading its model: wait and try again",
    "server_error": "look at the server's log",
    "stream_error": "look at the server's log",
    "connection_lost": "is this the right port? Look at the server's log",
    "protocol_error": "is this an API of the kind {api_type}? Correct `endpoint` or the API type in {file}",
}
"""Symptom of a probe -> what to do."""

NOT_STREAMED = (
    "streaming does not work, the answer came in one piece: `streamPropertyName` in ApiTypes/{api_type}.json "
    "must be the server's field, mostly `stream`"
)


_OF_CALLS = {
    "not_found": f"{STEPS['path']}; or {STEPS['model']}",
    "slot_timeout": "more want it than `maxConcurrentRequests` of {file} or --concurrency lets through",
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
    return f"{endpoint.file}: {level}: {shown_address(seen.url)}: {_describe_probe(seen)}"


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
        return f"serves {_names(seen.models)}" if seen.models else "no model is named"
    if seen.model_is_listed is False and seen.models:
        return f'model "{seen.model}" is answered for, but not listed (there: {_names(seen.models)})'
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
