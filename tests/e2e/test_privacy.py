"""What the log and the backend get of a client's key and of private conversations, from a real server process."""

from __future__ import annotations

import json
import urllib.request

import pytest

from tests.e2e.answers import ROUTES
from tests.e2e.fake_backend import Reply
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.e2e

KEY = "client-key-0815-open-sesame"
USERS = {
    "open": {},
    "quiet": {"user": {"redactLogOutput": True}},
    "locked": {"user": {"encryptUsingApiKey": True}},
}


@pytest.fixture(scope="module")
def server(launch):
    return launch(USERS, "--log-level", "DEBUG")


@pytest.fixture(params=[False, True], ids=["whole", "stream"])
def ask(request, server, backend):
    """`ask(user)`: the log once the answer is there, and the marks of question and answer."""

    def asked(user, header="Authorization", value=f"Bearer {KEY}"):
        said, told = f"said-{user}-{request.param}-{header}", f"told-{user}-{request.param}-{header}"
        backend.on(said, Reply([f"{told} "] * 3))
        route = ROUTES["openai-chat"]
        body = json.dumps(route.ask(user, said, stream=request.param)).encode()
        headers = {"Content-Type": "application/json", header: value}
        call = urllib.request.Request(f"{server.url}{route.path}", body, headers)
        with urllib.request.urlopen(call, timeout=PATIENCE_S) as answer:
            assert told in route.text(answer.read(), stream=request.param)
        return said, told

    return asked


@pytest.mark.parametrize("user", ["quiet", "locked"])
def test_nothing_of_a_private_conversation_is_logged(server, ask, user):
    """At the lowest level, whole and streamed; by the user's wish, and by a key with encryption."""
    said, told = ask(user)
    ask("open")
    assert said not in server.log
    assert told not in server.log


def test_an_open_one_is(server, ask):
    """So the test above can fail."""
    said, _ = ask("open")
    assert server.wait_for_log(said)


@pytest.mark.parametrize("user", sorted(USERS))
@pytest.mark.parametrize(("header", "value"), [("Authorization", f"Bearer {KEY}"), ("X-API-Key", KEY)])
def test_the_key_stays_here(server, backend, ask, user, header, value):
    """No call of a backend and no line of the log holds it; any key may ask."""
    said, _ = ask(user, header, value)
    calls = backend.calls(said)
    assert calls
    assert KEY not in f"{calls}"
    assert KEY not in server.log
