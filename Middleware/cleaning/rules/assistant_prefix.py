"""Order 340: models that see `User:` and `Assistant:` before messages begin with `Assistant:` themselves;
it goes.
"""

from __future__ import annotations

from Middleware.cleaning.head_strip import HeadStrip
from Middleware.cleaning.stage import Inputs, Stage, rule

SPEAKER = "Assistant:"
FLAGS = ("chatCompleteAddUserAssistant", "chatCompletionAddMissingAssistantGenerator")


@rule(order=340)
def assistant_prefix(inputs: Inputs) -> Stage | None:
    """On when the user sets both `chatCompleteAddUserAssistant` and
    `chatCompletionAddMissingAssistantGenerator`.
    """
    return HeadStrip([SPEAKER]) if all(inputs.user.get(flag) for flag in FLAGS) else None
