"""Marks that tell private chats apart and say nothing of them (workbench.md 14)."""

from __future__ import annotations

import hashlib
import re

from Middleware.services import chat_marks
from Middleware.services.chat_marks import mark_of_chat


def test_the_same_chat_has_the_same_mark():
    """As long as the process lives: eight hex digits."""
    mark = mark_of_chat("ana", "d")
    assert mark == mark_of_chat("ana", "d")
    assert re.fullmatch(r"[0-9a-f]{8}", mark)


def test_another_chat_has_another_one():
    """Of another user, or of a name that only looks the same when both are put together."""
    marks = [mark_of_chat(*chat) for chat in (("ana", "d"), ("ben", "d"), ("ana", "e"), ("an", "ad"))]
    assert len(set(marks)) == 4


def test_another_process_has_other_marks():
    """Nobody can try out which chat a mark is of."""
    before = mark_of_chat("ana", "d")
    salt = chat_marks._salt()
    assert len(salt) == 16 and before == hashlib.sha256(salt + b"ana\0d").hexdigest()[:8]
    chat_marks._salt.cache_clear()
    assert mark_of_chat("ana", "d") != before


def test_halves_of_surrogate_pairs():
    """Clients send them as ids of discussions."""
    assert mark_of_chat("ana", "d\ud83d") != mark_of_chat("ana", "d")
