"""One question to an endpoint's server whose answer is JSON: what it has, or what it does. Never a prompt."""

from __future__ import annotations

import json
import time
from typing import Any

from Middleware.common.errors import BackendError
from Middleware.llmapis.handlers.base.base_llm_api_handler import LlmApiHandler
from Middleware.llmapis.wire.connections import AbortHandle
from Middleware.llmapis.wire.http import Post, default_transport

MOST_BYTES = 4 << 20


def get_json(handler: LlmApiHandler, url: str, *, connect_timeout_s: float, limit_s: float) -> Any:
    """The JSON value at `url`, with the endpoint's key; None for an answer that is none, that says no, that
    is longer than 4 MiB or takes longer than `limit_s`. One try. Raises BackendError where nobody answers.
    """
    settings = handler.settings
    post = Post(
        url=url,
        body=b"",
        headers={**handler.request_headers(), "Accept": "application/json"},
        endpoint=settings.endpoint.name,
        connect_timeout_s=connect_timeout_s,
        read_timeout_s=limit_s,
        tries=1,
        secrets=settings.secrets,
        method="GET",
    )
    end = time.monotonic() + limit_s
    try:
        answer = default_transport().post(post, AbortHandle())
    except BackendError as error:
        if error.status is None:
            raise
        return None
    data = bytearray()
    try:
        for piece in answer.read_pieces():
            data += piece
            if len(data) > MOST_BYTES or time.monotonic() > end:
                return None
        return json.loads(data)
    except (ValueError, RecursionError):
        return None
    finally:
        answer.close()
