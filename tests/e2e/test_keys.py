"""A keys file in front of real servers: official clients, edits while it runs, many keys at once (keys.md 9)."""

from __future__ import annotations

import asyncio
import json
import threading

import anthropic
import ollama
import openai
import pytest
from mcp import Client, MCPError
from mcp.client.auth import OAuthClientProvider, OAuthRegistrationError
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client
from mcp.shared.auth import OAuthClientMetadata

from tests.e2e.conftest import NODE, Gunicorn, Server, write, write_tree
from tests.e2e.fake_backend import Reply
from tests.e2e.keyed import Doors, entry, secret, write_keys
from tests.patience import PATIENCE_S, wait_until

pytestmark = pytest.mark.e2e

HELLO = [{"role": "user", "content": "hello keys"}]


@pytest.fixture(scope="module", params=[Server, Gunicorn], ids=["waitress", "gunicorn"])
def doors(request, backend, tmp_path_factory):
    public = tmp_path_factory.mktemp("keys")
    write_tree(public, {"ann": {"user": {"allowSharedWorkflows": True}}, "zoe": {}}, backend.url)
    place = public / "Configs" / "Workflows" / "_shared" / "echo"
    write(place / "_DefaultWorkflow.json", [NODE])
    write(place / "_mcpTool.json", {"description": "Says it again."})
    file = public / "Configs" / "Keys.json"
    write_keys(file, entry("ann"), entry("old", expires="2020-01-01"))
    server = request.param(public, {"ann": {}, "zoe": {}}, ("--concurrency", "0"))
    yield Doors(server, file)
    server.stop()


WRONG = {"wrong": "no such key", "expired": secret("old")}
SAID = {"wrong": "know this API key", "expired": "this key has expired"}


@pytest.mark.parametrize("case", WRONG)
class TestOfficialClients:
    """Acceptance row 5: they show our sentence, after one attempt."""

    def test_openai(self, doors, case):
        url = f"{doors.server.url}/v1"
        client = openai.OpenAI(base_url=url, api_key=WRONG[case])
        with client, pytest.raises(openai.AuthenticationError, match=SAID[case]):
            client.chat.completions.create(model="ann", messages=HELLO)

    def test_anthropic(self, doors, case):
        client = anthropic.Anthropic(base_url=doors.server.url, api_key=WRONG[case])
        with client, pytest.raises(anthropic.AuthenticationError, match=SAID[case]):
            client.messages.create(model="ann", max_tokens=9, messages=HELLO)

    def test_ollama(self, doors, case):
        headers = {"Authorization": f"Bearer {WRONG[case]}"}
        client = ollama.Client(host=doors.server.url, headers=headers)
        with pytest.raises(ollama.ResponseError, match=SAID[case]) as raised:
            client.chat(model="ann", messages=HELLO)
        client._client.close()
        assert raised.value.status_code == 401


def test_a_client_without_a_key_says_that_one_is_needed(doors):
    client = ollama.Client(host=doors.server.url)
    with pytest.raises(ollama.ResponseError, match="this server requires a valid API key"):
        client.chat(model="ann", messages=HELLO)
    client._client.close()


@pytest.mark.parametrize("before", ["/", "//", "/as/ann/", "/as/ann//", "//as/ann/"])
def test_odd_addresses_open_nothing(doors, before):
    """Whatever the server makes of slashes before the application sees them."""
    body = {"model": "ann", "messages": HELLO}
    for method, path in (
        ("GET", "/v1/models"),
        ("GET", "/v1/models/%0Aann"),
        ("POST", "/v1/chat/completions"),
    ):
        assert doors.ask(method, before + path, None, body)[0] == 401
    assert doors.ask("GET", before + "/metrics")[0] in (401, 404)


class TestRightKeys:
    def test_official_clients(self, doors):
        key = secret("ann")
        with openai.OpenAI(base_url=f"{doors.server.url}/v1", api_key=key, max_retries=0) as client:
            assert client.chat.completions.create(model="ann", messages=HELLO).model == "ann"
            assert [model.id for model in client.models.list()] == ["ann"]
            with pytest.raises(openai.NotFoundError, match="users: ann"):
                client.chat.completions.create(model="zoe", messages=HELLO)
        with anthropic.Anthropic(base_url=doors.server.url, auth_token=key, max_retries=0) as claude:
            assert claude.messages.create(model="ann", max_tokens=9, messages=HELLO).model == "ann"
        client = ollama.Client(host=doors.server.url, headers={"Authorization": f"Bearer {key}"})
        assert client.chat(model="ann", messages=HELLO).model == "ann"
        client._client.close()


