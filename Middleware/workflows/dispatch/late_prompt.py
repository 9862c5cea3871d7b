"""A node's late prompt: text behind the conversation, for what changes from turn to turn. Pure.

A model's server that holds the conversation reads only what stands behind it; text that changes in front of
it would have all of it read again. Messages are handed on, never changed. Source: spec prompt-reuse.md 2.
"""

from __future__ import annotations

from dataclasses import dataclass

from Middleware.common.types import Message, Messages
from Middleware.utilities.text_utils import estimate_tokens

JOINT = "\n\n"
"""Between the late text and the message that it is added to."""
AFTER, BEFORE, ALONE = "after", "before", "alone"
"""Where the text is: at the end of the user's message, at its start, or in a message of its own."""
_COUNTED_BY = 256
"""The clamp counts the text in steps of so many tokens, so that its length does not move the window."""


@dataclass(frozen=True, slots=True)
class LatePrompt:
    """`text`: filled; blank: there is none. `place`: `after`, `before` or `system`. `comes_later`: it is not
    sent yet, but there must be room for it."""

    text: str = ""
    place: str = "after"
    comes_later: bool = False

    def __bool__(self) -> bool:
        return not self.comes_later and bool(self.text.strip())

    @property
    def counted_tokens(self) -> int:
        """What the clamp counts: the estimate, rounded up."""
        steps = -(-estimate_tokens(self.text) // _COUNTED_BY) if self.text.strip() else 0
        return steps * _COUNTED_BY


NO_LATE_PROMPT = LatePrompt()


@dataclass(frozen=True, slots=True)
class LateMessages:
    """A conversation with a late text in it, and where that is.

    `text`: exactly what was added. `place`: `AFTER` and `BEFORE`: at the end or the start of the content of
    the newest user message, joint included; `ALONE`: it is a message of its own, before the newest user
    message, before the line of the speaker who is to go on, or at the end; empty: nothing was added.
    """

    messages: Messages
    text: str = ""
    place: str = ""


def add_late(messages: Messages, late: LatePrompt, *, system_stays: bool) -> LateMessages:
    """`messages`, as they are sent, with the late text at its place.

    `system_stays`: a system message may stand among the others; else the text goes before the user's.
    """
    if not late:
        return LateMessages(messages)
    own: Message = {"role": "user", "content": late.text}
    if _ends_with_speakers(messages):
        return LateMessages([*messages[:-1], own, messages[-1]], late.text, ALONE)
    index = _newest_user(messages)
    if index is None:
        return LateMessages([*messages, own], late.text, ALONE)
    if late.place == "system" and system_stays:
        own["role"] = "system"
        return LateMessages([*messages[:index], own, *messages[index:]], late.text, ALONE)
    content = messages[index]["content"]
    joint = JOINT if content else ""
    if late.place == AFTER:
        text, place = joint + late.text, AFTER
        content += text
    else:
        text, place = late.text + joint, BEFORE
        content = text + content
    changed = {**messages[index], "content": content}
    return LateMessages([*messages[:index], changed, *messages[index + 1 :]], text, place)


def _ends_with_speakers(messages: Messages) -> bool:
    """Whether several speakers of a group stand behind the user's line: the text belongs before the last one,
    else all since the user's would be read again for each of them.
    """
    newest = messages[-2:]
    return len(newest) == 2 and all(m["role"] == "assistant" and not m.get("tool_calls") for m in newest)


def _newest_user(messages: Messages) -> int | None:
    for index in range(len(messages) - 1, -1, -1):
        if messages[index]["role"] == "user":
            return index
    return None
