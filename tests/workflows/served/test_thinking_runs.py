"""A model that thinks, as those see it who look while it does: through the doors, the engine and the backend's socket."""

from __future__ import annotations

import json
import threading
import time

import pytest

from Middleware.api.console.run_texts import AnswerTimes
from Middleware.api.console.shapes import shape
from tests.e2e.answers import ROUTES
from tests.patience import PATIENCE_S
from tests.workflows.served.conftest import Recorder, observe

CHAT = "/v1/chat/completions"
SSE, NDJSON = "text/event-stream", "application/x-ndjson"
TAGS = {"removeThinking": True, "startThinkTag": "<think>", "endThinkTag": "</think>"}
NAMES = {"removeThinking": True, "thinkTagNames": ["think"]}
WAIT_S = PATIENCE_S


def sse(*chunks):
    return [f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks]


def lines(*chunks):
    return [json.dumps(chunk).encode() + b"\n" for chunk in chunks]


def delta(finish=None, **delta):
    return {"choices": [{"delta": delta, "finish_reason": finish}]}


def openai(*deltas):
    return SSE, sse(*(delta(**one) for one in deltas)), [*sse(delta("stop")), b"data: [DONE]\n\n"]


def claude(thought, text):
    start = {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}}
    think = {"type": "thinking_delta", "thinking": thought}
    say = {"type": "text_delta", "text": text}
    events = [
        {"type": "message_start", "message": {"usage": {}}},
        start,
        {"type": "content_block_delta", "index": 0, "delta": think},
        {"type": "content_block_delta", "index": 1, "delta": say},
    ]
    ends = [{"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, {"type": "message_stop"}]
    return (
        SSE,
        [f"event: {one['type']}\n".encode() + data for one, data in zip(events, sse(*events), strict=True)],
        [f"event: {one['type']}\n".encode() + data for one, data in zip(ends, sse(*ends), strict=True)],
    )


def ollama(key, **parts):
    def said(**fields):
        return {"message": {"role": "assistant", **fields}} if key == "message" else fields

    text = "content" if key == "message" else "response"
    events = lines(said(**{text: "", "thinking": "hm"}), said(**{text: "Hello"}))
    return NDJSON, events, lines({**said(**{text: ""}), "done": True, "done_reason": "stop"})


BACKENDS = {
    "reasoning-field": ("openAIChatCompletion", CHAT, {}, openai({"reasoning_content": "hm"}, {"content": "Hello"})),
    "blank-text-first": (
        "openAIChatCompletion", CHAT, {"trimBeginningAndEndLineBreaks": True},
        openai({"content": "\n"}, {"reasoning": "hm"}, {"content": "Hello"}),
    ),
    "parsed-out-of-the-text": (
        "openAIChatCompletion", CHAT, {"reasoningParser": "think"},
        openai({"content": "<think>"}, {"content": "hm"}, {"content": "</think>Hello"}),
    ),
    "sent-in-its-field": (
        "openAIChatCompletion", CHAT, {"reasoningOutput": "field"},
        openai({"reasoning_content": "hm"}, {"content": "Hello"}),
    ),
    "claude": ("claudeMessages", "/v1/messages", {}, claude("hm", "Hello")),
    "ollama-chat": ("ollamaApiChat", "/api/chat", {}, ollama("message")),
    "ollama-generate": ("ollamaApiGenerate", "/api/generate", {}, ollama("response")),
}  # fmt: skip
"""Kind of backend, path, fields of the endpoint, and `(content type, thought and text, end)`."""

CUT_BY_CLEANING = {
    "literal-tags": (TAGS, ["<think>", "hm", "</think>Hello"]),
    "names-of-tags": (NAMES, ["<think>h", "m", "</think>Hello"]),
    "only-the-closing-tag": ({**TAGS, "expectOnlyClosingThinkTag": True}, ["hm", "</think>Hello"]),
    "sent-in-its-field": ({**NAMES, "reasoningOutput": "field"}, ["<think>hm", "</think>Hello"]),
}

IN_THE_TEXT = (
    "openAIChatCompletion",
    CHAT,
    NAMES,
    openai({"content": "<think>hm"}, {"content": "</think>Hello"}),
)

NO_THOUGHTS = {
    "plain": ({}, ["Hel", "lo"]),
    "no-tag": (NAMES, ["Hel", "lo"]),
    "a-tag-that-stays-open": ({**TAGS, "whenEndThinkTagMissing": "keep"}, ["<think>", "Hello"]),
    "a-closing-tag-that-never-comes": (
        {**TAGS, "expectOnlyClosingThinkTag": True, "whenEndThinkTagMissing": "keep"}, ["Hel", "lo"]
    ),
}  # fmt: skip


class Watch(Recorder):
    """Knows when the first thought was told of."""

    def __init__(self, keeps_text=True):
        super().__init__(keeps_text)
        self.thinks = threading.Event()

    def note_change(self, run, what, node):
        super().note_change(run, what, node)
        if what == "first_thought":
            self.thinks.set()


class Thinker:
    """A backend, and the requests of a user whose workflow asks it.

    `halfway`: the run's `(state, first text, shape)` when the backend has sent its thought and nothing more; `think_s`:
    of the run that has ended.
    """

    def __init__(self, house, served, site):
        self._house, self._served, self._site = house, served, site
        self.watch, self.halfway = None, None

    def speaks(self, kind, path, fields, script):
        """Its last event before the end waits until the first thought was told of."""
        content_type, events, ends = script

        def answer(handler):
            handler.send_response(200)
            handler.send_header("Content-Type", content_type)
            handler.send_header("Connection", "close")
            handler.end_headers()
            handler.wfile.write(b"".join(events[:-1]))
            self.watch.thinks.wait(WAIT_S)
            self.halfway = self._now()
            handler.wfile.write(b"".join([events[-1], *ends]))
            handler.close_connection = True

        self._endpoint(kind, path, fields, answer)

    def says(self, fields, script):
        """All at once."""
        content_type, events, ends = script
        page = (200, {"Content-Type": content_type}, b"".join([*events, *ends]))
        self._endpoint("openAIChatCompletion", CHAT, fields, page)

    def ask(self, *nodes, route="openai-chat", stream=True, keeps_text=True, **user):
        self.watch = observe(self._served, Watch(keeps_text))
        self._house.workflow("Main", *(nodes or [asks("Answer")]))
        self._served.save_user(**user)
        text = self._served.text(route=route, stream=stream)
        assert self.watch.ended.wait(WAIT_S)
        return text

    @property
    def think_s(self):
        return AnswerTimes(self.watch.run, time.monotonic()).think_s

    @property
    def told(self):
        return [what for what in self.watch.told if what.startswith("first_thought")]

    def _endpoint(self, kind, path, fields, page):
        names = {"streamPropertyName": "stream", "maxNewTokensPropertyName": "max_tokens"}
        self._house.write("ApiTypes/Thinks", {"type": kind, "presetType": "any", **names})
        place = {"endpoint": self._site.url("").rstrip("/"), "apiTypeConfigFileName": "Thinks"}
        self._house.endpoint("thinker", **place, **fields)
        self._site.pages[path] = page

    def _now(self):
        """A second later, so that no part is too short to be shown."""
        run = self.watch.run
        return run.state, run.first_text, [part for part, _ in shape(run, time.monotonic() + 1)]


def asks(title):
    prompt = "{chat_user_prompt_last_one}"
    return {"type": "Standard", "endpointName": "thinker", "prompt": prompt, "title": title}


@pytest.fixture
def thinker(house, served, site):
    return Thinker(house, served, site)


class TestWhileItThinks:
    """The last part of the run is thinking, and grows; nothing has been said."""

    @pytest.mark.parametrize("backend", BACKENDS.values(), ids=BACKENDS)
    def test_beside_the_text(self, thinker, backend):
        """As each kind of backend sends its thoughts."""
        thinker.speaks(*backend)
        assert thinker.ask() == "Hello"
        state, first_text, parts = thinker.halfway
        assert (state, first_text, parts[-1]) == ("running", 0.0, "think")
        assert thinker.told == ["first_thought Answer"] and thinker.think_s > 0

    @pytest.mark.parametrize(("fields", "texts"), CUT_BY_CLEANING.values(), ids=CUT_BY_CLEANING)
    def test_in_the_text(self, thinker, fields, texts):
        """Where cleaning cuts them out."""
        script = openai(*({"content": text} for text in texts))
        thinker.speaks("openAIChatCompletion", CHAT, fields, script)
        assert thinker.ask() == "Hello"
        state, first_text, parts = thinker.halfway
        assert (state, first_text, parts[-1]) == ("running", 0.0, "think")
        assert thinker.told == ["first_thought Answer"] and thinker.think_s > 0

    def test_a_whole_answer_of_a_backend_that_streams(self, thinker):
        """The client gets it in one piece; who looks sees more."""
        kind, path, fields, script = BACKENDS["reasoning-field"]
        thinker.speaks(kind, path, {**fields, "backendStream": "always"}, script)
        assert thinker.ask(stream=False) == "Hello"
        assert thinker.halfway[2][-1] == "think" and thinker.think_s > 0

    def test_a_stream_that_nobody_asked_for(self, thinker):
        """In place of the whole answer that was wanted."""
        thinker.speaks(*BACKENDS["reasoning-field"])
        assert thinker.ask(stream=False) == "Hello"
        assert thinker.halfway[2][-1] == "think" and thinker.think_s > 0

    def test_a_nested_workflow(self, thinker, house):
        """Of the node that answers, however deep it is."""
        thinker.speaks(*BACKENDS["reasoning-field"])
        house.workflow("Child", asks("Inner"))
        thinker.ask({"type": "CustomWorkflow", "workflowName": "Child", "title": "Outer"})
        assert thinker.halfway[2][-1] == "think" and thinker.told == ["first_thought Inner"]

    @pytest.mark.parametrize("route", ROUTES)
    def test_every_client(self, thinker, route):
        """Whatever protocol it speaks, also where it is sent the thoughts."""
        thinker.speaks(*BACKENDS["sent-in-its-field"])
        assert thinker.ask(route=route) == "Hello"
        assert thinker.halfway[2][-1] == "think" and thinker.think_s > 0


class TestOnce:
    @pytest.mark.parametrize("thoughts", [1, 50])
    def test_however_many_there_are(self, thinker, thoughts):
        """Only the first is told of."""
        thinker.says({}, openai(*[{"reasoning_content": "hm"}] * thoughts, {"content": "Hello"}))
        thinker.ask()
        assert thinker.told == ["first_thought Answer"]

    def test_however_many_blocks_there_are(self, thinker):
        texts = ["<think>a</think>", "<think>b</think>", "Hello"]
        thinker.says(NAMES, openai(*({"content": text} for text in texts)))
        thinker.ask()
        assert thinker.told == ["first_thought Answer"]


@pytest.mark.parametrize(
    "facts", [{"keeps_text": False}, {"redactLogOutput": True}], ids=["facts", "private"]
)
@pytest.mark.parametrize("backend", [BACKENDS["reasoning-field"], IN_THE_TEXT], ids=["beside", "in-the-text"])
def test_where_no_texts_are_kept(thinker, facts, backend):
    """That a model thought is a time, no text: it stays when the run has ended."""
    thinker.speaks(*backend)
    thinker.ask(**facts)
    assert thinker.halfway[2][-1] == "think" and thinker.think_s > 0


class TestNoThinking:
    @pytest.mark.parametrize(("fields", "texts"), NO_THOUGHTS.values(), ids=NO_THOUGHTS)
    @pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
    def test_what_turns_out_to_be_text(self, thinker, fields, texts, stream):
        """It was no thought, whatever it looked like."""
        script = openai(*({"content": text} for text in texts))
        thinker.says({"backendStream": "always", **fields}, script)
        assert thinker.ask(stream=stream) == "".join(texts)
        assert thinker.think_s == 0
