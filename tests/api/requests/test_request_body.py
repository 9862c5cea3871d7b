"""A body that was looked at can be read as if nobody had."""

from __future__ import annotations

from io import BytesIO

import pytest
from werkzeug.exceptions import RequestEntityTooLarge
from werkzeug.wsgi import get_input_stream

from Middleware.api.requests.request_body import peeked, read_body
from Middleware.common.errors import ClientRequestError, RequestCancelled, Unsupported


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


class Odd:
    """A body whose server has errors of its own."""

    def __init__(self, error):
        self.error = error

    def read(self, *size):
        raise self.error


def body_of(error):
    return {"wsgi.input": Odd(error), "wsgi.input_terminated": True}


class TestReading:
    def test_the_body(self):
        """As it was sent; the coding `identity` is none."""
        environ = {
            "wsgi.input": BytesIO(b"hello"),
            "CONTENT_LENGTH": "5",
            "HTTP_CONTENT_ENCODING": "Identity",
        }
        assert read_body(environ) == b"hello"

    @pytest.mark.parametrize(
        "environ",
        [body_of(ConnectionResetError()), {"wsgi.input": BytesIO(b"hel"), "CONTENT_LENGTH": "5"}],
        ids=["reset", "short"],
    )
    def test_a_client_that_leaves_in_the_middle(self, environ):
        """By a reset, or before all that it promised: no error of ours, and none of its JSON."""
        with pytest.raises(RequestCancelled, match="left in the middle"):
            read_body(environ)

    def test_a_body_in_no_proper_form(self):
        """gunicorn's own words for a broken chunk size."""
        with pytest.raises(ClientRequestError, match="cannot be read: LookupError"):
            read_body(body_of(LookupError("invalid chunk")))

    @pytest.mark.parametrize("coding", ["gzip", "br, gzip", "x"])
    def test_a_coded_body(self, coding):
        """Named, and refused before it is read."""
        with pytest.raises(Unsupported, match=f"Content-Encoding '{coding}'") as refused:
            read_body({"HTTP_CONTENT_ENCODING": coding, **body_of(AssertionError())})
        assert refused.value.status_hint == 415

    def test_a_body_that_is_too_large(self):
        """Flask's own limit, in its own error."""
        with pytest.raises(RequestEntityTooLarge):
            read_body({"wsgi.input": BytesIO(b"hello"), "CONTENT_LENGTH": "5"}, 4)
