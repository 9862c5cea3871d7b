"""The limits and turns of keys over two workers of one gunicorn, and two servers at one Redis (keys.md 9, row 3)."""

from __future__ import annotations

import json
import threading
from contextlib import closing

import pytest

from Middleware.config.key_file import digest_of
from tests.e2e.fake_backend import Reply
from tests.e2e.test_several_processes import clusters, eventually, hang_up

pytestmark = pytest.mark.e2e

USED = {"prompt_tokens": 20, "completion_tokens": 9, "total_tokens": 29}
NAMES = {
    "ann": {},
    "bob": {},
    "dan": {},
    "eve": {},
    "zoe": {},
    "cron": {"priority": "background"},
    "one": {"limits": {"concurrent": 1, "queued": 1}},
    "few": {"limits": {"requestsPerMinute": 1}},
    "killed": {"limits": {"requestsPerMinute": 2, "concurrent": 1}},
    "day": {"limits": {"tokensPerDay": 29}},
}


@pytest.fixture(scope="module")
def keys_file(tmp_path_factory):
    file = tmp_path_factory.mktemp("keys") / "Keys.json"
    entries = [
        {"name": name, "sha256": digest_of(name), "users": ["*"], **more} for name, more in NAMES.items()
    ]
    file.write_text(json.dumps({"keys": entries}))
    file.chmod(0o600)
    return file


@pytest.fixture(scope="module")
def cluster(backend, keys_file, tmp_path_factory):
    """`cluster(kind, concurrency, fresh)`: as of `clusters`, with the keys."""
    with clusters(backend, tmp_path_factory) as start:
        yield lambda kind, concurrency, fresh="": start(
            kind, ("--concurrency", str(concurrency), "--keys-file", str(keys_file)), fresh
        )


@pytest.fixture(params=["workers", "machines"])
def kind(request):
    return request.param


@pytest.fixture
def opened():
    """Connections that are closed at the end of the test."""
    connections = []
    yield connections
    for connection in connections:
        hang_up(connection)


@pytest.fixture
def ask(opened):
    """The request is sent to one of the two; the answer is the test's to read."""

    def send(both, number, name, mark, connection=None):
        connection = connection or both.connect(number)
        opened.append(connection)
        body = {"model": "ann", "messages": [{"role": "user", "content": mark}]}
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {name}"}
        connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        connection.wire = connection.sock
        return connection

    return send


def answered(connection):
    """Status, headers and text."""
    with closing(connection), connection.getresponse() as answer:
        headers = {name.lower(): value for name, value in answer.getheaders()}
        return answer.status, headers, answer.read().decode()


@pytest.mark.parametrize(
    ("waiting", "served"),
    [
        ("ann1 ann2 ann3 bob1", "ann1 bob1 ann2 ann3"),
        ("cron1 eve1 dan1 eve2", "eve1 dan1 eve2 cron1"),
    ],
    ids=["names-in-turn", "background-behind-people"],
)
def test_turns_go_as_in_one_process(cluster, kind, backend, ask, waiting, served):
    """Whichever process they wait in."""
    both, mark, go = cluster(kind, 1), f"turns {kind} {waiting[:4]}", threading.Event()
    backend.on(mark, Reply(["x"], after=go))
    asked = [ask(both, 0, "zoe", f"{mark} zoe1")]
    backend.wait_for_call(mark)
    for number, ticket in enumerate(waiting.split()):
        asked.append(ask(both, (number + 1) % 2, ticket[:-1], f"{mark} {ticket}"))
        eventually(lambda number=number: both.waiting() == number + 1)
    go.set()
    assert [answered(connection)[0] for connection in asked] == [200] * 5
    order = [call.question.removeprefix(mark).strip() for call in backend.calls(mark)]
    assert " ".join(order[1:]) == served


def test_one_at_a_time_and_one_that_waits(cluster, kind, backend, ask):
    """Over both; without a gate. Another key does not wait."""
    both, mark, go = cluster(kind, 0), f"one {kind}", threading.Event()
    backend.on(mark, Reply(["x"], after=go))
    first = ask(both, 0, "one", mark)
    backend.wait_for_call(mark)
    second = ask(both, 1, "one", mark)
    eventually(lambda: both.waiting() == 1)
    status, _, said = answered(ask(both, 1, "one", mark))
    assert status == 429 and "the key one may have 1 request waiting" in said
    assert answered(ask(both, 1, "ann", f"other of {kind}"))[0] == 200
    assert len(backend.calls(mark)) == 1
    go.set()
    assert [answered(one)[0] for one in (first, second)] == [200, 200]


def test_a_minute_is_that_of_both(cluster, kind, ask):
    both = cluster(kind, 0)
    answers = [answered(ask(both, number, "few", f"few {kind}")) for number in (0, 1, 0)]
    assert [status for status, _, _ in answers] == [200, 429, 429]
    assert [headers["x-ratelimit-remaining-requests"] for _, headers, _ in answers] == ["0", "0", "0"]
    assert all(0 < int(headers["retry-after"]) <= 60 for _, headers, _ in answers[1:])


def test_a_day_is_that_of_both(cluster, kind, backend, ask):
    """What was used in one is used up in the other."""
    both, mark = cluster(kind, 0), f"day {kind}"
    backend.on(mark, Reply(["ok"], counts=USED))
    assert answered(ask(both, 0, "day", mark))[0] == 200
    eventually(lambda: answered(ask(both, 1, "day", mark))[0] == 429)
    for number in (0, 1):
        status, headers, said = answered(ask(both, number, "day", mark))
        assert status == 429 and "insufficient_quota" in said, said
        assert headers["x-ratelimit-remaining-tokens"] == "0"


def test_a_killed_holder_frees_its_turn_and_refills_no_bucket(cluster, kind, backend, ask):
    """Within the lease; what it took of the minute stays taken."""
    both, mark = cluster(kind, 1, "killed"), f"killed key {kind}"
    backend.on(mark, Reply(["x"], hangs=True))
    ask(both, 0, "killed", mark)
    backend.wait_for_call(mark)
    waiter = ask(both, 1, "killed", f"survivor {kind}")
    eventually(lambda: both.waiting() == 1)
    kept = both.connect(1)
    both.kill(0)
    assert answered(waiter)[0] == 200
    # One may have come back by itself, after half a minute on a busy machine; the other two have not.
    told = [answered(ask(both, 1, "killed", f"third {kind}", kept)) for _ in range(2)]
    assert told[-1][0] == 429 and "2 requests a minute" in told[-1][2]


def test_nothing_is_left_held(cluster, kind, ask):
    """Turns of keys are given back in each of these tests."""
    both = cluster(kind, 1)
    for number in (0, 1):
        assert answered(ask(both, number, "one", f"free {kind}"))[0] == 200
