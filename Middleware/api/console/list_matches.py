"""Which items of a list are those of an older one: what was added, taken away or moved shifts the others.

Pure. Items are compared as a reader sees them; where that does not settle which old item is meant, none is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Item:
    """`seen`: what a reader sees of it. `name`: what it is called, None for nothing. `real`: what it is."""

    seen: Hashable
    name: Hashable | None = None
    real: Hashable = None


def matches(new: Sequence[Item], old: Sequence[Item]) -> dict[int, int]:
    """Index in `new` -> index in `old`: items that nobody changed, those of the same name, those changed in
    their place.
    """
    found = dict(_unchanged_items(new, old))
    taken = set(found.values())
    names_new = _unique_names({index: item.name for index, item in enumerate(new) if index not in found})
    names_old = _unique_names({index: item.name for index, item in enumerate(old) if index not in taken})
    found |= {names_new[name]: names_old[name] for name in names_new.keys() & names_old.keys()}
    taken = set(found.values())
    for start, end in list(_gaps(found, len(new))):
        low, high = found.get(start - 1, -1) + 1, found.get(end, len(old))
        if high - low == end - start and taken.isdisjoint(range(low, high)):
            found |= zip(range(start, end), range(low, high), strict=True)
    return found


def _unchanged_items(new: Sequence[Item], old: Sequence[Item]) -> Iterator[tuple[int, int]]:
    """Items that look the same; several of them in their order, if none is missing or they are the same."""
    olds = _places(old)
    for seen, places in _places(new).items():
        before = olds.get(seen, [])
        if len(before) == len(places):
            yield from zip(places, before, strict=True)
        elif before and len({old[index].real for index in before}) == 1:
            yield from ((place, before[0]) for place in places)


def _places(items: Sequence[Item]) -> dict[Hashable, list[int]]:
    places: dict[Hashable, list[int]] = defaultdict(list)
    for index, item in enumerate(items):
        places[item.seen].append(index)
    return places


def _gaps(found: dict[int, int], length: int) -> Iterator[tuple[int, int]]:
    """(first, end) of each run of items that are not found yet."""
    start = 0
    for index in (*sorted(found), length):
        if index > start:
            yield start, index
        start = index + 1


def _unique_names(names: dict[int, Hashable | None]) -> dict[Hashable, int]:
    """Name -> index, of names that stand once."""
    places: dict[Hashable, list[int]] = defaultdict(list)
    for index, name in names.items():
        if name is not None:
            places[name].append(index)
    return {name: indexes[0] for name, indexes in places.items() if len(indexes) == 1}
