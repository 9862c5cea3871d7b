"""Long work beside the event loop."""

from __future__ import annotations

import subprocess
import sys
import threading

from Middleware.utilities.file_utils import beside_the_loop
from tests.patience import PATIENCE_S


def test_with_real_threads_the_work_is_done_here():
    """The other threads run anyway."""
    assert beside_the_loop(threading.get_ident) == threading.get_ident()


def test_under_gevent_other_greenlets_run_meanwhile():
    """In a process of its own: patching cannot be undone."""
    code = (
        "from gevent import monkey; monkey.patch_all()\n"
        "import gevent\n"
        "real = monkey.get_original('threading', 'Event')()\n"
        "from Middleware.utilities.file_utils import beside_the_loop\n"
        "gevent.spawn(real.set)\n"
        "assert beside_the_loop(lambda: real.wait(60))\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=PATIENCE_S).returncode == 0
