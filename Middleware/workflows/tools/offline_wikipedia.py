"""What a user's offline Wikipedia service answers, as text. A failure is a text too. Source: spec tools.md 6.

The literals are part of the interface: workflows compare with them.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from Middleware.config.users import UserSettings
from Middleware.services.run_trace import TracedNode
from Middleware.utilities.sensitive_logging_utils import loggable_whole_text
from Middleware.workflows.tools.web import WebError, WebRequest, exchange

logger = logging.getLogger(__name__)

NOTHING = "No additional information provided"
CAP = 10 * 1024 * 1024
TIMEOUT_S = (5.0, 60.0)
"""For the connection, and for each read."""

WikiQuery = Mapping[str, str | int | float]


@dataclass(frozen=True, slots=True)
class WikiKind:
    """One of the four questions. `found(answer, query)` makes the text of a good answer."""

    path: str
    off: str
    missing: str
    found: Callable[[Any, str], str]


def ask(
    kind: WikiKind,
    user: UserSettings,
    question: WikiQuery,
    request_id: str,
    caller: str = "",
    *,
    trace: TracedNode | None = None,
) -> str:
    """The answer to `question["prompt"]`. `caller`: the node that log lines name; `trace`: where the call is
    told.

    Raises RequestCancelled only.
    """
    if not user.use_offline_wiki_api:
        return kind.off
    query = str(question["prompt"])
    try:
        answer = exchange(
            WebRequest(
                f"{_base(user)}{kind.path}?{urlencode(question)}",
                timeout_s=TIMEOUT_S,
                max_bytes=CAP,
                caller=caller,
            ),
            request_id,
            trace,
        )
        if answer.status == 404:
            return kind.missing.format(query)
        if answer.status != 200:
            raise WebError(f"the service answered {answer.status}")
        return kind.found(json.loads(answer.body), query)
    except (WebError, ValueError, RecursionError) as error:
        logger.warning("the offline wiki failed for %s: %s", loggable_whole_text(query), _reason(error))
        return f"I'm sorry, I couldn't find any Wikipedia information about '{query}'."


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, WebError) else "its answer does not have the expected form"


def _base(user: UserSettings) -> str:
    if user.offline_wiki_api_url:
        return user.offline_wiki_api_url.rstrip("/")
    return f"http://{user.offline_wiki_api_host}:{user.offline_wiki_api_port}"


def _items(answer: Any) -> list[Any]:
    """None for an empty answer of any kind. Raises ValueError for anything else that is not a list."""
    if not answer:
        return []
    if not isinstance(answer, list):
        raise ValueError("not a list")
    return answer


def _text_of(item: Any) -> str:
    if isinstance(item, str):
        return item
    text = item.get("text") if isinstance(item, Mapping) else None
    return str(text) if text else "No text element found"


def _first(answer: Any, query: str) -> str:
    items = _items(answer)
    return _text_of(items[0]) if items else f"No article found for '{query}'."


def _best(answer: Any, query: str) -> str:
    return _text_of(answer) if answer else f"{NOTHING} about '{query}'"


def _articles(answer: Any, query: str) -> str:
    items = _items(answer)
    if not items:
        return f"No articles found for '{query}' in the offline database."
    shown_items = [_titled_text(item, "Untitled Article") for item in items]
    return "\n\n--- END ARTICLE ---\n\n".join(shown_items)


def _summaries(answer: Any, query: str) -> str:
    if not isinstance(answer, list) or not answer:
        return f"No summary found for '{query}'."
    return "\n\n--- END SUMMARY ---\n\n".join(_titled_text(item, "Untitled Summary") for item in answer)


def _titled_text(item: Any, untitled: str) -> str:
    if not isinstance(item, Mapping):
        return str(item)
    title, text = item.get("title"), item.get("text")
    return f"Title: {title or untitled}\n{text or 'No text available.'}"


_NOWHERE = "The information may not be available in the offline database."

FULL = WikiKind("/articles", NOTHING, f"No articles found for '{{}}'. {_NOWHERE}", _first)
BEST = WikiKind("/top_article", NOTHING, f"No article found for '{{}}'. {_NOWHERE}", _best)
TOP_N = WikiKind("/top_n_articles", NOTHING, f"No articles found for '{{}}'. {_NOWHERE}", _articles)
PARTIAL = WikiKind(
    "/summaries",
    f"Title: Offline Wiki Disabled\n{NOTHING}",
    f"Title: Not Found\nNo summaries found for '{{}}'. {_NOWHERE}",
    _summaries,
)
