"""Writing that puts no blanks between words, so that a word is no run of letters. Source: spec memory.md 18.2
(19).
"""

from __future__ import annotations

import re

UNSPACED = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f"  # Myanmar
    "\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff\uffa0-\uffdc"  # Hangul
    "\u1780-\u17ff\u19e0-\u19ff"  # Khmer
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3038-\u303b\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Han
    "\U00020000-\U0003ffff"  # Han, later blocks
    "\u3040-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f\U0001aff0-\U0001b16f"  # kana
)
"""The characters, as the inside of a character class. Hangul has blanks, and particles glued to its words."""

UNSPACED_RUN = re.compile(f"[{UNSPACED}]+")
WORD = re.compile(rf"[{UNSPACED}]+|[^\W{UNSPACED}]+")
"""Runs of word characters; where the script changes a new one begins."""


def is_unspaced(word: str) -> bool:
    """Whether a match of `WORD` is of such writing."""
    return UNSPACED_RUN.match(word) is not None
