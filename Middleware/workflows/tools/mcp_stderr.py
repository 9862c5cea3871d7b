"""What a stdio tool server writes to its standard error: its last lines for messages, all of it for its log.

A session is shared by many requests. From the first private one on nothing of it is kept, told or logged: any
later line may quote that request. Source: spec tools.md 11.5.7, memory.md 14.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections import deque
from collections.abc import Callable

from Middleware.utilities.sensitive_logging_utils import REDACTED, mask_secrets

LAST_WORDS = 10
"""Lines that the message of a failure repeats."""
LAST_WORDS_S = 2.0
SHOWN = 4000
"""Characters of a line that are told; secrets are looked for in all of it."""
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")


class StandardError:
    """Lines come in the pipe's thread (`hear`), questions from the loop. `say`: where lines go."""

    def __init__(self, secrets: tuple[str, ...], say: Callable[[str], None]) -> None:
        self._secrets, self._say = secrets, say
        self._last: deque[str] = deque(maxlen=LAST_WORDS)
        self._guard = threading.Lock()
        self._hidden = False
        self.silent = threading.Event()
        """Set when the last process that holds the pipe has ended."""

    def hide(self) -> None:
        """A private request begins. May be said again."""
        with self._guard:
            if self._hidden:
                return
            self._hidden = True
        self._say(f"{REDACTED} from here on: the session serves a private request")

    def hear(self, line: str) -> None:
        with self._guard:
            if self._hidden:
                return
            line = mask_secrets(_COLOURS.sub("", line), *self._secrets)
            line = _CONTROL.sub("\ufffd", line[:SHOWN])
            self._last.append(line)
            self._say(line)

    def note(self, line: str) -> None:
        """A line of ours for the message of a failure."""
        with self._guard:
            self._last.append(line)

    def last_words(self) -> str:
        """The end of what was heard, for a message."""
        with self._guard:
            return "".join(f"\n  {line}" for line in self._last)

    async def all_words(self) -> str:
        """The same when the server has ended: what it said last is still on its way through the pipe."""
        await asyncio.to_thread(self.silent.wait, LAST_WORDS_S)
        return self.last_words()
