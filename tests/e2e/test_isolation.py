"""Many clients of two users and both protocols at once: nothing of one is in the answer of another."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.e2e.answers import ROUTES
from tests.e2e.fake_backend import Reply

pytestmark = pytest.mark.e2e

REQUESTS = 50
USERS = {
    "ann": {
        "user": {"userWideWorkflowVariables": {"persona": "librarian-ann"}},
        "endpoints": {"Model": {"apiTypeConfigFileName": "Open-AI-API"}},
        "workflows": {
            "Chat": [
                {"type": "StringConcatenator", "strings": ["persona of ", "{persona}"]},
                {"type": "Standard", "endpointName": "Model", "systemPrompt": "{agent1Output}", "prompt": "{chat_user_prompt_last_one}"},
            ]
        },
    },
    "ben": {
        "user": {"userWideWorkflowVariables": {"persona": "gardener-ben"}},
        "endpoints": {"Model": {"apiTypeConfigFileName": "OllamaApiChat"}},
        "workflows": {
            "Chat": [
                {"type": "StaticResponse", "content": "{persona}"},
                {"type": "Standard", "endpointName": "Model", "systemPrompt": "{agent1Output}"},
            ]
        },
    },
}  # fmt: skip
PERSONAS = {"ann": "librarian-ann", "ben": "gardener-ben"}


@pytest.fixture(scope="module")
def server(launch):
    return launch(USERS, "--concurrency", "0")


def test_fifty_interleaved_requests(server, backend):
    """Each gets its own words back, in its own protocol; each backend call belongs to one user and one client."""
    rng = random.Random(7)
    plans = [
        (number, user, route, stream)
        for number in range(REQUESTS)
        for user, route, stream in [(rng.choice(list(USERS)), rng.choice(list(ROUTES)), rng.random() < 0.5)]
    ]
    for number, *_ in plans:
        backend.on(f"secret-{number}-end", Reply([f"answer-{number} "] * 20, gap_s=0.005))

    def ask(plan):
        number, user, name, stream = plan
        route = ROUTES[name]
        status, body = server.post(route.path, route.ask(user, f"secret-{number}-end", stream=stream))
        assert status == 200, body
        return route.text(body, stream=stream), body

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(ask, plans))

    for (number, user, _, _), (text, body) in zip(plans, answers, strict=True):
        assert text == f"answer-{number} " * 20 or text == (f"answer-{number} " * 20).strip()
        others = {other for other in range(REQUESTS) if other != number}
        assert not any(f"answer-{other} ".encode() in body for other in others)
        (call,) = backend.calls(f"secret-{number}-end")
        assert call.dialect == {"ann": "openai", "ben": "ollama"}[user]
        assert PERSONAS[user] in call.text
        assert not any(persona in call.text for name, persona in PERSONAS.items() if name != user)
        assert not any(f"secret-{other}-end" in call.text for other in others)
