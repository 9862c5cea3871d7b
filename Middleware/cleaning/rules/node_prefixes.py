"""Order 310: removes a text that the node lists from the start of the answer, matched exactly as written."""

from __future__ import annotations

from Middleware.cleaning.head_strip import HeadStrip
from Middleware.cleaning.stage import FLAG, TEXT_OR_TEXTS, Inputs, Stage, rule, texts_of


@rule(
    order=310,
    node={
        "removeCustomTextFromResponseStart": FLAG(
            "Remove one of `responseStartTextToRemove` from the start."
        ),
        "responseStartTextToRemove": TEXT_OR_TEXTS(
            "Texts to remove from the start of the output, tried in order."
        ),
    },
)
def node_prefixes(inputs: Inputs) -> Stage | None:
    """On when the node sets `removeCustomTextFromResponseStart` and lists `responseStartTextToRemove`."""
    if not inputs.node.get("removeCustomTextFromResponseStart"):
        return None
    prefixes = texts_of(inputs.node, "responseStartTextToRemove")
    return HeadStrip(prefixes) if prefixes else None
