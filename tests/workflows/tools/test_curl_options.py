"""The options of curl that are known: a name that is missing, or in the wrong table, opens a way around the guard."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from Middleware.workflows.tools.curl_arguments import NAME_A_FILE, is_harmless, read_arguments

LETTERS = {
    "A": "user-agent", "b": "cookie", "c": "cookie-jar", "C": "continue-at", "d": "data", "D":
    "dump-header", "e": "referer", "E": "cert", "F": "form", "h": "help", "H": "header", "K": "config",
    "m": "max-time", "o": "output", "P": "ftp-port", "Q": "quote", "r": "range", "t": "telnet-option",
    "T": "upload-file", "u": "user", "U": "proxy-user", "w": "write-out", "x": "proxy", "X": "request",
    "y": "speed-time", "Y": "speed-limit", "z": "time-cond", "0": "http1.0", "1": "tlsv1", "4": "ipv4",
    "6": "ipv6", "a": "append", "f": "fail", "g": "globoff", "G": "get", "i": "include", "I": "head",
    "j": "junk-session-cookies", "J": "remote-header-name", "k": "insecure", "L": "location", "n":
    "netrc", "N": "no-buffer", "O": "remote-name", "q": "disable", "R": "remote-time", "s": "silent",
    "S": "show-error", "v": "verbose", ":": "next", "#": "progress-bar",
}  # fmt: skip

HARMLESS = [
    "user-agent", "cookie", "cookie-jar", "continue-at", "data", "data-ascii", "data-binary",
    "data-raw", "data-urlencode", "json", "dump-header", "referer", "cert", "cert-type", "key",
    "key-type", "pass", "cacert", "capath", "ciphers", "form", "form-string", "header", "max-time",
    "connect-timeout", "output", "output-dir", "range", "upload-file", "user", "oauth2-bearer",
    "write-out", "request", "request-target", "speed-time", "speed-limit", "time-cond", "limit-rate",
    "max-filesize", "max-redirs", "retry", "retry-delay", "retry-max-time", "keepalive-time",
    "expect100-timeout", "stderr", "url", "url-query", "tls-max", "trace", "trace-ascii",
]  # fmt: skip

HARMLESS_FLAGS = [
    "http1.0", "http1.1", "http2", "tlsv1", "tlsv1.0", "tlsv1.1", "tlsv1.2", "tlsv1.3", "ipv4", "ipv6",
    "fail", "fail-early", "fail-with-body", "get", "include", "head", "junk-session-cookies",
    "remote-header-name", "insecure", "location", "no-buffer", "remote-name", "remote-name-all",
    "remote-time", "silent", "show-error", "verbose", "next", "progress-bar", "compressed", "basic",
    "digest", "anyauth", "path-as-is", "create-dirs", "raw", "tcp-nodelay", "tr-encoding",
    "retry-all-errors", "retry-connrefused", "no-progress-meter", "post301", "post302", "post303",
    "disable", "globoff", "no-keepalive", "no-sessionid", "trace-time", "no-clobber",
]  # fmt: skip

ELSEWHERE = [
    "config", "connect-to", "resolve", "unix-socket", "abstract-unix-socket", "doh-url", "proxy",
    "preproxy", "proxy1.0", "proxy-user", "proxy-header", "noproxy", "socks4", "socks4a", "socks5",
    "socks5-hostname", "interface", "dns-servers", "dns-interface", "dns-ipv4-addr", "dns-ipv6-addr",
    "proto", "proto-default", "proto-redir", "netrc-file", "alt-svc", "hsts", "local-port", "ftp-port",
    "quote", "telnet-option", "mail-from", "mail-rcpt", "mail-auth", "engine", "crlfile",
    "pinnedpubkey", "libcurl", "krb", "service-name", "variable", "help", "etag-compare", "etag-save",
    "egd-file", "random-file", "pubkey", "proxy-cert", "proxy-key", "proxy-cacert", "proxy-capath",
    "proxy-crlfile", "ssl-sessions",
]  # fmt: skip

ELSEWHERE_FLAGS = [
    "location-trusted", "netrc", "netrc-optional", "negotiate", "ntlm", "proxytunnel", "append",
    "list-only", "manual", "version", "parallel", "parallel-immediate", "ssl", "ssl-reqd", "crlf",
    "use-ascii", "doh-insecure", "haproxy-protocol",
]  # fmt: skip

FILES = [
    "output", "output-dir", "dump-header", "cookie-jar", "stderr", "trace", "trace-ascii", "libcurl",
    "etag-save", "etag-compare", "hsts", "alt-svc", "ssl-sessions", "netrc-file", "config",
    "upload-file", "cert", "key", "pubkey", "cacert", "capath", "crlfile", "egd-file", "random-file",
    "proxy-cert", "proxy-key", "proxy-cacert", "proxy-capath", "proxy-crlfile", "unix-socket",
]  # fmt: skip


def names(*args):
    return [(part.name, part.value) for part in read_arguments(args)]


@pytest.mark.parametrize(("letter", "name"), LETTERS.items())
def test_a_letter_means_its_name(letter, name):
    """With a value, in the next word or attached, or without."""
    takes_value = name in {*HARMLESS, *ELSEWHERE}
    value = ["v"] if takes_value else []
    assert names(f"-{letter}", *value) == names(f"--{name}", *value) == [(name, "v" if takes_value else None)]
    if takes_value:
        assert names(f"-{letter}v") == [(name, "v")]


@pytest.mark.parametrize("name", [*HARMLESS, *ELSEWHERE])
def test_what_takes_a_value(name):
    """It leads elsewhere, or it does not; the value is never taken for a URL."""
    (part,) = read_arguments([f"--{name}", "http://elsewhere.example"])
    assert is_harmless(part) is (name in HARMLESS)


@pytest.mark.parametrize("name", [*HARMLESS_FLAGS, *ELSEWHERE_FLAGS])
def test_what_takes_none(name):
    """What stands behind it is a URL."""
    flag, url = read_arguments([f"--{name}", "x"])
    assert (flag.value, url.name) == (None, "url")
    assert is_harmless(flag) is (name in HARMLESS_FLAGS)


def test_whose_values_are_files():
    assert sorted(NAME_A_FILE) == sorted(FILES)


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_the_installed_curl_agrees():
    """Which of its options take a value, and their letters; it may know more, or not yet all of them."""
    told = subprocess.run(["curl", "--help", "all"], capture_output=True, text=True, check=True).stdout
    found = re.findall(r"^ *(?:-(\S), )? *--([\w.-]+)( [<\[])?", told, re.MULTILINE)
    known = {*HARMLESS, *ELSEWHERE, *HARMLESS_FLAGS, *ELSEWHERE_FLAGS}
    its_letters = {letter: name for letter, name, _ in found if letter in LETTERS}
    assert its_letters == {letter: LETTERS[letter] for letter in its_letters}
    its_values = {name: bool(value) for _, name, value in found if name in known}
    assert {name: name in {*HARMLESS, *ELSEWHERE} for name in its_values} == its_values
    assert len(its_values) > 100
