"""The curl program in a process that gevent patched: pipes are read as everything else is."""

from __future__ import annotations

import subprocess
import sys

from tests.e2e.conftest import HOUSE
from tests.patience import PATIENCE_S

CODE = """
from gevent import monkey; monkey.patch_all()
import gevent, sys
from Middleware.workflows.tools.curl_runner import run_curl

beats = []
gevent.spawn(lambda: [beats.append(gevent.sleep(0.01)) for _ in range(9999)])
jobs = [gevent.spawn(run_curl, [], "in", timeout_s=60, cap=300_000) for _ in range(20)]
gevent.joinall(jobs)
print({(len(job.value.stdout), len(job.value.stderr), job.value.returncode) for job in jobs}, len(beats) > 5)
late = run_curl(["late"], "", timeout_s=0.2, cap=None)
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
