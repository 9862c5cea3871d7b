"""Streams that wait together under gevent, and who does not."""

from __future__ import annotations

import socket
import subprocess
import sys

from Middleware.llmapis.wire.reader import shared_wait
from tests.patience import PATIENCE_S

SETTING = """
from gevent import monkey
monkey.patch_all()
import ssl
import gevent
from gevent import socket
from Middleware.common.errors import BackendError
from Middleware.llmapis.wire import reader as module
from Middleware.llmapis.wire.reader import BodyCut, ChunkedFraming, SocketBody

module.STEP_S = 0.01
TICK_S = 0.1

def pair():
    ours, theirs = socket.socketpair()
    return ours, theirs, SocketBody(ours, ChunkedFraming(), None, lambda: b"")

def read(body, limit_s=60.0):
    return list(body.reads(tick_s=TICK_S, limit_s=limit_s))

def waiting():
    return [wait for ticker in module._tickers.values() for wait in ticker._waits]
"""

LONE_TOKENS = """
pairs = [pair() for _ in range(20)]
jobs = [gevent.spawn(read, body) for _, _, body in pairs]
gevent.sleep(0)
assert len(waiting()) == 20
for piece in (b"1\\r\\na\\r\\n", b"1\\r\\nb\\r\\n0\\r\\n\\r\\n"):
    gevent.sleep(0.25)
    for _, theirs, _ in pairs:
        theirs.sendall(piece)
gevent.joinall(jobs)
for job in jobs:
    assert b"".join(job.value) == b"ab"
    assert job.value.count(b"") >= 2, job.value
assert waiting() == []
"""

SILENCE = """
_, theirs, body = pair()
try:
    read(body, limit_s=0.35)
except TimeoutError as error:
    assert str(error) == "nothing came for 0.35 s", error
else:
    raise SystemExit("it waited on")
assert waiting() == []
"""

BREAKS = """
ours, theirs, body = pair()
job = gevent.spawn(read, body)
gevent.sleep(0)
ours.shutdown(socket.SHUT_RDWR)
job.join(600)
assert isinstance(job.exception, BodyCut), job.exception
assert waiting() == []
"""

DROPPED = """
_, theirs, body = pair()
reads = body.reads(tick_s=TICK_S, limit_s=60)
assert next(reads) == b""
assert len(waiting()) == 1
reads.close()
assert waiting() == []
"""

OTHERS = """
plain, theirs, _ = pair()
for tick_s in (0.001, 4.9 * module.STEP_S):
    assert module.shared_wait(plain, tick_s) is None
shortest = module.shared_wait(plain, 5 * module.STEP_S)
shortest.close()
secret = ssl.create_default_context().wrap_socket(
    socket.socket(), server_hostname="x", do_handshake_on_connect=False
)
assert module.shared_wait(secret, 1.0) is None
strange = gevent.get_hub().threadpool.apply(lambda: module.shared_wait(plain, 1.0))
assert strange is None
"""


def under_gevent(script):
    command = [sys.executable, "-W", "ignore", "-c", f"{SETTING}\n{script}\nprint('good')"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    return done.stdout or done.stderr


def test_lone_tokens_and_ticks():
    """Nothing is lost or held, and the silence between them is told."""
    assert under_gevent(LONE_TOKENS) == "good\n"


def test_a_silence_that_is_too_long():
    """Is the reader's to tell, as without the ticker."""
    assert under_gevent(SILENCE) == "good\n"


def test_a_connection_that_is_shut():
    """Wakes its reader at once: this is how a call is cancelled."""
    assert under_gevent(BREAKS) == "good\n"


def test_a_stream_that_is_dropped():
    """Leaves nothing behind."""
    assert under_gevent(DROPPED) == "good\n"


def test_who_keeps_the_time_out_of_the_socket():
    """Ticks of less than five steps, TLS, and a socket of another thread's loop."""
    assert under_gevent(OTHERS) == "good\n"


def test_without_gevent():
    """A socket of the system waits for itself."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert shared_wait(ours, 1.0) is None
