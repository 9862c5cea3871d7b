"""Nearest vectors, with and without numpy in the same order. Source: spec memory.md 8.4, 18.4."""

from __future__ import annotations

import subprocess
import sys
from array import array
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from Middleware.utilities import vector_math
from Middleware.utilities.vector_math import (
    candidates,
    cosine,
    floats,
    matrix_ids,
    normalised_matrix,
    rank_rows,
    stack_rows,
)

VECTORS = st.lists(st.lists(st.floats(-100, 100, width=32), min_size=3, max_size=3), min_size=1, max_size=40)


def blob(*numbers):
    return array("f", numbers).tobytes()


def by_numpy(query, vectors, limit):
    """What the matrix finds, put in exact order."""
    rows = {i: blob(*vector) for i, vector in enumerate(vectors)}
    near = candidates(query, normalised_matrix(list(rows.values()), 3), matrix_ids(list(rows)), limit)
    return rank_rows(query, [(each, rows[each]) for each, _ in near], limit)


class TestCosine:
    """From 1 (same direction) to -1."""

    @pytest.mark.parametrize(
        ("one", "other", "value"),
        [
            ([1, 0], [5, 0], 1),
            ([1, 0], [0, 3], 0),
            ([1, 0], [-2, 0], -1),
            ([1, 0], [1, 0, 0], 0),
            ([0, 0], [1, 1], 0),
        ],
        ids=["same", "right-angle", "opposite", "other-length", "no-length"],
    )
    def test_values(self, one, other, value):
        assert cosine(one, other) == pytest.approx(value)

    def test_a_stored_vector_gives_its_numbers(self):
        assert list(floats(blob(0.5, -2))) == [0.5, -2]


class TestRanking:
    """The nearest first; of equal ones the lower id."""

    def test_ties_go_by_id(self):
        rows = [(7, blob(1, 0)), (3, blob(2, 0)), (5, blob(0, 1))]
        assert [each for each, _ in rank_rows([1.0, 0.0], rows, 3)] == [3, 7, 5]

    @given(VECTORS, st.integers(1, 10))
    def test_numpy_finds_the_same(self, vectors, limit):
        rows = [(i, blob(*vector)) for i, vector in enumerate(vectors)]
        assert by_numpy([1.0, 2.0, -3.0], vectors, limit) == rank_rows([1.0, 2.0, -3.0], rows, limit)

    def test_of_a_crowd_of_equal_ones_the_lowest_ids_are_found(self):
        vectors = [[1.0, 0.0, 0.0]] * 5000 + [[1.0, 0.0, 0.05]]
        assert [each for each, _ in by_numpy([1.0, 0.0, 0.05], vectors, 3)] == [5000, 0, 1]

    def test_a_query_without_length_is_near_nothing(self):
        assert by_numpy([0.0, 0.0, 0.0], [[1.0, 0.0, 0.0]], 1) == [(0, 0.0)]

    def test_matrices_are_stacked(self):
        one = normalised_matrix([blob(3, 0)], 2)
        assert stack_rows(one, normalised_matrix([blob(0, 2)], 2)).tolist() == [[1, 0], [0, 1]]


def test_without_numpy_the_module_says_so():
    """It is an extra."""
    assert vector_math.numpy_module() is not None
    code = (
        "import sys; sys.modules['numpy'] = None\n"
        "from Middleware.utilities import vector_math\n"
        "assert vector_math.numpy_module() is None\n"
        "assert vector_math.rank_rows([1.0], [(1, b'\\0\\0\\x80\\x3f')], 1) == [(1, 1.0)]\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_server_starts_without_numpy():
    """It is loaded by the first search, not by a start."""
    code = (
        "import sys, server\n"
        "from Middleware.utilities import vector_math\n"
        "from Middleware.workflows.managers import categorization, workflow_manager\n"
        "from Middleware.workflows.memory import vector_search\n"
        "assert 'numpy' not in sys.modules\n"
        "vector_math.matrix_ids([1])\n"
        "assert 'numpy' in sys.modules\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[2],
        check=False,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
