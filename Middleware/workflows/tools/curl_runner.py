"""One run of the curl program: no shell, its own process group, capped output, a time limit, cancellation.

Its arguments go in on standard input (`--config -`), so that other users of the machine cannot read them.
Logs nothing of them. Source: spec tools.md 4.2 and 11.4.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, cast

from Middleware.common.errors import RequestCancelled
from Middleware.services.cancellation_service import cancellation_service
from Middleware.utilities.network_security_utils import (
    AddressPolicy,
    AddressRefused,
    Checked,
    RequestTarget,
    parse_target,
)
from Middleware.workflows.tools.curl_arguments import (
    NAME_A_FILE,
    Part,
    UnknownOption,
    is_harmless,
    option_and_value,
    option_before,
    read_arguments,
    url_may_follow,
)

PIECE = 64 * 1024
LONGEST_LINE = 60_000
"""Older versions of curl cut longer lines of a config file."""


class Readable(Protocol):
    """What comes now, at most so much; `os.read` would fail on the pipes of a process that gevent patched."""

    def read1(self, size: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class CurlRun:
    """What came out. `returncode`: None when it was killed, then `late` or `too_large` says why."""

    stdout: bytes = field(repr=False)
    stderr: bytes = field(repr=False)
    returncode: int | None
    late: bool = False
    too_large: bool = False


class _Killer:
    """Kills the process group once, and remembers why."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._lock = threading.Lock()
        self.reason = ""

    def kill(self, reason: str) -> None:
        with self._lock:
            if self.reason or self._process.returncode is not None:
                return
            self.reason = reason
            with contextlib.suppress(ProcessLookupError):
                if hasattr(os, "killpg"):
                    os.killpg(self._process.pid, signal.SIGKILL)
                else:
                    self._process.kill()


