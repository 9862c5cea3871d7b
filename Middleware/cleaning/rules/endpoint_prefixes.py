"""Order 320: removes a text that the endpoint lists from the start of every answer of its model."""

from __future__ import annotations

from Middleware.cleaning.head_strip import HeadStrip
from Middleware.cleaning.stage import FLAG, TEXT_OR_TEXTS, Inputs, Stage, rule, texts_of


@rule(
    order=320,
    endpoint={
        "removeCustomTextFromResponseStartEndpointWide": FLAG(
            "Remove one of `responseStartTextToRemoveEndpointWide` from the start of answers."
        ),
        "responseStartTextToRemoveEndpointWide": TEXT_OR_TEXTS("Texts to remove, tried in order."),
    },
)
def endpoint_prefixes(inputs: Inputs) -> Stage | None:
    """On when the endpoint sets `removeCustomTextFromResponseStartEndpointWide` and lists the texts.

    Unlike the node's, each text of `responseStartTextToRemoveEndpointWide` is stripped before matching.
    """
    if not inputs.endpoint.get("removeCustomTextFromResponseStartEndpointWide"):
        return None
    prefixes = texts_of(inputs.endpoint, "responseStartTextToRemoveEndpointWide", stripped=True)
    return HeadStrip(prefixes) if prefixes else None
