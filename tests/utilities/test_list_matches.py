"""Items of a list found in an older one."""

from __future__ import annotations

import pytest

from Middleware.utilities.config_masks import Item, matches


def items(text: str) -> list[Item]:
    """`a1 b` -> an item that is seen as `a`, and is really `a1`; one that is seen as `b`."""
    return [Item(word[0], real=word) for word in text.split()]


@pytest.mark.parametrize(
    ("new", "old", "found"),
    [
        ("a b c", "a b c", {0: 0, 1: 1, 2: 2}),
        ("x a b", "a b", {1: 0, 2: 1}),
        ("b", "a b", {0: 1}),
        ("b a", "a b", {0: 1, 1: 0}),
        ("a x c", "a b c", {0: 0, 1: 1, 2: 2}),
        ("x y", "a b", {0: 0, 1: 1}),
        ("x", "a b", {}),
        ("a x y", "a b", {0: 0}),
        ("a1 a2", "a1 a2", {0: 0, 1: 1}),
        ("a", "a1 a2", {}),
        ("a a", "a1", {0: 0, 1: 0}),
        ("a", "a1 a1", {0: 0}),
        ("", "a", {}),
        ("a", "", {}),
    ],
)
def test_which_is_which(new, old, found):
    """Unchanged ones by their looks, changed ones by their place between those; else none."""
    assert matches(items(new), items(old)) == found


def test_a_name_tells_more():
    """Before the place does, where only one has it."""
    old = [Item("a", "one"), Item("b", "two"), Item("c", None)]
    assert matches([Item("y", None), Item("x", "two")], old) == {1: 1, 0: 0}
    assert matches([Item("x", "two")], [*old, Item("d", "two")]) == {}
