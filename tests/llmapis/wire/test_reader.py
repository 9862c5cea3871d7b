"""Framings and codings by themselves, and what is left of a body."""

from __future__ import annotations

import gzip
import socket
import types
import zlib
from itertools import combinations, pairwise
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from Middleware.llmapis.wire.reader import (
    BodyCut,
    BodyFault,
    ChunkedFraming,
    CountedFraming,
    Inflater,
    OpenFraming,
    SocketBody,
    body_of,
)


@pytest.fixture
def pair():
    """`(ours, theirs)`: two ends of a connection."""
    ours, theirs = socket.socketpair()
    yield ours, theirs
    ours.close()
    theirs.close()


def body(sock, framing, inflater=None, buffered=b""):
    return SocketBody(sock, framing, inflater, lambda: buffered)


class TestChunked:
    @given(
        st.lists(st.binary(min_size=1, max_size=300), max_size=6),
        st.lists(st.integers(0, 900), max_size=6),
        st.sampled_from([b"%X\r\n%s\r\n", b"%x;x=1\r\n%s\r\n", b"00%x\n%s\n"]),
    )
    @settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
    def test_no_cut_changes_anything(self, pieces, cuts, form):
        """Any chunks, plain or with an extension, cut anywhere."""
        wire = b"".join(form % (len(piece), piece) for piece in pieces) + b"0\r\nA: b\r\n\r\n"
        edges = [0, *sorted(cuts), len(wire)]
        framing = ChunkedFraming()
        out = b"".join(framing.feed(wire[a:b]) for a, b in pairwise(edges))
        assert (out, framing.done) == (b"".join(pieces), True)

    @pytest.mark.parametrize(
        "text", [b"3\r\nabc\r\n", b"0\r\n\r\n", b"\r\n3\r\nabc\r\n", b"\n3\r\n"], ids=repr
    )
    def test_a_text_that_looks_like_a_chunk(self, text):
        """Wherever a read begins and ends in it."""
        content = b"see " + text * 2 + b"!"
        wire = b"%x\r\n%s\r\n1\r\n.\r\n0\r\n\r\n" % (len(content), content)
        for begin, end in combinations(range(1, len(wire)), 2):
            framing = ChunkedFraming()
            out = b"".join(map(framing.feed, (wire[:begin], wire[begin:end], wire[end:])))
            assert (out, framing.done) == (content + b".", True)

    @given(
        st.lists(st.sampled_from([b"a" * 250, b"b", b"a\nb\rc" * 9, b"\r\n", b"a\r\n1\r\nb"]), max_size=30),
        st.lists(st.integers(0, 8000), max_size=6),
        st.sampled_from([b"0\r\n\r\n", b"00\r\nA: b\r\nC: d\r\n\r\n", b"0;x=1\r\n\r\n"]),
        st.sampled_from([b"%X\r\n%s\r\n", b"%x;x=1\r\n%s\r\n", b"00%x\n%s\n", b"0%X\r\n%s\r\n"]),
    )
    @settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
    def test_many_in_a_read(self, pieces, cuts, last, form):
        """Chunks that are taken all at once, and such as look alike but hold line ends."""
        plain = [b"c" * 200] * 12
        wire = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in plain)
        wire += b"".join(form % (len(piece), piece) for piece in pieces) + last
        edges = [0, *sorted(cuts), len(wire)]
        framing = ChunkedFraming()
        out = b"".join(framing.feed(wire[a:b]) for a, b in pairwise(edges))
        assert (out, framing.done) == (b"".join([*plain, *pieces]), True)

    @pytest.mark.parametrize("head", [b"x", b"", b"-1", b"+1", b"1_0", b"7"])
    @pytest.mark.parametrize("fill", [40, 4000])
    def test_nonsense_among_many(self, head, fill):
        """Is found behind chunks that are good, however many bytes a read brings."""
        good = b"5\r\nabcde\r\n" * (fill // 10)
        with pytest.raises(BodyFault):
            ChunkedFraming().feed(good + head + b"\r\nabcde\r\n" + good)

    @pytest.mark.parametrize("wire", [b"x\r\n", b"\r\n", b"-1\r\n", b"+1\r\n", b"1_0\r\n", b"1\r\nabc"])
    @pytest.mark.parametrize("rest", [b"", b"a\r\n0\r\n\r\n", b"a" * 16 + b"\r\n0\r\n\r\n"], ids=len)
    def test_nonsense(self, wire, rest):
        """Is told from a break, whatever stands behind it."""
        with pytest.raises(BodyFault):
            ChunkedFraming().feed(wire + rest)

    def test_a_size_without_an_end(self):
        """Nobody waits for it for ever."""
        with pytest.raises(BodyFault):
            ChunkedFraming().feed(b"1" * 20000)


class TestInflater:
    @pytest.mark.parametrize("size", [1, 2, 3, 999])
    @pytest.mark.parametrize("kind", ["gzip", "zlib", "raw", "padded", "trailing"])
    def test_any_cut(self, kind, size):
        """Members one after the other, wrappers or none, padding, rubbish behind the end of deflate."""
        text = b"hello " * 50
        raw = zlib.compressobj(wbits=-15)
        data = {
            "gzip": gzip.compress(text[:7]) + gzip.compress(text[7:]),
            "padded": gzip.compress(text) + b"\0\0\0",
            "zlib": zlib.compress(text),
            "trailing": zlib.compress(text) + b"rubbish",
            "raw": raw.compress(text) + raw.flush(),
        }[kind]
        inflater = Inflater("gzip" if kind in ("gzip", "padded") else "deflate")
        assert b"".join(inflater.feed(data[i : i + size]) for i in range(0, len(data), size)) == text

    @pytest.mark.parametrize("coding", ["gzip", "deflate"])
    def test_not_compressed_at_all(self, coding):
        """The header lies."""
        with pytest.raises(BodyFault):
            Inflater(coding).feed(b"\xffnothing of the kind")


class TestSocketBody:
    def test_bytes_that_decode_to_nothing_yet(self, pair):
        """A half chunk head is no output, and no tick either."""
        ours, theirs = pair
        theirs.sendall(b"\r\na\r\n0\r\n\r\n")
        assert list(body(ours, ChunkedFraming(), buffered=b"1").reads(tick_s=1, limit_s=9)) == [b"a"]

    def test_a_tick_while_only_such_bytes_come(self, pair):
        """The stream lives, though nothing can be said."""
        ours, theirs = pair
        theirs.sendall(b"1\r\na")
        reads = body(ours, ChunkedFraming(), buffered=b"1;").reads(tick_s=0.0, limit_s=9)
        assert next(reads) == b""

    def test_an_error_on_the_socket_is_not_swallowed_by_the_first_look(self, pair):
        """A reset must not pass for the end of an open body."""
        ours, _ = pair

        def reset():
            raise ConnectionResetError("reset")

        with pytest.raises(ConnectionResetError):
            next(SocketBody(ours, OpenFraming(), None, reset).reads(tick_s=1, limit_s=9))

    def test_a_non_blocking_look_that_finds_nothing(self, pair):
        """As TLS says it."""
        ours, theirs = pair
        theirs.sendall(b"a")

        def nothing():
            raise BlockingIOError

        assert next(SocketBody(ours, OpenFraming(), None, nothing).reads(tick_s=1, limit_s=9)) == b"a"

    def test_eof_in_a_counted_body(self, pair):
        """Is a cut."""
        ours, theirs = pair
        theirs.close()
        with pytest.raises(BodyCut):
            list(body(ours, CountedFraming(3), buffered=b"ab").reads(tick_s=1, limit_s=9))

    DRAINS: ClassVar = [
        ("rest-is-there", b"0\r\n\r\n", False, True),
        ("rest-does-not-come", b"0\r\n", False, False),
        ("closed", b"", True, False),
        ("nonsense", b"zz\r\n", False, False),
    ]

    @pytest.mark.parametrize(
        ("rest", "close", "complete"), [d[1:] for d in DRAINS], ids=[d[0] for d in DRAINS]
    )
    def test_draining(self, pair, rest, close, complete):
        """After the end mark the last chunk is waited for, a little."""
        ours, theirs = pair
        theirs.sendall(rest)
        if close:
            theirs.close()
        assert body(ours, ChunkedFraming()).drain(0.05) is complete

    def test_an_open_body_is_never_drained(self, pair):
        """It has no end but the close."""
        assert body(pair[0], OpenFraming()).drain(5) is False


def test_a_stand_in_that_can_only_iterate():
    """The last resort."""
    raw = types.SimpleNamespace(headers={})
    response = types.SimpleNamespace(raw=raw, iter_content=lambda chunk_size: iter([b"a", b"b"]))
    made = body_of(response)
    assert made.drain(1) is False
    assert list(made.reads(tick_s=1, limit_s=1)) == [b"a", b"b"]
    assert made.complete
