"""Measures and limits of a text, and the brace marks that users' scripts know. Pure."""

from __future__ import annotations

from Middleware.utilities.hashing_utils import LEFT_MARK, RIGHT_MARK
from Middleware.utilities.unspaced_scripts import UNSPACED_RUN

_MARK_EXTRA = len(LEFT_MARK) - 1
_ASCII_BLANKS = b" \n\t\r\v\f\x1c\x1d\x1e\x1f"
"""All characters below 128 at which `str.split` cuts."""
_BEFORE_U0800 = bytes(range(0xE0))
"""Bytes of UTF-8 that begin, or belong to, characters below U+0800; what is left begins a later one."""
_ASCII = bytes(range(0x80))

ESTIMATION_FACTORS = {"conservative": 1.0, "balanced": 1.25, "aggressive": 1.5, "xaggressive": 1.85}
"""`wilmerContextEstimationLevel` -> what token thresholds are multiplied by. Source: workflows.md 7.8."""


SENTENCE_LIMIT = 2000
"""Characters of a sentence for people. Longer ones repeat what somebody sent."""


def sentence_of(text: str) -> str:
    """At most `SENTENCE_LIMIT` characters; three dots stand for the rest."""
    return text if len(text) <= SENTENCE_LIMIT else f"{text[: SENTENCE_LIMIT - 3]}..."


def estimate_tokens(text: str) -> int:
    """Estimated tokens of a text of ours, or of a model; 0 for an empty one. For budgets and usage.

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
