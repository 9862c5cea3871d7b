"""A thousand requests of ten keys over every front end: nothing of one reaches another (keys.md 9, row 4).

They come in rounds of ten, one of each key, and a round is held at the model until each of them has tried to reach
what another one has. All of them bear the same idempotency key, `genkey`, JSON-RPC id, MCP session and discussion id.
"""

from __future__ import annotations

import http.client
import json
import random
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest

from Middleware.utilities.hashing_utils import text_hash
from Middleware.utilities.text_utils import estimate_tokens
from tests.e2e.answers import ROUTES
from tests.e2e.conftest import NODE, Server, write, write_tree
from tests.e2e.fake_backend import Reply
from tests.e2e.keyed import Doors, entry, secret, write_keys
from tests.patience import PATIENCE_S, wait_until

pytestmark = pytest.mark.e2e

ROUNDS = 100
PEOPLE = [f"person-{number}" for number in range(10)]
USERS = {
    name: {
        "user": {"allowSharedWorkflows": True},
        "workflows": {"Chat": [{**NODE, "addDiscussionIdTimestampsForLLM": True}]},
    }
    for name in ("ann", "zoe")
}
DAY = 10_000_000
SAME = {"X-Idempotency-Key": "same", "Mcp-Session-Id": "same"}
MARK = re.compile(r"mark-\d+-end")


def user_of(person):
    return ("ann", "zoe")[person % 2]


@dataclass(frozen=True)
class Front:
    """One way to ask: where, with what body, and whether the answer is a stream that opens with its first piece."""

    path: str
    body: Callable[[str, str], dict[str, Any]]
    streams: bool
    headers: dict[str, str] = field(default_factory=dict)


def _kobold(user, text):
    return {"model": user, "prompt": text, "genkey": "same"}


def _tool(user, text):
    params = {"name": f"{user}.echo", "arguments": {"message": text}}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def _fronts():
    for name, route in ROUTES.items():
        for stream in (False, True):
            yield (
                f"{name} {stream}",
                Front(
                    route.path,
                    lambda user, text, route=route, stream=stream: route.ask(user, text, stream=stream),
                    stream,
                ),
            )
    yield "kobold False", Front("/api/v1/generate", _kobold, False)
    yield "kobold True", Front("/api/extra/generate/stream", _kobold, True)
    yield "mcp False", Front("/mcp", _tool, False)
    yield "mcp True", Front("/mcp", _tool, False, {"Accept": "application/json, text/event-stream"})


FRONTS = dict(_fronts())


class Asked:
    """One of the thousand."""

    def __init__(self, number, person, front):
        self.number, self.person, self.front = number, person, front
        self.mark = f"mark-{number}-end"
        self.said = f"please {self.mark}"
        self.is_cancelled = False
        self.id = self.body = ""
        self.connection = self.answer = None
        self.status = 0

    @property
    def key(self):
        return secret(PEOPLE[self.person])

    @property
    def counts(self):
        """What the model says that it read and wrote: no two requests say the same."""
        return {"prompt_tokens": 1000 + self.number, "completion_tokens": 10_000 + self.number}

    def is_of(self, name):
        return self.front in (FRONTS[f"{name} False"], FRONTS[f"{name} True"])

    def send(self, port):
        """Where the answer opens with the first piece its headers are read, and so its id is known."""
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self.key}"}
        body = self.front.body(user_of(self.person), f"[DiscussionId]same[/DiscussionId]{self.said}")
        self.connection.request(
            "POST", self.front.path, json.dumps(body), {**headers, **SAME, **self.front.headers}
        )
        if self.front.streams:
            self._open()

    def _open(self):
        self.answer = self.connection.getresponse()
        self.status, self.id = self.answer.status, self.answer.headers["X-Request-Id"]

    def read(self):
        try:
            if self.answer is None:
                self._open()
            self.body = self.answer.read().decode()
        except (OSError, http.client.HTTPException):
            assert self.is_cancelled
        self.connection.close()


@pytest.fixture(scope="module")
def house(backend, tmp_path_factory):
    public = tmp_path_factory.mktemp("many")
    write_tree(public, USERS, backend.url)
    place = public / "Configs" / "Workflows" / "_shared" / "echo"
    write(place / "_DefaultWorkflow.json", USERS["ann"]["workflows"]["Chat"])
    write(place / "_mcpTool.json", {"description": "Says it again."})
    limits = {"tokensPerDay": DAY, "requestsPerMinute": 1_000_000}
    entries = [
        entry(name, [user_of(person)], folder=f"folder-{person}", limits=limits)
        for person, name in enumerate(PEOPLE)
    ]
    file = public / "Configs" / "Keys.json"
    write_keys(file, *entries)
    server = Server(public, {"ann": {}, "zoe": {}}, ("--concurrency", "0"))
    yield Doors(server, file)
    server.stop()


