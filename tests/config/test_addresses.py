"""Which texts are addresses of HTTP servers."""

from __future__ import annotations

import pytest

from Middleware.config.endpoints import address_fault


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:11434",
        " HTTPS://api.example.com/v1/ ",
        "http://[::1]:8080",
        "http://host.docker.internal:1",
        "http://user:secret@box:65535/a?b=c",
        "${ENV:URL}",
        "http://box:${ENV:PORT}",
    ],
)
def test_an_address(url):
    assert address_fault(url) is None


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("", "it is empty"),
        ("127.0.0.1:11434", "it does not begin with http:// or https://"),
        ("localhost", "it does not begin with http:// or https://"),
        ("ftp://box", "it does not begin with http:// or https://"),
        ("http:/box:1", "it does not begin with http:// or https://"),
        ("http://", "it has no host"),
        ("http://:80", "it has no host"),
        ("http://box:99999", "its port is no number from 1 to 65535"),
        ("http://box:0", "its port is no number from 1 to 65535"),
        ("http://box:80a", "its port is no number from 1 to 65535"),
        ("http://bo x:80", "it holds a blank"),
        ("http://b\u200box", "it holds a character that cannot be shown"),
        ("http://b\x00box", "it holds a character that cannot be shown"),
        ("http://[::1:80", "the brackets around its host do not fit"),
    ],
)
def test_what_is_none(url, why):
    """The sentence shows what stands there and an example."""
    assert address_fault(url) == f'found "{url}", allowed: an address such as http://127.0.0.1:11434 ({why})'
