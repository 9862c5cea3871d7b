"""The official clients at the limits of a key: what their users read, and when they come again (keys.md 9, row 5)."""

from __future__ import annotations

import asyncio
import json
import threading

import anthropic
import ollama
import openai
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client

from tests.e2e.conftest import NODE, Server, write, write_tree
from tests.e2e.fake_backend import Reply
from tests.e2e.keyed import Doors, entry, secret, write_keys
from tests.patience import PATIENCE_S, wait_until

pytestmark = pytest.mark.e2e

TRIES = 3
"""Of both SDKs, where nothing else is said."""
USED = {"prompt_tokens": 20, "completion_tokens": 9, "total_tokens": 29}
HELLO = [{"role": "user", "content": "hello limits"}]
LIMITS = {
    "requestsPerMinute": {"requestsPerMinute": 1},
    "tokensPerDay": {"tokensPerDay": 29},
    "queued": {"concurrent": 1, "queued": 1},
}
SAID = {
    "requestsPerMinute": "the key {} may make 1 request a minute; try again in [0-9]+ s",
    "tokensPerDay": "the key {} may use 29 tokens a day, and they are used up; try again in [0-9hms]+",
    "queued": "the key {} may have 1 request waiting; try again in 5 s",
}


# --------------------------------------------------------------------------
# What the clients do: each asks once, with the key, by the SDK's own habits.


def ask_openai(url, key, **more):
    with openai.OpenAI(base_url=f"{url}/v1", api_key=key) as client:
        client.chat.completions.create(model="ann", messages=HELLO, **more)


def ask_openai_stream(url, key):
    ask_openai(url, key, stream=True)


def ask_responses(url, key):
    with openai.OpenAI(base_url=f"{url}/v1", api_key=key) as client:
        client.responses.create(model="ann", input="hello limits")


def ask_openai_async(url, key):
    async def ask():
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=key) as client:
            await client.chat.completions.create(model="ann", messages=HELLO)

    asyncio.run(ask())


def ask_anthropic(url, key):
    with anthropic.Anthropic(base_url=url, api_key=key) as client:
        client.messages.create(model="ann", max_tokens=9, messages=HELLO)


def ask_anthropic_async(url, key):
    async def ask():
        async with anthropic.AsyncAnthropic(base_url=url, auth_token=key) as client:
            await client.messages.create(model="ann", max_tokens=9, messages=HELLO)

    asyncio.run(ask())


def ask_ollama(url, key):
    client = ollama.Client(host=url, headers={"Authorization": f"Bearer {key}"})
    try:
        client.chat(model="ann", messages=HELLO)
    finally:
        client._client.close()


SDKS = {
    "openai": ask_openai,
    "openai-stream": ask_openai_stream,
    "openai-async": ask_openai_async,
    "responses": ask_responses,
    "anthropic": ask_anthropic,
    "anthropic-async": ask_anthropic_async,
}
CLIENTS = {**SDKS, "ollama": ask_ollama}
REFUSED = (openai.RateLimitError, anthropic.RateLimitError, ollama.ResponseError)


def key_of(client, limit):
    """Each test has its own, as sums and buckets belong to a name."""
    return f"{client}-{limit}"


@pytest.fixture(scope="module")
def doors(backend, tmp_path_factory):
    public = tmp_path_factory.mktemp("limits")
    write_tree(public, {"ann": {"user": {"allowSharedWorkflows": True}}}, backend.url)
    place = public / "Configs" / "Workflows" / "_shared" / "echo"
    write(place / "_DefaultWorkflow.json", [NODE])
    write(place / "_mcpTool.json", {"description": "Says it again."})
    entries = [
        entry(key_of(client, limit), limits=limits)
        for client in [*CLIENTS, "mcp"]
        for limit, limits in LIMITS.items()
    ]
    file = public / "Configs" / "Keys.json"
    write_keys(file, *entries, entry("scrape", [], metrics=True))
    backend.on("hello limits", Reply(["ok"], counts=USED))
    server = Server(public, {"ann": {}}, ("--concurrency", "0"))
    yield Doors(server, file)
    server.stop()


def chat(doors, name, text="hello limits"):
    body = {"model": "ann", "messages": [{"role": "user", "content": text}]}
    return doors.ask("POST", "/v1/chat/completions", secret(name), body)


