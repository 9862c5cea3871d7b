"""Streams, whole answers and errors of KoboldCpp (more-fronts.md 4.3, 4.4, 4.6, 11.8)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given

from Middleware.protocols.koboldcpp import PROTOCOL
from Middleware.protocols.registry import WIRE_FORMATS, AnswerFacts, ErrorReply, WholeAnswer
from tests.protocols.streams import WHOLE_CALL, both_forms, chunk, streams

WIRE = WIRE_FORMATS["koboldgenerate"]
FACTS = AnswerFacts("R", "mira", created=1760000000)


def payload(unit):
    assert unit.startswith("event: message\ndata: ") and unit.endswith("\n\n")
    return json.loads(unit.split("data: ", 1)[1])


def test_streamed():
    """11.8, byte for byte."""
    framer = WIRE.framer(FACTS)
    units = [*framer.units([chunk("Well")]), *framer.units([chunk("", "stop")]), *framer.end()]
    assert "".join(units) == (
        'event: message\ndata: {"token":"Well","finish_reason":null}\n\n'
        'event: message\ndata: {"token":"","finish_reason":"stop"}\n\n'
    )


@pytest.mark.parametrize(
    ("reason", "told"),
    [("length", "length"), ("stop", "stop"), ("content_filter", "stop"), ("tool_calls", "stop")],
)
def test_how_an_answer_ended(reason, told):
    """At its limit, or not; streamed and whole."""
    [unit] = WIRE.framer(FACTS).units([chunk("", reason)])
    assert payload(unit)["finish_reason"] == told
    assert WIRE.whole(WholeAnswer("Well", finish_reason=reason), FACTS)["results"][0]["finish_reason"] == told


def test_a_whole_answer_has_its_numbers():
    usage = {"prompt_tokens": 11, "completion_tokens": 7}
    assert WIRE.whole(WholeAnswer("Well", usage=usage), FACTS) == {
        "results": [{"text": "Well", "finish_reason": "stop", **usage}]
    }


def test_neither_thoughts_nor_calls_have_a_place():
    """They are left out."""
    assert WIRE.framer(FACTS).units([chunk(thinking="hm"), chunk(tool_calls=[WHOLE_CALL])]) == []


@given(streams)
def test_a_stream_says_what_the_whole_says(batches):
    """The same text and the same reason, however it is cut."""
    units, whole = both_forms(WIRE, FACTS, batches)
    [result] = whole["results"]
    streamed = [payload(unit) for unit in units]
    assert "".join(one["token"] for one in streamed) == result["text"]
    reasons = [one["finish_reason"] for one in streamed]
    assert reasons[-1] == result["finish_reason"] and set(reasons[:-1]) <= {None}


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "bad_input"),
        (401, "unauthorized"),
        (404, "not_found"),
        (429, "too_many_requests"),
        (503, "service_unavailable"),
        (502, "server_error"),
        (405, "server_error"),
    ],
)
def test_errors(status, kind):
    """As a body, and as an event that SillyTavern can show."""
    reply = ErrorReply(status, "M")
    assert PROTOCOL.error_body(reply) == {"detail": {"msg": "M", "type": kind}}
    assert WIRE.framer(FACTS).error(reply) == [
        f'event: error\ndata: {{"detail":{{"msg":"M","type":"{kind}"}},"error":{{"message":"M","type":"{kind}"}}}}\n\n'
    ]


def test_a_sign_of_life_is_a_comment():
    """No client takes it for text."""
    assert WIRE.framer(FACTS).heartbeat() == ":\n\n"


def test_what_was_sent_can_be_asked_for_meanwhile():
    """The list that the facts hold is filled as texts go out."""
    sent = []
    framer = WIRE.framer(AnswerFacts("R", "mira", sent=sent))
    framer.units([chunk("Well")])
    framer.units([chunk(" then"), chunk(thinking="hm")])
    assert sent == ["Well", " then"]
