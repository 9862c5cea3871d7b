"""What a request leaves in memory: the application is called in this process, with garbage collection off.

    python -m tests.e2e.leftovers PUBLIC USER... < requests.json

Each request is `{"path", "body", "bytes"}`: `bytes` is how much of the answer the client reads before it hangs up
(absent: all). Each body says `MARK`. Printed: a JSON list with `{"status", "left"}` for each, `left` being the objects
that still hold a text with the mark. Run in a process of its own: what a test keeps must not be counted.
"""

from __future__ import annotations

import gc
import io
import json
import sys
import threading
import time
from typing import Any

from server import get_application
from tests.patience import PATIENCE_S

MARK = "the-conversation-of-"


def main(words: list[str]) -> None:
    public, *users = words
    named = [word for user in users for word in ("--User", user)]
    server = (
        "--concurrency",
        "0",
        "--console-memory",
        "0",
    )  # runs are kept, as facts: the texts would be found
    app = get_application("--PublicDirectory", public, *named, *server)
    requests = json.load(sys.stdin)
    _call(app, requests[0], "warm-up")
    gc.collect()
    gc.freeze()  # what was loaded need not be looked at
    gc.disable()
    results = []
    for number, request in enumerate(requests):
        status = _call(app, request, f"{number}.")
        results.append({"status": status, "left": _left(f"{MARK}{number}.")})
    print(json.dumps(results))


def _call(app: Any, request: dict[str, Any], name: str) -> str:
    """One request as a WSGI server would hand it over. The status line."""
    text = json.dumps(request["body"]).replace("MARK", MARK + name)
    body = io.BytesIO(text.encode())
    gone = threading.Event()
    environ = {
        "REQUEST_METHOD": "POST",
        "SCRIPT_NAME": "",
        "PATH_INFO": request["path"],
        "QUERY_STRING": "",
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "HTTP_HOST": "127.0.0.1",
        "CONTENT_TYPE": "application/json",
        "CONTENT_LENGTH": str(len(body.getvalue())),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": body,
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
        "waitress.client_disconnected": gone.is_set,
    }
    statuses: list[str] = []
    if request.get("bytes") == 0:
        threading.Timer(0.3, gone.set).start()
    pieces = app(environ, lambda status, headers, exc_info=None: statuses.append(status))
    read = 0
    try:
        for piece in pieces:
            read += len(piece)
            if read > request.get("bytes", sys.maxsize):
                break
    finally:
        if hasattr(pieces, "close"):
            pieces.close()
    return statuses[0]


def _left(mark: str) -> list[str]:
    """The objects that hold the mark, in words; what a background thread still winds up gets five seconds."""
    end = time.monotonic() + PATIENCE_S
    while (holders := _holders(mark)) and time.monotonic() < end:
        time.sleep(0.02)
    return holders


def _holders(mark: str) -> list[str]:
    return [
        f"{type(item).__name__} held by {sorted({type(holder).__qualname__ for holder in gc.get_referrers(item)})}"
        for item in gc.get_objects()
        if any(_says(part, mark) for part in gc.get_referents(item)) and not _is_own(item)
    ]


def _says(part: object, mark: str) -> bool:
    if isinstance(part, bytes | bytearray):
        return mark.encode() in part
    return isinstance(part, str) and len(part) > len(mark) and mark in part


def _is_own(item: object) -> bool:
    """The frames of this module look at the texts themselves."""
    return getattr(getattr(item, "f_code", None), "co_filename", None) == __file__


if __name__ == "__main__":
    main(sys.argv[1:])
