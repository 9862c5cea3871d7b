"""Who may ask (frontend-api.md 6.1, 6.4, 12.5)."""

from __future__ import annotations

import socket

import pytest

from Middleware.api.requests import access
from Middleware.api.requests.access import (
    AccessRules,
    api_key_of,
    bearer_of,
    idempotency_key_of,
    is_loopback,
)

ORIGINS = [
    ("http://localhost:3000", True), ("http://127.0.0.1", True), ("http://[::1]:8080", True), ("http://0.0.0.0:1", True),
    ("app://obsidian.md", True), ("file://", True), ("tauri://localhost", True), ("vscode-webview://x", True),
    ("capacitor://localhost", True), ("ionic://localhost", True), ("http://tauri.localhost", True),
    ("chrome-extension://abc", True), ("moz-extension://abc", True), ("http://box.lan:5000", True),
    ("https://evil.example", False), ("http://localhost.evil.example", False), ("null", False), ("", False),
    ("http://[broken", False), ("http://box.lan:5001", False),
]  # fmt: skip
HOSTS = [
    ("localhost", True), ("localhost:5000", True), ("127.0.0.1:5000", True), ("[::1]:5000", True), ("192.168.1.20", True),
    ("10.0.0.5:5000", True), ("box.local", True), ("a.localhost", True), ("box.internal", True), ("box.lan", True),
    ("box.home.arpa", True), ("container", True), ("", True), (socket.gethostname(), True),
    ("evil.example", False), ("evil.example:5000", False), ("8.8.8.8", False), ("local", True), ("x.notlocal", False), ("[broken", False),
]  # fmt: skip


@pytest.mark.parametrize(("origin", "allowed"), ORIGINS)
def test_origins(origin, allowed):
    """Loopback, apps, and the server's own host."""
    assert AccessRules().allows_origin(origin, "box.lan:5000") is allowed


@pytest.mark.parametrize("given", ["https://evil.example", "*"])
def test_an_origin_of_the_command_line(given):
    """Exactly that one, or all."""
    assert AccessRules(cors_origins=(given,)).allows_origin("https://evil.example", "localhost")


@pytest.mark.parametrize(("host", "allowed"), HOSTS)
def test_hosts_while_bound_to_loopback(host, allowed):
    """A name that can be another site's is refused (DNS rebinding)."""
    assert AccessRules().allows_host(host) is allowed


@pytest.mark.parametrize(
    ("host", "allowed"),
    [("llm.example.com", True), ("LLM.example.com:8443", True), ("llm.example.com.", True), ("example.com", False),
     ("llm.example.com.evil.example", False), ("[broken", False)],
)  # fmt: skip
def test_the_host_of_an_allowed_origin(host, allowed):
    """Behind a reverse proxy that keeps the outer name; whatever the port."""
    assert AccessRules(cors_origins=("https://llm.example.com", "null")).allows_host(host) is allowed


@pytest.mark.parametrize("rules", [AccessRules(loopback=False), AccessRules(cors_origins=("*",))])
def test_hosts_are_not_checked_elsewhere(rules):
    """On the network, or when everything is allowed."""
    assert rules.allows_host("evil.example")


@pytest.mark.parametrize(
    ("path", "key", "allowed"),
    [("/v1/models", "right", True), ("/v1/models", "other", True), ("/v1/models", "wrong", False), ("/v1/models", None, False),
     ("/", None, True), ("/health", None, True), ("/v1/models", "schlüssel", False)],
)  # fmt: skip
def test_required_keys(path, key, allowed):
    """One of those given, but for the two open paths."""
    assert AccessRules(api_keys=("right", "other")).allows_key(path, key) is allowed


def test_keys_are_compared_in_constant_time(monkeypatch):
    """All of them, whichever fits, and each as a whole."""
    compared = []
    monkeypatch.setattr(access.hmac, "compare_digest", lambda a, b: compared.append((a, b)) or a == b)
    assert AccessRules(api_keys=("one", "two")).allows_key("/v1/models", "one")
    assert compared == [(b"one", b"one"), (b"one", b"two")]


def test_without_required_keys_everyone_may_ask():
    """The default."""
    assert AccessRules().allows_key("/v1/models", None)


