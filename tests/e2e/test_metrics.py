"""The numbers of a real server: what clients did is what `/metrics` says."""

from __future__ import annotations

import shutil
import subprocess
import time

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.fake_backend import Reply
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.e2e

USERS = {
    "ann": {
        "workflows": {
            "Chat": [
                {"title": "Draft", "type": "Standard", "endpointName": "Model", "prompt": "draft {chat_user_prompt_last_one}"},
                {"title": "Answer", "type": "Standard", "endpointName": "Model", "lastMessagesToSendInsteadOfPrompt": 5},
            ]
        }
    }
}  # fmt: skip
WAIT_S = PATIENCE_S


@pytest.fixture(scope="module")
def server(launch):
    return launch(USERS)


def ask(text, stream=False):
    return {"model": "ann", "stream": stream, "messages": [{"role": "user", "content": text}]}


def shown(server):
    status, body = server.request("GET", "/metrics")
    assert status == 200
    return body.decode()


def total(server, name, **labels):
    """The sum of all series of this name that have these labels."""
    samples = [s for f in text_string_to_metric_families(shown(server)) for s in f.samples if s.name == name]
    return sum(s.value for s in samples if labels.items() <= s.labels.items())


def until(claim):
    """True when it comes true in time: a request ends a moment after its answer."""
    end = time.monotonic() + WAIT_S
    while not claim() and time.monotonic() < end:
        time.sleep(0.02)
    return claim()


def test_what_clients_did(server, backend):
    """Whole and streamed answers, a failure, a hang-up, in both protocols."""
    backend.on("m-fails", Reply(["x"], status=500))
    backend.on("m-hangs", Reply(["x"], hangs=True))
    server.post("/v1/chat/completions", ask("m-one"))
    server.post("/v1/chat/completions", ask("m-two", stream=True))
    server.post("/api/chat", ask("m-three"))
    server.post("/v1/chat/completions", ask("m-fails"))
    connection, answer = server.open_stream("/v1/chat/completions", ask("m-hangs"))
    answer.close()
    connection.close()
    assert until(lambda: total(server, "headrace_requests_total") == 5)
    assert total(server, "headrace_requests_total", user="ann", workflow="Chat", outcome="done") == 3
    assert total(server, "headrace_requests_total", front="Ollama chat", outcome="done") == 1
    assert total(server, "headrace_requests_total", outcome="failed") == 1
    assert total(server, "headrace_cancellations_total", by="hung_up") == 1
    assert total(server, "headrace_first_token_seconds_count", user="ann") == 3
    assert total(server, "headrace_backend_calls_total", endpoint="Model", outcome="stop") == 6
    assert total(server, "headrace_backend_errors_total", endpoint="Model") == 1
    assert total(server, "headrace_requests_running") == total(server, "headrace_queue_length") == 0


@pytest.mark.skipif(not shutil.which("promtool"), reason="the Debian package prometheus is not installed")
def test_promtool_is_content(server):
    """With what a real server shows."""
    server.post("/v1/chat/completions", ask("m-tool"))
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=shown(server), capture_output=True, text=True, check=False
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
