"""What a text with placeholders may become, for checks that run before anybody knows. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import product

_PLACEHOLDER = re.compile(r"\{[^{}]*\}")
_QUOTED = re.compile(r"""'[^']*'|"[^"]*\"""")
MOST = 3
"""More free placeholders can become anything: nothing is told of such a text."""


def fillings(text: str, stand_ins: Sequence[str]) -> Iterator[str]:
    """The text with every choice of stand-ins for its placeholders; inside quotes a word will do.

    Nothing for a text with too many of them.
    """
    text = _QUOTED.sub(lambda quoted: _PLACEHOLDER.sub("1", quoted[0]), text)
    around = _PLACEHOLDER.split(text)
    if len(around) > MOST + 1:
        return
    for choice in product(stand_ins, repeat=len(around) - 1):
        yield around[0] + "".join(f"{word}{rest}" for word, rest in zip(choice, around[1:], strict=True))
