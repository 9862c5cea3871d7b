"""Numbers in sentences: console.md 13.3."""

from __future__ import annotations

import pytest

from Middleware.api.console.number_words import count_words, number, rounded_count, seconds


@pytest.mark.parametrize(
    ("span", "said"),
    [
        (0.0, "< 10 ms"),
        (0.0099, "< 10 ms"),
        (0.04, "0.04 s"),
        (0.8, "0.8 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (12.04, "12 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (200.2, "3 min 20 s"),
        (60_000, "1,000 min"),
    ],
)
def test_a_duration(span, said):
    assert seconds(span) == said


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0"), (0.44, "0.4"), (999, "999"), (1204, "1,204"), (9.4, "9")]
)
def test_a_number(count, said):
    assert number(count) == said


def test_one_and_many():
    assert [count_words(1, "request"), count_words(2, "request"), count_words(0, "reply", "replies")] == [
        "1 request",
        "2 requests",
        "0 replies",
    ]


@pytest.mark.parametrize(("count", "said"), [(18_432, "18,400"), (99, "99"), (1_005_900, "1,010,000")])
def test_an_estimated_count(count, said):
    assert rounded_count(count) == said
