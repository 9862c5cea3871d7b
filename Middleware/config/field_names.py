"""The field that is meant by a name that is none: other programs' words for it, or a part of its name. Pure.

Slips of the keyboard are `validation.nearest`'s; this knows words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_VAGUE = frozenset(
    (
        *("a", "api", "data", "file", "id", "in", "is", "max", "min", "name"),
        *("number", "of", "path", "size", "text", "the", "to", "type", "use", "value"),
    )
)
"""Words that many fields share: alone they mean none of them."""
_MOST_MORE = 2
"""So many more words a field may have than a name that is not its beginning."""

OTHER_WORDS: Mapping[str, str] = {
    "apiKey": "key token authorization bearer accessToken",
    "apiTypeConfigFileName": "apiType type backend provider",
    "condition": "expression if",
    "content": "text message response value body output",
    "customWorkflow": "workflow workflowName",
    "description": "desc",
    "endpoint": "url uri baseUrl baseUri apiBase host address server",
    "endpointConfigsSubDirectory": "endpointsFolder endpointFolder endpointsDirectory endpointDirectory",
    "endpointName": "endpoint model modelName llm",
    "filepath": "path file filename",
    "input": "text content",
    "is_responder": "responder isResponse answers",
    "kwargs": "keywordArguments namedArguments",
    "args": "arguments params parameters",
    "lastMessagesToSendInsteadOfPrompt": "lastMessages numberOfMessages messagesToSend",
    "maxContextTokenSize": "contextSize contextLength contextWindow maxContext numCtx nCtx",
    "maxResponseSizeInTokens": "maxTokens maxNewTokens maxOutputTokens maxResponseTokens numPredict",
    "modelNameToSendToAPI": "model modelName",
    "module_path": "module script scriptPath file path",
    "preset": "presetFile samplers",
    "prompt": "userPrompt userMessage message",
    "promptToSearch": "query search",
    "requestTimeoutSeconds": "timeout timeoutSeconds",
    "returnToUser": "respond",
    "separator": "delimiter joiner",
    "strings": "texts parts values",
    "systemPrompt": "system sysPrompt systemMessage",
    "toolName": "tool",
    "serverName": "server",
    "timeoutSeconds": "timeout",
    "url": "uri address link",
    "workflow": "workflowName",
    "workflowConfigsSubDirectoryOverride": "workflowFolder workflowsFolder workflowDirectory",
    "workflowLockId": "lock lockId lockName",
    "workflowName": "workflow name child subWorkflow",
}
"""Field -> what other programs call it. A word counts only where the field may stand."""


def _bare(name: str) -> str:
    return name.replace("_", "").replace("-", "").casefold()


@lru_cache(maxsize=1)
def _fields_of() -> Mapping[str, list[str]]:
    """Word -> the fields that it may stand for."""
    fields: dict[str, list[str]] = {}
    for field, words in OTHER_WORDS.items():
        for word in words.split():
            fields.setdefault(_bare(word), []).append(field)
    return fields


def field_meant(name: str, fields: Iterable[str]) -> str | None:
    """Which of `fields` the name stands for; None where nothing or more than one comes to mind."""
    known = list(fields)
    named = [field for field in _fields_of().get(_bare(name), ()) if field in known]
    if named:
        return named[0] if len(named) == 1 else None
    words = _words_of(name)
    if not set(words) - _VAGUE:
        return None
    holding = [(len(more), field) for field in known if (more := _words_of(field)) and _is_part(words, more)]
    least = min(holding, default=(0, ""))[0]
    shortest = [field for length, field in holding if length == least]
    return shortest[0] if len(shortest) == 1 else None


def _words_of(name: str) -> list[str]:
    return [part.casefold().rstrip("s") for part in _PART.findall(name)]


def _is_part(words: list[str], more: list[str]) -> bool:
    if len(words) >= len(more):
        return False
    if more[: len(words)] == words:
        return True
    return set(words) <= set(more) and len(more) - len(words) <= _MOST_MORE
