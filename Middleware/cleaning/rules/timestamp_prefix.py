"""Order 330: removes a time stamp from the start: a model that sees them before messages writes its own."""

from __future__ import annotations

from Middleware.cleaning.head_strip import HeadStrip
from Middleware.cleaning.stage import FLAG, Inputs, Stage, rule

STAMP = "[Sent less than a minute ago]"


@rule(
    order=330,
    node={
        "addDiscussionIdTimestampsForLLM": FLAG("The model sees when each message was sent.", of_models=True)
    },
)
def timestamp_prefix(inputs: Inputs) -> Stage | None:
    """On when the node sets `addDiscussionIdTimestampsForLLM`."""
    return HeadStrip([STAMP]) if inputs.node.get("addDiscussionIdTimestampsForLLM") else None
