"""CurlCommand: one run of the curl program. Calls no model. Source: spec tools.md 4 and 11.4."""

from __future__ import annotations

import json
import logging
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from Middleware.common.errors import ConfigError
from Middleware.common.secrets import secrets_of_words
from Middleware.common.types import NodeConfig
from Middleware.services.run_trace import outside_call
from Middleware.utilities.network_security_utils import AddressPolicy, AddressRefused, parse_target
from Middleware.utilities.text_utils import without_halves
from Middleware.workflows.handlers.base import outside_fields as fields
from Middleware.workflows.handlers.base.base_workflow_node_handler import PAGES, WorkflowNodeHandler
from Middleware.workflows.handlers.node_types import NODES
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.node_keys import ANY, TEXT, Keys
from Middleware.workflows.tools import curl_runner
from Middleware.workflows.tools.curl_arguments import (
    Part,
    UnknownOption,
    config_line,
    option_before,
    read_arguments,
)
from Middleware.workflows.tools.curl_runner import LONGEST_LINE, CurlRun, run_curl
from Middleware.workflows.tools.web import host_of, log_outside_call

logger = logging.getLogger(__name__)

FORMATS = ("stdout", "stdout+stderr", "full")
REDIRECTS = 10
_REDIRECTING = ("301", "302", "303", "307", "308")


@dataclass(frozen=True, slots=True)
class _Settings:
    """The node's fields, checked. `author`: the timeout as it is written, for the literal of a time-out."""

    timeout_s: float
    author: str
    cap: int | None
    proxy: str | None
    policy: AddressPolicy
    request_id: str


def _read_list(value: Any) -> list[Any] | tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise ValueError("a list")
    return value


@NODES.register("CurlCommand")
class CurlCommandNode(WorkflowNodeHandler):
    """Runs curl with `args`, and outputs what it prints."""

    PALETTE = "tools"

    POWERS = frozenset([PAGES])

    KEYS: ClassVar[Keys] = {
        **fields.KEYS,
        "args": ANY(
            "The arguments of `curl`, one per element. Takes variables.",
            must={"type": "array"},
            required=True,
            read=_read_list,
        ),
        "timeout": fields.SECONDS(
            "How many seconds the whole run can take before curl is killed. Default: {default}.", default=30
        ),
        "outputFormat": fields.choice(*FORMATS)(
            "`full` gives stdout, stderr and returncode as JSON text. Default: {default}."
        ),
        "proxy": TEXT("The address of a proxy. Takes variables.", must={"type": ["string", "null"]}),
        "blockOptionInjection": fields.STRICT_FLAG(
            "A filled-in value cannot be an option and cannot choose a file. The guards for "
            "addresses turn this on too."
        ),
        "allowSchemeInjection": fields.STRICT_FLAG(
            "Allows a filled-in value to be an address with a scheme other than http."
        ),
    }

    def handle(self, context: ExecutionContext) -> str:
        output, returns = context.value("outputFormat"), fields.returns_errors(context)
        settings, args = _settings(context), _arguments(context)
        try:
            whole, hidden = " ".join(["curl", *args]), secrets_of_words(args)
            with (
                log_outside_call("curl", _host(args), context.place) as outcome,
                outside_call(context.trace, "command", "curl", place=whole, secrets=hidden) as call,
            ):
                run = _run_guarded(args, settings) if settings.policy.guards else _plain(args, settings)
                outcome.status, outcome.length = run.returncode, len(run.stdout)
                call.note_answer(run.stdout, run.returncode)
        except (AddressRefused, UnknownOption) as error:
            raise ConfigError(f"CurlCommand: {error}") from None
        return _format_run(run, settings, output, returns)

    def config_warnings(self, config: NodeConfig) -> list[tuple[str, str]]:
        """Data that a filled-in value may break."""
        args, is_jinja = config.get("args"), bool(config.get("jinja2"))
        if not isinstance(args, list | tuple):
            return []
        notes = [fields.quoted_variable_note(arg, is_jinja=is_jinja) for arg in args]
        return [(f"args/{index}", note) for index, note in enumerate(notes) if note]

    def config_notes(self, config: NodeConfig) -> list[tuple[str, str]]:
        """A file that a filled-in value names, where the author wrote the `@`. Source: tools.md 11.4."""
        args = config.get("args")
        if not isinstance(args, list | tuple):
            return []
        texts = [arg if isinstance(arg, str) else "" for arg in args]
        return [
            (f"args/{index}", "the variable behind '@' says which file of the server is read and sent")
            for index, (before, text) in enumerate(zip(["", *texts], texts, strict=False))
            if curl_runner.names_a_file_by_variable(text, before)
        ]

    def unguarded_fields(self, config: NodeConfig) -> list[str]:
        return [] if fields.is_guarded(config) else ["args"]

    def writes(self, config: NodeConfig) -> str:
        return "runs curl"

    def dry_notes(self, context: ExecutionContext) -> list[str]:
        return [f"would run curl with {len(_arguments(context))} arguments"]


