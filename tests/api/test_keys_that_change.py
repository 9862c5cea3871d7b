"""What a waiting request may still ask when its key's entry changes meanwhile, on every front end (keys.md 1, 2)."""

from __future__ import annotations

import threading

import pytest

from Middleware.config.key_file import digest_of
from tests.api.conftest import chunk
from tests.api.test_names_on_every_front import FRONTS, sentence
from tests.patience import PATIENCE_S, wait_until

KEY, OTHER = "k-narrowed", "k-holds-the-turn"


def write_keys(configs, *users):
    entries = [
        {"name": "narrowed", "sha256": digest_of(KEY), "users": list(users)},
        {"name": "other", "sha256": digest_of(OTHER), "users": ["ann"]},
    ]
    configs("Keys.json", {"keys": entries})
    (configs.root / "Keys.json").chmod(0o600)


def ask_tool(client, **more):
    params = {"name": "zoe.tool", "arguments": {"message": "Hi"}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return client.post("/mcp", json=body, buffered=True, **more)


WAYS = {
    **{name: lambda client, front=front, **more: front.ask(client, "zoe", **more) for name, front in FRONTS.items()},
    **{
        f"{name}, streamed": lambda client, front=front, **more: front.ask(client, "zoe", stream=True, **more)
        for name, front in FRONTS.items()
    },
    **{
        f"{name} at an address": lambda client, front=front, **more: front.ask(client, address="/as/zoe", **more)
        for name, front in FRONTS.items()
    },
    "mcp": ask_tool,
    "mcp, streamed": lambda client, headers: ask_tool(client, headers={**headers, "Accept": "text/event-stream"}),
}  # fmt: skip


@pytest.fixture
def app(serve, configs, facts):
    """Of one turn at a time."""
    for name in ("ann", "zoe"):
        configs(
            f"Users/{name}.json",
            {"sharedWorkflowsSubDirectoryOverride": f"of-{name}", "allowSharedWorkflows": True},
        )
        configs(f"Workflows/of-{name}/tool/_DefaultWorkflow.json", [])
        configs(f"Workflows/of-{name}/tool/_mcpTool.json", {"description": f"asks {name}", "chat": True})
    write_keys(configs, "*")
    facts(users=("ann", "zoe"), concurrency=1)
    return serve()


@pytest.fixture
def busy(app, engine):
    """The turn is taken until `busy.set()`."""
    go = threading.Event()

    def answer(call):
        yield [chunk("a")]
        go.wait(PATIENCE_S)
        yield [chunk("", "stop")]

    def hold():
        headers = {"Authorization": f"Bearer {OTHER}"}
        FRONTS["chat"].ask(app.test_client(), "ann", headers=headers)

    engine.answer = answer
    thread = threading.Thread(target=hold)
    thread.start()
    wait_until(lambda: engine.calls)
    yield go
    go.set()
    thread.join(PATIENCE_S)


@pytest.mark.parametrize("way", WAYS)
def test_a_user_that_it_may_ask_no_more_is_as_an_unknown_one(app, configs, engine, busy, way):
    """Decided when its turn comes."""
    answers = []
    headers = {"Authorization": f"Bearer {KEY}"}
    thread = threading.Thread(target=lambda: answers.append(WAYS[way](app.test_client(), headers=headers)))
    thread.start()
    wait_until(lambda: app.door.traffic.waiting() == 1)
    write_keys(configs, "ann")
    app.door.keys._file._looked = float("-inf")
    busy.set()
    thread.join(PATIENCE_S)
    (answer,) = answers
    assert len(engine.calls) == 1, answer.text
    unknown = WAYS[way](app.test_client(), headers=headers)
    assert (answer.status_code, sentence(answer)) == (unknown.status_code, sentence(unknown))
