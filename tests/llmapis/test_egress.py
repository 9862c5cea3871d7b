"""Where a backup is, before a prompt goes there."""

from __future__ import annotations

import socket

import pytest

from Middleware.llmapis.egress import EgressTarget, place_of, resolve

PLACES = [
    ("http://localhost:1", "local"),
    ("http://a.localhost.:1", "local"),
    ("http://127.0.0.1:1", "local"),
    ("http://10.1.2.3", "local"),
    ("http://192.168.1.1", "local"),
    ("http://169.254.1.1", "local"),
    ("http://[::1]:1", "local"),
    ("http://[fe80::1]", "local"),
    ("http://[::ffff:192.168.1.1]:1", "local"),
    ("http://[::ffff:8.8.8.8]:1", "remote"),
    ("http://8.8.8.8:1", "remote"),
    ("http://[2001:4860:4860::8888]", "remote"),
    ("http://100.64.0.9", "local"),
    ("http://", "unknown"),
    ("http://[nonsense", "unknown"),
    ("", "unknown"),
]


@pytest.mark.parametrize(("url", "where"), PLACES)
def test_addresses(url, where):
    """Without DNS."""
    assert place_of(url, resolver=None) == EgressTarget(where)


NAMES = [
    (["192.168.1.1"], EgressTarget("local", ("192.168.1.1",))),
    (["192.168.1.1", "8.8.8.8"], EgressTarget("remote", ("192.168.1.1", "8.8.8.8"))),
    ([], EgressTarget("unknown")),
    (["nonsense"], EgressTarget("unknown")),
]


@pytest.mark.parametrize(("answers", "place"), NAMES, ids=["private", "one-public", "none", "odd"])
def test_names(answers, place):
    """Any public address makes a name remote."""
    assert place_of("http://llm.lan:1", lambda host: answers) == place


@pytest.mark.parametrize("error", [socket.gaierror(-2, "no"), UnicodeError("label too long")])
def test_no_answer(error):
    """DNS does not know it."""

    def failing(host):
        raise error

    assert place_of("http://llm.lan", failing) == EgressTarget("unknown")


def test_the_systems_resolver():
    """Each address once."""
    assert resolve("127.0.0.1") == ["127.0.0.1"]
