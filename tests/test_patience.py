"""Waiting without a clock: the helper, and that no test judges by how long something took."""

from __future__ import annotations

import re
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest
from hypothesis import settings

from tests.counting import calls_in
from tests.patience import PATIENCE_S, wait_until

TESTS = Path(__file__).parent
GIVEN = ("conformance", "soak", "fixtures")
"""Cases that others wrote, a test that is all about time, programs that tests start."""
BY_THE_CLOCK = re.compile(
    r"perf_counter|(?:monotonic|time\.time)\(\) - |\bdeadline=(?!None, suppress)|thread_time"
)


def test_it_gives_what_the_claim_gives():
    """As soon as that is true."""
    given = iter(["", [], ["call"]])
    assert wait_until(lambda: next(given)) == ["call"]


def test_a_process_that_ended_ends_the_wait():
    """With what it said; what it did before its end counts."""
    process = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
    process.wait()
    assert wait_until(lambda: "made", process) == "made"
    with pytest.raises(AssertionError, match="ended with 3: no port"):
        wait_until(lambda: False, process, lambda: "no port")


def test_work_is_counted():
    """The same on every run, and more where there is more."""

    def work(count):
        return lambda: [abs(number) for number in range(count)]

    assert calls_in(work(50)) == calls_in(work(50)) < calls_in(work(51))


def test_no_example_of_hypothesis_has_a_deadline():
    assert settings().deadline is None


def test_the_limit_of_a_test_is_longer_than_its_patience():
    """So that what never came is said by the test that waited for it."""
    house = ConfigParser(interpolation=None)
    house.read(TESTS.parent / "setup.cfg")
    assert house.getint("tool:pytest", "timeout") > PATIENCE_S


def test_no_test_measures_wall_time():
    """Order, counts and events are judged, or an injected clock; CPU time where nothing else shows the work."""
    own = [path for path in TESTS.rglob("*.py") if path.relative_to(TESTS).parts[0] not in GIVEN]
    offenders = [
        str(path.relative_to(TESTS))
        for path in own
        if path != Path(__file__) and BY_THE_CLOCK.search(path.read_text("utf-8"))
    ]
    assert not offenders
