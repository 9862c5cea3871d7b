"""Threads that are reused and never in the way of an exit."""

from __future__ import annotations

import logging
import threading

from Middleware.api.requests.answering import BackgroundThreads
from tests.patience import PATIENCE_S


def test_tasks_start_at_once_side_by_side():
    """However many there are."""
    threads, barrier = BackgroundThreads(), threading.Barrier(4)
    for _ in range(3):
        threads.run(barrier.wait)
    barrier.wait(PATIENCE_S)


def test_an_idle_thread_is_used_again():
    """A thread costs more than a task."""
    threads, used = BackgroundThreads(), []
    for _ in range(3):
        done = threading.Event()
        threads.run(lambda done=done: (used.append(threading.current_thread()), done.set()))
        assert done.wait(PATIENCE_S)
        while not threads.idle:
            done.wait(0.001)
            threading.Event().wait(0.001)
    assert len(set(used)) == 1
    assert used[0].daemon


def test_a_failing_task_is_logged_and_its_thread_goes_on(caplog):
    """What a task raises is its own."""

    def fail():
        raise OSError("no")

    threads, done = BackgroundThreads(), threading.Event()
    with caplog.at_level(logging.ERROR):
        threads.run(fail)
        threads.run(done.set)
        assert done.wait(PATIENCE_S)
        while "a background task failed" not in caplog.text:
            threading.Event().wait(0.001)


def test_idle_threads_end():
    """After a while without work."""
    threads, used, done = BackgroundThreads(idle_s=0.01), [], threading.Event()
    threads.run(lambda: (used.append(threading.current_thread()), done.set()))
    assert done.wait(PATIENCE_S)
    used[0].join(PATIENCE_S)
    assert not used[0].is_alive()