def run_curl(
    words: Sequence[str], config: str, *, timeout_s: float, cap: int | None, request_id: str = ""
) -> CurlRun:
    """`curl <words>` with `config` on its standard input.

    Raises FileNotFoundError when there is no curl, RequestCancelled.
    """
    program = shutil.which("curl")
    if program is None:
        raise FileNotFoundError("there is no program 'curl' on the PATH of the server")
    process = subprocess.Popen(
        [program, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    killer = _Killer(process)

    def cancel() -> None:
        killer.kill("cancelled")

    timer = threading.Timer(timeout_s, killer.kill, ("late",))
    timer.daemon = True
    timer.start()
    cancellation_service.register_abort_callback(request_id, cancel)
    try:
        return _collect_output(process, killer, config, cap)
    finally:
        timer.cancel()
        cancellation_service.unregister_abort_callback(request_id, cancel)
        killer.kill("left")
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def _collect_output(
    process: subprocess.Popen[bytes], killer: _Killer, config: str, cap: int | None
) -> CurlRun:
    assert process.stdin and process.stdout and process.stderr
    output, errors = cast(Readable, process.stdout), bytearray()
    drain = threading.Thread(target=_drain, args=(process.stderr, errors, cap), daemon=True)
    drain.start()
    # A process that ends before it has read its input says why by its status.
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(config.encode("utf-8", "replace"))
        process.stdin.flush()
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    out = bytearray()
    while piece := output.read1(PIECE):
        out += piece
        if cap is not None and len(out) > cap:
            del out[cap:]
            killer.kill("too_large")
            break
    process.wait()
    drain.join()
    if killer.reason == "cancelled":
        raise RequestCancelled
    code = process.returncode if not killer.reason else None
    return CurlRun(
        bytes(out), bytes(errors), code, late=killer.reason == "late", too_large=killer.reason == "too_large"
    )


def _drain(stream: Readable, kept: bytearray, cap: int | None) -> None:
    """Read all of it, keep as much as the cap allows: a full pipe would stop the process."""
    while piece := stream.read1(PIECE):
        kept += piece if cap is None else piece[: max(0, cap - len(kept))]


# --------------------------------------------------------------------------
# What a curl command may hold: guards against inserted options, files and schemes, and the rewriting of a
# command so that curl reaches the judged addresses only. Pure but for the look-up. Source: spec tools.md
# 4.3, 4.4 and 11.4.


GUARDED = (
    Part("proto", "=http,https"),
    Part("proto-redir", "=http,https"),
    Part("proto-default", "http"),
    Part("globoff"),
    Part("no-netrc"),
)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
_IPV6 = re.compile(r"^\[[0-9A-Fa-f:.%]*\]")
_HOST_AND_PORT = re.compile(r"[A-Za-z0-9.-]+:[0-9]{1,5}(?:/|$)")
_HEADERS_FILE = re.compile(r";\s*headers\s*=\s*[@<]", re.IGNORECASE)
_BEGUN_FORM_FILE = re.compile(r"(?:^[^=]*=[@<](?:[^;,]*,)*|;\s*headers\s*=\s*[@<])([^;,]*)$", re.IGNORECASE)
"""A part of `--form` up to where a file name has begun."""
_OUTPUT = "%output{"
_BEGUN_OUTPUT = re.compile(r"%output\{(?:>>)?([^}]*)$")
_FILE_OF_VARIABLE = re.compile(r"(?:^|^[^={]*=)@[^;,{]*\{")
_SEPARATOR = re.compile(r"[/\\]")
_ABSOLUTE = re.compile(r"[/\\]|[A-Za-z]:")
_NUMBERED = re.compile(r"#[0-9]")
_ENCODED = frozenset(["data-urlencode", "url-query", "variable"])
"""Options with `name=value` or `name@file`."""
_PLAIN_TEXTS = frozenset(["data-raw", "form-string", "user-agent", "referer", "user", "request"])
"""Options of whose value no part names a file."""
_HEAD_OF_REQUEST = frozenset(
    [
        "header",
        "proxy-header",
        "user-agent",
        "referer",
        "cookie",
        "request",
        "request-target",
        "range",
        "oauth2-bearer",
    ]
)
"""Options whose value curl writes into the lines before the body as it is, line ends too (measured: 7.88)."""
_BODY = frozenset(
    [
        "data",
        "data-ascii",
        "data-binary",
        "data-raw",
        "data-urlencode",
        "json",
        "form",
        "form-string",
        "upload-file",
        "get",
    ]
)
_KEYS = frozenset(["user", "oauth2-bearer", "cookie", "cert", "key", "pass"])
_KEY_HEADER = re.compile(r"[^:;]*(?:key|token|secret|passw|auth|session|cookie|credential)", re.IGNORECASE)


AN_OPTION = "what was filled in is an option or names a file"
LEAVES = "what was filled in leaves the folder that the argument names"
ENDS_A_LINE = "what was filled in holds a line end, so it would add headers or a request of its own"


@dataclass(frozen=True, slots=True)
class FilledCommand:
    """An argument. `template`: as it was written; `value`: as curl gets it; `authored`: what of the value
    comes before the first run-time value, None: it holds none.
    """

    template: str
    value: str
    authored: str | None


def insertion_fault(filled: FilledCommand, before: str = "") -> str:
    """Why what was filled in is refused, empty if it is not: it became an option, decides which file is
    read, written or sent, or goes on behind the line of a header.

    `before`: the option whose value the argument is, if it is one. A file name that the author began may go
    on with what was filled in, below the folder that it names. Source: tools.md 4.3, 11.4.
    """
    template, value, authored = filled.template, filled.value, filled.authored
    if any(value.startswith(mark) and not template.startswith(mark) for mark in "-@"):
        return AN_OPTION
    if authored is None or value == authored:
        return ""
    inserted = value.removeprefix(authored)
    if not template.startswith("-"):
        return _value_fault(option_before(before), authored, inserted)
    option, said = option_and_value(authored)
    is_named = "=" in authored if authored.startswith("--") else bool(option)
    return _value_fault(option, said, inserted) if is_named else AN_OPTION


def _value_fault(option: str, said: str, inserted: str) -> str:
    """The same for the value of an option, of which `said` is the author's."""
    if option in _HEAD_OF_REQUEST and any(end in inserted for end in "\r\n"):
        return ENDS_A_LINE
    return _file_fault(option, said, inserted)


def _file_fault(option: str, said: str, inserted: str) -> str:
    """What of it decides about a file."""
    if option in _PLAIN_TEXTS:
        return ""
    if option in NAME_A_FILE:
        return _name_fault(said, inserted, may_glob=option != "upload-file") if said else AN_OPTION
    if option == "form":
        return _form_fault(said, inserted)
    if option == "cookie" and "=" not in said + inserted:  # without a value it is a file of cookies
        return _name_fault(said, inserted) if said else AN_OPTION
    if option == "write-out" and not said.startswith("@"):
        return _output_fault(said, inserted)
    if said.startswith("@"):
        return _name_fault(said[1:], inserted)
    if option in _ENCODED and "=" not in said:
        _, at, name = said.partition("@")
        if at:
            return _name_fault(name, inserted) if name else AN_OPTION
        return AN_OPTION if "@" in inserted.partition("=")[0] else ""
    if not option:  # an unknown one, or none
        marked = said.endswith("=") and inserted.startswith(("@", "<"))
        return AN_OPTION if marked or said.endswith("@") else ""
    begins = not said or said.endswith("=")
    return AN_OPTION if begins and inserted.startswith("@") else ""


def _name_fault(said: str, inserted: str, *, may_glob: bool = True) -> str:
    """For the name of a file that begins with `said`. What names no folder names the current one."""
    last = _SEPARATOR.split(said)[-1]
    climbs = ".." in _SEPARATOR.split(last + inserted)
    absolute = not last and _ABSOLUTE.match(inserted)
    globs = not may_glob and any(mark in inserted for mark in "{[")
    return LEAVES if climbs or absolute or globs else ""


def _form_fault(said: str, inserted: str) -> str:
    """For `name=content`, `name=@file,file;type=...;headers=@file`."""
    if len(_HEADERS_FILE.findall(said + inserted)) > len(_HEADERS_FILE.findall(said)):
        return AN_OPTION
    if "=" not in said:
        return AN_OPTION if inserted.partition("=")[2].startswith(("@", "<")) else ""
    if begun := _BEGUN_FORM_FILE.search(said):
        return AN_OPTION if any(mark in inserted for mark in ',;"') else _name_fault(begun[1], inserted)
    content = said.partition("=")[2]
    more_files = content.startswith("@") and "," in inserted
    marked = not content and inserted.startswith(("@", "<"))
    return AN_OPTION if more_files or marked else ""


def _output_fault(said: str, inserted: str) -> str:
    """For a text with `%output{file}`."""
    begun = _BEGUN_OUTPUT.search(said)
    if (said + inserted).count(_OUTPUT) > said.count(_OUTPUT) or (begun and not begun[1]):
        return AN_OPTION
    return _name_fault(begun[1], inserted.partition("}")[0]) if begun else ""


def names_a_file_by_variable(template: str, before: str) -> bool:
    """Whether the author wrote an `@` before a file name that holds a variable."""
    option, said = option_before(before), template
    if template.startswith("-"):
        option, said = option_and_value(template)
    return option not in _PLAIN_TEXTS and bool(_FILE_OF_VARIABLE.search(said))


def names_a_file_by_pattern(args: Sequence[FilledCommand]) -> bool:
    """Whether a pattern that was filled into a URL gets into the name of a file (`-o dir/#1`)."""
    try:
        parts = read_arguments([filled.value for filled in args])
    except UnknownOption:
        return False
    if not any(part.name == "output" and _NUMBERED.search(part.value or "") for part in parts):
        return False
    urls = [part.value for part in parts if part.name == "url" and part.value]
    return any(
        any(mark in filled.value.removeprefix(filled.authored) for mark in "{[")
        for filled in args
        if filled.authored is not None and any(url in filled.value for url in urls)
    )


def inserted_scheme(template: str, value: str, before: str) -> bool:
    """Whether what was filled in is a URL of another scheme than http. `before`: the argument before."""
    template, text = template.strip().removeprefix("--url="), value.strip().removeprefix("--url=")
    if _opens_with_a_pattern(text) and url_may_follow(before):
        return template.replace("{{", "{").replace("}}", "}") != text
    found = _SCHEME.match(text)
    if not found or found[1].lower() in ("http", "https") or before in ("-H", "--header"):
        return False
    return not (_HOST_AND_PORT.match(text) or template.lower().startswith(found[0].lower()))


def _opens_with_a_pattern(text: str) -> bool:
    """Whether curl would make the scheme or the host out of `{a,b}` or `[a-b]`."""
    return any(mark in _IPV6.sub("", text).partition("/")[0] for mark in "{[")


def refuse_strange_parts(parts: Sequence[Part]) -> None:
    """Raises AddressRefused for an option that could lead to an address that nobody judged."""
    for part in parts:
        if not is_harmless(part):
            raise AddressRefused(f"argument {part.index + 1}: --{part.name} is not allowed beside a guard")


def check_url(part: Part, policy: AddressPolicy) -> Checked:
    """Raises AddressRefused, naming the argument."""
    try:
        return policy.check(_with_scheme(part))
    except AddressRefused as error:
        raise AddressRefused(f"argument {part.index + 1}: {error}") from None


def target_of(part: Part) -> RequestTarget:
    """Where a URL leads, without a look-up. Raises AddressRefused."""
    return parse_target(_with_scheme(part))


def _with_scheme(part: Part) -> str:
    """A URL without a scheme is read as http."""
    url = part.value or ""
    return url if "://" in url else f"http://{url}"


def pin_addresses(parts: Sequence[Part], policy: AddressPolicy) -> list[Part]:
    """The parts with each URL in the form that was judged, and its addresses told to curl."""
    made: list[Part] = []
    for part in parts:
        if part.name != "url":
            made.append(part)
            continue
        checked = check_url(part, policy)
        target = checked.target
        if checked.pins and target.host not in checked.pins:
            addresses = ",".join(f"[{pin}]" if ":" in pin else pin for pin in checked.pins)
            made.append(Part("resolve", f"{target.host}:{target.port}:{addresses}", part.index))
        made.append(replace(part, value=target.url))
    return made


def next_hop(parts: Sequence[Part], status: int, location: str, *, same_origin: bool) -> list[Part]:
    """The command for the target of a redirect. Source: as WebFetch, tools.md 3.2 and 11.2."""
    as_get = status in (301, 302, 303) and not any(part.name == "head" for part in parts)
    return [
        replace(part, value=location) if part.name == "url" else part
        for part in parts
        if not (as_get and _belongs_to_body(part)) and (same_origin or not _is_private(part))
    ]


def _belongs_to_body(part: Part) -> bool:
    if part.name == "header":
        return (part.value or "").lower().startswith(("content-type:", "content-length:"))
    return part.name in _BODY or part.name == "request"


def _is_private(part: Part) -> bool:
    return part.name in _KEYS or (part.name == "header" and bool(_KEY_HEADER.match(part.value or "")))
