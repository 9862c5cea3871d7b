"""How much of an answer of an HTTP tool server is read: one message at most, and nothing that is packed.

A packed message could be a thousand times larger than what came. Source: spec tools.md 11.1, 11.5.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import httpx2

from Middleware.workflows.tools import mcp_stdio
from Middleware.workflows.tools.mcp_stdio import NotRead, too_long


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
            raise self._fault(NotRead("its answer is packed, though nobody asked for that"))
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
