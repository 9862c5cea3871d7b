"""An OpenAI server with one model, on a real socket."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.patience import PATIENCE_S

TOKEN = b'data: {"choices": [{"delta": {"content": "Hi"}}]}\n\ndata: [DONE]\n\n'


class ModelHandler(BaseHTTPRequestHandler, ABC):
    """Lists the model; a server's `calls` are the paths that were posted to. What is said to a call is the
    business of the class made of this."""

    server: Any

    def do_GET(self) -> None:
        self.answer(b'{"data": [{"id": "tiny"}]}', "application/json")

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.calls.append(self.path)
        self.answer_call()

    @abstractmethod
    def answer_call(self) -> None:
        """What the model says."""

    def answer(self, body: bytes, content_type: str, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: Any) -> None:
        """Says nothing."""


@contextmanager
def model_server(handler: type[ModelHandler]) -> Iterator[Any]:
    """Serves until the block ends."""
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.calls = []
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join(PATIENCE_S)
