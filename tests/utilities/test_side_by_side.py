"""Pieces of work at the same time: what becomes of their results and of the threads."""

from __future__ import annotations

import threading

from Middleware.utilities.side_by_side import run_together


def test_the_threads_of_a_group_are_given_back():
    """Also after an error: the next group of the request may take them."""
    threads = threading.Semaphore(2)

    def work(number: int) -> int:
        if number == 1:
            raise ValueError("no")
        return number

    for _ in range(2):
        first, second, third = run_together(3, work, threads)
        assert (first, str(second), third) == (0, "no", 2)
        assert [threads.acquire(blocking=False) for _ in range(3)] == [True, True, False]
        threads.release(2)


def test_without_a_thread_to_spare_they_run_in_order():
    """One after the other, in the thread of whoever asks."""
    seen: list[tuple[int, int]] = []
    run_together(3, lambda n: seen.append((n, threading.get_ident())), threading.Semaphore(0))
    assert seen == [(n, threading.get_ident()) for n in range(3)]
