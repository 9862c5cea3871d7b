"""What stands behind one call of a run: the steps of its cleaning, and commands that do it again.

Source: spec console.md 5.2, 8.5, 8.6.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import quote

from Middleware.api.console.endpoint_views import file_of
from Middleware.api.console.help_index import summary_of
from Middleware.api.console.left_places import left_json, left_place
from Middleware.api.console.run_texts import Secrets
from Middleware.api.console.view_contract import ApiRoute, Ask, ViewRefused
from Middleware.cleaning import ResponseCleaner
from Middleware.cleaning.stage import (
    RULES,
    Chain,
    Findings,
    Inputs,
    Place,
    StatedRule,
    reasoning_output,
)
from Middleware.common.errors import ConfigError
from Middleware.common.secrets import MASK, SECRET_NAME
from Middleware.common.types import JsonObject
from Middleware.config.paths import DEFAULT_WORKFLOW, user_file
from Middleware.config.users import load_user
from Middleware.config.validation import describe_value
from Middleware.services.node_trace import CallTrace, NodeTrace
from Middleware.services.run_trace import RunTrace
from Middleware.utilities.config_masks import Mask, mask_of

# --------------------------------------------------------------------------
# What each cleaning rule took from an answer: the rules run again, one after the other, over the whole
# text.


PLACES: tuple[Place, ...] = ("endpoint", "node", "user")
"""Whose keys a rule reads, in the order of what a call keeps of them."""
LAST_OF_THOUGHTS = 199
"""The highest order of a rule that takes thoughts."""


class Step(NamedTuple):
    """A rule that changed the text, and the text behind it."""

    rule: str
    order: int
    text: str


def steps(raw: object, cleaned: object, cleaning: tuple[Any, ...] | None) -> dict[str, Any]:
    """`{"agrees": bool, "steps": [{"rule", "order", "text"}]}`.

    `raw`, `cleaned`: the texts before and after, as they were kept. `cleaning`: what they were cleaned by
    (endpoint, node, user, opening), None: nothing cleaned. A text that was not kept whole, and one that
    comes out otherwise than in the run, gives no steps and does not agree.
    """
    found = cleaning_steps(raw, cleaned, cleaning)
    shown = [step._asdict() for step in found or ()]
    return {"agrees": found is not None, "steps": shown}


def cleaning_steps(raw: object, cleaned: object, cleaning: tuple[Any, ...] | None) -> list[Step] | None:
    """The steps that lead from the one text to the other; None when they are not those of the run."""
    if not isinstance(raw, str) or not isinstance(cleaned, str):
        return None
    if cleaning is None:
        return [] if raw == cleaned else None
    for inputs in _ways(cleaning, may_be_empty=not cleaned):
        found = list(_steps(raw, inputs))
        if (found[-1].text if found else raw) == cleaned:
            return found
    return None


def _ways(cleaning: tuple[Any, ...], *, may_be_empty: bool) -> Iterator[Inputs]:
    """How a text may have been cleaned: with the thoughts routed as the files say, or dropped, as in a node
    that does not answer and for a client that wants none."""
    endpoint, node, user, opening = (*cleaning, *(None,) * 4)[:4]
    endpoint, node, user = endpoint or {}, node or {}, user or {}
    routed = reasoning_output(endpoint, node) != "drop"
    for live in (True, False) if routed else (False,):
        kept = Findings(live=live, may_be_empty=may_be_empty)
        yield Inputs(endpoint, node, user, opening if isinstance(opening, str) else None, kept)


def _steps(text: str, inputs: Inputs) -> Iterator[Step]:
    for order in sorted(RULES):
        if order not in ResponseCleaner.ORDERS:
            continue
        rule = RULES[order]
        stage = rule(inputs)
        if stage is None:
            continue
        chain = Chain([stage])
        behind = chain.feed(text) + chain.finish()
        if behind != text:
            text = behind
            yield Step(rule.name, order, text)


# --------------------------------------------------------------------------
# What a run did, as commands to run again: `curl` for a request or a call, `--explain` for a node. Pure.


LONGEST_BODY = 8192
"""Bytes of a body that still stands in the command; a longer one is a file."""
BODY_FILE = "body.json"
CUT_BODY = "# the body was too long to be kept: the middle of it is missing"
KEY = "API_KEY"
URL_SECRET = "URL_SECRET"
LEFT_OUT = frozenset({"accept-encoding", "connection", "content-length", "host", "transfer-encoding"})
"""Headers that curl makes itself, and the one that would make its output unreadable."""

_PLAIN = re.compile(r"[A-Za-z0-9_./:%+=-]+")
_SCHEME = re.compile(r"([A-Za-z]+) ")
_KEY_HEADER = re.compile("authorization|(x-)?api-?key", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Shell:
    """How a shell spells it. `quoted`: a text as it is; `told`: a text in which `variable(NAME)` counts."""

    curl: str
    quoted: Callable[[str], str]
    variable: Callable[[str], str]
    escaped: Callable[[str], str]

    def word(self, text: str) -> str:
        """Unquoted where nothing in it means anything to a shell."""
        return text if _PLAIN.fullmatch(text) else self.quoted(text)

    def quote_parts(self, parts: Iterable[str | None], name: str) -> str:
        """The parts in double quotes; None is the value of the variable."""
        inner = (self.variable(name) if part is None else self.escaped(part) for part in parts)
        return f'"{"".join(inner)}"'


def _sh_quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _powershell_quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


SHELLS = {
    "sh": Shell(
        "curl",
        _sh_quoted,
        lambda name: f"${name}",
        lambda text: re.sub(r'([\\"$`])', r"\\\1", text),
    ),
    "powershell": Shell(
        "curl.exe",
        _powershell_quoted,
        lambda name: f"$env:{name}",
        lambda text: re.sub(r'([`"$])', r"`\1", text),
    ),
}


def call_as_curl(call: CallTrace, shell: str, *, mask: Mask | None = None, is_cut: bool = False) -> str:
    """The call as it was sent. `mask`: takes secrets out of a text; None: those of the call. `is_cut`: of its
    body only a part was kept.

    Raises KeyError for an unknown shell.
    """
    how, mask = SHELLS[shell], mask or mask_of(call.secrets)
    headers = [
        _header(how, name, str(value), mask)
        for name, value in (call.headers or {}).items()
        if name.lower() not in LEFT_OUT
    ]
    return _command(how, _address(how, call.url, mask), headers, _body(call.body, mask), is_cut)


def request_as_curl(
    run: RunTrace,
    address: str,
    shell: str,
    *,
    needs_key: bool = False,
    mask: Mask = str,
    is_cut: bool = False,
) -> str:
    """What the client asked. `address`: of this server, without a slash at the end. Raises KeyError."""
    how = SHELLS[shell]
    headers = [how.quoted("Content-Type: application/json")]
    if needs_key:
        headers.append(how.quote_parts(["Authorization: Bearer ", None], KEY))
    headers += [_header(how, name, value, mask) for name, value in run.headers.items()]
    if run.path.startswith("/console/"):
        headers.append(how.quoted("X-Headrace-Console: 1"))
    url = how.word(address + quote(run.path, safe="/:%"))
    return _command(how, url, headers, _body(run.asked, mask), is_cut)


def as_explain(run: RunTrace, node: NodeTrace, shell: str) -> str:
    """What the node would send; `messages.json` is what the client asked. Raises KeyError."""
    how = SHELLS[shell]
    wanted = f"{workflow_name(run, node)}#{node.number}"
    named = f"--User {how.word(run.user)} --explain {how.quoted(wanted)}"
    return f"python server.py {named} --messages messages.json"


def workflow_name(run: RunTrace, node: NodeTrace) -> str:
    """The name by which the command line finds the workflow: a shared folder's start has its model's name."""
    name = node.workflow.rpartition("/")[2].removesuffix(".json")
    model = run.model.rpartition(" -> ")[2]  # behind the client's own name for it
    return model if name == DEFAULT_WORKFLOW and model.startswith(f"{run.user}:") else name


def _command(how: Shell, url: str, headers: list[str], body: str, is_cut: bool) -> str:
    parts = [how.curl, *(["-g"] if re.search(r"[{}\[\]]", url) else []), url]
    parts += [word for header in headers for word in ("-H", header)]
    if is_cut or len(body.encode("utf-8", "replace")) > LONGEST_BODY or "\0" in body:
        parts += ["-d", f"@{BODY_FILE}" if how.curl == "curl" else f"'@{BODY_FILE}'"]
    elif body:
        parts += ["--data-raw" if body.startswith("@") else "-d", how.quoted(body)]
    command = " ".join(parts)
    return f"{CUT_BODY}\n{command}" if is_cut else command


def _body(body: bytes, mask: Mask) -> str:
    return mask(body.decode("utf-8", "replace"))


def _header(how: Shell, name: str, value: str, mask: Mask) -> str:
    """Quoted; a value that may hold a key, by its name or by what it is, is a variable named after it."""
    if not SECRET_NAME.search(name) and mask(value) == value:
        return how.quoted(f"{name}: {value}")
    if _KEY_HEADER.fullmatch(name):
        scheme = _SCHEME.match(value)
        return how.quote_parts([f"{name}: {scheme[0] if scheme else ''}", None], KEY)
    variable = re.sub(r"\W+", "_", name, flags=re.ASCII).upper()
    return how.quote_parts([f"{name}: ", None], variable)


def _address(how: Shell, url: str, mask: Mask) -> str:
    shown = mask(url)
    if shown == url:
        return how.word(url)
    pieces = shown.split(MASK)
    told: list[str | None] = [pieces[0]]
    for piece in pieces[1:]:
        told += [None, piece]
    return how.quote_parts(told, URL_SECRET)


# --------------------------------------------------------------------------

NO_RUN = "no such run: it is older than the last 200, or the server was restarted"
NO_TEXTS = "the texts of this run are not kept"
CURLS = ("model", "embedding", "prefill", "http")
"""Kinds of calls that are HTTP requests."""


def cleaning(ask: Ask, run_id: str, i: int, k: int) -> JsonObject:
    """GET `runs/<id>/nodes/<i>/calls/<k>/cleaning` (8.5). Each step also has `said`, what its rule does, and
    `settings`: the keys that turn it on, as they were then: `[{"place", "key", "value", "file"}]`, `value` as
    JSON text, `file` null where it is none.
    """
    ask.words()
    run, node = node_of(ask, run_id, i)
    _, call = call_of(ask, run_id, i, k)
    mask = _mask(ask, run)
    made = steps(call.raw, call.cleaned, call.cleaning)
    files = _files_of(ask, run, node) if made["steps"] else {}
    for step in made["steps"]:
        rule = RULES[step["order"]]
        step["text"] = mask(step["text"])
        step["said"] = summary_of(rule)
        step["settings"] = [
            {**given, "value": mask(given["value"]), "file": files[given["place"]]}
            for given in settings_of(rule, call.cleaning)
        ]
    return made


def settings_of(rule: StatedRule, cleaning: tuple[Any, ...] | None) -> Iterator[dict[str, Any]]:
    """The keys that a rule reads and that say something, in the order of its statement: `{"place", "key",
    "value"}`, the value as JSON text. `cleaning`: as in `steps`."""
    for place, given in zip(PLACES, cleaning or (), strict=False):
        for key in rule.keys[place]:
            if value := (given or {}).get(key):
                yield {"place": place, "key": key, "value": json.dumps(value, ensure_ascii=False)}


def _files_of(ask: Ask, run: RunTrace, node: NodeTrace) -> dict[Place, str | None]:
    """Where the settings of a node are written today."""
    snapshot = ask.hub.snapshot()
    files: dict[Place, str | None] = dict.fromkeys(PLACES)
    files["node"] = node.workflow if node.workflow.endswith(".json") else None
    with suppress(ConfigError):
        files["user"] = user_file(run.user)
        files["endpoint"] = file_of(snapshot, load_user(snapshot, run.user), node.endpoint)
    return files


def left(ask: Ask, run_id: str, i: int, k: int) -> JsonObject:
    """GET `runs/<id>/nodes/<i>/calls/<k>/left`: where the prompt left the one before, in words; `{"place":
    null}` where it left none or no text is kept."""
    ask.words()
    run, node = node_of(ask, run_id, i)
    _, call = call_of(ask, run_id, i, k)
    place = left_place(ask.hub.recorder.runs(), run, node, call, ask.hub.secrets)
    return {"place": place and left_json(place)}


def call_curl(ask: Ask, run_id: str, i: int, k: int) -> JsonObject:
    """GET `runs/<id>/nodes/<i>/calls/<k>/curl?shell=` (8.6)."""
    shell = _shell(ask)
    run, call = call_of(ask, run_id, i, k)
    if call.kind not in CURLS:
        raise ViewRefused(404, f"this call is not an HTTP request: {call.kind}")
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


ROUTING = "Routing/"
"""Where a node of a run has its file that is no workflow's: it chose one by meaning."""


