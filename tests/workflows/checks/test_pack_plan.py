"""Which endpoints play the roles of a pack. What unpacking writes: tests/api/commands/test_unpack.py."""

from __future__ import annotations

import pytest

from Middleware.services.pack_archive import PackRefused
from Middleware.workflows.checks.pack_plan import Cast, best_cast, cast_of


@pytest.mark.parametrize(
    ("found", "best"),
    [
        ({}, {}),
        ({"Main": ["a/X", "b/Main"]}, {"Main": "b/Main"}),
        ({"Main": ["a/X", "b/Y"]}, {"Main": "a/X"}),
        ({"Main": ["a/Main", "b/X"], "Vec": ["b/V"]}, {"Main": "b/X", "Vec": "b/V"}),
        ({"Main": ["a/Main"], "Vec": ["b/Vec"]}, {"Main": "a/Main", "Vec": "b/Vec"}),
        ({"Main": ["Main", "a/X"], "Vec": ["Vec"]}, {"Main": "Main", "Vec": "Vec"}),
    ],
    ids=["no-role", "by-name", "the-first", "one-folder-before-names", "no-such-folder", "the-top-folder"],
)
def test_the_best_cast(found, best):
    """One folder for all comes first, then the names of the roles, then the order."""
    assert best_cast(found) == best


def test_a_cast_has_one_folder():
    assert cast_of({"Main": "a/b/X", "Vec": "a/b/V"}) == Cast("a/b/", {"Main": "X", "Vec": "V"})
    assert cast_of({"Main": "X"}) == Cast("", {"Main": "X"})
    assert cast_of({}) == Cast("", {})
    with pytest.raises(PackRefused, match="Main=a/X, Vec=V are in different folders"):
        cast_of({"Main": "a/X", "Vec": "V"})
