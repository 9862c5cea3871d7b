"""Requests that wait for a slot have a name in the console, whatever they speak (prompt-reuse.md 7.1, workbench.md 12)."""

from __future__ import annotations

import json
import threading
import urllib.request

import pytest

from tests.e2e.answers import ROUTES
from tests.e2e.fake_backend import Reply
from tests.patience import PATIENCE_S, wait_until

pytestmark = pytest.mark.e2e

HOLD = "hold the slot (waiting rows)"
AT_ENDPOINT = "stay at the endpoint (waiting rows)"
USERS = {"mira": {}, "jo": {"user": {"redactLogOutput": True}}}


@pytest.fixture(scope="module")
def server(launch):
    return launch(USERS, "--concurrency", "1")


@pytest.fixture
def held(server, backend):
    """The only slot is held, until the event is set."""
    over = threading.Event()
    backend.on(HOLD, Reply(("done",), after=over))
    body = {"model": "mira", "messages": [{"role": "user", "content": HOLD}]}
    before = len(backend.calls(HOLD))
    holder = threading.Thread(target=server.post, args=("/v1/chat/completions", body), daemon=True)
    holder.start()
    wait_until(lambda: len(backend.calls(HOLD)) > before)
    yield over
    over.set()
    holder.join(PATIENCE_S)


def rows(server):
    """All that the console has, the newest first."""
    asked = urllib.request.Request(f"{server.url}/console/api/runs", headers={"X-Headrace-Console": "1"})
    with urllib.request.urlopen(asked, timeout=PATIENCE_S) as answer:
        return json.load(answer)["runs"]


def waiting_rows(server):
    return [run for run in rows(server) if run["state"] == "waiting"]


def ask(server, path, body):
    """A request in a thread of its own, and its row once that has a name."""
    thread = threading.Thread(target=server.post, args=(path, body), daemon=True)
    thread.start()
    wait_until(lambda: any(run["user"] for run in waiting_rows(server)))
    return thread, waiting_rows(server)[0]


@pytest.mark.parametrize("name", sorted(ROUTES))
def test_each_protocol(server, held, name):
    """Its user, its protocol, its words, its place and who holds the slot."""
    route = ROUTES[name]
    thread, row = ask(server, route.path, route.ask("mira", "Hello there", stream=False))
    assert (row["user"], row["said"], row["where"]) == ("mira", "Hello there", "1st in line, while mira runs")
    assert row["front"]
    held.set()
    thread.join(PATIENCE_S)


def test_a_private_user_has_a_name_and_no_text(server, held):
    body = {"model": "jo", "messages": [{"role": "user", "content": "secret"}]}
    thread, row = ask(server, "/v1/chat/completions", body)
    assert (row["user"], row["private"], row["said"]) == ("jo", True, None)
    held.set()
    thread.join(PATIENCE_S)


@pytest.mark.usefixtures("held")
def test_a_name_that_is_not_there_is_refused_at_once(server):
    """The slot is still held."""
    body = {"model": "nobody", "messages": [{"role": "user", "content": "hi"}]}
    status, said = server.post("/v1/chat/completions", body)
    assert status == 404, said


def test_a_call_that_waits_for_its_endpoint_says_so(launch, backend):
    """There are slots at the door, and one at the endpoint."""
    over = threading.Event()
    backend.on(AT_ENDPOINT, Reply(("done",), after=over))
    server = launch({"mira": {"endpoints": {"Model": {"maxConcurrentRequests": 1}}}}, "--concurrency", "4")

    def post(text):
        body = {"model": "mira", "messages": [{"role": "user", "content": text}]}
        thread = threading.Thread(target=server.post, args=("/v1/chat/completions", body), daemon=True)
        thread.start()
        return thread

    def places():
        return [run["where"] for run in rows(server)]

    threads = [post(AT_ENDPOINT)]
    wait_until(lambda: backend.calls(AT_ENDPOINT))
    threads.append(post("Hello"))
    wait_until(lambda: "node 1 of 1, waits for a slot of Model" in places(), said=places)
    over.set()
    for thread in threads:
        thread.join(PATIENCE_S)
