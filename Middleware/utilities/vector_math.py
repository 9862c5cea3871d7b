"""Which vectors are nearest to one: with numpy if it is installed, else in plain Python; the same order
either way.

Pure. Similarity is the cosine; a vector without length is like nothing (0.0). Source: spec memory.md 8.4,
18.4.
"""

from __future__ import annotations

import heapq
import math
from array import array
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any


@cache
def numpy_module() -> Any:
    """numpy, None where the extra `memory` is not installed. It is loaded by the first search that needs it:
    it takes 12 MB and more time than most of a start.
    """
    try:
        import numpy
    except ImportError:
        return None
    return numpy


FLOAT_BYTES = 4
_SLACK = 1e-5
"""Products of float32 matrices are this near to the exact cosine, with room."""

Ranked = list[tuple[int, float]]
"""Ids with their similarity, the most similar first; of equal ones the lower id."""


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    """Similarity of two vectors; 0.0 for different lengths or a vector without length."""
    if len(one) != len(other):
        return 0.0
    lengths = math.sqrt(math.fsum(x * x for x in one)) * math.sqrt(math.fsum(x * x for x in other))
    if not lengths:
        return 0.0
    return math.fsum(x * y for x, y in zip(one, other, strict=True)) / lengths


def floats(blob: bytes) -> array[float]:
    """The numbers of a stored vector."""
    numbers = array("f")
    numbers.frombytes(blob)
    return numbers


def rank_rows(query: Sequence[float], rows: Iterable[tuple[int, bytes]], limit: int) -> Ranked:
    """The `limit` nearest of rows (id, stored vector), exactly. For few rows, and where there is no numpy."""
    scored = ((cosine(query, floats(blob)), each) for each, blob in rows)
    best = heapq.nsmallest(limit, scored, key=lambda pair: (-pair[0], pair[1]))
    return [(each, score) for score, each in best]


def normalised_matrix(blobs: Sequence[bytes], dim: int) -> Any:
    """A float32 matrix of stored vectors, each of length one (or zero)."""
    np = numpy_module()
    matrix = np.frombuffer(b"".join(blobs), dtype=np.float32).reshape(len(blobs), dim)
    lengths = np.sqrt(np.einsum("ij,ij->i", matrix, matrix, dtype=np.float64))
    lengths[lengths == 0] = 1
    return (matrix / lengths[:, None]).astype(np.float32)


def matrix_ids(ids: Sequence[int]) -> Any:
    """The ids of a matrix's rows."""
    np = numpy_module()
    return np.array(ids, dtype=np.int64)


def stack_rows(one: Any, other: Any) -> Any:
    """Two matrices, or two lists of ids, one under the other."""
    return numpy_module().concatenate([one, other])


def candidates(query: Sequence[float], matrix: Any, ids: Any, limit: int) -> list[tuple[int, float]]:
    """Ids (with about their similarity) among which the `limit` nearest surely are.

    More than `limit` of them when several are about equally near; of a crowd of nearly equal ones those
    with the lowest ids.
    """
    np = numpy_module()
    direction = np.asarray(query, dtype=np.float64)
    length = float(np.linalg.norm(direction)) or 1.0
    scores = matrix @ (direction / length).astype(np.float32)
    if len(scores) > limit:
        edge = float(np.partition(scores, len(scores) - limit)[len(scores) - limit])
        near = np.flatnonzero(scores >= edge - _SLACK)
        if len(near) > 2 * limit + 1000:
            near = _thin_crowd(scores, ids, near, edge, limit)
    else:
        near = np.arange(len(scores))
    return [(int(ids[place]), float(scores[place])) for place in near]


def _thin_crowd(scores: Any, ids: Any, near: Any, edge: float, limit: int) -> Any:
    """All that is surely nearer than the edge, and of the crowd at the edge the lowest ids."""
    np = numpy_module()
    clear = scores[near] > edge + _SLACK
    crowd = near[~clear]
    return np.concatenate([near[clear], crowd[np.argsort(ids[crowd], kind="stable")][: limit + 1000]])
