"""Where the thoughts of an answer go: nowhere, into a field of their own, or into the text where
they came.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from Middleware.common.types import Batch

OPENING = "<think>\n"
CLOSING = "\n</think>\n\n"


class ThoughtRoute:
    """The way of one answer's thoughts.

    `mode`: `drop`, `field` or `inline`; the endpoint's literal tags frame `inline`.
    """

    def __init__(self, mode: str, endpoint_config: Mapping[str, Any]) -> None:
        self._field, self._inline = mode == "field", mode == "inline"
        self._opening = endpoint_config.get("startThinkTag") or OPENING
        self._closing = endpoint_config.get("endThinkTag") or CLOSING
        self._open = False

    @property
    def keeps_order(self) -> bool:
        """Thoughts stand in the text: they must come in order with it."""
        return self._inline

    def think(self, thought: str, out: Batch) -> None:
        """Send a thought.

        Inline: the first opens a tag, and so does the first behind a text.
        """
        if not thought:
            return
        if self._field:
            out.append({"token": "", "finish_reason": None, "thinking": thought})
        elif self._inline:
            out.append({"token": thought if self._open else self._opening + thought, "finish_reason": None})
            self._open = True

    def before_text(self) -> str:
        """What stands before a text that goes out now, or before the end: the closing tag of thoughts that
        are open.
        """
        if not self._open:
            return ""
        self._open = False
        return self._closing
