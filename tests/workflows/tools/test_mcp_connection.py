"""One session by itself: which addresses it may reach, how failures are told, how results become text."""

from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager
from dataclasses import replace

import anyio
import httpx2
import mcp.types as types
import pytest
from mcp.client.session import ClientSession
from mcp.shared.exceptions import MCPError

from Middleware.utilities.network_security_utils import AddressPolicy
from Middleware.workflows.tools.mcp_connection import (
    TOOL_PAGES,
    McpConnection,
    _Pinned,
    describe_error,
    flatten_result,
    innermost,
)
from Middleware.workflows.tools.mcp_request import McpServer, MCPToolCallError
from tests.patience import PATIENCE_S

WEB = McpServer("web", "streamable_http", url="http://tools.example/mcp")


def connected(server, resolver=lambda host, port: ["127.0.0.1"]):
    """Raises MCPToolCallError."""

    async def connect():
        connection = McpConnection(server, lambda *_: None, lambda line: None, resolver)
        try:
            async with asyncio.timeout(30):
                await connection.ready()
                return "connected"
        finally:
            connection.stop()
            await asyncio.wait([connection.task])

    return asyncio.run(connect())


class TestGuards:
    @pytest.mark.parametrize("transport", ["sse", "streamable_http"])
    @pytest.mark.parametrize(
        ("url", "reason"),
        [
            ("http://127.0.0.1:1/", "loopback"),
            ("http://2130706433:1/", "loopback"),
            ("http://tools.example/", "loopback"),
            ("http://[::ffff:10.0.0.1]/", "private"),
            ("http://user@8.8.8.8/", "user name"),
        ],
    )
    def test_private_addresses(self, transport, url, reason):
        """As text and as what a name resolves to."""
        server = McpServer("web", transport, url=url, block_private_addresses=True)
        with pytest.raises(MCPToolCallError, match=f"cannot be reached: address not allowed.*{reason}"):
            connected(server)

    def test_hosts(self):
        with pytest.raises(MCPToolCallError, match="the host is not in 'allowedHosts'"):
            connected(replace(WEB, allowed_hosts=("other.example",)))

    @pytest.mark.parametrize("transport", ["sse", "streamable_http"])
    def test_an_allowed_host_is_reached(self, http_servers, transport):
        file = http_servers(transport).file
        server = McpServer("web", transport, url=file["url"], allowed_hosts=("127.0.0.1",))
        assert connected(server) == "connected"

    def test_what_was_judged_is_what_is_dialled(self, monkeypatch):
        """The name is not looked up again; Host and TLS name stay."""
        seen = []

        async def take(self, request):
            seen.append(request)
            return httpx2.Response(204)

        monkeypatch.setattr(httpx2.AsyncHTTPTransport, "handle_async_request", take)
        answers = iter([["93.184.216.34"], ["127.0.0.1"]])
        policy = AddressPolicy(True, None, lambda host, port: next(answers))

        async def send():
            async with httpx2.AsyncClient(transport=_Pinned(policy), trust_env=False) as client:
                await client.post("https://tools.example/mcp", content=b"{}")
                with pytest.raises(httpx2.ConnectError, match="loopback"):
                    await client.post("https://tools.example/mcp")

        asyncio.run(send())
        (request,) = seen
        assert (request.url.host, request.headers["host"]) == ("93.184.216.34", "tools.example")
        assert request.extensions["sni_hostname"] == "tools.example"


