"""How much of a body a trace holds: of a call's its ends, of a client's the whole, without large pictures.
Pure.

Source: spec console.md 4, workbench.md 16.16.
"""

from __future__ import annotations

import re

HEAD_BYTES = 98_304
TAIL_BYTES = 32_768
BODY_LIMIT = HEAD_BYTES + TAIL_BYTES
"""Of a longer body only so much of its beginning and its end is held."""


def kept_body(body: bytes) -> tuple[bytes, int]:
    """What a trace holds of a body, and how many bytes were left out behind the first HEAD_BYTES."""
    left_out = max(0, len(body) - BODY_LIMIT)
    return (body[:HEAD_BYTES] + body[-TAIL_BYTES:], left_out) if left_out else (body, 0)


ASKED_LIMIT = 1 << 20
"""A client's body of up to so many bytes is held whole, so that it can be sent again."""
PICTURE_LIMIT = 65_536
"""A picture of more characters is not kept with a body: only its length is."""
_LARGE_PICTURE = re.compile(rb'"(data:[\w.+/;=-]{0,200},)?([A-Za-z0-9+/_=-]{%d,})"' % (PICTURE_LIMIT + 1))
LOST_PICTURE = re.compile(r"(?:data:[\w.+/;=-]*,)?\[left out: (\d+) characters\]")
"""What stands in a kept body for the text of a picture."""


def asked_to_hold(body: bytes) -> tuple[bytes, int]:
    """What a trace holds of a client's body while the run lasts: a reference, where it is not too large. As
    `kept_body`. Source: spec workbench.md 16.16.
    """
    if len(body) <= ASKED_LIMIT:
        return body, 0
    return _fit_asked(without_pictures(body), body)


def asked_to_keep(body: bytes, left_out: int) -> tuple[bytes, int]:
    """What is kept of it behind the end of the run: its large pictures are left out by their length."""
    if left_out or len(body) <= PICTURE_LIMIT:
        return body, left_out
    return _fit_asked(without_pictures(body), body)


def _fit_asked(bare: bytes, body: bytes) -> tuple[bytes, int]:
    return (bare, 0) if len(bare) <= ASKED_LIMIT else kept_body(body)


def without_pictures(body: bytes) -> bytes:
    """A JSON body with the length of each large picture in place of its text. No other text is so long and
    has no blank.
    """
    return _LARGE_PICTURE.sub(
        lambda found: b'"%b[left out: %d characters]"' % (found[1] or b"", len(found[2])), body
    )
