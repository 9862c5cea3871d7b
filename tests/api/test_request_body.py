"""A body that was looked at can be read as if nobody had."""

from __future__ import annotations

from io import BytesIO

import pytest
from werkzeug.wsgi import get_input_stream

from Middleware.api.request_body import peeked


class Leaving:
    """The body of a client that hangs up in the middle."""

    def read(self, *size):
        raise ConnectionResetError("gone")


@pytest.mark.parametrize(
    "more",
    [{"CONTENT_LENGTH": "5"}, {"wsgi.input_terminated": True, "HTTP_TRANSFER_ENCODING": "chunked"}],
    ids=["length", "chunked"],
)
def test_it_is_read_again(more):
    """Told by its length or by its end."""
    environ = {"wsgi.input": BytesIO(b"hello"), **more}
    assert peeked(environ) == b"hello"
    assert get_input_stream(environ).read() == b"hello"
    assert peeked(environ) == b""  # the reader has it now


def test_no_body():
    """Nothing is there to be read."""
    assert peeked({"wsgi.input": BytesIO(b"of the next request")}) == b""


def test_a_body_that_breaks_off():
    """Its reader meets the error, whoever looked before."""
    environ = {"wsgi.input": Leaving(), "wsgi.input_terminated": True}
    assert peeked(environ) == b""
    with pytest.raises(ConnectionResetError):
        get_input_stream(environ).read()
