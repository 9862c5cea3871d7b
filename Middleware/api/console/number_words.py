"""Numbers in the console's sentences. Pure. Source: spec console.md 13.3."""

from __future__ import annotations

AT_ONCE_S = 0.01


def seconds(span: float) -> str:
    """`< 10 ms`, `0.04 s`, `0.8 s`, `12 s`, `3 min 20 s`."""
    if span < AT_ONCE_S:
        return "< 10 ms"
    for limit, decimals in ((0.095, 2), (9.95, 1), (59.5, 0)):
        if span < limit:
            return f"{span:.{decimals}f} s"
    minutes, rest = divmod(round(span), 60)
    return f"{number(minutes)} min {rest} s" if rest else f"{number(minutes)} min"


def number(count: float) -> str:
    """A count with commas: `1,204`. A share of one that says something keeps a digit: `0.4`."""
    return f"{count:,.1f}" if 0 < count < 1 else f"{round(count):,}"


def count_words(count: int, one: str, many: str = "") -> str:
    """`1 request`, `34 requests`."""
    return f"{number(count)} {one if count == 1 else many or one + 's'}"


def rounded_count(count: int) -> str:
    """An estimated count, to three digits: `18,400`."""
    step = 10 ** max(len(str(count)) - 3, 0)
    return number(round(count / step) * step)
