"""The console's own requests: answers are framed as OpenAI frames chats, failures are one sentence.

Source: spec console.md 5.2 and 9.9.
"""

from __future__ import annotations

from Middleware.protocols.base import EVENT_STREAM, PROTOCOLS, ClientProtocol, WireFormat, sse
from Middleware.protocols.openai import OpenAIChatFramer
from Middleware.services.response_builder_service import ResponseBuilderService

PROTOCOL = PROTOCOLS.add(
    ClientProtocol(
        "console",
        lambda reply: {"error": reply.message},
        {
            "console": WireFormat(
                OpenAIChatFramer,
                ResponseBuilderService().build_openai_chat_completion_response,
                sse,
                EVENT_STREAM,
                is_chat=True,
                front="console",
            )
        },
    )
)