def _settings(context: ExecutionContext) -> _Settings:
    timeout = context.value("timeout")
    proxy, policy = fields.filled_or_none(context, "proxy"), fields.address_policy(context)
    if proxy:
        fields.check_proxy(context, proxy, policy)
    author = fields.as_text(context.config.get("timeout") or timeout)
    return _Settings(timeout, author, fields.byte_cap(context), proxy, policy, context.request_id)


def _arguments(context: ExecutionContext) -> list[str]:
    """Filled and guarded. Raises ConfigError."""
    # who guards addresses believes that what is filled in can do no harm (tools.md 11.4)
    block = context.value("blockOptionInjection") or fields.address_policy(context).guards
    any_scheme = context.value("allowSchemeInjection")
    args: list[curl_runner.FilledCommand] = []
    before = ""
    for index, element in enumerate(context.value("args")):
        filled = _fill_command(context, element)
        if "\0" in filled.value:
            raise ConfigError(f"CurlCommand: argument {index + 1} holds a NUL character")
        if block and (fault := curl_runner.insertion_fault(filled, before)):
            raise ConfigError(f"CurlCommand: argument {index + 1}: {fault}")
        if not any_scheme and curl_runner.inserted_scheme(filled.template, filled.value, before):
            raise ConfigError(f"CurlCommand: argument {index + 1}: what was filled in is no http address")
        args.append(filled)
        before = "" if option_before(before) else filled.value  # the value of an option is no option
    if block and curl_runner.names_a_file_by_pattern(args):
        raise ConfigError("CurlCommand: a pattern that was filled in gets into the name of a file ('#1')")
    return [filled.value for filled in args]


def _fill_command(context: ExecutionContext, element: Any) -> curl_runner.FilledCommand:
    template = fields.as_text(element)
    authored: str | None
    if isinstance(element, str):
        value, authored = context.fill_prefix(element)
    else:
        value = fields.filled_text(element, context.fill)
        authored = None if value == template else ""
    return curl_runner.FilledCommand(
        template, without_halves(value), None if authored is None else without_halves(authored)
    )


def _host(args: Sequence[str]) -> str:
    """Of the first URL, for a log line."""
    try:
        url = next((part.value or "" for part in read_arguments(args) if part.name == "url"), "")
    except UnknownOption:
        return "no host"
    return host_of(url if "://" in url else f"//{url}")


def _plain(args: Sequence[str], settings: _Settings) -> CurlRun:
    """Without a guard: whatever curl makes of it; options that we do not know go in as they are."""
    extra = _own_parts(settings, [])
    try:
        parts = read_arguments(args)
    except UnknownOption:
        has_limit = any(arg == "--max-filesize" or arg.startswith("--max-filesize=") for arg in args)
        extra = [part for part in extra if not (has_limit and part.name == "max-filesize")]
        words = [word for part in extra for word in (f"--{part.name}", part.value or "")]
        return _run(words + list(args), [], settings)
    if parts and parts[0].name == "disable":
        return _run(["-q"], _with_own(_own_parts(settings, parts), parts[1:]), settings)
    return _run([], _with_own(_own_parts(settings, parts), parts), settings)


def _run_guarded(args: Sequence[str], settings: _Settings) -> CurlRun:
    """Redirects are followed here, so that each hop is judged."""
    parts = read_arguments(args)
    curl_runner.refuse_strange_parts(parts)
    follows = any(part.name == "location" for part in parts)
    parts = [part for part in parts if part.name not in ("location", "no-location", "disable", "globoff")]
    own = [*curl_runner.GUARDED, *_own_parts(settings, parts)]
    own += [] if settings.proxy else [Part("noproxy", "*")]
    if not follows:
        return _run(["-q"], _with_own(own, curl_runner.pin_addresses(parts, settings.policy)), settings)
    if sum(part.name == "url" for part in parts) != 1:
        raise AddressRefused("with --location beside a guard there must be one URL")
    return _follow_redirects(parts, own, settings)


