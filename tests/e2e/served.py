"""What the model servers of the tests share: a real server on a free port, which says nothing of its callers."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A caller that hung up is no event."""


class QuietHandler(BaseHTTPRequestHandler):
    """One connection, which is kept."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed."""

    def send_whole(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class ServedBackend:
    """The server; `url` is what an endpoint file names. `handler`: its connections know it as `backend`."""

    def __init__(self, handler: type[QuietHandler]) -> None:
        self._server = _Server(("127.0.0.1", 0), type("Handler", (handler,), {"backend": self}))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
