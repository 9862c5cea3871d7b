"""Order 110: removes what the model thought: every block whose tags have one of some names."""

from __future__ import annotations

import re

from Middleware.cleaning.block_remover import BlockRemover, BlockRule
from Middleware.cleaning.head_strip import closing_tag, opening_tag
from Middleware.cleaning.rules.thinking_literal import NAMED
from Middleware.cleaning.stage import Inputs, Stage, rule, texts_of


@rule(order=110, endpoint=NAMED)
def thinking_names(inputs: Inputs) -> Stage | None:
    """On when the endpoint sets `removeThinking` and `thinkTagNames`; the literal tags then mean nothing."""
    endpoint = inputs.endpoint
    names = texts_of(endpoint, "thinkTagNames", stripped=True)
    if not endpoint.get("removeThinking") or not names:
        return None
    inputs.findings.cut_after = re.compile(">")
    keep = endpoint.get("whenEndThinkTagMissing") == "keep"
    block = BlockRule(opening_tag(names), closing_tag(names), keep=keep, once=False, code_is_text=True)
    return BlockRemover(block, inputs.findings)