def test_keys_are_not_in_the_repr():
    """It may be logged."""
    assert "right" not in repr(AccessRules(api_keys=("right",)))


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"HTTP_AUTHORIZATION": "Bearer  abc "}, "abc"),
        ({"HTTP_AUTHORIZATION": "bearer abc"}, "abc"),
        ({"HTTP_AUTHORIZATION": "Bearer "}, None),
        ({"HTTP_AUTHORIZATION": "BEARER abc"}, "abc"),
        ({"HTTP_AUTHORIZATION": "Bearer None"}, "None"),
        ({"HTTP_AUTHORIZATION": "Bearer null"}, "null"),
        ({"HTTP_AUTHORIZATION": "Bearer a", "HTTP_X_API_KEY": "b"}, "a"),
        ({"HTTP_AUTHORIZATION": "Bearer ", "HTTP_X_API_KEY": "b"}, None),
        ({"HTTP_AUTHORIZATION": "Bearerabc"}, None),
        ({"HTTP_AUTHORIZATION": "Basic abc"}, None),
        ({"HTTP_AUTHORIZATION": "Basic abc", "HTTP_X_API_KEY": "k"}, "k"),
        ({"HTTP_X_API_KEY": " k "}, "k"),
        ({"HTTP_X_API_KEY": " "}, None),
        ({"HTTP_AUTHORIZATION": "Bearer schlüssel".encode().decode("latin-1")}, "schlüssel"),
        ({"HTTP_AUTHORIZATION": "Bearer voilà".encode().decode("latin-1")}, "voilà"),
        ({"HTTP_AUTHORIZATION": "Bearer schlüssel"}, "schlüssel"),
        ({"HTTP_X_API_KEY": "ключ".encode().decode("latin-1")}, "ключ"),
    ],
)
def test_api_key(headers, expected):
    """The bearer key, else `X-API-Key`."""
    assert api_key_of(headers) == expected


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"HTTP_X_IDEMPOTENCY_KEY": " k "}, "k"),
        ({"HTTP_IDEMPOTENCY_KEY": "k"}, "k"),
        ({"HTTP_X_IDEMPOTENCY_KEY": "a", "HTTP_IDEMPOTENCY_KEY": "b"}, "a"),
        ({"HTTP_X_IDEMPOTENCY_KEY": "x" * 129}, None),
        ({"HTTP_X_IDEMPOTENCY_KEY": "  "}, None),
    ],
)
def test_idempotency_key(headers, expected):
    """1 to 128 characters."""
    assert idempotency_key_of(headers) == expected


@pytest.mark.parametrize(
    "host",
    [
        *(
            "evil.example@localhost",
            "localhost#.evil.example",
            "[::1].evil.example",
            "localhost:evil.example",
        ),
        *(
            "localhost/evil.example",
            "localhost?",
            "localhost, evil.example",
            "localhost evil.example",
            "[",
            "@",
        ),
    ],
)
def test_what_is_no_host_is_nobody_s(host):
    """No browser sends it: a name that only begins or ends as ours is not ours."""
    assert not AccessRules().allows_host(host)
    assert not AccessRules(cors_origins=("https://llm.example.com", "null", "https://[")).knows_host(host)


@pytest.mark.parametrize(("host", "known"), [("localhost:5000", True), ("llm.example.com", True), ("evil.example", False)])  # fmt: skip
def test_hosts_that_no_other_site_can_have(host, known):
    """On any bind address, whatever else is allowed."""
    rules = AccessRules(cors_origins=("*", "https://llm.example.com"), loopback=False)
    assert rules.knows_host(host) is known


@pytest.mark.parametrize(
    ("address", "own"),
    [("127.0.0.1", True), ("127.1.2.3", True), ("::1", True), ("::ffff:127.0.0.1", True), ("10.0.0.1", False), ("", False)],
)  # fmt: skip
def test_addresses_of_this_machine(address, own):
    """IPv4 in the form of IPv6 too."""
    assert is_loopback(address) is own


@pytest.mark.parametrize(
    ("value", "key"),
    [("Bearer k", "k"), ("bearer  k ", "k"), ("Bearer", ""), ("Basic k", None), (None, None)],
)
def test_bearer_keys(value, key):
    """None: there is none; empty: it was forgotten."""
    assert bearer_of({} if value is None else {"HTTP_AUTHORIZATION": value}) == key
