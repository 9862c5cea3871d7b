"""What the four plug-in tables are: a name -> class table that is checked when a plug-in registers."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Generic, TypeVar

T = TypeVar("T")


class NamesView:
    """A live, read-only collection of names, empty until a `Registry` fills it."""

    def __init__(self) -> None:
        self._names: list[str] = []

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._names))

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"NamesView({self._names!r})"


class Registry(Generic[T]):
    """Name -> class, in order of registration. A name registered twice is an error, at import."""

    def __init__(self, what: str, base: type | None = None, *, view: NamesView | None = None) -> None:
        self._what, self._base = what, base
        self._table: dict[str, T] = {}
        self._view = view if view is not None else NamesView()

    def register(self, *names: str) -> Callable[[T], T]:
        """Decorator. Raises TypeError for a class that does not fit, ValueError for a name that is taken."""

        def add(item: T) -> T:
            if self._base is not None and not (isinstance(item, type) and issubclass(item, self._base)):
                raise TypeError(f"{item!r} is not a {self._base.__name__} and cannot be a {self._what}")
            for name in names:
                if name in self._table:
                    raise ValueError(f"{self._what} {name!r} is registered twice")
                self._table[name] = item
                self._view._names.append(name)
            return item

        return add

    def get(self, name: str) -> T | None:
        return self._table.get(name)

    def __getitem__(self, name: str) -> T:
        return self._table[name]

    def __contains__(self, name: object) -> bool:
        return name in self._table

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)

    def items(self) -> list[tuple[str, T]]:
        return list(self._table.items())


def load_all(package: ModuleType) -> None:
    """Import every module of `package`, in order of name. An import error is not caught: the start names
    the module.
    """
    for module in sorted(info.name for info in pkgutil.iter_modules(package.__path__)):
        importlib.import_module(f"{package.__name__}.{module}")
