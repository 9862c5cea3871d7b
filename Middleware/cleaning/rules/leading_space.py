"""Order 300: removes white space at the start of the answer. Always on."""

from __future__ import annotations

from Middleware.cleaning.head_strip import LeadingSpace
from Middleware.cleaning.stage import Inputs, Stage, rule


@rule(order=300)
def leading_space(inputs: Inputs) -> Stage | None:
    return LeadingSpace()
