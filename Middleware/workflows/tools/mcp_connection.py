"""One session with one MCP server: opened, used by any number of calls at once, ended. On one event loop.

A task of its own opens the transport and closes it again, because the SDK wants both in one task. Nothing of
what is sent or received is logged: the SDK's own loggers are shut. Source: spec tools.md 5.3 and 11.5.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TextIO

import httpx2
import mcp.types as types
from mcp.client.session import ClientSession
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from Middleware.common.constants import VERSION
from Middleware.common.secrets import mask_secrets
from Middleware.utilities.network_security_utils import (
    AddressPolicy,
    AddressRefused,
    Resolver,
    system_resolver,
)
from Middleware.utilities.sensitive_logging_utils import REDACTED
from Middleware.utilities.text_utils import media_note
from Middleware.workflows.tools import mcp_stdio
from Middleware.workflows.tools.mcp_request import McpServer, MCPToolCallError
from Middleware.workflows.tools.mcp_stdio import NotRead, stdio_streams, too_long

logger = logging.getLogger(__name__)


# --------------------------------------------------------------------------
# How much of an answer of an HTTP tool server is read: one message at most, and nothing that is packed.


class Bounded(httpx2.AsyncByteStream):
    """The bytes of a response. Of a stream of events the SDK counts each event itself.

    Raises NotRead, and tells `on_fault` of it.
    """

    def __init__(
        self,
        response: httpx2.Response,
        stream: httpx2.AsyncByteStream,
        on_fault: Callable[[NotRead], None],
    ) -> None:
        self._stream, self._on_fault = stream, on_fault
        self._has_events = response.headers.get("Content-Type", "").lower().startswith("text/event-stream")
        self._is_packed = response.headers.get("Content-Encoding", "identity").strip().lower() != "identity"

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._is_packed:
            raise self._fault(NotRead("its answer is compressed, although that was not requested"))
        length = 0
        async for piece in self._stream:
            length += len(piece)
            if length > mcp_stdio.LONGEST_MESSAGE and not self._has_events:
                raise self._fault(too_long())
            yield piece

    def _fault(self, error: NotRead) -> NotRead:
        self._on_fault(error)
        return error

    async def aclose(self) -> None:
        await self._stream.aclose()


# --------------------------------------------------------------------------
# A pipe for the standard error of a process: each line is handed to a function, in a thread of its own.


LONGEST_LINE = 64 * 1024
"""Characters of a line that are handed on; the rest of it is dropped."""


@contextmanager
def error_pipe(
    take: Callable[[str], None], name: str, silent: threading.Event | None = None
) -> Iterator[TextIO]:
    """The end to write to; it is closed here after the block, the process has its own copy.

    The thread ends, and `silent` is set, when the last process that holds the pipe has ended.
    """
    reading, writing = os.pipe()

    def read_lines() -> None:
        is_new = True
        with os.fdopen(reading, encoding="utf-8", errors="replace") as lines:
            while line := lines.readline(LONGEST_LINE):
                if is_new and line.strip():
                    take(line.rstrip())
                is_new = line.endswith("\n")
        if silent is not None:
            silent.set()

    threading.Thread(target=read_lines, name=name, daemon=True).start()
    with os.fdopen(writing, "w") as end:
        yield end


# --------------------------------------------------------------------------
# What a stdio tool server writes to its standard error: its last lines for messages, all of it for its
# log.


LAST_WORDS = 10
"""Lines that the message of a failure repeats."""
LAST_WORDS_S = 2.0
SHOWN = 4000
"""Characters of a line that are told; secrets are looked for in all of it."""
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")


class StandardError:
    """Lines come in the pipe's thread (`hear`), questions from the loop. `say`: where lines go."""

    def __init__(self, secrets: tuple[str, ...], say: Callable[[str], None]) -> None:
        self._secrets, self._say = secrets, say
        self._last: deque[str] = deque(maxlen=LAST_WORDS)
        self._guard = threading.Lock()
        self._hidden = False
        self.silent = threading.Event()
        """Set when the last process that holds the pipe has ended."""

    def hide(self) -> None:
        """A private request begins. May be said again."""
        with self._guard:
            if self._hidden:
                return
            self._hidden = True
        self._say(f"{REDACTED} from here on, because the session serves a private request")

    def hear(self, line: str) -> None:
        with self._guard:
            if self._hidden:
                return
            line = mask_secrets(_COLOURS.sub("", line), *self._secrets)
            line = _CONTROL.sub("\ufffd", line[:SHOWN])
            self._last.append(line)
            self._say(line)

    def note(self, line: str) -> None:
        """Our own line for the message of a failure."""
        with self._guard:
            self._last.append(line)

    def last_words(self) -> str:
        """The end of what was heard, for a message."""
        with self._guard:
            return "".join(f"\n  {line}" for line in self._last)

    async def all_words(self) -> str:
        """The same when the server has ended: what it said last is still on its way through the pipe."""
        await asyncio.to_thread(self.silent.wait, LAST_WORDS_S)
        return self.last_words()


