"""The short way for events that differ only in their token gives what the long way gives."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from Middleware.common.types import TextBatch
from Middleware.config.endpoints import EndpointConfig
from Middleware.llmapis.call.repeated_form import MISSES, NO_FORM, RepeatedForm
from Middleware.llmapis.handlers import impl
from Middleware.llmapis.handlers.backends import BACKENDS
from Middleware.llmapis.handlers.base.base_llm_api_handler import HandlerSettings

_ = impl


def reader(kind="openAIChatCompletion"):
    config = EndpointConfig("E", {"endpoint": "http://h"}, "t", {"type": kind})
    return BACKENDS[kind](HandlerSettings(config, stream=True)).new_stream()


LEARNED = [
    ('{"a":"x","b":"tok"}', '{"a":"x","b":"', '"}'),
    ('{"t":"tok","n":null}', '{"t":"', '","n":null}'),
    ('["tok"]', '["', '"]'),
    ('{"tok":"tok"}', NO_FORM, NO_FORM),
    ('["tok","tok"]', NO_FORM, NO_FORM),
    ('{"tok":1}', NO_FORM, NO_FORM),
    ('{"t":"tok" }', NO_FORM, NO_FORM),
    ('{"t":"t\\u006fk"}', NO_FORM, NO_FORM),
    ('[1,2,"t\\u006fk"]', NO_FORM, NO_FORM),
]


@pytest.mark.parametrize(("text", "head", "tail"), LEARNED)
def test_what_is_learned(text, head, tail):
    """Only a token that stands there once, as a value, as it is."""
    form = RepeatedForm()
    form.learn("message", text, "tok")
    assert (form.head, form.tail) == (head, tail)


def test_learning_is_given_up():
    """A stream whose every event has its own time stamp costs nothing extra for long."""
    form = RepeatedForm()
    for number in range(MISSES + 5):
        form.learn("message", f'{{"at":{number},"t":"tok"}}', "tok")
    assert form.head == f'{{"at":{MISSES - 1},"t":"'


@given(
    st.lists(
        st.text(st.characters(exclude_categories=()), max_size=5)
        | st.sampled_from(["content", '"', "\\", "}}]}", "id", "\x00", "\u2028"]),
        max_size=12,
    ),
    st.booleans(),
    st.integers(1, 5),
)
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
def test_any_tokens(tokens, escaped, size):
    """Quotes, escapes, key names, control characters: every token comes out as it was."""
    tokens = [token.encode("utf-8", "replace").decode() for token in tokens]
    events = [
        "data: "
        + json.dumps({"id": "x", "choices": [{"delta": {"content": token}}]}, ensure_ascii=escaped)
        + "\n\n"
        for token in tokens
    ]
    stream = reader()
    out = []
    for start in range(0, len(events), size):
        out += stream.feed("".join(events[start : start + size]).encode())
    assert [chunk["token"] for chunk in out] == [token for token in tokens if token]


LOOKS = {
    "openAIChatCompletion": 'data: {"choices": [{"delta": {"content": %s}}]}\n\n',
    "koboldCppGenerate": 'event: message\ndata: {"token": %s, "finish_reason": null}\n\n',
    "ollamaApiChat": '{"model": "m", "message": {"content": %s}, "done": false}\n',
}
STRANGE = [": ping\n\n", "data: x\n\n", "event: other\ndata: {}\n\n", "\n", "retry: 5\n\n", '{"a": 1}\n']
"""What stands between events of one form, or within a read of them."""


@pytest.mark.parametrize("kind", LOOKS)
@given(
    tokens=st.lists(
        st.text(st.characters(exclude_categories=("Cs",)), max_size=4)
        | st.sampled_from(['"', "\\", "\n", "\r\n", "\n\ndata: ", "}}]}", "\x00"]),
        max_size=12,
    ),
    escaped=st.booleans(),
    between=st.lists(st.tuples(st.integers(0, 12), st.sampled_from(STRANGE)), max_size=1),
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_many_in_a_read_are_as_each_alone(kind, tokens, escaped, between):
    """Whatever stands in the tokens, and among the events: dicts and order are the same."""
    events = [LOOKS[kind] % json.dumps(token, ensure_ascii=escaped) for token in ["first", *tokens]]
    for at, strange in between:
        events.insert(at + 1, strange)
    one_by_one, together = reader(kind), reader(kind)
    alone = [chunk for event in events for chunk in one_by_one.feed(event.encode())]
    out = together.feed(events[0].encode())
    batch = together.feed("".join(events[1:]).encode())
    assert [*out, *batch] == alone
    if isinstance(batch, TextBatch):
        assert batch.text == "".join(chunk["token"] for chunk in batch)


@pytest.mark.parametrize("kind", LOOKS)
def test_a_read_of_text_alone(kind):
    """Says so, with the text joined; tokens with escapes are among them, empty ones are left out."""
    look, stream = LOOKS[kind], reader(kind)
    stream.feed((look % '"a"').encode())
    batch = stream.feed((look % '"b"' + look % r'"\"\n"' + look % '""' + look % '"c"').encode())
    assert isinstance(batch, TextBatch)
    assert batch == [{"token": token, "finish_reason": None} for token in ("b", '"\n', "c")]
    assert batch.text == 'b"\nc'


def test_a_read_of_empty_tokens(rig):
    """Is a tick."""
    stream = reader()
    stream.feed(rig.token("a").encode())
    assert stream.feed((rig.token("") * 2).encode()) == []


def test_a_batch_that_names_the_model():
    """Says more than text: a model that is named late stands in the first dict behind it."""
    look = 'data: {"choices": [{"delta": {"content": "%s"}}]}\n\n'
    stream = reader()
    stream.feed((look % "a").encode())
    stream.feed(b'data: {"model": "m", "choices": []}\n\n')
    batch = stream.feed((look % "b" + look % "c").encode())
    assert not isinstance(batch, TextBatch)
    assert [chunk.get("model") for chunk in batch] == ["m", None]


def test_another_event_with_the_same_text_is_not_taken(rig):
    """The name of the event counts."""
    data = 'data: {"token": "%s", "finish_reason": null}\n\n'
    stream = reader("koboldCppGenerate")
    out = stream.feed(("event: message\n" + data % "a").encode())
    out += stream.feed(("event: other\n" + data % "b").encode())
    out += stream.feed(("event: message\n" + data % "c").encode())
    assert [chunk["token"] for chunk in out] == ["a", "c"]


def test_bad_events_between_good_ones_do_not_add_up(rig):
    """Twenty-one in a row are too many, not twenty-one in all."""
    stream = reader()
    for _ in range(30):
        assert stream.feed((rig.token("a") + "data: x\n\n").encode()) == [
            {"token": "a", "finish_reason": None}
        ]
