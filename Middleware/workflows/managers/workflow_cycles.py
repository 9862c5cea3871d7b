"""Workflows that call themselves, directly or through others. Pure. Source: workflows.md 16.6."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from Middleware.config.validation import NOTE, WARNING, Finding


def cycles(children: Mapping[str, list[tuple[str, bool]]]) -> Iterator[Finding]:
    """A warning for a circle of calls that no condition can end, a note for any other."""
    certain = {file: [c for c, conditional in calls if not conditional] for file, calls in children.items()}
    possible = {file: [c for c, _ in calls] for file, calls in children.items()}
    told: set[frozenset[str]] = set()
    for graph, level, message in (
        (certain, WARNING, "calls itself without a condition"),
        (possible, NOTE, "calls itself, under a condition"),
    ):
        for circle in _circles(graph):
            if frozenset(circle) not in told:
                told.add(frozenset(circle))
                names = " > ".join([*circle, circle[0]])
                yield Finding(circle[0], "", level, f"{message}: {names}")


def _circles(graph: Mapping[str, list[str]]) -> Iterator[list[str]]:
    """One circle for each edge that leads back (depth first, without recursion)."""
    done: set[str] = set()
    for start in graph:
        path: list[str] = []
        stack: list[tuple[str, bool]] = [(start, False)]
        while stack:
            file, leaving = stack.pop()
            if leaving:
                path.pop()
                done.add(file)
            elif file in path:
                yield path[path.index(file) :]
            elif file not in done:
                path.append(file)
                stack.append((file, True))
                stack.extend((child, False) for child in graph.get(file, ()))