# --------------------------------------------------------------------------

for _name in ("mcp", "httpx2", "httpcore2"):  # they show messages, headers and URLs
    logging.getLogger(_name).setLevel(logging.CRITICAL)

CONNECT_S = 30.0
PING_S = 5.0
TOOL_PAGES = 100
_NO_SESSION = -32000
"""What servers answer, with status 400, to a session that they do not know."""
_Streams = tuple[Any, Any]


class NotSent(Exception):
    """The server never began to work on the request: it may be sent again."""


@dataclass(slots=True)
class _Attempt:
    """One request on its way by HTTP. `posted`: the server may have it. `status`: what it answered."""

    posted: bool = False
    status: int | None = None


_ATTEMPT: ContextVar[_Attempt] = ContextVar("MCP request")
"""The SDK writes each request in its sender's context."""


class McpConnection:
    """Made on the loop; begins to connect at once. `over`: no request may begin here any more."""

    def __init__(
        self,
        server: McpServer,
        on_end: Callable[[McpConnection, bool], None],
        say: Callable[[str], None],
        resolver: Resolver = system_resolver,
    ) -> None:
        """`say`: where the lines of a stdio server's standard error go."""
        self.server, self.calls = server, 0
        self.errors = StandardError(server.secrets, say)
        self._policy = AddressPolicy(server.block_private_addresses, server.allowed_hosts, resolver)
        self.timer: asyncio.TimerHandle | None = None
        loop = asyncio.get_running_loop()
        self.last_used = loop.time()
        self.is_doubtful = False
        """A call got no answer in time: the server is asked for a sign of life before the next."""
        self._waiters = 0
        self._stopped = False
        self._ended = asyncio.Event()
        self._ready: asyncio.Future[ClientSession] = loop.create_future()
        self._ready.add_done_callback(lambda ready: ready.cancelled() or ready.exception())
        self._tools: list[types.Tool] | None = None
        self._noise_is_told = self._is_private = False
        self.task = asyncio.create_task(self._live(), name=f"MCP server {server.name}")
        self.task.add_done_callback(lambda task: on_end(self, self._stopped))

    @property
    def has_ended(self) -> bool:
        return self._stopped or self._ended.is_set() or self.task.done()

    def stop(self) -> None:
        """End it; calls that run here fail. May be said again."""
        if self._stopped:
            return
        self._stopped = True
        if self._ready.done():
            self._ended.set()
        else:
            self.task.cancel()

    def serve_a_private_request(self) -> None:
        """From now on no line of the log may quote what the server says."""
        self._is_private = True
        if self.server.transport == "stdio":
            self.errors.hide()

    async def ready(self) -> None:
        """Until the handshake is done; the last who stops waiting ends it. Raises MCPToolCallError."""
        self._waiters += 1
        try:
            await asyncio.shield(self._ready)
        finally:
            self._waiters -= 1
            if not self._waiters and not self._ready.done():
                self.stop()

    async def answers(self, limit_s: float) -> bool:
        """Whether the server answers a ping."""
        try:
            async with asyncio.timeout(min(PING_S, limit_s)):
                await self._ready.result().send_request(types.PingRequest(), types.EmptyResult)
        except (MCPError, TimeoutError):
            return False
        self.is_doubtful = False
        return True

    async def call(self, tool: str, arguments: dict[str, Any]) -> types.CallToolResult:
        """Raises NotSent, MCPError."""
        if self.has_ended:
            raise NotSent
        params = types.CallToolRequestParams(name=tool, arguments=arguments)
        result: types.CallToolResult = await self._send(
            types.CallToolRequest(params=params), types.CallToolResult
        )
        return result

    async def tools(self) -> list[types.Tool]:
        """All pages, remembered until the server says that they have changed. Raises NotSent, MCPError."""
        tools = self._tools
        if tools is None:
            tools, cursor, pages = [], None, 0
            while pages == 0 or (cursor and pages < TOOL_PAGES):
                params = types.PaginatedRequestParams(cursor=cursor)
                page = await self._send(types.ListToolsRequest(params=params), types.ListToolsResult)
                tools, cursor, pages = [*tools, *page.tools], page.next_cursor, pages + 1
            self._tools = tools
        return tools

    async def last_words(self) -> str:
        """For the message of a call whose session has ended."""
        if self.server.transport == "stdio":
            return await self.errors.all_words()
        if self.server.transport == "sse":  # it tells why only when it has been closed
            await asyncio.wait([self.task], timeout=LAST_WORDS_S)
        return self.errors.last_words()

    async def _send(self, request: Any, kind: Any) -> Any:
        attempt = _Attempt()
        token = _ATTEMPT.set(attempt)
        try:
            result = await self._ready.result().send_request(request, kind)
            self.is_doubtful = False
            return result
        except asyncio.CancelledError:
            self.is_doubtful = True
            raise
        except MCPError as error:
            if self._is_unsent(attempt, error):
                raise NotSent from error
            raise
        finally:
            _ATTEMPT.reset(token)

    def _is_unsent(self, attempt: _Attempt, error: MCPError) -> bool:
        """Whether the server did not begin: it was not reached, or does not know the session any more."""
        if self.server.transport == "stdio":
            return False
        if attempt.status == 404 or (attempt.status == 400 and error.code == _NO_SESSION):
            return True
        return error.code == types.CONNECTION_CLOSED and not attempt.posted

    async def _live(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                read, write = await stack.enter_async_context(self._transport())
                session = ClientSession(
                    _Watched(read, self._ended.set),
                    write,
                    message_handler=self._handle_message,
                    client_info=types.Implementation(name="headrace", version=VERSION),
                )
                await stack.enter_async_context(session)
                await session.initialize()
                self._ready.set_result(session)
                await self._ended.wait()
        except asyncio.CancelledError:
            if not self._stopped:
                raise
        except Exception as error:
            reason = describe_error(error, self.server)
            if self._ready.done():
                if isinstance(innermost(error), httpx2.SSEError):
                    self.errors.note(reason)
                told = type(innermost(error)).__name__ if self._is_private else reason
                logger.info("MCP server %r: the connection ended: %s", self.server.name, told)
            else:
                is_process = self.server.transport == "stdio"  # its words may still be in the pipe
                words = await self.errors.all_words() if is_process else self.errors.last_words()
                self._ready.set_exception(
                    MCPToolCallError(f"MCP server {self.server.name!r} cannot be reached: {reason}{words}")
                )
        finally:
            self._ended.set()
            if not self._ready.done():
                self._ready.cancel()

    @asynccontextmanager
    async def _transport(self) -> AsyncIterator[_Streams]:
        if self.server.transport != "stdio" and self._policy.guards:
            await asyncio.to_thread(self._policy.check, self.server.url)
        if self.server.transport == "stdio":
            opened: Any = self._stdio()
        elif self.server.transport == "sse":
            opened = sse_client(self.server.url, None, CONNECT_S, None, lambda **_: self._client())  # type: ignore[arg-type]
        else:
            opened = self._streamable_http()
        async with opened as streams:
            yield streams

    @asynccontextmanager
    async def _stdio(self) -> AsyncIterator[_Streams]:
        name = f"errors of MCP server {self.server.name}"
        async with AsyncExitStack() as stack:
            with error_pipe(self.errors.hear, name, self.errors.silent) as errors:
                streams = await stack.enter_async_context(stdio_streams(self.server, errors))
            yield streams

    @asynccontextmanager
    async def _streamable_http(self) -> AsyncIterator[_Streams]:
        async with (
            self._client() as client,
            streamable_http_client(
                self.server.url, http_client=client, max_sse_event_size=mcp_stdio.LONGEST_MESSAGE
            ) as streams,
        ):
            yield streams

    def _client(self) -> httpx2.AsyncClient:
        return _Client(self, self.server, _Pinned(self._policy) if self._policy.guards else None)

    def drop_message(self, error: NotRead) -> None:
        """A message was not read to its end."""
        self.errors.note(str(error))
        logger.warning("MCP server %r: %s", self.server.name, error)
        self._ended.set()

    def note_lost_message(self) -> None:
        """A message could not be delivered and nobody would tell the call that waits for its answer."""
        if self.server.transport == "sse":
            self._ended.set()

    async def _handle_message(self, message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._tools = None
        elif isinstance(message, NotRead):
            self.drop_message(message)
        elif isinstance(message, Exception) and not self._noise_is_told:
            self._noise_is_told = True
            logger.warning(
                "MCP server %r sent something that is not a message of the protocol; it is ignored",
                self.server.name,
            )


class _Client(httpx2.AsyncClient):
    """Tells its connection of requests that never reached the server."""

    def __init__(self, connection: McpConnection, server: McpServer, transport: _Pinned | None) -> None:
        self._connection = connection
        super().__init__(
            headers={"Accept-Encoding": "identity", **server.headers},
            timeout=httpx2.Timeout(CONNECT_S, read=None, pool=None),
            transport=transport,
            trust_env=transport is None,
        )

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        if request.method != "POST":
            return self._bound_response(await super().send(request, **options))
        attempt = _ATTEMPT.get(_Attempt())
        attempt.posted = True
        try:
            response = await super().send(request, **options)
        except httpx2.TransportError as error:
            attempt.posted = not isinstance(error, httpx2.ConnectError)
            self._connection.note_lost_message()
            raise
        if response.status_code >= 400:
            attempt.status = response.status_code
            self._connection.note_lost_message()
        return self._bound_response(response)

    def _bound_response(self, response: httpx2.Response) -> httpx2.Response:
        if isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = Bounded(response, response.stream, self._connection.drop_message)
        return response


class _Pinned(httpx2.AsyncHTTPTransport):
    """Connects to addresses that were judged, and to no others; the names stay in the request and in TLS."""

    def __init__(self, policy: AddressPolicy) -> None:
        super().__init__(trust_env=False)
        self._policy = policy

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            checked = await asyncio.to_thread(self._policy.check, str(request.url))
        except AddressRefused as error:
            raise httpx2.ConnectError(str(error), request=request) from error
        if checked.pins:
            request = httpx2.Request(
                request.method,
                request.url.copy_with(host=checked.pins[0]),
                headers=request.headers,
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": checked.target.host},
            )
        return await super().handle_async_request(request)


class _Watched:
    """The stream of a server's messages; tells when it ends."""

    def __init__(self, stream: Any, ended: Callable[[], None]) -> None:
        self._stream, self._tell = stream, ended

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __aiter__(self) -> _Watched:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self._stream.__anext__()
        except BaseException:
            self._tell()
            raise

    async def __aenter__(self) -> _Watched:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *facts: Any) -> Any:
        return await self._stream.__aexit__(*facts)


def innermost(error: BaseException) -> BaseException:
    """The cause inside task groups: an error of the server first, then a timeout, then the first."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    causes = [innermost(inner) for inner in error.exceptions]
    return min(
        causes,
        key=lambda cause: 0 if isinstance(cause, MCPError) else 1 if isinstance(cause, TimeoutError) else 2,
    )


def describe_error(error: BaseException, server: McpServer) -> str:
    """What failed, in words, without secrets."""
    cause = innermost(error)
    if isinstance(cause, httpx2.HTTPStatusError):
        return f"the server answered {cause.response.status_code}"
    if isinstance(cause, FileNotFoundError):
        return f"there is no program or folder {cause.filename!r}"
    return mask_secrets(str(cause) or type(cause).__name__, *server.secrets)


def flatten_result(result: types.CallToolResult, *, brief_media: bool = False) -> str:
    """The text of a result: structured content as JSON, else all blocks put together.

    `brief_media`: as of `McpRequest`. Source: spec tools.md 5.3, agents.md 2.
    """
    if result.structured_content is not None:
        return json.dumps(result.structured_content, ensure_ascii=False)
    return "".join(_block(block, brief_media) for block in result.content)


def _block(block: Any, brief_media: bool) -> str:
    if isinstance(block, types.TextContent):
        return block.text
    if brief_media and (note := _media(block)):
        return note
    return json.dumps(block.model_dump(by_alias=True, mode="json", exclude_none=True), ensure_ascii=False)


def _media(block: Any) -> str:
    """`[image/png, 123 KB]` for a block of bytes; empty for any other."""
    inner = block.resource if isinstance(block, types.EmbeddedResource) else block
    data = inner.blob if isinstance(inner, types.BlobResourceContents) else getattr(inner, "data", None)
    if not isinstance(data, str):
        return ""
    return media_note(inner.mime_type or "application/octet-stream", len(data) * 3 // 4)
