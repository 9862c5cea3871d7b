"""Marks that tell private chats apart and say nothing of them. Source: spec workbench.md 14."""

from __future__ import annotations

import hashlib
from functools import cache
from secrets import token_bytes

MARK_CHARS = 8


def mark_of_chat(user: str, discussion: str) -> str:
    """The same for the same chat, as long as this process lives."""
    said = f"{user}\0{discussion}".encode("utf-8", "surrogatepass")
    return hashlib.sha256(_salt() + said).hexdigest()[:MARK_CHARS]


@cache
def _salt() -> bytes:
    """Of this process: nobody can try out which chat a mark is of."""
    return token_bytes(16)
