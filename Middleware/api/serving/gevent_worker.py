"""gunicorn's gevent worker, for many slow streams: `gunicorn -k Middleware.api.serving.gevent_worker.Worker`.

A token leaves with one `send`; gevent's own `sendall` asks for the size of the socket's buffer each time. The
plain class (`-k gevent`) serves as well. Imports gevent; nothing else imports this module.
"""

from __future__ import annotations

from typing import Any

from gevent.socket import socket
from gunicorn.workers.ggevent import GeventWorker  # type: ignore[import-untyped]

from Middleware.utilities.library_internals import require

require("gevent")


class _Socket(socket):  # type: ignore[misc]
    """A client's connection."""

    def sendall(self, data: Any, flags: int = 0) -> None:
        """All of `data`; what one call does not take is gevent's to send."""
        sent = self.send(data, flags)
        if sent < len(data):
            super().sendall(memoryview(data)[sent:], flags)


class Worker(GeventWorker):  # type: ignore[misc]
    """One process of gunicorn. Connections with TLS stay as gunicorn makes them."""

    def handle(self, listener: Any, client: Any, addr: Any) -> None:
        """The requests of one connection."""
        if type(client) is socket:
            client = _Socket(client.family, client.type, client.proto, fileno=client.detach())
        super().handle(listener, client, addr)
