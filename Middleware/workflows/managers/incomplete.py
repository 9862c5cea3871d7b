"""Settings that do nothing, or not what they say, because the one that belongs to them is not there. Pure.

A text without its switch is ordinary (it is kept for later); a switch without its text is a slip.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Slip = tuple[str, str]
"""(field, what is wrong with it)"""

_ENDPOINT_SWITCHES = {
    "addTextToStartOfSystem": "textToAddToStartOfSystem",
    "addTextToStartOfPrompt": "textToAddToStartOfPrompt",
    "addTextToStartOfCompletion": "textToAddToStartOfCompletion",
    "ensureTextAddedToAssistantWhenChatCompletion": "addTextToStartOfCompletion",
    "removeCustomTextFromResponseStartEndpointWide": "responseStartTextToRemoveEndpointWide",
}
_NODE_SWITCHES = {"removeCustomTextFromResponseStart": "responseStartTextToRemove"}


def incomplete_node(node: Mapping[str, Any]) -> Iterator[Slip]:
    """Of a workflow node."""
    yield from _switches(node, _NODE_SWITCHES)
    if node.get("errorText") and node.get("onNodeError") != "continue":
        yield "errorText", 'is never used: it needs `"onNodeError": "continue"`'


def incomplete_endpoint(endpoint: Mapping[str, Any]) -> Iterator[Slip]:
    """Of an endpoint file."""
    yield from _switches(endpoint, _ENDPOINT_SWITCHES)
    if any(endpoint.get("thinkTagNames") or ()):
        return
    start, end = endpoint.get("startThinkTag"), endpoint.get("endThinkTag")
    if start and not end:
        yield "startThinkTag", "needs `endThinkTag`; without it no thoughts are removed"
    elif end and not (start or endpoint.get("expectOnlyClosingThinkTag")):
        yield (
            "endThinkTag",
            "needs `startThinkTag`, or `expectOnlyClosingThinkTag`; without it no thoughts are removed",
        )
    elif endpoint.get("removeThinking") and not end:
        yield "removeThinking", "removes nothing: `thinkTagNames` is empty, and so are the literal tags"


def incomplete_user(user: Mapping[str, Any]) -> Iterator[Slip]:
    """Of a user file."""
    if user.get("customWorkflowOverride"):
        return
    for one, other in (
        ("routingConfig", "categorizationWorkflow"),
        ("categorizationWorkflow", "routingConfig"),
    ):
        if user.get(one) and not user.get(other):
            yield one, f"needs `{other}`; without it no request is routed"


def incomplete_api_type(api_type: Mapping[str, Any]) -> Iterator[Slip]:
    """Of an API type file."""
    thinking, structured = (_object(api_type.get(key)) for key in ("thinking", "structuredOutput"))
    if thinking.get("mode") not in (None, "unsupported") and not thinking.get("field"):
        yield "thinking", "needs a `field`; without it nobody is told to think"
    if bool(structured.get("field")) != bool(structured.get("style")):
        yield "structuredOutput", "needs both `field` and `style`; without them no schema is sent"


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _switches(document: Mapping[str, Any], table: Mapping[str, str]) -> Iterator[Slip]:
    for switch, needed in table.items():
        if document.get(switch) is True and not _says_something(document.get(needed)):
            yield switch, f"is on, but `{needed}` is empty: nothing happens"


def _says_something(value: object) -> bool:
    return any(value) if isinstance(value, list) else bool(value)


INCOMPLETE = {
    "Users": incomplete_user,
    "Endpoints": incomplete_endpoint,
    "ApiTypes": incomplete_api_type,
}
"""Top folder -> what to ask of its files."""