@pytest.fixture
def reach(doors, backend):
    """`reach(name, limit)`: from here on the next request of this key is over the limit."""
    go, threads = threading.Event(), []

    def hold(name):
        text = f"waits for {name}"
        backend.on(text, Reply(["ok"], after=go))
        for _ in range(2):
            threads.append(threading.Thread(target=chat, args=(doors, name, text)))
            threads[-1].start()
        told = lambda: json.loads(doors.ask("GET", "/v1/usage", secret(name))[2])  # noqa: E731
        wait_until(lambda: (told()["running"], told()["waiting"]) == (1, 1))

    def reach_limit(name, limit):
        if limit == "queued":
            hold(name)
        else:
            wait_until(lambda: chat(doors, name)[0] == 429)

    yield reach_limit
    go.set()
    for thread in threads:
        thread.join()


class Clock:
    """A module with `sleep`, which takes no time: `slept` keeps the seconds."""

    def __init__(self, module, slept):
        self._module, self._slept = module, slept

    def __getattr__(self, name):
        return getattr(self._module, name)

    def sleep(self, seconds):
        self._slept.append(seconds)


class AsyncClock(Clock):
    async def sleep(self, seconds):
        self._slept.append(seconds)


@pytest.fixture
def slept(monkeypatch):
    """How long the SDKs paused, in seconds."""
    pauses = []
    for base in (openai._base_client, anthropic._base_client):
        monkeypatch.setattr(base, "time", Clock(base.time, pauses))
        monkeypatch.setattr(base, "anyio", AsyncClock(base.anyio, pauses))
    return pauses


def refusals(doors, name, limit):
    """How many requests of the key were refused, as the server counts."""
    numbers = doors.ask("GET", "/metrics", secret("scrape"))[2].decode()
    start = f'headrace_key_refused_total{{key="{name}",limit="{limit}"}} '
    found = [line.removeprefix(start) for line in numbers.splitlines() if line.startswith(start)]
    return int(float(found[0])) if found else 0


def refused(ask, doors, name):
    """What an SDK raises. A minute's request that came back on a very slow machine is used up first."""
    while True:
        try:
            ask(doors.server.url, secret(name))
        except REFUSED as error:
            return error


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("client", CLIENTS)
def test_it_shows_the_sentence(doors, reach, slept, client, limit):
    """As the error that it has for this."""
    name = key_of(client, limit)
    reach(name, limit)
    error = refused(CLIENTS[client], doors, name)
    assert error.status_code == 429
    assert pytest.RaisesExc(type(error), match=SAID[limit].format(name)).matches(error)


@pytest.mark.parametrize("client", SDKS)
class TestComingAgain:
    def test_it_waits_as_long_as_it_is_told(self, doors, reach, slept, client):
        name = key_of(client, "queued")
        reach(name, "queued")
        before = refusals(doors, name, "queued")
        refused(SDKS[client], doors, name)
        assert slept == [5.0] * (TRIES - 1)
        assert refusals(doors, name, "queued") - before == TRIES

    def test_it_waits_for_the_minutes_next_request(self, doors, reach, slept, client):
        """Up to the whole minute that this one takes."""
        name = key_of(client, "requestsPerMinute")
        reach(name, "requestsPerMinute")
        refused(SDKS[client], doors, name)
        assert len(slept) >= TRIES - 1
        assert all(seconds in range(1, 61) for seconds in slept)

    def test_it_makes_one_attempt_when_the_day_is_used_up(self, doors, reach, slept, client):
        name = key_of(client, "tokensPerDay")
        reach(name, "tokensPerDay")
        before = refusals(doors, name, "tokensPerDay")
        refused(SDKS[client], doors, name)
        assert slept == []
        assert refusals(doors, name, "tokensPerDay") - before == 1


@pytest.mark.parametrize("limit", LIMITS)
def test_a_tool_of_mcp_says_that_it_was_refused(doors, reach, limit):
    """As an error of the call, which the session survives."""
    name = key_of("mcp", limit)
    reach(name, limit)

    async def call():
        headers = {"Authorization": f"Bearer {secret(name)}"}
        url = f"{doors.server.url}/mcp"
        async with (
            create_mcp_http_client(headers=headers) as http_client,
            Client(streamable_http_client(url, http_client=http_client)) as client,
        ):
            with pytest.raises(MCPError, match=SAID[limit].format(name)):
                while True:  # a minute's request that came back on a very slow machine
                    await client.call_tool("echo", {"message": "hello limits"})
            return [tool.name for tool in (await client.list_tools()).tools]

    assert asyncio.run(asyncio.wait_for(call(), PATIENCE_S)) == ["echo"]
