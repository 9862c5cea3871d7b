"""What a user's offline researcher service answers, as text. A failure is a text too.

The literals are part of the interface: workflows compare with them. Source: spec tools.md 7.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from Middleware.config.users import UserSettings
from Middleware.services.run_trace import TracedNode
from Middleware.utilities.sensitive_logging_utils import loggable_whole_text
from Middleware.workflows.tools.web import WebError, WebRequest, exchange

logger = logging.getLogger(__name__)

CAP = 10 * 1024 * 1024
CONNECT_S = 5.0


def research(
    user: UserSettings,
    question: Mapping[str, Any],
    *,
    timeout_s: float,
    include_sources: bool,
    request_id: str,
    caller: str = "",
    trace: TracedNode | None = None,
) -> str:
    """The answer to `question["query"]`. `caller`: the node that log lines name; `trace`: where the call is
    told.

    Raises RequestCancelled only.
    """
    query = str(question["query"])
    reply = _reply(user, _research_request(user, question, timeout_s, caller), request_id, trace)
    if reply is None:
        return f"I'm sorry, the offline researcher could not be reached for '{query}'."
    if isinstance(reply, str):
        return _failure_text(query, reply, reply)
    if reply.get("status") == "error":
        reason = str(reply.get("reason"))
        return _failure_text(query, reason, loggable_whole_text(reason))
    answer = reply.get("answer")
    if reply.get("no_information_found") or not answer:
        return "No pertinent information was found in the search"
    sources = _sources(reply.get("sources")) if include_sources else []
    return "\n".join([f"{answer}\n", "Sources:", *sources]) if sources else str(answer)


def _failure_text(query: str, reason: str, logged: str) -> str:
    """`logged`: the reason as the log may show it: the service's own words may quote the query."""
    logger.warning("the offline researcher failed for %s: %s", loggable_whole_text(query), logged)
    return f"I'm sorry, the offline researcher returned an error ({reason}) for '{query}'."


def _research_request(
    user: UserSettings, question: Mapping[str, Any], timeout_s: float, caller: str
) -> WebRequest:
    return WebRequest(
        f"http://{user.offline_researcher_api_host}:{user.offline_researcher_api_port}/search",
        "POST",
        {"Content-Type": "application/json"},
        json.dumps(question).encode(),
        (min(CONNECT_S, timeout_s), timeout_s),
        max_bytes=CAP,
        caller=caller,
    )


def _reply(
    user: UserSettings, request: WebRequest, request_id: str, trace: TracedNode | None
) -> Mapping[str, Any] | str | None:
    """The service's object, our reason for a failure, None for an answer that is no object."""
    if not user.use_offline_researcher_api:
        return "offline_researcher_disabled"
    try:
        answer = exchange(request, request_id, trace)
    except WebError as error:
        return "timeout" if error.is_timeout else "transport_error"
    if answer.status >= 400:
        return f"http_{answer.status}"
    try:
        reply = json.loads(answer.body)
    except (ValueError, RecursionError):
        return "invalid_json"
    return reply if isinstance(reply, Mapping) else None


def _sources(sources: Any) -> list[str]:
    items = sources if isinstance(sources, list) else []
    return [
        f"- {item.get('book', '')} :: {item.get('title', '')}" for item in items if isinstance(item, Mapping)
    ]
