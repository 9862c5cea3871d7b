"""The arguments of a curl command, read by curl's own grammar: joined short options, `--option=value` by its
parts, values attached to short options. Pure; runs nothing. Source: curl's manual page; spec tools.md 11.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_WITH_VALUE = {
    "A": "user-agent",
    "b": "cookie",
    "c": "cookie-jar",
    "C": "continue-at",
    "d": "data",
    "D": "dump-header",
    "e": "referer",
    "E": "cert",
    "F": "form",
    "h": "help",
    "H": "header",
    "K": "config",
    "m": "max-time",
    "o": "output",
    "P": "ftp-port",
    "Q": "quote",
    "r": "range",
    "t": "telnet-option",
    "T": "upload-file",
    "u": "user",
    "U": "proxy-user",
    "w": "write-out",
    "x": "proxy",
    "X": "request",
    "y": "speed-time",
    "Y": "speed-limit",
    "z": "time-cond",
}
_FLAGS = {
    "0": "http1.0",
    "1": "tlsv1",
    "4": "ipv4",
    "6": "ipv6",
    "a": "append",
    "f": "fail",
    "g": "globoff",
    "G": "get",
    "i": "include",
    "I": "head",
    "j": "junk-session-cookies",
    "J": "remote-header-name",
    "k": "insecure",
    "L": "location",
    "n": "netrc",
    "N": "no-buffer",
    "O": "remote-name",
    "q": "disable",
    "R": "remote-time",
    "s": "silent",
    "S": "show-error",
    "v": "verbose",
    ":": "next",
    "#": "progress-bar",
}
HARMLESS_VALUES = frozenset(
    [
        "user-agent",
        "cookie",
        "cookie-jar",
        "continue-at",
        "data",
        "data-ascii",
        "data-binary",
        "data-raw",
        "data-urlencode",
        "json",
        "dump-header",
        "referer",
        "cert",
        "cert-type",
        "key",
        "key-type",
        "pass",
        "cacert",
        "capath",
        "ciphers",
        "form",
        "form-string",
        "header",
        "max-time",
        "connect-timeout",
        "output",
        "output-dir",
        "range",
        "upload-file",
        "user",
        "oauth2-bearer",
        "write-out",
        "request",
        "request-target",
        "speed-time",
        "speed-limit",
        "time-cond",
        "limit-rate",
        "max-filesize",
        "max-redirs",
        "retry",
        "retry-delay",
        "retry-max-time",
        "keepalive-time",
        "expect100-timeout",
        "stderr",
        "url",
        "url-query",
        "tls-max",
        "trace",
        "trace-ascii",
    ]
)
"""Long options with a value that lead to no other address."""
HARMLESS_FLAGS = frozenset(
    [
        "http1.0",
        "http1.1",
        "http2",
        "tlsv1",
        "tlsv1.0",
        "tlsv1.1",
        "tlsv1.2",
        "tlsv1.3",
        "ipv4",
        "ipv6",
        "fail",
        "fail-early",
        "fail-with-body",
        "get",
        "include",
        "head",
        "junk-session-cookies",
        "remote-header-name",
        "insecure",
        "location",
        "no-buffer",
        "remote-name",
        "remote-name-all",
        "remote-time",
        "silent",
        "show-error",
        "verbose",
        "next",
        "progress-bar",
        "compressed",
        "basic",
        "digest",
        "anyauth",
        "path-as-is",
        "create-dirs",
        "raw",
        "tcp-nodelay",
        "tr-encoding",
        "retry-all-errors",
        "retry-connrefused",
        "no-progress-meter",
        "post301",
        "post302",
        "post303",
        "disable",
        "globoff",
        "no-keepalive",
        "no-sessionid",
        "trace-time",
        "no-clobber",
    ]
)
_OTHER_VALUES = frozenset(
    [
        "config",
        "connect-to",
        "resolve",
        "unix-socket",
        "abstract-unix-socket",
        "doh-url",
        "proxy",
        "preproxy",
        "proxy1.0",
        "proxy-user",
        "proxy-header",
        "noproxy",
        "socks4",
        "socks4a",
        "socks5",
        "socks5-hostname",
        "interface",
        "dns-servers",
        "dns-interface",
        "dns-ipv4-addr",
        "dns-ipv6-addr",
        "proto",
        "proto-default",
        "proto-redir",
        "netrc-file",
        "alt-svc",
        "hsts",
        "local-port",
        "ftp-port",
        "quote",
        "telnet-option",
        "mail-from",
        "mail-rcpt",
        "mail-auth",
        "engine",
        "crlfile",
        "pinnedpubkey",
        "libcurl",
        "krb",
        "service-name",
        "variable",
        "help",
        "etag-compare",
        "etag-save",
        "egd-file",
        "random-file",
        "pubkey",
        "proxy-cert",
        "proxy-key",
        "proxy-cacert",
        "proxy-capath",
        "proxy-crlfile",
        "ssl-sessions",
    ]
)
_OTHER_FLAGS = frozenset(
    [
        "location-trusted",
        "netrc",
        "netrc-optional",
        "negotiate",
        "ntlm",
        "proxytunnel",
        "append",
        "list-only",
        "manual",
        "version",
        "parallel",
        "parallel-immediate",
        "ssl",
        "ssl-reqd",
        "crlf",
        "use-ascii",
        "doh-insecure",
        "haproxy-protocol",
    ]
)
NAME_A_FILE = frozenset(
    [
        "output",
        "output-dir",
        "dump-header",
        "cookie-jar",
        "stderr",
        "trace",
        "trace-ascii",
        "libcurl",
        "etag-save",
        "etag-compare",
        "hsts",
        "alt-svc",
        "ssl-sessions",
        "netrc-file",
        "config",
        "upload-file",
        "cert",
        "key",
        "pubkey",
        "cacert",
        "capath",
        "crlfile",
        "egd-file",
        "random-file",
        "proxy-cert",
        "proxy-key",
        "proxy-cacert",
        "proxy-capath",
        "proxy-crlfile",
        "unix-socket",
    ]
)
"""Options whose value is the name of a file or folder that is read, written or obeyed, without a mark before
it.
"""
_VALUES = HARMLESS_VALUES | _OTHER_VALUES
_ALL_FLAGS = HARMLESS_FLAGS | _OTHER_FLAGS


class UnknownOption(ValueError):
    """An option that is not in the table, so that what follows it cannot be read."""


@dataclass(frozen=True, slots=True)
class Part:
    """One option with its value, or a URL (`name` is `url`). `value`: None for a flag.

    `index`: the argument that it came from, from 0.
    """

    name: str
    value: str | None = None
    index: int = 0


def read_arguments(args: Sequence[str]) -> list[Part]:
    """The parts in their order. Raises UnknownOption."""
    parts: list[Part] = []
    waiting = iter(enumerate(args))
    for index, arg in waiting:
        if arg == "-" or not arg.startswith("-"):
            parts.append(Part("url", arg, index))
        elif arg == "--":
            parts += [Part("url", url, place) for place, url in waiting]
        elif arg.startswith("--"):
            parts.append(_long(arg[2:], index, waiting))
        else:
            parts += _short(arg[1:], index, waiting)
    return parts


def _long(text: str, index: int, waiting: Iterable[tuple[int, str]]) -> Part:
    # curl itself takes `--option=value` as an unknown option; the peer's configs may hold it for URLs.
    name, equals, attached = text.partition("=")
    if name in _VALUES:
        return Part(name, attached if equals else _next(name, waiting), index)
    if not equals and (name in _ALL_FLAGS or name.removeprefix("no-") in _ALL_FLAGS):
        return Part(name, None, index)
    raise UnknownOption(f"argument {index + 1}: the option is unknown")


def _short(letters: str, index: int, waiting: Iterable[tuple[int, str]]) -> list[Part]:
    parts = []
    for place, letter in enumerate(letters):
        if letter in _WITH_VALUE:
            name, rest = _WITH_VALUE[letter], letters[place + 1 :]
            parts.append(Part(name, rest or _next(name, waiting), index))
            break
        if letter not in _FLAGS:
            raise UnknownOption(f"argument {index + 1}: the option is unknown")
        parts.append(Part(_FLAGS[letter], None, index))
    return parts


def _next(name: str, waiting: Iterable[tuple[int, str]]) -> str:
    for _, value in waiting:
        return value
    raise UnknownOption(f"the option --{name} has no value")


def option_and_value(arg: str) -> tuple[str, str]:
    """The option in an argument that takes a value, and what of it is attached; else two empty texts."""
    if arg.startswith("--"):
        name, _, attached = arg[2:].partition("=")
        name = _full_name(name)
        return (name, attached) if name in _VALUES else ("", "")
    for place, letter in enumerate(arg[1:], 1):
        if letter in _WITH_VALUE:
            return _WITH_VALUE[letter], arg[place + 1 :]
    return "", ""


def _full_name(name: str) -> str:
    """curl takes the beginning of a long option for it, as long as no other begins so."""
    if name in _VALUES or name in _ALL_FLAGS:
        return name
    meant = [option for option in (*_VALUES, *_ALL_FLAGS) if option.startswith(name)]
    return meant[0] if len(meant) == 1 else name


def option_before(arg: str) -> str:
    """The option of `arg` whose value is the next argument; empty: there is none."""
    if not arg.startswith("-") or (arg.startswith("--") and "=" in arg):
        return ""
    option, attached = option_and_value(arg)
    return "" if attached else option


def url_may_follow(arg: str) -> bool:
    """Whether what stands behind `arg` is read as a URL; of an unknown option nobody can say."""
    if not arg.startswith("-") or "=" in arg or arg == "--":
        return True
    option, attached = option_and_value(arg)
    if option:
        return bool(attached) or option == "url"
    try:
        return bool(read_arguments([arg]))
    except UnknownOption:
        return False


def is_harmless(part: Part) -> bool:
    """Whether the part leads to no address but those of the URLs."""
    if part.value is not None:
        return part.name in HARMLESS_VALUES
    return part.name in HARMLESS_FLAGS or part.name.removeprefix("no-") in HARMLESS_FLAGS - {"globoff"}


def config_line(part: Part) -> str:
    """The part as a line of a curl config file."""
    if part.value is None:
        return f"--{part.name}\n"
    value = part.value
    for plain, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
        value = value.replace(plain, escaped)
    return f'--{part.name} "{value}"\n'