def explain(ask: Ask, run_id: str, i: int) -> JsonObject:
    """GET `runs/<id>/nodes/<i>/explain?shell=`: the command line's look at the node (8.6)."""
    shell = _shell(ask)
    run, node = node_of(ask, run_id, i)
    if not node.workflow.endswith(".json") or node.workflow.startswith(ROUTING):
        raise ViewRefused(404, "this request ran no workflow")
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
    if not 0 <= i < len(nodes):
        raise ViewRefused(404, f"no such node: this run has {len(nodes)}")
    return run, nodes[i]


def call_of(ask: Ask, run_id: str, i: int, k: int) -> tuple[RunTrace, CallTrace]:
    run, node = node_of(ask, run_id, i)
    calls = list(node.calls)
    if not 0 <= k < len(calls):
        raise ViewRefused(404, f"no such call: this node has {len(calls)}")
    return run, calls[k]


def _shell(ask: Ask, *others: str) -> str:
    shell = ask.words("shell", *others)["shell"] or "sh"
    if shell not in SHELLS:
        raise ViewRefused(400, f"shell: found {describe_value(shell)}, allowed: {', '.join(SHELLS)}")
    return shell


def _needs_key(ask: Ask, run: RunTrace) -> bool:
    """Whether the request must bring a key: for the server, or for the user's texts."""
    if ask.hub.needs_key():
        return True
    try:
        return load_user(ask.hub.snapshot(), run.user).encrypt_using_api_key
    except ConfigError:
        return False


ROUTES = (
    ApiRoute("GET", "runs/<run_id>/curl", "look", request_curl),
    ApiRoute("GET", "runs/<run_id>/nodes/<int:i>/explain", "look", explain),
    ApiRoute("GET", "runs/<run_id>/nodes/<int:i>/calls/<int:k>/cleaning", "look", cleaning),
    ApiRoute("GET", "runs/<run_id>/nodes/<int:i>/calls/<int:k>/left", "look", left),
    ApiRoute("GET", "runs/<run_id>/nodes/<int:i>/calls/<int:k>/curl", "look", call_curl),
)
