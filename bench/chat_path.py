"""What a streamed chat passes: modules and shapes up to the POST to its backend, iterators of each chunk.

    python bench/chat_path.py [--list]

Counts, no times, so every run gives the same. One chat of one model node goes through the application and a
real socket to a backend in this process. A *shape* is a class of this program of which an instance is made
between the door to the engine and the POST. An *iterator* is a generator or a `__next__` that is running when
the socket is read for a later chunk. *Calls* are those of Python functions between two reads of the socket.
"""

from __future__ import annotations

import argparse
import inspect
import json
import logging
import statistics
import sys
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import FrameType
from typing import Any

from one_chat import write_tree

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from Middleware.api import workflow_gateway  # noqa: E402
from Middleware.llmapis.wire.http import Transport  # noqa: E402
from server import get_application  # noqa: E402

HERE = f"{ROOT / 'Middleware'}/"
WORDS = 5


class Backend(BaseHTTPRequestHandler):
    """Answers a few words, each in a read of its own: it leaves when the client has the one before."""

    protocol_version = "HTTP/1.1"
    go_on = threading.Semaphore(0)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for number in range(WORDS):
            chunk = {"choices": [{"delta": {"content": f" {number}"}, "finish_reason": None}]}
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
            self.go_on.acquire(timeout=5)
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *_: Any) -> None:
        """Nobody reads it."""


class Passage:
    """What was seen of one chat. `chain`: the iterators of a chunk, the client's first; `calls`: functions of
    this program that were called from one read of the socket to the next."""

    def begin(self) -> None:
        """Forget the chat before."""
        self.modules: set[str] = set()
        self.shapes: set[str] = set()
        self.chain: list[str] = []
        self.calls: list[int] = []
        self._in_engine = self._posted = False

    def watch(self, frame: FrameType, event: str, argument: Any) -> None:
        """For `threading.setprofile`."""
        if event == "c_call" and getattr(argument, "__name__", "") == "recv":
            if chain := list(_iterators(frame))[::-1]:
                self.chain = chain
                self.calls.append(0)
        elif event == "call":
            if self.calls:
                self.calls[-1] += frame.f_code.co_filename.startswith(HERE)
            if not self._posted:
                self._enter(frame)

    def _enter(self, frame: FrameType) -> None:
        code = frame.f_code
        self._in_engine = self._in_engine or code is workflow_gateway.open_answer.__code__
        self._posted = code is Transport.post.__code__
        if code.co_filename.startswith(HERE):
            self.modules.add(code.co_filename.removeprefix(HERE))
        if self._in_engine and code.co_name in ("__init__", "__new__"):
            made = frame.f_locals[code.co_varnames[0]]
            kind = made if isinstance(made, type) else type(made)
            if kind.__module__.startswith("Middleware."):
                self.shapes.add(f"{kind.__module__.removeprefix('Middleware.')}.{kind.__qualname__}")


def _iterators(frame: FrameType | None) -> Iterator[str]:
    """Those of this program that are running, innermost first."""
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith(HERE) and (
            code.co_flags & inspect.CO_GENERATOR or code.co_name == "__next__"
        ):
            yield f"{code.co_filename.removeprefix(HERE)} {code.co_qualname}"
        frame = frame.f_back


def passage() -> Passage:
    """The second of two chats: the first one fills the caches."""
    backend = ThreadingHTTPServer(("127.0.0.1", 0), Backend)
    threading.Thread(target=backend.serve_forever, daemon=True).start()
    seen = Passage()
    seen.begin()
    with tempfile.TemporaryDirectory() as folder:
        root = write_tree(Path(folder), backend.server_address[1])
        client = get_application("--PublicDirectory", str(root), "--User", "ana").test_client()
        question = {"stream": True, "messages": [{"role": "user", "content": "go"}]}
        threading.setprofile(seen.watch)
        sys.setprofile(seen.watch)
        for _ in range(2):
            seen.begin()
            Backend.go_on = threading.Semaphore(0)
            with client.post("/v1/chat/completions", json=question) as response:
                for _ in response.response:
                    Backend.go_on.release()
        sys.setprofile(None)
        threading.setprofile(None)
    backend.shutdown()
    return seen


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--list", action="store_true", help="say what was counted")
    given = arguments.parse_args()
    logging.disable()
    seen = passage()
    for name, found in (
        ("modules up to the POST", sorted(seen.modules)),
        ("shapes between the engine's door and the POST", sorted(seen.shapes)),
        ("iterators of a chunk", seen.chain),
    ):
        print(f"{name}: {len(found)}")
        if given.list:
            print("".join(f"    {one}\n" for one in found), end="")
    print(f"calls a chunk: {statistics.mode(seen.calls)}")


if __name__ == "__main__":
    main()
