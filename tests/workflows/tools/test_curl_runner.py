"""The curl program: its output, its limits, and in a process that gevent patched, where pipes are read as all else."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from Middleware.common.errors import RequestCancelled
from Middleware.services.cancellation_service import cancellation_service
from Middleware.workflows.tools.curl_runner import run_curl
from tests.e2e.conftest import HOUSE
from tests.patience import PATIENCE_S, wait_until

CODE = """
from gevent import monkey; monkey.patch_all()
import gevent, sys
from Middleware.workflows.tools.curl_runner import run_curl
from tests.patience import growing_limits

beats = []
gevent.spawn(lambda: [beats.append(gevent.sleep(0.01)) for _ in range(9999)])
jobs = [gevent.spawn(run_curl, [], "in", timeout_s=60, cap=300_000) for _ in range(20)]
gevent.joinall(jobs)
print({(len(job.value.stdout), len(job.value.stderr), job.value.returncode) for job in jobs}, len(beats) > 5)
limits = growing_limits()
while not (late := run_curl(["late"], "", timeout_s=next(limits), cap=None)).stdout:
    pass
print(late.late, late.stdout, late.returncode)
"""
PROGRAM = """#!/bin/sh
test "$1" = late && { printf out; exec sleep 60; }
cat > /dev/null
sleep 0.5
head -c 200000 /dev/zero
head -c 100000 /dev/zero >&2
exit 3
"""


def test_many_at_once_under_gevent(tmp_path):
    """Each has its output; the loop goes on meanwhile; a time limit ends one."""
    program = tmp_path / "curl"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        cwd=HOUSE,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "PYTHONPATH": str(HOUSE)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.stdout.splitlines() == ["{(200000, 100000, 3)} True", "True b'out' None"], done.stderr


@pytest.fixture
def curl(tmp_path, monkeypatch):
    """`curl(script)`: what runs in its place."""

    def put(script):
        program = tmp_path / "curl"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    return put


def run(words=(), config="", **settings):
    return run_curl(words, config, **{"timeout_s": PATIENCE_S, "cap": None, **settings})


@pytest.mark.parametrize(("cap", "kept"), [(None, 100_000), (100_000, 100_000), (1000, 1000)])
def test_errors_are_kept_up_to_the_cap(curl, cap, kept):
    """All of them are read, so that the program is not held up; they end no run."""
    curl("head -c 100000 /dev/zero >&2; printf out; exit 7")
    done = run(cap=cap)
    assert (done.stdout, len(done.stderr), done.returncode) == (b"out", kept, 7)
    assert not done.late and not done.too_large


@pytest.mark.parametrize(("cap", "too_large"), [(5, False), (4, True)])
def test_output_above_the_cap_ends_the_run(curl, cap, too_large):
    """What came up to there is kept; there is no status then."""
    curl("printf 12345" + ("; exec sleep 600" if too_large else ""))
    done = run(cap=cap)
    assert (done.stdout, done.too_large) == (b"12345"[:cap], too_large)
    assert done.returncode == (None if too_large else 0)


def test_a_run_that_takes_too_long_is_killed(curl):
    """With all that it has started."""
    curl("printf out; sleep 600 & wait")
    done = run(timeout_s=0.3)
    assert (done.late, done.too_large, done.returncode) == (True, False, None)


def test_it_gets_words_and_its_config(curl):
    """The second on its standard input, what is no character replaced."""
    curl('printf "%s|" "$@"; cat')
    assert run(["--config", "-"], "caf\u00e9 \ud800").stdout == "--config|-|caf\u00e9 ?".encode()


def test_a_program_that_does_not_read_says_why(curl):
    """By its status; that its input breaks is no failure of ours."""
    curl("exec <&-; exit 2")
    assert run(config="x" * 1_000_000).returncode == 2


def test_no_program(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="there is no program 'curl' on the PATH"):
        run()


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_cancelled_request_ends_its_run(curl, tmp_path, when):
    """At once, and nothing is kept for it."""
    curl(f"touch {tmp_path}/begun; exec sleep 600")

    def cancel():
        if when == "meanwhile":
            wait_until((tmp_path / "begun").exists)
        cancellation_service.request_cancellation("run")

    cancelling = threading.Thread(target=cancel)
    cancelling.start()
    if when == "before":
        cancelling.join(PATIENCE_S)
    try:
        with pytest.raises(RequestCancelled):
            run(request_id="run")
    finally:
        cancelling.join(PATIENCE_S)
        cancellation_service.acknowledge_cancellation("run")
    assert "run" not in cancellation_service._callbacks
