"""What a real llama.cpp reads again of a chat whose window is full, with a window that moves and with one that stands.

The counts are the server's own (`prompt_tokens` and, of these, `cached_tokens`), so no clock is asked. Source: spec
prompt-reuse.md 10, row 4.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.conftest import Server, free_port

pytestmark = [pytest.mark.realmodel, pytest.mark.timeout(1200)]

CONTEXT_TOKENS = 8192
WINDOW = 16
"""Messages; eight turns fill it."""
TURNS = range(1, 21)
COUNTED = range(8, 21)
CARD = (
    "You are Mara, captain of a small ferry on a wide grey river. You know every bank and every current. "
    * 30
)
SUBJECTS = (
    "the bridge",
    "an old map",
    "the storm",
    "a letter",
    "the market",
    "bread",
    "the lighthouse",
    "music",
    "the engine",
)


def user(url: str, **settings: Any) -> dict[str, Any]:
    """The plain example: one node that sends the client's system prompt and its window."""
    node = {
        "title": "Answer",
        "type": "Standard",
        "endpointName": "Model",
        "systemPrompt": "{chat_system_prompt}",
        "lastMessagesToSendInsteadOfPrompt": WINDOW,
        "maxResponseSizeInTokens": 12,
    }
    endpoint = {
        "endpoint": url,
        "modelNameToSendToAPI": "smollm2",
        "maxContextTokenSize": CONTEXT_TOKENS,
        "apiTypeConfigFileName": "LlamaCppServer",
        "presetSamplers": {"temperature": 0},
    }
    return {"workflows": {"Chat": [node]}, "endpoints": {"Model": endpoint}, "user": settings}


@pytest.fixture(scope="module")
def model_url() -> str:
    pytest.importorskip("xllamacpp", reason='needs the extra: pip install -e ".[local-model]"')
    import run_local_model

    model = run_local_model.start_model_server(free_port(), n_parallel=1, n_ctx=CONTEXT_TOKENS)
    globals()["_model"] = model  # lives as long as the process
    return str(model.listening_address)


@pytest.fixture(scope="module")
def house(model_url: str, launch: Any) -> Server:
    users = {"moves": user(model_url), "stands": user(model_url, steadyWindow=True)}
    server: Server = launch(users, "--concurrency", "0")
    return server


def tokens_read(house: Server, name: str) -> Iterator[int]:
    """How many tokens the model read anew in each turn of a chat."""
    messages = [{"role": "system", "content": CARD}]
    for turn in TURNS:
        subject = SUBJECTS[turn % len(SUBJECTS)]
        text = f"Turn {turn}. Tell me in one sentence what you think of {subject}, and why it matters on a day like this."
        messages.append({"role": "user", "content": text})
        status, body = house.post("/v1/chat/completions", {"model": name, "messages": messages})
        assert status == 200, body
        answer = json.loads(body)
        usage = answer["usage"]
        messages.append({"role": "assistant", "content": answer["choices"][0]["message"]["content"]})
        yield usage["prompt_tokens"] - usage["prompt_tokens_details"]["cached_tokens"]


def test_a_window_that_stands_halves_what_is_read(house: Server) -> None:
    """At most half, once the window is full."""
    moves, stands = (
        sum(read for turn, read in zip(TURNS, tokens_read(house, name), strict=True) if turn in COUNTED)
        for name in ("moves", "stands")
    )
    print(
        f"tokens read in turns {COUNTED[0]} to {COUNTED[-1]}: {moves} with a moving window, {stands} with a steady one"
    )
    assert stands * 2 <= moves
