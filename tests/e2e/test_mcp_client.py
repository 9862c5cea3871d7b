"""The official client of MCP, with a handshake and without one, against a real running server."""

from __future__ import annotations

import asyncio

import pytest
from mcp import Client, MCPError

from tests.e2e.conftest import NODE, Gunicorn, Server, write, write_tree
from tests.e2e.fake_backend import Reply

pytestmark = pytest.mark.e2e

TOOL = {
    "description": "Says it again.",
    "inputs": {"text": {"required": True}, "times": {"type": "integer", "default": 1}},
    "message": "{text}",
}
USERS = {"ann": {"user": {"allowSharedWorkflows": True}}}


def write_tool(public, folder, file, nodes):
    place = public / "Configs" / "Workflows" / "_shared" / folder
    write(place / "_DefaultWorkflow.json", nodes)
    write(place / "_mcpTool.json", file)


@pytest.fixture(scope="module", params=[Server, Gunicorn], ids=["waitress", "gunicorn"])
def server(request, backend, tmp_path_factory):
    public = tmp_path_factory.mktemp("tools")
    write_tree(public, USERS, backend.url)
    write_tool(public, "echo", TOOL, [NODE])
    write_tool(public, "ask", {"description": "Asks.", "title": "Ask"}, [NODE])
    nodes = [{**NODE, "title": "Look"}, {**NODE, "title": "Say"}]
    write_tool(public, "steps", {"description": "Two steps."}, nodes)
    running = request.param(public, USERS, ("--concurrency", "2"))
    yield running
    running.stop()


@pytest.fixture(params=["auto", "legacy"])
def use(server, request):
    """`use(task)` runs `await task(client)` with a connected client."""

    def run(task):
        async def connected():
            async with Client(f"http://127.0.0.1:{server.port}/mcp", mode=request.param) as client:
                return await asyncio.wait_for(task(client), 30)

        return asyncio.run(connected())

    return run


def text_of(result):
    return "".join(block.text for block in result.content)


def test_it_knows_the_server(use):
    """By its name, and by the newest version that both speak."""

    async def task(client):
        return client.server_info.name, client.protocol_version

    name, version = use(task)
    assert name == "headrace" and version in ("2026-07-28", "2025-11-25")


def test_list(use):
    """Names, titles, and what each tool takes."""

    async def task(client):
        return (await client.list_tools()).tools

    ask, echo, _ = use(task)
    assert (ask.name, ask.title, echo.name) == ("ask", "Ask", "echo")
    assert echo.input_schema["required"] == ["text"]
    assert echo.input_schema["properties"]["times"] == {"type": "integer", "default": 1}


def test_call(use):
    """The text of the workflow."""

    async def task(client):
        return await client.call_tool("echo", {"text": "hello tools"})

    result = use(task)
    assert text_of(result) == "hello tools" and not result.is_error


def test_a_call_that_takes_its_time(use, backend):
    """Longer than the first second: signs of life disturb nobody."""
    backend.on("mcp-slow", Reply(["a ", "b ", "c"], gap_s=0.8))

    async def task(client):
        return await client.call_tool("echo", {"text": "mcp-slow"})

    assert text_of(use(task)) == "a b c"


def test_progress(use):
    """Each node is told as it starts."""
    told = []

    async def note(progress, total, message):
        told.append((progress, message))

    async def task(client):
        return await client.call_tool("steps", {"message": "hello"}, progress_callback=note)

    assert text_of(use(task)) == "hello"
    assert told == [(1, "[1/2] Look"), (2, "[2/2] Say")]


def test_what_it_used(use):
    """Stands beside the answer."""

    async def task(client):
        return await client.call_tool("steps", {"message": "hello"})

    assert use(task).meta["headrace/usage"]["calls"] == 2


def test_two_calls_at_once(use):
    """Each gets its own answer."""

    async def task(client):
        calls = [client.call_tool("echo", {"text": f"number {number}"}) for number in range(4)]
        return [text_of(result) for result in await asyncio.gather(*calls)]

    assert use(task) == [f"number {number}" for number in range(4)]


def test_wrong_arguments(use):
    """Are told to the model."""

    async def task(client):
        return await client.call_tool("echo", {"times": 1})

    result = use(task)
    assert result.is_error and text_of(result) == "'text' is missing"


def test_a_workflow_that_fails(use, backend):
    """Too."""
    backend.on("mcp-refused", Reply(status=500))

    async def task(client):
        return await client.call_tool("echo", {"text": "mcp-refused"})

    result = use(task)
    assert result.is_error and "endpoint 'Model'" in text_of(result)


def test_an_unknown_tool(use):
    """Is the client's own exception."""

    async def task(client):
        with pytest.raises(MCPError, match="no such tool: nothing"):
            await client.call_tool("nothing", {})

    use(task)


def test_a_call_that_is_left(use, backend, request):
    """The model stops."""
    mark = f"mcp-left-{request.node.callspec.id}"
    backend.on(mark, Reply(["a "], hangs=True))

    async def task(client):
        call = asyncio.create_task(client.call_tool("echo", {"text": mark}))
        await asyncio.to_thread(backend.wait_for_call, mark)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        return await asyncio.to_thread(backend.calls(mark)[0].hung_up.wait, 10)

    assert use(task)