def _follow_redirects(parts: list[Part], own: list[Part], settings: _Settings) -> CurlRun:
    mark = f"\n{secrets.token_hex(16)} "
    limit, shown_at_end = _redirect_limit(parts), _write_out(parts)
    parts = [part for part in parts if part.name != "write-out"]
    told = Part("write-out", f"{shown_at_end}{mark}%{{http_code}} %{{redirect_url}}")
    larger = settings.cap + 10_000 if settings.cap is not None else None
    ends = time.monotonic() + settings.timeout_s
    for _ in range(limit + 1):
        pinned = curl_runner.pin_addresses(parts, settings.policy)
        left_s = ends - time.monotonic()
        if left_s <= 0:
            return CurlRun(b"", b"", None, late=True)
        run = _run(["-q"], [*own, *pinned, told], replace(settings, cap=larger, timeout_s=left_s))
        body, _, end = run.stdout.rpartition(mark.encode())
        if not end or run.returncode is None:
            return run
        if settings.cap is not None and len(body) > settings.cap:
            return replace(run, stdout=body[: settings.cap], returncode=None, too_large=True)
        status, _, location = end.decode("utf-8", "replace").partition(" ")
        if status not in _REDIRECTING or not location:
            return replace(run, stdout=body)
        url = next(part for part in parts if part.name == "url")
        here, there = curl_runner.target_of(url), parse_target(location)
        parts = curl_runner.next_hop(parts, int(status), location, same_origin=here.origin == there.origin)
    message = f"curl: more than {limit} redirects".encode()
    return CurlRun(b"", message, 47)


def _redirect_limit(parts: Sequence[Part]) -> int:
    said = [part.value or "" for part in parts if part.name == "max-redirs"]
    return min(int(said[-1]), REDIRECTS) if said and said[-1].isascii() and said[-1].isdigit() else REDIRECTS


def _write_out(parts: Sequence[Part]) -> str:
    said = [part.value or "" for part in parts if part.name == "write-out"]
    if said and said[-1].startswith("@"):
        raise AddressRefused("--write-out from a file is not allowed with --location beside a guard")
    return said[-1] if said else ""


def _own_parts(settings: _Settings, parts: Sequence[Part]) -> list[Part]:
    own = []
    if settings.cap is not None and not any(part.name == "max-filesize" for part in parts):
        own.append(Part("max-filesize", str(settings.cap)))
    if settings.proxy:
        own.append(Part("proxy", settings.proxy))
    return own


def _with_own(own: Sequence[Part], parts: Sequence[Part]) -> list[Part]:
    """Ours stand before the author's, and again behind each `--next`, which forgets them."""
    made = [*own]
    for part in parts:
        made += [part, *own] if part.name == "next" else [part]
    return made


def _run(words: Sequence[str], parts: Sequence[Part], settings: _Settings) -> CurlRun:
    """Parts go in on standard input, but for one that is longer than a line may be."""
    lines = [config_line(part) for part in parts]
    if any(len(line) > LONGEST_LINE for line in lines):
        pairs = [[f"--{part.name}"] + ([] if part.value is None else [part.value]) for part in parts]
        words, lines = [*words, *(word for pair in pairs for word in pair)], []
    named = ", ".join(f"--{part.name} ({len(part.value or '')})" for part in parts)
    logger.debug("curl with %s", named or f"{len(words)} arguments")
    return run_curl(
        [*words, "--config", "-"] if lines else words,
        "".join(lines),
        timeout_s=settings.timeout_s,
        cap=settings.cap,
        request_id=settings.request_id,
    )


def _failure_text(stderr: str) -> str:
    """What curl says of its failure: what it tells of the talk itself (`-v`) holds headers."""
    told = (line for line in stderr.splitlines() if line[:2] not in ("> ", "< ", "* ", "{ ", "} "))
    return "\n".join(told).strip()


def _format_run(run: CurlRun, settings: _Settings, output: str, returns: bool) -> str:
    stdout, stderr = (text.decode("utf-8", "replace") for text in (run.stdout, run.stderr))
    error = None
    if run.late:
        error = f"curl timed out after {settings.author} seconds"
    elif run.too_large:
        error = f"the output of curl is larger than {settings.cap} bytes ('maxResponseBytes')"
    if run.returncode != 0 and not returns:
        kind = TimeoutError if run.late else RuntimeError
        raise kind(error or f"curl failed: {_failure_text(stderr)}")
    if output == "full":
        facts = {"stdout": stdout, "stderr": stderr, "returncode": run.returncode}
        return json.dumps(facts if error is None else {**facts, "error": error})
    if error is not None:
        return error
    return stdout + stderr if output == "stdout+stderr" else stdout
