"""The short way for events that differ only in their token gives what the long way gives."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from Middleware.config.endpoints import EndpointConfig
from Middleware.llmapis.call.stream_reader import MISSES, NO_FORM, RepeatedForm
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
