"""What stands behind one call of a run: the steps of its cleaning, and commands that do it again.

Source: spec console.md 5.2, 8.5, 8.6.
"""

from __future__ import annotations

import re

from Middleware.api.console.cleaning_steps import steps
from Middleware.api.console.commands import SHELLS, as_explain, call_as_curl, request_as_curl
from Middleware.api.console.masks import Mask
from Middleware.api.console.run_texts import Secrets
from Middleware.api.console.view_contract import ApiRoute, Ask, ViewRefused
from Middleware.common.errors import ConfigError
from Middleware.common.types import JsonObject
from Middleware.config.users import load_user
from Middleware.config.validation import describe_value
from Middleware.services.run_trace import CallTrace, NodeTrace, RunTrace

NO_RUN = "no such run: it is older than the last 200, or the server was restarted"
NO_TEXTS = "the texts of this run are not kept"
CURLS = ("model", "embedding", "http")
"""Kinds of calls that are HTTP requests."""


def cleaning(ask: Ask, run_id: str, i: int, k: int) -> JsonObject:
    """GET `runs/<id>/nodes/<i>/calls/<k>/cleaning` (8.5)."""
    ask.words()
    run, call = call_of(ask, run_id, i, k)
    mask = _mask(ask, run)
    made = steps(call.raw, call.cleaned, call.cleaning)
    return {**made, "steps": [{**step, "text": mask(step["text"])} for step in made["steps"]]}


def call_curl(ask: Ask, run_id: str, i: int, k: int) -> JsonObject:
    """GET `runs/<id>/nodes/<i>/calls/<k>/curl?shell=` (8.6)."""
    shell = _shell(ask)
    run, call = call_of(ask, run_id, i, k)
    if call.kind not in CURLS:
        raise ViewRefused(404, f"this call is no HTTP request: {call.kind}")
    if call.sent and not call.url:
        raise ViewRefused(404, "this call stays inside this program")
    if not run.keeps_text or call.headers is None:
        raise ViewRefused(404, NO_TEXTS)
    is_cut = bool(call.body_left_out)
    return {"text": call_as_curl(call, shell, mask=_mask(ask, run), is_cut=is_cut)}


def request_curl(ask: Ask, run_id: str) -> JsonObject:
    """GET `runs/<id>/curl?shell=&address=`: what the client asked (8.6). `address`: of this server as the
    reader knows it, who may see it through a proxy and below a path."""
    shell = _shell(ask, "address")
    run = run_of(ask, run_id)
    if not run.asked:
        raise ViewRefused(404, NO_TEXTS)
    environ = ask.environ
    own = f"{environ.get('wsgi.url_scheme', 'http')}://{environ.get('HTTP_HOST', 'localhost')}"
    address = ask.query.get("address") or own
    if not re.fullmatch(r"https?://[^\s/?#]+[^\s?#]*", address):
        raise ViewRefused(
            400, f"address: found {describe_value(address)}, allowed: http(s)://host and perhaps a path"
        )
    address = address.rstrip("/")
    text = request_as_curl(
        run,
        address,
        shell,
        needs_key=_needs_key(ask, run),
        mask=_mask(ask, run),
        is_cut=bool(run.asked_left_out),
    )
    return {"text": text}


def explain(ask: Ask, run_id: str, i: int) -> JsonObject:
    """GET `runs/<id>/nodes/<i>/explain?shell=`: the command line's look at the node (8.6)."""
    shell = _shell(ask)
    run, node = node_of(ask, run_id, i)
    return {"text": as_explain(run, node, shell)}


def _mask(ask: Ask, run: RunTrace) -> Mask:
    return Secrets(run, ask.hub.secrets).out_of


def run_of(ask: Ask, run_id: str) -> RunTrace:
    """Raises Refused for a run that is not kept."""
    run: RunTrace | None = ask.hub.recorder.run(run_id)
    if run is None:
        raise ViewRefused(404, NO_RUN)
    return run


def node_of(ask: Ask, run_id: str, i: int) -> tuple[RunTrace, NodeTrace]:
    run = run_of(ask, run_id)
    nodes = list(run.nodes)
    if i >= len(nodes):
        raise ViewRefused(404, f"no such node: this run has {len(nodes)}")
    return run, nodes[i]


def call_of(ask: Ask, run_id: str, i: int, k: int) -> tuple[RunTrace, CallTrace]:
    run, node = node_of(ask, run_id, i)
    calls = list(node.calls)
    if k >= len(calls):
        raise ViewRefused(404, f"no such call: this node has {len(calls)}")
    return run, calls[k]


def _shell(ask: Ask, *others: str) -> str:
    shell = ask.words("shell", *others)["shell"] or "sh"
    if shell not in SHELLS:
        raise ViewRefused(400, f"shell: found {describe_value(shell)}, allowed: {', '.join(SHELLS)}")
    return shell


def _needs_key(ask: Ask, run: RunTrace) -> bool:
    """Whether the request must bring a key: for the server, or for the user's texts."""
    if ask.hub.needs_key:
        return True
    try:
        return load_user(ask.hub.snapshot(), run.user).encrypt_using_api_key
    except ConfigError:
        return False


ROUTES = (
    ApiRoute("GET", "runs/<run_id>/curl", "look", request_curl),
    ApiRoute("GET", "runs/<run_id>/nodes/<int:i>/explain", "look", explain),
    ApiRoute("GET", "runs/<run_id>/nodes/<int:i>/calls/<int:k>/cleaning", "look", cleaning),
    ApiRoute("GET", "runs/<run_id>/nodes/<int:i>/calls/<int:k>/curl", "look", call_curl),
)
