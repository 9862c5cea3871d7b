"""Measures and limits of a text, and the brace marks that users' scripts know. Pure."""

from __future__ import annotations

import re

from Middleware.utilities.hashing_utils import LEFT_MARK, RIGHT_MARK

# --------------------------------------------------------------------------
# Writing that puts no blanks between words, so that a word is no run of letters. Source: spec memory.md
# 18.2 (19).


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


# --------------------------------------------------------------------------

_MARK_EXTRA = len(LEFT_MARK) - 1
_ASCII_BLANKS = b" \n\t\r\v\f\x1c\x1d\x1e\x1f"
"""All characters below 128 at which `str.split` cuts."""
_BEFORE_U0800 = bytes(range(0xE0))
"""Bytes of UTF-8 that begin, or belong to, characters below U+0800; what is left begins a later one."""
_ASCII = bytes(range(0x80))

ESTIMATION_FACTORS = {
    "conservative": 1.0,
    "balanced": 1.25,
    "aggressive": 1.5,
    "xaggressive": 1.85,
    "measured": 1.0,
}
"""`wilmerContextEstimationLevel` -> what token thresholds are multiplied by. `measured` has its factor from
`services/token_ratios.py` where a prompt is cut; elsewhere, and until it is known, it counts as
`conservative`. Source: workflows.md 7.8, prompt-reuse.md 1.
"""


SENTENCE_LIMIT = 2000
"""Characters of a sentence for people. Longer ones repeat what somebody sent."""


def sentence_of(text: str) -> str:
    """At most `SENTENCE_LIMIT` characters; three dots stand for the rest."""
    return text if len(text) <= SENTENCE_LIMIT else f"{text[: SENTENCE_LIMIT - 3]}..."


def count_of(count: int, one: str, many: str = "") -> str:
    """`1 file`, `34 files`, `0 entries`."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def media_note(kind: str, size: int) -> str:
    """`[image/png, 123 KB]`: what stands for bytes where only text can. `size`: in bytes."""
    return f"[{kind}, {max(1, round(size / 1024)):,} KB]"


def estimate_tokens(text: str) -> int:
    """Estimated tokens of our own text or a model's; 0 for an empty one. For budgets and usage.

    A character of `UNSPACED_RUN` counts as one token. Source: workflows.md 7.7, memory.md 18.2.19.
    """
    return _estimate_by_script(text, 0)


def estimate_message_tokens(content: str) -> int:
    """`estimate_tokens` of a message's content: a brace is 18 characters long. Source: workflows.md 7.7."""
    return _estimate_by_script(content, _brace_extra(content))


def estimate_json_tokens(text: str) -> int:
    """Estimated tokens of JSON: its marks and names are short tokens. Source: backends.md 13.4."""
    if not _has_unspaced(text):
        return len(text) // 4
    spaced = UNSPACED_RUN.sub("", text)
    return len(text) - len(spaced) + len(spaced) // 4


def stored_message_tokens(content: str) -> int:
    """What a message's content counts where that decides what lies on disk, and in limits that a node names
    without the clamp: the same for every script, so that chunks stay where they are. Source: memory.md 5.1.
    """
    return _estimate(content, len(content) + _brace_extra(content))


def _brace_extra(content: str) -> int:
    return _MARK_EXTRA * (content.count("{") + content.count("}"))


def _estimate_by_script(text: str, extra: int) -> int:
    """`extra`: characters that count beside those of the text."""
    if not _has_unspaced(text):
        return _estimate(text, len(text) + extra)
    spaced = UNSPACED_RUN.sub("", text)
    return len(text) - len(spaced) + _estimate(spaced, len(spaced) + extra)


def _has_unspaced(text: str) -> bool:
    """Whether it has a character of `UNSPACED_RUN`. The bytes are asked first: they are ten times quicker."""
    if text.isascii():
        return False
    encoded = text.encode("utf-8", "surrogatepass")
    if not encoded.translate(None, _BEFORE_U0800):
        return False
    return UNSPACED_RUN.search(encoded.translate(None, _ASCII).decode("utf-8", "surrogatepass")) is not None


def without_halves(text: str) -> str:
    """Halves of surrogate pairs, which JSON can hold and no file, database or program can, become `?`."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _estimate(text: str, characters: int) -> int:
    by_length = characters / 3.5
    if text.isascii() and _most_words(text) * 1.35 <= by_length:
        return int(by_length * 1.10)
    return int(max(len(text.split()) * 1.35, by_length) * 1.10)


def _most_words(text: str) -> int:
    """No fewer than the words of an ASCII text. Counting blanks costs a fifth of cutting the text up."""
    return len(text) - len(text.encode().translate(None, _ASCII_BLANKS)) + 1


def estimation_factor(level: object) -> float | None:
    """Factor of an estimation level, case and outer blanks ignored; absent: 1.0; None for an unknown one.

    The caller warns of an unknown level and goes on with 1.0. Source: workflows.md 7.8, memory.md 5.4.
    """
    if level is None or level == "":
        return 1.0
    return ESTIMATION_FACTORS.get(level.strip().lower()) if isinstance(level, str) else None


def return_brackets_in_string(text: str) -> str:
    """Brace marks become braces again; users' scripts import it. Source: tools.md 8.4."""
    return text.replace(LEFT_MARK, "{").replace(RIGHT_MARK, "}")
