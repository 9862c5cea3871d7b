"""Order 340: removes `Assistant:` from the start: a model that sees it before messages writes it itself."""

from __future__ import annotations

from Middleware.cleaning.head_strip import HeadStrip
from Middleware.cleaning.stage import FLAG, Inputs, Stage, rule

SPEAKER = "Assistant:"
FLAGS = {
    "chatCompleteAddUserAssistant": FLAG(
        "Put `User: ` and `Assistant: ` before the messages of chat requests."
    ),
    "chatCompletionAddMissingAssistantGenerator": FLAG(
        "Append an assistant message to chat requests that do not end with one."
    ),
}
"""The requests read them too: whoever asks the model for the prefix wants it gone again."""


@rule(order=340, user=FLAGS)
def assistant_prefix(inputs: Inputs) -> Stage | None:
    """On when the user sets both `chatCompleteAddUserAssistant` and
    `chatCompletionAddMissingAssistantGenerator`.
    """
    return HeadStrip([SPEAKER]) if all(inputs.user.get(flag) for flag in FLAGS) else None
