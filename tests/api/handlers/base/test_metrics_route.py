"""GET `/metrics`: beside the front ends, behind the same doors."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from Middleware.api.requests.access import AccessRules

BODY = {"model": "mira", "messages": [{"role": "user", "content": "Hi"}]}

LAST = [{"token": "", "finish_reason": "stop", "last": True}]
"""No node runs after the answer, so the request ends with it."""


def requests_seen(client):
    """Outcome -> how many."""
    families = text_string_to_metric_families(client.get("/metrics").text)
    return {
        s.labels["outcome"]: s.value
        for f in families
        for s in f.samples
        if s.name == "headrace_requests_total"
    }


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_what_the_application_did(client, engine, stream):
    """Generation requests count, others do not."""
    engine.answer = [[{"token": "Hello.", "finish_reason": None}], LAST]
    client.get("/v1/models")
    answer = client.post("/v1/chat/completions", json={**BODY, "stream": stream})
    assert "Hello." in answer.text
    answer.close()
    client.post("/v1/chat/completions", json={**BODY, "messages": 1}).close()
    assert requests_seen(client) == {"done": 1, "refused": 1}


def test_no_word_of_a_prompt(client):
    """Nor of an answer, nor what a client calls a model."""
    client.post(
        "/api/chat", json={"model": "no-such-name", "messages": [{"role": "user", "content": "secret"}]}
    ).close()
    shown = client.get("/metrics").text
    assert "secret" not in shown and "no-such-name" not in shown and "Hello." not in shown


def test_its_form(client):
    """Prometheus' text."""
    answer = client.get("/metrics")
    assert answer.status_code == 200 and answer.content_type.startswith("text/plain; version=")
    assert client.get("/metrics/").status_code == 200


def test_it_needs_a_key_where_one_is_required(serve):
    """As everything but the health check."""
    client = serve(access=AccessRules(api_keys=("k",))).test_client()
    assert client.get("/metrics").status_code == 401
    assert client.get("/metrics", headers={"Authorization": "Bearer k"}).status_code == 200


def test_it_never_waits(client, engine, facts, serve):
    """A full gate is nothing to it."""
    facts(concurrency=1)
    busy = serve().test_client()
    waiting = busy.post("/v1/chat/completions", json={**BODY, "stream": True})
    shown = busy.get("/metrics").text
    waiting.close()
    assert "headrace_requests_running 1.0" in shown and "headrace_slots 1.0" in shown


def test_a_wrong_method(client):
    """It is only read."""
    assert client.post("/metrics", json={}).status_code == 405
