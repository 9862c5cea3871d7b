"""Categories that can never be picked."""

from __future__ import annotations

import pytest

from Middleware.config.workflows import Category
from Middleware.workflows.checks.routing_check import lost_categories
from Middleware.workflows.managers.categorization import matching_category

SITUATIONS = [
    ("none", ["CODING", "WIKI"], {}),
    ("the-longer-name-first", ["GENERAL_CHAT", "GENERAL"], {}),
    ("the-shorter-name-first", ["GENERAL", "GENERAL_CHAT"], {"GENERAL_CHAT": "'GENERAL' comes first"}),
    ("another-case", ["Wiki", "WIKI"], {"WIKI": "'Wiki' comes first"}),
    ("punctuation-is-not-compared", ["A-B", "A_B"], {"A_B": "'A-B' comes first"}),
    ("a-name-of-punctuation-takes-all", ["***", "A"], {"A": "'***' comes first"}),
    ("a-blank", ["TWO WORDS", "ONE"], {"TWO WORDS": "contains a space"}),
]


@pytest.mark.parametrize(("names", "lost"), [s[1:] for s in SITUATIONS], ids=[s[0] for s in SITUATIONS])
def test_lost_categories(names, lost):
    """Each with its reason; even its own name picks another, or none."""
    categories = [Category(name, "d", "W") for name in names]
    told = {category.name: why for category, why in lost_categories(categories)}
    assert told.keys() == lost.keys()
    assert all(reason in told[name] for name, reason in lost.items())
    for category in categories:
        picked = matching_category(f"{category.name} x", categories)
        assert (picked is not category) == (category.name in lost)
