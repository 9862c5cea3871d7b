"""One question to an endpoint's server: bounded in length and time, with the endpoint's key."""

from __future__ import annotations

import pytest
import responses

from Middleware.common.errors import BackendError
from Middleware.config.endpoints import EndpointConfig
from Middleware.llmapis.call.call_arguments import HandlerSettings
from Middleware.llmapis.handlers import impl, json_get
from Middleware.llmapis.handlers.backends import BACKENDS

_ = impl  # importing the package fills the table of backends
URL = "http://127.0.0.1:8080/facts"


@pytest.fixture
def get():
    """What is had from `URL`, with the page as it is given."""

    def asked(**page):
        kind = "openAIChatCompletion"
        endpoint = EndpointConfig("Big", {"endpoint": URL}, "Api", {"type": kind}, "Endpoints/Big.json")
        handler = BACKENDS[kind](HandlerSettings(endpoint, "k-123", headers=endpoint.extra_headers))
        with responses.RequestsMock() as mock:
            mock.get(URL, **page)
            value = json_get.get_json(handler, URL, connect_timeout_s=5, limit_s=5)
            return value, mock.calls[0].request.headers

    return asked


def test_the_value_with_the_endpoints_key(get):
    value, headers = get(json={"a": [1]})
    assert value == {"a": [1]}
    assert headers["Authorization"] == "Bearer k-123" and headers["Accept"] == "application/json"


@pytest.mark.parametrize(
    "page",
    [{"body": "<html>"}, {"body": b"\xff"}, {"body": "[" * 100_000}, {"json": {"a": 1}, "status": 404}],
    ids=["page", "bytes", "deep", "no"],
)
def test_what_is_none(get, page):
    assert get(**page)[0] is None


@pytest.mark.parametrize(("more", "value"), [(0, "aaaaaa"), (1, None)])
def test_no_longer_than_allowed(get, monkeypatch, more, value):
    """To the byte."""
    monkeypatch.setattr(json_get, "MOST_BYTES", 8)
    assert get(body=b'"aaaaaa"' + b" " * more)[0] == value


def test_no_more_than_its_time(get, monkeypatch):
    """A server that trickles ends it, too; each piece would have come in time."""
    times = iter([0.0, 6.0, 6.0])
    monkeypatch.setattr(json_get.time, "monotonic", lambda: next(times, 6.0))
    assert get(json=[1])[0] is None


def test_nobody_there(get):
    """Told apart from an answer that says no."""
    with pytest.raises(BackendError):
        get(body=ConnectionError())
