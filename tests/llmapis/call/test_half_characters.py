"""A character that a server cuts in two halves is whole in a stream, wherever it stands."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from Middleware.llmapis.call.half_characters import whole_characters

LOOKS = {
    "openAIChatCompletion": 'data: {"choices": [{"delta": {"content": %s}}]}\n\n',
    "openAIV1Completion": 'data: {"choices": [{"text": %s}]}\n\n',
    "koboldCppGenerate": 'event: message\ndata: {"token": %s, "finish_reason": null}\n\n',
    "ollamaApiChat": '{"model": "m", "message": {"content": %s}, "done": false}\n',
    "claudeMessages": 'data: {"type": "content_block_delta", "delta": {"type": "text_delta", "text": %s}}\n\n',
}
EMOJI = "\U0001f600"
HIGH, LOW = "\ud83d", "\ude00"


def units(text):
    """Its characters, those of two halves in two."""
    data = text.encode("utf-16-le", "surrogatepass")
    return [data[at : at + 2].decode("utf-16-le", "surrogatepass") for at in range(0, len(data), 2)]


def quoted(token, escaped):
    """JSON; a half can be written as an escape alone."""
    return json.dumps(token, ensure_ascii=escaped or any("\ud800" <= c <= "\udfff" for c in token))


@pytest.mark.parametrize("kind", LOOKS)
@given(
    text=st.text(st.sampled_from(["a", '"', "\n", "é", EMOJI, "\U0001f680", HIGH, LOW]), max_size=12),
    size=st.integers(1, 3),
    read=st.integers(1, 5),
    escaped=st.booleans(),
)
@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text(kind, text, size, read, escaped, make_handler, read_stream):
    """Cut between any two halves, in the short way of events alike and in the long one: what was cut is
    whole, and half characters of the model stay."""
    halves = units(text)
    tokens = ["first", *("".join(halves[at : at + size]) for at in range(0, len(halves), size))]
    events = [LOOKS[kind] % quoted(token, escaped) for token in tokens]
    reads = ["".join(events[at : at + read]).encode() for at in range(0, len(events), read)]
    chunks = read_stream(make_handler(kind), reads)
    said = "".join(chunk["token"] for chunk in chunks)
    assert ascii(said) == ascii(whole_characters(f"first{text}"))  # pytest-xdist cannot report halves
    assert all(chunk["token"] or chunk["finish_reason"] for chunk in chunks)


@pytest.fixture
def said(make_handler, read_stream):
    """The dicts of a stream of these deltas, each in a read of its own."""

    def say(*deltas, reason="stop", endpoint=None):
        choices = [{"delta": delta, "finish_reason": None} for delta in deltas]
        choices.append({"delta": {}, "finish_reason": reason})
        events = [f"data: {json.dumps({'choices': [choice]})}\n\n".encode() for choice in choices]
        return read_stream(make_handler("openAIChatCompletion", endpoint=endpoint), events)

    return say


def test_text_thoughts_and_calls(said, joined):
    """Each waits for its own other half, also for one that comes behind something else."""

    def call(index, arguments, **more):
        function = {"arguments": arguments, **more}
        return {"tool_calls": [{"index": index, "id": f"c{index}", "function": function}]}

    answer = joined(
        said(
            {"reasoning_content": f"t{HIGH}"},
            {"content": f"x{HIGH}"},
            {"reasoning_content": LOW},
            {"content": LOW},
            call(0, '{"a": "' + HIGH, name="f"),
            call(1, '{"b": "' + HIGH, name="f"),
            call(0, LOW + '"}'),
            call(1, LOW + '"}'),
            reason="tool_calls",
        )
    )
    assert (answer["text"], answer["thinking"]) == (f"x{EMOJI}", f"t{EMOJI}")
    assert [made["arguments"] for made in answer["calls"]] == [{"a": EMOJI}, {"b": EMOJI}]


def test_thoughts_within_the_text(said, joined):
    """A mark that is held stays in front of a half that is held."""
    parser = {"reasoningParser": "think"}
    answer = joined(
        said({"content": f"<think>{HIGH}"}, {"content": f"{LOW}</think>b<{HIGH}"}, endpoint=parser)
    )
    assert (answer["thinking"], answer["text"]) == (EMOJI, f"b<{HIGH}")


def test_an_answer_of_one_half_alone(make_handler, read_stream):
    """It is an answer, though nothing follows and no end mark comes."""
    event = f'data: {{"choices": [{{"delta": {{"content": {json.dumps(HIGH)}}}}}]}}\n\n'
    first, last = read_stream(make_handler("openAIChatCompletion"), [event.encode()])
    assert (first["token"], last["truncated"]) == (HIGH, True)


def test_nothing_waits_but_the_half(make_handler):
    """What stands before it goes out at once, also in the short way of events alike."""
    look = LOOKS["openAIChatCompletion"]
    reader = make_handler("openAIChatCompletion").new_stream()
    given_out = [
        [chunk["token"] for chunk in reader.feed((look % json.dumps(token)).encode())]
        for token in ("a", f"b{HIGH}", LOW, "c", "d")
    ]
    assert given_out == [["a"], ["b"], [EMOJI], ["c"], ["d"]]
