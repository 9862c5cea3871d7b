"""What our class of gunicorn's worker does with a connection."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.patience import PATIENCE_S

pytest.importorskip("gunicorn")

SCRIPT = """
from gevent import monkey
monkey.patch_all()
import gevent
from gevent import socket
from gunicorn.workers.ggevent import GeventWorker
from Middleware.api.serving.gevent_worker import Worker

DATA = bytes(range(256)) * 20_000
seen = []

def answer(worker, listener, client, addr):
    seen.append(type(client))
    client.sendall(b"lone")
    client.sendall(DATA)
    client.close()

GeventWorker.handle = answer
ours, theirs = socket.socketpair()
job = gevent.spawn(Worker.handle, object.__new__(Worker), None, ours, None)
got = bytearray()
while piece := theirs.recv(65536):
    got += piece
    gevent.sleep(0)
job.get()
assert got == b"lone" + DATA, len(got)
assert seen[0] is not socket.socket and ours.fileno() == -1

class Other(socket.socket):
    pass

other = Other()
GeventWorker.handle = lambda worker, listener, client, addr: seen.append(client)
Worker.handle(object.__new__(Worker), None, other, None)
assert seen[-1] is other
print("good")
"""


def test_a_connection_takes_whatever_is_sent():
    """In one piece where the socket has room, else bit by bit; what is no plain socket (TLS) stays as it is."""
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.stdout == "good\n", done.stderr
