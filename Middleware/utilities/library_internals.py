"""The private and undocumented parts of libraries that this program cannot do without, with their reasons.

No other module touches a name with a leading underscore that is not its own. Whoever uses a library so calls
`require` for it when it is imported: a release that moved such a part then stops the start with one sentence,
instead of breaking a stream hours later. Imports none of the libraries itself. `setup.cfg` bounds their next
major version.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import signature
from types import SimpleNamespace
from typing import Any


@dataclass(frozen=True, slots=True)
class PrivatePart:
    """`name` of what `owner` makes out of the imported `module`: a class, or an object where the part is made
    with it.
    """

    library: str
    module: str
    owner: Callable[[Any], object]
    name: str


def _parameters_of(function: Callable[..., Any]) -> object:
    """An object that has each parameter as an attribute."""
    return SimpleNamespace(**signature(function).parameters)


PRIVATE_PARTS: Sequence[PrivatePart] = (
    # An abort must reach a call that still connects, so the connections open their sockets themselves
    # (`wire/connections.py`). `host` lacks the last dot of a name; without it DNS tries search domains, as
    # urllib3 says beside `HTTPConnection.host`.
    PrivatePart("urllib3", "urllib3.connection", lambda m: m.HTTPConnection, "_new_conn"),
    PrivatePart("urllib3", "urllib3.connection", lambda m: m.HTTPConnection("localhost"), "_dns_host"),
    # The pool says nowhere else when a connection comes back; an idle one is closed by our own clock.
    PrivatePart("urllib3", "urllib3.connectionpool", lambda m: m.HTTPConnectionPool, "_put_conn"),
    # The way to the socket of a response: urllib3's own readers give one transfer chunk a call, so that
    # tokens which came together could not be handled together.
    PrivatePart("urllib3", "urllib3.response", lambda m: m.HTTPResponse(b""), "_fp"),
    # waitress closes a connection after a refusal while the client still sends; the client's system then
    # throws the answer away unread. The answer is flushed by itself, then the connection lingers.
    # Source: RFC 9112, 9.6.
    PrivatePart("waitress", "waitress.channel", lambda m: m.HTTPChannel, "_flush_exception"),
    PrivatePart("waitress", "waitress.channel", lambda m: m.HTTPChannel, "_flush_some"),
    # What `serving/waitress_channel.py` puts in waitress's place has public names, but no documentation:
    # one that is gone would never be called, and a refused body, a trickle or a lost answer would be back.
    *(
        PrivatePart("waitress", "waitress.channel", lambda m: m.HTTPChannel, name)
        for name in (
            *("parser_class", "task_class", "error_task_class", "received", "readable", "writable"),
            *("handle_read", "handle_write", "request", "last_activity", "total_outbufs_len"),
            *("will_close", "close_when_flushed", "write_soon"),
        )
    ),
    *(
        PrivatePart("waitress", "waitress.parser", lambda m: m.HTTPRequestParser, name)
        for name in (
            *("received", "parse_header", "body_rcv", "header_plus", "chunked", "expect_continue"),
            *("body_bytes_received", "header_bytes_received", "completed", "error"),
        )
    ),
    *(
        PrivatePart("waitress", "waitress.task", lambda m: m.WSGITask, name)
        for name in (
            *("execute", "set_close_on_finish", "chunked_response", "wrote_header"),
            *("build_response_header", "finish"),
        )
    ),
    PrivatePart("waitress", "waitress.server", lambda m: m.BaseWSGIServer, "channel_class"),
    # The threads are woken in another order than waitress's own condition has (`LatestFirst`).
    PrivatePart("waitress", "waitress.server", lambda m: _parameters_of(m.create_server), "_dispatcher"),
    *(
        PrivatePart("waitress", "waitress.task", lambda m: m.ThreadedTaskDispatcher(), name)
        for name in ("lock", "queue_cv", "set_thread_count")
    ),
    # A peek through gevent's socket waits for data; the socket inside does not.
    PrivatePart("gevent", "gevent.socket", lambda m: m.socket, "_sock"),
)


def require(library: str, parts: Sequence[PrivatePart] = PRIVATE_PARTS) -> None:
    """Check that the private parts of a library are there. For the module that has just imported it.

    Raises ImportError that says which is not, of which version, and what to do.
    """
    for part in parts:
        if part.library == library and not hasattr(part.owner(sys.modules[part.module]), part.name):
            found = getattr(sys.modules[library], "__version__", "as it is installed")
            raise ImportError(
                f"{library} {found} has no {part.name} in {part.module}, which Headrace needs; "
                f"install a version that setup.cfg allows: python -m pip install -e ."
            )


def looked_up_host(connection: Any) -> str:
    """The host of a urllib3 connection as it is given to DNS, with the last dot of a name."""
    return str(connection._dns_host)


def response_below(raw: Any) -> Any:
    """http.client's response below one of urllib3; None for a stand-in."""
    return getattr(raw, "_fp", None)


def socket_below(file: Any) -> Any:
    """The socket below the file of an http.client response; None for a stand-in. The file itself is of no use
    after a time-out: it answers every read with "cannot read from timed out object" (CPython's `SocketIO`).
    """
    return getattr(getattr(file, "raw", None), "_sock", None)


def unwaiting_socket(connection: Any) -> Any:
    """The plain socket inside of gevent's; any other as it is."""
    return getattr(connection, "_sock", connection)


def flush_channel(channel: Any) -> None:
    """Send what a waitress channel holds, without closing it after that."""
    channel._flush_exception(channel._flush_some)


def close_pipes(process: Any) -> None:
    """Close the pipes of an asyncio process. asyncio does it when their other ends are closed, which a child
    that left the process group may never do, and a `Process` has no method for it.
    """
    process._transport.close()
