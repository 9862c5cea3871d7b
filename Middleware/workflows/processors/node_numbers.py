"""The numeric fields of nodes, made numbers before a node runs.

Pure. Source: spec workflows.md 6.6, 16.17.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from Middleware.common.types import NodeConfig
from Middleware.utilities.sensitive_logging_utils import loggable_whole_text

logger = logging.getLogger(__name__)

NUMBERS: dict[str, int | float | None] = {
    "maxResponseSizeInTokens": 400,
    "maxContextTokenSize": 4096,
    "minMessagesInVariable": 5,
    "maxEstimatedTokensInVariable": 2048,
    "nMessagesToIncludeInVariable": 5,
    "estimatedTokensToIncludeInVariable": 2048,
    "lastMessagesToSendInsteadOfPrompt": 5,
    "lastMessagesToSendInsteadOfPromptMaxTokenSize": None,
    "maxImagesToSend": 0,
    "visionScanMessageLimit": 20,
    "limit": 5,
    "maxTurnsToPull": None,
    "maxSummaryChunksFromFile": None,
    "lookbackStart": 0,
    "minMemoriesPerSummary": 3,
    "loopIfMemoriesExceed": 3,
    "num_results": 10,
    "top_n_articles": 3,
    "chunksPerMemory": 3,
    "lookbackStartTurn": 0,
    "vectorMemoryMaxResponseSizeInTokens": 1024,
    "vectorMemoryChunkEstimatedTokenSize": 1000,
    "vectorMemoryMaxMessagesBetweenChunks": 5,
    "chunkEstimatedTokenSize": 1000,
    "maxMessagesBetweenChunks": 5,
    "memoryCondensationBuffer": 0,
    "offlineWikiApiPort": None,
    "percentile": 0.5,
}
"""Field -> default (None: a text that is no number stays as it is)."""


def with_numbers(node: NodeConfig, resolve: Callable[[str], str], where: Callable[[], str]) -> NodeConfig:
    """`node` with its numeric fields as numbers: a copy, or `node` itself when there is nothing to do.

    `resolve(text)` fills placeholders. A text that is no number becomes the default, with a warning that
    begins with `where()`.
    """
    changed: dict[str, Any] = {}
    for field in node.keys() & NUMBERS.keys():
        value = node[field]
        kind = float if isinstance(NUMBERS[field], float) else int
        if isinstance(value, bool) or type(value) is kind:
            continue
        if isinstance(value, (int, float)):
            changed[field] = kind(value)
        elif isinstance(value, str):
            text, told = (resolve(value), loggable_whole_text) if "{" in value else (value, str)
            try:
                changed[field] = kind(text)
            except ValueError:
                changed[field] = _fallen_back(field, text, where(), told(repr(text)))
    return {**node, **changed} if changed else node


def _fallen_back(field: str, text: str, where: str, told: str) -> int | float | str:
    """The default of a field whose text is no number, told; without a default the text."""
    default = NUMBERS[field]
    if default is None:
        logger.error("%s: %s: %s is no number", where, field, told)
        return text
    logger.warning("%s: %s: %s is no number; %s is used", where, field, told, default)
    return default