def leaves(error):
    """The errors inside groups."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for one in error.exceptions for leaf in leaves(one)]
    return [error]


class TestMcp:
    @staticmethod
    async def tools(url, **more):
        async with (
            create_mcp_http_client(**more) as http_client,
            Client(streamable_http_client(url, http_client=http_client)) as client,
        ):
            return [tool.name for tool in (await client.list_tools()).tools]

    def test_a_header_works(self, doors):
        headers = {"Authorization": f"Bearer {secret('ann')}"}
        url = f"{doors.server.url}/mcp"
        assert asyncio.run(asyncio.wait_for(self.tools(url, headers=headers), PATIENCE_S)) == ["ann.echo"]

    @pytest.mark.parametrize("oauth", [False, True])
    def test_without_one_it_ends_with_one_clear_error(self, doors, oauth):
        """Also with OAuth, which is looked for in vain: it neither hangs nor tries again and again."""
        url = f"{doors.server.url}/mcp"

        class Nowhere:
            async def get_tokens(self):
                return None

            async def get_client_info(self):
                return None

            async def set_tokens(self, tokens):
                raise AssertionError("there is nobody who gives tokens")

            async def set_client_info(self, client_info):
                raise AssertionError("there is nobody to register at")

        async def never(*_):
            raise AssertionError("no page of a browser is opened")

        metadata = OAuthClientMetadata(redirect_uris=["http://localhost:1/callback"])
        auth = OAuthClientProvider(url, metadata, Nowhere(), never, never) if oauth else None
        with pytest.raises(BaseException) as raised:
            asyncio.run(asyncio.wait_for(self.tools(url, auth=auth), PATIENCE_S))
        (error,) = leaves(raised.value)
        if oauth:
            assert isinstance(error, OAuthRegistrationError) and "no such route: POST /register" in str(error)
        else:
            assert isinstance(error, MCPError) and "this server requires a valid API key" in str(error)


class TestEdits:
    """Acceptance row 6."""

    def test_added_revoked_broken_emptied_and_gone(self, doors):
        key, other = secret("ann"), secret("bob")

        def become(**wanted):
            wait_until(lambda: {"ann": doors.status(key), "bob": doors.status(other)} == wanted)

        become(ann=200, bob=401)
        write_keys(doors.file, entry("ann"), entry("bob"))
        become(ann=200, bob=200)
        write_keys(doors.file, entry("bob"))
        become(ann=401, bob=200)
        doors.file.write_text('{"keys": [')
        wait_until(
            lambda: doors.status(key) and "closing ] or } is missing; the last good" in doors.server.log
        )
        become(ann=401, bob=200)
        doors.file.unlink()
        wait_until(lambda: doors.status(key) and "the file is gone" in doors.server.log)
        become(ann=401, bob=200)
        write_keys(doors.file)
        become(ann=401, bob=401)
        write_keys(doors.file, entry("ann"))
        become(ann=200, bob=401)

    def test_many_edits_under_load(self, doors, backend):
        """Nobody whose key stands in each version is refused, and nobody comes in whose key stands in none."""
        backend.on("hello keys", Reply(["ok"]))
        end, statuses = threading.Event(), {"ann": set(), "never": set()}

        def knock(name):
            while not end.is_set():
                body = {"model": "ann", "messages": HELLO}
                status = doors.ask("POST", "/v1/chat/completions", secret(name), body)[0]
                statuses[name].add(status)

        threads = [threading.Thread(target=knock, args=(name,)) for name in ("ann", "ann", "never")]
        for thread in threads:
            thread.start()
        for number in range(200):
            others = [entry(f"other-{number}-{more}") for more in range(number % 7)]
            broken = number % 10 == 9
            write_keys(doors.file, *others, entry("ann"))
            if broken:
                doors.file.write_text(doors.file.read_text()[:-3])
        write_keys(doors.file, entry("ann"))
        wait_until(lambda: doors.status(secret("ann")) == 200)
        end.set()
        for thread in threads:
            thread.join()
        assert statuses == {"ann": {200}, "never": {401}}


def test_revoked_while_it_waits(backend, tmp_path):
    """401 in place of its turn; what has its turn ends as it would."""
    write_tree(tmp_path / "public", {"ann": {}}, backend.url)
    file = tmp_path / "public" / "Configs" / "Keys.json"
    write_keys(file, entry("ann"), entry("bob"))
    server = Server(tmp_path / "public", {"ann": {}}, ("--concurrency", "1"))
    backend.on("holds the turn", Reply(["a "] * 30, gap_s=0.2))
    doors, answers = Doors(server, file), {}

    def ask(name, text):
        body = {"model": "ann", "messages": [{"role": "user", "content": text}]}
        answers[name] = doors.ask("POST", "/v1/chat/completions", secret(name), body)

    threads = [threading.Thread(target=ask, args=("ann", "holds the turn"))]
    threads.append(threading.Thread(target=ask, args=("bob", "never gets one")))
    try:
        threads[0].start()
        wait_until(lambda: backend.calls("holds the turn"))
        threads[1].start()
        perf = lambda: json.loads(doors.ask("GET", "/api/extra/perf", secret("bob"))[2])  # noqa: E731
        wait_until(lambda: perf()["queue"] == 1)
        write_keys(file, entry("ann"))
        for thread in threads:
            thread.join()
    finally:
        server.stop()
    assert answers["ann"][0] == 200 and answers["bob"][0] == 401
    assert answers["bob"][1]["www-authenticate"].startswith("Bearer ")
    assert not backend.calls("never gets one")
