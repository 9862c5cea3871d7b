"""Many clients of two users and both protocols at once: nothing of one is in the answer of another."""

from __future__ import annotations

import json
import random
import re
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from Middleware.utilities.hashing_utils import text_hash
from tests.e2e.answers import ROUTES, Route
from tests.e2e.fake_backend import Reply
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.e2e

REQUESTS = 50
STAMPED = {
    "addDiscussionIdTimestampsForLLM": True,
    "useGroupChatTimestampLogic": True,
    "returnToUser": True,
}
NOTE = {
    "type": "SaveCustomFile",
    "mode": "append",
    "filepath": "{notes}/{Discussion_Id}.txt",
    "content": "{persona}: {chat_user_prompt_last_one}\n",
}
USERS = {
    "ann": {
        "user": {"userWideWorkflowVariables": {"persona": "librarian-ann"}},
        "endpoints": {"Model": {"apiTypeConfigFileName": "Open-AI-API"}},
        "workflows": {
            "Chat": [
                {"type": "StringConcatenator", "strings": ["persona of ", "{persona}"]},
                {"type": "Standard", "endpointName": "Model", "systemPrompt": "{agent1Output}", "prompt": "{chat_user_prompt_last_one}", **STAMPED},
                NOTE,
            ]
        },
    },
    "ben": {
        "user": {"userWideWorkflowVariables": {"persona": "gardener-ben"}},
        "endpoints": {"Model": {"apiTypeConfigFileName": "OllamaApiChat"}},
        "workflows": {
            "Chat": [
                {"type": "StaticResponse", "content": "{persona}"},
                {"type": "Standard", "endpointName": "Model", "systemPrompt": "{agent1Output}", **STAMPED},
                NOTE,
            ]
        },
    },
}  # fmt: skip
PERSONAS = {"ann": "librarian-ann", "ben": "gardener-ben"}


@pytest.fixture(scope="module")
def notes(tmp_path_factory):
    """The folder that both users' notes go to, a folder each."""
    return tmp_path_factory.mktemp("notes")


@pytest.fixture(scope="module")
def server(launch, notes):
    users = {
        name: {**parts, "user": _with_notes(parts["user"], notes / name)} for name, parts in USERS.items()
    }
    return launch(users, "--concurrency", "0", "--file-logging", "--log-level", "DEBUG")


def _with_notes(user, folder):
    return {"userWideWorkflowVariables": {**user["userWideWorkflowVariables"], "notes": str(folder)}}


@dataclass(frozen=True)
class Plan:
    """One request: who asks what, by which route."""

    number: int
    user: str
    route: Route
    stream: bool

    @property
    def said(self):
        return f"secret-{self.number}-end"

    @property
    def answer(self):
        return f"answer-{self.number} " * 20

    def body(self):
        text = f"[DiscussionId]talk-{self.number}[/DiscussionId]{self.said}"
        return self.route.ask(self.user, text, stream=self.stream)


@pytest.fixture(scope="module")
def asked(server, backend):
    """All fifty, asked by sixteen clients at a time: plan -> body of the answer."""
    rng = random.Random(7)
    plans = [
        Plan(number, rng.choice(list(USERS)), rng.choice(list(ROUTES.values())), rng.random() < 0.5)
        for number in range(REQUESTS)
    ]
    for plan in plans:
        backend.on(plan.said, Reply([f"answer-{plan.number} "] * 20, gap_s=0.005))

    def ask(plan):
        status, body = server.post(plan.route.path, plan.body())
        assert status == 200, body
        return body

    with ThreadPoolExecutor(16) as pool:
        return dict(zip(plans, pool.map(ask, plans), strict=True))


def _wait_for(done):
    """Nodes after an answer run on when the client has it."""
    end = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_each_gets_its_own_answer(asked):
    """In its own protocol, under its own user's model name."""
    for plan, body in asked.items():
        assert plan.route.text(body, stream=plan.stream).strip() == plan.answer.strip()
        units = plan.route.units(body) if plan.stream else [json.loads(body)]
        assert {plan.route.model(unit) for unit in units} - {None} == {plan.user}
        assert not any(f"answer-{other.number} ".encode() in body for other in asked if other is not plan)


def test_each_backend_call_belongs_to_one_user_and_one_client(asked, backend):
    """Dialect, persona and words."""
    for plan in asked:
        (call,) = backend.calls(plan.said)
        assert call.dialect == {"ann": "openai", "ben": "ollama"}[plan.user]
        assert [name for name, persona in PERSONAS.items() if persona in call.text] == [plan.user]
        assert re.findall(r"secret-\d+-end", call.text) == [plan.said]


def test_each_discussion_holds_its_own_times(asked, server):
    """The stamps are of its words and its answer, nothing else."""
    for plan, body in asked.items():
        file = server.public / "DiscussionIds" / f"talk-{plan.number}" / "timestamps.json"
        texts = (plan.said, plan.route.text(body, stream=plan.stream))
        assert set(json.loads(file.read_text())) == {text_hash(text) for text in texts}


def test_each_users_files_hold_its_own_words(asked, notes):
    """What the node after the answer wrote."""

    def there():
        return {(file.parent.name, file.stem): file.read_text() for file in notes.glob("*/*.txt")}

    expected = {(p.user, f"talk-{p.number}"): f"{PERSONAS[p.user]}: {p.said}\n" for p in asked}
    _wait_for(lambda: len(there()) == REQUESTS)
    assert there() == expected


def test_each_log_tells_of_its_own_user(asked, server):
    """Every line is marked with the user of the file; no request of the other is in it."""
    said = {user: {plan.said for plan in asked if plan.user == user} for user in USERS}
    for user, other in (("ann", "ben"), ("ben", "ann")):
        log = (server.public / "logs" / user / "wilmerai.log").read_text()
        assert set(re.findall(r"secret-\d+-end", log)) == said[user]
        assert not any(word in log for word in (PERSONAS[other], f"Workflows/{other}/", f"[{other}]"))
    common = server.public / "logs" / "wilmerai.log"
    assert not common.exists() or "secret" not in common.read_text()
