"""Order 100: removes what the model thought: the one block between two tags, exactly as they are written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from Middleware.cleaning.block_remover import ANYWHERE, BlockRemover, BlockRule
from Middleware.cleaning.head_strip import literal_tag
from Middleware.cleaning.stage import COUNT, FLAG, TEXT, TEXTS, Inputs, Stage, one_of, rule, text_of, texts_of

GRACE_PERIOD = 100


NAMED = {
    "removeThinking": FLAG("Remove the model's thoughts from its answers."),
    "thinkTagNames": TEXTS(
        "Names of think tags, e.g. think, thought; found wherever they stand and however they are spelled."
    ),
    "whenEndThinkTagMissing": one_of("discard", "keep")("What happens to thoughts that are never closed."),
}
"""The keys that this rule and `thinking_names` read."""


@rule(
    order=100,
    endpoint={
        **NAMED,
        "startThinkTag": TEXT("Tag that opens the thoughts, e.g. <think>."),
        "endThinkTag": TEXT("Tag that closes the thoughts, e.g. </think>."),
        "openingTagGracePeriod": COUNT(
            "How far from the start (in characters) the opening tag may stand.", default=GRACE_PERIOD
        ),
        "expectOnlyClosingThinkTag": FLAG(
            "Answers begin inside the thoughts; the opening tag was in the prompt."
        ),
    },
)
def thinking_literal(inputs: Inputs) -> Stage | None:
    """On when the endpoint sets `removeThinking` and no `thinkTagNames`.

    A needed tag that is empty: off, and a warning.
    """
    endpoint = inputs.endpoint
    if not endpoint.get("removeThinking") or texts_of(endpoint, "thinkTagNames", stripped=True):
        return None
    start, end = text_of(endpoint, "startThinkTag"), text_of(endpoint, "endThinkTag")
    closing_only = bool(endpoint.get("expectOnlyClosingThinkTag"))
    empty = [
        name for name, tag in (("startThinkTag", start or closing_only), ("endThinkTag", end)) if not tag
    ]
    if empty:
        inputs.findings.warnings.append(
            f"removeThinking is on but {' and '.join(empty)} is empty, so no thinking is removed"
        )
        return None
    if closing_only:
        return BlockRemover(
            BlockRule(None, literal_tag(end), keep=_keeps(endpoint, default=False)), inputs.findings
        )
    inputs.findings.cut_after = re.compile(re.escape(start[-1]), re.IGNORECASE)
    return BlockRemover(
        BlockRule(
            literal_tag(start),
            literal_tag(end),
            keep=_keeps(endpoint, default=True),
            last_start=_grace_period(endpoint),
            opening_width=len(start),
        ),
        inputs.findings,
    )


def _keeps(endpoint: Mapping[str, Any], *, default: bool) -> bool:
    value = endpoint.get("whenEndThinkTagMissing")
    return value == "keep" or (default and value != "discard")


def _grace_period(endpoint: Mapping[str, Any]) -> int:
    value = endpoint.get("openingTagGracePeriod", GRACE_PERIOD)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        return GRACE_PERIOD
    return min(value, ANYWHERE)
