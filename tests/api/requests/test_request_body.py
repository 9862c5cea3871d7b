"""A body that was looked at can be read as if nobody had."""

from __future__ import annotations

from io import BytesIO

import pytest
from werkzeug.exceptions import RequestEntityTooLarge
from werkzeug.wsgi import get_input_stream

from Middleware.api.requests.request_body import LimitedBody, check_length, limit_body, peek_body, read_body
from Middleware.common.errors import ClientRequestError, RequestCancelled, TooLarge, Unsupported


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
    assert peek_body(environ) == b"hello"
    assert get_input_stream(environ).read() == b"hello"
    assert peek_body(environ) == b""  # the reader has it now


def test_each_look_sees_the_whole_body():
    """The server's stream is read once."""
    environ = {"wsgi.input": BytesIO(b"hello"), "CONTENT_LENGTH": "5"}
    assert [peek_body(environ), peek_body(environ), read_body(environ)] == [b"hello"] * 3


def test_no_body():
    """Nothing is there to be read."""
    assert peek_body({"wsgi.input": BytesIO(b"of the next request")}) == b""


def test_a_body_that_breaks_off():
    """Its reader meets the error, whoever looked before."""
    environ = {"wsgi.input": Leaving(), "wsgi.input_terminated": True}
    assert peek_body(environ) == b""
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
        with pytest.raises(RequestCancelled, match="disconnected before"):
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


CHUNKED = {"wsgi.input_terminated": True, "HTTP_TRANSFER_ENCODING": "chunked"}


class TestLimit:
    """One limit, declared or chunked (frontend-api.md 12.1)."""

    @pytest.mark.parametrize("more", [{"CONTENT_LENGTH": "5"}, CHUNKED], ids=["length", "chunked"])
    def test_as_much_as_is_allowed(self, more):
        """It is read as if nobody counted, and then nothing is left."""
        environ = {"wsgi.input": BytesIO(b"hello"), **more}
        body = limit_body(environ, 5)
        assert read_body(environ) == b"hello" and body.ended

    def test_too_much_is_not_held(self):
        """It is refused at the first piece beyond the limit."""
        stream = BytesIO(bytes(20_000_000))
        environ = {"wsgi.input": stream, **CHUNKED}
        body = limit_body(environ, 2_000_000)
        with pytest.raises(
            TooLarge, match=r"larger than 1.90735 MiB; allow more with --max-body-mb"
        ) as refused:
            read_body(environ)
        assert refused.value.status_hint == 413 and not body.ended
        assert stream.tell() < 3_500_000

    def test_too_much_of_a_body_that_is_looked_at_before(self):
        """Its reader meets the refusal."""
        environ = {"wsgi.input": BytesIO(b"hello!"), **CHUNKED}
        limit_body(environ, 5)
        assert peek_body(environ) == b""
        with pytest.raises(TooLarge):
            read_body(environ)

    @pytest.mark.parametrize(
        "environ", [{}, {"CONTENT_LENGTH": ""}, {"CONTENT_LENGTH": "0"}, {"CONTENT_LENGTH": "x"}]
    )
    def test_no_body(self, environ):
        """Nothing is counted, and nothing is left."""
        environ = {"wsgi.input": BytesIO(b"of the next request"), **environ}
        assert limit_body(environ, 5) is None
        check_length(environ, 5)

    @pytest.mark.parametrize(("length", "refused"), [("5", False), ("6", True), ("9" * 30, True)])
    def test_a_declared_length(self, length, refused):
        """It is refused before a byte is read."""
        if not refused:
            check_length({"CONTENT_LENGTH": length}, 5)
            return
        with pytest.raises(TooLarge):
            check_length({"CONTENT_LENGTH": length}, 5)

    def test_a_body_that_breaks_off_is_at_its_end(self):
        """Nothing more can be read of it."""
        body = LimitedBody(Leaving(), 5, None)
        with pytest.raises(ConnectionResetError):
            body.read()
        assert body.ended and body.read() == b""

    def test_in_pieces(self):
        """As any file is read; what is skipped counts for no limit."""
        body = LimitedBody(BytesIO(b"a\nbc\ndefg"), 6, None)
        assert (body.readline(), body.read(2)) == (b"a\n", b"bc")
        assert body.skip(3) == 3
        with pytest.raises(TooLarge):
            body.read(1)