class Round:
    """Ten requests at once, two of each of five ways to ask."""

    def __init__(self, house, backend, pool, number):
        self.house, self.backend, self.pool, self.number = house, backend, pool, number
        self.go = threading.Event()
        people, names = list(range(len(PEOPLE))), list(FRONTS)
        random.Random(number).shuffle(people)
        self.asked = [
            Asked(number * len(PEOPLE) + place, person, FRONTS[names[(number + place // 2) % len(names)]])
            for place, person in enumerate(people)
        ]
        self.tried = []

    def run(self):
        for one in self.asked:
            pieces = [f"began {one.mark} ", f"told {one.mark}"]
            self.backend.on(one.said, Reply(pieces, rest_after=self.go, counts=one.counts))
        try:
            list(self.pool.map(lambda one: one.send(self.house.server.port), self.asked))
            arrived = lambda: all(self.backend.calls(one.said) for one in self.asked)  # noqa: E731
            wait_until(arrived)
            self.tried = list(self.pool.map(self.try_others, range(len(self.asked))))
            self.cancel(self.asked[self.number % len(self.asked)])
        finally:
            self.go.set()
        list(self.pool.map(Asked.read, self.asked))

    def try_others(self, place):
        """Two of the ways to reach what the next one does: `(one, what came)`."""
        one, other = self.asked[place], self.asked[place ^ 1]
        ways = [
            lambda: self.by_id(one, other, "DELETE", "/v1/chat/completions/{}", '"active":false'),
            lambda: self.by_id(one, other, "GET", "/v1/responses/resp_{}", "is not kept"),
            lambda: self.by_id(one, other, "DELETE", "/v1/responses/resp_{}", "is not kept"),
            lambda: self.by_id(one, other, "POST", "/v1/responses/resp_{}/cancel", "is not kept"),
            lambda: self.by_id(one, other, "GET", "/v1/responses/resp_{}/input_items", "is not kept"),
            lambda: self.follow(one, other),
            lambda: self.check(one),
            lambda: self.abort(one),
            lambda: self.notify(one),
            lambda: self.look(one),
        ]
        chosen = (self.number + place, self.number + place * 3 + 5)
        return one, "\n".join(ways[way % len(ways)]() for way in chosen)

    def ask(self, one, method, path, body=None):
        status, _, raw = self.house.ask(method, path, one.key, body, SAME)
        return status, raw.decode()

    def by_id(self, one, other, method, path, wanted):
        """A stranger's id is one that nobody has."""
        said = self.ask(one, method, path.format(other.id or one.number), {})[1]
        assert wanted in said, said
        return said

    def follow(self, one, other):
        body = {"input": "and then?", "previous_response_id": f"resp_{other.id}"}
        status, said = self.ask(one, "POST", "/v1/responses/input_tokens", body)
        assert (status, "is not kept" in said) == (400, True), said
        return said

    def check(self, one):
        """What one's own stream has sent, if it is one of Kobold's."""
        said = self.ask(one, "POST", "/api/extra/generate/check", {"genkey": "same"})[1]
        text = json.loads(said)["results"][0]["text"]
        assert text.strip() in (("", f"began {one.mark}") if one.is_of("kobold") else ("",))
        return said

    def abort(self, one):
        if one.is_of("kobold"):
            return ""
        said = self.ask(one, "POST", "/api/extra/abort", {"genkey": "same"})[1]
        assert json.loads(said)["success"] == "false"
        return said

    def notify(self, one):
        if not one.is_of("mcp"):
            self.notify_cancel(one)
        return ""

    def notify_cancel(self, one):
        note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
        assert self.ask(one, "POST", "/mcp", note)[0] == 202

    def look(self, one):
        """Who runs is oneself, once."""
        said = self.ask(one, "GET", "/v1/usage")[1]
        told = json.loads(said)
        assert (told["name"], told["running"], told["waiting"]) == (PEOPLE[one.person], 1, 0)
        perf = self.ask(one, "GET", "/api/extra/perf")[1]
        assert (json.loads(perf)["idle"], json.loads(perf)["queue"]) == (0, 0)
        return said

    def cancel(self, one):
        """Its owner ends it, in the way of its protocol, and it is over; the others go on."""
        one.is_cancelled = True
        if one.is_of("kobold"):
            assert self.ask(one, "POST", "/api/extra/abort", {"genkey": "same"})[1].count('"true"') == 2
        elif one.is_of("mcp"):
            self.notify_cancel(one)
        elif one.front.streams:
            said = self.ask(one, "DELETE", f"/v1/chat/completions/{one.id}")[1]
            assert json.loads(said).get("active", True)
        else:
            one.connection.close()
        wait_until(lambda: json.loads(self.ask(one, "GET", "/v1/usage")[1])["running"] == 0)


@pytest.fixture(scope="module")
def rounds(house, backend):
    done = []
    with ThreadPoolExecutor(len(PEOPLE)) as pool:
        for number in range(ROUNDS):
            done.append(Round(house, backend, pool, number))
            done[-1].run()
    return done


@pytest.fixture(scope="module")
def asked(rounds):
    return [one for each in rounds for one in each.asked]


def test_each_gets_its_own_answer_and_all_of_it(asked):
    """Whoever was cancelled by its owner gets no more; nobody else was cancelled."""
    for one in asked:
        others = set(MARK.findall(one.body)) - {one.mark}
        assert not others, (one.front, one.body)
        assert (f"told {one.mark}" in one.body) is not one.is_cancelled, (one.front, one.status, one.body)
        assert one.is_cancelled or one.status == 200


def test_nothing_that_was_tried_says_a_word_of_another(rounds):
    for each in rounds:
        for one, said in each.tried:
            assert set(MARK.findall(said)) <= {one.mark}, said
            assert not [name for name in PEOPLE if name != PEOPLE[one.person] and f'"{name}"' in said]


def test_the_model_hears_each_once(asked, backend):
    """With its own words alone."""
    calls = backend.calls("please mark-")
    assert sorted(MARK.findall(call.text) for call in calls) == sorted([one.mark] for one in asked)


def test_a_kept_response_is_its_owners(house, asked):
    """The others are told what they would be told of none."""
    kept = [one for one in asked if one.is_of("responses") and not one.is_cancelled][-20:]
    for number, one in enumerate(kept):
        path = f"/v1/responses/resp_{one.id}"
        stranger = secret(PEOPLE[(one.person + 1 + number % 9) % len(PEOPLE)])
        for method, tail in (("GET", ""), ("GET", "/input_items"), ("POST", "/cancel"), ("DELETE", "")):
            status, _, raw = house.ask(method, path + tail, stranger, {})
            assert status == 404 and b"mark" not in raw
        assert one.mark in house.ask("GET", path, one.key)[2].decode()


def test_the_numbers_are_each_ones_own(house, asked, backend):
    """To the token."""
    for person, name in enumerate(PEOPLE):
        own = [one for one in asked if one.person == person]
        expected = sum(map(sum, (used_by(one, backend) for one in own)))

        def told(name=name):
            return json.loads(house.ask("GET", "/v1/usage", secret(name))[2])

        def used(told=told):
            return told()["prompt_tokens"] + told()["completion_tokens"]

        wait_until(
            lambda used=used, expected=expected: used() == expected,
            said=lambda used=used, expected=expected: f"{used()}, not {expected}",
        )
        assert (told()["name"], told()["requests"]) == (name, ROUNDS)
        assert told()["remaining"]["tokensPerDay"] == DAY - expected
        assert told()["waiting"] == 0
        wait_until(lambda told=told: told()["running"] == 0)


def used_by(one, backend):
    """As the model said; of what was broken off the prompt and what had come."""
    if not one.is_cancelled:
        return one.counts.values()
    (call,) = backend.calls(one.said)
    came = f"began {one.mark} " if call.streams else ""
    return [estimate_tokens(call.text.strip()), estimate_tokens(came)]


def test_the_same_discussion_of_ten_keys_is_ten_discussions(house, asked):
    """Each in the folder that its entry names, with the times of its own words."""
    root = house.server.public / "DiscussionIds"
    found = sorted(path.relative_to(root).as_posix() for path in root.rglob("timestamps.json"))
    assert found == [f"folder-{person}/same/timestamps.json" for person in range(len(PEOPLE))]
    for person in range(len(PEOPLE)):
        own = {text_hash(one.said) for one in asked if one.person == person}
        others = {text_hash(one.said) for one in asked if one.person != person}
        times = set(json.loads((root / f"folder-{person}/same/timestamps.json").read_text()))
        assert times & own and not times & others


@pytest.mark.parametrize("path", ["/metrics", "/console/api/runs"])
def test_the_numbers_of_all_are_for_none_of_them(house, path):
    status, _, raw = house.ask("GET", path, secret(PEOPLE[0]))
    assert status in (403, 404) and not re.search(rb"person-[1-9]", raw)
