"""What the machinery knows of a handler's settings (backends.md 16)."""

from __future__ import annotations

import pytest

from Middleware.config.endpoints import EndpointConfig
from Middleware.llmapis.call.call_arguments import HandlerSettings


def settings(url, **more):
    return HandlerSettings(EndpointConfig("E", {"endpoint": url}, "A", {}), **more)


@pytest.mark.parametrize(
    ("url", "more", "secrets"),
    [
        ("http://h:1", {"api_key": "key-1"}, {"key-1"}),
        ("http://h:1", {"headers": {"Authorization": "Basic abcd", "X-A": "shown"}}, {"abcd"}),
        ("http://me:pa%20ss@h:1/v1", {}, {"pa%20ss", "pa ss", "bWU6cGEgc3M="}),
        ("http://name@h", {}, set()),
        ("http://h/a@b", {}, set()),
    ],
    ids=["key", "header", "url", "url-without-password", "no-userinfo"],
)
def test_what_no_message_may_show(url, more, secrets):
    """Also what stands before the host, as it is written and as it is sent."""
    assert {secret for secret in settings(url, **more).secrets if secret} == secrets
