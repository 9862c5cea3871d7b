"""What a run did, as commands to run again: `curl` for a request or a call, `--explain` for a node. Pure.

No key is ever in a command: where one was, stands the name of a variable. Source: spec console.md 8.6.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from urllib.parse import quote

from Middleware.api.console.masks import Mask, mask_of
from Middleware.config.paths import DEFAULT_WORKFLOW
from Middleware.services.run_trace import CallTrace, NodeTrace, RunTrace
from Middleware.utilities.sensitive_logging_utils import MASK, SECRET_NAME

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
    if run.path.startswith("/console/"):
        headers.append(how.quoted("X-Headrace-Console: 1"))
    url = how.word(address + quote(run.path, safe="/:"))
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
    if name == DEFAULT_WORKFLOW and run.model.startswith(f"{run.user}:"):
        return run.model
    return name


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
