"""Batches of texts to embed, and what one bad text costs. Source: spec memory.md 8.6, 18.4 (6)."""

from __future__ import annotations

import pytest

from Middleware.common.errors import BackendError
from Middleware.workflows.memory.upkeep import batches, embed_texts


class Embedder:
    """Refuses calls that hold a bad text; `cancelled`: gives None from that call on."""

    def __init__(self, bad=(), cancelled=None):
        self.bad, self.cancelled, self.calls = set(bad), cancelled, []

    def __call__(self, texts):
        self.calls.append(list(texts))
        if self.cancelled is not None and len(self.calls) > self.cancelled:
            return None
        if self.bad & set(texts):
            raise BackendError("e", "bad_request", "refused")
        return [[float(text)] for text in texts]


def texts(count):
    return [str(i) for i in range(count)]


@pytest.mark.parametrize(
    ("lengths", "sizes"),
    [([1] * 130, [64, 64, 2]), ([150_000, 60_000, 1], [1, 2]), ([300_000, 1], [1, 1]), ([], [])],
    ids=["by-count", "by-bytes", "one-too-long", "none"],
)
def test_batches_keep_to_both_bounds(lengths, sizes):
    assert [len(places) for places in batches(["x" * length for length in lengths])] == sizes


def test_all_texts_get_their_vector():
    assert embed_texts(texts(70), Embedder()) == {i: [float(i)] for i in range(70)}


def test_one_bad_text_costs_only_itself():
    """The batch is halved once; the half with the bad text goes one by one."""
    embedder = Embedder(bad=["5"])
    assert embed_texts(texts(8), embedder).keys() == {0, 1, 2, 3, 4, 6, 7}
    assert [len(call) for call in embedder.calls] == [8, 4, 4, 1, 1, 1, 1]


def test_a_batch_that_fails_once_loses_nothing():
    """The halves are asked for all of it, and the next batch follows."""
    embedder, failures = Embedder(), [BackendError("e", "overloaded", "later")]

    def embed(batch):
        if failures:
            raise failures.pop()
        return embedder(batch)

    assert embed_texts(texts(70), embed).keys() == set(range(70))
    assert [len(call) for call in embedder.calls] == [32, 32, 6]


def test_a_half_of_one_bad_text_is_given_up():
    assert embed_texts(texts(2), Embedder(bad=["1"])).keys() == {0}


def test_a_batch_whose_halves_both_fail_is_given_up():
    """The others go on; the endpoint is not asked text by text."""
    embedder = Embedder(bad=["1", "60"])
    assert embed_texts(texts(65), embedder).keys() == {64}
    assert len(embedder.calls) == 4


def test_when_nothing_gets_a_vector_the_failure_is_raised():
    with pytest.raises(BackendError):
        embed_texts(["0"], Embedder(bad=["0"]))


@pytest.mark.parametrize(
    ("calls", "bad", "known"), [(0, (), 0), (1, (), 64), (1, ("1",), 0), (3, ("1",), 32)], ids=str
)
def test_a_cancelled_request_keeps_what_it_has(calls, bad, known):
    """In whichever step."""
    assert len(embed_texts(texts(70), Embedder(bad, cancelled=calls))) == known
