"""Streams, whole answers and errors of llama.cpp (more-fronts.md 5.2, 5.4, 11.8)."""

from __future__ import annotations

import json

from hypothesis import given

from Middleware.protocols.llamacpp import PROTOCOL
from Middleware.protocols.registry import WIRE_FORMATS, AnswerFacts, ErrorReply, WholeAnswer
from tests.protocols.streams import WHOLE_CALL, both_forms, chunk, streams

WIRE = WIRE_FORMATS["llamacppcompletion"]
FACTS = AnswerFacts("R", "mira", created=1760000000)
TIMES = ("prompt_ms", "predicted_ms", "predicted_per_second")


def payload(unit):
    assert unit.startswith("data: ") and unit.endswith("\n\n") and unit.count("\n") == 2
    return json.loads(unit[6:])


def timeless(body):
    """Without what depends on the clock."""
    timings = {name: value for name, value in body["timings"].items() if name not in TIMES}
    return {**body, "timings": timings}


def test_text():
    """11.8, byte for byte."""
    assert WIRE.framer(FACTS).units([chunk("Well")]) == [
        'data: {"index":0,"content":"Well","tokens":[],"stop":false}\n\n'
    ]


def test_the_last_object():
    """Every field, in its order; the numbers are those of the backend."""
    framer = WIRE.framer(FACTS)
    framer.units([chunk("Well\nthen")])
    usage = {"prompt_tokens": 33, "completion_tokens": 4, "completion_duration_ns": 2_000_000_000}
    [last] = map(payload, framer.units([chunk("", "length", usage=usage)]))
    assert last["timings"].pop("prompt_ms") > 0
    assert json.dumps(last) == json.dumps(
        {
            "index": 0,
            "content": "",
            "tokens": [],
            "id_slot": 0,
            "stop": True,
            "model": "mira",
            "tokens_predicted": 4,
            "tokens_evaluated": 33,
            "generation_settings": {},
            "prompt": "",
            "has_new_line": True,
            "truncated": False,
            "stop_type": "limit",
            "stopping_word": "",
            "tokens_cached": 0,
            "timings": {
                "prompt_n": 33,
                "predicted_n": 4,
                "predicted_ms": 2000.0,
                "predicted_per_second": 2.0,
            },
        }
    )


def test_an_answer_that_ended_by_itself():
    """No limit was reached, and one line is no break."""
    framer = WIRE.framer(FACTS)
    framer.units([chunk("Well")])
    [last] = map(payload, framer.units([chunk("", "stop")]))
    assert (last["stop_type"], last["has_new_line"]) == ("eos", False)


def test_the_times_of_the_backend_are_milliseconds():
    usage = {"prompt_tokens": 8, "completion_tokens": 4, "prompt_duration_ns": 5_000_000}
    answer = WholeAnswer("Well", usage={**usage, "completion_duration_ns": 20_000_000})
    timings = WIRE.whole(answer, FACTS)["timings"]
    assert {name: timings[name] for name in TIMES} == {
        "prompt_ms": 5.0,
        "predicted_ms": 20.0,
        "predicted_per_second": 200.0,
    }


def test_neither_thoughts_nor_calls_have_a_place():
    """They are left out, and no end mark follows."""
    framer = WIRE.framer(FACTS)
    assert framer.units([chunk(thinking="hm"), chunk(tool_calls=[WHOLE_CALL])]) == []
    assert framer.end() == []


@given(streams)
def test_a_stream_says_what_the_whole_says(batches):
    """The same text, reason and numbers, however it is cut."""
    units, whole = both_forms(WIRE, FACTS, batches)
    *texts, last = [payload(unit) for unit in units]
    assert "".join(one["content"] for one in texts) == whole["content"]
    assert timeless({**last, "content": whole["content"]}) == timeless(whole)


def test_errors():
    """One object, as a body and in a stream."""
    reply = ErrorReply(502, "M")
    body = {"error": {"code": 502, "message": "M", "type": "server_error"}}
    assert PROTOCOL.error_body(reply) == body
    assert [payload(unit) for unit in WIRE.framer(FACTS).error(reply)] == [body]


def test_a_sign_of_life_is_a_comment():
    """No client takes it for text."""
    assert WIRE.framer(FACTS).heartbeat() == ":\n\n"
