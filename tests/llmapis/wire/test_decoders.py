"""Bytes to events: every rule of the framing, and that no cut of the bytes changes anything."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from Middleware.llmapis.wire.decoders import LineTooLong, NdjsonDecoder, SseDecoder


def decoded(decoder, *reads: bytes):
    events = [event for read in reads for event in decoder.feed(read)]
    return events + decoder.finish()


SSE_CASES = [
    ("plain", b"data: 1\n\ndata: 2\n\n", [("message", "1"), ("message", "2")]),
    ("crlf", b"data: 1\r\n\r\ndata: 2\r\n\r\n", [("message", "1"), ("message", "2")]),
    ("cr-only", b"data: 1\r\rdata: 2\r\r", [("message", "1"), ("message", "2")]),
    ("a-cr-between-two-data-lines", b"data: a\rdata: b\n\n", [("message", "a\nb")]),
    ("a-cr-within-a-named-event", b"event: x\ndata: a\rdata: b\n\n", [("x", "a\nb")]),
    ("no-space-after-colon", b"data:1\n\n", [("message", "1")]),
    ("only-one-space-is-optional", b"data:  1\n\n", [("message", " 1")]),
    ("comments-and-other-fields", b": hi\nid: 3\nretry: 5\ndata: 1\n\n", [("message", "1")]),
    ("data-lines-are-joined", b"data: a\ndata: b\n\n", [("message", "a\nb")]),
    ("a-bare-data-line-is-empty-data", b"data: a\ndata\n\n", [("message", "a\n")]),
    ("name-resets", b"event: x\ndata: 1\n\ndata: 2\n\n", [("x", "1"), ("message", "2")]),
    ("name-resets-without-data", b"event: x\n\ndata: 2\n\n", [("message", "2")]),
    ("an-empty-name-is-message", b"event:\ndata: 1\n\n", [("message", "1")]),
    ("bom", b"\xef\xbb\xbfdata: 1\n\n", [("message", "1")]),
    ("a-bom-later-is-text", "\ufeffdata: 1\n\n\ufeffdata: 2\n\ndata: \ufeff".encode(), [("message", "1"), ("message", "\ufeff")]),
    ("another-field-before-the-data", b"retry: 5\ndata: 1\n\nretry: 5\ndata: 2\n\n", [("message", "1"), ("message", "2")]),
    ("a-name-and-no-data", b"event: x\nretry: 5\n\ndata: 1\n\n", [("message", "1")]),
    ("bom-alone", b"\xef\xbb\xbf", []),
    ("half-a-bom-is-text", b"\xef\xbb", []),
    ("pending-event-at-the-end", b"data: 1", [("message", "1")]),
    ("pending-event-with-line-end", b"data: 1\r", [("message", "1")]),
    ("no-blank-lines", b'data: {"a":1}\ndata: {"b":2}\ndata: [DONE]\n', [("message", '{"a":1}'), ("message", '{"b":2}'), ("message", "[DONE]")]),
    ("bare-json-lines", b'{"a":1}\n{"b":2}\n', [("message", '{"a":1}'), ("message", '{"b":2}')]),
    ("json-over-two-lines", b'data: {"a":\ndata: 1}\n\n', [("message", '{"a":\n1}')]),
    ("error-line", b'data: 1\nerror: {"m":1}\n', [("message", "1"), ("error", '{"m":1}')]),
    ("strange-line-ends-are-text", "data: a\u2028b\u0085c\x0bd\x0ce\x1cf\n\n".encode(), [("message", "a\u2028b\u0085c\x0bd\x0ce\x1cf")]),
    ("invalid-utf8", b"data: a\xff\n\n", [("message", "a\ufffd")]),
    ("nothing", b"", []),
]  # fmt: skip

NDJSON_CASES = [
    ("lines", b'{"a":1}\n{"b":2}\n', ['{"a":1}', '{"b":2}']),
    ("crlf-and-blank-lines", b'{"a":1}\r\n\r\n \n{"b":2}', ['{"a":1}', '{"b":2}']),
    ("a-blank-line-between-two", b'{"a":1}\n\n{"b":2}\n', ['{"a":1}', '{"b":2}']),
    ("a-blank-line-at-the-end", b'{"a":1}\n\n', ['{"a":1}']),
    ("white-space-around", b'{"a":1}\n \t{"b":2} \t\n', ['{"a":1}', '{"b":2}']),
    ("cr-only", b'{"a":1}\r{"b":2}\r', ['{"a":1}', '{"b":2}']),
    ("a-cr-between-two-lines", b'{"a":1}\r{"b":2}\n', ['{"a":1}', '{"b":2}']),
    ("data-prefix", b'data: {"a":1}\n', ['{"a":1}']),
    ("bom", b'\xef\xbb\xbf{"a":1}\n', ['{"a":1}']),
    ("u2028", '{"a":"\u2028"}\n'.encode(), ['{"a":"\u2028"}']),
]


class TestSse:
    @pytest.mark.parametrize(
        ("body", "events"), [case[1:] for case in SSE_CASES], ids=[c[0] for c in SSE_CASES]
    )
    def test_whole_and_byte_by_byte(self, body, events):
        """Each rule, with the bytes in one piece and one by one."""
        assert decoded(SseDecoder(), body) == events
        assert decoded(SseDecoder(), *(body[i : i + 1] for i in range(len(body)))) == events

    @pytest.mark.parametrize(
        ("reads", "events"),
        [
            ([b"data: a\n", b"data: b\n\n"], [("message", "a\nb")]),
            ([b"event: x\n", b"data: b\n\n"], [("x", "b")]),
            ([b": hi\n\nda", b"ta: b\n\n"], [("message", "b")]),
            ([b": hi\n\ndata: a\r", b"\ndata: b\n\n"], [("message", "a\nb")]),
            ([b"\xef\xbb", b"\xbfdata: b\n\n"], [("message", "b")]),
            ([b"data: a\n\ndata: b\n"], [("message", "a"), ("message", "b")]),
            ([b"event: x\ndata: a\n\nevent: y\ndata: b\n"], [("x", "a"), ("y", "b")]),
        ],
        ids=["data-waits", "a-name-waits", "half-a-line-waits", "a-cr-waits", "half-a-bom-waits", "no-blank-line", "named-without"],
    )  # fmt: skip
    def test_the_short_way_is_for_whole_plain_events_only(self, reads, events):
        """What an earlier read left counts, and so does what is not finished."""
        assert decoded(SseDecoder(), *reads) == events

    @given(
        st.lists(
            st.sampled_from(
                [
                    b"data: ",
                    b'{"a":1}',
                    b"\n",
                    b"\r",
                    b"\r\n",
                    b"\n\n",
                    b"event: x",
                    b": c",
                    b"\xc3\xa9",
                    b"\xef\xbb\xbf",
                    b"[DONE]",
                    b"error: y",
                ]
            ),
            max_size=14,
        ),
        st.lists(st.integers(0, 60), max_size=6),
    )
    @settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
    def test_no_cut_changes_anything(self, pieces, cuts):
        """Any bytes, cut anywhere, give the same events."""
        body = b"".join(pieces)
        edges = [0, *sorted(cuts), len(body)]
        reads = [body[a:b] for a, b in pairwise(edges)]
        assert decoded(SseDecoder(), *reads) == decoded(SseDecoder(), body)

    @pytest.mark.parametrize(
        "reads", [[b"data: " + b"x" * 40], [b"data: xxxxxxxxxx\n"] * 4], ids=["a-line", "an-event"]
    )
    def test_what_is_too_long_is_an_error(self, reads):
        """Neither an endless line nor an endless event fills the memory."""
        decoder = SseDecoder(limit=30)
        with pytest.raises(LineTooLong, match="longer than 30 bytes"):
            decoded(decoder, *reads)


class TestNdjson:
    @pytest.mark.parametrize(
        ("body", "lines"), [case[1:] for case in NDJSON_CASES], ids=[c[0] for c in NDJSON_CASES]
    )
    def test_whole_and_byte_by_byte(self, body, lines):
        """One event a line, however it is cut, and behind other lines."""
        events = [("message", line) for line in lines]
        assert decoded(NdjsonDecoder(), body) == events
        assert decoded(NdjsonDecoder(), b"{}\n", body.removeprefix(b"\xef\xbb\xbf")) == [
            ("message", "{}"),
            *events,
        ]
        assert decoded(NdjsonDecoder(), *(body[i : i + 1] for i in range(len(body)))) == events


@pytest.mark.parametrize(("decoder", "event"), [(SseDecoder, b"data: 1\n\n"), (NdjsonDecoder, b'{"a": 1}\n')])
def test_whole_events_are_not_taken_apart(decoder, event, monkeypatch):
    """Where nothing is held, bytes that end an event go by what collects lines; the first may begin with a BOM."""
    read, fed = decoder(), []
    collect = read._lines.feed
    monkeypatch.setattr(read._lines, "feed", lambda data: fed.append(data) or collect(data))
    for _ in range(2):
        assert len(read.feed(event)) == len(read.feed(event * 2)) / 2 == 1
    assert fed == [event]
    read.feed(event[:3]), read.feed(event[3:])
    assert fed == [event, event[:3], event[3:]]
