"""WebFetch: one HTTP call. Calls no model. Source: spec tools.md 3, 11.1 to 11.3."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

from Middleware.common.types import NodeConfig
from Middleware.config.endpoints import ENV_REFERENCE
from Middleware.config.keys import NOTHING
from Middleware.utilities.html_text import decode_body, html_to_text
from Middleware.utilities.network_security_utils import AddressPolicy, AddressRefused
from Middleware.workflows.handlers.base import outside_fields as fields
from Middleware.workflows.handlers.base.base_workflow_node_handler import PAGES, WorkflowNodeHandler
from Middleware.workflows.handlers.node_types import NODES
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.node_keys import ANY, NEEDED_TEXT, TEXT, Keys, read_filled
from Middleware.workflows.tools.web import WebAnswer, WebError, WebRequest, exchange, host_of

FORMATS = ("text", "json", "full", "html-stripped")
LAYOUTS = ("lines", "blocks")
PROXY_SCHEMES = ("http", "https", "socks4", "socks5", "socks5h")
_METHOD = re.compile(r"[A-Za-z]{1,32}")


@dataclass(frozen=True, slots=True)
class _Failure:
    """A failed call. `answer`: None when there is no response."""

    message: str
    answer: WebAnswer | None = None


@NODES.register("WebFetch")
class WebFetchNode(WorkflowNodeHandler):
    """Fetches one address, and outputs the answer as text, JSON text or stripped HTML."""

    PALETTE = "tools"

    POWERS = frozenset([PAGES])

    KEYS: ClassVar[Keys] = {
        **fields.KEYS,
        "url": NEEDED_TEXT("The address, http or https. Takes variables."),
        "method": TEXT("The HTTP method. Default: {default}.", default="GET", offered=True, read=read_filled),
        "headers": ANY(
            "The values take variables, and `${ENV:NAME}` for a secret from the environment.",
            must={"anyOf": [{"type": "object"}, {"enum": ["", False, 0, []]}], "x-allowed": "an object"},
            empty=NOTHING,
            read=read_filled,
        ),
        "body": ANY(
            "A string is sent as UTF-8, an object or a list as JSON. Strings in it take variables.",
            form="text",
        ),
        "timeout": fields.SECONDS(
            "How many seconds the connection, and each read, can take. Default: {default}.", default=30
        ),
        "totalTimeout": fields.SECONDS(
            "How many seconds the whole exchange can take, including redirects.",
            must={"type": "number", "exclusiveMinimum": 0},
        ),
        "outputFormat": fields.choice(*FORMATS)(
            "`full` gives the status, headers and body as JSON text. Default: {default}."
        ),
        "htmlLayout": fields.choice(*LAYOUTS)(
            "For `html-stripped`: one line for each piece of text, or for each block. Default: {default}.",
        ),
        "proxy": TEXT("The address of a proxy: http, https, socks4, socks5 or socks5h. Takes variables."),
        "allowRedirects": fields.STRICT_FLAG(
            "With `false`, the output is the redirect itself. Default: {default}.", default=True
        ),
        "verify": fields.STRICT_FLAG(
            "With `false`, TLS certificates are not checked. Default: {default}.", default=True
        ),
        "caBundle": TEXT("A PEM file with your own certificate authorities. Takes variables."),
    }

    def handle(self, context: ExecutionContext) -> str:
        output, layout = context.value("outputFormat"), context.value("htmlLayout")
        returns = fields.returns_errors(context)
        request = _request(context)
        outcome = _fetch_page(request, context, output)
        if isinstance(outcome, WebAnswer):
            return _format_answer(outcome, output, layout)
        if not returns:
            raise WebError(outcome.message)
        return _shown_failure(outcome, output, layout)

    def config_warnings(self, config: NodeConfig) -> list[tuple[str, str]]:
        """A body that a filled-in value may break."""
        note = fields.quoted_variable_note(config.get("body"), is_jinja=bool(config.get("jinja2")))
        return [("body", note)] if note else []

    def unguarded_fields(self, config: NodeConfig) -> list[str]:
        return [] if fields.is_guarded(config) else ["url"]

    def writes(self, config: NodeConfig) -> str:
        method = config.get("method")
        if not method or str(method).upper() in ("GET", "HEAD"):  # the default only reads
            return ""
        return f"sends a request with the method {method}"

    def dry_notes(self, context: ExecutionContext) -> list[str]:
        request = _request(context)
        return [f"would call {request.method} {host_of(request.url)}"]


def _fetch_page(request: WebRequest, context: ExecutionContext, output: str) -> WebAnswer | _Failure:
    try:
        answer = exchange(request, context.request_id, context.trace)
    except (WebError, AddressRefused) as error:
        return _Failure(f"WebFetch: {error}")
    if answer.status >= 400:
        return _Failure(f"WebFetch: {host_of(request.url)} answered {answer.status}", answer)
    if output == "json" and _json_text(answer) is None:
        return _Failure(f"WebFetch: the answer of {host_of(request.url)} is no JSON", answer)
    return answer


def _request(context: ExecutionContext) -> WebRequest:
    """Raises ConfigError for each field that cannot be used, before anything is sent."""
    url, method = context.value("url"), context.value("method")
    if not isinstance(method, str) or not _METHOD.fullmatch(method):
        raise fields.wrong("method", "an HTTP method such as GET or POST")
    timeout, total = context.value("timeout"), context.value("totalTimeout")
    follow, verify = context.value("allowRedirects"), context.value("verify")
    cap, policy = fields.byte_cap(context), fields.address_policy(context)
    url = context.fill(url).strip()
    headers, private = _headers(context)
    body = context.value("body")
    if isinstance(body, Mapping | list | tuple) and "content-type" not in map(str.lower, headers):
        headers["Content-Type"] = "application/json"
    return WebRequest(
        url,
        method.upper(),
        headers,
        None if body is None else fields.filled_text(body, context.fill).encode("utf-8", "replace"),
        timeout,
        total,
        _proxy(context, policy),
        follow,
        _trust(context, verify),
        cap,
        policy,
        private,
        context.place,
    )


def _headers(context: ExecutionContext) -> tuple[dict[str, str], frozenset[str]]:
    """Filled headers, and the names of those that hold a secret of the environment."""
    authored = context.value("headers")
    if not isinstance(authored, Mapping):
        raise fields.wrong("headers", "an object of header names and values")
    pointer = f"/nodes/{context.node_number - 1}/headers"
    filled = {
        name: fields.filled_text(value, partial(_with_secrets, context, f"{pointer}/{name}"))
        for name, value in authored.items()
    }
    private = (name for name, value in authored.items() if ENV_REFERENCE.search(fields.as_text(value)))
    return filled, frozenset(map(str.lower, private))


def _with_secrets(context: ExecutionContext, pointer: str, text: str) -> str:
    return fields.fill_with_secrets(context, text, pointer)


def _proxy(context: ExecutionContext, policy: AddressPolicy) -> str | None:
    proxy = fields.filled_or_none(context, "proxy")
    if proxy is None:
        return None
    scheme = urlsplit(proxy).scheme.lower() if "://" in proxy else ""
    if scheme not in PROXY_SCHEMES:
        raise fields.wrong("proxy", f"a URL that begins with one of {', '.join(PROXY_SCHEMES)}")
    fields.check_proxy(context, proxy, policy)
    return proxy


def _trust(context: ExecutionContext, verify: bool) -> bool | str:
    bundle = fields.filled_or_none(context, "caBundle")
    if not verify:
        context.warn("'verify' is false: anybody on the way can read and change what is fetched")
        return False
    if bundle is None:
        return True
    if not Path(bundle).expanduser().is_file():
        raise fields.wrong("caBundle", "the path of a PEM file that exists")
    return str(Path(bundle).expanduser())


def _text(answer: WebAnswer) -> str:
    lowered = {name.lower(): value for name, value in answer.headers.items()}
    return decode_body(answer.body, lowered.get("content-type", ""))


def _json_text(answer: WebAnswer) -> str | None:
    try:
        return json.dumps(json.loads(_text(answer)))
    except (ValueError, RecursionError):
        return None


def _format_answer(answer: WebAnswer, output: str, layout: str) -> str:
    text = _text(answer)
    if output == "json":
        return _json_text(answer) or text
    if output == "html-stripped":
        return html_to_text(text, layout)
    if output == "full":
        return json.dumps({"status_code": answer.status, "headers": dict(answer.headers), "body": text})
    return text


def _shown_failure(failure: _Failure, output: str, layout: str) -> str:
    answer = failure.answer
    if output == "full":
        facts = {
            "error": failure.message,
            "status_code": answer.status if answer else None,
            "headers": dict(answer.headers) if answer else None,
            "body": _text(answer) if answer else None,
        }
        return json.dumps(facts)
    if answer is None:
        return failure.message
    return html_to_text(_text(answer), layout) if output == "html-stripped" else _text(answer)