class TestFailures:
    def test_the_innermost_cause_is_told(self):
        """An error of the server before a timeout before anything else."""
        server_error = MCPError(1, "no such city")
        group = ExceptionGroup("", [OSError("x"), ExceptionGroup("", [TimeoutError(), server_error])])
        assert innermost(group) is server_error
        assert describe_error(group, WEB) == "no such city"
        assert isinstance(innermost(ExceptionGroup("", [OSError("x"), TimeoutError()])), TimeoutError)

    def test_an_error_without_words_is_named(self):
        assert describe_error(ConnectionError(), WEB) == "ConnectionError"

    def test_secrets_are_masked(self):
        assert describe_error(OSError("bad key sesame1"), replace(WEB, secrets=("sesame1",))) == "bad key ***"


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (types.CallToolResult(content=[]), ""),
        (types.CallToolResult(content=[types.TextContent(type="text", text="a"), types.TextContent(type="text", text="b")]), "ab"),
        (types.CallToolResult(content=[types.ImageContent(type="image", data="eA==", mime_type="image/png")]),
         '{"type": "image", "data": "eA==", "mimeType": "image/png"}'),
        (types.CallToolResult(content=[types.TextContent(type="text", text="x")], structured_content={"ä": 1}), '{"ä": 1}'),
        (types.CallToolResult(content=[types.TextContent(type="text", text="x")], structured_content={}), "{}"),
    ],
    ids=["nothing", "texts", "picture", "structured", "empty"],
)  # fmt: skip
def test_a_result_as_text(result, text):
    assert flatten_result(result) == text


class TestLog:
    """What is told of a connection that ends by an error."""

    @pytest.mark.parametrize(("is_private", "told"), [(False, "quotes: my words"), (True, "RuntimeError")])
    def test_a_private_request_is_never_quoted(self, monkeypatch, caplog, is_private, told):
        """The error may hold what the server said of it."""
        caplog.set_level("INFO")
        connections = []

        @asynccontextmanager
        async def transport(self):
            heard, messages = anyio.create_memory_object_stream(1)
            outgoing, to_send = anyio.create_memory_object_stream(1)
            with heard, messages, outgoing, to_send:
                connections.append(self)
                yield messages, outgoing
            raise RuntimeError("quotes: my words")

        async def greet(self):
            if is_private:
                connections[0].serve_a_private_request()

        monkeypatch.setattr(McpConnection, "_transport", transport)
        monkeypatch.setattr(ClientSession, "initialize", greet)
        assert connected(WEB) == "connected"
        assert caplog.messages == [f"MCP server 'web': the connection ended: {told}"]


class TestEnd:
    """Of a connection that is still being made: its server's name leads nowhere yet."""

    @staticmethod
    def ended(end):
        """Whether its task counts as cancelled. `end(connection)` ends it."""

        async def connect():
            looking_up, go_on = asyncio.Event(), threading.Event()
            loop = asyncio.get_running_loop()

            def resolver(host, port):
                loop.call_soon_threadsafe(looking_up.set)
                go_on.wait(PATIENCE_S)
                return ["127.0.0.1"]

            server = replace(WEB, block_private_addresses=True)
            connection = McpConnection(server, lambda *_: None, lambda line: None, resolver)
            await looking_up.wait()
            end(connection)
            await asyncio.wait([connection.task])
            go_on.set()
            return connection.task.cancelled()

        return asyncio.run(connect())

    def test_one_that_is_stopped_ends_as_planned(self):
        assert not self.ended(lambda connection: connection.stop())

    def test_one_that_is_cancelled_by_others_is_cancelled(self):
        """Its loop ends: nobody may take that for an end of its own."""
        assert self.ended(lambda connection: connection.task.cancel())


@pytest.mark.parametrize(("pages", "asked"), [(1, 1), (3, 3), (TOOL_PAGES + 5, TOOL_PAGES)])
def test_all_pages_of_tools_are_asked_for(pages, asked):
    """Once, until the server says that they have changed; and not for ever."""
    cursors = []

    async def send(request, kind):
        cursors.append(request.params.cursor)
        number = len(cursors)
        tool = types.Tool(name=f"t{number}", inputSchema={})
        return types.ListToolsResult(tools=[tool], nextCursor=str(number) if number < pages else None)

    async def look():
        connection = McpConnection.__new__(McpConnection)
        connection._tools, connection._send = None, send
        return [await connection.tools() for _ in range(2)]

    first, second = asyncio.run(look())
    assert [tool.name for tool in first] == [f"t{number}" for number in range(1, asked + 1)]
    assert first is second and cursors == [None, *map(str, range(1, asked))]
