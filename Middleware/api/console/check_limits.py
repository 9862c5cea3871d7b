"""How large a text may be that the page has checked: a look must not hold the server. Pure.

What is larger is checked by `--validate` alone. Source: spec console.md 2.3, 9.4.
"""

from __future__ import annotations

from Middleware.config.json_positions import count_values

MOST_CHARS = 1 << 17
MOST_VALUES = 5_000
MOST_BRACES = 20_000
MOST_PROBLEMS = 500
"""So many are told of one file, the worst first."""


def too_large(text: str) -> str:
    """Why a text is not checked here; empty: it is."""
    if len(text) > MOST_CHARS:
        return _more_than(MOST_CHARS, "characters")
    if text.count("{") > MOST_BRACES:
        return _more_than(MOST_BRACES, "braces")
    if count_values(text, MOST_VALUES + 1) > MOST_VALUES:
        return _more_than(MOST_VALUES, "values")
    return ""


def _more_than(most: int, what: str) -> str:
    return f"this text has more than {most:,} {what} and is not checked here; --validate checks it"


def count_sentence(count: int) -> str:
    """What is said of the problems behind the first `MOST_PROBLEMS`."""
    return f"and {count:,} more; --validate tells all"
